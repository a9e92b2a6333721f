//! States of keys that are never due, and are kept as long as the job runs.

use super::{NoClock, TimedState, TimerClock};
use crate::data::{Data, DecodeError, Schema};
use crate::error::Result;

/// The state of a key that is never due, and never spent; or a key that waits. Its encoding is that of the state itself.
pub struct Remembered<S>(pub(crate) S);

impl<S: Data> Data for Remembered<S> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        S::decode(input).map(Self)
    }

    fn key_hash(&self) -> u64 {
        self.0.key_hash()
    }

    fn schema() -> Schema {
        S::schema()
    }

    fn heap_size(&self) -> usize {
        self.0.heap_size()
    }
}

impl<S: Data> TimedState for Remembered<S> {
    type Clocks = NoClock;
    type Owned = S;

    #[inline(always)]
    fn due(&self, _: TimerClock) -> Option<i64> {
        None
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        false
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        0
    }

    fn owned(&self) -> usize {
        self.0.heap_size()
    }
}
