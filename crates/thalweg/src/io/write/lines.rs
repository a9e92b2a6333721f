//! Records as lines of text.

use super::Encode;
use crate::data::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use std::fmt::Display;
use std::io::Write;
use std::path::Path;

impl<C: Chain> Stream<C> {
    /// Writes each record as a line of one text file.
    ///
    /// The records of one task stay in order; those of several come as they come. Each task turns
    /// its records into text, and one task writes the file; where that is too slow, there is
    /// [`write_lines_parallel`](Self::write_lines_parallel). A line break in a record's text makes
    /// two lines of it.
    ///
    /// The file has a hidden name beside its own until the whole job has ended well; then it
    /// replaces what had its name before. A job that fails, or is cancelled, leaves nothing. On an
    /// unbounded stream the file is there once the job is [drained](crate::JobHandle::drain).
    ///
    /// A process that is killed leaves the hidden file, `.NAME.….thalweg-part`; the next job that writes
    /// the same file removes it, unless the file system has no locks. Of two jobs that write the same file
    /// at a time, each writes all of its own, and what the last one to end has written stays. Machines that
    /// share the directory must see each other's locks, as they do over NFS unless it was mounted
    /// otherwise.
    ///
    /// # Errors
    ///
    /// The job is refused at its start when the file cannot be created: the directory is not
    /// there, may not be written to, or something else than a file has the name; or when another of
    /// its sinks writes the same file, under this name or another. It fails when the disk is full.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let path = dir.path().join("squares.txt");
    /// let env = Environment::new();
    /// env.iter(1..=3).map(|n| n * n).write_lines(&path);
    /// env.run()?;
    /// assert_eq!(std::fs::read_to_string(&path).unwrap(), "1\n4\n9\n");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn write_lines(self, path: impl AsRef<Path>)
    where
        for<'a> <C::Item as Record>::Of<'a>: Display,
    {
        self.write_file(Origin::here("write_lines"), path.as_ref(), TextLines);
    }

    /// Writes each record as a line of text, the records of each task to a file of their own:
    /// `part-00000.txt`, `part-00001.txt`, …, in a directory that is empty or not there yet.
    ///
    /// Otherwise as [`write_lines`](Self::write_lines). The files are given their names one after
    /// the other.
    ///
    /// ```
    /// use thalweg::{Environment, config::Config};
    ///
    /// # let temp = tempfile::tempdir().unwrap();
    /// # let dir = temp.path().join("numbers");
    /// let mut config = Config::default();
    /// config.cores = 2.try_into().unwrap();
    /// let env = Environment::with_config(config);
    /// env.range(0..10).write_lines_parallel(&dir);
    /// env.run()?;
    /// assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 2);
    ///
    /// let count = env.lines(&dir).count().collect_one();
    /// env.run()?;
    /// assert_eq!(count.take()?, Some(10));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn write_lines_parallel(self, dir: impl AsRef<Path>)
    where
        for<'a> <C::Item as Record>::Of<'a>: Display,
    {
        self.write_dir(Origin::here("write_lines_parallel"), dir.as_ref(), "txt", TextLines);
    }
}

#[derive(Clone)]
struct TextLines;

impl<I: Record + ?Sized> Encode<I> for TextLines
where
    for<'a> I::Of<'a>: Display,
{
    fn encode(&mut self, item: I::Of<'_>, out: &mut Vec<u8>) -> Result<()> {
        writeln!(out, "{item}").map_err(|cause| {
            Error::new(ErrorKind::Input, "a record cannot be written as text").caused_by(cause)
        })
    }
}
