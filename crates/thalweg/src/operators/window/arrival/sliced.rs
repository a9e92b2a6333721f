//! Windows of arrivals for aggregates that combine: combined from slices that windows share.
//!
//! The arrivals of a key are cut into slices where windows begin or end, like event time for its windows (see
//! `frames`). A value is added to the open slice. A full slice enters the rolling aggregate, and when a window
//! is complete, its result is the rolling aggregate. So a record costs the same whatever the overlap, and memory
//! for each key is at most two slices per slide.
//!
//! Early results of windows that overlap are combined from the slices themselves, from the latest to the first: one
//! combination for each slice, however many windows are due. These slices are kept beside the rolling aggregate.

use super::greatest::Greatest;
use super::key_windows::{Given, KeyWindows, Now, Running};
use super::spans::Spans;
use crate::data::{Data, Record};
use crate::hints::prefetch_all;
use crate::operators::aggregates::Combine;
use crate::operators::window::early::{Counts, Early, EarlyStates, Tick};
use crate::operators::window::frames::WindowId;
use crate::operators::window::rolling::Rolling;
use crate::operators::window::{CountPane, Timing};
use crate::support::keyed_timers::{Firing, NoClock, TimedState, TimerClock};
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Windows of a number of values, for an aggregate that combines.
pub struct Sliced<A, E> {
    pub(super) spans: Spans,
    pub(super) aggregate: Arc<A>,
    pub(super) early: E,
}

impl<A, E: Copy> Clone for Sliced<A, E> {
    fn clone(&self) -> Self {
        let Self { spans, ref aggregate, early } = *self;
        Self { spans, aggregate: Arc::clone(aggregate), early }
    }
}

/// The state of a key.
#[derive(Data)]
pub struct Slices<S, T, C: Counts> {
    /// The number of values that have arrived.
    arrived: u64,
    /// The open slice, and the number of arrivals at which it is full.
    slice: i64,
    until: u64,
    open: Option<Running<S, T>>,
    /// For early results: the counts of the open window, if windows do not overlap, and when they are due.
    counts: C,
    tick: C::Tick,
    /// The full slices, if windows overlap.
    full: Option<Box<Full<S, T, C>>>,
    /// The bytes of the full slices, and those that the open slice owned when it was measured.
    heap: usize,
}

impl<S: Data, T: Time, C: Counts> TimedState for Slices<S, T, C> {
    type Clocks = C::Clocks<NoClock>;
    type Owned = ();

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        self.tick.due(clock)
    }

    // The count of arrivals is kept as long as the job runs.
    #[inline(always)]
    fn is_spent(&self) -> bool {
        false
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        self.heap
    }
}

#[derive(Data)]
struct Full<S, T, C> {
    rolling: Rolling<(S, T)>,
    /// The states that are to be subtracted again, or that early results are combined from.
    entered: VecDeque<(i64, S)>,
    /// The times of these slices, which cannot be subtracted.
    times: Greatest<T>,
    /// For early results: the counts of each open window.
    counts: VecDeque<C>,
    /// The heap memory of the last slice's state, used as an estimate for each.
    each: usize,
    /// The next window to be emitted at the end of the input.
    ending: Option<WindowId>,
}

impl<S: Data + Clone, T: Time, C> Full<S, T, C> {
    fn new(invertible: bool) -> Self {
        let rolling = Rolling::new(invertible);
        let (entered, times, counts) = (VecDeque::new(), Greatest::new(), VecDeque::new());
        Self { rolling, entered, times, counts, each: 0, ending: None }
    }

    fn bytes(&self) -> usize {
        let entered = self.entered.capacity() * size_of::<(i64, S)>();
        let slices = self.entered.len() + self.rolling.len();
        let counts = if size_of::<C>() == 0 { 0 } else { self.counts.capacity() * size_of::<C>() };
        let times = self.times.bytes();
        size_of::<Self>() + entered + self.rolling.bytes() + times + counts + slices * self.each
    }
}

