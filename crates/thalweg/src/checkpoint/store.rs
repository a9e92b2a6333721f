//! Checkpoints in a directory: each one file, which appears under its name only when it is complete and on the disk.
//!
//! A file begins with what it is and in which version, and with what its reader must agree with: the version of the hash,
//! and the number of key groups. Then come the length of the rest, the length of its head and the head's digest, a hash that
//! finds what was altered by accident; the head, in which are the digests of what follows; and the entries of all states. A
//! file's number is in its name, and no file is ever replaced.
//!
//! Of a job on several hosts, each other host than the first writes what its tasks have saved to a file of the same form, a part,
//! and the checkpoint has the list of the parts. So it counts once the first host has written it, and all parts are there.
//!
//! What operators have on disk is in files of its own beside them ([`files`](super::files)), to which checkpoints and parts refer.
//! A checkpoint counts as long as they are there, and at least as long as it says. One to which no checkpoint refers any more is
//! removed with the last that did: what a job still needs is in each of its checkpoints.
//!
//! One job at a time uses a directory: it holds the lock (`flock`) of a file in it, which the kernel releases however the
//! process ends. Where there are no locks, a run is ended by the next one ([`Mark`]).
#![expect(clippy::disallowed_methods, reason = "the door by which checkpoints reach files")]

use super::files::{FileEntry, is_spilled};
use super::mark::Mark;
use super::{Snapshot, advice};
use crate::data::{Data, DecodeError, HASH_VERSION, decode_whole, hash_bytes};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::exchange::KEY_GROUPS;
use crate::net::HostId;
use crate::sync::{AtomicU64, Mutex, Ordering, lock, try_lock_file};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};
use tempfile::NamedTempFile;

/// How a file begins.
const MAGIC: &[u8; 8] = b"thalweg\0";
/// The version of the format of files.
const VERSION: u32 = 6;
const HEADER: usize = MAGIC.len() + 3 * size_of::<u32>() + 3 * size_of::<u64>();
/// How names begin and end; a number of ten digits, or more, is between.
const PREFIX: &str = "checkpoint-";
const SUFFIX: &str = ".state";
/// How the names of the files begin that are parts; their names end as those of checkpoints.
const PART: &str = "part-";
/// How the names of files begin that are being written.
pub(super) const TEMPORARY: &str = ".checkpoint";
/// What the name of a file ends with that could not be read.
const UNREADABLE: &str = ".unreadable";
/// The file that is locked.
const LOCK: &str = "lock";
/// How many checkpoints are kept: one more than is needed, in case the newest cannot be read.
const KEPT: usize = 2;

/// The checkpoints of one job.
pub(crate) struct Store {
    dir: PathBuf,
    /// Locked, if the file system has locks; not by other hosts than the first.
    lock: Option<File>,
    /// Of a run that writes checkpoints.
    mark: Option<Mark>,
    /// A file whose name the first of several hosts sends to the others, which look for it.
    proof: Option<NamedTempFile>,
    /// On other hosts, what makes the names of their parts unlike those of other runs of the job, once it is known.
    run: OnceLock<String>,
    /// The number of parts that this host has written.
    written: AtomicU64,
    /// What each checkpoint refers to, if it refers to anything.
    referred: Mutex<BTreeMap<u64, Referred>>,
}

/// The other files to which a checkpoint refers.
#[derive(Default)]
struct Referred {
    parts: Vec<Part>,
    /// The names of files of spilled records, also those of its parts.
    spilled: BTreeSet<String>,
}

/// A part of a checkpoint: what the tasks of another host than the first have saved.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(crate) struct Part {
    /// The name of its file.
    name: String,
    /// The digest of its head, in which are those of all that it has.
    digest: u64,
    /// The names of the files of spilled records to which it refers.
    spilled: Vec<String>,
}

/// A checkpoint that was read.
pub(crate) struct Stored {
    pub(crate) number: u64,
    pub(crate) snapshot: Snapshot,
    /// The length of its file, and how long ago it was written, if that is known.
    pub(crate) bytes: u64,
    pub(crate) age: Option<Duration>,
    /// Why newer ones could not be read.
    pub(crate) skipped: Vec<Error>,
}

impl Part {
    /// What the first host gets to know of it.
    pub(crate) fn report(&self) -> Vec<u8> {
        let mut report = Vec::new();
        self.encode(&mut report);
        report
    }

