//! Records that do not parse, with their place and the error.

use crate::data::Data;
use crate::error::{Error, ErrorKind, Place};
use serde::Serialize;
use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;

/// A record that could not be parsed: its place, its bytes, and the error.
#[derive(Clone, Debug, PartialEq, Eq, Data, Serialize)]
pub struct BadRecord {
    /// The file.
    pub path: PathBuf,
    /// The line at which the record begins, counted from 1.
    pub line: u64,
    /// The record as it stands in the file, without its line end.
    pub bytes: Vec<u8>,
    /// What is wrong with it.
    pub error: String,
}

/// The most bytes of a record's text in a message.
const SHOWN: usize = 200;

impl BadRecord {
    /// The record as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// The place of the record.
    pub fn place(&self) -> Place {
        Place::Line(self.path.clone(), self.line)
    }

    fn shown(&self) -> String {
        let text = self.text();
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.into_owned(),
        }
    }

    pub(super) fn into_error(self) -> Error {
        let what = format!("{}, in `{}`", self.error, self.shown());
        Error::new(ErrorKind::Input, what).at(self.place())
    }
}

impl fmt::Display for BadRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}, in `{}`", self.place(), self.error, self.shown())
    }
}
