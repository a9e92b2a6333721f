//! Checkpoints in a [`Folder`]: each one file, which appears under its name only when it is complete and on the disk.
//!
//! What is in a file is said in [`format`]. A file's number is in its name, and no file is ever replaced.
//!
//! Of a job on several hosts, each other host than the first writes what its tasks have saved to a file of the same form, a part,
//! and the checkpoint has the list of the parts. So it counts once the first host has written it, and all parts are there.
//!
//! What operators have on disk is in files of its own beside them ([`files`](super::files)), to which checkpoints and parts refer.
//! A checkpoint counts as long as they are there, and at least as long as it says. One to which no checkpoint refers any more is
//! removed with the last that did: what a job still needs is in each of its checkpoints.
//!
//! One job at a time uses a directory: it holds the lock (`flock`) of a file in it, which the kernel releases however the
//! process ends. Where there are no locks, as in an object store, a run is ended by the next one ([`Mark`]).
#![expect(
    clippy::disallowed_methods,
    reason = "the age of a checkpoint is by the clock that has written it"
)]

mod format;
mod shared;

pub(crate) use format::sealed;
pub(crate) use shared::RestorePoint;

use super::files::{FileEntry, is_spilled};
use super::folder::{Folder, Found};
use super::mark::{Counted, Mark, counted, forget};
use super::packed::Packed;
use super::snapshot::Spare;
use super::{Snapshot, advice};
use crate::data::{Data, DecodeError, decode_whole};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::net::HostId;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use format::{header, parse};
use shared::Proof;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How names begin and end; a number of ten digits, or more, is between.
const PREFIX: &str = "checkpoint-";
const SUFFIX: &str = ".state";
/// How the names of the files begin that are parts; their names end as those of checkpoints.
const PART: &str = "part-";
/// What the name of a file ends with that could not be read.
const UNREADABLE: &str = ".unreadable";
/// How many checkpoints are kept: one more than is needed, in case the newest cannot be read.
const KEPT: usize = 2;

/// The checkpoints of one job.
pub(crate) struct Store {
    folder: Arc<dyn Folder>,
    /// Locked, if it is a directory and the file system has locks; not by other hosts than the first.
    lock: Option<File>,
    /// Of a run that writes checkpoints.
    mark: Option<Mark>,
    /// What the first of several hosts sends the name of to the others, which look for it.
    proof: Option<Proof>,
    /// On other hosts, what makes the names of their parts unlike those of other runs of the job, once it is known.
    run: OnceLock<String>,
    /// The number of parts that this host has written.
    written: AtomicU64,
    /// What each checkpoint refers to, if it refers to anything.
    referred: Mutex<BTreeMap<u64, Referred>>,
    /// Whether that is not known of some checkpoints, so that files are left which they may share with others.
    lacks_referred: AtomicBool,
    /// Which checkpoints count, of a run without a lock that has begun.
    counted: OnceLock<Counted>,
    /// Where the entries of the next file are packed.
    spare: Spare,
}

/// The newest checkpoint that can be read, if there are any.
struct Newest {
    stored: Option<Stored>,
    /// It and older ones that count.
    begun: Vec<u64>,
    /// Those that are newer.
    unreadable: Vec<u64>,
}

/// What runs that were interrupted have left.
struct Left {
    /// Checkpoints that do not count.
    late: Vec<String>,
    /// Parts and files of spilled records to which no checkpoint refers.
    unneeded: Vec<String>,
    /// As [`Folder::leftovers`].
    unnamed: Vec<String>,
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
    /// The digest of its head, in which are those of all that it has, its parts included.
    digest: u64,
    pub(crate) snapshot: Snapshot,
    /// The length of its file, and that of all that belongs to it.
    pub(crate) own: u64,
    pub(crate) bytes: u64,
    /// How long ago it was written, if that is known.
    pub(crate) age: Option<Duration>,
    /// Why newer ones could not be read.
    pub(crate) skipped: Vec<Error>,
}

