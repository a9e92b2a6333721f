//! Looks at the checkpoints in a directory, without the program that has made them.

use super::Store;
use super::copy::{check_files, copy};
use super::folder::{Folder, find, make};
use super::snapshot::{Saved, Snapshot};
use crate::error::{Error, ErrorKind, Place, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// The directory of a job's checkpoints, as tools see it: what is there, and whether it is sound.
///
/// Reading takes no lock, so a job that runs may remove a checkpoint at any moment. To write and to restore checkpoints, see
/// [`CheckpointConfig`](crate::config::CheckpointConfig).
///
/// In place of a directory, all methods take the address of a prefix in an object store, as in `s3://bucket/prefix`, if the crate
/// is built with the feature `object-store`. What operators have on disk is fetched to the directory of temporary files to be
/// [verified](Self::verify) or [copied](Self::copy).
///
/// ```
/// use thalweg::checkpoint::CheckpointDir;
///
/// let folder = tempfile::tempdir().unwrap();
/// let checkpoints = CheckpointDir::open(folder.path())?;
/// assert!(checkpoints.list()?.is_empty());
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckpointDir(Arc<dyn Folder>);

/// A checkpoint in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFile {
    /// Its number; newer ones have higher numbers.
    pub number: u64,
    /// The file; in an object store, the address of the object.
    pub path: PathBuf,
    /// Its length; of a job on several hosts, with the parts of the other hosts. What operators have on disk is counted too: its
    /// files belong to several checkpoints, and count for each of them.
    pub bytes: u64,
    /// When it was written, if the file system knows.
    pub written: Option<SystemTime>,
}

/// What a checkpoint has of one state of an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateSummary {
    /// The operator: its name, or its kind and number.
    pub operator: String,
    /// Which of the operator's states it is.
    pub state: String,
    /// The type of its entries, and what the operator was given.
    pub schema: String,
    /// How many tasks have saved it.
    pub tasks: usize,
    /// How many entries all tasks have saved: keys, for most operators that have keys. Records that the operator has on disk
    /// count too.
    pub entries: u64,
    /// The bytes of all entries, of which the checkpoint's file may have fewer, as it has them packed; and those of the files of
    /// what is on disk.
    pub bytes: u64,
    /// The bytes of the largest that is not on disk.
    pub largest: u64,
}

