//! Spill files: records on disk, for operators whose state exceeds memory.
//!
//! # File format
//!
//! A spill file is a sequence of blocks, each written and read as a whole:
//!
//! | bytes | content |
//! |---|---|
//! | 8 | length of the payload, little-endian |
//! | 4 | number of records |
//! | 4 | CRC-32 of the twelve bytes before and of the payload |
//! | the rest | the payload: the encoded records, one after the other |
//!
//! The checksum detects a torn or overwritten block. The number of records of the file is kept in memory, so that
//! missing blocks at the end are detected too.
//!
//! # Copies in checkpoints
//!
//! Blocks are only ever appended. So what a file held at a moment is a [`SpillPrefix`] of it, which can be copied while the
//! file grows. The copy, in the directory of a job's checkpoints or in an object store ([`SpillCopies`]), only grows too: each
//! checkpoint adds what was appended since the last. In a job that begins with a checkpoint, the copy is read in place, or as it
//! was fetched, as a file that is never appended to nor removed by what reads it.
//!
//! # Open files
//!
//! A sort merges a hundred runs, a join may have as many partitions, and every task has its own: if each file were
//! kept open, the process would soon reach its limit of open files. So a file is opened for each block, which costs
//! little compared with writing 64 KiB.
//!
//! # Cleaning up after killed processes
//!
//! A directory is removed with its last handle. If the process is killed, the next one that spills under the same
//! parent removes it. An abandoned directory is recognised by its lock: the process that owns a directory holds a
//! lock on the file `lock` in it as long as it lives. Where a file system has no locks, nothing is removed. Machines
//! that share the parent must see each other's locks, as NFS mounts with default options do.

#![expect(clippy::disallowed_methods, reason = "the door to spilled state")]

use crate::data::{Wire, hash_u64};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::fault::{Fault, is_planted};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::ErrorKind::{AlreadyExists, NotFound};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use tempfile::{TempDir, TempPath};

/// The payload at which a block is written. A larger record gets a block of its own.
pub(super) const BLOCK: usize = 64 * 1024;

const HEADER: usize = 16;
const PREFIX: &str = "thalweg-spill-";
const LOCK: &str = "lock";

/// The directory for one job's spill files. Clones share it.
///
/// Nothing is created before the first block is written. The directory has a unique name under the given parent, and
/// is removed together with the last clone, writer, file or reader of it.
///
/// ```
/// use thalweg::state::{SpillDir, SpillWriter};
///
/// let dir = SpillDir::new(std::env::temp_dir(), "example");
/// let mut writer: SpillWriter<str> = dir.writer();
/// writer.push(&"along")?;
/// writer.push(&"the river")?;
/// let mut reader = writer.finish()?.read();
/// let mut length = 0;
/// while let Some(len) = reader.next(|text| text.len())? {
///     length += len;
/// }
/// assert_eq!(length, 14);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SpillDir(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    parent: PathBuf,
    job: String,
    own: Mutex<Option<OwnDir>>,
    written: AtomicU64,
}

#[derive(Debug)]
struct OwnDir {
    path: TempDir,
    // Holds the lock; `None` where the file system has no locks.
    _lock: Option<File>,
}

impl SpillDir {
    /// A directory to be created under `parent` when it is needed; `job` becomes part of its name.
    ///
    /// The parent is created too if it does not exist, and is not removed.
    pub fn new(parent: impl Into<PathBuf>, job: &str) -> Self {
        // The name becomes part of a file name.
        let safe = |c: char| if c.is_alphanumeric() || c == '-' { c } else { '_' };
        Self(Arc::new(Shared {
            parent: parent.into(),
            job: job.chars().take(40).map(safe).collect(),
            own: Mutex::new(None),
            written: AtomicU64::new(0),
        }))
    }

    /// The directory under which the spill directory is, or will be, created.
    pub fn parent(&self) -> &Path {
        &self.0.parent
    }

