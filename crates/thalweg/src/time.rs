//! Points in event time, and what a stream without any carries instead.

use crate::data::{Data, DecodeError, Schema};
use std::fmt;
use std::time::Duration;

/// A point in event time: microseconds since 1970-01-01T00:00:00Z, negative before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest timestamp.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest timestamp.
    pub const MAX: Self = Self(i64::MAX);

    /// The timestamp this many microseconds after 1970-01-01T00:00:00Z.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// Microseconds since 1970-01-01T00:00:00Z.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// The timestamp `by` later, or `None` past the end of time.
    pub fn checked_add(self, by: Duration) -> Option<Self> {
        let micros = i64::try_from(by.as_micros()).ok()?;
        self.0.checked_add(micros).map(Self)
    }
}

/// Encoded and hashed as its microseconds.
impl Data for Timestamp {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        i64::decode(input).map(Self)
    }

    fn key_hash(&self) -> u64 {
        self.0.key_hash()
    }

    fn schema() -> Schema {
        Schema::I64
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}us", self.0)
    }
}

/// What each record of a stream carries beside its value: nothing, or a [`Timestamp`].
pub trait Time: Data + Copy {
    /// What a record carries that was made from no single record, a final sum for example.
    const LAST: Self;
}

impl Time for () {
    const LAST: Self = ();
}

impl Time for Timestamp {
    const LAST: Self = Self::MAX;
}
