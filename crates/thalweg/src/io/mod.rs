//! Sources and sinks.
//!
//! Each source or sink has a file: its method on [`Environment`](crate::Environment) or [`Stream`](crate::Stream),
//! its documentation, the code that runs in its tasks, and its tests. Reading files, from paths to blocks of lines,
//! is in [`files`].

mod bad_record;
mod begun;
mod channel;
mod collect;
pub mod connector;
mod consumed;
mod csv;
mod dead_letters;
pub mod files;
mod for_each;
mod generate;
mod input;
mod iterators;
mod json_lines;
mod line_records;
mod lines;
mod output;
mod parse_lines;
mod portions;
mod print;
mod records;
mod to_channel;
mod write;

/// The sources of these methods, as signatures name them.
pub mod sources {
    pub use super::connector::SplitFactory;
    pub use super::csv::{CsvFormat, CsvRows};
    pub use super::dead_letters::{Diverted, Parsing};
    pub use super::json_lines::JsonFormat;
    pub use super::parse_lines::ParsedLines;
    pub use super::records::{Divert, Format, Records, Stop};
}

pub use bad_record::BadRecord;
pub use channel::{SendError, Sender, TrySendError};
pub use collect::Collection;
pub use csv::{Csv, ReadRow};
pub use input::Paths;
pub use json_lines::JsonLines;
pub use lines::Text;
pub use output::Output;
pub use to_channel::Incoming;
pub use write::RollingFiles;
