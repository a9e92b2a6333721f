//! Checkpoints in a directory: each one file, which appears under its name only when it is complete and on the disk.
//!
//! A file begins with what it is and in which version, and with what its reader must agree with: the version of the hash,
//! and the number of key groups. Then come the length and the digest of the snapshot, a hash that finds what was altered by accident, and the snapshot. Its
//! number is in its name, and no file is ever replaced.
//!
//! One job at a time uses a directory: it holds the lock (`flock`) of a file in it, which the kernel releases however the
//! process ends.
#![expect(clippy::disallowed_methods, reason = "the door by which checkpoints reach files")]

use super::Snapshot;
use crate::data::{HASH_VERSION, hash_bytes};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::exchange::KEY_GROUPS;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// How a file begins.
const MAGIC: &[u8; 8] = b"thalweg\0";
/// The version of the format of files.
const VERSION: u32 = 2;
const HEADER: usize = MAGIC.len() + 3 * size_of::<u32>() + 2 * size_of::<u64>();
/// How names begin and end; a number of ten digits, or more, is between.
const PREFIX: &str = "checkpoint-";
const SUFFIX: &str = ".state";
/// How the names of files begin that are being written.
const TEMPORARY: &str = ".checkpoint";
/// What the name of a file ends with that could not be read.
const UNREADABLE: &str = ".unreadable";
/// The file that is locked.
const LOCK: &str = "lock";
/// How many checkpoints are kept: one more than is needed, in case the newest cannot be read.
const KEPT: usize = 2;

/// The checkpoints of one job.
pub(crate) struct Store {
    dir: PathBuf,
    /// Locked, if the file system has locks.
    _lock: File,
}