impl Part {
    /// The names of the files of spilled records to which it refers.
    pub(crate) fn copies(&self) -> &[String] {
        &self.spilled
    }

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
    /// The checkpoints in a folder, for a tool that changes what is there.
    ///
    /// An object store has no lock that shows whether a job uses it. So this is a run of its own there, by which a job that uses
    /// it is superseded.
    ///
    /// # Errors
    ///
    /// If another job uses it.
    pub(crate) fn open(folder: &Arc<dyn Folder>) -> Result<Self> {
        Self::open_as(folder, false)
    }

    /// As [`open`](Self::open), by a run of a job, which supersedes those before it, and then [begins](Self::begin).
    pub(crate) fn open_run(folder: &Arc<dyn Folder>) -> Result<Self> {
        Self::open_as(folder, true)
    }

    fn open_as(folder: &Arc<dyn Folder>, is_run: bool) -> Result<Self> {
        let lock = folder.lock()?;
        // Before anything is removed that another run may have written.
        let mark = match is_run || lock.is_none() {
            true => Some(Mark::next(&**folder)?),
            false => None,
        };
        if let (Some(mark), None) = (&mark, &lock) {
            mark.check_creation(&**folder)?;
        }
        Ok(Self { mark, ..Self::of(folder, lock) })
    }

    /// Begins a run of a job: returns the newest checkpoint that can be read, if there are any, with which it goes on. Newer ones
    /// are set aside, since what the job does from now on is not what they say; and what interrupted runs have left is removed.
    ///
    /// Of several hosts, the first one's does. The others [go on from that one](Self::restore).
    ///
    /// # Errors
    ///
    /// As [`newest`](Self::newest); if another run has begun since, or may have.
    pub(crate) fn begin(&self) -> Result<Option<Stored>> {
        let Newest { stored, begun, unreadable } = self.find()?;
        self.settle(begun)?;
        unreadable.into_iter().try_for_each(|number| self.set_aside(number))?;
        self.tidy()?;
        Ok(stored)
    }

    /// Begins with no checkpoint, to write one.
    ///
    /// # Errors
    ///
    /// As [`begin`](Self::begin).
    pub(super) fn begin_anew(&self) -> Result<()> {
        self.settle(Vec::new())?;
        self.tidy()
    }

    /// Removes a checkpoint.
    ///
    /// # Errors
    ///
    /// If it cannot be removed; if another run has begun, or may have.
    pub(super) fn remove_one(&self, number: u64) -> Result<()> {
        let left = self.left()?;
        let mut rest = Self::numbers(&*self.folder)?;
        rest.retain(|other| *other != number);
        self.settle(rest)?;
        self.remove(number)?;
        self.remove_left(&left);
        Ok(())
    }

    /// Removes all checkpoints, and whatever is left of others; returns their number.
    ///
    /// # Errors
    ///
    /// As [`remove_one`](Self::remove_one).
    pub(super) fn remove_all(&self) -> Result<usize> {
        self.settle(Vec::new())?;
        let numbers = Self::all_numbers(&names(&*self.folder)?);
        self.may_publish()?;
        numbers.iter().try_for_each(|number| self.remove(*number))?;
        self.tidy()?;
        Ok(numbers.len())
    }

    /// Whoever comes next goes on from the last of these checkpoints, from one that this writes, or from none.
    fn settle(&self, begun: Vec<u64>) -> Result<()> {
        if let (Some(mark), None) = (&self.mark, &self.lock) {
            let _ = self.counted.set(mark.begin(&*self.folder, begun)?);
        }
        // A run that has begun since may not have seen it.
        self.may_publish()
    }

