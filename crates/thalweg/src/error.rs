//! The error type of this crate: a kind for the program, a message for the person.

use crate::data::{Data, DecodeError};
use std::fmt;
use std::path::{Path, PathBuf};

/// The result of everything in this crate that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a job could not be built, or did not finish.
///
/// [`kind`](Error::kind) tells a program what to do (fix the input, fix the job, try again); the message names the
/// operator and the place of the record for the person who reads it.
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    operator: Option<String>,
    host: Option<u64>,
    place: Option<Place>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What sort of failure an [`Error`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Data)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A flag, variable, file or builder call that configures the engine is wrong.
    Config,
    /// The job cannot run as described: an operator does not support its input or its arguments.
    Plan,
    /// A record or file does not have the form that the job expects.
    Input,
    /// An operation of the operating system failed: a file is missing or unreadable, or the disk is full.
    Io,
    /// A closure of the job panicked.
    Panic,
    /// The memory budget does not suffice, and nothing could be spilled to disk.
    Memory,
    /// A call to an external system took longer than its timeout.
    TimedOut,
    /// A host of the job was lost, with the tasks that ran there. The job may be run again.
    Lost,
    /// The job was cancelled.
    Cancelled,
    /// The job was [suspended](crate::JobHandle::suspend): it has a checkpoint of where it stopped, from which it goes on when
    /// the program is run again.
    Suspended,
    /// A result was requested that the job did not produce.
    NotProduced,
    /// A bug in the engine. Please report it.
    Internal,
}

/// Where a record came from.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
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
    /// A split of a source, such as a partition of a topic, and a position in it if that is known.
    Split(String, Option<String>),
}

impl Error {
    /// An error with this kind and message; the message is a sentence in lower case without a full stop.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            operator: None,
            host: None,
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

    /// Adds the host on which the operator failed, where one is named.
    #[must_use]
    pub(crate) fn on_host(mut self, host: usize) -> Self {
        if self.0.operator.is_some() {
            self.0.host.get_or_insert(host as u64);
        }
        self
    }

    /// Appends a note to the message, in parentheses.
    #[must_use]
    pub(crate) fn with(mut self, note: &str) -> Self {
        self.0.message += &format!(" ({note})");
        self
    }

    /// A copy as another host would get it: with its causes as text.
    pub(crate) fn for_others(&self) -> Self {
        let Inner { kind, message, operator, host, place, source } = &*self.0;
        Self(Box::new(Inner {
            kind: *kind,
            message: message.clone(),
            operator: operator.clone(),
            host: *host,
            place: place.clone(),
            source: source.as_ref().map(|source| source.to_string().into()),
        }))
    }

    /// What sort of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operator that failed, where one did.
    pub fn operator(&self) -> Option<&str> {
        self.0.operator.as_deref()
    }

    /// The number of the host on which the operator failed, in a job on several hosts.
    pub fn host(&self) -> Option<usize> {
        self.0.host.map(|host| host as usize)
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

impl Error {
    /// Appends the error for another host; its causes as text.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let Inner { kind, message, operator, host, place, source } = &*self.0;
        kind.encode(out);
        message.encode(out);
        operator.encode(out);
        host.encode(out);
        place.encode(out);
        source.as_ref().map(|source| chain(&**source)).encode(out);
    }

    /// Decodes an error of another host.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut error = Self::new(ErrorKind::decode(input)?, String::decode(input)?);
        error.0.operator = Data::decode(input)?;
        error.0.host = Data::decode(input)?;
        error.0.place = Data::decode(input)?;
        let source = <Option<String> as Data>::decode(input)?;
        Ok(match source {
            Some(source) => error.caused_by(source),
            None => error,
        })
    }
}

/// An error and its causes.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(|cause| cause.to_string()).collect::<Vec<_>>().join(": ")
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(operator) = &self.0.operator {
            f.write_str(operator)?;
            if let Some(host) = self.0.host {
                write!(f, " on host {host}")?;
            }
            f.write_str(": ")?;
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
        // `main` prints errors by `Debug`, so it is the same as `Display`.
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
            Self::Split(split, None) => f.write_str(split),
            Self::Split(split, Some(position)) => write!(f, "{split} at {position}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::decode_whole;

    #[test]
    fn an_error_says_the_same_on_another_host() {
        let path = || PathBuf::from("a/b.csv");
        let places = [
            None,
            Some(Place::File(path())),
            Some(Place::Offset(path(), u64::MAX)),
            Some(Place::Line(path(), 7)),
            Some(Place::Column(path(), 7, 3)),
        ];
        for place in places {
            let error = Error::new(ErrorKind::Lost, "a message").on_host(7);
            assert_eq!(error.host(), None);
            let error = error.in_operator("map (main.rs:1)").on_host(2).on_host(3);
            assert!(error.to_string().starts_with("map (main.rs:1) on host 2: "), "{error}");
            let error = error.caused_by(std::io::Error::other("the cause"));
            let error = place.clone().into_iter().fold(error, Error::at);
            let mut bytes = Vec::new();
            error.encode(&mut bytes);
            let read = decode_whole(&bytes, Error::decode).unwrap();
            assert_eq!(read.to_string(), error.to_string());
            assert!(read.to_string().ends_with("a message: the cause"), "{read}");
            assert_eq!((read.kind(), read.place()), (ErrorKind::Lost, place.as_ref()));
            assert_eq!((read.operator(), read.host()), (error.operator(), Some(2)));
            assert!(decode_whole(&bytes[..bytes.len() - 1], Error::decode).is_err());
        }
    }
}
