//! Where checkpoints are: a folder of flat names, which is a directory or a prefix of an object store.
//!
//! [`Store`](super::Store), the marks of runs and copies need these operations alone, and know neither files nor requests:
//!
//! * A name is **created** once, with all of its bytes or not at all, and is never written to again. Creating a name that is
//!   taken is an error of kind `AlreadyExists`. Fencing and the numbers of checkpoints rest on that.
//! * A file of spilled records **grows**: [`SpillCopies::append`] adds what an operator has written since the last checkpoint.
//!   It is read in place, as a local file ([`Folder::local`]).
//! * What a process that was killed has left under no name is found by [`Folder::leftovers`] and removed by [`Folder::tidy`].
//!
//! A directory has a lock, by which one job at a time uses it. An object store has none: marks alone end a run that another one
//! has superseded.
#![expect(clippy::disallowed_methods, reason = "the door by which checkpoints reach files")]

mod faulty;
#[cfg(all(test, not(miri)))]
mod memory;
#[cfg(feature = "object-store")]
mod objects;

pub(crate) use faulty::{Faulty, INJECTED};
#[cfg(all(test, not(miri)))]
pub(super) use memory::Memory;

use crate::error::{Error, ErrorKind, Place, Result};
use crate::state::SpillCopies;
use crate::sync::{in_steps, try_lock_file};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// How the names of files begin that are being written, and of those that are there as long as a process.
pub(super) const TEMPORARY: &str = ".checkpoint";
/// The bytes that are written at a time, in less than a millisecond.
const WRITTEN: usize = 1 << 20;
/// The file that is locked.
const LOCK: &str = "lock";

/// A directory of checkpoints, or the prefix of an object store in their place.
pub(crate) trait Folder: SpillCopies + Debug + Send + Sync {
    /// Where it is, as people name it and messages do. That of an object store is no path of the file system.
    fn path(&self) -> &Path;

    /// Locks it for one job, until the file is closed. An object store has no lock.
    ///
    /// # Errors
    ///
    /// If another job holds the lock.
    fn lock(&self) -> Result<Option<File>>;

    /// All names, in any order.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The length of what has this name, and when it was written; `None` if there is nothing.
    fn look_at(&self, name: &str) -> io::Result<Option<Found>>;

    /// As [`look_at`](Self::look_at), of several names, those alone that are there.
    fn look_at_all(&self, names: &BTreeSet<&str>) -> io::Result<BTreeMap<String, Found>> {
        let mut found = BTreeMap::new();
        for name in names {
            found.extend(self.look_at(name)?.map(|there| ((*name).to_owned(), there)));
        }
        Ok(found)
    }

    /// All bytes of what has this name. What is torn is returned as far as it is there.
    fn read(&self, name: &str) -> io::Result<Vec<u8>>;

    /// Creates a name with these bytes, which are there and on stable storage when this returns. `is_due` is called last, when
    /// all but the name is there: if it says no, the name is not created. Returns whether it was.
    fn create(
        &self,
        name: &str,
        pieces: &[&[u8]],
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool>;

    /// Removes what has this name.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Gives it another name.
    fn rename(&self, name: &str, to: &str) -> io::Result<()>;

    /// What processes have left that were killed, or are about to give a name to.
    fn leftovers(&self) -> io::Result<Vec<String>>;

    /// Removes leftovers, but for those that have a name by now. One that cannot be removed does no harm.
    fn tidy(&self, leftovers: &[String]) -> io::Result<()>;

    /// A local file with at least so many bytes of a file of spilled records. It is there as long as the name is.
    ///
    /// # Errors
    ///
    /// If it cannot be had.
    fn local(&self, name: &str, bytes: u64) -> Result<PathBuf>;

    /// The local file of this name is not read any more.
    fn release(&self, name: &str);

    /// Opens a name to copy it: it can then be read also when it is removed.
    fn open(&self, name: &str) -> io::Result<Original>;

    /// Creates a name with the bytes of another folder's, as [`create`](Self::create) does.
    fn copy_in(
        &self,
        name: &str,
        original: Original,
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool>;

    /// Removes what has these names. What is left after an error does no harm: the next run removes it.
    fn remove_all(&self, names: &mut dyn Iterator<Item = &str>) {
        for name in names {
            let removed = self.remove(name);
            // The next one would wait as long for a store that does not answer.
            if removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound) {
                return;
            }
        }
    }

    /// Once all names are there: syncs the folder itself.
    fn sync(&self);

    /// Lets the time pass that a request takes, where time is simulated: called before a checkpoint is written or read and after it
    /// was, on the thread that does it, without any lock.
    fn pass_time(&self) {}

    /// Replaces what has this name, to find out what happens to damaged checkpoints.
    #[cfg(test)]
    fn replace(&self, name: &str, bytes: &[u8]);
}

/// What is known of a name without reading it: its length, and when it was written.
pub(crate) type Found = (u64, Option<SystemTime>);

/// A file that is to be copied.
pub(crate) struct Original {
    bytes: Box<dyn Read>,
    modified: Option<SystemTime>,
}

/// The folder of a job, which is made if it is not there. What must be local to be read is staged under `stage`.
///
/// # Errors
///
/// If it cannot be used.
pub(crate) fn make(dir: &Path, stage: &Path) -> Result<Arc<dyn Folder>> {
    if is_url(dir) {
        return objects(dir, stage);
    }
    let made = fs::create_dir_all(dir).and_then(|()| fs::canonicalize(dir));
    let made = made.map_err(|cause| Error::io(dir, "make the directory of checkpoints", cause))?;
    Ok(Directory::at(&made))
}

/// A folder that may be there, to look into it.
///
/// # Errors
///
/// If it is in an object store that cannot be used.
pub(crate) fn find(dir: &Path, stage: &Path) -> Result<Arc<dyn Folder>> {
    match is_url(dir) {
        true => objects(dir, stage),
        false => Ok(Directory::at(dir)),
    }
}

/// Whether it is the address of an object store: a scheme, and two slashes.
fn is_url(dir: &Path) -> bool {
    let scheme = dir.to_str().and_then(|text| text.split_once("://")).map(|(scheme, _)| scheme);
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_of_scheme)
    })
}

