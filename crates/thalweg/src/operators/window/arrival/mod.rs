//! Windows by the order in which the records of a key arrive, with or without timestamps.
//!
//! ```text
//!   records
//!      │ AddHash
//!      ▼
//!   Hashed(hash, record)
//!      ║ exchange by key group
//!      ▼
//!   Arriving: a table with a state a key         Sliced      aggregates that combine, from slices
//!                                                Stored      others, from the stored values
//!                                                Transacted  opened and closed by values
//! ```
//!
//! [`Arriving`] handles keys, memory, timers and the end of the input, and knows nothing of windows. A
//! [`KeyWindows`] computes the windows of one key, and knows nothing of keys. A record completes at most two
//! windows, whose results are emitted at once. Results due to time or the end of the input, which may be many,
//! are emitted in steps.

mod arriving;
mod count;
mod global;
mod greatest;
mod key_windows;
mod last;
mod sliced;
mod spanned;
mod spans;
mod stored;
mod transaction;

pub use count::CountWindow;
pub use global::GlobalWindow;
pub use last::LastWindow;
pub use stored::StoredValue;
pub use transaction::{Inspected, Transaction, TransactionWindow};

/// The chain that ends in windows by arrival, and what it is made of.
pub mod chains {
    pub use super::arriving::Arriving;
    pub use super::key_windows::KeyWindows;
    pub use super::sliced::Sliced;
    pub use super::stored::Stored;
    pub use super::transaction::Transacted;
}

#[cfg(test)]
mod tests;
