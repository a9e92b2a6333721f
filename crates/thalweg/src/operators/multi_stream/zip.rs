//! Pairs of the records of two streams, by their position.

use crate::checkpoint::{OTHER_TASKS, Redistribution, StateHandle};
use crate::data::{Data, Portable};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Edge, PairInlet, RoundRobin};
use crate::flow::{Depth, Event, Op, Pipe, Push, PushTwo};
use crate::metrics::Report;
use crate::plan::{Details, Origin, Parallelism, Strategy, TaskContext};
use crate::state::SpillDir;
use crate::stream::{Chain, Stream};
use crate::support::queue::Waiting;
use crate::time::Time;

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Pairs the first record of this stream with the first of the other, the second with the second, and so on.
    ///
    /// Both streams are gathered in one task. If a stream comes from one task, or is sorted, its records are in
    /// order there. If both do, the pairs are always the same; records of several tasks are taken in the order
    /// of arrival, and then only the number of pairs is always the same. To pair related records, use a join.
    /// To pair without gathering all records in one task, see [`zip_by_task`](Self::zip_by_task).
    ///
    /// The result ends with the shorter stream, and has as many pairs: so it ends even if the other stream does
    /// not. Further records of the longer stream are dropped; those that had arrived by then are counted in the
    /// statistics ([`unpaired_records`](crate::metrics::OperatorStats::unpaired_records)), and its source is
    /// requested to end.
    ///
    /// A stream that is ahead waits: at most a batch of it is held. Only if both have a common source, as after
    /// a [`split`](Self::split), could that block the other stream; records of the stream that is ahead are
    /// then held in memory up to an eighth of the budget, and beyond that on disk.
    ///
    /// A pair has the later of the two timestamps. Within a loop, each round is paired by itself. Borrowed
    /// records are paired as owned ones (`str` as `String`).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let letters = env.iter(["a", "b", "c"].map(str::to_owned));
    /// let numbered = env.iter(1u64..).zip(letters).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(numbered.take()?, [(1, "a".to_owned()), (2, "b".to_owned()), (3, "c".to_owned())]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Streams of two environments are refused at the job's start.
    #[doc(alias("hstack"))]
    #[track_caller]
    pub fn zip<D>(self, other: Stream<D>) -> Stream<Zipped<C::Item, D::Item, C::Time>>
    where
        D: Chain<Item: Portable, Time = C::Time>,
    {
        self.paired(other, Origin::here("zip"), Parallelism::Fixed(1))
    }

    /// Pairs the records of each task with those of the task of the same number of the other stream, in the
    /// order of arrival, as [`zip`](Self::zip) does with whole streams.
    ///
    /// No record leaves its position in the order of its task: for streams whose tasks correspond, as those of
    /// one stream that was [split](Self::split), or of two that were built alike. Both must have the same
    /// number of tasks. Each pair of tasks ends with the shorter of the two, so the number of pairs depends on
    /// how the records are distributed. A job goes on from a [checkpoint](crate::config::CheckpointConfig) with as many tasks
    /// only.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let [numbers, others] = env.range(0..1000).split();
    /// let squares = numbers.zip_by_task(others.map(|n| n * n));
    /// let wrong = squares.filter(|(n, square)| n * n != *square).count().collect_one();
    /// env.run()?;
    /// assert_eq!(wrong.take()?, Some(0));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Streams with different numbers of tasks, or of two environments, are refused at the job's start.
    #[track_caller]
    pub fn zip_by_task<D>(self, other: Stream<D>) -> Stream<Zipped<C::Item, D::Item, C::Time>>
    where
        D: Chain<Item: Portable, Time = C::Time>,
    {
        let (tasks, others) = (self.tasks(), other.tasks());
        let zipped = self.paired(other, Origin::here("zip_by_task"), Parallelism::Free(tasks));
        if tasks != others {
            let what = format!(
                "pairs task with task, and one stream has {tasks} and the other {others}: `zip` pairs whole \
                 streams, and `parallelism` sets the number of tasks"
            );
            zipped.refuse(Error::new(ErrorKind::Plan, what));
        }
        zipped
    }

    fn paired<D>(
        self,
        other: Stream<D>,
        origin: Origin,
        parallelism: Parallelism,
    ) -> Stream<Zipped<C::Item, D::Item, C::Time>>
    where
        D: Chain<Item: Portable, Time = C::Time>,
    {
        let env = self.env.clone();
        // If one stream ends, so do the pairs.
        let bounded = self.is_bounded() || other.is_bounded();
        let before = [self.stage, other.stage];
        let stage = env.stage_of_both(&other.env, origin, before, parallelism, bounded);
        env.builder().time_origins.ends_early(stage);
        let same = env.is_same(&other.env);
        let strategy = match parallelism {
            Parallelism::Fixed(_) => Strategy::Gather,
            Parallelism::Free(_) => Strategy::Forward,
        };
        let first = arrive(self, stage, origin, Some(strategy));
        let second = arrive(other, stage, origin, same.then_some(strategy));
        let op = env.builder().operator(stage, origin, Details::none());
        Stream { chain: Zipped { first, second, stage, op }, env, stage }
    }
}