    /// The bytes written to spill files so far, including those of removed files.
    pub fn written(&self) -> u64 {
        self.0.written.load(Ordering::Relaxed)
    }

    /// Begins a spill file. Its buffer takes about 64 KiB; the file is created with its first block.
    pub fn writer<I: Wire + ?Sized>(&self) -> SpillWriter<I> {
        SpillWriter {
            file: None,
            dir: self.clone(),
            block: Vec::new(),
            in_block: 0,
            records: 0,
            bytes: 0,
            kind: PhantomData,
        }
    }

    /// An empty file in the directory; creates the directory first if needed.
    fn create_file(&self) -> Result<TempPath> {
        let mut own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = match &mut *own {
            Some(dir) => dir,
            none => none.insert(self.create_dir()?),
        };
        tempfile::Builder::new()
            .prefix("records-")
            .tempfile_in(dir.path.path())
            .map(|file| file.into_temp_path())
            .map_err(|cause| self.failure(dir.path.path(), "create a spill file", cause))
    }

    /// An empty file in the directory, to be read and written at any place. It is removed with its path.
    pub(super) fn open_file(&self) -> Result<(TempPath, File)> {
        let path = self.create_file()?;
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.map_err(|cause| self.failure(&path, "open the spill file", cause))?;
        Ok((path, file))
    }

    /// Counts bytes that were written to such a file.
    pub(super) fn note_written(&self, bytes: u64) {
        self.0.written.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The path of a file of this name in the directory, which is created first if needed. The file is the caller's to make; it
    /// is removed with the directory.
    #[cfg(feature = "object-store")]
    pub(crate) fn named(&self, name: &str) -> Result<PathBuf> {
        let mut own = self.0.own.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = match &mut *own {
            Some(dir) => dir,
            none => none.insert(self.create_dir()?),
        };
        Ok(dir.path.path().join(name))
    }

    /// A file in the directory of a job's checkpoints, which counts up to this length. It is not removed.
    pub(crate) fn stored<I: Wire + ?Sized>(
        &self,
        path: PathBuf,
        bytes: u64,
        records: u64,
    ) -> SpillFile<I> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let file = StoredFile {
            location: Some(Location::Checkpoint(path)),
            dir: self.clone(),
            name: name.map(|name| OnceLock::from(Arc::from(name))).unwrap_or_default(),
            copied: Mutex::new(Copied { begun: true, bytes }),
        };
        SpillFile { file: Arc::new(file), records, bytes, kind: PhantomData }
    }

    fn create_dir(&self) -> Result<OwnDir> {
        let parent = &*self.0.parent;
        let failed = |cause| self.failure(parent, "create the spill directory", cause);
        fs::create_dir_all(parent).map_err(failed)?;
        remove_dead(parent);
        loop {
            let path = tempfile::Builder::new()
                .prefix(&format!("{PREFIX}{}-", self.0.job))
                .tempdir_in(parent)
                .map_err(failed)?;
            match take_lock(path.path()).map_err(failed)? {
                Lock::Held(lock) => return Ok(OwnDir { path, _lock: lock }),
                // Another process saw the new directory before it was locked, and took it for an abandoned one.
                Lock::Lost => continue,
            }
        }
    }

    /// The error of an attempt to do something with a file.
    pub(super) fn failure(&self, path: &Path, doing: &str, cause: io::Error) -> Error {
        match cause.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                let parent = self.0.parent.display();
                let message = format!(
                    "the disk that holds {parent} is full: cannot {doing}; give the job more \
                     memory, or a spill directory with more space"
                );
                Error::new(ErrorKind::Io, message).caused_by(cause)
            }
            _ => Error::io(path, doing, cause),
        }
    }
}

enum Lock {
    Held(Option<File>),
    Lost,
}

