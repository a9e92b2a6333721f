//! The coordination of a loop: its tails meet at the end of a round, and its heads learn whether there is
//! another.
//!
//! Each host has a [`Control`] of its own. On several hosts the tails of a host meet, then the hosts
//! ([`hosts`](super::hosts)).

use super::hosts::{Ending, Gathering, RoundEnd};
use super::outcome::{Ended, Outcome};
use crate::checkpoint::StateHandle;
use crate::clock::Clock;
use crate::data::Data;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Depth, Epoch, Op, Signals, Waker, guard};
use crate::metrics::{LoopStats, RoundLog};
use crate::net::Agreement;
use crate::plan::TaskContext;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use std::sync::{Arc, OnceLock, Weak};

/// The state that all tasks of a loop share.
pub struct Control<S> {
    /// The number of the head in the plan.
    pub(super) head: usize,
    /// The depth of the loop.
    pub(super) depth: Depth,
    /// Whether the body has been described.
    described: AtomicBool,
    /// The state of the loop.
    state: Mutex<Arc<S>>,
    /// The state that each run begins with.
    initial: S,
    /// The most rounds of a run.
    most: u64,
    /// Whether another round needs records that the last one fed back.
    feeds: bool,
    run: Mutex<Run<S>>,
    /// Rounds of all runs so far, times two, and one more if the run is over.
    decided: AtomicU64,
    tasks: Mutex<Tasks>,
    /// How often the input of a head was complete, in all runs.
    complete: AtomicU64,
    /// How often the input of all heads was complete.
    gathered: AtomicU64,
    /// Which barriers pass the loop before its next round.
    boundary: Mutex<Boundary>,
    /// How many rounds had ended at the checkpoint that the job has begun with, and whether the loop was over.
    before: OnceLock<(u64, bool)>,
    /// Restores what the heads have saved, on a host that may have none of them. A pointer, since tails and readers know `S`
    /// only as `Clone`.
    restore_here: fn(&Self, &TaskContext<'_>) -> Result<()>,
    /// Joins this host with the others.
    join: OnceLock<Join<S>>,
    /// Where hosts learn that the input of all heads is complete, if the first round waits for it.
    pub(super) gathering: OnceLock<Weak<Agreement<Gathering<S>>>>,
}

/// Joins the agreement on the rounds of a loop, of which an operator with this number is a part.
type Join<S> =
    Box<dyn Fn(&Arc<Control<S>>, &TaskContext<'_>, usize) -> Result<()> + Send + Sync + 'static>;

/// The tasks that are woken when a round has ended.
#[derive(Default)]
struct Tasks {
    heads: Vec<Waker>,
    /// Those that read the state, on several hosts: there they may be ahead of it.
    readers: Vec<Waker>,
}

/// Which barriers pass a loop before its next round: the same at all heads.
#[derive(Default)]
struct Boundary {
    /// Whether the input of all heads is complete. Before, all barriers pass that were requested.
    gathered: bool,
    /// The last one.
    last: Epoch,
}

/// The barriers that come before a round, as hosts agree on them: all up to this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Data)]
pub(super) struct Barriers {
    last: u64,
    /// Whether the job is suspended there, so that no head begins the round.
    suspends: bool,
}

/// A run of a loop: the only one, unless the loop is in the body of another.
struct Run<S> {
    /// Whether the input of a head is complete.
    begun: bool,
    rounds: u64,
    /// The outcome of the last run, until it is emitted.
    outcome: Option<Outcome<S>>,
    /// The statistics of the rounds of all runs.
    log: RoundLog,
}

/// The decision after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Another,
    Over,
}

/// What a loop with feedback needs for another round.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Needs {
    /// Nothing: every round has the same input.
    Nothing,
    /// Records that the last round fed back.
    Records,
}