    fn tidy(&self) -> Result<()> {
        let left = self.left()?;
        // What was listed before is of no later run.
        self.may_publish()?;
        self.remove_left(&left);
        if self.lock.is_none() {
            return Ok(());
        }
        // A directory may be a copy of what was in an object store.
        left.late.iter().try_for_each(|name| match self.folder.look_at(name) {
            Ok(None) => Ok(()),
            left => {
                let cause = left.err().unwrap_or_else(|| io::ErrorKind::PermissionDenied.into());
                Err(Error::io(
                    &self.dir().join(name),
                    "remove a checkpoint that does not count",
                    cause,
                ))
            }
        })?;
        forget(&*self.folder)
    }

    /// What interrupted runs have left. Notes what checkpoints refer to.
    fn left(&self) -> Result<Left> {
        let failed = |cause| Error::io(self.dir(), "use the directory of checkpoints", cause);
        let (referred, unneeded) = self.others(|_| true)?;
        *lock(&self.referred) = referred;
        let (names, counted) = counted(&*self.folder)?;
        let late = Self::all_numbers(&names).into_iter().filter(|number| !counted.has(*number));
        let mut unnamed = self.folder.leftovers().map_err(failed)?;
        unnamed.retain(|name| self.proof.as_ref().is_none_or(|proof| proof.name != *name));
        Ok(Left { late: late.map(Self::name_of).collect(), unneeded, unnamed })
    }

    /// Those that are late go first: nothing is missing that a name refers to. One too many does no harm.
    fn remove_left(&self, left: &Left) {
        let names = left.late.iter().chain(&left.unneeded);
        self.folder.remove_all(&mut names.map(String::as_str));
        let _ = self.folder.tidy(&left.unnamed);
    }

    /// The number after which the checkpoints of this run are numbered, which begins with this one, or with 0.
    pub(crate) fn number_after(&self, begun: u64) -> u64 {
        match (&self.lock, &self.mark) {
            (None, Some(mark)) => begun.max(mark.first()),
            _ => begun,
        }
    }

    /// The first number of this run's checkpoints, if runs have numbers of their own.
    pub(super) fn first_number(&self) -> Option<u64> {
        let mark = self.mark.as_ref().filter(|_| self.lock.is_none());
        mark.map(|mark| mark.first() + 1)
    }

