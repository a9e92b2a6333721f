//! The `chunks` operator: lists of a fixed number of records.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::Data;
use crate::error::Result;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Details, Origin, Scope, TaskContext};
use crate::stream::{Chain, Stream};
use crate::support::owned_heap::{OwnedHeap, Wording};
use crate::time::Time;
use std::collections::VecDeque;
use std::mem::take;

/// The most records that memory is allocated for when a chunk begins. A larger chunk grows as it fills, as so
/// many records may never arrive.
const AT_ONCE: usize = 1024;

impl<D: Data, C: Chain<Item = D>> Stream<C> {
    /// Groups records into lists of `size`, in the order in which each task has them.
    ///
    /// For work that is faster on many records at once, such as vector instructions, calls into a library for
    /// matrices, or requests to a server that accepts lists. To count or to aggregate so many records use a
    /// [`CountWindow`](crate::operators::window::CountWindow), which covers the records of all tasks or those
    /// of one key.
    ///
    /// A chunk is shorter where the input or a round of a loop ends, and where a watermark comes between two
    /// records. On an unbounded stream that becomes idle, the records of an incomplete chunk wait for more. Costs
    /// a move of each record and an allocation per chunk; up to `size` records are held in each task. A chunk has
    /// the latest timestamp of its records.
    ///
    /// [Checkpoints](crate::config::CheckpointConfig) have the incomplete chunks, and cut none. A job that goes on
    /// with fewer tasks fills up those that come to one task, in turn; with event time, it emits all but the last
    /// of them as they are.
    ///
    /// Chunks in front of [`assign_timestamps`](Self::assign_timestamps), in the same tasks or behind
    /// [`forward`](Self::forward), are cut by checkpoints: a task goes on with other parts of the source, whose
    /// records would be late behind a chunk of both. In the stage of a source that has a watermark for each file or
    /// split, a change of these ends a chunk, too. Assign timestamps before `chunks` to have them uncut.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(0..7_u32).parallelism(1).chunks(3).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// With a `size` of 0, the job is refused at its start. It stops when the memory budget does not hold the
    /// incomplete chunks.
    #[doc(alias("batch", "buffer"))]
    #[track_caller]
    pub fn chunks(self, size: usize) -> Stream<Chunks<C>> {
        let origin = Origin::here("chunks");
        let chunks = self.then_described(origin, Details::of("size", size), |prev, op| Chunks {
            prev,
            op,
            size,
        });
        if size == 0 {
            chunks.refuse(crate::Error::new(crate::ErrorKind::Plan, "chunks of no records"));
        }
        chunks.with_state::<Vec<D>>(Scope::Task)
    }
}

/// The chain that ends in chunks.
pub struct Chunks<C> {
    prev: C,
    op: usize,
    size: usize,
}

impl<D: Data, C: Chain<Item = D>> Chain for Chunks<C> {
    type Item = Vec<D>;
    type Time = C::Time;
    type Task<N: Push<Vec<D>, C::Time> + 'static> = C::Task<ChunksPush<D, C::Time, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Vec<D>, C::Time> + 'static,
    {
        let (op, size) = (cx.op(self.op), self.size);
        let dealt = Redistribution::Dealt;
        let saved = cx.state_for_any_details::<Chunk<D, C::Time>>(self.op, "open", dealt);
        let (complete, open) = restored(&saved, size)?;
        let mut heap = OwnedHeap::new(cx, self.op, WORDING);
        heap.changed();
        // Once one task is made that has event time before the chunks, the others of its stage seem to get it in order.
        let is_partitioned = C::Time::LAST.timestamp().is_none() && cx.gets_time_in_order();
        let push = ChunksPush {
            op,
            size,
            open,
            complete,
            held: None,
            is_partitioned,
            saved,
            heap,
            emitted: 0,
            next,
        };
        self.prev.attach(cx, push)
    }
}

const WORDING: Wording = Wording { state: "an incomplete chunk", less: "smaller chunks need less" };

/// The chunks that a task begins with: complete ones, and an open one. There may have been more tasks than now, and chunks of
/// another size.
fn restored<D: Data, T: Time>(saved: &StateHandle, size: usize) -> Result<Restored<D, T>> {
    let (mut complete, mut open) = (VecDeque::new(), Chunk::default());
    let is_timed = T::LAST.timestamp().is_some();
    saved.restore(|Chunk { records, latest }: Chunk<D, T>| {
        // The timestamps of single records are not known: with those of another task, some would count as later than they are.
        if is_timed && open.latest.is_some() {
            complete.push_back(take(&mut open));
        }
        let Some(latest) = latest else { return Ok(()) };
        for record in records {
            if open.add(record, latest, size) {
                complete.push_back(take(&mut open));
            }
        }
        Ok(())
    })?;
    Ok((complete, open))
}

type Restored<D, T> = (VecDeque<Chunk<D, T>>, Chunk<D, T>);

