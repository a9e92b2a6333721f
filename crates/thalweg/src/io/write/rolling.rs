//! Files that appear with each checkpoint.
//!
//! A file is written under a hidden name in its final directory, and renamed when the checkpoint counts at whose barrier it was
//! complete. What is needed for that are the two names, so any process can do it. A hidden file that no checkpoint has is of
//! no use: the next run removes it before any of its tasks writes, when all that the checkpoint has is renamed. It knows those of its
//! own sink by the end of their names.
#![expect(clippy::disallowed_methods, reason = "the door by which sinks reach files")]

use super::csv::Rows;
use super::json_lines::Json;
use super::lines::TextLines;
use super::{Encode, file};
use crate::data::Record;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::io::connector::{Prepared, Sink, SinkContext, SinkWriter};
use crate::sync::{AtomicBool, Ordering};
use serde::Serialize;
use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind::NotFound, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// Writes records to files of a directory that appear while the job runs: with each checkpoint, those that hold what was written
/// since the last one. For [`Stream::write`](crate::Stream::write).
///
/// Use it for streams without an end. [`write_lines`](crate::Stream::write_lines) and its like, whose files appear when the job has ended
/// well, have fixed names and take each a file, or one for each task.
///
/// Each task begins a file after each checkpoint, if it has records: `part-00003-x7Gh2kQ9-000017.jsonl`, with the number of the task,
/// a word that is different in every run, and the number of the file. So there are as many files as tasks and checkpoints: an
/// interval of a minute or more suits them, and a smaller number of tasks ([`parallelism`](crate::Stream::parallelism)). A file has all
/// records of its time or is not there, and each record is in one file, also if the job is killed and goes on. A file that has
/// appeared is complete, and may be moved or removed. In a job without checkpoints the files appear when it has ended well.
///
/// The directory is made if it is not there, and may have other files, also of other sinks and jobs. All hosts must share it. Hidden
/// files (`.part-….thalweg-rolling`) are being written, or wait for their checkpoint. Those that a killed run leaves are renamed or
/// removed by the run that goes on from its checkpoints, and stay where there are none.
///
/// # Errors
///
/// The job fails if a hidden file is gone that was not renamed. A job that goes on renames again what its checkpoint has, and fails
/// if a file is there under neither name: a consumer that takes files away should leave those of the last minutes, or of as long as it takes
/// to start a job again after its last checkpoint.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::io::RollingFiles;
///
/// # let temp = tempfile::tempdir().unwrap();
/// # let dir = temp.path().join("squares");
/// let env = Environment::new();
/// env.range(0..100).map(|n| n * n).write(RollingFiles::new(&dir).lines());
/// env.run()?;
/// let count = env.lines(&dir).count().collect_one();
/// env.run()?;
/// assert_eq!(count.take()?, Some(100));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[doc(alias("StreamingFileSink", "FileSink"))]
#[derive(Clone, Debug)]
pub struct RollingFiles {
    dir: PathBuf,
    most: u64,
}

impl RollingFiles {
    /// Files in this directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), most: u64::MAX }
    }

    /// Begins another file when one has so many bytes, also between checkpoints. It ends with the record that exceeds them.
    pub fn file_bytes(self, bytes: u64) -> Self {
        Self { most: bytes, ..self }
    }

    /// Each record a line of text.
    pub fn lines<I>(self) -> impl Sink<Item = I>
    where
        I: Record<Of<'static>: Sized> + ?Sized,
        for<'a> I::Of<'a>: Display,
    {
        self.sink("txt", || TextLines)
    }

    /// Each record a JSON value on a line, as by [`write_json_lines`](crate::Stream::write_json_lines).
    pub fn json_lines<I>(self) -> impl Sink<Item = I>
    where
        I: Record + ?Sized,
        for<'a> I::Of<'a>: Serialize,
    {
        self.sink("jsonl", || Json)
    }

    /// Each record a row of CSV, as by [`write_csv`](crate::Stream::write_csv): each file has a header.
    pub fn csv<I>(self) -> impl Sink<Item = I>
    where
        I: Record + ?Sized,
        for<'a> I::Of<'a>: Serialize,
    {
        self.sink("csv", Rows::default)
    }

    fn sink<I, E>(self, ending: &'static str, encode: fn() -> E) -> Rolling<I, E>
    where
        I: Record + ?Sized,
        E: Encode<I>,
    {
        let Self { dir, most } = self;
        Rolling { dir, most, ending, encode, is_swept: AtomicBool::new(false), types: PhantomData }
    }
}