/// One of the streams, as an input of the stage where they are paired.
struct Arriving<I: Portable + ?Sized, T: Time> {
    edges: Vec<Edge<I, T>>,
    op: usize,
    from: usize,
}

/// Sends a stream to the stage, unless there is no strategy because that is in another plan: then the job is refused.
fn arrive<C: Chain<Item: Portable>>(
    stream: Stream<C>,
    to: usize,
    origin: Origin,
    strategy: Option<Strategy>,
) -> Arriving<C::Item, C::Time> {
    let from = stream.stage;
    let Some(strategy) = strategy else { return Arriving { edges: Vec::new(), op: 0, from } };
    let receive = Origin { kind: "receive", ..origin };
    let op = stream.builder().operator(to, receive, Details::none());
    let kind = if strategy == Strategy::Gather { "gather" } else { "forward" };
    let edge = stream.send_to(to, Origin { kind, ..origin }, strategy, |cx, op, edge| {
        edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task))
    });
    Arriving { edges: vec![edge], op, from }
}

/// The chain that begins with the pairs of two streams.
pub struct Zipped<I: Portable + ?Sized, J: Portable + ?Sized, T: Time> {
    first: Arriving<I, T>,
    second: Arriving<J, T>,
    stage: usize,
    op: usize,
}

impl<I, J, T> Chain for Zipped<I, J, T>
where
    I: Portable + ?Sized,
    J: Portable + ?Sized,
    T: Time,
{
    type Item = (I::Owned, J::Owned);
    type Time = T;
    type Task<N: Push<Self::Item, T> + 'static> = PairInlet<I, J, T, ZipPush<I, J, T, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, T> + 'static,
    {
        let saved = (
            cx.state::<(I::Owned, T)>(self.op, "first", Redistribution::Own),
            cx.state::<(J::Owned, T)>(self.op, "second", Redistribution::Own),
        );
        let ended = cx.state::<bool>(self.op, "ended", Redistribution::United);
        let over = is_over(&ended, cx.tasks)?;
        let mut first = Waiting::new(cx, self.op);
        let mut second = Waiting::new(cx, self.op);
        restore_waiting(&saved.0, &mut first, cx.spill)?;
        restore_waiting(&saved.1, &mut second, cx.spill)?;
        let push = ZipPush {
            op: cx.op(self.op),
            first,
            second,
            saved,
            ended,
            over: [over; 2],
            both: cx.plan.are_connected(self.first.from, self.second.from, self.stage),
            failed: false,
            emitted: 0,
            unpaired: 0,
            next,
        };
        let first = Edge::all_lanes_to(&self.first.edges, cx.task);
        let second = Edge::all_lanes_to(&self.second.edges, cx.task);
        let ops = (cx.op(self.first.op), cx.op(self.second.op));
        let again =
            [self.first.from, self.second.from].map(|from| cx.comes_again(from, self.stage));
        Ok(PairInlet::new(ops, again.into(), first, second, push))
    }
}

/// Whether the pairs had ended in all tasks before the checkpoint, and there are other tasks now. With as many, each goes on
/// as it would have, and so do any if none had records that waited, in the body of a loop.
///
/// # Errors
///
/// If there were not as many tasks, and some had not ended.
fn is_over(ended: &StateHandle, tasks: usize) -> Result<bool> {
    let (mut found, mut all_ended) = (0, true);
    ended.restore(|ended: bool| {
        found += 1;
        all_ended &= ended;
        Ok(())
    })?;
    let before = ended.tasks_before();
    if found == 0 || before == tasks {
        return Ok(false);
    }
    if all_ended && found == before {
        return Ok(true);
    }
    let what = format!(
        "{OTHER_TASKS}: each of the {before} that it has had pairs the records of one task with those of another, so there \
         must be as many, and there are {tasks}"
    );
    Err(ended.error(ErrorKind::Config, what))
}

/// Saves the records that wait, at a barrier; none of them is needed after the end.
///
/// # Errors
///
/// If the disk is full or cannot be written; then they are refused too.
fn save_waiting<R: Data>(
    saved: &StateHandle,
    event: Event,
    waiting: &mut Waiting<R>,
) -> Result<()> {
    saved.try_save(event, |out| {
        if event == Event::End {
            return Ok(());
        }
        waiting.in_memory().for_each(|record| out.add(record));
        // Each file with the number of its records that were paired.
        waiting.save_files(out, |out, file, paired| out.add_share(file, &paired))
    })
}