/// Makes chunks in a running task.
pub struct ChunksPush<D, T, N> {
    op: Op,
    size: usize,
    open: Chunk<D, T>,
    /// Those that the task has begun with, which are emitted first.
    complete: VecDeque<Chunk<D, T>>,
    /// An event that is held back until the chunks before it have been emitted.
    held: Option<Event>,
    /// Whether an operator behind distinguishes the parts of the source that the records are of: its partitions, or what each task
    /// reads in order. Those that come in another run are of other parts, so a barrier leaves no chunk open.
    is_partitioned: bool,
    saved: StateHandle,
    heap: OwnedHeap<Chunk<D, T>>,
    emitted: u64,
    next: N,
}

/// The records since the last chunk.
#[derive(Data)]
struct Chunk<D, T> {
    records: Vec<D>,
    latest: Option<T>,
}

impl<D, T> Default for Chunk<D, T> {
    fn default() -> Self {
        Self { records: Vec::new(), latest: None }
    }
}

impl<D, T: Time> Chunk<D, T> {
    /// Adds a record; returns whether there are so many now.
    #[inline(always)]
    fn add(&mut self, item: D, time: T, size: usize) -> bool {
        if self.records.capacity() == 0 {
            self.records.reserve_exact(size.min(AT_ONCE));
        }
        self.records.push(item);
        self.latest = self.latest.max(Some(time));
        self.records.len() == size
    }
}

impl<D: Data, T: Time, N: Push<Vec<D>, T>> ChunksPush<D, T, N> {
    fn give(&mut self, chunk: Chunk<D, T>) {
        if let Some(latest) = chunk.latest {
            self.emitted += 1;
            self.next.push(chunk.records, latest);
        }
    }

    /// Whether the open chunk is to be emitted before the event.
    fn is_open_until(&self, event: Event) -> bool {
        let stays_open = matches!(event, Event::Barrier(_)) && !self.is_partitioned;
        self.open.latest.is_some() && !stays_open
    }

    /// Passes an event on, when all chunks before it have been emitted.
    fn pass(&mut self, event: Event) {
        self.saved.save(event, |out| {
            if self.open.latest.is_some() {
                out.add(&self.open);
            }
        });
        if event.completes() {
            self.heap.restarted();
        }
        self.next.event(event);
    }
}

impl<D: Data, T: Time, N: Push<Vec<D>, T>> Pipe for ChunksPush<D, T, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.is_partitioned |= matches!(event, Event::Partition(_));
        if self.complete.is_empty() && !self.is_open_until(event) {
            self.pass(event);
        } else {
            self.held = Some(event);
        }
    }

    fn resume(&mut self) -> Flow {
        if let Err(error) = guard(&self.op, || self.heap.fit(Some(&self.open))) {
            self.op.fail(error);
        }
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            if let Some(chunk) = self.complete.pop_front() {
                self.give(chunk);
            } else if self.held.is_some_and(|event| self.is_open_until(event)) {
                let chunk = take(&mut self.open);
                self.give(chunk);
            } else if let Some(event) = self.held.take() {
                self.pass(event);
            } else {
                return Flow::Ready;
            }
        }
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        self.next.report(report);
    }
}

impl<D: Data, T: Time, N: Push<Vec<D>, T>> Push<D, T> for ChunksPush<D, T, N> {
    #[inline(always)]
    fn push(&mut self, item: D, time: T) {
        self.heap.changed();
        if self.open.add(item, time, self.size) {
            let chunk = take(&mut self.open);
            self.give(chunk);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::{check, every};
    use crate::checkpoint::{Checkpoints, Snapshot};
    use crate::config::{Config, Scheduler};
    use crate::operators::time::Watermarks;
    use crate::time::Timestamp;
    use std::num::NonZeroUsize;

    #[test]
    fn nothing_is_lost_and_only_the_last_of_a_task_is_short() {
        every(|env| {
            let out = env.range(0..10_007).shuffle().chunks(100).collect::<Vec<_>>();
            let tasks = env.default_tasks();
            env.run()?;
            let chunks = out.take()?;
            assert!(chunks.iter().filter(|chunk| chunk.len() < 100).count() <= tasks);
            assert!(chunks.iter().all(|chunk| (1..=100).contains(&chunk.len())));
            let mut all = chunks.concat();
            all.sort_unstable();
            assert_eq!(all, (0..10_007).collect::<Vec<u64>>());
            Ok(())
        });
    }

    #[test]
    fn a_checkpoint_cuts_no_chunk() {
        let chunks = (0..500).map(|nth| (7 * nth..7 * nth + 7).collect::<Vec<u64>>());
        let job = |env: &Environment| env.iter(0..3500_u64).chunks(7);
        check(job).seeds(12).ordered().must_restore().equals(chunks);
    }

    /// The chunks that tasks have left open are of another size, too.
    #[test]
    fn open_chunks_that_come_to_one_task_are_filled_up() {
        let begin = |cores: usize, size: usize, restored: Option<Snapshot>| {
            let env = Environment::with_config(Config {
                cores: NonZeroUsize::new(cores).unwrap(),
                scheduler: Scheduler::Deterministic { seed: 1 },
                turn: NonZeroUsize::MIN,
                ..Config::default()
            });
            let chunks = env.range(0..50_000).chunks(size).collect::<Vec<_>>();
            (env.start_with(Some(&Checkpoints::new(restored, None))).unwrap(), chunks)
        };
        let (job, _) = begin(3, 1 << 20, None);
        job.drive_for(15);
        let taken = job.snapshot().unwrap().expect("it goes on");
        job.cancel();
        let _ = job.wait();
        for cores in [1, 2, 3, 5] {
            let (job, chunks) = begin(cores, 7, Some(taken.snapshot.clone()));
            job.wait().unwrap();
            let chunks = chunks.take().unwrap();
            let others = chunks.iter().filter(|chunk| chunk.len() != 7).count();
            assert!(others <= cores, "{others} chunks of {cores} tasks are of another size");
            let mut all = chunks.concat();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..50_000), "on {cores} cores");
        }
    }

