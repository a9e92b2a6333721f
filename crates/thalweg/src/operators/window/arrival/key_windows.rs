//! Computes the windows of one key from its values.

use crate::clock::Clock;
use crate::data::{Data, Record};
use crate::operators::aggregates::Aggregate;
use crate::operators::window::early::{Early, EarlyStates, Pace};
use crate::operators::window::{CountPane, Timing};
use crate::support::keyed_timers::{Firing, TimedState, processing};
use crate::time::{Time, Timestamp};
use std::mem::needs_drop;
use std::num::NonZeroU64;

/// Computes the windows of each key from its values, one after the other.
pub trait KeyWindows<V: Record + ?Sized, T: Time>: Clone + Send + 'static {
    /// The state of a key, with timers on the stream's own clock.
    #[doc(hidden)]
    type State: TimedState<Owned = ()>;
    /// The result of a window.
    type Output: Data;
    /// Whether windows emit early results.
    #[doc(hidden)]
    const EARLY: bool = false;

    /// When windows emit early results, if they do.
    #[doc(hidden)]
    fn early(&self) -> Option<Early> {
        None
    }

    /// Returns the state of a new key.
    #[doc(hidden)]
    fn start(&self) -> Self::State;

    /// Called before a value with this time is added: returns the window that must be complete before it.
    #[doc(hidden)]
    #[inline(always)]
    fn before(
        &self,
        _state: &mut Self::State,
        _time: T,
        _now: &Now<'_>,
    ) -> Option<Given<Self::Output, T>> {
        None
    }

    /// Adds a value: returns the window that is complete with it.
    #[doc(hidden)]
    fn take(
        &self,
        state: &mut Self::State,
        value: V::Of<'_>,
        time: T,
        now: &Now<'_>,
    ) -> Option<Given<Self::Output, T>>;

    /// Called after each value where windows emit early results: calls a closure with those that are due.
    #[doc(hidden)]
    #[inline(always)]
    fn after(
        &self,
        _state: &mut Self::State,
        _now: &Now<'_>,
        _give: impl FnMut(Given<Self::Output, T>),
    ) {
    }

    /// Called when the state is due: calls a closure with the window that time completes, or with early results.
    #[doc(hidden)]
    fn wake(
        &self,
        _state: &mut Self::State,
        _firing: Firing,
        _now: &Now<'_>,
        _give: impl FnMut(Given<Self::Output, T>),
    ) {
    }

    /// Called at the end of the input until it returns `None`: returns another window to be emitted as it is.
    #[doc(hidden)]
    fn at_end(&self, state: &mut Self::State) -> Option<Given<Self::Output, T>>;
}

/// A result with its timestamp.
pub type Given<O, T> = (CountPane<O>, T);

/// A time on the clock of a stream's transactions: microseconds of the watermark in a stream with timestamps,
/// otherwise nanoseconds of the engine's clock.
pub type Due = i64;

/// The current time in a task.
pub struct Now<'a> {
    pub(super) clock: &'a Clock,
    pub(super) pace: &'a Pace,
    pub(super) watermark: Option<Timestamp>,
}

impl Now<'_> {
    /// The current time for a stream whose records carry `T`; `None` before the first watermark.
    pub(super) fn of<T: Time>(&self) -> Option<Due> {
        match T::LAST.timestamp() {
            Some(_) => self.watermark.map(Timestamp::as_micros),
            None => Some(processing(self.clock.now())),
        }
    }

    /// The timestamp of an early result: the greatest of its values, or the watermark if that is later. (A window
    /// may change long after the watermark has passed its values.)
    pub(super) fn at_least<T: Time>(&self, time: T) -> T {
        self.watermark.map_or(time, |watermark| time.max(T::happened(watermark)))
    }
}

/// A running aggregate, with the greatest time of its values.
#[derive(Data)]
pub struct Running<S, T> {
    pub(super) state: S,
    pub(super) time: T,
    /// One more than there are, so that an `Option` of it takes no more room.
    next: NonZeroU64,
}

impl<S: Data, T: Time> Running<S, T> {
    pub(super) fn new(state: S, time: T) -> Self {
        Self { state, time, next: NonZeroU64::MIN }
    }

    /// Accounts for a value that was added to the state. Returns the bytes that the state owns on the heap, if they were
    /// measured.
    ///
    /// The state is measured again only after the number of values has grown by about a quarter, since measuring
    /// a list traverses it.
    #[inline(always)]
    #[must_use]
    pub(super) fn took(&mut self, time: T) -> Option<usize> {
        self.time = self.time.max(time);
        let values = self.next.get();
        self.next = self.next.saturating_add(1);
        let bits = u64::BITS - values.leading_zeros();
        let is_weighed = needs_drop::<S>() && values.trailing_zeros() + 3 >= bits;
        is_weighed.then(|| self.state.heap_size())
    }

    /// The number of values that were added.
    pub(super) fn values(&self) -> u64 {
        self.next.get() - 1
    }

    /// The early result with this number, where windows have early results; value `first` is the first of the window.
    pub(super) fn so_far<V, A, E>(
        &self,
        aggregate: &A,
        first: u64,
        number: u32,
        now: &Now<'_>,
    ) -> Option<Given<A::Output, T>>
    where
        V: Record + ?Sized,
        A: Aggregate<V, State = S>,
        E: EarlyStates<S>,
    {
        let value = aggregate.finish(E::copy(&self.state)?);
        let timing = Timing::Early(number);
        Some((CountPane { first, count: self.values(), timing, value }, now.at_least(self.time)))
    }

    /// Returns the state and the greatest time.
    pub(super) fn into_parts(self) -> (S, T) {
        (self.state, self.time)
    }
}