    /// Reads what another host has said of a part.
    pub(crate) fn read(report: &[u8]) -> Result<Self> {
        let part = decode_whole(report, Self::decode).and_then(Self::checked);
        part.map_err(|error| {
            let what = format!("another host has sent what is no part of a checkpoint: {error}");
            Error::new(ErrorKind::Internal, what)
        })
    }

    /// Checks that the name is that of a part, and leads out of no directory.
    fn checked(self) -> Result<Self, DecodeError> {
        let is_name = Path::new(&self.name).file_name().is_some_and(|name| *name == *self.name);
        let are_names = || {
            let is_in_dir = |name: &String| {
                Path::new(name).file_name().is_some_and(|own| *own == **name) && is_spilled(name)
            };
            self.spilled.iter().all(is_in_dir)
        };
        match is_name && is_part(&self.name) && are_names() {
            true => Ok(self),
            false => Err(DecodeError::invalid("the name of a part")),
        }
    }
}

impl Store {
    /// Makes a directory if it is not there; returns its absolute path without links.
    pub(crate) fn directory(dir: &Path) -> Result<PathBuf> {
        let made = fs::create_dir_all(dir).and_then(|()| fs::canonicalize(dir));
        made.map_err(|cause| Error::io(dir, "make the directory of checkpoints", cause))
    }

