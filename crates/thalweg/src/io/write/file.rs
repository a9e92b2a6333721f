//! Files that appear under their names only when they are complete.
//!
//! # Hidden files
//!
//! A file is written as `.NAME.RANDOM.thalweg-part` in its final directory, and renamed at the end. A process that is
//! killed leaves that hidden file. The next sink with the same target removes it. It distinguishes a left-over from
//! the file of a running job by its lock (`flock`): a sink locks its hidden file and keeps it open, and the kernel
//! releases the lock when the process ends, however it ends.
//!
//! Between creating a file and locking it, another sink may remove it as a left-over. So once a sink has the lock, it
//! checks whether its file still exists, and starts again with another name if not. Names are never reused, so a file
//! under this name is the file that was locked.
//!
//! A job with checkpoints that is interrupted leaves its hidden files for its next run. So their names end with a hash of
//! the directory of its checkpoints, and with `.thalweg-kept`: only jobs with the same directory, which begin anew or have no
//! need of them, remove them.
//!
//! On a file system without locks, left-overs stay. Machines that share a directory must see each other's locks, as
//! they do on NFS with its default mount options.
#![expect(clippy::disallowed_methods, reason = "the door by which sinks reach files")]

use crate::data::Data;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::flow::Op;
use crate::sync::{Mutex, lock, try_lock_file};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;
use tempfile::TempPath;

/// A file that is being written, in its final directory and under a hidden name. If it is dropped before it is
/// published, it is removed.
pub(super) struct NewFile {
    /// The path as the program gives it.
    name: PathBuf,
    /// The final path: absolute and without links.
    target: PathBuf,
    hidden: TempPath,
    /// Locked, if the file system has locks. Shared with those that bring it to the disk.
    file: Arc<File>,
    /// The length to which it is cut before anything is written: not before the job runs, since it may be refused.
    cut_to: Option<u64>,
    buffer: Vec<u8>,
}

/// Bytes written at a time.
const BUFFER: usize = 128 << 10;
/// The suffixes of the names of hidden files: of jobs without checkpoints, and with them.
const SUFFIX: &str = ".thalweg-part";
const KEPT_SUFFIX: &str = ".thalweg-kept";
/// The number of random characters in the name of a hidden file: enough that no name occurs twice.
const RANDOM: usize = 12;
/// The most bytes of the target's name that are copied into the name of its hidden file: with the rest, they stay
/// within the 255 bytes of a file name.
const TAKEN_OVER: usize = 200;

impl NewFile {
    /// Creates the file under its hidden name, so that errors of its creation are known before there is anything to
    /// write. Removes left-overs of killed jobs for the same file.
    pub(super) fn create(path: &Path, op: &Op, claims: Claims, owner: Owner) -> Result<Self> {
        let target = resolve(path)?;
        claim(path, &target, op, claims)?;
        let prefix = hidden_prefix(&target);
        let of = prefix.clone();
        let is_left = move |name: &str| owner.is_hidden_file_of(name, &of);
        claims.sweep(op, directory(&target), owner, is_left);
        Self::begin(path, target, &prefix, owner)
    }