    /// Open chunks in a checkpoint of a job on two cores.
    fn open(add: impl FnOnce(&Environment)) -> usize {
        let env = Environment::with_config(Config {
            cores: NonZeroUsize::new(2).unwrap(),
            scheduler: Scheduler::Deterministic { seed: 1 },
            turn: NonZeroUsize::MIN,
            ..Config::default()
        });
        add(&env);
        let job = env.start_with(Some(&Checkpoints::new(None, None))).unwrap();
        job.drive_for(12);
        let taken = job.snapshot().unwrap().expect("it goes on");
        job.cancel();
        let _ = job.wait();
        taken.snapshot.count_entries("open")
    }

    #[test]
    fn chunks_that_get_event_time_in_order_are_cut_by_barriers() {
        let range = |env: &Environment| env.range(0..100_000);
        let of_one = |second: &u64| Timestamp::from_secs(*second as i64);
        let of_chunk = |chunk: &Vec<u64>| Timestamp::from_secs(chunk[0] as i64);
        let monotonous = Watermarks::monotonous;
        let without = open(|env| range(env).chunks(1000).for_each_parallel(drop));
        let before = open(|env| {
            let chunks = range(env).assign_timestamps(of_one, monotonous()).chunks(1000);
            chunks.for_each_parallel(drop);
        });
        let shuffled = open(|env| {
            let chunks = range(env).chunks(1000).shuffle();
            chunks.assign_timestamps(of_chunk, monotonous()).for_each_parallel(drop);
        });
        assert_eq!((without, before), (2, 2), "one in each task");
        assert!(shuffled > 0);
        let behind = open(|env| {
            let chunks = range(env).chunks(1000);
            chunks.assign_timestamps(of_chunk, monotonous()).for_each_parallel(drop);
        });
        let forward = open(|env| {
            let chunks = range(env).chunks(1000).forward();
            chunks.assign_timestamps(of_chunk, monotonous()).for_each_parallel(drop);
        });
        assert_eq!((behind, forward), (0, 0));
    }

    #[test]
    fn rounds_are_not_mixed() {
        every(|env| {
            let out = env
                .range(0..10)
                .replay(5, 0_u64, |numbers, _| numbers.map(|n| *n).parallelism(1).chunks(4))
                .fold(
                    |lengths: &mut Vec<u64>, chunk| lengths.push(chunk.len() as u64),
                    |lengths, mut others| lengths.append(&mut others),
                )
                .all_rounds(|rounds, lengths| {
                    assert_eq!(lengths, [4, 4, 2]);
                    *rounds += 1;
                })
                .collect::<Vec<_>>();
            env.run()?;
            assert_eq!(out.take()?.pop().map(|outcome| outcome.state), Some(5));
            Ok(())
        });
    }

    #[test]
    fn a_chunk_is_never_late() {
        every(|env| {
            let second = |second: &u64| Timestamp::from_secs(*second as i64);
            let out = env
                .iter(0..1000_u64)
                .assign_timestamps(second, Watermarks::monotonous())
                .chunks(64)
                .map_with_timestamp(|chunk, at| (chunk.iter().max().copied(), at))
                .collect::<Vec<_>>();
            env.run()?;
            let chunks = out.take()?;
            assert!(!chunks.is_empty());
            for (last, at) in chunks {
                assert_eq!(Some(at), last.map(|last| Timestamp::from_secs(last as i64)));
            }
            Ok(())
        });
    }

    #[test]
    fn chunks_of_nothing_are_refused() {
        let env = Environment::new();
        let _out = env.range(0..3).chunks(0).count().collect_one();
        let error = env.run().unwrap_err().to_string();
        assert!(
            error.starts_with("chunks (") && error.ends_with("chunks of no records"),
            "{error}"
        );
    }
}
