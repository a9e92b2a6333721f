//! Loops: streams whose records go through the same operators in several rounds.
//!
//! A loop has a head in the stage of the stream that it begins with, a body, and a tail at the body's end. The
//! head passes on the input of each round and then sends `Event::Round`. When that event has reached every
//! tail, all records of the round have gone through the body, whatever operators the body has. The last tail to
//! receive it changes the state by what the tails have folded, and decides whether there is another round:
//!
//! ```text
//!   input ──> head ──> body ──> tail ──┐
//!              ^ │                     │   records of the next round; a part of the state
//!              │ └──> what comes out   │
//!              └───────────────────────┘
//! ```
//!
//! Tails pass records to heads through memory and not through exchanges. There is no credit that feedback could
//! wait for, so a body that amplifies its input cannot deadlock; records that are fed back are held within the
//! memory budget, and beyond it on disk. On several hosts, a tail whose host has no head sends its records to a host that
//! has, without credit too.
//!
//! In a job with checkpoints, the first round waits for the input of all heads, and barriers pass a loop between two rounds: then
//! what the loop remembers is the number of its rounds, its state, and the records of the next round, all of which heads save. As
//! long as the input arrives, a barrier comes with it. Later the heads send it themselves, all before the same round, which
//! `control` decides, on several hosts as `hosts` agrees. What is fed back from host to host has all come by then.
//!
//! Of loops in loops, only the outermost one sends barriers. Between two of its rounds, the loops in its body are between two
//! runs. Their only state is what streams from outside have brought before the first round; their heads save it, and pass
//! barriers on.

// The types of these methods say which operator a chain ends in; aliases would hide it.
#![allow(clippy::type_complexity)]

mod control;
mod delta;
mod feedback;
mod feeding;
mod head;
mod hosts;
mod inbox;
mod iterate;
mod kept;
mod outcome;
mod replay;
mod shared;
mod solution;
mod stored_solution;
mod tail;
#[cfg(test)]
mod tests;

/// The chain that begins a loop's body, and what loops are made of.
pub mod chains {
    pub use super::delta::{Improving, Offering};
    pub use super::feedback::{Eater, Feeder, Leaving};
    pub use super::head::{Input, Looped};
    pub use super::kept::ReplayInput;
    pub use super::tail::Feed;
    pub use crate::flow::NullSink;
}

pub use feeding::{Folded, Iterating};
pub use kept::ByRef;
pub use outcome::{Ended, Outcome};
pub use replay::{FoldedReplay, Replaying};
pub use shared::{Beside, Shared};
