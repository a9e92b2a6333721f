//! The operator in the task that owns the keys: calls the handler, and keeps states and timers.
//!
//! The entry of a key lists all its timers, in order; the engine of keyed timers has one timer per clock, for the
//! first of them.

use super::context::{Due, KeyTimers, ProcessContext};
use super::{Process, Timer};
use crate::clock::Clock;
use crate::data::{Data, Key, Portable, Record};
use crate::error::Result;
use crate::flow::{Forked, Op, Push, guard};
use crate::metrics::Report;
use crate::operators::keyed::KeyBy;
use crate::operators::side_outlet::MaybeSideOutput;
use crate::plan::TaskContext;
use crate::state::HeapEstimate;
use crate::stream::Chain;
use crate::support::keyed_timers::{
    BothClocks, Firing, KeyedTimers, KeysOf, Takes, TimedState, TimerClock, TimerPolicy, TimerPush,
};
use crate::time::{Time, Timestamp};
use std::marker::PhantomData;
use std::sync::Arc;

/// The chain that ends in what a handler emits. All records of a key must reach the same task.
pub struct Processing<C, G, H, X> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) handler: Arc<H>,
    pub(super) side_output: X,
}

impl<C, G, H, X> Chain for Processing<C, G, H, X>
where
    C: Chain,
    G: KeyBy<C::Item>,
    H: Process<G::Key, G::Value>,
    X: MaybeSideOutput<H::Side, C::Time>,
{
    type Item = (<G::Key as Portable>::Owned, H::Out);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<TimerPush<ProcessKeys<C::Item, C::Time, G, H, X::Outlet, N>>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let policy = ProcessKeys {
            by: self.keys.clone(),
            calls: Calls {
                op: cx.op(self.op),
                handler: Arc::clone(&self.handler),
                clock: cx.clock.clone(),
                out: Vec::new(),
                side: Vec::new(),
                emitted: 0,
                ends: Forked((next, self.side_output.outlet(cx, self.op))),
            },
            came: Timestamp::MIN,
            types: PhantomData,
        };
        let keys = KeyedTimers::new(cx, self.op, "the states and timers", HINT)?;
        self.prev.attach(cx, TimerPush::new(keys, policy))
    }
}

/// What needs less memory, for the error message.
const HINT: &str = "keys that `clear` forgets, in a timer for instance, need less";

/// The state and the timers of a key.
#[derive(Data)]
pub struct KeyState<S> {
    state: Option<S>,
    timers: KeyTimers,
}

impl<S> KeyState<S> {
    fn new() -> Self {
        Self { state: None, timers: KeyTimers::new() }
    }

    /// The index of the first timer of a clock.
    #[inline(always)]
    fn first(&self, clock: TimerClock) -> Option<usize> {
        let place = match clock {
            TimerClock::Event => 0,
            TimerClock::Processing => {
                self.timers.partition_point(|due| due.clock == TimerClock::Event)
            }
        };
        (self.timers.get(place)?.clock == clock).then_some(place)
    }
}

impl<S: Data> TimedState for KeyState<S> {
    type Clocks = BothClocks;
    type Owned = S;

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        self.first(clock).map(|place| self.timers[place].at)
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        self.state.is_none() && self.timers.is_empty()
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        if self.timers.spilled() { self.timers.capacity() * size_of::<Due>() } else { 0 }
    }

    fn owned(&self) -> usize {
        self.state.as_ref().map_or(0, Data::heap_size)
    }
}

/// A handler in a running task, and what it has emitted during a call.
struct Calls<H, O, S, N, X> {
    op: Op,
    handler: Arc<H>,
    clock: Clock,
    out: Vec<(O, Timestamp)>,
    side: Vec<(S, Timestamp)>,
    emitted: u64,
    /// The next operator, and the outlet to the side output.
    ends: Forked<(N, X)>,
}

/// The time of a call.
#[derive(Clone, Copy)]
struct Now {
    /// The timestamp of emitted records.
    at: Timestamp,
    watermark: Option<Timestamp>,
    ended: bool,
}

