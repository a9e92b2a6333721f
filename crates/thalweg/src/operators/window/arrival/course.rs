//! What the windows of one key make of its values.

use crate::clock::Clock;
use crate::data::{Data, Record};
use crate::operators::window::CountPane;
use crate::support::keyed_timers::{TimedState, processing};
use crate::time::{Time, Timestamp};
use std::mem::needs_drop;
use std::num::NonZeroU64;

/// What is done with the values of each key, one after the other.
pub trait Course<V: Record + ?Sized, T: Time>: Clone + Send + 'static {
    /// What is remembered of a key, which is due by the stream's own clock.
    type State: TimedState<Owned = ()>;
    /// What is computed of a window.
    type Output: Data;

    /// Before the first value.
    fn start(&self) -> Self::State;

    /// A value comes that has this time: the window that must be complete before it.
    #[inline(always)]
    fn before(
        &self,
        _state: &mut Self::State,
        _time: T,
        _now: &Now<'_>,
    ) -> Option<Given<Self::Output, T>> {
        None
    }

    /// Takes a value in: the window that is complete with it.
    fn take(
        &self,
        state: &mut Self::State,
        value: V::Of<'_>,
        time: T,
        now: &Now<'_>,
    ) -> Option<Given<Self::Output, T>>;

    /// The state is due: the window that is complete.
    fn wake(&self, _state: &mut Self::State) -> Option<Given<Self::Output, T>> {
        None
    }

    /// The input has ended: another window that is to be given as it is. Called until there is none.
    fn at_end(&self, state: &mut Self::State) -> Option<Given<Self::Output, T>>;
}

/// A result with its timestamp.
pub type Given<O, T> = (CountPane<O>, T);

/// A point on the clock that a stream's transactions go by: microseconds of the watermark in a stream with
/// timestamps, else nanoseconds of the engine's clock.
pub type Due = i64;

/// What time it is for a task.
pub struct Now<'a> {
    pub(super) clock: &'a Clock,
    pub(super) watermark: Option<Timestamp>,
}

impl Now<'_> {
    /// What time it is for a stream whose records carry `T`; `None` before the first watermark.
    pub(super) fn of<T: Time>(&self) -> Option<Due> {
        match T::LAST.timestamp() {
            Some(_) => self.watermark.map(Timestamp::as_micros),
            None => Some(processing(self.clock.now())),
        }
    }
}

/// An aggregate under way, with the greatest time of its values.
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

    /// A value was taken into the state. Returns the bytes that the state owns on the heap, if it was weighed.
    ///
    /// The state is weighed when the values have become a quarter more or so: a list is walked through
    /// for that, and with every value would be too often.
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

    /// How many values were taken in.
    pub(super) fn values(&self) -> u64 {
        self.next.get() - 1
    }

    /// Takes it apart.
    pub(super) fn into_parts(self) -> (S, T) {
        (self.state, self.time)
    }
}
