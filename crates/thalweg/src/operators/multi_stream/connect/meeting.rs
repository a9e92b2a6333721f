//! The stage in which records are paired with the state that a control stream changes.
//!
//! Where the control stream is to come first, records are not read before it has ended. If one of the streams
//! might block the other while it is not read, records are read and held. Watermarks, which would overtake held
//! records, are held back with them.

use super::copies::Copies;
use super::held::{HashOf, Held, redistributed};
use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Covariant, Data, Portable, Wire};
use crate::error::Result;
use crate::exchange::{Edge, PairInlet};
use crate::flow::{Event, Flow, Op, Pipe, Push, PushTwo, guard};
use crate::metrics::Report;
use crate::operators::loops::Beside;
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::support::owned_heap::{OwnedHeap, Wording};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

const WORDING: Wording = Wording {
    state: "the state that the control stream has changed",
    less: "each task has all of it: fewer tasks, or a `join` by key in its place, need less",
};

/// Which of the streams is read first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Both, in the order of arrival.
    Arrival,
    /// All of the control stream first.
    ControlFirst,
}

/// The control stream as an input of the stage.
pub(super) struct Controls<J: Portable + ?Sized, T: Time> {
    pub(super) edges: Vec<Edge<J, T>>,
    pub(super) op: usize,
    pub(super) from: usize,
}

/// The records as an input of the stage.
pub(super) struct Records<I: Portable + ?Sized, T: Time> {
    pub(super) edge: Edge<I, T>,
    pub(super) op: usize,
    pub(super) from: usize,
    pub(super) hash: HashOf<I>,
}

/// The chain that begins with records paired with a state that a control stream changes.
pub struct Connected<I: Portable + ?Sized, J: Portable + ?Sized, T: Time, S, U> {
    pub(super) controls: Controls<J, T>,
    pub(super) records: Records<I, T>,
    pub(super) stage: usize,
    pub(super) op: usize,
    pub(super) order: Order,
    pub(super) init: Arc<S>,
    pub(super) update: Arc<U>,
    pub(super) copies: Arc<Copies>,
}

impl<I, J, T, S, U> Chain for Connected<I, J, T, S, U>
where
    I: Wire + Covariant + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    S: Data + Clone + Sync,
    U: for<'a> Fn(&mut S, J::Of<'a>) + Send + Sync + 'static,
{
    type Item = Beside<I, S>;
    type Time = T;
    type Task<N: Push<Self::Item, T> + 'static> =
        PairInlet<J, I, T, ConnectedPush<I, J, T, S, U, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, T> + 'static,
    {
        let (controls, records) = (&self.controls, &self.records);
        let waits = self.order == Order::ControlFirst;
        let saved = cx.state::<(bool, S)>(self.op, "state", Redistribution::United);
        let state = restored(&saved)?;
        self.copies.add_task();
        let saved_held =
            cx.state::<(I::Owned, T)>(self.op, "held", redistributed::<I>(records.hash));
        let mut held = Held::new(cx, self.op);
        held.restore(&saved_held)?;
        let mut heap = OwnedHeap::new(cx, self.op, WORDING);
        heap.changed();
        let push = ConnectedPush {
            op: cx.op(self.op),
            init: Arc::clone(&self.init),
            state: state.unwrap_or_else(|| S::clone(&self.init)),
            heap,
            saved,
            copies: Arc::clone(&self.copies),
            saved_held,
            hash: records.hash,
            update: Arc::clone(&self.update),
            waits,
            open: !waits,
            holds: waits && cx.plan.are_connected(controls.from, records.from, self.stage),
            held,
            held_back: [None; 2],
            over: false,
            failed: false,
            passed: 0,
            next,
            types: PhantomData,
        };
        let first = Edge::all_lanes_to(&controls.edges, cx.task);
        let ops = (cx.op(controls.op), cx.op(records.op));
        let again = [controls.from, records.from].map(|from| cx.comes_again(from, self.stage));
        Ok(PairInlet::new(ops, again.into(), first, records.edge.lanes_to(cx.task), push))
    }
}

/// The state that all tasks go on with: that of a task whose records had not ended, if there was one. Where several tasks send
/// control records, these may have come in another order than in the others, as before.
fn restored<S: Data>(saved: &StateHandle) -> Result<Option<S>> {
    let mut found = None::<(bool, S)>;
    saved.restore(|(ended, state): (bool, S)| {
        if found.as_ref().is_none_or(|(had_ended, _)| *had_ended && !ended) {
            found = Some((ended, state));
        }
        Ok(())
    })?;
    Ok(found.map(|(_, state)| state))
}