    /// The directory, or the address of the object store.
    pub(crate) fn dir(&self) -> &Path {
        self.folder.path()
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Arc<dyn Folder> {
        &self.folder
    }

    fn of(folder: &Arc<dyn Folder>, lock: Option<File>) -> Self {
        let (folder, referred) = (Arc::clone(folder), Mutex::default());
        let (run, written, counted) = (OnceLock::new(), AtomicU64::new(0), OnceLock::new());
        let (mark, proof, lacks_referred) = (None, None, AtomicBool::new(false));
        let spare = Spare::default();
        Self { folder, lock, mark, proof, run, written, referred, lacks_referred, counted, spare }
    }

    /// Lets another job use the directory: nothing is written to it any more.
    pub(crate) fn release(&self) {
        if let Some(lock) = &self.lock {
            let _ = lock.unlock();
        }
    }

    /// As [`Mark::superseded`].
    pub(crate) fn superseded(&self) -> Option<Error> {
        self.mark.as_ref()?.superseded(&*self.folder)
    }

    /// Whether this run may publish its outputs, and write and remove checkpoints: no other one has begun. Where a lock shows
    /// that, what is not known is no reason against it.
    ///
    /// # Errors
    ///
    /// If it may not; of kind `Config` if another one has begun.
    pub(crate) fn may_publish(&self) -> Result<()> {
        let Some(mark) = &self.mark else { return Ok(()) };
        match mark.look(&*self.folder) {
            Ok(superseded) => superseded.map_or(Ok(()), Err),
            Err(_) if self.lock.is_some() => Ok(()),
            Err(cause) => {
                let what = "find out whether another run of the job has begun, and until it can, nothing is published";
                Err(Error::io(self.dir(), what, cause))
            }
        }
    }

    /// The numbers of the checkpoints in a folder that count, in order.
    pub(super) fn numbers(folder: &dyn Folder) -> Result<Vec<u64>> {
        let (names, counted) = counted(folder)?;
        let numbers = Self::all_numbers(&names).into_iter();
        Ok(numbers.filter(|number| counted.has(*number)).collect())
    }

    /// The numbers of all checkpoints among these names, in order.
    pub(super) fn all_numbers(names: &[String]) -> Vec<u64> {
        let number = |name: &String| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse().ok();
        let mut numbers: Vec<u64> = names.iter().filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// The name of a checkpoint.
    pub(super) fn name_of(number: u64) -> String {
        format!("{PREFIX}{number:010}{SUFFIX}")
    }

    /// Where a checkpoint is, for messages.
    fn path(&self, number: u64) -> PathBuf {
        self.dir().join(Self::name_of(number))
    }

    /// The length of a file, and when it was written; `None` if it is not there.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub(super) fn look_at(folder: &dyn Folder, name: &str) -> Result<Option<Found>> {
        let failed = |cause| Error::io(&folder.path().join(name), "look at the checkpoint", cause);
        folder.look_at(name).map_err(failed)
    }

    /// Whether there is certainly no checkpoint with this number, and will be none: a request to a store may act later.
    pub(crate) fn lacks(&self, number: u64) -> bool {
        self.lock.is_some()
            && matches!(Self::look_at(&*self.folder, &Self::name_of(number)), Ok(None))
    }

    /// How long ago a checkpoint was written, if that is known; `None` if there is certainly none with this number.
    pub(crate) fn age(&self, number: u64) -> Option<Option<Duration>> {
        let found = Self::look_at(&*self.folder, &Self::name_of(number));
        let written = found.map_or(Some(None), |found| found.map(|(_, written)| written))?;
        Some(written.and_then(|at| at.elapsed().ok()))
    }

    /// Whether there are files in a folder to which checkpoints may refer.
    pub(super) fn has_others(folder: &dyn Folder) -> Result<bool> {
        Ok(names(folder)?.iter().any(|name| is_part(name) || is_spilled(name)))
    }

    /// Whether there are checkpoints in a folder, or files of some.
    pub(super) fn has_any(folder: &dyn Folder) -> Result<bool> {
        Ok(names(folder)?
            .iter()
            .any(|name| name.starts_with(PREFIX) || is_part(name) || is_spilled(name)))
    }

    /// The bytes of a checkpoint's parts, and of the files of spilled records to which it refers.
    pub(super) fn bytes_of_others(folder: &dyn Folder, name: &str) -> u64 {
        match Self::read_whole(folder, name) {
            Ok((snapshot, parts, _)) => Self::bytes_of(folder, &snapshot, &parts),
            Err(_) => 0,
        }
    }

    /// Removes a checkpoint.
    pub(super) fn remove(&self, number: u64) -> Result<()> {
        let removed = self.folder.remove(&Self::name_of(number));
        removed.map_err(|cause| Error::io(&self.path(number), "remove the checkpoint", cause))?;
        self.forget(number);
        Ok(())
    }

    /// There is no checkpoint with this number any more, or none that is needed: removes what only that one refers to.
    fn forget(&self, number: u64) {
        let mut referred = lock(&self.referred);
        let Some(Referred { mut parts, spilled }) = referred.remove(&number) else { return };
        let lacks_some = self.lacks_referred.load(Ordering::Relaxed);
        let is_needed = |name: &String| {
            lacks_some || referred.values().any(|other| other.spilled.contains(name))
        };
        let unneeded: Vec<_> = spilled.iter().filter(|name| !is_needed(name)).collect();
        self.folder.remove_all(&mut unneeded.into_iter().map(String::as_str));
        // The last checkpoint of a job has those of earlier attempts to write it, which may be there.
        parts.retain(|part| !referred.values().any(|other| other.parts.contains(part)));
        drop(referred);
        self.remove_parts(parts);
    }

    /// Whether the checkpoint with this number is there, or may come to be there, and refers to other files.
    pub(crate) fn refers_with(&self, number: u64) -> bool {
        lock(&self.referred).contains_key(&number)
    }

    /// Whether a checkpoint of this run may refer to a file of spilled records.
    pub(crate) fn refers_to(&self, name: &str) -> bool {
        lock(&self.referred).values().any(|other| other.spilled.contains(name))
    }

    /// Removes parts that no checkpoint has. One that cannot be removed does no harm.
    pub(crate) fn remove_parts(&self, parts: Vec<Part>) {
        self.folder.remove_all(&mut parts.iter().map(|part| &*part.name));
    }

    /// The newest checkpoint that counts and can be read; `None` if there are no checkpoints.
    ///
    /// # Errors
    ///
    /// If there are some and none is complete, the error of the newest; and if the system refuses to read one.
    pub(crate) fn newest(&self) -> Result<Option<Stored>> {
        self.find().map(|found| found.stored)
    }

    fn find(&self) -> Result<Newest> {
        let mut skipped = Vec::new();
        let mut unreadable = Vec::new();
        let mut begun = Self::numbers(&*self.folder)?;
        while let Some(number) = begun.last().copied() {
            match self.read(number) {
                Ok((snapshot, parts, digest)) => {
                    let own = Self::look_at(&*self.folder, &Self::name_of(number))?;
                    let (own, _) = own.unwrap_or_default();
                    let bytes = own + Self::bytes_of(&*self.folder, &snapshot, &parts);
                    let age = self.age(number).flatten();
                    let stored =
                        Some(Stored { number, digest, snapshot, own, bytes, age, skipped });
                    return Ok(Newest { stored, begun, unreadable });
                }
                // It may be sound, or is one of another version.
                Err(error) if error.kind() == ErrorKind::Plan => {
                    let what = format!("{}: {}", error.message(), advice(self.dir()));
                    let place = Place::File(self.path(number));
                    return Err(Error::new(ErrorKind::Plan, what).at(place));
                }
                // The first host sets it aside, or a job that dies has removed it.
                Err(_) if Self::look_at(&*self.folder, &Self::name_of(number))?.is_none() => {}
                Err(error) if error.kind() != ErrorKind::Input => return Err(error),
                Err(error) => {
                    unreadable.push(number);
                    skipped.push(error);
                }
            }
            begun.pop();
        }
        match skipped.into_iter().next() {
            Some(error) => {
                let dir = self.dir().display();
                let what = format!(
                    "{}, and no older one can be read: begin anew with `thalweg checkpoint rm --all {dir}`",
                    error.message()
                );
                // The newest is the first that was skipped.
                let newest = unreadable.first().map(|number| Place::File(self.path(*number)));
                let error = Error::new(ErrorKind::Input, what);
                Err(newest.into_iter().fold(error, Error::at))
            }
            None => Ok(Newest { stored: None, begun, unreadable }),
        }
    }

    fn set_aside(&self, number: u64) -> Result<()> {
        let name = Self::name_of(number);
        // What it refers to is removed when the job ends or begins again.
        lock(&self.referred).remove(&number);
        let renamed = self.folder.rename(&name, &format!("{name}{UNREADABLE}"));
        renamed.map_err(|cause| Error::io(&self.path(number), "set the checkpoint aside", cause))
    }

    /// Whether the folder is this host's to write to.
    fn is_first(&self) -> bool {
        self.lock.is_some() || self.mark.is_some()
    }

    fn read(&self, number: u64) -> Result<(Snapshot, Vec<Part>, u64)> {
        Self::read_whole(&*self.folder, &Self::name_of(number))
    }

    /// The bytes of the parts of a checkpoint, and of what it refers to.
    fn bytes_of(folder: &dyn Folder, snapshot: &Snapshot, parts: &[Part]) -> u64 {
        let bytes = |part: &Part| Some(folder.look_at(&part.name).ok()??.0);
        let spilled: BTreeMap<_, _> =
            snapshot.all_files().map(|file| (&file.name, file.bytes)).collect();
        parts.iter().filter_map(bytes).sum::<u64>() + spilled.into_values().sum::<u64>()
    }

    /// Reads a checkpoint with its parts.
    ///
    /// # Errors
    ///
    /// Of kind `Input` if it is torn or was altered, or a part of it is; of kind `Plan` if it is of another version.
    pub(super) fn read_file(folder: &dyn Folder, name: &str) -> Result<Snapshot> {
        Self::read_whole(folder, name).map(|(snapshot, ..)| snapshot)
    }

    /// As [`read_file`](Self::read_file), with the list of the parts, and the digest of the head.
    fn read_whole(folder: &dyn Folder, name: &str) -> Result<(Snapshot, Vec<Part>, u64)> {
        let (mut snapshot, parts, digest) = read_part(folder, name)?;
        let bad = |name: &str, what: String| {
            let place = Place::File(folder.path().join(name));
            Err(Error::new(ErrorKind::Input, what).at(place))
        };
        for Part { name, digest, .. } in &parts {
            if Self::look_at(folder, name)?.is_none() {
                return bad(name, "a part of the checkpoint is not there".to_owned());
            }
            let (part, _, own) = read_part(folder, name)?;
            if own != *digest {
                let what = "this is another part than the one that the checkpoint has";
                return bad(name, what.to_owned());
            }
            snapshot.append(part);
        }
        let names = snapshot.all_files().map(|file| &*file.name).collect();
        let found = folder.look_at_all(&names);
        let found = found.map_err(|cause| {
            let path = folder.path().join(name);
            Error::io(&path, "look at the spilled records of the checkpoint", cause)
        })?;
        for FileEntry { name, bytes, .. } in snapshot.all_files() {
            let what = match found.get(name) {
                Some((found, _)) if found >= bytes => continue,
                Some(_) => "is incomplete",
                None => "is not there",
            };
            return bad(name, format!("a file of spilled records of the checkpoint {what}"));
        }
        Ok((snapshot, parts, digest))
    }

    /// As [`read_file`](Self::read_file), with the names of the files to which it refers.
    pub(super) fn read_with_names(
        folder: &dyn Folder,
        name: &str,
    ) -> Result<(Snapshot, Vec<String>)> {
        let (snapshot, parts, _) = Self::read_whole(folder, name)?;
        let names = Referred::by(&snapshot, parts).names().map(str::to_owned).collect();
        Ok((snapshot, names))
    }

    /// Writes a checkpoint, whose parts are written. It counts when this returns, and older ones that are not needed any
    /// more are removed. Returns the length of its file.
    ///
    /// # Errors
    ///
    /// If it cannot be written, there is one with this number already, or another run has begun or may have.
    pub(crate) fn write(&self, number: u64, snapshot: &Snapshot, parts: Vec<Part>) -> Result<u64> {
        let name = Self::name_of(number);
        let mut bytes = 0;
        let mut written =
            self.write_file(&name, snapshot, &parts).map(|(_, length)| bytes = length);
        if written.is_ok() {
            written = self.may_publish();
            // Its numbers may be lower. Without a lock, it may have begun with this one, or knows that it does not count.
            if is_superseded(&written) && self.lock.is_some() {
                let _ = self.folder.remove(&name);
                return written.map(|()| bytes);
            }
        }
        let referred = Referred::by(snapshot, parts);
        // After an error it may be there all the same, and count.
        if !referred.is_empty() && (written.is_ok() || !self.lacks(number)) {
            lock(&self.referred).insert(number, referred);
        }
        written?;
        // One too many does no harm.
        let _ = self.keep(KEPT, number);
        Ok(bytes)
    }

    /// How the names of the parts begin that this host writes in this run, once the run is known.
    fn own_parts(&self, host: HostId) -> Option<String> {
        self.run.get().map(|run| format!("{PART}{run}-{}-", host.0))
    }

    /// Whether a file is a part that this host has written in this run.
    pub(crate) fn has_written(&self, host: HostId, name: &str) -> bool {
        self.own_parts(host).is_some_and(|begins| name.starts_with(&begins))
    }

    /// Writes a part of a checkpoint.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(crate) fn write_part(&self, host: HostId, snapshot: &Snapshot) -> Result<Part> {
        let Some(begins) = self.own_parts(host) else {
            return Err(Error::new(ErrorKind::Internal, "the first host's run is not known"));
        };
        let number = self.written.fetch_add(1, Ordering::Relaxed);
        let name = format!("{begins}{number}{SUFFIX}");
        let (digest, _) = self.write_file(&name, snapshot, &[])?;
        let spilled: BTreeSet<_> = snapshot.all_files().map(|file| file.name.clone()).collect();
        Ok(Part { name, digest, spilled: spilled.into_iter().collect() })
    }

