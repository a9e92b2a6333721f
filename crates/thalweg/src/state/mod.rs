//! State of operators: tables, sorting, timers, and spilling to disk.
//!
//! * [`GroupTable`] maps a key to its accumulator.
//! * [`Rows`] maps a key to any number of rows.
//! * [`SpillDir`], [`SpillWriter`] and [`SpillReader`] store records on disk temporarily.
//! * `KeyStore` has keys with their states in a file, to be found by key or by time.
//! * [`Sorter`] sorts any number of records within a memory budget.
//! * [`Timers`] returns what is due up to a time.
//!
//! This layer knows nothing of tasks or exchanges.

mod heap_estimate;
mod loser_tree;
mod pages;
mod rows;
mod slots;
mod sort;
mod spill;
mod store;
mod table;
mod timers;

pub(crate) use heap_estimate::HeapEstimate;
pub(crate) use loser_tree::{LoserTree, precedes};
pub use rows::{Link, Rows};
pub(crate) use slots::{WINDOW, within};
pub use sort::{Sorted, Sorter};
pub(crate) use spill::{
    HashRange, ShareReader, SpillCopies, SpillPrefix, SpillShare, check_blocks,
};
pub use spill::{SpillDir, SpillFile, SpillReader, SpillWriter};
pub(crate) use store::{Entry, KeyStore, Portion, rest};
pub(crate) use table::DirectMapped;
pub use table::{Drain, GroupTable, Known, SlotHint};
pub(crate) use timers::Order;
pub use timers::Timers;
