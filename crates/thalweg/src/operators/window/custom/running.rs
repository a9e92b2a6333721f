//! The operator of custom windows, in the task that owns the keys: calls the handler, and executes its requests.

use super::context::{Order, WindowContext};
use super::small_map::SmallMap;
use super::{CustomPane, CustomWindow, MakeWindows};
use crate::data::{Data, Key, Portable, Record, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{CHUNK, Op, Push, guard, guard_key};
use crate::metrics::Report;
use crate::operators::aggregates::{Aggregate, AggregateRef};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::operators::window::early::{Counts, EarlyStates, Pace, Tick};
use crate::operators::window::windowed::Described;
use crate::operators::window::{Inspected, Timing};
use crate::plan::TaskContext;
use crate::state::HeapEstimate;
use crate::stream::{Chain, Stream};
use crate::support::keyed_timers::{
    EventClock, Firing, KeyedTimers, KeysOf, Takes, TimedState, TimerClock, TimerPolicy, TimerPush,
};
use crate::time::{Time, Timestamp};
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::sync::Arc;

/// Merges a state into another one, if the aggregate can.
pub(super) type Merge<A, S> = Option<fn(&A, &mut S, S)>;

/// Sends records to the tasks that own their keys, and makes the handler's windows there.
pub(super) fn run_windows<C, G, P, H, A, E>(
    keyed: KeyedStream<C, G, P>,
    plan: Described,
    window: CustomWindow<G::Value, H, E>,
    aggregate: A,
    merge: Merge<A, A::State>,
) -> Stream<RunningWindows<P::PartitionedChain<C, G>, P::Keys<C, G>, H, A, A::State, E>>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value: Inspected>,
    P: Placed,
    H: MakeWindows<G::Value, C::Time>,
    A: AggregateRef<G::Value>,
    E: EarlyStates<A::State>,
    for<'a> <G::Value as Record>::Of<'a>: Clone,
{
    let (stream, keys) = P::partitioned(keyed, plan.origin).into_parts();
    let CustomWindow { handler, early, .. } = window;
    let run = RunWindows { handler, aggregate: Arc::new(aggregate), merge, early };
    stream.then_described(plan.origin, plan.details, |prev, op| RunningWindows {
        prev,
        op,
        keys,
        run,
    })
}

/// The chain that ends with the results of a handler's windows. All records of a key must be in one task.
pub struct RunningWindows<C, G, H, A, S, E> {
    prev: C,
    op: usize,
    keys: G,
    run: RunWindows<H, A, S, E>,
}

/// The handler of the windows, and what is computed for them.
struct RunWindows<H, A, S, E> {
    handler: Arc<H>,
    aggregate: Arc<A>,
    merge: Merge<A, S>,
    early: E,
}

impl<H, A, S, E: Copy> Clone for RunWindows<H, A, S, E> {
    fn clone(&self) -> Self {
        let (handler, aggregate) = (Arc::clone(&self.handler), Arc::clone(&self.aggregate));
        Self { handler, aggregate, merge: self.merge, early: self.early }
    }
}

impl<C, G, H, A, E> Chain for RunningWindows<C, G, H, A, A::State, E>
where
    C: Chain,
    G: KeyBy<C::Item, Value: Inspected>,
    H: MakeWindows<G::Value, C::Time>,
    A: AggregateRef<G::Value>,
    E: EarlyStates<A::State>,
    for<'a> <G::Value as Record>::Of<'a>: Clone,
{
    type Item = (<G::Key as Portable>::Owned, CustomPane<H::Bounds, A::Output>);
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<TimerPush<WindowKeys<C::Item, C::Time, G, H, A, E, N>>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let policy = WindowKeys {
            by: self.keys.clone(),
            calls: Calls {
                op: cx.op(self.op),
                run: self.run.clone(),
                orders: Vec::new(),
                due: Due { pace: Pace::new(cx, self.run.early.early()), windows: Vec::new() },
                late: 0,
            },
            out: Vec::new(),
            emitted: 0,
            next,
            types: PhantomData,
        };
        let keys = KeyedTimers::new(cx, self.op, "the windows and timers", HINT)?;
        self.prev.attach(cx, TimerPush::new(keys, policy))
    }
}

/// A hint for the error when memory is exhausted.
const HINT: &str =
    "shorter windows, or a smaller state (as of a count, in place of a list), need less";