    /// Writes a file, which is there and on the disk when this returns. Returns the digest of its head.
    fn write_file(&self, name: &str, snapshot: &Snapshot, parts: &[Part]) -> Result<(u64, u64)> {
        let mut packed = Packed::begin(self.spare.take());
        let head = snapshot.pack(&mut packed);
        let mut content = Vec::new();
        parts.to_vec().encode(&mut content);
        content.extend_from_slice(&head);
        let length = content.len() + packed.pieces().map(<[u8]>::len).sum::<usize>();
        let (header, digest) = header(&content, length);
        let pieces: Vec<&[u8]> = [&*header, &content].into_iter().chain(packed.pieces()).collect();
        let mut due = Ok(());
        let created = self.folder.create(name, &pieces, &mut || {
            due = self.may_publish();
            due.is_ok()
        });
        self.spare.give(packed.into_memory());
        due?;
        created
            .map_err(|cause| Error::io(&self.dir().join(name), "write the checkpoint", cause))?;
        Ok((digest, (header.len() + length) as u64))
    }

    /// Removes files of these names to which no checkpoint refers. One that cannot be removed does no harm.
    pub(crate) fn remove_unneeded(&self, of: impl Fn(&str) -> bool) {
        if let Ok((_, unneeded)) = self.others(of) {
            self.folder.remove_all(&mut unneeded.iter().map(String::as_str));
        }
    }