impl<S: Data + Clone + Sync> Control<S> {
    /// `head` is the number of the head in the plan, in a loop of this depth.
    pub(super) fn new(head: usize, depth: Depth, initial: S, most: u64, needs: Needs) -> Self {
        let log = RoundLog::default();
        Self {
            head,
            depth,
            described: AtomicBool::new(false),
            state: Mutex::new(Arc::new(initial.clone())),
            initial,
            most,
            feeds: needs == Needs::Records,
            run: Mutex::new(Run { begun: false, rounds: 0, outcome: None, log }),
            decided: AtomicU64::new(0),
            tasks: Mutex::default(),
            complete: AtomicU64::new(0),
            gathered: AtomicU64::new(0),
            boundary: Mutex::default(),
            before: OnceLock::new(),
            restore_here: Self::restore_from_heads,
            join: OnceLock::new(),
            gathering: OnceLock::new(),
        }
    }

    /// Whether the loop is in the body of another one. At each barrier it is then between two runs: in no round, with its
    /// initial state.
    pub(super) fn is_inner(&self) -> bool {
        self.depth > Depth(1)
    }

    /// Goes on after the rounds that had ended at the checkpoint, if the job begins with one, with the state that there was:
    /// `saved` has both. Returns how many rounds these are, and whether the loop was over.
    pub(super) fn restore(&self, saved: &StateHandle) -> Result<(u64, bool)> {
        if let Some(before) = self.before.get() {
            return Ok(*before);
        }
        let mut before = (0, false);
        saved.restore(|(rounds, is_over, state): (u64, bool, S)| {
            before = (rounds, is_over);
            *lock(&self.state) = Arc::new(state);
            lock(&self.run).rounds = rounds;
            self.decided.store(2 * rounds, Ordering::Release);
            Ok(())
        })?;
        Ok(*self.before.get_or_init(|| before))
    }

    /// As [`restore`](Self::restore), in a task of any operator of the loop.
    fn restore_from_heads(&self, cx: &TaskContext<'_>) -> Result<()> {
        if self.is_inner() {
            return Ok(());
        }
        self.restore(&cx.state_of_others::<(u64, bool, S)>(self.head, "rounds")).map(drop)
    }
}

impl<S: Clone> Control<S> {
    /// Registers a head, to be woken when a round has ended.
    pub(super) fn add_head(&self, head: Waker) {
        lock(&self.tasks).heads.push(head);
    }

    /// Registers a task that waits for the state of a round, to be woken when it is there.
    pub(super) fn add_reader(&self, reader: Waker) {
        lock(&self.tasks).readers.push(reader);
    }

    /// Joins the other hosts of the loop, if there are any. Called in each task of the loop's operators, with the number
    /// of the operator.
    pub(super) fn join_hosts(self: &Arc<Self>, cx: &TaskContext<'_>, op: usize) -> Result<()> {
        if cx.links.hosts().count() == 1 {
            return Ok(());
        }
        (self.restore_here)(self, cx)?;
        self.join.get().map_or(Ok(()), |join| join(self, cx, op))
    }

