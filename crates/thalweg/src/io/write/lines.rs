//! Sinks that write records as lines of text.

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
    /// The records of one task stay in order; the order between several tasks is not defined. Each task formats its
    /// records, and one task writes the file; if that is too slow, use
    /// [`write_lines_parallel`](Self::write_lines_parallel). A line break in a record's text makes two lines of it.
    ///
    /// The file has a hidden name in the same directory until the whole job has succeeded; then it replaces an
    /// existing file of its name. A job that fails or is cancelled leaves no file. On an unbounded stream the file
    /// appears once the job is [drained](crate::JobHandle::drain).
    ///
    /// A process that is killed leaves the hidden file, `.NAME.….thalweg-part`; the next job that writes the same
    /// file removes it, unless the file system has no locks. That of a job with checkpoints, `.NAME.….thalweg-kept`, stays
    /// for the next run, and is removed only by a job with the same directory of checkpoints. If two jobs write the same file at the same time, each
    /// writes its complete output, and that of the last one to end remains. Machines that share the directory must
    /// see each other's locks, as they do over NFS unless it was mounted otherwise.
    ///
    /// A job on several hosts writes the file on the first of them. When the job is over on any host, the file is there.
    ///
    /// # Errors
    ///
    /// The job is refused at its start if the file cannot be created (its directory does not exist or is not
    /// writable, or its name belongs to something other than a file), or if another sink of the job writes the same
    /// file, under this name or another. It fails when the disk is full.
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

    /// Writes each record as a line of text, the records of each task to a file of their own: `part-00000.txt`,
    /// `part-00001.txt`, …, in a directory that is empty or does not exist yet.
    ///
    /// Otherwise as [`write_lines`](Self::write_lines). The files are renamed to their final names one after the
    /// other. On several hosts, each writes the files of its tasks, into a directory that all of them must share; if
    /// the job fails on one host, none of its files appears on any.
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
pub(super) struct TextLines;

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
