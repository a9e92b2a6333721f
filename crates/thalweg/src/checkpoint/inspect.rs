//! Looks at the checkpoints in a directory, without the program that has made them.

use super::Store;
use super::copy::copy;
use super::snapshot::Saved;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::state::check_blocks;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The directory of a job's checkpoints, as tools see it: what is there, and whether it is sound.
///
/// Reading takes no lock, so a job that runs may remove a checkpoint at any moment. To write and to restore checkpoints, see
/// [`CheckpointConfig`](crate::config::CheckpointConfig).
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
pub struct CheckpointDir(PathBuf);

/// A checkpoint in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointFile {
    /// Its number; newer ones have higher numbers.
    pub number: u64,
    /// The file.
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
    /// The bytes of all entries, and of the files of what is on disk.
    pub bytes: u64,
    /// The bytes of the largest that is not on disk.
    pub largest: u64,
}

impl CheckpointDir {
    /// The checkpoints in a directory.
    ///
    /// # Errors
    ///
    /// If it is not there.
    pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
        let dir = dir.as_ref();
        Store::numbers(dir).map(|_| Self(dir.to_owned()))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.0
    }

    /// All checkpoints, the oldest first.
    ///
    /// # Errors
    ///
    /// If the directory cannot be read.
    pub fn list(&self) -> Result<Vec<CheckpointFile>> {
        let numbers = Store::numbers(&self.0)?;
        let has_others = Store::has_others(&self.0)?;
        let file = |number| {
            let path = Store::path_of(&self.0, number);
            // One that is removed meanwhile is not there.
            let (bytes, written) = match Store::look_at(&path) {
                Ok(found) => found?,
                Err(error) => return Some(Err(error)),
            };
            let bytes = bytes + if has_others { Store::bytes_of_others(&path) } else { 0 };
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
        let path = Store::path_of(&self.0, number);
        let snapshot = Store::read_file(&path)?;
        let unreadable = |error| {
            let what = format!("the checkpoint cannot be read: {error}");
            Error::new(ErrorKind::Input, what).at(Place::File(path.clone()))
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
                summary.entries += file.records;
                summary.bytes += file.bytes;
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
        let snapshot = Store::read_file(&Store::path_of(&self.0, number))?;
        let files: BTreeMap<_, _> =
            snapshot.all_files().map(|file| ((&file.name, file.bytes), file.records)).collect();
        for ((name, bytes), records) in files {
            check_blocks(&self.0.join(name), bytes, records)?;
        }
        self.read(number)
    }

    /// Copies a checkpoint, with all that it refers to, into a directory that has none, and is made if it is not there. Returns
    /// the copy, which counts once all of it is on the disk.
    ///
    /// A job keeps its two newest checkpoints; a copy stays until a job runs with its directory, which then treats it as its own.
    /// Flink calls this a savepoint: a place to go back to. A job that goes on from a copy takes the place of the one that was
    /// copied, whose outputs it goes on with: see the book's page on checkpoints.
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
        let to = to.as_ref();
        copy(&self.0, number, to)?;
        let copied = Self::open(to)?.list()?;
        let copied = copied.into_iter().find(|file| file.number == number);
        copied.ok_or_else(|| {
            let what = "the copy was removed by another program";
            Error::new(ErrorKind::Io, what).at(Place::File(to.to_owned()))
        })
    }

    /// Removes a checkpoint.
    ///
    /// # Errors
    ///
    /// If it is not there, if a job uses the directory, or if it cannot be removed.
    pub fn remove(&self, number: u64) -> Result<()> {
        let path = Store::path_of(&self.0, number);
        if Store::look_at(&path)?.is_none() {
            let what = "there is no such checkpoint";
            return Err(Error::new(ErrorKind::Io, what).at(Place::File(path)));
        }
        Store::open(&self.0)?.remove(number)
    }
}