    /// Goes on with a file that a job began before it was interrupted: what was written after the checkpoint is cut off.
    ///
    /// # Errors
    ///
    /// If the file is gone, or is shorter than it was.
    pub(super) fn resume(
        saved: &SavedFile,
        op: &Op,
        claims: Claims,
        owner: Owner,
        begin_anew: &str,
    ) -> Result<Self> {
        let SavedFile { name, target, hidden, bytes, .. } = saved;
        if let Ok(found) = fs::metadata(target) {
            check_kind(name, &found)?;
        }
        claim(name, target, op, claims)?;
        let failed = |cause| Error::io(name, "go on with the file", cause);
        let refuse = |what: String| {
            let error = Error::new(ErrorKind::Input, format!("cannot go on with the file: {what}"));
            Err(error.at(Place::File(name.clone())))
        };
        let opened = OpenOptions::new().write(true).open(hidden);
        let (file, hidden) = match opened {
            Ok(file) => {
                let mut hidden = TempPath::try_from_path(hidden).map_err(failed)?;
                // Whatever fails from here on, another run can try again.
                hidden.disable_cleanup(true);
                (Arc::new(file), hidden)
            }
            // It may have got its name before the process ended: what was written until the checkpoint is copied.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => {
                let mut before = match File::open(target) {
                    Ok(file) if saved.is(&file) => file.take(*bytes),
                    _ => {
                        return refuse(format!("`{}` is gone; {begin_anew}", hidden.display()));
                    }
                };
                let prefix = hidden_prefix(target);
                let Self { file, hidden, .. } = Self::begin(name, target.clone(), &prefix, owner)?;
                io::copy(&mut before, &mut &*file).map_err(failed)?;
                (file, hidden)
            }
            Err(cause) => return Err(failed(cause)),
        };
        match try_lock_file(&file) {
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => return refuse("another job writes it".to_owned()),
        }
        let found = file.metadata().map_err(failed)?.len();
        if found < *bytes {
            return refuse(format!(
                "it has {found} bytes, and had {bytes} at the checkpoint; {begin_anew}"
            ));
        }
        (&*file).seek(SeekFrom::Start(*bytes)).map_err(failed)?;
        Ok(Self {
            name: name.clone(),
            target: target.clone(),
            hidden,
            file,
            cut_to: Some(*bytes),
            buffer: Vec::with_capacity(BUFFER),
        })
    }

    /// Checks, without touching it, that a job could go on with a file, as far as that shows.
    ///
    /// # Errors
    ///
    /// If the file is gone, or is shorter than it was.
    pub(super) fn check_saved(saved: &SavedFile) -> Result<()> {
        let SavedFile { name, target, hidden, bytes, .. } = saved;
        let refuse = |what: String| {
            let error = Error::new(ErrorKind::Input, format!("cannot go on with the file: {what}"));
            Err(error.at(Place::File(name.clone())))
        };
        match fs::metadata(hidden) {
            Ok(found) if found.len() < *bytes => {
                refuse(format!("it has {} bytes, and had {bytes} at the checkpoint", found.len()))
            }
            Ok(_) => Ok(()),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => match File::open(target) {
                Ok(file) if saved.is(&file) => Ok(()),
                _ => refuse(format!("`{}` is gone", hidden.display())),
            },
            Err(cause) => Err(Error::io(name, "look at the file", cause)),
        }
    }

    /// Writes what is in the buffer, and returns what another run must know to go on. From now on the file stays when the job
    /// ends otherwise than well.
    pub(super) fn save(&mut self) -> Result<SavedFile> {
        self.flush()?;
        self.hidden.disable_cleanup(true);
        let failed = |cause| Error::io(&self.name, "write the file", cause);
        let metadata = self.file.metadata().map_err(failed)?;
        Ok(SavedFile {
            name: self.name.clone(),
            target: self.target.clone(),
            hidden: self.hidden.to_path_buf(),
            bytes: metadata.len(),
            identity: identity(&metadata),
        })
    }

    /// What brings what was written so far to the disk.
    pub(super) fn sync(&self) -> impl Fn() -> Result<()> + Send + Sync + use<> {
        let (name, file) = (self.name.clone(), Arc::clone(&self.file));
        let dir = directory(&self.target).to_owned();
        move || {
            sync_directory(&dir);
            file.sync_data().map_err(|cause| Error::io(&name, "write the file", cause))
        }
    }

    fn begin(path: &Path, target: PathBuf, prefix: &str, owner: Owner) -> Result<Self> {
        let suffix = owner.suffix();
        let mut names = tempfile::Builder::new();
        names.prefix(prefix).suffix(&suffix).rand_bytes(RANDOM);
        let create = |hidden: &Path| OpenOptions::new().write(true).create_new(true).open(hidden);
        loop {
            let made = names.make_in(directory(&target), create);
            let made = made.map_err(|cause| Error::io(path, "create the file", cause))?;
            let (file, hidden) = made.into_parts();
            if keep(&file, &hidden).map_err(|cause| Error::io(path, "lock the file", cause))? {
                let (name, buffer) = (path.to_owned(), Vec::with_capacity(BUFFER));
                let file = Arc::new(file);
                return Ok(Self { name, target, hidden, file, cut_to: None, buffer });
            }
        }
    }

    /// Appends bytes to the file.
    #[inline]
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    #[cold]
    fn flush(&mut self) -> Result<()> {
        let cut = self.cut_to.take().map_or(Ok(()), |bytes| self.file.set_len(bytes));
        let written = cut.and_then(|()| (&*self.file).write_all(&self.buffer));
        self.buffer.clear();
        written.map_err(|cause| Error::io(&self.name, "write the file", cause))
    }

    /// Flushes the complete file, and syncs it to the disk.
    pub(super) fn complete(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_all().map_err(|cause| Error::io(&self.name, "write the file", cause))
    }

    /// The path as the program gives it.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Checks for errors that would keep the file from being renamed, as far as they are visible beforehand.
    pub(super) fn check(&self) -> Result<()> {
        fs::metadata(&self.hidden)
            .map_err(|cause| Error::io(&self.name, "find the finished file", cause))?;
        if self.target.is_dir() {
            let what = "cannot give the finished file its name: a directory has it";
            return Err(Error::new(ErrorKind::Io, what).at(Place::File(self.name.clone())));
        }
        Ok(())
    }

    /// Renames the file to its final name, replacing an existing file.
    pub(super) fn publish(self) -> Result<()> {
        let Self { name, target, hidden, .. } = self;
        hidden
            .persist(&target)
            .map_err(|failed| Error::io(&name, "give the finished file its name", failed.error))?;
        sync_directory(directory(&target));
        Ok(())
    }
}