/// A checkpoint that was read.
pub(crate) struct Stored {
    pub(crate) number: u64,
    pub(crate) snapshot: Snapshot,
    /// Why newer ones could not be read.
    pub(crate) skipped: Vec<Error>,
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
        let failed = |cause| Error::io(dir, "use the directory of checkpoints", cause);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(dir.join(LOCK));
        let lock = lock.map_err(failed)?;
        match lock.try_lock() {
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => {
                let what = "another job that runs has its checkpoints in this directory";
                return Err(Error::new(ErrorKind::Io, what).at(Place::File(dir.to_owned())));
            }
        }
        let store = Self { dir: dir.to_owned(), _lock: lock };
        // A process that was killed while it wrote leaves its file.
        for entry in fs::read_dir(dir).map_err(failed)?.flatten() {
            if entry.file_name().as_encoded_bytes().starts_with(TEMPORARY.as_bytes()) {
                let _ = fs::remove_file(entry.path());
            }
        }
        Ok(store)
    }

    /// The numbers of the checkpoints in a directory, in order.
    pub(super) fn numbers(dir: &Path) -> Result<Vec<u64>> {
        let failed = |cause| Error::io(dir, "list the checkpoints", cause);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let number = name.to_str().and_then(|name| {
                name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.parse::<u64>().ok()
            });
            numbers.extend(number);
        }
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
    pub(super) fn look_at(path: &Path) -> Option<(u64, Option<SystemTime>)> {
        let found = fs::metadata(path).ok()?;
        Some((found.len(), found.modified().ok()))
    }

    /// Removes a checkpoint.
    pub(super) fn remove(&self, number: u64) -> Result<()> {
        let path = self.path(number);
        fs::remove_file(&path).map_err(|cause| Error::io(&path, "remove the checkpoint", cause))
    }

    /// The newest checkpoint that can be read; `None` if there are no checkpoints. Newer ones are set aside: what the job
    /// does from now on is not what they say.
    ///
    /// # Errors
    ///
    /// If there are some and none is complete, the error of the newest; and if the system refuses to read one.
    pub(crate) fn newest(&self) -> Result<Option<Stored>> {
        let mut skipped = Vec::new();
        let mut unreadable = Vec::new();
        for number in Self::numbers(&self.dir)?.into_iter().rev() {
            match self.read(number) {
                Ok(snapshot) => {
                    for number in unreadable {
                        self.set_aside(number)?;
                    }
                    return Ok(Some(Stored { number, snapshot, skipped }));
                }
                // It may be sound, or is one of another version.
                Err(error) if error.kind() != ErrorKind::Input => return Err(error),
                Err(error) => {
                    unreadable.push(number);
                    skipped.push(error);
                }
            }
        }
        match skipped.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(None),
        }
    }

    fn set_aside(&self, number: u64) -> Result<()> {
        let path = self.path(number);
        let mut aside = path.clone().into_os_string();
        aside.push(UNREADABLE);
        fs::rename(&path, aside)
            .map_err(|cause| Error::io(&path, "set the checkpoint aside", cause))
    }

    fn read(&self, number: u64) -> Result<Snapshot> {
        Self::read_file(&self.path(number))
    }

    /// Reads a checkpoint.
    ///
    /// # Errors
    ///
    /// Of kind `Input` if it is torn or was altered; of kind `Plan` if it is of another version.
    pub(super) fn read_file(path: &Path) -> Result<Snapshot> {
        let bytes =
            fs::read(path).map_err(|cause| Error::io(path, "read the checkpoint", cause))?;
        parse(&bytes).map_err(|error| error.at(Place::File(path.to_owned())))
    }

    /// Writes a checkpoint. It counts when this returns, and older ones that are not needed any more are removed.
    ///
    /// # Errors
    ///
    /// If it cannot be written, or there is one with this number already.
    pub(crate) fn write(&self, number: u64, snapshot: &Snapshot) -> Result<()> {
        let path = self.path(number);
        let failed = |cause| Error::io(&path, "write the checkpoint", cause);
        let mut bytes = vec![0; HEADER];
        snapshot.encode(&mut bytes);
        let (header, content) = bytes.split_at_mut(HEADER);
        let mut at = 0;
        let mut put = |part: &[u8]| {
            header[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(MAGIC);
        put(&VERSION.to_le_bytes());
        put(&HASH_VERSION.to_le_bytes());
        put(&(KEY_GROUPS as u32).to_le_bytes());
        put(&(content.len() as u64).to_le_bytes());
        put(&hash_bytes(content).to_le_bytes());
        let mut file =
            tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.dir).map_err(failed)?;
        file.write_all(&bytes).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
        file.persist_noclobber(&path).map_err(|error| failed(error.error))?;
        // Some file systems do not support this, and do not need it.
        let _ = File::open(&self.dir).and_then(|dir| dir.sync_all());
        self.keep(KEPT);
        Ok(())
    }

    /// Removes all checkpoints: the job has ended.
    pub(crate) fn clear(&self) {
        self.keep(0);
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            if entry.file_name().as_encoded_bytes().ends_with(UNREADABLE.as_bytes()) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Removes all checkpoints but the newest. One that cannot be removed does no harm.
    fn keep(&self, newest: usize) {
        let numbers = Self::numbers(&self.dir).unwrap_or_default();
        // The oldest first: what is left must be the newest.
        for number in &numbers[..numbers.len().saturating_sub(newest)] {
            let _ = fs::remove_file(self.path(*number));
        }
    }
}

/// Reads the bytes of a file.
fn parse(bytes: &[u8]) -> Result<Snapshot> {
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
    let (length, digest) = header.split_first_chunk::<8>().ok_or_else(torn)?;
    if u64::from_le_bytes(*length) != content.len() as u64 {
        return Err(torn());
    }
    if hash_bytes(content).to_le_bytes() != digest {
        return Err(bad("the checkpoint was altered: its digest is another".to_owned()));
    }
    Snapshot::decode(content)
        .map_err(|error| bad(format!("the checkpoint cannot be read: {error}")))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::checkpoint::snapshot::{Entries, StateId};

    fn snapshot(number: u64) -> Snapshot {
        let mut entries = Entries::default();
        entries.add(number, |out| out.extend_from_slice(b"entry"));
        let mut snapshot = Snapshot::default();
        let id = StateId { operator: "count".to_owned(), name: "table".to_owned() };
        snapshot.add(&id, "u64", entries);
        snapshot
    }

    #[test]
    fn the_newest_checkpoint_that_can_be_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&Store::directory(&dir.path().join("a/b")).unwrap()).unwrap();
        assert!(store.newest().unwrap().is_none());
        for number in 1..5 {
            store.write(number, &snapshot(number)).unwrap();
        }
        assert_eq!(Store::numbers(&store.dir).unwrap(), [3, 4]);
        assert_eq!(store.newest().unwrap().unwrap().snapshot, snapshot(4));
        assert!(store.write(4, &snapshot(7)).is_err(), "no checkpoint is replaced");
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
        store.clear();
        assert!(store.newest().unwrap().is_none());
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