#[cfg(feature = "object-store")]
fn objects(url: &Path, stage: &Path) -> Result<Arc<dyn Folder>> {
    objects::Objects::open(url, stage).map(|objects| Arc::new(objects) as _)
}

#[cfg(not(feature = "object-store"))]
fn objects(url: &Path, _: &Path) -> Result<Arc<dyn Folder>> {
    let what = "this program was built without object stores: build it with the feature `object-store` of the crate `thalweg`, \
                or give a directory";
    Err(Error::new(ErrorKind::Config, what).at(Place::File(url.to_owned())))
}

/// A name of so many random letters behind a prefix, which no other process has.
pub(super) fn unique(prefix: &str, letters: usize) -> io::Result<String> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut random = vec![0; letters];
    getrandom::fill(&mut random).map_err(|cause| io::Error::other(cause.to_string()))?;
    let letters = random.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)]));
    Ok(prefix.chars().chain(letters).collect())
}

/// A directory of the file system.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
}

impl Directory {
    pub(super) fn at(path: &Path) -> Arc<dyn Folder> {
        Arc::new(Self { path: path.to_owned() })
    }

    fn temporary(&self) -> io::Result<tempfile::NamedTempFile> {
        tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(&self.path)
    }
}

impl SpillCopies for Directory {
    fn append(&self, name: &str, at: u64, begun: &mut bool, source: &mut dyn Read) -> Result<u64> {
        self.path.append(name, at, begun, source)
    }
}

impl Folder for Directory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn lock(&self) -> Result<Option<File>> {
        let path = self.path.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(|cause| Error::io(&path, "open the lock of checkpoints", cause))?;
        match try_lock_file(&lock) {
            Ok(()) | Err(TryLockError::Error(_)) => Ok(Some(lock)),
            Err(TryLockError::WouldBlock) => {
                let what = "another job that runs has its checkpoints in this directory";
                Err(Error::new(ErrorKind::Io, what).at(Place::File(self.path.clone())))
            }
        }
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn look_at(&self, name: &str) -> io::Result<Option<Found>> {
        match fs::metadata(self.path.join(name)) {
            Ok(found) => Ok(Some((found.len(), found.modified().ok()))),
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(cause),
        }
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        fs::read(self.path.join(name))
    }

    fn create(
        &self,
        name: &str,
        pieces: &[&[u8]],
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let mut file = self.temporary()?;
        for bytes in pieces.iter().flat_map(|piece| in_steps(piece, WRITTEN)) {
            file.write_all(bytes)?;
        }
        file.as_file().sync_all()?;
        if !is_due() {
            return Ok(false);
        }
        file.persist_noclobber(self.path.join(name)).map_err(|error| error.error)?;
        // Some file systems do not support this, and do not need it.
        let _ = File::open(&self.path).and_then(|dir| dir.sync_all());
        Ok(true)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn rename(&self, name: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(name), self.path.join(to))
    }

    fn leftovers(&self) -> io::Result<Vec<String>> {
        Ok(self.names()?.into_iter().filter(|name| name.starts_with(TEMPORARY)).collect())
    }

    fn tidy(&self, leftovers: &[String]) -> io::Result<()> {
        for name in leftovers {
            let _ = self.remove(name);
        }
        Ok(())
    }

    fn local(&self, name: &str, _: u64) -> Result<PathBuf> {
        Ok(self.path.join(name))
    }