    /// The checkpoints in a directory.
    ///
    /// # Errors
    ///
    /// If another job uses it.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        Self::open_as(dir, |_| Ok(None))
    }

    /// As [`open`](Self::open), by a run of a job, which supersedes those before it.
    pub(crate) fn open_run(dir: &Path) -> Result<Self> {
        Self::open_as(dir, |dir| Mark::next(dir).map(Some))
    }

    /// `mark` makes the mark of the run, before anything is removed that another one may have written.
    fn open_as(dir: &Path, mark: impl FnOnce(&Path) -> Result<Option<Mark>>) -> Result<Self> {
        let failed = |cause| Error::io(dir, "use the directory of checkpoints", cause);
        let path = dir.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|cause| Error::io(&path, "open the lock of checkpoints", cause))?;
        match try_lock_file(&lock) {
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                let what = "another job that runs has its checkpoints in this directory";
                return Err(Error::new(ErrorKind::Io, what).at(Place::File(dir.to_owned())));
            }
        }
        let mark = mark(dir)?;
        // A process that was killed while it wrote leaves its file.
        for name in names(dir).map_err(failed)? {
            if name.starts_with(TEMPORARY) {
                let _ = fs::remove_file(dir.join(name));
            }
        }
        let referred = remove_others(dir, |_| true)?;
        Ok(Self { mark, ..Self::of(dir, Some(lock), referred) })
    }

    /// As [`open_run`](Self::open_run), by the first of several hosts.
    pub(crate) fn open_first(dir: &Path) -> Result<Self> {
        let mut store = Self::open_run(dir)?;
        let proof = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir);
        let failed = |cause| Error::io(dir, "use the directory of checkpoints", cause);
        store.proof = Some(proof.map_err(failed)?);
        Ok(store)
    }

    /// The directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The checkpoints in a directory, as another host than the first uses it, which writes parts only.
    pub(crate) fn join(dir: &Path) -> Self {
        Self::of(dir, None, BTreeMap::new())
    }

    fn of(dir: &Path, lock: Option<File>, referred: BTreeMap<u64, Referred>) -> Self {
        let (dir, referred) = (dir.to_owned(), Mutex::new(referred));
        let (run, written) = (OnceLock::new(), AtomicU64::new(0));
        Self { dir, lock, mark: None, proof: None, run, written, referred }
    }

    /// Lets another job use the directory: nothing is written to it any more.
    pub(crate) fn release(&self) {
        if let Some(lock) = &self.lock {
            let _ = lock.unlock();
        }
    }

    /// As [`Mark::superseded`].
    pub(crate) fn superseded(&self) -> Option<Error> {
        self.mark.as_ref()?.superseded(&self.dir)
    }

    /// What the other hosts must [see](Self::check_proof) in the directory; of the first of several hosts.
    pub(crate) fn proof(&self) -> Option<String> {
        Some(self.proof.as_ref()?.path().file_name()?.to_str()?.to_owned())
    }

    /// Checks that this is the directory of the first host.
    ///
    /// # Errors
    ///
    /// If it is not.
    pub(crate) fn check_proof(&self, proof: &str) -> Result<()> {
        let seen = fs::exists(self.dir.join(proof));
        if seen.map_err(|cause| {
            Error::io(&self.dir, "look into the directory of checkpoints", cause)
        })? {
            let _ = self.run.set(proof.trim_start_matches(TEMPORARY).to_owned());
            return Ok(());
        }
        let what =
            "the directory of checkpoints is not that of the first host: all hosts must share it";
        Err(Error::new(ErrorKind::Config, what).at(Place::File(self.dir.clone())))
    }

    /// The numbers of the checkpoints in a directory, in order.
    pub(super) fn numbers(dir: &Path) -> Result<Vec<u64>> {
        let names = names(dir).map_err(|cause| Error::io(dir, "list the checkpoints", cause))?;
        let number = |name: &String| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok();
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// The file of a checkpoint.
    pub(super) fn path_of(dir: &Path, number: u64) -> PathBuf {
        dir.join(format!("{PREFIX}{number:010}{SUFFIX}"))
    }

    fn path(&self, number: u64) -> PathBuf {
        Self::path_of(&self.dir, number)
    }

    /// The length of a file, and when it was written; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub(super) fn look_at(path: &Path) -> Result<Option<(u64, Option<SystemTime>)>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some((found.len(), found.modified().ok()))),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(Error::io(path, "look at the checkpoint", cause)),
        }
    }

    /// Whether there is certainly no checkpoint with this number.
    pub(crate) fn lacks(&self, number: u64) -> bool {
        matches!(Self::look_at(&self.path(number)), Ok(None))
    }

    /// How long ago a checkpoint was written, if that is known; `None` if there is none with this number.
    pub(crate) fn age(&self, number: u64) -> Option<Option<Duration>> {
        let (_, written) = Self::look_at(&self.path(number)).ok()??;
        Some(written.and_then(|at| at.elapsed().ok()))
    }

    /// Whether there are files in a directory to which checkpoints may refer.
    pub(super) fn has_others(dir: &Path) -> Result<bool> {
        let names = names(dir).map_err(|cause| Error::io(dir, "list the checkpoints", cause))?;
        Ok(names.iter().any(|name| is_part(name) || is_spilled(name)))
    }

    /// The bytes of a checkpoint's parts, and of the files of spilled records to which it refers.
    pub(super) fn bytes_of_others(path: &Path) -> u64 {
        match Self::read_whole(path) {
            Ok((snapshot, parts)) => {
                Self::bytes_of(path.parent().unwrap_or(Path::new(".")), &snapshot, &parts)
            }
            Err(_) => 0,
        }
    }

    /// Removes a checkpoint.
    pub(super) fn remove(&self, number: u64) -> Result<()> {
        let path = self.path(number);
        fs::remove_file(&path).map_err(|cause| Error::io(&path, "remove the checkpoint", cause))?;
        let mut referred = lock(&self.referred);
        let Some(Referred { parts, spilled }) = referred.remove(&number) else { return Ok(()) };
        let is_needed = |name: &String| referred.values().any(|other| other.spilled.contains(name));
        for name in spilled.iter().filter(|name| !is_needed(name)) {
            // One that cannot be removed does no harm.
            let _ = fs::remove_file(self.dir.join(name));
        }
        drop(referred);
        self.remove_parts(parts);
        Ok(())
    }

    /// Removes parts that no checkpoint has. One that cannot be removed does no harm.
    pub(crate) fn remove_parts(&self, parts: Vec<Part>) {
        for part in parts {
            let _ = fs::remove_file(self.dir.join(part.name));
        }
    }

    /// The newest checkpoint that can be read; `None` if there are no checkpoints. On the first host, newer ones are set
    /// aside: what the job does from now on is not what they say.
    ///
    /// # Errors
    ///
    /// If there are some and none is complete, the error of the newest; and if the system refuses to read one.
    pub(crate) fn newest(&self) -> Result<Option<Stored>> {
        let mut skipped = Vec::new();
        let mut unreadable = Vec::new();
        for number in Self::numbers(&self.dir)?.into_iter().rev() {
            match self.read(number) {
                Ok((snapshot, parts)) => {
                    for number in unreadable.into_iter().filter(|_| self.lock.is_some()) {
                        self.set_aside(number)?;
                    }
                    let path = self.path(number);
                    let (own, _) = Self::look_at(&path)?.unwrap_or_default();
                    let bytes = own + Self::bytes_of(&self.dir, &snapshot, &parts);
                    let age = self.age(number).flatten();
                    return Ok(Some(Stored { number, snapshot, bytes, age, skipped }));
                }
                // It may be sound, or is one of another version.
                Err(error) if error.kind() == ErrorKind::Plan => {
                    let what = format!("{}: {}", error.message(), advice(&self.dir));
                    let place = Place::File(self.path(number));
                    return Err(Error::new(ErrorKind::Plan, what).at(place));
                }
                // The first host sets it aside, or a job that dies has removed it.
                Err(_) if Self::look_at(&self.path(number))?.is_none() => {}
                Err(error) if error.kind() != ErrorKind::Input => return Err(error),
                Err(error) => {
                    unreadable.push(number);
                    skipped.push(error);
                }
            }
        }
        match skipped.into_iter().next() {
            Some(error) => {
                let dir = self.dir.display();
                let what = format!(
                    "{}, and no older one can be read: begin anew with `thalweg checkpoint rm --all {dir}`",
                    error.message()
                );
                // The newest is the first that was skipped.
                let newest = unreadable.first().map(|number| Place::File(self.path(*number)));
                let error = Error::new(ErrorKind::Input, what);
                Err(newest.into_iter().fold(error, Error::at))
            }
            None => Ok(None),
        }
    }

    fn set_aside(&self, number: u64) -> Result<()> {
        let path = self.path(number);
        let mut aside = path.clone().into_os_string();
        aside.push(UNREADABLE);
        // What it refers to is removed when the job ends or begins again.
        lock(&self.referred).remove(&number);
        fs::rename(&path, aside)
            .map_err(|cause| Error::io(&path, "set the checkpoint aside", cause))
    }

    fn read(&self, number: u64) -> Result<(Snapshot, Vec<Part>)> {
        Self::read_whole(&self.path(number))
    }

    /// The bytes of the parts of a checkpoint, and of what it refers to.
    fn bytes_of(dir: &Path, snapshot: &Snapshot, parts: &[Part]) -> u64 {
        let bytes = |part: &Part| Some(Self::look_at(&dir.join(&part.name)).ok()??.0);
        let spilled: BTreeMap<_, _> =
            snapshot.all_files().map(|file| (&file.name, file.bytes)).collect();
        parts.iter().filter_map(bytes).sum::<u64>() + spilled.into_values().sum::<u64>()
    }

    /// Reads a checkpoint with its parts.
    ///
    /// # Errors
    ///
    /// Of kind `Input` if it is torn or was altered, or a part of it is; of kind `Plan` if it is of another version.
    pub(super) fn read_file(path: &Path) -> Result<Snapshot> {
        Self::read_whole(path).map(|(snapshot, _)| snapshot)
    }

    /// As [`read_file`](Self::read_file), with the list of the parts.
    fn read_whole(path: &Path) -> Result<(Snapshot, Vec<Part>)> {
        let (mut snapshot, parts, _) = read_part(path)?;
        for Part { name, digest, .. } in &parts {
            let path = path.with_file_name(name);
            let bad =
                |what: &str| Err(Error::new(ErrorKind::Input, what).at(Place::File(path.clone())));
            if Self::look_at(&path)?.is_none() {
                return bad("a part of the checkpoint is not there");
            }
            let (part, _, own) = read_part(&path)?;
            if own != *digest {
                return bad("this is another part than the one that the checkpoint has");
            }
            snapshot.append(part);
        }
        for FileEntry { name, bytes, .. } in snapshot.all_files() {
            let path = path.with_file_name(name);
            let what = match Self::look_at(&path)? {
                Some((found, _)) if found >= *bytes => continue,
                Some(_) => "is incomplete",
                None => "is not there",
            };
            let what = format!("a file of spilled records of the checkpoint {what}");
            return Err(Error::new(ErrorKind::Input, what).at(Place::File(path)));
        }
        Ok((snapshot, parts))
    }

    /// As [`read_file`](Self::read_file), with the names of the files to which it refers.
    pub(super) fn read_with_names(path: &Path) -> Result<(Snapshot, Vec<String>)> {
        let (snapshot, parts) = Self::read_whole(path)?;
        let names = Referred::by(&snapshot, parts).names().map(str::to_owned).collect();
        Ok((snapshot, names))
    }

    /// Writes a checkpoint, whose parts are written. It counts when this returns, and older ones that are not needed any
    /// more are removed.
    ///
    /// # Errors
    ///
    /// If it cannot be written, there is one with this number already, or another run has begun.
    pub(crate) fn write(&self, number: u64, snapshot: &Snapshot, parts: Vec<Part>) -> Result<()> {
        let path = self.path(number);
        self.write_file(&path, snapshot, &parts)?;
        if let Some(superseded) = self.superseded() {
            // The other run may have begun with an older one.
            let _ = fs::remove_file(path);
            return Err(superseded);
        }
        let referred = Referred::by(snapshot, parts);
        if !referred.is_empty() {
            lock(&self.referred).insert(number, referred);
        }
        // One too many does no harm.
        let _ = self.keep(KEPT);
        Ok(())
    }

    /// Writes a part of a checkpoint.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn write_part(&self, host: HostId, snapshot: &Snapshot) -> Result<Part> {
        let Some(run) = self.run.get() else {
            return Err(Error::new(ErrorKind::Internal, "the first host's run is not known"));
        };
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PART}{run}-{}-{number}{SUFFIX}", host.0);
        let digest = self.write_file(&self.dir.join(&name), snapshot, &[])?;
        let spilled: BTreeSet<_> = snapshot.all_files().map(|file| file.name.clone()).collect();
        Ok(Part { name, digest, spilled: spilled.into_iter().collect() })
    }

    /// Writes a file, which is there and on the disk when this returns. Returns the digest of its head.
    fn write_file(&self, path: &Path, snapshot: &Snapshot, parts: &[Part]) -> Result<u64> {
        let failed = |cause| Error::io(path, "write the checkpoint", cause);
        let (head, entries) = snapshot.pieces();
        let entries: Vec<_> = entries.collect();
        let mut content = Vec::new();
        parts.to_vec().encode(&mut content);
        content.extend_from_slice(&head);
        let digest = hash_bytes(&content);
        let length = content.len() + entries.iter().map(|entries| entries.len()).sum::<usize>();
        let mut header = MAGIC.to_vec();
        for number in [VERSION, HASH_VERSION, KEY_GROUPS as u32] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        for number in [length as u64, content.len() as u64, digest] {
            header.extend_from_slice(&number.to_le_bytes());
        }
        let mut file =
            tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.dir).map_err(failed)?;
        let mut pieces = [&*header, &content].into_iter().chain(entries);
        let written = pieces.try_for_each(|piece| file.write_all(piece));
        written.and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        self.superseded().map_or(Ok(()), Err)?;
        file.persist_noclobber(path).map_err(|error| failed(error.error))?;
        // Some file systems do not support this, and do not need it.
        let _ = File::open(&self.dir).and_then(|dir| dir.sync_all());
        Ok(digest)
    }

    /// Removes files of these names to which no checkpoint refers. One that cannot be removed does no harm.
    pub(crate) fn remove_unneeded(&self, of: impl Fn(&str) -> bool) {
        let _ = remove_others(&self.dir, of);
    }

    /// Removes all checkpoints: the job has ended.
    ///
    /// # Errors
    ///
    /// If one is left.
    pub(crate) fn clear(&self) -> Result<()> {
        self.keep(0)?;
        for name in names(&self.dir).unwrap_or_default() {
            if name.ends_with(UNREADABLE) || is_part(&name) || is_spilled(&name) {
                let _ = fs::remove_file(self.dir.join(name));
            }
        }
        Ok(())
    }

    /// Removes all checkpoints but the newest.
    fn keep(&self, newest: usize) -> Result<()> {
        let numbers = Self::numbers(&self.dir)?;
        // The oldest first: what is left must be the newest.
        let old = &numbers[..numbers.len().saturating_sub(newest)];
        old.iter().try_for_each(|number| self.remove(*number))
    }
}

