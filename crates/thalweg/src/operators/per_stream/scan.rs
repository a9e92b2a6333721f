//! The `scan` and `stateful_map` operators: one output record for each input record and the task's state.

use crate::checkpoint::{OTHER_TASKS, Redistribution, StateHandle};
use crate::data::{Data, Record};
use crate::error::{ErrorKind, Result};
use crate::flow::{Depth, Event, Flow, Pipe, Push, RoundScoped, RoundState, guard};
use crate::metrics::Report;
use crate::plan::{Origin, Scope, TaskContext};
use crate::stream::{Chain, Stream};
use crate::support::owned_heap::{OwnedHeap, Wording};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Makes a record of each record and the task's state, until the closure returns `None`: then this task
    /// needs no more input, and its sources may end.
    ///
    /// Every task begins with a clone of `init` and sees its own records only; for one state over all records,
    /// continue in one task first with [`parallelism(1)`](Self::parallelism). For a state per key, group first.
    /// The state is declared: it is [`Data`], and the plan shows it. A job with several such states goes on from a
    /// [checkpoint](crate::config::CheckpointConfig) with as many tasks only.
    ///
    /// Keeps order and tasks. Memory: one state per task, with what it owns on the heap.
    ///
    /// # Errors
    ///
    /// The job stops when the memory budget does not hold the states.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env
    ///     .iter(1..)
    ///     .scan(0, |sum, n| {
    ///         *sum += n;
    ///         (*sum <= 10).then_some(*sum)
    ///     })
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 3, 6, 10]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn scan<S, O, F>(self, init: S, f: F) -> Stream<Scan<C, S, F, O>>
    where
        S: Data + Clone,
        O: 'static,
        F: for<'a> Fn(&mut S, <C::Item as Record>::Of<'a>) -> Option<O> + Send + Sync + 'static,
    {
        self.scan_as(Origin::here("scan"), init, f).ending_early()
    }

    /// Makes one record of each record and the task's state.
    ///
    /// Like [`scan`](Self::scan), but continues to the end of the input.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let changes = env.iter([3, 5, 4]).stateful_map(0, |last, n| {
    ///     let change = n - *last;
    ///     *last = n;
    ///     change
    /// });
    /// let out = changes.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [3, 2, -1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn stateful_map<S, O, F>(
        self,
        init: S,
        f: F,
    ) -> Stream<impl Chain<Item = O, Time = C::Time>>
    where
        S: Data + Clone,
        O: 'static,
        F: for<'a> Fn(&mut S, <C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        let f = move |state: &mut S, item: <C::Item as Record>::Of<'_>| Some(f(state, item));
        self.scan_as(Origin::here("stateful_map"), init, f)
    }

    fn scan_as<S, O, F>(self, origin: Origin, init: S, f: F) -> Stream<Scan<C, S, F, O>>
    where
        S: Data + Clone,
        O: 'static,
        F: for<'a> Fn(&mut S, <C::Item as Record>::Of<'a>) -> Option<O> + Send + Sync + 'static,
    {
        let wrap = |prev, op| Scan {
            prev,
            op,
            init: Mutex::new(init),
            f: Arc::new(f),
            output: PhantomData,
        };
        self.then(origin, wrap).with_state::<S>(Scope::Task)
    }
}

/// The chain that ends in a scan.
pub struct Scan<C, S, F, O> {
    prev: C,
    op: usize,
    init: Mutex<S>,
    f: Arc<F>,
    output: PhantomData<fn() -> O>,
}

impl<C, S, F, O> Chain for Scan<C, S, F, O>
where
    C: Chain,
    S: Data + Clone,
    O: 'static,
    F: for<'a> Fn(&mut S, <C::Item as Record>::Of<'a>) -> Option<O> + Send + Sync + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> = C::Task<ScanPush<C::Item, S, F, O, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let (op, f) = (cx.op(self.op), Arc::clone(&self.f));
        let first = Scanned { state: lock(&self.init).clone(), enough: false };
        let saved = cx.state::<TaskState<S>>(self.op, "state", Redistribution::United);
        let is_in_loop = saved.is_on() && op.depth() > Depth::default();
        let fresh = is_in_loop.then(|| encoded(&first.state));
        let mut scoped = RoundScoped::new(op, first, next);
        restore(&saved, &mut scoped.state, (cx.task, cx.tasks))?;
        let mut heap = OwnedHeap::new(cx, self.op, WORDING);
        heap.changed();
        let types = PhantomData;
        self.prev.attach(cx, ScanPush { f, emitted: 0, scoped, saved, fresh, heap, types })
    }
}

