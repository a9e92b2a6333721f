//! The `chunks` operator: lists of a fixed number of records.

use crate::data::Data;
use crate::error::Result;
use crate::flow::{Event, Flow, Op, Pipe, Push};
use crate::metrics::Report;
use crate::plan::{Details, Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;

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
    /// A chunk is shorter where the input or a round of a loop ends, and where a watermark or a barrier comes
    /// between two records. On an unbounded stream that becomes idle, the records of an incomplete chunk wait
    /// for more. Costs a move of each record and an allocation per chunk; up to `size` records are held in each
    /// task. A chunk has the latest timestamp of its records.
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
    /// With a `size` of 0, the job is refused at its start.
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
        chunks
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
        let chunk = Chunk { records: Vec::new(), latest: None };
        self.prev.attach(cx, ChunksPush { op, size, chunk, held: None, emitted: 0, next })
    }
}

/// Makes chunks in a running task.
pub struct ChunksPush<D, T, N> {
    op: Op,
    size: usize,
    chunk: Chunk<D, T>,
    /// An event that is held back until the incomplete chunk has been emitted.
    held: Option<Event>,
    emitted: u64,
    next: N,
}

/// The records since the last chunk.
struct Chunk<D, T> {
    records: Vec<D>,
    latest: Option<T>,
}

impl<D: Data, T: Time, N: Push<Vec<D>, T>> ChunksPush<D, T, N> {
    fn give(&mut self) {
        let records = std::mem::take(&mut self.chunk.records);
        if let Some(latest) = self.chunk.latest.take() {
            self.emitted += 1;
            self.next.push(records, latest);
        }
    }
}

impl<D: Data, T: Time, N: Push<Vec<D>, T>> Pipe for ChunksPush<D, T, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if self.chunk.latest.is_none() {
            self.next.event(event);
        } else {
            self.held = Some(event);
        }
    }

    fn resume(&mut self) -> Flow {
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            if self.held.is_some() && self.chunk.latest.is_some() {
                self.give();
            } else if let Some(event) = self.held.take() {
                self.next.event(event);
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
        let Chunk { records, latest } = &mut self.chunk;
        if records.capacity() == 0 {
            records.reserve_exact(self.size.min(AT_ONCE));
        }
        records.push(item);
        *latest = (*latest).max(Some(time));
        if records.len() == self.size {
            self.give();
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::every;
    use crate::operators::time::Watermarks;
    use crate::time::Timestamp;

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