impl CheckpointDir {
    /// The checkpoints in a directory.
    ///
    /// # Errors
    ///
    /// If it is not there. A prefix of an object store is there as long as its bucket is.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let folder = find(dir.as_ref(), &std::env::temp_dir())?;
        Store::numbers(&*folder).map(|_| Self(folder))
    }

    pub(crate) fn of(folder: &Arc<dyn Folder>) -> Self {
        Self(Arc::clone(folder))
    }

    pub(super) fn folder(&self) -> &dyn Folder {
        &*self.0
    }

    /// All checkpoints, the oldest first.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<CheckpointFile>> {
        let folder = &*self.0;
        let numbers = Store::numbers(folder)?;
        let has_others = Store::has_others(folder)?;
        let file = |number| {
            let name = Store::name_of(number);
            // One that is removed meanwhile is not there.
            let (bytes, written) = match Store::look_at(folder, &name) {
                Ok(found) => found?,
                Err(error) => return Some(Err(error)),
            };
            let bytes = bytes + if has_others { Store::bytes_of_others(folder, &name) } else { 0 };
            let path = folder.path().join(name);
            Some(Ok(CheckpointFile { number, path, bytes, written }))
        };
        numbers.into_iter().filter_map(file).collect()
    }

    /// Reads a checkpoint, compares its digest, and says what is in it, by operator and state. Of what operators have on disk,
    /// only the lengths of the files are compared: see [`verify`](Self::verify).
    ///
    /// # Errors
    ///
    /// If it is not there, if it is torn or was altered, or if it is of another version.
    pub fn read(&self, number: u64) -> Result<Vec<StateSummary>> {
        let snapshot = Store::read_file(&*self.0, &Store::name_of(number))?;
        self.summary(number, &snapshot)
    }

    fn summary(&self, number: u64, snapshot: &Snapshot) -> Result<Vec<StateSummary>> {
        let unreadable = |error| {
            let what = format!("the checkpoint cannot be read: {error}");
            let path = self.0.path().join(Store::name_of(number));
            Error::new(ErrorKind::Input, what).at(Place::File(path))
        };
        let mut all = Vec::new();
        for id in snapshot.ids() {
            let mut summary = StateSummary {
                operator: id.operator.clone(),
                state: id.name.clone(),
                schema: snapshot.shape(id).map(ToString::to_string).unwrap_or_default(),
                tasks: snapshot.tasks(id),
                entries: 0,
                bytes: 0,
                largest: 0,
            };
            let mut entries = snapshot.entries(id);
            while let Some(Saved { bytes, .. }) = entries.next().map_err(unreadable)? {
                summary.entries += 1;
                summary.bytes += bytes.len() as u64;
                summary.largest = summary.largest.max(bytes.len() as u64);
            }
            for (_, file) in snapshot.files(id) {
                // Hostile numbers may have any sum.
                summary.entries = summary.entries.saturating_add(file.records);
                summary.bytes = summary.bytes.saturating_add(file.bytes);
            }
            all.push(summary);
        }
        Ok(all)
    }

    /// As [`read`](Self::read), and reads all that operators have on disk, to compare its checksums.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), also if a file of spilled records was altered.
    pub fn verify(&self, number: u64) -> Result<Vec<StateSummary>> {
        let snapshot = Store::read_file(&*self.0, &Store::name_of(number))?;
        check_files(&*self.0, &snapshot)?;
        self.summary(number, &snapshot)
    }

    /// Copies a checkpoint, with all that it refers to, into a directory that has none, and is made if it is not there. Returns
    /// the copy, which counts once all of it is on the disk.
    ///
    /// A job keeps its two newest checkpoints; a copy stays until a job runs with its directory, which then treats it as its own.
    /// Flink calls this a savepoint: a place to go back to. A job that goes on from a copy takes the place of the one that was
    /// copied, whose outputs it goes on with: see the book's page on checkpoints. In an object store, the copy may have another
    /// number.
    ///
    /// # Errors
    ///
    /// If the checkpoint is not there, or not whole with all that operators have on disk; if the other directory has
    /// checkpoints, or a job uses it; if it cannot be written.
    ///
    /// ```
    /// use thalweg::checkpoint::CheckpointDir;
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let checkpoints = CheckpointDir::open(folder.path())?;
    /// let error = checkpoints.copy(17, folder.path().join("kept")).unwrap_err();
    /// assert!(error.to_string().contains("checkpoint-0000000017"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn copy(&self, number: u64, to: impl AsRef<Path>) -> Result<CheckpointFile> {
        self.copy_to(number, || make(to.as_ref(), &std::env::temp_dir()))
    }

    /// As [`copy`](Self::copy), where `make` makes the folder.
    pub(crate) fn copy_to(
        &self,
        number: u64,
        make: impl FnOnce() -> Result<Arc<dyn Folder>>,
    ) -> Result<CheckpointFile> {
        let (to, number) = copy(&*self.0, number, make)?;
        let copied = Self(Arc::clone(&to)).list()?;
        let copied = copied.into_iter().find(|file| file.number == number);
        copied.ok_or_else(|| {
            let what = "the copy was removed by another program";
            Error::new(ErrorKind::Io, what).at(Place::File(to.path().to_owned()))
        })
    }

    /// Removes a checkpoint.
    ///
    /// An object store has no lock by which a job could be found that uses it. There, this takes the place of a run, as
    /// [`copy`](Self::copy) does in the store that it writes to: a job that is running ends when it is to write its next checkpoint.
    ///
    /// # Errors
    ///
    /// If it is not there, if a job uses the directory, or if it cannot be removed.
    pub fn remove(&self, number: u64) -> Result<()> {
        let name = Store::name_of(number);
        if Store::look_at(&*self.0, &name)?.is_none() {
            let what = "there is no such checkpoint";
            let place = Place::File(self.0.path().join(name));
            return Err(Error::new(ErrorKind::Io, what).at(place));
        }
        Store::open(&self.0)?.remove_one(number)
    }

    /// Removes all checkpoints, and what interrupted runs have left of others, so that the job begins anew. Returns how many
    /// checkpoints there were. As [`remove`](Self::remove) where there is no lock: no run that is there now goes on.
    ///
    /// # Errors
    ///
    /// If a job uses the directory, or if some cannot be removed.
    ///
    /// ```
    /// use thalweg::checkpoint::CheckpointDir;
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// assert_eq!(CheckpointDir::open(folder.path())?.remove_all()?, 0);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn remove_all(&self) -> Result<usize> {
        Store::open(&self.0)?.remove_all()
    }

    /// Whether there is anything of checkpoints, also where none counts.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    ///
    /// ```
    /// use thalweg::checkpoint::CheckpointDir;
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// assert!(CheckpointDir::open(folder.path())?.is_empty()?);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool> {
        Ok(!Store::has_any(&*self.0)?)
    }
}
