//! Sinks that write records as JSON values, one a line.

use super::Encode;
use crate::data::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use serde::Serialize;
use std::path::Path;

impl<C: Chain> Stream<C> {
    /// Writes each record as a JSON value on a line of one file, which
    /// [`Environment::json_lines`](crate::Environment::json_lines) can read.
    ///
    /// Order, names and errors are as in [`write_lines`](Self::write_lines); a record that has no form in JSON (a map
    /// whose keys are not strings) stops the job.
    ///
    /// ```
    /// use serde::Serialize;
    /// use thalweg::Environment;
    ///
    /// #[derive(Serialize)]
    /// struct Square {
    ///     n: u32,
    ///     square: u32,
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("squares.jsonl");
    /// let env = Environment::new();
    /// env.iter(2..4).map(|n| Square { n, square: n * n }).write_json_lines(&path);
    /// env.run()?;
    /// let written = std::fs::read_to_string(&path).unwrap();
    /// assert_eq!(written, "{\"n\":2,\"square\":4}\n{\"n\":3,\"square\":9}\n");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn write_json_lines(self, path: impl AsRef<Path>)
    where
        for<'a> <C::Item as Record>::Of<'a>: Serialize,
    {
        self.write_file(Origin::here("write_json_lines"), path.as_ref(), Json);
    }

    /// Writes each record as a JSON value on a line, the records of each task to a file of their
    /// own: `part-00000.jsonl`, …. See [`write_lines_parallel`](Self::write_lines_parallel).
    #[track_caller]
    pub fn write_json_lines_parallel(self, dir: impl AsRef<Path>)
    where
        for<'a> <C::Item as Record>::Of<'a>: Serialize,
    {
        self.write_dir(Origin::here("write_json_lines_parallel"), dir.as_ref(), "jsonl", Json);
    }
}

#[derive(Clone)]
pub(super) struct Json;

impl<I: Record + ?Sized> Encode<I> for Json
where
    for<'a> I::Of<'a>: Serialize,
{
    fn encode(&mut self, item: I::Of<'_>, out: &mut Vec<u8>) -> Result<()> {
        serde_json::to_writer(&mut *out, &item).map_err(|cause| {
            Error::new(ErrorKind::Input, "a record cannot be written as JSON").caused_by(cause)
        })?;
        out.push(b'\n');
        Ok(())
    }
}
