//! What comes of a loop.

use crate::data::Data;

/// How a loop ended.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
#[non_exhaustive]
pub struct Outcome<S> {
    /// The state after the last round.
    pub state: S,
    /// How many rounds there were.
    pub rounds: u64,
    /// Why there was no other.
    pub ended: Ended,
}

/// Why a loop ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
#[non_exhaustive]
pub enum Ended {
    /// The condition held.
    Condition,
    /// There were as many rounds as it may have.
    Rounds,
    /// The last round left nothing for another one.
    NothingLeft,
}
