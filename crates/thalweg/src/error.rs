//! One error type: what kind it is for the program, what happened for the person.

use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a job could not be built, or did not finish.
///
/// [`kind`](Error::kind) answers what a program asks (fix the input, fix the job, try again);
/// the message names the operator and the place of the record for the person who reads it.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    operator: Option<String>,
    place: Option<Place>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What sort of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A flag, variable, file or builder call that configures the engine is wrong.
    Config,
    /// The job as described cannot run: an operator was given what it cannot work on.
    Plan,
    /// A record or file is not what the job says it is.
    Input,
    /// The operating system refused: a file is missing, unreadable, or the disk is full.
    Io,
    /// A closure of the job panicked.
    Panic,
    /// The memory budget does not suffice, and nothing could be moved to disk.
    Memory,
    /// A call to something outside took longer than it was allowed to.
    TimedOut,
    /// The job was cancelled.
    Cancelled,
    /// A result was asked for that the job did not produce.
    NotProduced,
    /// The engine broke one of its own rules. Please report it.
    Internal,
}

/// Where a record came from.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A file as a whole.
    File(PathBuf),
    /// A byte of a file, counted from 0, decompressed where the file is compressed.
    Offset(PathBuf, u64),
    /// A line of a file, counted from 1.
    Line(PathBuf, u64),
    /// A line and a column of a file, both counted from 1.
    Column(PathBuf, u64, u64),
}

impl Error {
    /// An error of this kind with this message: a sentence without a full stop, in lower case.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            operator: None,
            place: None,
            source: None,
        }))
    }

    /// An error of kind [`ErrorKind::Io`] about a file.
    pub fn io(path: &Path, doing: &str, cause: std::io::Error) -> Self {
        Self::new(ErrorKind::Io, format!("cannot {doing}"))
            .at(Place::File(path.to_owned()))
            .caused_by(cause)
    }

    /// Adds where the record came from.
    #[must_use]
    pub fn at(mut self, place: Place) -> Self {
        self.0.place = Some(place);
        self
    }

    /// Adds the operator that failed, unless one is named already.
    #[must_use]
    pub fn in_operator(mut self, name: impl Into<String>) -> Self {
        self.0.operator.get_or_insert_with(|| name.into());
        self
    }

    /// Adds what led to the error.
    #[must_use]
    pub fn caused_by(mut self, cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.0.source = Some(cause.into());
        self
    }

    /// Appends a note to the message, in parentheses.
    #[must_use]
    pub(crate) fn with(mut self, note: &str) -> Self {
        self.0.message += &format!(" ({note})");
        self
    }

    /// What sort of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operator that failed, where one did.
    pub fn operator(&self) -> Option<&str> {
        self.0.operator.as_deref()
    }

    /// Where the record came from, where that is known.
    pub fn place(&self) -> Option<&Place> {
        self.0.place.as_ref()
    }

    /// The message alone, without operator and place.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operator) = &self.0.operator {
            write!(f, "{operator}: ")?;
        }
        if let Some(place) = &self.0.place {
            write!(f, "{place}: ")?;
        }
        f.write_str(&self.0.message)?;
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What `main` prints when it returns an error is this, so it reads like Display.
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Offset(path, offset) => write!(f, "{} at byte {offset}", path.display()),
            Self::Line(path, line) => write!(f, "{}:{line}", path.display()),
            Self::Column(path, line, column) => write!(f, "{}:{line}:{column}", path.display()),
        }
    }
}