/// A file at a checkpoint.
#[derive(Clone, Debug, Data)]
pub(super) struct SavedFile {
    /// The path as the program gives it.
    name: PathBuf,
    target: PathBuf,
    hidden: PathBuf,
    bytes: u64,
    /// What the file keeps under any name.
    identity: Identity,
}

/// The number of a file in its file system, which another file may have later, and the nanosecond in which it was made, if
/// that is known.
type Identity = (u64, Option<u64>);

impl SavedFile {
    /// Whether this is the file, perhaps under another name.
    fn is(&self, file: &File) -> bool {
        let same =
            |found: &fs::Metadata| identity(found) == self.identity && found.len() >= self.bytes;
        file.metadata().is_ok_and(|found| same(&found))
    }

    /// Whether its hidden name is this one.
    pub(super) fn is_hidden_as(&self, name: &str) -> bool {
        self.hidden.file_name().is_some_and(|hidden| hidden == name)
    }
}

fn identity(metadata: &fs::Metadata) -> Identity {
    #[cfg(unix)]
    let number = std::os::unix::fs::MetadataExt::ino(metadata);
    // Elsewhere a file cannot be recognised under another name.
    #[cfg(not(unix))]
    let number = u64::MAX;
    let made = metadata.created().ok().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
    (number, made.and_then(|since| u64::try_from(since.as_nanos()).ok()))
}

/// The absolute path without links of the final file, or the reason why no file can have it.
fn resolve(path: &Path) -> Result<PathBuf> {
    let refuse = |kind, what: &str| Err(Error::new(kind, what).at(Place::File(path.to_owned())));
    let failed = |cause| Error::io(path, "create the file", cause);
    let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    if matches!(&*ending, "gz" | "zst" | "zstd") {
        return refuse(
            ErrorKind::Plan,
            "files are written uncompressed, and this name says otherwise",
        );
    }
    match fs::metadata(path) {
        Ok(found) => {
            check_kind(path, &found)?;
            return fs::canonicalize(path).map_err(failed);
        }
        Err(_) if path.is_symlink() => {
            return refuse(
                ErrorKind::Io,
                "cannot write the file: the link of this name leads nowhere",
            );
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) if cause.kind() == io::ErrorKind::NotADirectory => {}
        Err(cause) => return Err(failed(cause)),
    }
    let ends_in_separator = path.to_string_lossy().ends_with(std::path::is_separator);
    let (Some(name), false) = (path.file_name(), ends_in_separator) else {
        return refuse(ErrorKind::Plan, "this path names no file");
    };
    let parent = directory(path);
    if !parent.is_dir() {
        let what = format!("cannot write the file: {} is no directory", parent.display());
        return refuse(ErrorKind::Io, &what);
    }
    Ok(fs::canonicalize(parent).map_err(failed)?.join(name))
}

/// Refuses what cannot be replaced by a file.
fn check_kind(path: &Path, found: &fs::Metadata) -> Result<()> {
    let what = match found {
        found if found.is_dir() => "a directory has this name",
        // Renaming a file to the name of a device would remove the device.
        found if !found.is_file() => "not a regular file",
        _ => return Ok(()),
    };
    let error = Error::new(ErrorKind::Io, format!("cannot write the file: {what}"));
    Err(error.at(Place::File(path.to_owned())))
}

/// Whether this host checks that no two sinks of a job write the same file, and removes left-overs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Claims {
    /// It is the first, which knows of all files, and checks them.
    Checked,
    /// It is another, and relies on the first.
    Trusted,
}