    /// The names of files to which no checkpoint refers.
    #[cfg(test)]
    pub(crate) fn unneeded(&self) -> Vec<String> {
        self.others(|_| true).unwrap().1
    }

    /// Removes all checkpoints: the job has ended. Does nothing if another run has begun.
    ///
    /// # Errors
    ///
    /// If one is left.
    pub(crate) fn clear(&self) -> Result<()> {
        let known = self.may_publish();
        if is_superseded(&known) {
            return Ok(());
        }
        known?;
        if let (None, Some(mark)) = (&self.lock, &self.mark) {
            mark.end(&*self.folder)?;
        }
        self.keep(0, u64::MAX)?;
        let names = self.folder.names().unwrap_or_default();
        let unnamed = self.folder.leftovers().unwrap_or_default();
        // What another run has written since is not in question.
        let known = self.may_publish();
        if is_superseded(&known) {
            return Ok(());
        }
        known?;
        let is_left = |name: &&str| name.ends_with(UNREADABLE) || is_part(name) || is_spilled(name);
        self.folder.remove_all(&mut names.iter().map(String::as_str).filter(is_left));
        // One too many does no harm.
        let _ = self.folder.tidy(&unnamed);
        Ok(())
    }

    /// Removes all checkpoints up to a number but the newest of those that count, unless another run has begun, which needs them.
    fn keep(&self, newest: usize, last: u64) -> Result<()> {
        let counted = self.counted.get().unwrap_or(&Counted::All);
        let mut numbers = Self::all_numbers(&names(&*self.folder)?);
        numbers.retain(|number| *number <= last);
        let count = numbers.iter().rev().filter(|number| counted.has(**number));
        let kept: Vec<_> = count.take(newest).copied().collect();
        // As it seemed, they could not be written. If they appear yet, newer ones count.
        let oldest = kept.last().copied().unwrap_or_default();
        let mut unwritten: Vec<_> =
            lock(&self.referred).range(..oldest).map(|(it, _)| *it).collect();
        unwritten.retain(|number| !numbers.contains(number));
        // The oldest first: what is left must be the newest.
        for number in numbers.into_iter().filter(|number| !kept.contains(number)) {
            let known = self.may_publish();
            if is_superseded(&known) {
                return Ok(());
            }
            known?;
            self.remove(number)?;
        }
        if !unwritten.is_empty() && self.may_publish().is_ok() {
            unwritten.into_iter().for_each(|number| self.forget(number));
        }
        Ok(())
    }