fn take_lock(dir: &Path) -> io::Result<Lock> {
    let path = dir.join(LOCK);
    let file = match File::create_new(&path) {
        Ok(file) => file,
        // The directory is being removed.
        Err(error) if matches!(error.kind(), NotFound | AlreadyExists) => return Ok(Lock::Lost),
        Err(error) => return Err(error),
    };
    match file.try_lock() {
        // A process that removes a directory holds its lock until it is gone.
        Ok(()) if path.exists() => Ok(Lock::Held(Some(file))),
        Ok(()) | Err(TryLockError::WouldBlock) => Ok(Lock::Lost),
        Err(TryLockError::Error(_)) => Ok(Lock::Held(None)),
    }
}

/// Removes directories that killed processes left under `parent`. Errors are ignored: they do not concern this job.
fn remove_dead(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        let lock = entry.path().join(LOCK);
        // Only regular files: opening a pipe could block for ever.
        if !is_ours || fs::symlink_metadata(&lock).is_ok_and(|found| !found.is_file()) {
            continue;
        }
        // The file may be missing: the process may have died before it created the file, or while it removed the
        // directory. A process that is about to create it then finds that this one holds the lock, and creates
        // another directory.
        let open = OpenOptions::new().write(true).create(true).truncate(false).open(&lock);
        let Ok(lock) = open else { continue };
        if lock.try_lock().is_ok() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes records to a new spill file. The file is removed if the writer is dropped unfinished.
#[derive(Debug)]
pub struct SpillWriter<I: Wire + ?Sized> {
    /// `None` before the first block. Before `dir`, so that the file is removed before its directory.
    file: Option<Arc<StoredFile>>,
    dir: SpillDir,
    block: Vec<u8>,
    in_block: u32,
    records: u64,
    bytes: u64,
    kind: PhantomData<fn(&I)>,
}

impl<I: Wire + ?Sized> SpillWriter<I> {
    /// Appends a record; writes a block to disk when the buffer is full.
    ///
    /// Fails with [`ErrorKind::Io`] when the disk is full or cannot be written; the file cannot be used then.
    #[inline]
    pub fn push(&mut self, item: &I::Of<'_>) -> Result<()> {
        if self.block.is_empty() {
            self.block.resize(HEADER, 0);
        }
        I::encode(item, &mut self.block);
        self.in_block += 1;
        if self.block.len() >= BLOCK || self.in_block == u32::MAX {
            self.write_block()?;
        }
        Ok(())
    }

    /// The number of records appended.
    pub fn records(&self) -> u64 {
        self.records + u64::from(self.in_block)
    }

    /// The bytes written to disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes a block and frees the buffer, before a time without records.
    pub(crate) fn rest(&mut self) -> Result<()> {
        if self.in_block > 0 {
            self.write_block()?;
        }
        self.block = Vec::new();
        Ok(())
    }

    /// Writes the block that is not full, so that all records are in the file; returns what the file holds, or `None` if
    /// that is nothing.
    pub(crate) fn prefix(&mut self) -> Result<Option<SpillPrefix>> {
        Ok(self.file_so_far()?.prefix())
    }

    /// The same, as a file of what was written until now.
    pub(crate) fn file_so_far(&mut self) -> Result<SpillFile<I>> {
        if self.in_block > 0 && !is_planted(Fault::LosesTheOpenBlock) {
            self.write_block()?;
        }
        let none = || Arc::new(StoredFile::new(None, &self.dir));
        let file = self.file.as_ref().map_or_else(none, Arc::clone);
        Ok(SpillFile { file, records: self.records, bytes: self.bytes, kind: PhantomData })
    }

    /// Writes the last block and returns the file, which can be read any number of times.
    pub fn finish(mut self) -> Result<SpillFile<I>> {
        if self.in_block > 0 {
            self.write_block()?;
        }
        let file = self.file.unwrap_or_else(|| Arc::new(StoredFile::new(None, &self.dir)));
        Ok(SpillFile { file, records: self.records, bytes: self.bytes, kind: PhantomData })
    }

    fn write_block(&mut self) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => {
                let path = Location::Own(self.dir.create_file()?);
                none.insert(Arc::new(StoredFile::new(Some(path), &self.dir)))
            }
        };
        let path = file.path();
        let payload = self.block.len() - HEADER;
        self.block[..8].copy_from_slice(&(payload as u64).to_le_bytes());
        self.block[8..12].copy_from_slice(&self.in_block.to_le_bytes());
        let sum = checksum(&self.block[..12], &self.block[HEADER..]);
        self.block[12..HEADER].copy_from_slice(&sum.to_le_bytes());
        OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(&self.block))
            .map_err(|cause| self.dir.failure(path, "write to the spill file", cause))?;
        let written = self.block.len() as u64;
        self.dir.0.written.fetch_add(written, Ordering::Relaxed);
        self.bytes += written;
        self.records += u64::from(self.in_block);
        self.in_block = 0;
        self.block.clear();
        Ok(())
    }
}