impl<A, E> Sliced<A, E> {
    /// Closes the full slice and starts the next one. Returns the window that is complete, if there is one.
    fn close<V, T>(&self, known: &mut Slices<A::State, T, E::Counts>) -> Option<Given<A::Output, T>>
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
        E: EarlyStates<A::State>,
    {
        if let Some(full) = &known.full {
            prefetch_all(&**full);
        }
        let slice = known.slice;
        known.slice += 1;
        known.until = self.spans.end_of(known.slice);
        let open = known.open.take()?;
        if self.spans.is_apart() {
            let first = known.arrived - open.values();
            known.heap = 0;
            known.counts = self.early.start();
            known.tick.set(i64::MAX);
            return Some(self.pane::<V, T>(first, known.arrived, open.into_parts()));
        }
        let full = known.full.get_or_insert_with(|| Box::new(Full::new(A::INVERSE.is_some())));
        let (state, time) = open.into_parts();
        let window = self.spans.completed_by(slice);
        let window = window.filter(|window| *window >= 0 || self.spans.leading);
        if let Some(window) = window {
            // Leave before entering, so that a sum never covers more than a window.
            self.leave::<V, T>(full, self.spans.first_slice(window));
            full.counts.pop_front();
        }
        self.enter::<V, T>(full, slice, state, time);
        let total = window.and_then(|window| {
            Some((window, self.total::<V, T>(full, self.spans.first_slice(window))?))
        });
        known.heap = full.bytes();
        let (window, total) = total?;
        Some(self.pane::<V, T>(self.spans.first_record(window), known.arrived, total))
    }

    /// Adds a full slice to the rolling aggregate.
    fn enter<V, T>(
        &self,
        full: &mut Full<A::State, T, E::Counts>,
        slice: i64,
        state: A::State,
        time: T,
    ) where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
        E: EarlyStates<A::State>,
    {
        full.each = state.heap_size();
        if A::INVERSE.is_some() || E::ANY {
            full.times.add(slice, time);
            full.entered.push_back((slice, state.clone()));
        }
        full.rolling.add(slice, (state, time), &|into, from| self.combine::<V, T>(into, from));
    }

    /// Subtracts the slices before `first`.
    fn leave<V, T>(&self, full: &mut Full<A::State, T, E::Counts>, first: i64)
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
        E: EarlyStates<A::State>,
    {
        while full.entered.front().is_some_and(|(slice, _)| *slice < first) {
            if let Some((_, state)) = full.entered.pop_front()
                && let Some(inverse) = A::INVERSE
            {
                full.rolling.subtract(|(from, _)| inverse(&self.aggregate, from, &state));
            }
        }
    }

    /// The aggregate of the slices from `first` on.
    fn total<V, T>(
        &self,
        full: &mut Full<A::State, T, E::Counts>,
        first: i64,
    ) -> Option<(A::State, T)>
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
        E: EarlyStates<A::State>,
    {
        self.leave::<V, T>(full, first);
        let combine = |into: &mut _, from| self.combine::<V, T>(into, from);
        let (state, time) = full.rolling.total(first, &combine)?;
        Some((state, if A::INVERSE.is_some() { full.times.since(first) } else { time }))
    }

    /// Calls a closure with the results so far of the open windows that have `enough` records that were in none.
    fn so_far<V, T>(
        &self,
        known: &mut Slices<A::State, T, E::Counts>,
        enough: u64,
        now: &Now<'_>,
        mut give: impl FnMut(Given<A::Output, T>),
    ) where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
        E: EarlyStates<A::State>,
    {
        let Slices { arrived, slice, open, full, counts, .. } = known;
        if self.spans.is_apart() {
            let Some(open) = open.as_ref().filter(|_| counts.fresh() >= enough) else { return };
            let first = *arrived - open.values();
            let so_far = open.so_far::<V, A, E>(&self.aggregate, first, counts.give(), now);
            return so_far.into_iter().for_each(give);
        }
        let Some(full) = full.as_deref_mut() else { return };
        let first = self.spans.unfilled(*arrived);
        // From the latest window to the first, whose aggregates grow by the slices between their beginnings.
        let due = full.counts.iter_mut().enumerate().rev();
        let due = due.filter(|(_, counts)| counts.fresh() >= enough);
        let mut due = due.map(|(place, counts)| (first + place as WindowId, counts)).peekable();
        let mut earlier = full.entered.iter().rev();
        let (mut slice, mut total) = (*slice, open.as_ref().map(|open| open.state.clone()));
        let open = open.as_ref().map(|open| open.time);
        loop {
            let begins = |due: &(WindowId, _)| self.spans.first_slice(due.0) == slice;
            if let Some(total) = &total
                && let Some((window, counts)) = due.next_if(begins)
            {
                let first = self.spans.first_record(window);
                let time = full.times.from(slice).max(open).unwrap_or(T::LAST);
                let value = self.aggregate.finish(total.clone());
                let timing = Timing::Early(counts.give());
                let pane = CountPane { first, count: *arrived - first, timing, value };
                give((pane, now.at_least(time)));
            }
            // What is before the first of them must not be added: a sum may not have room for it.
            let Some((before, state)) = earlier.next().filter(|_| due.peek().is_some()) else {
                return;
            };
            slice = *before;
            match &mut total {
                Some(total) => self.aggregate.combine(total, state.clone()),
                None => total = Some(state.clone()),
            }
        }
    }

