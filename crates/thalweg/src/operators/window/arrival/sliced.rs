//! Windows of arrivals for aggregates that combine: combined from slices that windows share.
//!
//! The arrivals of a key are cut into slices where windows begin or end, like event time for its windows (see
//! `frames`). A value is added to the open slice. A full slice enters the rolling aggregate, and when a window
//! is complete, its result is the rolling aggregate. So a record costs the same whatever the overlap, and memory
//! for each key is at most two slices per slide.

use super::greatest::Greatest;
use super::key_windows::{Given, KeyWindows, Now, Running};
use super::spans::Spans;
use crate::data::{Data, Record};
use crate::operators::aggregates::Combine;
use crate::operators::window::CountPane;
use crate::operators::window::frames::WindowId;
use crate::operators::window::rolling::Rolling;
use crate::state::prefetch_all;
use crate::support::keyed_timers::{NoClock, TimedState, TimerClock};
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Windows of a number of values, for an aggregate that combines.
pub struct Sliced<A> {
    pub(super) spans: Spans,
    pub(super) aggregate: Arc<A>,
}

impl<A> Clone for Sliced<A> {
    fn clone(&self) -> Self {
        Self { spans: self.spans, aggregate: Arc::clone(&self.aggregate) }
    }
}

/// The state of a key.
pub struct Slices<S, T> {
    /// The number of values that have arrived.
    arrived: u64,
    /// The open slice, and the number of arrivals at which it is full.
    slice: i64,
    until: u64,
    open: Option<Running<S, T>>,
    /// The full slices, if windows overlap.
    full: Option<Box<Full<S, T>>>,
    /// The bytes of the full slices, and those that the open slice owned when it was measured.
    heap: usize,
}

impl<S: Data, T: Time> TimedState for Slices<S, T> {
    type Clocks = NoClock;
    type Owned = ();

    fn due(&self, _: TimerClock) -> Option<i64> {
        None
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

struct Full<S, T> {
    rolling: Rolling<(S, T)>,
    /// The states that are to be subtracted again.
    entered: VecDeque<(i64, S)>,
    /// The times of the slices that have entered, which cannot be subtracted.
    times: Greatest<T>,
    /// The heap memory of the last slice's state, used as an estimate for each.
    each: usize,
    /// The next window to be emitted at the end of the input.
    ending: Option<WindowId>,
}

impl<S: Data + Clone, T: Time> Full<S, T> {
    fn new(invertible: bool) -> Self {
        let rolling = Rolling::new(invertible);
        let (entered, times) = (VecDeque::new(), Greatest::new());
        Self { rolling, entered, times, each: 0, ending: None }
    }

    fn bytes(&self) -> usize {
        let entered = self.entered.capacity() * size_of::<(i64, S)>();
        let slices = self.entered.len() + self.rolling.len();
        size_of::<Self>() + entered + self.rolling.bytes() + self.times.bytes() + slices * self.each
    }
}

impl<A> Sliced<A> {
    /// Closes the full slice and starts the next one. Returns the window that is complete, if there is one.
    fn close<V, T>(&self, known: &mut Slices<A::State, T>) -> Option<Given<A::Output, T>>
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
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
            return Some(self.pane::<V, T>(first, known.arrived, open.into_parts()));
        }
        let full = known.full.get_or_insert_with(|| Box::new(Full::new(A::INVERSE.is_some())));
        let (state, time) = open.into_parts();
        let window = self.spans.completed_by(slice);
        let window = window.filter(|window| *window >= 0 || self.spans.early);
        if let Some(window) = window {
            // Leave before entering, so that a sum never covers more than a window.
            self.leave::<V, T>(full, self.spans.first_slice(window));
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
    fn enter<V, T>(&self, full: &mut Full<A::State, T>, slice: i64, state: A::State, time: T)
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
    {
        full.each = state.heap_size();
        if A::INVERSE.is_some() {
            full.times.add(slice, time);
            full.entered.push_back((slice, state.clone()));
        }
        full.rolling.add(slice, (state, time), &|into, from| self.combine::<V, T>(into, from));
    }

    /// Subtracts the slices before `first`.
    fn leave<V, T>(&self, full: &mut Full<A::State, T>, first: i64)
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
    {
        let Some(inverse) = A::INVERSE else { return };
        while full.entered.front().is_some_and(|(slice, _)| *slice < first) {
            if let Some((_, state)) = full.entered.pop_front() {
                full.rolling.subtract(|(from, _)| inverse(&self.aggregate, from, &state));
            }
        }
    }

    /// The aggregate of the slices from `first` on.
    fn total<V, T>(&self, full: &mut Full<A::State, T>, first: i64) -> Option<(A::State, T)>
    where
        V: Record + ?Sized,
        T: Time,
        A: Combine<V, State: Clone>,
    {
        self.leave::<V, T>(full, first);
        let combine = |into: &mut _, from| self.combine::<V, T>(into, from);
        let (state, time) = full.rolling.total(first, &combine)?;
        Some((state, if A::INVERSE.is_some() { full.times.since(first) } else { time }))
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
        (CountPane { first, count: arrived - first, value }, time)
    }
}

impl<V, T, A> KeyWindows<V, T> for Sliced<A>
where
    V: Record + ?Sized,
    T: Time,
    A: Combine<V, State: Clone>,
{
    type State = Slices<A::State, T>;
    type Output = A::Output;

    fn start(&self) -> Self::State {
        Slices {
            arrived: 0,
            slice: 0,
            until: self.spans.end_of(0),
            open: None,
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