/// The end of the names of hidden files.
const HIDDEN: &str = ".thalweg-rolling";
/// The number of random characters in a name.
const RANDOM: usize = 8;
/// Bytes written at a time.
const BUFFER: usize = 128 << 10;

struct Rolling<I: ?Sized, E> {
    dir: PathBuf,
    most: u64,
    ending: &'static str,
    encode: fn() -> E,
    /// Whether what earlier runs have left was removed.
    is_swept: AtomicBool,
    types: PhantomData<fn(&I)>,
}

/// The hidden path of a file that is complete, and its final one.
type Complete = (PathBuf, PathBuf);

impl<I, E> Sink for Rolling<I, E>
where
    I: Record + ?Sized,
    E: Encode<I>,
{
    type Item = I;
    type Commit = Vec<Complete>;
    type Writer = RollingWriter<I, E>;

    fn describe(&self) -> String {
        format!("{} files in {}", self.ending, self.dir.display())
    }

    fn open(&self, cx: &SinkContext) -> Result<Self::Writer> {
        let failed = |cause| Error::io(&self.dir, "make the directory", cause);
        fs::create_dir_all(&self.dir).map_err(failed)?;
        let dir = fs::canonicalize(&self.dir).map_err(failed)?;
        let hidden = match cx.id() {
            Some(id) => format!(".{id:016x}{HIDDEN}"),
            None => HIDDEN.to_owned(),
        };
        // Without checkpoints, they might be those of another job that runs.
        if cx.has_checkpoints() && !self.is_swept.swap(true, Ordering::AcqRel) {
            let (dir, hidden) = (dir.clone(), hidden.clone());
            cx.when_made(move || {
                let is_left = |name: &str| name.starts_with(".part-") && name.ends_with(&hidden);
                file::remove_files(&dir, is_left);
            });
        }
        Ok(RollingWriter {
            prefix: format!("part-{:05}-", cx.task()),
            word: None,
            next: 0,
            dir,
            hidden,
            most: self.most,
            ending: self.ending,
            encode: (self.encode)(),
            buffer: Vec::new(),
            current: None,
            complete: Vec::new(),
            has_checkpoints: cx.has_checkpoints(),
            types: PhantomData,
        })
    }

    fn commit(&self, files: &Vec<Complete>) -> Result<()> {
        for (hidden, target) in files {
            match fs::rename(hidden, target) {
                Ok(()) => {}
                // It was committed before.
                Err(cause) if cause.kind() == NotFound && target.exists() => {}
                Err(cause) if cause.kind() == NotFound => {
                    let what = format!(
                        "the file is gone, and so is `{}`, under which it was written. If it was taken away on purpose, an empty \
                         file in its place lets the job go on",
                        hidden.display()
                    );
                    return Err(Error::new(ErrorKind::Io, what).at(Place::File(target.clone())));
                }
                Err(cause) => {
                    return Err(Error::io(target, "give the finished file its name", cause));
                }
            }
        }
        file::sync_directory(&self.dir);
        Ok(())
    }
}

struct RollingWriter<I: ?Sized, E> {
    dir: PathBuf,
    /// How the names of its files begin, and the word that no other run has in them, once it has a file.
    prefix: String,
    word: Option<String>,
    /// The number of the next file.
    next: u64,
    /// How hidden names end.
    hidden: String,
    most: u64,
    ending: &'static str,
    encode: E,
    /// Encoded records that are not in the current file yet.
    buffer: Vec<u8>,
    current: Option<Current>,
    complete: Vec<Complete>,
    has_checkpoints: bool,
    types: PhantomData<fn(&I)>,
}

/// The file that is being written.
struct Current {
    file: File,
    hidden: PathBuf,
    target: PathBuf,
    bytes: u64,
}