fn checksum(head: &[u8], payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head);
    hasher.update(payload);
    hasher.finalize()
}

/// A finished spill file. Removed when it and all its readers are dropped.
#[derive(Debug)]
pub struct SpillFile<I: Wire + ?Sized> {
    file: Arc<StoredFile>,
    records: u64,
    bytes: u64,
    kind: PhantomData<fn(&I)>,
}

#[derive(Debug)]
struct StoredFile {
    /// `None` when there are no records. Before `dir`, so that it is removed before its directory.
    location: Option<Location>,
    dir: SpillDir,
    /// The name of its copy in the directory of checkpoints, once it is to have one.
    name: OnceLock<Arc<str>>,
    copied: Mutex<Copied>,
}

#[derive(Debug)]
enum Location {
    /// Removed with the last handle.
    Own(TempPath),
    /// It belongs to the checkpoints of a job.
    Checkpoint(PathBuf),
}

/// How much of a file its copy has.
#[derive(Debug, Default)]
struct Copied {
    /// Whether the copy was created.
    begun: bool,
    /// The bytes that are on the disk. There may be more in the copy, of an attempt that failed.
    bytes: u64,
}

impl StoredFile {
    fn new(location: Option<Location>, dir: &SpillDir) -> Self {
        let (dir, name, copied) = (dir.clone(), OnceLock::new(), Mutex::default());
        Self { location, dir, name, copied }
    }

    fn copied(&self) -> MutexGuard<'_, Copied> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it is; of one without records, the directory of all.
    fn path(&self) -> &Path {
        match &self.location {
            Some(Location::Own(path)) => path,
            Some(Location::Checkpoint(path)) => path,
            None => &self.dir.0.parent,
        }
    }
}

/// What a spill file held at a moment: its first bytes, which never change. Keeps the file.
#[derive(Clone, Debug)]
pub(crate) struct SpillPrefix {
    file: Arc<StoredFile>,
    bytes: u64,
    records: u64,
}

impl SpillPrefix {
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// The name of the copy of the file, which is the same for all its prefixes, and is kept by it; `new` names one that has none.
    pub(crate) fn copy_name(&self, new: impl FnOnce() -> Arc<str>) -> &Arc<str> {
        self.file.name.get_or_init(new)
    }

    /// Whether the copy has all of it, on the disk.
    pub(crate) fn is_copied(&self) -> bool {
        self.file.copied().bytes >= self.bytes
    }

    /// Adds to the copy of the file what it lacks of this prefix; it is then on stable storage. An attempt that fails can be
    /// repeated.
    ///
    /// # Errors
    ///
    /// If one of the two files cannot be read or written.
    pub(crate) fn copy_into(&self, copies: &(impl SpillCopies + ?Sized)) -> Result<()> {
        let mut copied = self.file.copied();
        let Some(name) = self.file.name.get().filter(|_| copied.bytes < self.bytes) else {
            return Ok(());
        };
        let from = self.file.path();
        let unread = |cause| self.file.dir.failure(from, "read the spill file", cause);
        let mut source = File::open(from).map_err(unread)?;
        let Copied { begun, bytes: at } = &mut *copied;
        source.seek(SeekFrom::Start(*at)).map_err(unread)?;
        let missing = self.bytes - *at;
        if copies.append(name, *at, begun, &mut source.take(missing))? < missing {
            return Err(damaged(&self.file, "it is shorter than what was written".into()));
        }
        copied.bytes = self.bytes;
        Ok(())
    }
}

