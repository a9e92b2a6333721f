//! Windows by the order in which the records of a key arrive, for streams of any time.
//!
//! ```text
//!   records
//!      │ AddHash
//!      ▼
//!   Hashed(hash, record)
//!      ║ exchange by key group
//!      ▼
//!   Arriving: a table with a course a key        Sliced      what combines, put together of slices
//!                                                Stored      what does not, made of the values again
//!                                                Transacted  opened and closed by content
//! ```
//!
//! [`Arriving`] knows of keys, memory, timers and the end, and nothing of windows; a [`Course`] knows what the
//! windows of one key make of its values, and nothing of keys. A record has two results at most, which are
//! given at once. Results that time brings or the end, which may be many, are given in steps.

mod arriving;
mod count;
mod course;
mod global;
mod greatest;
mod last;
mod sliced;
mod spanned;
mod spans;
mod stored;
mod transaction;

pub use count::CountWindow;
pub use global::GlobalWindow;
pub use last::LastWindow;
pub use stored::Kept;
pub use transaction::{Inspected, Transaction, TransactionWindow};

#[cfg(all(test, not(loom)))]
mod tests;