/// Pairs records with a state, in a running task. The control stream is the first input.
pub struct ConnectedPush<I: Wire + ?Sized, J: ?Sized, T: Time, S, U, N> {
    op: Op,
    init: Arc<S>,
    state: S,
    heap: OwnedHeap<S>,
    update: Arc<U>,
    /// Whether the records have ended, and the state; in one of the tasks.
    saved: StateHandle,
    copies: Arc<Copies>,
    saved_held: StateHandle,
    hash: HashOf<I>,
    /// Whether all of the control stream comes first.
    waits: bool,
    /// Whether records may be passed on.
    open: bool,
    /// Whether records are read, and held, before they may be passed on.
    holds: bool,
    held: Held<I, T>,
    /// The last watermark and idle event, received while records were held.
    held_back: [Option<Event>; 2],
    /// Whether the records have ended, or those of this round.
    over: bool,
    failed: bool,
    passed: u64,
    next: N,
    types: PhantomData<fn(&J)>,
}

impl<I, J, T, S, U, N> Pipe for ConnectedPush<I, J, T, S, U, N>
where
    I: Wire + Covariant + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    S: Data + Clone + Sync,
    U: Send + Sync,
    N: Push<Beside<I, S>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        let ended = event == Event::End;
        self.saved.save(event, |out| {
            if self.copies.are_saved_by_this(event) {
                out.add_by_key(0, |bytes| {
                    ended.encode(bytes);
                    self.state.encode(bytes);
                });
            }
        });
        let held = self.saved_held.try_save(event, |out| match ended {
            true => Ok(()),
            false => self.held.save(self.hash, out),
        });
        if let Err(error) = held {
            self.failed = true;
            self.op.fail(error);
        }
        if !self.open {
            match event {
                Event::Watermark(_) => {
                    self.held_back = [Some(event), None];
                    return;
                }
                Event::Idle => {
                    self.held_back[1] = Some(event);
                    return;
                }
                Event::Partition(_) | Event::Barrier(_) | Event::Round(_) | Event::End => {}
            }
        }
        if event.completes() {
            self.over = false;
            // Records that are left were not needed: the stage was closed.
            self.held.clear();
        }
        self.next.event(event);
    }

    fn resume(&mut self) -> Flow {
        if let Err(error) = guard(&self.op, || self.heap.fit(Some(&self.state))) {
            self.failed = true;
            self.op.fail(error);
        }
        let flow = self.next.resume();
        if flow != Flow::Ready || !self.open || self.failed {
            return flow;
        }
        if !self.held.is_empty() {
            if self.next.is_closed() {
                return Flow::Ready;
            }
            let Self { held, hash, next, state, passed, .. } = self;
            let given = held.give(*hash, |item, time| {
                *passed += 1;
                next.push((I::shorten(item), &*state), time);
            });
            if let Err(error) = given {
                self.failed = true;
                self.op.fail(error);
            }
            return Flow::Busy;
        }
        match self.held_back.iter_mut().find_map(Option::take) {
            Some(event) => {
                self.next.event(event);
                Flow::Busy
            }
            None => Flow::Ready,
        }
    }

    fn is_closed(&mut self) -> bool {
        // No record is left that further control records could affect.
        (self.over && self.held.is_empty()) || self.next.is_closed()
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.passed);
        report.kept(op, self.held.len());
        report.spilled(op, self.held.written());
        self.next.report(report);
    }
}

impl<I, J, T, S, U, N> PushTwo<J, I, T> for ConnectedPush<I, J, T, S, U, N>
where
    I: Wire + Covariant + ?Sized,
    J: Portable + ?Sized,
    T: Time,
    S: Data + Clone + Sync,
    U: for<'a> Fn(&mut S, J::Of<'a>) + Send + Sync,
    N: Push<Beside<I, S>, T>,
{
    #[inline(always)]
    fn push_first(&mut self, control: J::Of<'_>, _: T) {
        let Self { op, state, update, heap, .. } = self;
        heap.changed();
        guard(op, || update(state, control));
    }

    #[inline(always)]
    fn push_second(&mut self, item: I::Of<'_>, time: T) {
        if self.open {
            self.passed += 1;
            self.next.push((I::shorten(item), &self.state), time);
        } else if !self.failed
            && let Err(error) = self.held.push(item, time)
        {
            self.failed = true;
            self.op.fail(error);
        }
    }

    fn first_ended(&mut self) {
        self.open = true;
    }

    fn second_ended(&mut self) {
        self.over = true;
    }

    fn round_ends(&mut self, controls_come_again: bool) {
        if controls_come_again {
            self.state = S::clone(&self.init);
            self.heap.restarted();
            self.open = !self.waits;
        }
    }

    fn wants_second(&self) -> bool {
        self.open || self.holds
    }
}