/// The names in a directory.
pub(super) fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(dir)? {
        names.extend(entry?.file_name().into_string());
    }
    Ok(names)
}

fn is_part(name: &str) -> bool {
    name.starts_with(PART) && name.ends_with(SUFFIX)
}

impl Referred {
    fn by(snapshot: &Snapshot, parts: Vec<Part>) -> Self {
        let own = snapshot.all_files().map(|file| &file.name);
        let spilled = own.chain(parts.iter().flat_map(|part| &part.spilled)).cloned().collect();
        Self { parts, spilled }
    }

    fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.spilled.is_empty()
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| &*part.name).chain(self.spilled.iter().map(|name| &**name))
    }
}

/// Removes the parts and files of spilled records to which no checkpoint refers, of one that was not completed, if all
/// checkpoints can be read; `of` says of a name whether it may be removed. Returns what each refers to, if any such file is
/// there.
fn remove_others(dir: &Path, of: impl Fn(&str) -> bool) -> Result<BTreeMap<u64, Referred>> {
    let mut found = names(dir).map_err(|cause| Error::io(dir, "list the checkpoints", cause))?;
    found.retain(|name| (is_part(name) || is_spilled(name)) && of(name));
    if found.is_empty() {
        return Ok(BTreeMap::new());
    }
    let (mut referred, mut all_read) = (BTreeMap::new(), true);
    for number in Store::numbers(dir)? {
        match read_part(&Store::path_of(dir, number)) {
            Ok((snapshot, parts, _)) => {
                drop(referred.insert(number, Referred::by(&snapshot, parts)));
            }
            // It may be a sound one of another version, and it is not known what it refers to.
            Err(_) => all_read = false,
        }
    }
    let needed: BTreeSet<&str> = referred.values().flat_map(Referred::names).collect();
    for name in found.iter().filter(|name| all_read && !needed.contains(&***name)) {
        let _ = fs::remove_file(dir.join(name));
    }
    Ok(referred)
}

