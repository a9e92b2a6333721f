//! What operators remember, and where it goes when it outgrows memory.
//!
//! * [`GroupTable`] finds a key's accumulator.
//! * [`Rows`] finds all the rows of a key.
//! * [`SpillDir`], [`SpillWriter`] and [`SpillReader`] keep records on disk for a while.
//! * [`Sorter`] puts any number of records in order within a budget.
//! * [`Timers`] say what is due when time has come so far.
//!
//! Nothing here knows of tasks or exchanges; whoever holds it calls it.

mod hints;
mod loser_tree;
mod pages;
mod rows;
mod slots;
mod sort;
mod spill;
mod table;
mod timers;
mod weighed;

pub(crate) use loser_tree::{LoserTree, precedes};
pub use rows::{Link, Rows};
pub use sort::{Sorted, Sorter};
pub use spill::{SpillDir, SpillFile, SpillReader, SpillWriter};
pub use table::{Drain, GroupTable, Known, SlotHint};
pub use timers::Timers;
pub(crate) use weighed::Weighed;