    /// The body has been described: nothing that is described from now on belongs to it.
    pub(super) fn end_body(&self) {
        self.described.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_described(&self) -> bool {
        self.described.load(Ordering::Relaxed)
    }

    /// Called when the input of a head is complete: with the first one, the first round begins.
    pub(super) fn begin(&self, clock: &Clock) {
        let mut run = lock(&self.run);
        if !std::mem::replace(&mut run.begun, true) {
            run.log.begin(clock.now());
        }
    }

    /// The last barrier that heads send before the next round.
    ///
    /// A barrier must come before the same round at all heads, or what they save would not belong together. So it is decided for
    /// all where a round ends, or the input is complete; and as long as the input is not complete, heads take note under the
    /// lock of what they send. On several hosts, see [`hosts`](super::hosts).
    pub(super) fn barriers(&self, signals: &Signals) -> Epoch {
        let mut boundary = lock(&self.boundary);
        if !boundary.gathered {
            boundary.last = signals.epoch();
        }
        boundary.last
    }

    /// From now on, heads of this host send no barriers but those that were requested. Returns which these are: on one host, they
    /// come before the next round.
    pub(super) fn hold_barriers(&self, signals: &Signals) -> Barriers {
        let mut boundary = lock(&self.boundary);
        let last = signals.epoch();
        *boundary = Boundary { gathered: true, last };
        Barriers { last: last.0, suspends: signals.is_last_barrier(last) }
    }

    /// The hosts have agreed that these barriers come before the next round.
    pub(super) fn set_barriers(&self, barriers: Barriers, signals: &Signals) {
        let last = Epoch(barriers.last);
        // The order to send them may come to this host later, and with it that no round follows.
        let is_last = barriers.suspends && !signals.is_last_barrier(last);
        signals.barrier_asked(last, is_last);
        *lock(&self.boundary) = Boundary { gathered: true, last };
    }

    /// The statistics of the rounds so far.
    pub(super) fn stats(&self) -> LoopStats {
        lock(&self.run).log.stats(self.most)
    }

    /// The input of all heads of all hosts is complete.
    pub(super) fn all_gathered(&self) {
        self.gathered.fetch_add(1, Ordering::Release);
        lock(&self.tasks).heads.iter().for_each(Waker::wake);
    }

    /// Whether the input of every head is complete in `runs` runs.
    pub(super) fn is_gathered(&self, runs: u64) -> bool {
        self.gathered.load(Ordering::Acquire) >= runs
    }

    /// The state of the round that runs.
    pub(super) fn state(&self) -> Arc<S> {
        Arc::clone(&lock(&self.state))
    }

    /// The rounds of all runs that have ended. The state changes with each.
    pub(super) fn rounds(&self) -> u64 {
        self.decided.load(Ordering::Acquire) / 2
    }

    /// Those of them that have ended since the tasks were made, and not before the checkpoint.
    pub(super) fn rounds_here(&self) -> u64 {
        self.rounds() - self.before.get().map_or(0, |before| before.0)
    }

    /// The decision after `rounds` rounds of all runs; `None` while the last of them is still running.
    pub(super) fn verdict(&self, rounds: u64) -> Option<Verdict> {
        let decided = self.decided.load(Ordering::Acquire);
        let verdict = if decided.is_multiple_of(2) { Verdict::Another } else { Verdict::Over };
        (decided / 2 >= rounds).then_some(verdict)
    }

    /// Ends a round in which `out` records came out of the body and `fed` were fed back: changes the state, and
    /// decides whether there is another round. `change` returns whether the condition that ends the loop holds.
    /// After the last round of a run, the state is that which the next one begins with. `agreed` are the barriers that come before
    /// the next round, where another host has decided that; returns which these are.
    pub(super) fn end_round(
        &self,
        [out, fed]: [u64; 2],
        (clock, signals): (&Clock, &Signals),
        agreed: Option<Barriers>,
        change: impl FnOnce(&mut S) -> bool,
    ) -> Barriers {
        let mut state = lock(&self.state);
        // It is copied only if another handle to it exists, which is not the case between two rounds.
        let value = Arc::make_mut(&mut state);
        let holds = change(value);
        let mut run = lock(&self.run);
        run.rounds += 1;
        run.log.end_round(clock.now(), out, fed);
        let ended = if holds {
            Some(Ended::Condition)
        } else if self.feeds && fed == 0 {
            Some(Ended::NothingLeft)
        } else {
            (run.rounds >= self.most).then_some(Ended::Rounds)
        };
        if let Some(ended) = ended {
            let state = std::mem::replace(value, self.initial.clone());
            let rounds = std::mem::take(&mut run.rounds);
            run.outcome = Some(Outcome { state, rounds, ended });
            run.begun = false;
        }
        drop(run);
        drop(state);
        let barriers = match agreed {
            None => self.hold_barriers(signals),
            Some(barriers) => {
                self.set_barriers(barriers, signals);
                barriers
            }
        };
        let rounds = self.decided.load(Ordering::Relaxed) / 2 + 1;
        self.decided.store(2 * rounds + u64::from(ended.is_some()), Ordering::Release);
        let tasks = lock(&self.tasks);
        tasks.heads.iter().chain(&tasks.readers).for_each(Waker::wake);
        barriers
    }

    /// The outcome of the run that has ended.
    pub(super) fn conclude(&self) -> Result<Outcome<S>> {
        let outcome = lock(&self.run).outcome.take();
        outcome
            .ok_or_else(|| Error::new(ErrorKind::Internal, "a loop has ended without an outcome"))
    }
}

impl<S: Clone + Send + Sync + 'static> Control<S> {
    /// Called when the input of a head is complete, if the first round waits for the input of all heads.
    pub(super) fn gather(&self, signals: &Signals) -> Result<()> {
        let heads = lock(&self.tasks).heads.len() as u64;
        let complete = self.complete.fetch_add(1, Ordering::AcqRel) + 1;
        if !complete.is_multiple_of(heads) {
            return Ok(());
        }
        match self.gathering.get().map(Weak::upgrade) {
            None => {
                self.hold_barriers(signals);
                self.all_gathered();
            }
            Some(Some(hosts)) => hosts.contribute(Vec::new())?,
            // The job is over.
            Some(None) => {}
        }
        Ok(())
    }
}