/// Begins with the records that waited at the checkpoint, if the job goes on from one.
///
/// # Errors
///
/// If the checkpoint cannot be read, or the disk cannot be written.
fn restore_waiting<R: Data>(
    saved: &StateHandle,
    waiting: &mut Waiting<R>,
    spill: &SpillDir,
) -> Result<()> {
    saved.restore(|record| waiting.push(record))?;
    saved.restore_files(|file| waiting.restore_file(file.open(spill)?, file.note()?))
}

/// Pairs records in a running task. At most one of the streams has records that wait.
pub struct ZipPush<I: Portable + ?Sized, J: Portable + ?Sized, T: Time, N> {
    op: Op,
    first: Waiting<(I::Owned, T)>,
    second: Waiting<(J::Owned, T)>,
    /// Those that wait.
    saved: (StateHandle, StateHandle),
    /// Whether the task had ended; nothing in the body of a loop, where it has no records.
    ended: StateHandle,
    /// Whether a stream has ended, or its records of this round have.
    over: [bool; 2],
    /// Whether both are read, however far ahead one is, because one might otherwise block the other.
    both: bool,
    failed: bool,
    emitted: u64,
    unpaired: u64,
    next: N,
}

impl<I, J, T, N> ZipPush<I, J, T, N>
where
    I: Portable + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    N: Push<(I::Owned, J::Owned), T>,
{
    #[cold]
    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.op.fail(error);
    }

    #[inline(always)]
    fn emit(&mut self, first: (I::Owned, T), second: (J::Owned, T)) {
        self.emitted += 1;
        self.next.push((first.0, second.0), first.1.max(second.1));
    }

    /// Whether a stream has ended and all its records are paired.
    fn is_short(&self) -> bool {
        (self.over[0] && self.first.is_empty()) || (self.over[1] && self.second.is_empty())
    }

    fn save(&mut self, event: Event) {
        let is_in_loop = self.op.depth() > Depth::default();
        // Between two rounds of a loop no record waits, and when it is over none is needed. Before the first round some may:
        // those from outside.
        let nothing = event == Event::End || (self.first.is_empty() && self.second.is_empty());
        self.ended.save(event, |out| {
            if !(is_in_loop && nothing) {
                out.add(&(event == Event::End));
            }
        });
        let first = save_waiting(&self.saved.0, event, &mut self.first);
        let second = save_waiting(&self.saved.1, event, &mut self.second);
        if let Err(error) = first.and(second) {
            self.fail(error);
        }
    }

    /// Drops the records whose partners cannot come.
    fn drop_rest(&mut self) {
        self.unpaired += self.first.len() + self.second.len();
        self.first.clear();
        self.second.clear();
    }
}

impl<I, J, T, N> Pipe for ZipPush<I, J, T, N>
where
    I: Portable + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    N: Push<(I::Owned, J::Owned), T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.save(event);
        if event.completes() {
            self.drop_rest();
            self.over = [false; 2];
        }
        self.next.event(event);
    }

    fn is_closed(&mut self) -> bool {
        self.is_short() || self.next.is_closed()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted);
        report.kept(op, self.first.len() + self.second.len());
        report.spilled(op, self.first.written() + self.second.written());
        report.unpaired(op, self.unpaired);
        self.next.report(report);
    }
}

impl<I, J, T, N> PushTwo<I, J, T> for ZipPush<I, J, T, N>
where
    I: Portable + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    N: Push<(I::Owned, J::Owned), T>,
{
    #[inline(always)]
    fn push_first(&mut self, item: I::Of<'_>, time: T) {
        if self.failed {
            return;
        }
        let record = (I::to_owned(item), time);
        let done = match self.second.pop() {
            Ok(Some(other)) => {
                self.emit(record, other);
                Ok(())
            }
            Ok(None) if self.over[1] => {
                self.unpaired += 1;
                Ok(())
            }
            Ok(None) => self.first.push(record),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            self.fail(error);
        }
    }

    #[inline(always)]
    fn push_second(&mut self, item: J::Of<'_>, time: T) {
        if self.failed {
            return;
        }
        let record = (J::to_owned(item), time);
        let done = match self.first.pop() {
            Ok(Some(other)) => {
                self.emit(other, record);
                Ok(())
            }
            Ok(None) if self.over[0] => {
                self.unpaired += 1;
                Ok(())
            }
            Ok(None) => self.second.push(record),
            Err(error) => Err(error),
        };
        if let Err(error) = done {
            self.fail(error);
        }
    }

    fn first_ended(&mut self) {
        self.over[0] = true;
    }

    fn second_ended(&mut self) {
        self.over[1] = true;
    }

    fn wants_first(&self) -> bool {
        self.both || self.first.is_empty()
    }

    fn wants_second(&self) -> bool {
        self.both || self.second.is_empty()
    }
}
