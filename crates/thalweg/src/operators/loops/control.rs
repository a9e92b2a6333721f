//! The coordination of a loop: its tails meet at the end of a round, and its heads learn whether there is
//! another.

use super::outcome::{Ended, Outcome};
use super::shared::Shared;
use crate::clock::Clock;
use crate::flow::{Op, Waker, guard};
use crate::metrics::{LoopStats, RoundLog};
use crate::sync::{AtomicU64, Mutex, Ordering, lock};
use std::sync::Arc;

/// The state that all tasks of a loop share.
pub struct Control<S> {
    pub(super) shared: Shared<S>,
    /// The state that each run begins with.
    initial: S,
    /// The most rounds of a run.
    most: u64,
    /// Whether another round needs records that the last one fed back.
    feeds: bool,
    run: Mutex<Run>,
    /// Rounds of all runs so far, times two, and one more if the run is over.
    decided: AtomicU64,
    heads: Mutex<Vec<Waker>>,
    /// How often the input of a head was complete, in all runs.
    complete: AtomicU64,
}

/// A run of a loop: the only one, unless the loop is in the body of another.
#[derive(Default)]
struct Run {
    /// Whether the input of a head is complete.
    begun: bool,
    rounds: u64,
    ended: Option<Ended>,
    /// The statistics of the rounds of all runs.
    log: RoundLog,
}

/// The decision after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Another,
    Over,
}

impl<S: Clone> Control<S> {
    pub(super) fn new(initial: S, most: u64, feeds: bool) -> Self {
        Self {
            shared: Shared::new(initial.clone()),
            initial,
            most,
            feeds,
            run: Mutex::new(Run::default()),
            decided: AtomicU64::new(0),
            heads: Mutex::new(Vec::new()),
            complete: AtomicU64::new(0),
        }
    }

    /// Registers a head, to be woken when a round has ended.
    pub(super) fn join(&self, head: Waker) {
        lock(&self.heads).push(head);
    }

    /// Called when the input of a head is complete: with the first one, the first round begins.
    pub(super) fn begin(&self, clock: &Clock) {
        let mut run = lock(&self.run);
        if !std::mem::replace(&mut run.begun, true) {
            run.log.begin(clock.now());
        }
    }

    /// The statistics of the rounds so far.
    pub(super) fn stats(&self) -> LoopStats {
        lock(&self.run).log.stats(self.most)
    }

    /// Called when the input of a head is complete, if the first round waits for the input of all heads.
    pub(super) fn gather(&self) {
        let heads = lock(&self.heads);
        let complete = self.complete.fetch_add(1, Ordering::AcqRel) + 1;
        if complete.is_multiple_of(heads.len() as u64) {
            heads.iter().for_each(Waker::wake);
        }
    }

    /// Whether the input of every head is complete in `runs` runs.
    pub(super) fn is_gathered(&self, runs: u64) -> bool {
        self.complete.load(Ordering::Acquire) >= runs * lock(&self.heads).len() as u64
    }

    /// The decision after `rounds` rounds of all runs; `None` while the last of them is still running.
    pub(super) fn verdict(&self, rounds: u64) -> Option<Verdict> {
        let decided = self.decided.load(Ordering::Acquire);
        let verdict = if decided.is_multiple_of(2) { Verdict::Another } else { Verdict::Over };
        (decided / 2 >= rounds).then_some(verdict)
    }

    /// Ends a round in which `out` records came out of the body and `fed` were fed back: changes the state, and
    /// decides whether there is another round. `change` returns whether the condition that ends the loop holds.
    fn end_round(&self, out: u64, fed: u64, clock: &Clock, change: impl FnOnce(&mut S) -> bool) {
        let holds = self.shared.change(change);
        let mut run = lock(&self.run);
        run.rounds += 1;
        run.log.end_round(clock.now(), out, fed);
        run.ended = if holds {
            Some(Ended::Condition)
        } else if self.feeds && fed == 0 {
            Some(Ended::NothingLeft)
        } else {
            (run.rounds >= self.most).then_some(Ended::Rounds)
        };
        let over = u64::from(run.ended.is_some());
        drop(run);
        let rounds = self.decided.load(Ordering::Relaxed) / 2 + 1;
        self.decided.store(2 * rounds + over, Ordering::Release);
        lock(&self.heads).iter().for_each(Waker::wake);
    }

    /// The outcome of the loop. Resets it for another run.
    pub(super) fn conclude(&self) -> Outcome<S> {
        let mut run = lock(&self.run);
        run.begun = false;
        let (rounds, ended) = (std::mem::take(&mut run.rounds), run.ended.take());
        drop(run);
        let state = self.shared.change(|state| std::mem::replace(state, self.initial.clone()));
        Outcome { state, rounds, ended: ended.unwrap_or(Ended::Rounds) }
    }
}

/// Where the tails of a loop meet, each with a partial state.
pub(super) struct Meeting<S, D> {
    control: Arc<Control<S>>,
    brought: Mutex<Brought<D>>,
    /// Merges one tail's partial state into another's.
    global: Box<dyn Fn(&mut D, D) + Send + Sync>,
    /// Changes the state by the merged partial states, and returns whether the loop is to end.
    until: Box<dyn Fn(&mut S, D) -> bool + Send + Sync>,
}

struct Brought<D> {
    /// In the order of the tails, so that floats are added up in the same order in every run.
    parts: Vec<Option<D>>,
    arrived: usize,
    out: u64,
    fed: u64,
}

impl<S: Clone, D: Default> Meeting<S, D> {
    pub(super) fn new(
        control: Arc<Control<S>>,
        tails: usize,
        global: impl Fn(&mut D, D) + Send + Sync + 'static,
        until: impl Fn(&mut S, D) -> bool + Send + Sync + 'static,
    ) -> Self {
        let parts = (0..tails).map(|_| None).collect();
        let brought = Mutex::new(Brought { parts, arrived: 0, out: 0, fed: 0 });
        Self { control, brought, global: Box::new(global), until: Box::new(until) }
    }

    /// Called by a tail that has seen the end of the round, with its partial state and how many records it
    /// received and fed back. The last tail ends the round.
    pub(super) fn arrive(
        &self,
        tail: usize,
        part: D,
        [out, fed]: [u64; 2],
        op: &Op,
        clock: &Clock,
    ) {
        let mut brought = lock(&self.brought);
        brought.parts[tail] = Some(part);
        brought.out += out;
        brought.fed += fed;
        brought.arrived += 1;
        if brought.arrived < brought.parts.len() {
            return;
        }
        brought.arrived = 0;
        let (out, fed) = (std::mem::take(&mut brought.out), std::mem::take(&mut brought.fed));
        self.control.end_round(out, fed, clock, |state| {
            guard(op, || {
                let mut parts = brought.parts.iter_mut().filter_map(Option::take);
                let mut all = parts.next().unwrap_or_default();
                parts.for_each(|part| (self.global)(&mut all, part));
                (self.until)(state, all)
            })
        });
    }
}
