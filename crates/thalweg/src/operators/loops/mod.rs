//! Loops: streams whose records go through the same operators round after round.
//!
//! A loop has a head in the stage of the stream that it begins with, a body, and a tail at the body's
//! end. The head gives each round its input and then sends `Event::Round` after it; when that has reached
//! every tail, all records of the round have gone through, whatever the body does with them. The last
//! tail to get there changes the state by what the tails have folded, and says whether there is another
//! round:
//!
//! ```text
//!   input ──> head ──> body ──> tail ──┐
//!              ^ │                     │   records of the next round; a part of the state
//!              │ └──> what comes out   │
//!              └───────────────────────┘
//! ```
//!
//! Tails and heads meet in memory and not through exchanges. What is fed back has no credit that it
//! could wait for, so that no body can amplify its input into a deadlock; it is held within the memory
//! budget, and then on disk.

// The types of these methods say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

mod control;
mod delta;
mod feedback;
mod feeding;
mod head;
mod iterate;
mod kept;
mod outcome;
mod replay;
mod shared;
mod solution;
mod tail;
#[cfg(all(test, not(loom)))]
mod tests;

pub use feeding::{Folded, Iterating};
pub use kept::ByRef;
pub use outcome::{Ended, Outcome};
pub use replay::Replaying;
pub use shared::{Beside, Shared};