impl Claims {
    /// As [`sweep`], by the first host, as another one may have begun without the checkpoint that needs the files; and when it is
    /// known that the checkpoint is of this program.
    fn sweep(
        self,
        op: &Op,
        dir: &Path,
        owner: Owner,
        is_meant: impl Fn(&str) -> bool + Send + 'static,
    ) {
        if self == Self::Checked {
            let dir = dir.to_owned();
            op.signals().when_made(move || sweep(&dir, owner, is_meant));
        }
    }
}

/// Refuses the target of another sink of the job: each would replace the other's output.
fn claim(path: &Path, target: &Path, op: &Op, claims: Claims) -> Result<()> {
    if claims == Claims::Trusted {
        return Ok(());
    }
    match op.signals().claim(target, op.name()) {
        None => Ok(()),
        Some(twin) => {
            let what = format!("writes to `{}`, and so does {twin}", path.display());
            Err(Error::new(ErrorKind::Plan, what))
        }
    }
}

/// The prefix of the names of the hidden files of a target.
fn hidden_prefix(target: &Path) -> String {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    format!(".{}.", &name[..name.floor_char_boundary(TAKEN_OVER)])
}

/// Locks a new hidden file and returns whether it still exists.
fn keep(file: &File, hidden: &Path) -> io::Result<bool> {
    match try_lock_file(file) {
        Ok(()) => hidden.try_exists(),
        // A sink that removes left-overs holds the lock until the file is removed.
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(_)) => Ok(true),
    }
}

