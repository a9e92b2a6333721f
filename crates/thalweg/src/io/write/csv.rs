//! Sinks that write records as rows of CSV.

use super::{Encode, Layout};
use crate::data::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::sync::{Mutex, lock};
use serde::Serialize;
use std::io;
use std::path::Path;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Writes each record as a row of one CSV file, which [`Environment::csv`](crate::Environment::csv) can read.
    ///
    /// For structs, the file begins with a row of the fields' names; for tuples, it has no header. A file without
    /// records is empty. Order, names and errors are as in [`write_lines`](Self::write_lines); a record that is not a
    /// flat row (a struct inside a list, a map) stops the job, and so does one with more or fewer fields than its
    /// task's first record.
    ///
    /// ```
    /// use serde::Serialize;
    /// use thalweg::Environment;
    ///
    /// #[derive(Serialize)]
    /// struct Person {
    ///     name: &'static str,
    ///     age: u32,
    /// }
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("people.csv");
    /// let env = Environment::new();
    /// env.iter([("Ann, M.", 31), ("Bob", 29)])
    ///     .map(|(name, age)| Person { name, age })
    ///     .write_csv(&path);
    /// env.run()?;
    /// let written = std::fs::read_to_string(&path).unwrap();
    /// assert_eq!(written, "name,age\n\"Ann, M.\",31\nBob,29\n");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn write_csv(self, path: impl AsRef<Path>)
    where
        for<'a> <C::Item as Record>::Of<'a>: Serialize,
    {
        self.write_file(Origin::here("write_csv"), path.as_ref(), Rows::default());
    }

    /// Writes each record as a row of CSV, the records of each task to a file of their own, with a header in each:
    /// `part-00000.csv`, …. See [`write_lines_parallel`](Self::write_lines_parallel).
    #[track_caller]
    pub fn write_csv_parallel(self, dir: impl AsRef<Path>)
    where
        for<'a> <C::Item as Record>::Of<'a>: Serialize,
    {
        self.write_dir(Origin::here("write_csv_parallel"), dir.as_ref(), "csv", Rows::default());
    }
}

#[derive(Default)]
pub(super) struct Rows {
    /// Created for the first record.
    writer: Option<(csv::Writer<Written>, Written)>,
    layout: Option<Layout>,
}

/// Each task begins with a writer of its own.
impl Clone for Rows {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// A shared buffer for the output of a CSV writer, which gives no access to it otherwise.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn writer(header: bool) -> (csv::Writer<Written>, Written) {
    let written = Written::default();
    let builder = csv::WriterBuilder::new().has_headers(header).from_writer(written.clone());
    (builder, written)
}

fn failed(cause: impl Into<csv::Error>) -> Error {
    let cause = cause.into();
    let error =
        |what| Error::new(ErrorKind::Input, format!("a record cannot be written as CSV{what}"));
    match cause.kind() {
        // The library's own text asks the user to report this as a bug.
        csv::ErrorKind::Serialize(what) if what.contains("serializing maps") => error(
            ": it is or holds a map, which has no order of columns; make a struct or a tuple of it, or write it by \
             `write_json_lines`",
        ),
        csv::ErrorKind::Serialize(what) => error(&format!(": {what}")),
        _ => error("").caused_by(cause),
    }
}

impl Rows {
    /// Separates the header from the first row, since a writer writes both together.
    fn begin(&mut self, item: &impl Serialize) -> Result<()> {
        let written = |header| {
            let (mut writer, written) = writer(header);
            writer.serialize(item).map_err(failed)?;
            writer.flush().map_err(failed)?;
            Ok::<_, Error>(std::mem::take(&mut *lock(&written.0)))
        };
        let (mut both, row) = (written(true)?, written(false)?);
        both.truncate(both.len() - row.len());
        let mut fields = csv::ReaderBuilder::new().has_headers(false).from_reader(&*row);
        let fields = fields.byte_records().next().transpose().map_err(failed)?;
        let fields = fields.map_or(0, |fields| fields.len() as u64);
        self.layout = Some(Layout { fields, header: both });
        self.writer = Some(writer(false));
        Ok(())
    }
}

impl<I: Record + ?Sized> Encode<I> for Rows
where
    for<'a> I::Of<'a>: Serialize,
{
    fn encode(&mut self, item: I::Of<'_>, out: &mut Vec<u8>) -> Result<()> {
        if self.writer.is_none() {
            self.begin(&item)?;
        }
        if let Some((writer, written)) = &mut self.writer {
            writer.serialize(&item).map_err(failed)?;
            writer.flush().map_err(failed)?;
            out.append(&mut lock(&written.0));
        }
        Ok(())
    }

    fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }
}