/// Where the copies of spill files are.
pub(crate) trait SpillCopies {
    /// Adds all of the source to the copy with this name, of which so many bytes count; returns how many there were, which are
    /// on stable storage then. The copy is created unless it was `begun`, and has begun when it is there.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or is there and was not begun.
    fn append(&self, name: &str, at: u64, begun: &mut bool, source: &mut dyn Read) -> Result<u64>;
}

/// Files in a directory.
impl SpillCopies for Path {
    fn append(&self, name: &str, at: u64, begun: &mut bool, source: &mut dyn Read) -> Result<u64> {
        let to = self.join(name);
        let failed = |cause| Error::io(&to, "copy spilled records into a checkpoint", cause);
        // Another file with this name is never written to.
        let target = OpenOptions::new().write(true).create_new(!*begun).open(&to);
        let mut target = target.map_err(failed)?;
        *begun = true;
        // Of what was written after that, nothing counts.
        target.set_len(at).map_err(failed)?;
        target.seek(SeekFrom::Start(at)).map_err(failed)?;
        let written = io::copy(source, &mut target).map_err(failed)?;
        target.sync_data().map_err(failed)?;
        Ok(written)
    }
}

/// A range of hashes, with its first and its last.
pub(crate) type HashRange = (u64, u64);

/// A spill file, of which only the records count whose keys have hashes in a range, if there is one.
#[derive(Debug)]
pub(crate) struct SpillShare<I: Wire + ?Sized> {
    pub(crate) file: SpillFile<I>,
    pub(crate) hashes: Option<HashRange>,
    /// Of records that may go to any task: the range over which they are dealt out, by their numbers in the file in place of
    /// their keys. The shares of a file whose ranges of hashes divide this range have each record once.
    pub(crate) dealt: Option<HashRange>,
}

/// Reads the records of a [`SpillShare`].
#[derive(Debug)]
pub(crate) struct ShareReader<I: Wire + ?Sized> {
    reader: SpillReader<I>,
    hashes: Option<HashRange>,
    dealt: Option<HashRange>,
    /// The records of the file.
    records: u64,
}

impl<I: Wire + ?Sized> SpillShare<I> {
    pub(crate) fn read(&self) -> ShareReader<I> {
        let (hashes, dealt, records) = (self.hashes, self.dealt, self.file.records);
        ShareReader { reader: self.file.read(), hashes, dealt, records }
    }

    /// Reads what was appended since the file [was](SpillWriter::file_so_far) of so many bytes and records.
    pub(crate) fn read_after(&self, before: (u64, u64)) -> ShareReader<I> {
        ShareReader { reader: self.file.read_after(before), ..self.read() }
    }
}

impl<I: Wire + ?Sized> From<SpillFile<I>> for SpillShare<I> {
    /// All of a file.
    fn from(file: SpillFile<I>) -> Self {
        Self { file, hashes: None, dealt: None }
    }
}

/// Where in a range the record with this number is dealt to.
fn dealt_to((first, last): HashRange, number: u64) -> u64 {
    let size = u128::from(last - first) + 1;
    first + ((u128::from(hash_u64(number)) * size) >> 64) as u64
}

impl<I: Wire + ?Sized> ShareReader<I> {
    /// The number of records not read yet, with those that do not count.
    pub(crate) fn remaining(&self) -> u64 {
        self.reader.remaining()
    }

    /// Leaves out so many records, with those that do not count.
    pub(crate) fn skip(&mut self, records: u64) -> Result<()> {
        self.reader.skip(records)
    }