    fn release(&self, _: &str) {}

    fn open(&self, name: &str) -> io::Result<Original> {
        let file = File::open(self.path.join(name))?;
        let modified = Some(file.metadata()?.modified()?);
        Ok(Original { bytes: Box::new(file), modified })
    }

    /// The copy is as old as the original, and on the disk.
    fn copy_in(
        &self,
        name: &str,
        mut original: Original,
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let mut copy = self.temporary()?;
        io::copy(&mut original.bytes, &mut copy)?;
        original.modified.map_or(Ok(()), |at| copy.as_file().set_modified(at))?;
        copy.as_file().sync_all()?;
        if !is_due() {
            return Ok(false);
        }
        copy.persist_noclobber(self.path.join(name)).map_err(|error| error.error)?;
        Ok(true)
    }

    fn sync(&self) {
        for dir in [Some(&*self.path), self.path.parent()].into_iter().flatten() {
            // Some file systems do not support this, and do not need it.
            let _ = File::open(dir).and_then(|dir| dir.sync_all());
        }
    }

    #[cfg(test)]
    fn replace(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path.join(name), bytes).unwrap();
    }
}

/// Runs a test with an empty directory, and with a prefix of an object store in memory.
#[cfg(all(test, not(miri)))]
pub(super) fn of_each_kind(test: impl Fn(&Arc<dyn Folder>)) {
    let dir = tempfile::tempdir().unwrap();
    test(&make(dir.path(), dir.path()).unwrap());
    #[cfg(feature = "object-store")]
    {
        let stage = tempfile::tempdir().unwrap();
        test(&(Arc::new(objects::Objects::in_memory(stage.path())) as _));
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_no_path() {
        for url in ["s3://bucket", "gs://bucket/a/b", "https://a.b/c", "s3+x://"] {
            assert!(is_url(Path::new(url)), "{url}");
        }
        for path in ["s3", "/a://b", "a/b://c", "C:\\a", "://a", "3s://b", ""] {
            assert!(!is_url(Path::new(path)), "{path}");
        }
    }

    #[cfg(not(feature = "object-store"))]
    #[test]
    fn object_stores_need_their_feature() {
        for open in [make, find] {
            let error = open(Path::new("s3://bucket/a"), Path::new("")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("`object-store`"), "{error}");
        }
        assert!(!Path::new("s3:").exists());
    }

    #[test]
    fn a_name_is_created_once_and_whole_or_not_at_all() {
        of_each_kind(|folder| {
            let there = |name: &str| folder.look_at(name).unwrap().map(|(bytes, _)| bytes);
            assert_eq!(there("a.state"), None);
            assert!(!folder.create("a.state", &[b"one"], &mut || false).unwrap());
            assert_eq!(there("a.state"), None);
            assert!(folder.create("a.state", &[b"one", b"", b"two"], &mut || true).unwrap());
            let again = folder.create("a.state", &[b"other"], &mut || true).unwrap_err();
            assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(
                (there("a.state"), folder.read("a.state").unwrap()),
                (Some(6), b"onetwo".into())
            );
            folder.rename("a.state", "b.state").unwrap();
            assert_eq!((there("a.state"), there("b.state")), (None, Some(6)));
            assert_eq!(folder.names().unwrap(), ["b.state"]);
            folder.remove("b.state").unwrap();
            assert!(folder.names().unwrap().is_empty());
            let missing = folder.read("b.state").unwrap_err();
            assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        });
    }

    #[test]
    fn a_file_of_spilled_records_grows() {
        of_each_kind(|folder| {
            let name = "spilled-a-0.records";
            let mut begun = false;
            let mut append = |at: u64, bytes: &[u8]| {
                assert_eq!(
                    folder.append(name, at, &mut begun, &mut &*bytes).unwrap(),
                    bytes.len() as u64
                );
                folder.look_at(name).unwrap().unwrap().0
            };
            assert_eq!(append(0, b"abc"), 3);
            assert_eq!(append(3, b"de"), 5);
            // An attempt that failed after it had written is repeated, with more.
            assert_eq!(append(3, b"defg"), 7);
            assert_eq!(folder.names().unwrap(), [name]);
            for bytes in [4, 7] {
                let local = fs::read(folder.local(name, bytes).unwrap()).unwrap();
                assert_eq!(local[..bytes as usize], b"abcdefg"[..bytes as usize]);
            }
            folder.release(name);
            let mut copied = Vec::new();
            folder.open(name).unwrap().bytes.read_to_end(&mut copied).unwrap();
            assert_eq!(copied, b"abcdefg");
            folder.remove(name).unwrap();
            assert_eq!(folder.look_at(name).unwrap(), None);
            assert!(folder.names().unwrap().is_empty());
        });
    }
}