    /// The parts and files of spilled records to which no checkpoint refers, of one that was not completed, if all
    /// checkpoints can be read and no other run has begun; `of` says of a name whether it is in question. Before them, what each
    /// checkpoint refers to, if any such file is there.
    fn others(&self, of: impl Fn(&str) -> bool) -> Result<(BTreeMap<u64, Referred>, Vec<String>)> {
        let folder = &*self.folder;
        let mut found = names(folder)?;
        found.retain(|name| (is_part(name) || is_spilled(name)) && of(name));
        if found.is_empty() {
            return Ok((BTreeMap::new(), Vec::new()));
        }
        // They are of this run then, and of those before it: a later one may be about to refer to its own.
        let mut may_remove = self.may_publish().is_ok();
        let mut referred = BTreeMap::new();
        // Another host than the first does not know what counts.
        let numbers = match self.is_first() {
            true => Self::numbers(folder)?,
            false => Self::all_numbers(&names(folder)?),
        };
        for number in numbers {
            match read_part(folder, &Self::name_of(number)) {
                Ok((snapshot, parts, _)) => {
                    drop(referred.insert(number, Referred::by(&snapshot, parts)));
                }
                // It may be a sound one of another version, and it is not known what it refers to.
                Err(error) => {
                    may_remove = false;
                    // One that is damaged is begun with by nobody.
                    let is_damaged = error.kind() == ErrorKind::Input;
                    self.lacks_referred.fetch_or(!is_damaged, Ordering::Relaxed);
                }
            }
        }
        let needed: BTreeSet<&str> = referred.values().flat_map(Referred::names).collect();
        found.retain(|name| may_remove && !needed.contains(&**name));
        Ok((referred, found))
    }
}

/// Whether this says that another run has begun, and not that this is unknown.
fn is_superseded(may: &Result<()>) -> bool {
    may.as_ref().is_err_and(|error| error.kind() == ErrorKind::Config)
}

/// The names in a folder.
fn names(folder: &dyn Folder) -> Result<Vec<String>> {
    folder.names().map_err(|cause| Error::io(folder.path(), "list the checkpoints", cause))
}

/// Whether a name is one that stores give.
#[cfg(feature = "object-store")]
pub(super) fn is_name(name: &str) -> bool {
    name.starts_with(PREFIX) || name.starts_with(PART)
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

/// Reads a file: a checkpoint or a part of one. Returns its digest too.
fn read_part(folder: &dyn Folder, name: &str) -> Result<(Snapshot, Vec<Part>, u64)> {
    let path = folder.path().join(name);
    let bytes =
        folder.read(name).map_err(|cause| Error::io(&path, "read the checkpoint", cause))?;
    parse(&bytes).map_err(|error| error.at(Place::File(path)))
}

#[cfg(all(test, not(miri)))]
mod stepped;
#[cfg(all(test, not(miri)))]
mod tests;