    /// As [`SpillReader::next`]; `hash` is called where only some hashes count.
    #[inline]
    pub(crate) fn next<R>(
        &mut self,
        hash: impl Fn(&I::Of<'_>) -> u64,
        see: impl FnOnce(I::Of<'_>) -> R,
    ) -> Result<Option<R>> {
        let Some((first, last)) = self.hashes else { return self.reader.next(see) };
        let mut see = Some(see);
        loop {
            let number = self.records - self.reader.left;
            let dealt = self.dealt.map(|range| dealt_to(range, number));
            let seen = self.reader.next(|item| {
                let hash = dealt.unwrap_or_else(|| hash(&item));
                match (first..=last).contains(&hash) {
                    true => see.take().map(|see| see(item)),
                    false => None,
                }
            })?;
            match seen {
                None => return Ok(None),
                Some(None) => {}
                Some(seen) => return Ok(seen),
            }
        }
    }
}

/// Checks the blocks of a file in a directory of checkpoints, up to this length, and that they hold so many records.
///
/// # Errors
///
/// If a block is damaged, or the file is not there or too short.
pub(crate) fn check_blocks(path: &Path, bytes: u64, records: u64) -> Result<()> {
    let dir = SpillDir::new(path.parent().unwrap_or(path), "");
    // Records are not decoded, so their type does not matter.
    let file: SpillFile<u64> = dir.stored(path.to_owned(), bytes, records);
    let mut reader = file.read();
    while reader.left > 0 {
        reader.read_block()?;
        reader.left -= u64::from(std::mem::take(&mut reader.in_block));
        reader.at = reader.block.len();
    }
    match reader.offset == bytes {
        true => Ok(()),
        false => Err(damaged(&file.file, "it holds more than its records".into())),
    }
}

impl<I: Wire + ?Sized> SpillFile<I> {
    /// The number of records in the file.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// The size of the file on disk.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether it belongs to a checkpoint with which the job began.
    pub(crate) fn is_of_checkpoint(&self) -> bool {
        matches!(self.file.location, Some(Location::Checkpoint(_)))
    }

    /// What it holds; `None` if that is nothing.
    pub(crate) fn prefix(&self) -> Option<SpillPrefix> {
        let (bytes, records) = (self.bytes, self.records);
        (bytes > 0).then(|| SpillPrefix { file: Arc::clone(&self.file), bytes, records })
    }

    /// Reads what was appended since the file [was](SpillWriter::file_so_far) of so many bytes and records.
    fn read_after(&self, (bytes, records): (u64, u64)) -> SpillReader<I> {
        SpillReader { offset: bytes, left: self.records - records, ..self.read() }
    }

    /// Reads the file from the start. Several readers may do so at a time; each keeps a block in memory.
    pub fn read(&self) -> SpillReader<I> {
        SpillReader {
            file: Arc::clone(&self.file),
            offset: 0,
            end: self.bytes,
            block: Vec::new(),
            at: 0,
            in_block: 0,
            left: self.records,
            kind: PhantomData,
        }
    }
}

/// Reads the records of a [`SpillFile`] in the order in which they were written.
///
/// Every method fails with [`ErrorKind::Io`] when the file cannot be read, or was damaged.
#[derive(Debug)]
pub struct SpillReader<I: Wire + ?Sized> {
    file: Arc<StoredFile>,
    offset: u64,
    end: u64,
    block: Vec<u8>,
    at: usize,
    in_block: u32,
    left: u64,
    kind: PhantomData<fn(&I)>,
}

impl<I: Wire + ?Sized> SpillReader<I> {
    /// The number of records not read yet.
    pub fn remaining(&self) -> u64 {
        self.left
    }

    /// Passes the next record to `see` and returns its result; `None` after the last.
    ///
    /// The record borrows from the block in memory where its kind allows that.
    #[inline]
    pub fn next<R>(&mut self, see: impl FnOnce(I::Of<'_>) -> R) -> Result<Option<R>> {
        if self.left == 0 {
            return Ok(None);
        }
        if self.in_block == 0 {
            self.read_block()?;
        }
        let mut input = &self.block[self.at..];
        let item = match I::decode(&mut input) {
            Ok(item) => item,
            Err(error) => {
                let message = format!("a record cannot be read back ({error})");
                return Err(damaged(&self.file, message));
            }
        };
        self.at = self.block.len() - input.len();
        self.in_block -= 1;
        self.left -= 1;
        Ok(Some(see(item)))
    }

    /// Leaves out so many records, or all that are left. Only those are decoded that are in one block with the next one.
    fn skip(&mut self, mut records: u64) -> Result<()> {
        while records > 0 && self.left > 0 {
            if self.in_block == 0 {
                self.read_block()?;
            }
            let block = u64::from(self.in_block);
            if records < block {
                self.next(|_| ())?;
                records -= 1;
            } else {
                (self.at, self.in_block) = (self.block.len(), 0);
                self.left -= block;
                records -= block;
            }
        }
        Ok(())
    }

    /// Appends up to `max` records to a batch and returns how many; 0 after the last.
    pub fn read_batch(&mut self, batch: &mut I::Batch, max: usize) -> Result<usize> {
        use crate::data::Batch;
        for count in 0..max {
            if self.next(|item| batch.push(item))?.is_none() {
                return Ok(count);
            }
        }
        Ok(max)
    }

    #[cold]
    fn read_block(&mut self) -> Result<()> {
        if self.at != self.block.len() {
            return Err(damaged(&self.file, "a block holds more than its records".into()));
        }
        if self.file.location.is_none() {
            return Err(damaged(&self.file, "it does not exist".into()));
        }
        let path = self.file.path();
        let failed = |cause: io::Error| match cause.kind() {
            io::ErrorKind::UnexpectedEof => {
                damaged(&self.file, "it ends in the middle of a block".into())
            }
            _ => self.file.dir.failure(path, "read the spill file", cause),
        };
        // The offset advances only after all checks, so that a failed read can be repeated.
        let mut file = File::open(path).map_err(failed)?;
        file.seek(SeekFrom::Start(self.offset)).map_err(failed)?;
        let mut head = [0; HEADER];
        file.read_exact(&mut head).map_err(failed)?;
        let [l0, l1, l2, l3, l4, l5, l6, l7, c0, c1, c2, c3, s0, s1, s2, s3] = head;
        let payload = u64::from_le_bytes([l0, l1, l2, l3, l4, l5, l6, l7]);
        let mut block = std::mem::take(&mut self.block);
        self.at = 0;
        let mismatch = || damaged(&self.file, "a block's checksum does not match it".into());
        // A damaged length must not cause an allocation of that size.
        if payload > self.end.saturating_sub(self.offset + HEADER as u64) {
            return Err(mismatch());
        }
        block.resize(payload as usize, 0);
        file.read_exact(&mut block).map_err(failed)?;
        if checksum(&head[..12], &block) != u32::from_le_bytes([s0, s1, s2, s3]) {
            return Err(mismatch());
        }
        let count = u32::from_le_bytes([c0, c1, c2, c3]);
        if count == 0 || u64::from(count) > self.left {
            return Err(damaged(&self.file, "it holds other records than were written".into()));
        }
        self.block = block;
        self.in_block = count;
        self.offset += HEADER as u64 + payload;
        Ok(())
    }
}

#[cold]
fn damaged(file: &StoredFile, what: String) -> Error {
    let whose = match &file.location {
        Some(Location::Checkpoint(_)) => "the file of spilled records of the checkpoint",
        _ => "the spill file",
    };
    let what = format!("{whose} was damaged after it was written: {what}");
    Error::new(ErrorKind::Io, what).at(Place::File(file.path().to_owned()))
}

#[cfg(test)]
mod tests;