/// Where the tails of a loop meet, each with a partial state.
pub(super) struct Meeting<S, D> {
    control: Arc<Control<S>>,
    brought: Mutex<Brought<D>>,
    ending: Arc<Ending<S, D>>,
}

struct Brought<D> {
    /// In the order of the tails of this host, so that floats are added up in the same order in every run.
    parts: Vec<Option<D>>,
    arrived: usize,
    out: u64,
    fed: u64,
}

impl<S, D> Meeting<S, D>
where
    S: Clone + Send + Sync + 'static,
    D: Data + Default,
{
    /// `global` merges one tail's partial state into another's; `until` changes the state by the merged ones, and returns
    /// whether the loop is to end.
    pub(super) fn new(
        control: Arc<Control<S>>,
        global: impl Fn(&mut D, D) + Send + Sync + 'static,
        until: impl Fn(&mut S, D) -> bool + Send + Sync + 'static,
    ) -> Self {
        let ending = Arc::new(Ending::new(global, until));
        let joins = Arc::clone(&ending);
        let _ = control.join.set(Box::new(move |control, cx, op| joins.join(control, cx, op)));
        let brought = Mutex::new(Brought { parts: Vec::new(), arrived: 0, out: 0, fed: 0 });
        Self { control, brought, ending }
    }

    /// Adds a tail, and returns its number among those of this host. Tails are added in their order.
    pub(super) fn add_tail(&self, cx: &TaskContext<'_>, op: usize) -> Result<usize> {
        self.control.join_hosts(cx, op)?;
        let parts = &mut lock(&self.brought).parts;
        parts.push(None);
        Ok(parts.len() - 1)
    }

    /// Called by a tail that has seen the end of the round, with its partial state and how many records it
    /// received and fed back. The last tail ends the round, or its host's part of it.
    pub(super) fn arrive(
        &self,
        tail: usize,
        part: D,
        [out, fed]: [u64; 2],
        op: &Op,
        clock: &Clock,
    ) -> Result<()> {
        let mut brought = lock(&self.brought);
        brought.parts[tail] = Some(part);
        brought.out += out;
        brought.fed += fed;
        brought.arrived += 1;
        if brought.arrived < brought.parts.len() {
            return Ok(());
        }
        brought.arrived = 0;
        let counts = [std::mem::take(&mut brought.out), std::mem::take(&mut brought.fed)];
        let mut merged = || {
            let mut parts = brought.parts.iter_mut().filter_map(Option::take);
            let mut all = parts.next().unwrap_or_default();
            parts.for_each(|part| (self.ending.global)(&mut all, part));
            all
        };
        match self.ending.rounds.get().map(Weak::upgrade) {
            None => guard(op, || {
                let until = |state: &mut S| (self.ending.until)(state, merged());
                self.control.end_round(counts, (clock, op.signals()), None, until);
            }),
            Some(Some(hosts)) => {
                let part = guard(op, merged);
                drop(brought);
                hosts.contribute(RoundEnd { counts, part }.encoded())?;
            }
            // The job is over.
            Some(None) => {}
        }
        Ok(())
    }
}
