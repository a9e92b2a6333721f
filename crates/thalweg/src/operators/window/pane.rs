//! What comes out of a window.

use crate::data::Data;
use crate::time::Timestamp;

/// The result of one window of time, with its bounds.
///
/// The record's own timestamp is the last one within the window, `end` less a microsecond.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct Pane<T> {
    /// The first timestamp of the window.
    pub start: Timestamp,
    /// The first timestamp behind the window.
    pub end: Timestamp,
    /// The result.
    pub value: T,
}