const WORDING: Wording = Wording {
    state: "the state of its records",
    less: "a state for each key (`group_by`), or one that remembers less, needs less",
};

fn encoded(state: &impl Data) -> Vec<u8> {
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    bytes
}

/// The state of a task, in a checkpoint; in the body of a loop, none of a task that would begin with the initial one.
#[derive(Data)]
struct TaskState<S> {
    enough: bool,
    ended: bool,
    state: S,
}

/// Restores the state of `task`, one of `tasks`.
///
/// # Errors
///
/// If there were not as many tasks, and some still need input: a state belongs to the records of its task.
fn restore<S: Data>(
    saved: &StateHandle,
    scanned: &mut Scanned<S>,
    (task, tasks): (usize, usize),
) -> Result<()> {
    let (mut found, mut all_done, mut own) = (0, true, None);
    saved.restore_by_task(|of_task, of: TaskState<S>| {
        found += 1;
        all_done &= of.enough || of.ended;
        if of_task == task {
            own = Some(Scanned { state: of.state, enough: of.enough });
        }
        Ok(())
    })?;
    let before = saved.tasks_before();
    match own {
        _ if found == 0 => {}
        Some(own) if before == tasks => *scanned = own,
        None if before == tasks => {}
        _ if all_done && found == before => scanned.enough = true,
        _ => {
            let what = format!(
                "{OTHER_TASKS}: each of the {before} that it has had a state of its own, so there must be as many, and there \
                 are {tasks}"
            );
            return Err(saved.error(ErrorKind::Config, what));
        }
    }
    Ok(())
}

/// The state of a scan, and whether it needs no more input.
#[derive(Clone)]
struct Scanned<S> {
    state: S,
    enough: bool,
}

impl<S: Clone + Send> RoundState for Scanned<S> {
    fn is_satisfied(&self) -> bool {
        self.enough
    }
}

/// A scan in a running task.
pub struct ScanPush<I: ?Sized, S, F, O, N> {
    f: Arc<F>,
    emitted: u64,
    scoped: RoundScoped<Scanned<S>, N>,
    saved: StateHandle,
    /// In the body of a loop, the encoding of the state with which each round begins.
    fresh: Option<Vec<u8>>,
    heap: OwnedHeap<S>,
    types: PhantomData<fn(&I) -> O>,
}

impl<I: Record + ?Sized, S: Data + Clone, F: Send + Sync, O, N: Pipe> Pipe
    for ScanPush<I, S, F, O, N>
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.scoped)
    }

    fn event(&mut self, event: Event) {
        self.saved.save(event, |out| {
            let Scanned { state, enough } = &self.scoped.state;
            // Between two rounds of a loop, and when it is over, there is nothing to be remembered. Before the first round there
            // may be: records from outside that were merged into the body.
            if let Some(fresh) = &self.fresh
                && (event == Event::End || (!enough && encoded(state) == *fresh))
            {
                return;
            }
            out.add_by_key(0, |bytes| {
                enough.encode(bytes);
                (event == Event::End).encode(bytes);
                state.encode(bytes);
            });
        });
        self.scoped.event(event);
        if matches!(event, Event::Round(_)) {
            self.heap.restarted();
        }
    }

    fn resume(&mut self) -> Flow {
        let RoundScoped { op, state, .. } = &self.scoped;
        if let Err(error) = guard(op, || self.heap.fit(Some(&state.state))) {
            op.fail(error);
        }
        self.scoped.resume()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.scoped.op.id(), self.emitted);
        self.scoped.report(report);
    }
}

