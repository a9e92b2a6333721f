//! What is wrong with bytes that should be events, and with files of them.

use std::fmt;
use std::path::PathBuf;

/// Bytes that no event encodes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DecodeError {
    /// What is wrong.
    pub problem: Problem,
    /// Where, counted from the event's first byte.
    pub offset: usize,
}

/// What can be wrong with an event's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Problem {
    /// They end before the event does.
    Short,
    /// The first byte, or one that stands for a choice, is none of those there are.
    Unknown(u8),
    /// A length is written in a way in which none is.
    Length,
    /// Text is not UTF-8, or a length cuts a character.
    Text,
    /// Something else stands where an identifier, a name or zeros must.
    Form,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.problem {
            Problem::Short => write!(f, "the bytes end before the event does")?,
            Problem::Unknown(byte) => write!(f, "there is no kind {byte}")?,
            Problem::Length => write!(f, "a length is malformed")?,
            Problem::Text => write!(f, "a text is not UTF-8")?,
            Problem::Form => write!(f, "a field has not the form it must have")?,
        }
        write!(f, ", {} bytes into the event", self.offset)
    }
}

impl std::error::Error for DecodeError {}

/// A file of events that cannot be written or read.
#[derive(Debug)]
pub struct FileError {
    /// The file.
    pub path: PathBuf,
    /// Where in it the trouble is, in bytes.
    pub offset: u64,
    /// What is wrong.
    pub kind: FileErrorKind,
}

/// What can be wrong with a file of events.
#[derive(Debug)]
#[non_exhaustive]
pub enum FileErrorKind {
    /// The system refuses to read or write.
    Io(std::io::Error),
    /// The file holds something else.
    Foreign {
        /// The events that were looked for.
        wanted: &'static str,
    },
    /// The events were made by another version, and may differ: make them anew.
    Version {
        /// What the file says.
        found: u32,
        /// What can be read.
        wanted: u32,
    },
    /// Bytes are missing, changed or too many: make the file anew. The text says which.
    Damaged(String),
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: ", self.path.display(), self.offset)?;
        match &self.kind {
            FileErrorKind::Io(error) => write!(f, "{error}"),
            FileErrorKind::Foreign { wanted } => write!(f, "this is no file of {wanted} events"),
            FileErrorKind::Version { found, wanted } => {
                write!(f, "the events are of version {found}, not {wanted}: make them anew")
            }
            FileErrorKind::Damaged(what) => write!(f, "{what}: the file is damaged, make it anew"),
        }
    }
}

impl std::error::Error for FileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            FileErrorKind::Io(error) => Some(error),
            _ => None,
        }
    }
}
