//! The outcome of a loop.

use crate::data::Data;

/// How a loop ended.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
#[non_exhaustive]
pub struct Outcome<S> {
    /// The state after the last round.
    pub state: S,
    /// The number of rounds.
    pub rounds: u64,
    /// Why there was no further round.
    pub ended: Ended,
}

/// Why a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
#[non_exhaustive]
pub enum Ended {
    /// The condition held.
    Condition,
    /// The maximum number of rounds was reached.
    Rounds,
    /// The last round left no records for another one.
    NothingLeft,
}