impl<I: ?Sized, E> RollingWriter<I, E> {
    /// Writes what is in the buffer.
    fn flush(&mut self) -> Result<()> {
        let current = match &mut self.current {
            Some(current) => current,
            None => {
                let begun = self.begin()?;
                self.current.insert(begun)
            }
        };
        current
            .file
            .write_all(&self.buffer)
            .map_err(|cause| Error::io(&current.hidden, "write the file", cause))?;
        current.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn begin(&mut self) -> Result<Current> {
        let failed = |dir: &Path, cause| Error::io(dir, "create a file", cause);
        let suffix = format!("-{:06}.{}", self.next, self.ending);
        self.next += 1;
        let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
        let named = |word: &str| {
            let target = format!("{}{word}{suffix}", self.prefix);
            (self.dir.join(format!(".{target}{}", self.hidden)), self.dir.join(target))
        };
        let (file, hidden, target) = match &self.word {
            Some(word) => {
                let (hidden, target) = named(word);
                (create(&hidden).map_err(|cause| failed(&self.dir, cause))?, hidden, target)
            }
            None => {
                let before = format!(".{}", self.prefix);
                let after = format!("{suffix}{}", self.hidden);
                let mut names = tempfile::Builder::new();
                names.prefix(&before).suffix(&after).rand_bytes(RANDOM);
                let made = names.disable_cleanup(true).make_in(&self.dir, create);
                let (file, hidden) = made.map_err(|cause| failed(&self.dir, cause))?.into_parts();
                let name = hidden.file_name().unwrap_or_default().to_string_lossy();
                let word = name.get(before.len()..before.len() + RANDOM).unwrap_or_default();
                self.word = Some(word.to_owned());
                let (hidden, target) = named(word);
                (file, hidden, target)
            }
        };
        Ok(Current { file, hidden, target, bytes: 0 })
    }

    /// Ends the file that is being written, if there is one.
    fn finish(&mut self) -> Result<()> {
        if !self.buffer.is_empty() {
            self.flush()?;
        }
        if let Some(Current { hidden, target, .. }) = self.current.take() {
            self.complete.push((hidden, target));
        }
        Ok(())
    }
}

impl<I, E> SinkWriter for RollingWriter<I, E>
where
    I: Record + ?Sized,
    E: Encode<I>,
{
    type Item = I;
    type Commit = Vec<Complete>;

    fn write(&mut self, item: I::Of<'_>) -> Result<()> {
        let is_new = self.current.is_none() && self.buffer.is_empty();
        self.encode.encode(item, &mut self.buffer)?;
        if is_new && let Some(layout) = self.encode.layout() {
            self.buffer.splice(..0, layout.header.iter().copied());
        }
        let written = self.current.as_ref().map_or(0, |current| current.bytes);
        if written + self.buffer.len() as u64 >= self.most {
            return self.finish();
        }
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    fn prepare(&mut self) -> Result<Option<Prepared<Vec<Complete>>>> {
        self.finish()?;
        if self.complete.is_empty() {
            return Ok(None);
        }
        let complete = std::mem::take(&mut self.complete);
        let unneeded = Unneeded(if self.has_checkpoints { Vec::new() } else { complete.clone() });
        let (files, dir) = (complete.clone(), self.dir.clone());
        Ok(Some(Prepared::new(complete).after(move || {
            for (hidden, _) in &files {
                let synced = File::open(hidden).and_then(|file| file.sync_all());
                synced.map_err(|cause| Error::io(hidden, "write the file", cause))?;
            }
            file::sync_directory(&dir);
            unneeded.keep();
            Ok(())
        })))
    }
}

/// Files of a job without checkpoints, which are removed unless they were prepared in full: no other run commits them.
struct Unneeded(Vec<Complete>);

impl Unneeded {
    fn keep(mut self) {
        self.0.clear();
    }
}

impl Drop for Unneeded {
    fn drop(&mut self) {
        for (hidden, _) in &self.0 {
            let _ = fs::remove_file(hidden);
        }
    }
}

/// Removes what was not prepared: it will be written again.
impl<I: ?Sized, E> Drop for RollingWriter<I, E> {
    fn drop(&mut self) {
        let current = self.current.take().map(|current| current.hidden);
        let complete = self.complete.drain(..).map(|(hidden, _)| hidden);
        for hidden in complete.chain(current) {
            let _ = fs::remove_file(hidden);
        }
    }
}
