//! Failures of calls: the record in the side output, and the error of the job.

use crate::data::Data;
use crate::error::{Error, ErrorKind};
use crate::operators::per_record::try_map::bad_record;
use std::fmt::Display;
use std::time::Duration;

/// A call that has failed for good, in the side output of
/// [`try_map_async_with_side_output`](crate::Stream::try_map_async_with_side_output) and
/// [`try_map_blocking_with_side_output`](crate::Stream::try_map_blocking_with_side_output).
#[derive(Data, Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct FailedCall<D> {
    /// The record that the call was made for.
    pub record: D,
    /// The number of attempts.
    pub attempts: u32,
    /// Whether the last attempt took too long, instead of returning an error.
    pub timed_out: bool,
    /// The error of the last attempt, as text.
    pub error: String,
}

/// The failure of one attempt.
pub(super) enum Problem<E> {
    /// The call returned this error.
    Error(E),
    /// The call took longer than this.
    TookLonger(Duration),
}

impl<E: Display + 'static> Problem<E> {
    /// The error of the job, if the call's failure stops it.
    pub(super) fn into_error(self, attempts: u32) -> Error {
        let error = match self {
            Self::Error(error) => bad_record(error),
            Self::TookLonger(_) => Error::new(ErrorKind::TimedOut, self.into_text()),
        };
        match attempts {
            0 | 1 => error,
            _ => Error::new(error.kind(), format!("no success in {attempts} attempts"))
                .caused_by(error),
        }
    }

    pub(super) fn into_text(self) -> String {
        match self {
            Self::Error(error) => error.to_string(),
            Self::TookLonger(span) => format!("a call took longer than {span:?}"),
        }
    }

    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::TookLonger(_))
    }
}