/// The state of a key.
#[derive(Data)]
pub struct KeyWindows<S, B: Ord, A, T, C: Counts> {
    own: S,
    windows: SmallMap<B, Open<A, T, C>>,
    /// Timers that the handler has set.
    timers: SmallMap<i64, ()>,
    /// The ends of windows that fire by themselves.
    ends: SmallMap<(i64, B), ()>,
    /// When early results are due by the clock.
    tick: C::Tick,
    /// The handler has requested that the key be dropped once it has no windows and timers.
    forget: bool,
    weight: Weight,
    /// The bytes that the aggregates of all windows own on the heap.
    heap: usize,
}

/// A window that is open.
#[derive(Data)]
struct Open<A, T, C> {
    state: A,
    /// For early results.
    counts: C,
    /// The greatest time of its values.
    time: T,
    end: Option<i64>,
    weight: Weight,
}

/// The heap memory of a state. It is measured again only after the number of changes has grown by about a
/// quarter, since measuring a list traverses it.
#[derive(Clone, Copy, Default, Data)]
struct Weight {
    changes: u64,
    bytes: usize,
}

impl Weight {
    #[inline(always)]
    fn changed<D: Data>(&mut self, what: &D) {
        self.changes += 1;
        let bits = u64::BITS - self.changes.leading_zeros();
        if needs_drop::<D>() && self.changes.trailing_zeros() + 3 >= bits {
            self.bytes = what.heap_size();
        }
    }
}

impl<S, B, A, T, C> TimedState for KeyWindows<S, B, A, T, C>
where
    S: Data,
    B: Data + Ord,
    A: Data,
    T: Data,
    C: Counts,
{
    type Clocks = C::Clocks<EventClock>;
    type Owned = ();

    fn due(&self, clock: TimerClock) -> Option<i64> {
        match clock {
            TimerClock::Event => self.first_due(),
            TimerClock::Processing => self.tick.due(clock),
        }
    }

    fn is_spent(&self) -> bool {
        (size_of::<S>() == 0 || self.forget)
            && self.windows.is_empty()
            && self.timers.is_empty()
            && self.ends.is_empty()
    }

    fn heap(&self) -> usize {
        self.weight.bytes + self.heap + self.windows.heap() + self.timers.heap() + self.ends.heap()
    }
}

impl<S, B: Ord, A, T, C: Counts> KeyWindows<S, B, A, T, C> {
    /// The earliest end of its windows or time of its timers.
    fn first_due(&self) -> Option<i64> {
        let end = self.ends.first().map(|(end, _)| *end);
        self.timers.first().copied().into_iter().chain(end).min()
    }

    fn new(own: S) -> Self {
        Self {
            own,
            windows: SmallMap::new(),
            timers: SmallMap::new(),
            ends: SmallMap::new(),
            tick: Default::default(),
            forget: false,
            weight: Weight::default(),
            heap: 0,
        }
    }

    /// Removes a window.
    fn close(&mut self, bounds: &B) -> Option<(B, Open<A, T, C>)> {
        let (bounds, open) = self.windows.remove(bounds)?;
        Some(self.closed(bounds, open))
    }

    /// Removes the first window.
    fn close_first(&mut self) -> Option<(B, Open<A, T, C>)> {
        let (bounds, open) = self.windows.pop_first()?;
        Some(self.closed(bounds, open))
    }

    fn closed(&mut self, bounds: B, open: Open<A, T, C>) -> (B, Open<A, T, C>) {
        self.heap -= open.weight.bytes;
        let Some(end) = open.end else { return (bounds, open) };
        let entry = (end, bounds);
        self.ends.remove(&entry);
        (entry.1, open)
    }
}

/// The part of a running task that is independent of the keys.
struct Calls<H, A, S, B, E> {
    op: Op,
    run: RunWindows<H, A, S, E>,
    /// The requests of the handler during a call.
    orders: Vec<Order<B>>,
    due: Due<B>,
    late: u64,
}

/// The early results that are due.
struct Due<B> {
    pace: Pace,
    /// The windows that have enough records during a call.
    windows: Vec<B>,
}