impl<H, O: 'static, S: 'static, N, X> Calls<H, O, S, N, X> {
    /// Calls the handler for a key, and then carries out what it requested through the context.
    #[inline(always)]
    fn call<K, V, T>(
        &mut self,
        key: &K,
        kept: &mut KeyState<H::State>,
        weighed: &mut HeapEstimate<H::State>,
        Now { at, watermark, ended }: Now,
        call: impl FnOnce(&H, &mut H::State, &mut ProcessContext<'_, O, S>),
    ) where
        K: Key + ?Sized,
        V: Record + ?Sized,
        T: Time,
        H: Process<K, V, Out = O, Side = S>,
        N: Push<(<K as Portable>::Owned, O), T>,
        X: Push<S, T>,
    {
        let Self { op, handler, clock, out, side, emitted, ends } = self;
        let KeyState { state, timers } = kept;
        let mut cx =
            ProcessContext { out, side, timers, cleared: false, at, watermark, ended, clock };
        guard(op, || {
            let state = state.get_or_insert_with(|| handler.start());
            call(handler, state, &mut cx);
        });
        if cx.cleared {
            if let Some(state) = &*state {
                weighed.leaves(state);
            }
            guard(op, || *state = None);
        }
        if timers.is_empty() && timers.spilled() {
            *timers = KeyTimers::new();
        }
        let (next, outlet) = &mut ends.0;
        *emitted += out.len() as u64;
        out.drain(..).for_each(|(record, at)| next.push((key.own(), record), T::happened(at)));
        side.drain(..).for_each(|(record, at)| outlet.push(record, T::happened(at)));
    }
}

/// The policy of keyed timers that calls a handler, in a running task.
pub struct ProcessKeys<I, T, G, H, X, N>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    H: Process<G::Key, G::Value>,
{
    by: G,
    calls: Calls<H, H::Out, H::Side, N, X>,
    /// When the records of this batch arrived, in a stream without timestamps.
    came: Timestamp,
    types: PhantomData<fn(&I, T)>,
}

impl<I, T, G, H, X, N> TimerPolicy for ProcessKeys<I, T, G, H, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    H: Process<G::Key, G::Value>,
    X: Push<H::Side, T>,
    N: Push<(<G::Key as Portable>::Owned, H::Out), T>,
{
    type Key = G::Key;
    type State = KeyState<H::State>;
    type Next = Forked<(N, X)>;

    fn next(&mut self) -> &mut Self::Next {
        &mut self.calls.ends
    }

    fn wake(
        &mut self,
        key: &G::Key,
        kept: &mut Self::State,
        firing: Firing,
        weighed: &mut HeapEstimate<H::State>,
    ) {
        let Some(place) = kept.first(firing.clock) else { return };
        let due = kept.timers.remove(place);
        let known = firing.watermark.unwrap_or(Timestamp::MIN);
        let at = match due.clock {
            TimerClock::Event => known.max(Timestamp::from_micros(due.at)),
            TimerClock::Processing => known,
        };
        let now = Now { at, watermark: firing.watermark, ended: firing.ended };
        self.calls.call::<_, G::Value, T>(key, kept, weighed, now, |handler, state, cx| {
            handler.on_timer(key, state, Timer::from(due), cx);
        });
    }

    fn catch_up(&mut self, _: &mut KeysOf<Self>) -> bool {
        if T::LAST.timestamp().is_none() {
            self.came = self.calls.clock.wall();
        }
        false
    }

    fn report(&mut self, _: &KeysOf<Self>, report: &mut Report) {
        report.emitted(self.calls.op.id(), self.calls.emitted);
    }
}

impl<I, T, G, H, X, N> Takes<I, T> for ProcessKeys<I, T, G, H, X, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    H: Process<G::Key, G::Value>,
    X: Push<H::Side, T>,
    N: Push<(<G::Key as Portable>::Owned, H::Out), T>,
{
    #[inline(always)]
    fn take(&mut self, keys: &mut KeysOf<Self>, item: I::Of<'_>, time: T) {
        let Self { by, calls, came, .. } = self;
        let at = time.timestamp().unwrap_or(*came);
        let now = Now { at, watermark: keys.watermark(), ended: false };
        let (hash, key) = guard(&calls.op, || (by.hash(&item), by.key(&item)));
        let visit = key.apart(|key| keys.visit(hash, key, KeyState::new));
        let Some(mut visit) = visit else { return };
        visit.see(|key, kept, weighed| {
            calls.call::<_, G::Value, T>(key, kept, weighed, now, |handler, state, cx| {
                handler.on_record(key, state, by.value(item), at, cx);
            });
        });
        visit.leave(hash);
    }
}