impl<I, T, S, F, O, N> Push<I, T> for ScanPush<I, S, F, O, N>
where
    I: Record + ?Sized,
    T: Time,
    S: Data + Clone,
    O: 'static,
    F: for<'a> Fn(&mut S, I::Of<'a>) -> Option<O> + Send + Sync,
    N: Push<O, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Self { f, emitted, scoped, heap, .. } = self;
        let RoundScoped { op, state, next, .. } = scoped;
        if state.enough {
            return;
        }
        heap.changed();
        match guard(op, || f(&mut state.state, item)) {
            Some(output) => {
                *emitted += 1;
                next.push(output, time);
            }
            None => state.enough = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;
    use crate::config::{BatchMode, Config, Scheduler};
    use crate::data::{Data, DecodeError, Schema};
    use crate::prelude::*;
    use std::num::NonZeroUsize;

    #[test]
    fn each_task_remembers_its_own() {
        every(|env| {
            let counted = |count: &mut u64, _: u64| {
                *count += 1;
                *count
            };
            let one = env.iter(0..100).stateful_map(0, counted).max(|n| *n).collect::<Vec<_>>();
            let each = env.iter(0..99).shuffle().stateful_map(0, counted).max(|n| *n);
            let each = each.collect::<Vec<_>>();
            let first = env
                .iter(0_u64..)
                .shuffle()
                .scan(0, move |count, n| (counted(count, n) <= 10).then_some(n))
                .count()
                .collect_one();
            let tasks = env.default_tasks() as u64;
            env.run()?;
            assert_eq!((one.take()?, each.take()?), (vec![100], vec![99_u64.div_ceil(tasks)]));
            assert_eq!(first.take()?.unwrap(), 10 * tasks);
            Ok(())
        });
    }

    /// Keeps so many bytes for each record of a round.
    fn keeping(
        of_round: u64,
        bytes: usize,
    ) -> impl Fn(&mut Vec<String>, (u64, u64)) -> (u64, u64) + Send + Sync + 'static {
        move |kept, (round, n)| {
            if round == of_round {
                kept.push("x".repeat(bytes));
            }
            (round, n)
        }
    }

    #[test]
    fn the_state_of_a_round_takes_no_memory_in_the_next_one() {
        let config = Config {
            memory: 1_200_000,
            cores: NonZeroUsize::MIN,
            scheduler: Scheduler::Deterministic { seed: 1 },
            turn: NonZeroUsize::MIN,
            batch: BatchMode::Fixed { size: 8 },
            ..Config::default()
        };
        let env = Environment::with_config(config);
        // The first one has 900 kB in the first round, the second one in the second, for which few records come.
        let (_, left) = env
            .iter((0..600_u64).map(|n| (0_u64, n)))
            .iterate(2, (), |pairs, _| {
                let first = pairs.shuffle().stateful_map(Vec::<String>::new(), keeping(0, 1500));
                let second = first.shuffle().stateful_map(Vec::<String>::new(), keeping(1, 9000));
                second.filter(|(_, n)| n % 6 == 0).map(|(round, n)| (round + 1, n))
            })
            .all_rounds();
        let left = left.count().collect_one();
        env.run().unwrap();
        assert_eq!(left.take().unwrap(), Some(100));
    }

    /// A state that cannot be measured.
    #[derive(Clone)]
    struct Unmeasured(Vec<u8>);

    impl Data for Unmeasured {
        fn encode(&self, out: &mut Vec<u8>) {
            self.0.encode(out);
        }

        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            Vec::decode(input).map(Self)
        }

        fn key_hash(&self) -> u64 {
            self.0.key_hash()
        }

        fn schema() -> Schema {
            Vec::<u8>::schema()
        }

        fn heap_size(&self) -> usize {
            panic!("no size")
        }
    }

    #[test]
    fn a_panic_where_a_state_is_measured_has_the_operator() {
        let env = Environment::new();
        env.iter(0..9_u64).stateful_map(Unmeasured(Vec::new()), |_, n| n).for_each(drop);
        let error = env.run().unwrap_err();
        let is_named = error.operator().is_some_and(|name| name.starts_with("stateful_map ("));
        assert!(is_named && error.to_string().contains("no size"), "{error}");
        let env = Environment::new();
        let (numbers, init) = (env.iter(0..9_u64), Unmeasured(Vec::new()));
        numbers.connect(env.iter([1_u64]), init, |_, _| {}).map(|(n, _)| n).for_each(drop);
        let error = env.run().unwrap_err();
        let is_named = error.operator().is_some_and(|name| name.starts_with("connect ("));
        assert!(is_named && error.to_string().contains("no size"), "{error}");
    }
}