impl<B: Clone> Due<B> {
    /// Registers that a window has changed.
    #[inline(always)]
    fn changed<C: Counts>(&mut self, bounds: &B, counts: &C, tick: &mut C::Tick) {
        match self.pace.records() {
            Some(records) if counts.fresh() >= records => self.windows.push(bounds.clone()),
            Some(_) => {}
            None => tick.set(tick.get().min(self.pace.next_tick())),
        }
    }
}

/// The progress of time in a task.
#[derive(Clone, Copy)]
struct Now {
    watermark: Option<Timestamp>,
    ended: bool,
}

/// The result of a window, with its time.
type Given<B, O, T> = (CustomPane<B, O>, T);
/// The state of a key.
type KeyWindowsOf<H, A, V, T, E> = KeyWindows<
    <H as MakeWindows<V, T>>::State,
    <H as MakeWindows<V, T>>::Bounds,
    <A as Aggregate<V>>::State,
    T,
    <E as EarlyStates<<A as Aggregate<V>>::State>>::Counts,
>;

impl<H, A, S, B, E> Calls<H, A, S, B, E>
where
    S: Data,
    B: Data + Ord + Clone,
    E: EarlyStates<S>,
{
    /// Calls the handler, with a value if there is one, and executes its requests. The times of results are at
    /// least `floor` and the watermark.
    #[inline(always)]
    fn call<V, T>(
        &mut self,
        windows: &mut KeyWindowsOf<H, A, V, T, E>,
        value: Option<(&V::Of<'_>, T)>,
        Now { watermark, ended }: Now,
        floor: Timestamp,
        call: impl FnOnce(&H, &mut H::State, &mut WindowContext<'_, B>),
        mut give: impl FnMut(Given<B, A::Output, T>),
    ) where
        V: Inspected + ?Sized,
        T: Time,
        H: MakeWindows<V, T, Bounds = B>,
        A: AggregateRef<V, State = S>,
        for<'a> V::Of<'a>: Clone,
    {
        let Self { op, run, orders, .. } = self;
        let mut cx = WindowContext { orders, late: false, watermark, ended };
        guard(op, || call(&run.handler, &mut windows.own, &mut cx));
        windows.weight.changed(&windows.own);
        // A value that was added to a window is not late, even if it is late for another one.
        let adds = |order: &Order<B>| matches!(order, Order::Add(_) | Order::AddUntil(..));
        self.late += u64::from(cx.late && value.is_some() && !self.orders.iter().any(adds));
        if !self.orders.is_empty() {
            let floor = T::happened(watermark.map_or(floor, |watermark| watermark.max(floor)));
            self.carry_out(windows, value, floor, &mut give);
            if E::ANY && ended {
                // The last results follow.
                self.due.windows.clear();
            }
            if E::ANY && !self.due.windows.is_empty() {
                self.give_due(windows, floor, give);
            }
        }
    }

    /// Emits the early results that are due by the number of records.
    #[cold]
    fn give_due<V, T>(
        &mut self,
        windows: &mut KeyWindowsOf<H, A, V, T, E>,
        floor: T,
        mut give: impl FnMut(Given<B, A::Output, T>),
    ) where
        V: Record + ?Sized,
        T: Time,
        H: MakeWindows<V, T, Bounds = B>,
        A: AggregateRef<V, State = S>,
    {
        let Self { op, run: RunWindows { aggregate, .. }, due: Due { pace, windows: due }, .. } =
            self;
        let records = pace.records().unwrap_or(1);
        for bounds in due.drain(..) {
            // It may be closed by now, or be in the list twice.
            let open = windows.windows.get_mut(&bounds);
            if let Some(open) = open.filter(|open| open.counts.fresh() >= records) {
                so_far::<V, T, A, B, E>(op, aggregate, bounds, open, floor)
                    .into_iter()
                    .for_each(&mut give);
            }
        }
    }

    /// Emits the results so far of the windows that have changed since the last tick.
    fn tick<V, T>(
        &mut self,
        windows: &mut KeyWindowsOf<H, A, V, T, E>,
        firing: Firing,
        mut give: impl FnMut(Given<B, A::Output, T>),
    ) where
        V: Record + ?Sized,
        T: Time,
        H: MakeWindows<V, T, Bounds = B>,
        A: AggregateRef<V, State = S>,
    {
        let Self { op, run: RunWindows { aggregate, .. }, .. } = self;
        windows.tick.set(i64::MAX);
        if firing.ended {
            // The tick has not come, and the last results follow.
            return;
        }
        let floor = T::happened(firing.watermark.unwrap_or(Timestamp::MIN));
        for (bounds, open) in windows.windows.iter_mut().filter(|(_, open)| open.counts.fresh() > 0)
        {
            so_far::<V, T, A, B, E>(op, aggregate, bounds.clone(), open, floor)
                .into_iter()
                .for_each(&mut give);
        }
    }

    /// Executes the requests of the handler.
    #[inline]
    fn carry_out<V, T>(
        &mut self,
        windows: &mut KeyWindowsOf<H, A, V, T, E>,
        value: Option<(&V::Of<'_>, T)>,
        floor: T,
        mut give: impl FnMut(Given<B, A::Output, T>),
    ) where
        V: Inspected + ?Sized,
        T: Time,
        H: MakeWindows<V, T, Bounds = B>,
        A: AggregateRef<V, State = S>,
        for<'a> V::Of<'a>: Clone,
    {
        let Self { op, run: RunWindows { aggregate, merge, early, .. }, orders, due, .. } = self;
        let (aggregate, early) = (&**aggregate, *early);
        let finish = |(bounds, open): (B, Open<S, T, E::Counts>)| {
            let value = guard(op, || aggregate.finish(open.state));
            (CustomPane::on_time(bounds, value), open.time.max(floor))
        };
        for order in orders.drain(..) {
            match order {
                Order::Add(bounds) => {
                    add(windows, (op, aggregate, early), due, (bounds, None), value)
                }
                Order::AddUntil(bounds, end) => {
                    let end = Some(end.as_micros());
                    add(windows, (op, aggregate, early), due, (bounds, end), value);
                }
                Order::Fire(bounds) => _ = windows.close(&bounds).map(|open| give(finish(open))),
                Order::FireAll => {
                    while let Some(open) = windows.close_first() {
                        give(finish(open));
                    }
                }
                Order::Discard(bounds) => drop(windows.close(&bounds)),
                Order::DiscardAll => while windows.close_first().is_some() {},
                Order::Merge(from, into) => {
                    if from == into {
                        continue;
                    }
                    let Some((_, from)) = windows.close(&from) else { continue };
                    let merged = merge_into::<_, _, _, E, _, _>(
                        windows,
                        (op, aggregate),
                        *merge,
                        due,
                        from,
                        into,
                    );
                    if !merged {
                        let what = "two windows with values were to become one, and what is computed of \
                                    them cannot be put together: compute what combines, as \
                                    `fold_assoc` and `reduce` do";
                        op.fail(Error::new(ErrorKind::Plan, what));
                    }
                }
                Order::SetTimer(at) => windows.timers.insert(at.as_micros(), ()),
                Order::Forget => windows.forget = true,
            }
        }
    }

    /// Fires the timers and window ends that are due, a bounded number of them.
    fn time_has_come<V, T>(
        &mut self,
        windows: &mut KeyWindowsOf<H, A, V, T, E>,
        firing: Firing,
        mut give: impl FnMut(Given<B, A::Output, T>),
    ) where
        V: Inspected + ?Sized,
        T: Time,
        H: MakeWindows<V, T, Bounds = B>,
        A: AggregateRef<V, State = S>,
        for<'a> V::Of<'a>: Clone,
    {
        let now = Now { watermark: firing.watermark, ended: firing.ended };
        for _ in 0..CHUNK {
            let Some(at) = windows.first_due().filter(|at| *at <= firing.until) else { return };
            // The last timestamp before it; the watermark that has reached it has not been passed on yet.
            let floor = Timestamp::from_micros(at.saturating_sub(1));
            if windows.ends.first().is_some_and(|(end, _)| *end == at) {
                if let Some(((_, bounds), ())) = windows.ends.pop_first() {
                    self.orders.push(Order::Fire(bounds));
                    let floor = T::happened(now.watermark.map_or(floor, |past| past.max(floor)));
                    self.carry_out(windows, None, floor, &mut give);
                }
                continue;
            }
            windows.timers.remove(&at);
            let at = Timestamp::from_micros(at);
            let call = |handler: &H, own: &mut _, cx: &mut WindowContext<'_, B>| {
                handler.on_timer(own, at, cx)
            };
            self.call(windows, None, now, floor, call, &mut give);
        }
    }
}

/// Adds a value to a window.
#[inline(always)]
fn add<V, T, A, B, O, E>(
    windows: &mut KeyWindows<O, B, A::State, T, E::Counts>,
    (op, aggregate, early): (&Op, &A, E),
    due: &mut Due<B>,
    (bounds, end): (B, Option<i64>),
    value: Option<(&V::Of<'_>, T)>,
) where
    V: Record + ?Sized,
    T: Time,
    A: AggregateRef<V>,
    B: Ord + Clone,
    E: EarlyStates<A::State>,
    for<'a> V::Of<'a>: Clone,
{
    let Some((value, time)) = value else { return };
    let KeyWindows { windows, ends, tick, heap, .. } = windows;
    let mut take = |bounds: &B, open: &mut Open<A::State, T, E::Counts>| {
        if end.is_some() && open.end != end {
            if let Some(before) = open.end {
                ends.remove(&(before, bounds.clone()));
            }
            open.end = end;
            if let Some(end) = end {
                ends.insert((end, bounds.clone()), ());
            }
        }
        open.time = open.time.max(time);
        guard(op, || aggregate.update_ref(&mut open.state, value));
        let before = open.weight.bytes;
        open.weight.changed(&open.state);
        *heap = *heap + open.weight.bytes - before;
        if E::ANY {
            open.counts.took();
            due.changed(bounds, &open.counts, tick);
        }
    };
    if let Some(open) = windows.get_mut(&bounds) {
        take(&bounds, open);
        return;
    }
    let state = guard(op, || aggregate.start());
    let (counts, weight) = (early.start(), Weight::default());
    let mut open = Open { state, counts, time, end: None, weight };
    take(&bounds, &mut open);
    windows.insert(bounds, open);
}

/// The early result of a window.
fn so_far<V, T, A, B, E>(
    op: &Op,
    aggregate: &A,
    bounds: B,
    open: &mut Open<A::State, T, E::Counts>,
    floor: T,
) -> Option<Given<B, A::Output, T>>
where
    V: Record + ?Sized,
    T: Time,
    A: Aggregate<V>,
    E: EarlyStates<A::State>,
{
    let value = guard(op, || E::copy(&open.state).map(|state| aggregate.finish(state)))?;
    let timing = Timing::Early(open.counts.give());
    Some((CustomPane { bounds, timing, value }, open.time.max(floor)))
}

/// Merges a window into another one; returns whether that was possible.
fn merge_into<T, A, S, E, B, O>(
    windows: &mut KeyWindows<O, B, S, T, E::Counts>,
    (op, aggregate): (&Op, &A),
    merge: Merge<A, S>,
    due: &mut Due<B>,
    from: Open<S, T, E::Counts>,
    into: B,
) -> bool
where
    T: Time,
    B: Ord + Clone,
    S: Data,
    E: EarlyStates<S>,
{
    let KeyWindows { windows, ends, tick, heap, .. } = windows;
    if let Some(open) = windows.get_mut(&into) {
        let Some(merge) = merge else { return false };
        guard(op, || merge(aggregate, &mut open.state, from.state));
        open.time = open.time.max(from.time);
        let before = open.weight.bytes;
        if needs_drop::<S>() {
            open.weight.bytes = open.state.heap_size();
        }
        open.weight.changes += from.weight.changes;
        *heap = *heap + open.weight.bytes - before;
        open.counts.merge(from.counts);
        if open.counts.fresh() > 0 {
            due.changed(&into, &open.counts, tick);
        }
    } else {
        if from.counts.fresh() > 0 {
            due.changed(&into, &from.counts, tick);
        }
        if let Some(end) = from.end {
            ends.insert((end, into.clone()), ());
        }
        *heap += from.weight.bytes;
        windows.insert(into, from);
    }
    true
}

/// Custom windows in a running task.
pub struct WindowKeys<I, T, G, H, A, E, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I>,
    H: MakeWindows<G::Value, T>,
    A: AggregateRef<G::Value>,
{
    by: G,
    calls: Calls<H, A, A::State, H::Bounds, E>,
    /// The results that a record completes.
    out: Vec<Given<H::Bounds, A::Output, T>>,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I)>,
}

/// The items that the task emits.
type Out<I, T, G, H, A> = (
    <<G as KeyBy<I>>::Key as Portable>::Owned,
    CustomPane<
        <H as MakeWindows<<G as KeyBy<I>>::Value, T>>::Bounds,
        <A as Aggregate<<G as KeyBy<I>>::Value>>::Output,
    >,
);

impl<I, T, G, H, A, E, N> TimerPolicy for WindowKeys<I, T, G, H, A, E, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Value: Inspected>,
    H: MakeWindows<G::Value, T>,
    A: AggregateRef<G::Value>,
    E: EarlyStates<A::State>,
    for<'a> <G::Value as Record>::Of<'a>: Clone,
    N: Push<Out<I, T, G, H, A>, T>,
{
    type Key = G::Key;
    type State = KeyWindowsOf<H, A, G::Value, T, E>;
    type Next = N;

    const ENDS: bool = true;

    fn next(&mut self) -> &mut N {
        &mut self.next
    }

    fn wake(
        &mut self,
        key: &G::Key,
        windows: &mut Self::State,
        firing: Firing,
        _: &mut HeapEstimate<()>,
    ) {
        let Self { calls, emitted, next, .. } = self;
        let give = |(pane, time)| {
            *emitted += 1;
            next.push((key.own(), pane), time);
        };
        guard_key(key, || match firing.clock {
            TimerClock::Event => calls.time_has_come::<G::Value, T>(windows, firing, give),
            TimerClock::Processing => calls.tick::<G::Value, T>(windows, firing, give),
        });
    }

    fn catch_up(&mut self, _: &mut KeysOf<Self>) -> bool {
        if E::ANY {
            self.calls.due.pace.look();
        }
        false
    }

    fn end(
        &mut self,
        key: &G::Key,
        windows: &mut Self::State,
        watermark: Option<Timestamp>,
    ) -> bool {
        let Self { calls, emitted, next, .. } = self;
        let end = |handler: &H, own: &mut _, cx: &mut WindowContext<'_, _>| {
            handler.on_end(own, cx);
        };
        let give = |(pane, time)| {
            *emitted += 1;
            next.push((key.own(), pane), time);
        };
        let now = Now { watermark, ended: true };
        guard_key(key, || {
            calls.call::<G::Value, T>(windows, None, now, Timestamp::MIN, end, give);
        });
        false
    }

    fn report(&mut self, keys: &KeysOf<Self>, report: &mut Report) {
        let op = self.calls.op.id();
        report.emitted(op, self.emitted);
        report.late(op, self.calls.late, self.calls.late);
        if T::LAST.timestamp().is_some() {
            let until = keys.first_due(TimerClock::Event);
            report.open_until(op, until.map(Timestamp::from_micros));
        }
    }
}

impl<I, T, G, H, A, E, N> Takes<I, T> for WindowKeys<I, T, G, H, A, E, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Value: Inspected>,
    H: MakeWindows<G::Value, T>,
    A: AggregateRef<G::Value>,
    E: EarlyStates<A::State>,
    for<'a> <G::Value as Record>::Of<'a>: Clone,
    N: Push<Out<I, T, G, H, A>, T>,
{
    #[inline(always)]
    fn take(&mut self, keys: &mut KeysOf<Self>, item: I::Of<'_>, time: T) {
        let Self { by, calls, out, emitted, next, .. } = self;
        let (hash, key) = guard(&calls.op, || (by.hash(&item), by.key(&item)));
        let start = || {
            let own = guard(&calls.op, || calls.run.handler.start());
            KeyWindows::new(own)
        };
        let now = Now { watermark: keys.watermark(), ended: false };
        let Some(mut visit) = keys.visit(hash, key, start) else { return };
        let value = guard(&calls.op, || by.value(item));
        let windows = visit.state();
        if windows.forget {
            if windows.is_spent() {
                windows.own = guard(&calls.op, || calls.run.handler.start());
            }
            windows.forget = false;
        }
        let call = |handler: &H, own: &mut _, cx: &mut WindowContext<'_, _>| {
            handler.on_value(own, G::Value::inspect(&value), time, cx);
        };
        let give = |given| out.push(given);
        visit.guard(|windows| {
            let value = Some((&value, time));
            calls.call::<G::Value, T>(windows, value, now, Timestamp::MIN, call, give);
        });
        for (pane, time) in out.drain(..) {
            *emitted += 1;
            next.push((visit.key(), pane), time);
        }
        visit.leave(hash);
    }
}