    fn combine<V, T>(&self, into: &mut (A::State, T), from: (A::State, T))
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V>,
    {
        self.aggregate.combine(&mut into.0, from.0);
        into.1 = into.1.max(from.1);
    }

    /// The result of a window from its first record to the last that has arrived.
    fn pane<V, T>(
        &self,
        first: u64,
        arrived: u64,
        (state, time): (A::State, T),
    ) -> Given<A::Output, T>
    where
        V: Record + ?Sized,
        A: Combine<V>,
    {
        let value = self.aggregate.finish(state);
        (CountPane::on_time(first, arrived - first, value), time)
    }
}

impl<V, T, A, E> KeyWindows<V, T> for Sliced<A, E>
where
    V: Record + ?Sized,
    T: Time,
    A: Combine<V, State: Clone>,
    E: EarlyStates<A::State>,
{
    type State = Slices<A::State, T, E::Counts>;
    type Output = A::Output;

    const EARLY: bool = E::ANY;

    fn early(&self) -> Option<Early> {
        self.early.early()
    }

    fn start(&self) -> Self::State {
        Slices {
            arrived: 0,
            slice: 0,
            until: self.spans.end_of(0),
            open: None,
            counts: self.early.start(),
            tick: Default::default(),
            full: None,
            heap: 0,
        }
    }

    #[inline(always)]
    fn take(
        &self,
        state: &mut Self::State,
        value: V::Of<'_>,
        time: T,
        _: &Now<'_>,
    ) -> Option<Given<A::Output, T>> {
        if E::ANY && !self.spans.is_apart() && state.arrived.is_multiple_of(self.spans.slide()) {
            let full = state.full.get_or_insert_with(|| Box::new(Full::new(A::INVERSE.is_some())));
            full.counts.push_back(self.early.start());
        }
        // A gap between two windows is a slice of its own.
        if state.open.is_some() || !self.spans.is_gap(state.slice) {
            let open = state.open.get_or_insert_with(|| Running::new(self.aggregate.start(), time));
            self.aggregate.update(&mut open.state, value);
            if let Some(bytes) = open.took(time) {
                state.heap = bytes + state.full.as_ref().map_or(0, |full| full.bytes());
            }
        }
        state.arrived += 1;
        if state.arrived < state.until {
            return None;
        }
        self.close::<V, T>(state)
    }

    fn after(&self, state: &mut Self::State, now: &Now<'_>, give: impl FnMut(Given<A::Output, T>)) {
        let Slices { open, full, counts, tick, .. } = state;
        let Some(records) = now.pace.records() else {
            if open.is_some() || full.is_some() {
                tick.set(tick.get().min(now.pace.next_tick()));
            }
            return;
        };
        let took = |counts: &mut E::Counts| {
            counts.took();
            counts.fresh() >= records
        };
        let is_due = match full {
            Some(full) => full.counts.iter_mut().fold(false, |due, counts| took(counts) | due),
            None => open.is_some() && took(counts),
        };
        if is_due {
            self.so_far::<V, T>(state, records, now, give);
        }
    }

    fn wake(
        &self,
        state: &mut Self::State,
        firing: Firing,
        now: &Now<'_>,
        give: impl FnMut(Given<A::Output, T>),
    ) {
        state.tick.set(i64::MAX);
        // At the end the tick has not come, and the last results follow.
        if !firing.ended {
            self.so_far::<V, T>(state, 0, now, give);
        }
    }

    fn at_end(&self, state: &mut Self::State) -> Option<Given<A::Output, T>> {
        if !self.spans.partial || state.arrived == 0 {
            return None;
        }
        if self.spans.is_apart() {
            let open = state.open.take()?;
            let first = state.arrived - open.values();
            state.heap = 0;
            return Some(self.pane::<V, T>(first, state.arrived, open.into_parts()));
        }
        let Slices { arrived, slice, open, full, heap, .. } = state;
        let full = full.get_or_insert_with(|| Box::new(Full::new(A::INVERSE.is_some())));
        let window = full.ending.unwrap_or_else(|| self.spans.unfilled(*arrived));
        full.ending = Some(window + 1);
        if let Some((state, time)) = open.take().map(Running::into_parts) {
            self.leave::<V, T>(full, self.spans.first_slice(window));
            self.enter::<V, T>(full, *slice, state, time);
        }
        let first = self.spans.first_record(window);
        let total = (first < *arrived)
            .then(|| self.total::<V, T>(full, self.spans.first_slice(window)))
            .flatten();
        *heap = full.bytes();
        Some(self.pane::<V, T>(first, *arrived, total?))
    }
}