/// Reads a file: a checkpoint or a part of one. Returns its digest too.
fn read_part(path: &Path) -> Result<(Snapshot, Vec<Part>, u64)> {
    let bytes = fs::read(path).map_err(|cause| Error::io(path, "read the checkpoint", cause))?;
    parse(&bytes).map_err(|error| error.at(Place::File(path.to_owned())))
}

/// Reads the bytes of a file.
fn parse(bytes: &[u8]) -> Result<(Snapshot, Vec<Part>, u64)> {
    let bad = |what: String| Error::new(ErrorKind::Input, what);
    let torn = || bad("the checkpoint is incomplete".to_owned());
    let (header, content) = bytes.split_at_checked(HEADER).ok_or_else(torn)?;
    let (magic, header) = header.split_at(MAGIC.len());
    if magic != MAGIC {
        return Err(bad("this is no checkpoint".to_owned()));
    }
    let mut header = header;
    let mut word = || -> Result<u32> {
        let (word, rest) = header.split_first_chunk::<4>().ok_or_else(torn)?;
        header = rest;
        Ok(u32::from_le_bytes(*word))
    };
    let (version, hash, groups) = (word()?, word()?, word()?);
    for (what, theirs, ours) in [
        ("a checkpoint of format", version, VERSION),
        ("its keys have hashes of version", hash, HASH_VERSION),
        ("the number of its key groups is", groups, KEY_GROUPS as u32),
    ] {
        if theirs != ours {
            let what = format!("{what} {theirs}, and this program has {ours}");
            return Err(Error::new(ErrorKind::Plan, what));
        }
    }
    let mut word = || -> Result<u64> {
        let (word, rest) = header.split_first_chunk::<8>().ok_or_else(torn)?;
        header = rest;
        Ok(u64::from_le_bytes(*word))
    };
    let (length, head, digest) = (word()?, word()?, word()?);
    if length != content.len() as u64 {
        return Err(torn());
    }
    let head = usize::try_from(head).ok().and_then(|head| content.get(..head));
    if head.is_none_or(|head| hash_bytes(head) != digest) {
        return Err(bad("the checkpoint was altered: its digest is another".to_owned()));
    }
    let mut content = content;
    let read = Vec::<Part>::decode(&mut content).and_then(|parts| {
        let parts = parts.into_iter().map(Part::checked).collect::<Result<Vec<_>, _>>()?;
        Ok((Snapshot::decode(content)?, parts))
    });
    let (snapshot, parts) =
        read.map_err(|error| bad(format!("the checkpoint cannot be read: {error}")))?;
    Ok((snapshot, parts, digest))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::checkpoint::snapshot::{Entries, StateId};
    use crate::checkpoint::{CheckpointDir, Shape};
    use crate::data::Schema;

    fn shape() -> Shape {
        Shape { entries: Schema::U64, operator: String::new(), by_key: false }
    }

    fn snapshot(number: u64) -> Snapshot {
        let mut entries = Entries::default();
        entries.add(0, |out| number.encode(out));
        let mut snapshot = Snapshot::default();
        let id = StateId { operator: "count".to_owned(), name: "table".to_owned() };
        snapshot.add(&id, &shape(), entries, Vec::new());
        snapshot
    }

    #[test]
    fn the_newest_checkpoint_that_can_be_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::directory(&dir.path().join("a/b")).unwrap()).unwrap();
        assert!(store.newest().unwrap().is_none());
        for number in 1..5 {
            store.write(number, &snapshot(number), Vec::new()).unwrap();
        }
        assert_eq!(Store::numbers(&store.dir).unwrap(), [3, 4]);
        assert_eq!(store.newest().unwrap().unwrap().snapshot, snapshot(4));
        assert!(store.write(4, &snapshot(7), Vec::new()).is_err(), "no checkpoint is replaced");
        let whole = fs::read(store.path(4)).unwrap();
        for length in 0..whole.len() {
            fs::write(store.path(4), &whole[..length]).unwrap();
            let found = store.newest().unwrap().unwrap();
            assert_eq!((found.number, found.skipped.len()), (3, 1), "{length} bytes");
            assert_eq!(
                Store::numbers(&store.dir).unwrap(),
                [3],
                "what cannot be read now is never read later"
            );
        }
        for at in 0..whole.len() {
            let mut altered = whole.clone();
            altered[at] ^= 1;
            fs::write(store.path(4), &altered).unwrap();
            let found = store.newest();
            if (MAGIC.len()..MAGIC.len() + 3 * size_of::<u32>()).contains(&at) {
                let error = found.err().expect("it may be a sound one of another version");
                assert!(error.to_string().contains("and this program has"), "{error}");
                continue;
            }
            assert_eq!(found.unwrap().unwrap().number, 3, "byte {at} is another");
        }
        fs::write(store.path(3), b"").unwrap();
        let error = store.newest().err().expect("a job must not begin anew without a word");
        assert!(error.to_string().contains("checkpoint-0000000003.state"), "{error}");
        store.clear().unwrap();
        assert!(store.newest().unwrap().is_none());
    }

    #[test]
    fn the_name_of_a_part_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let [sound, others @ ..] =
            ["part-a-1-0.state", "../part-a.state", "/part-a.state", "part-a/..", "other", ""]
                .map(|name| Part { name: name.to_owned(), digest: 7, spilled: Vec::new() });
        assert_eq!(Part::read(&sound.report()).unwrap(), sound);
        for (number, part) in (1..).zip(others) {
            assert!(Part::read(&part.report()).is_err(), "{part:?}");
            store.write(number, &snapshot(number), vec![part.clone()]).unwrap();
            let error = Store::read_file(&store.path(number)).unwrap_err().to_string();
            assert!(error.contains("the name of a part"), "{part:?}: {error}");
        }
    }

    #[test]
    fn a_checkpoint_counts_with_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let parts = || {
            let is_part = |name: &String| is_part(name);
            names(dir.path()).unwrap().into_iter().filter(is_part).count()
        };
        let first = Store::open_first(dir.path()).unwrap();
        let other = Store::join(dir.path());
        assert!(other.write_part(HostId(1), &snapshot(9)).is_err(), "of no run");
        other.check_proof(&first.proof().unwrap()).unwrap();
        assert!(other.check_proof("not there").is_err());
        for number in 1..4 {
            let part = other.write_part(HostId(1), &snapshot(10 * number)).unwrap();
            first.write(number, &snapshot(number), vec![part]).unwrap();
        }
        assert_eq!(parts(), 2, "those of an older checkpoint are removed with it");
        let mut both = snapshot(3);
        both.append(snapshot(30));
        assert_eq!(other.newest().unwrap().unwrap().snapshot, both);
        let parts_of = |number| read_part(&first.path(number)).unwrap().1;
        let part = parts_of(3).remove(0);
        fs::copy(dir.path().join(&parts_of(2)[0].name), dir.path().join(&part.name)).unwrap();
        let found = other.newest().unwrap().unwrap();
        assert_eq!(found.number, 2, "its part is another");
        assert!(first.path(3).exists(), "only the first host sets checkpoints aside");
        fs::remove_file(dir.path().join(&part.name)).unwrap();
        assert_eq!(first.newest().unwrap().unwrap().number, 2, "its part is not there");
        other.write_part(HostId(1), &snapshot(7)).unwrap();
        drop(first);
        assert_eq!(parts(), 2);
        let again = Store::open_first(dir.path()).unwrap();
        assert_eq!(parts(), 1, "no checkpoint has the other");
        assert!(Store::bytes_of_others(&again.path(2)) > 0);
        let told = again.proof().unwrap();
        let next = Store::join(dir.path());
        next.check_proof(&told).unwrap();
        let part = next.write_part(HostId(1), &snapshot(40)).unwrap();
        again.write(4, &snapshot(4), vec![part]).unwrap();
        drop(again);
        let mut bytes = fs::read(Store::path_of(dir.path(), 4)).unwrap();
        let whole = bytes.clone();
        bytes[MAGIC.len()] += 1;
        fs::write(Store::path_of(dir.path(), 4), &bytes).unwrap();
        let again = Store::open_first(dir.path()).unwrap();
        assert!(again.newest().is_err(), "of another version");
        fs::write(again.path(4), whole).unwrap();
        let newest = again.newest().unwrap().unwrap();
        assert_eq!(newest.number, 4, "the program of that version has its parts still");
        again.clear().unwrap();
        assert_eq!((parts(), again.newest().unwrap().is_none()), (0, true));
    }

    /// As where there are no locks: both are open.
    #[test]
    fn a_run_that_is_superseded_writes_no_checkpoint() {
        let dir = tempfile::tempdir().unwrap();
        let run = || Store {
            mark: Some(Mark::next(dir.path()).unwrap()),
            ..Store::of(dir.path(), None, BTreeMap::new())
        };
        let first = run();
        first.write(1, &snapshot(1), Vec::new()).unwrap();
        let second = run();
        let error = first.write(2, &snapshot(2), Vec::new()).unwrap_err().to_string();
        assert!(error.contains("another run of this job has begun"), "{error}");
        assert_eq!(Store::numbers(dir.path()).unwrap(), [1]);
        second.write(2, &snapshot(3), Vec::new()).unwrap();
        assert_eq!(second.newest().unwrap().unwrap().snapshot, snapshot(3));
    }

    /// As [`snapshot`], with files of spilled records.
    fn referring(number: u64, files: &[(&str, u64)]) -> Snapshot {
        let id = StateId { operator: "sorted".to_owned(), name: "value".to_owned() };
        let files = files.iter().map(|(name, bytes)| FileEntry::of(name, *bytes));
        let mut snapshot = snapshot(number);
        snapshot.add(&id, &shape(), Entries::default(), files.collect());
        snapshot
    }

    #[test]
    fn files_of_spilled_records_are_there_as_long_as_a_checkpoint_refers_to_them() {
        let dir = tempfile::tempdir().unwrap();
        let there = || {
            let mut found = names(dir.path()).unwrap();
            found.retain(|name| is_spilled(name));
            found.sort();
            found
        };
        let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| format!("spilled-{name}.records"));
        for name in [&a, &b, &c, &d] {
            fs::write(dir.path().join(name), [0; 10]).unwrap();
        }
        let store = Store::open_first(dir.path()).unwrap();
        assert!(there().is_empty(), "no checkpoint refers to them");
        for name in [&a, &b, &c, &d] {
            fs::write(dir.path().join(name), [0; 10]).unwrap();
        }
        let other = Store::join(dir.path());
        other.check_proof(&store.proof().unwrap()).unwrap();
        let part = |file: &str| other.write_part(HostId(1), &referring(7, &[(file, 10)])).unwrap();
        store.write(1, &referring(1, &[(&a, 5), (&b, 5)]), vec![part(&c)]).unwrap();
        store.write(2, &referring(2, &[(&b, 7)]), vec![part(&c)]).unwrap();
        assert_eq!(there().len(), 4);
        store.write(3, &referring(3, &[(&b, 10)]), vec![part(&d)]).unwrap();
        assert_eq!(there(), [&*b, &*c, &*d], "the first checkpoint is removed");
        assert_eq!(CheckpointDir::open(dir.path()).unwrap().read(3).unwrap().len(), 2);
        drop(store);
        let store = Store::open_first(dir.path()).unwrap();
        assert_eq!(there(), [&*b, &*c, &*d]);
        fs::write(dir.path().join(&b), [0; 9]).unwrap();
        let found = store.newest().unwrap().unwrap();
        assert_eq!((found.number, found.skipped.len()), (2, 1), "a file of the third is torn");
        assert!(found.skipped[0].to_string().contains("is incomplete"), "{}", found.skipped[0]);
        assert!(found.bytes > 17, "{} bytes", found.bytes);
        fs::remove_file(dir.path().join(&c)).unwrap();
        let error = store.newest().err().expect("a file of the second is not there");
        assert!(error.to_string().contains("is not there"), "{error}");
        store.clear().unwrap();
        assert!(there().is_empty());
    }

    #[test]
    fn the_name_of_a_file_of_spilled_records_leads_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        for (number, name) in (1..).zip(["../spilled-a.records", "spilled-a/../b.records", "other"])
        {
            store.write(number, &referring(number, &[(name, 0)]), Vec::new()).unwrap();
            let error = Store::read_file(&store.path(number)).unwrap_err().to_string();
            assert!(error.contains("the name of a file of spilled records"), "{name}: {error}");
        }
    }

    #[test]
    fn one_job_uses_a_directory() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path()).unwrap();
        let error = Store::open(dir.path()).err().expect("it is in use");
        assert!(error.to_string().contains("another job"), "{error}");
        drop(store);
        assert!(Store::open(dir.path()).is_ok());
    }
}
