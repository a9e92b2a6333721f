//! What the windows of one key make of its values.

use crate::clock::{Clock, Nanos};
use crate::data::{Data, Record};
use crate::operators::window::CountPane;
use crate::time::{Time, Timestamp};
use std::mem::needs_drop;

/// What is done with the values of each key, one after the other.
pub trait Course<V: Record + ?Sized, T: Time>: Clone + Send + 'static {
    /// What is remembered of a key.
    type State: Send + 'static;
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
        _cx: &mut Cx,
    ) -> Option<Given<Self::Output, T>> {
        None
    }

    /// Takes a value in.
    fn take(
        &self,
        state: &mut Self::State,
        value: V::Of<'_>,
        time: T,
        cx: &mut Cx,
    ) -> Answer<Self::Output, T>;

    /// The time has come that [`Answer::Wake`] named, or a later one.
    fn wake(&self, _state: &mut Self::State, _now: Due, _cx: &mut Cx) -> Answer<Self::Output, T> {
        Answer::Nothing
    }

    /// The input has ended: another window that is to be given as it is. Called until there is none.
    fn at_end(&self, state: &mut Self::State, cx: &mut Cx) -> Option<Given<Self::Output, T>>;
}

/// A result with its timestamp.
pub type Given<O, T> = (CountPane<O>, T);

/// What follows from a value.
pub enum Answer<O, T> {
    /// No window is complete.
    Nothing,
    /// This one is.
    Give(Given<O, T>),
    /// The key is to be looked at again at a time.
    Wake(Due),
}

/// A point on the clock that a stream's transactions go by: microseconds of the watermark in a stream with
/// timestamps, else nanoseconds of the engine's clock.
pub type Due = i64;

/// What the courses of all keys of a task share.
pub struct Cx {
    clock: Clock,
    pub(super) watermark: Option<Timestamp>,
    /// The input has ended: there is no later time.
    pub(super) ended: bool,
    /// The bytes that states own on the heap.
    pub(super) heap: usize,
}

impl Cx {
    pub(super) fn new(clock: Clock) -> Self {
        Self { clock, watermark: None, ended: false, heap: 0 }
    }

    /// What time it is for a stream whose records carry `T`; `None` before the first watermark.
    pub(super) fn now<T: Time>(&self) -> Option<Due> {
        match (self.ended, T::LAST.timestamp()) {
            (true, _) => Some(Due::MAX),
            (false, Some(_)) => self.watermark.map(Timestamp::as_micros),
            (false, None) => Some(due(self.clock.now())),
        }
    }

    /// Accounts for what owned `before` bytes and owns `after` now.
    #[inline(always)]
    pub(super) fn resized(&mut self, before: usize, after: usize) {
        self.heap = (self.heap + after).saturating_sub(before);
    }
}

/// A time on the engine's clock.
pub(super) fn due(at: Nanos) -> Due {
    Due::try_from(at).unwrap_or(Due::MAX)
}

/// And back.
pub(super) fn nanos_of(due: Due) -> Nanos {
    Nanos::try_from(due).unwrap_or(0)
}

/// An aggregate under way, with the greatest time of its values and the bytes it owns on the heap.
pub struct Running<S, T> {
    pub(super) state: S,
    pub(super) time: T,
    values: u64,
    heap: usize,
}

impl<S: Data, T: Time> Running<S, T> {
    pub(super) fn new(state: S, time: T) -> Self {
        Self { state, time, values: 0, heap: 0 }
    }

    /// A value was taken into the state.
    ///
    /// The state is weighed when the values have become a quarter more or so: a list is walked through
    /// for that, and with every value would be too often.
    #[inline(always)]
    pub(super) fn took(&mut self, time: T, cx: &mut Cx) {
        self.time = self.time.max(time);
        self.values += 1;
        let bits = u64::BITS - self.values.leading_zeros();
        if needs_drop::<S>() && self.values.trailing_zeros() + 3 >= bits {
            let before = std::mem::replace(&mut self.heap, self.state.heap_size());
            cx.resized(before, self.heap);
        }
    }

    /// How many values were taken in.
    pub(super) fn values(&self) -> u64 {
        self.values
    }

    /// Takes it apart.
    pub(super) fn into_parts(self, cx: &mut Cx) -> (S, T) {
        cx.resized(self.heap, 0);
        (self.state, self.time)
    }
}