/// Removes hidden files whose name `is_meant` accepts, unless a process holds their lock. Failures are ignored: they
/// do not concern the job.
pub(super) fn sweep(dir: &Path, owner: Owner, is_meant: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_str().is_some_and(|name| owner.is_hidden(name) && is_meant(name)) {
            continue;
        }
        // Opening a pipe might block for ever.
        if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        // For writing, since NFS grants no lock otherwise.
        let path = entry.path();
        let Ok(file) = OpenOptions::new().write(true).open(&path) else { continue };
        if try_lock_file(&file).is_ok() {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Removes files whose name `is_meant` accepts. Failures are ignored: they do not concern the job.
pub(super) fn remove_files(dir: &Path, is_meant: impl Fn(&str) -> bool) {
    let Ok(entries) = fs::read_dir(dir) else { return };
    let is_meant = |entry: &fs::DirEntry| entry.file_name().to_str().is_some_and(&is_meant);
    for entry in entries.flatten().filter(is_meant) {
        let _ = fs::remove_file(entry.path());
    }
}

/// Whose hidden files a job writes: those of the directory of its checkpoints, by its hash, or of none.
#[derive(Clone, Copy)]
pub(super) struct Owner(pub(super) Option<u64>);

impl Owner {
    /// How the names end of the hidden files that the job makes.
    fn suffix(self) -> String {
        match self {
            Self(None) => SUFFIX.to_owned(),
            Self(Some(dir)) => format!(".{dir:016x}{KEPT_SUFFIX}"),
        }
    }

    /// The name without its suffix, if this is one of those that the job removes: its own, and those of jobs without
    /// checkpoints.
    fn stem(self, name: &str) -> Option<&str> {
        name.strip_suffix(&*self.suffix()).or_else(|| name.strip_suffix(SUFFIX))
    }

    /// Whether this is the name of a hidden file of the target whose hidden files begin so. Names of other targets may too.
    fn is_hidden_file_of(self, name: &str, prefix: &str) -> bool {
        let stem = self.stem(name);
        stem.is_some_and(|stem| stem.starts_with(prefix) && stem.len() == prefix.len() + RANDOM)
    }

    /// Whether this is the name of a hidden file of some target.
    fn is_hidden(self, name: &str) -> bool {
        let random = || self.stem(name)?.strip_prefix('.')?.rsplit_once('.');
        random().is_some_and(|(_, random)| {
            random.len() == RANDOM && random.bytes().all(|byte| byte.is_ascii_alphanumeric())
        })
    }
}

/// Brings the names of a directory to the disk.
pub(super) fn sync_directory(dir: &Path) {
    // Some file systems do not support this, and do not need it.
    let _ = File::open(dir).and_then(|dir| dir.sync_all());
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A directory for the files of a job. If it was created for a job that failed, it is removed.
///
/// Where several hosts write into it, one of them has made it, and the last one that drops its files removes it: the
/// one that has made it marks it for the others by a file in it, which is there until files are published.
pub(super) struct NewDir {
    path: PathBuf,
    state: Mutex<DirState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DirState {
    Untouched,
    Ready { made: bool, shared: bool },
}

/// How the hidden names of the files of a directory begin.
const PART: &str = ".part-";
/// The name of the file that marks a directory as made for the job that writes into it.
const MARK: &str = ".thalweg-made";

impl NewDir {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), state: Mutex::new(DirState::Untouched) }
    }

    /// On the first call, creates the directory, or checks that it is empty except for left-overs of killed jobs,
    /// which it removes. Other hosts write the files with the names `of_others` into it; if it is `shared`, they may do so
    /// for another operator too, which is refused later.
    pub(super) fn prepare(
        &self,
        op: &Op,
        claims: Claims,
        owner: Owner,
        shared: bool,
        of_others: impl Iterator<Item = String>,
    ) -> Result<&Path> {
        let mut state = lock(&self.state);
        if *state != DirState::Untouched {
            return Ok(&self.path);
        }
        let failed = |cause| Error::io(&self.path, "make the directory", cause);
        let made = match fs::create_dir(&self.path) {
            Ok(()) => true,
            Err(_) if self.path.is_dir() => false,
            Err(cause) => return Err(failed(cause)),
        };
        *state = DirState::Ready { made, shared };
        let mark = self.path.join(MARK);
        match (made, shared) {
            (true, true) => drop(File::create(&mark).map_err(failed)?),
            (true, false) => {}
            (false, true) => self.check_empty()?,
            (false, false) => {
                self.check_empty()?;
                // Left over from a job on several hosts.
                let _ = fs::remove_file(&mark);
            }
        }
        let resolved = fs::canonicalize(&self.path).map_err(failed)?;
        claim(&self.path, &resolved, op, claims)?;
        for name in of_others {
            claim(&self.path.join(&name), &resolved.join(&name), op, claims)?;
        }
        // A job on fewer cores has fewer files than the one that was killed.
        claims.sweep(op, &resolved, owner, |_| true);
        Ok(&self.path)
    }

    /// As [`prepare`](Self::prepare), of a directory that a job has begun to write into before it was interrupted: hidden
    /// files that `is_needed` refuses are removed.
    pub(super) fn resume(
        &self,
        op: &Op,
        claims: Claims,
        shared: bool,
        owner: Owner,
        is_needed: impl Fn(&str) -> bool + Send + 'static,
    ) -> Result<&Path> {
        let mut state = lock(&self.state);
        if *state == DirState::Untouched {
            let failed = |cause| Error::io(&self.path, "go on in the directory", cause);
            let resolved = fs::canonicalize(&self.path).map_err(failed)?;
            claim(&self.path, &resolved, op, claims)?;
            // Other sinks may have hidden files here too.
            let is_left = move |name: &str| name.starts_with(PART) && !is_needed(name);
            claims.sweep(op, &resolved, owner, is_left);
            // The mark may be left by as many hosts as there were before.
            *state = DirState::Ready { made: true, shared: shared || resolved.join(MARK).exists() };
        }
        Ok(&self.path)
    }

    /// Fails if there is a file that is not hidden.
    fn check_empty(&self) -> Result<()> {
        let list = |cause| Error::io(&self.path, "list the directory", cause);
        for entry in fs::read_dir(&self.path).map_err(list)? {
            if !entry.map_err(list)?.file_name().as_encoded_bytes().starts_with(b".") {
                let what = "the directory is not empty: what is there and what this job writes \
                            would be taken for one";
                return Err(Error::new(ErrorKind::Io, what).at(Place::File(self.path.clone())));
            }
        }
        Ok(())
    }

    /// A file in it has its final name: the directory stays.
    pub(super) fn published(&self) {
        if matches!(*lock(&self.state), DirState::Ready { shared: true, .. }) {
            // Another task may have done so.
            let _ = fs::remove_file(self.path.join(MARK));
        }
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        let DirState::Ready { made, shared } = *lock(&self.state) else { return };
        let mark = self.path.join(MARK);
        if !shared {
            // Fails if the directory is not empty, as after a job that has succeeded.
            let _ = made.then(|| fs::remove_dir(&self.path));
            return;
        }
        let is_mark =
            |entry: io::Result<fs::DirEntry>| entry.is_ok_and(|entry| entry.file_name() == MARK);
        while (made || mark.exists())
            && fs::read_dir(&self.path).is_ok_and(|mut entries| entries.all(is_mark))
        {
            let _ = fs::remove_file(&mark);
            match fs::remove_dir(&self.path) {
                // A host that has only now begun has created its file: it is to find the mark at its end.
                Err(cause) if cause.kind() == io::ErrorKind::DirectoryNotEmpty => {
                    let _ = File::create(&mark);
                }
                _ => return,
            }
        }
    }
}
