//! Files that appear under their names when they are complete, and not at all otherwise.
#![expect(clippy::disallowed_methods, reason = "the door by which sinks reach files")]

use crate::error::{Error, ErrorKind, Place, Result};
use crate::sync::{Mutex, lock};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
// Of the standard library under loom too: a counter in a static, which no protocol hangs on.
use std::sync::atomic::{AtomicU64, Ordering};

/// A file being written. It is in the directory where it is to be, under a hidden name; dropped
/// before it is published, it is removed.
pub(super) struct NewFile {
    /// What the program calls it.
    name: PathBuf,
    /// What it will be called: the name with its links followed.
    target: PathBuf,
    hidden: PathBuf,
    file: File,
    buffer: Vec<u8>,
}

/// Bytes written at a time.
const BUFFER: usize = 128 << 10;

/// Tells the files of this process apart.
static NUMBER: AtomicU64 = AtomicU64::new(0);

impl NewFile {
    /// Creates the file under its hidden name, so that what would keep it from being written is
    /// known before there is anything to write.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let refuse =
            |kind, what: &str| Err(Error::new(kind, what).at(Place::File(path.to_owned())));
        let ending = path.extension().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        if matches!(&*ending, "gz" | "zst" | "zstd") {
            let what = "files are written uncompressed, and this name says otherwise";
            return refuse(ErrorKind::Plan, what);
        }
        let target = match fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                return refuse(ErrorKind::Io, "cannot write the file: a directory has this name");
            }
            // Renaming something to the name of a device would remove the device.
            Ok(found) if !found.is_file() => {
                return refuse(ErrorKind::Io, "cannot write the file: not a regular file");
            }
            Ok(_) => fs::canonicalize(path)
                .map_err(|cause| Error::io(path, "resolve the path", cause))?,
            Err(_) => path.to_owned(),
        };
        let Some(file_name) = target.file_name() else {
            return refuse(ErrorKind::Plan, "this path names no file");
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let mut hidden_name = std::ffi::OsString::from(".");
        hidden_name.push(file_name);
        hidden_name.push(format!(".{}-{number}.tmp", std::process::id()));
        let hidden = target.with_file_name(hidden_name);
        if !directory(&hidden).is_dir() {
            let what =
                format!("cannot write the file: {} is no directory", directory(&hidden).display());
            return refuse(ErrorKind::Io, &what);
        }
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&hidden)
            .map_err(|cause| Error::io(path, "create the file", cause))?;
        let name = path.to_owned();
        Ok(Self { name, target, hidden, file, buffer: Vec::with_capacity(BUFFER) })
    }

    /// Adds bytes to the file.
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
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written.map_err(|cause| Error::io(&self.name, "write the file", cause))
    }

    /// Everything was written: sees to it that it stays, whatever happens to the machine.
    pub(super) fn complete(&mut self) -> Result<()> {
        self.flush()?;
        self.file.sync_all().map_err(|cause| Error::io(&self.name, "write the file", cause))
    }

    /// What the program calls the file.
    pub(super) fn name(&self) -> &Path {
        &self.name
    }

    /// Finds what would keep the file from getting its name, as far as that can be seen beforehand.
    pub(super) fn check(&self) -> Result<()> {
        fs::metadata(&self.hidden)
            .map_err(|cause| Error::io(&self.name, "find the finished file", cause))?;
        if self.target.is_dir() {
            let what = "cannot give the finished file its name: a directory has it";
            return Err(Error::new(ErrorKind::Io, what).at(Place::File(self.name.clone())));
        }
        Ok(())
    }

    /// Gives the file its name, replacing what had it before.
    pub(super) fn publish(self) -> Result<()> {
        fs::rename(&self.hidden, &self.target)
            .map_err(|cause| Error::io(&self.name, "give the finished file its name", cause))?;
        // Not every file system can do this, and those that cannot need not.
        let _ = File::open(directory(&self.target)).and_then(|dir| dir.sync_all());
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        // Fails when it was published, as it should; there is nobody to tell otherwise.
        let _ = fs::remove_file(&self.hidden);
    }
}

fn directory(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// A directory for the files of a job. One that was made for a job that failed is removed.
pub(super) struct NewDir {
    path: PathBuf,
    state: Mutex<DirState>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum DirState {
    Untouched,
    Found,
    Made,
}

impl NewDir {
    pub(super) fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), state: Mutex::new(DirState::Untouched) }
    }

    /// Makes the directory, or finds it empty; the first call does.
    pub(super) fn prepare(&self) -> Result<&Path> {
        let mut state = lock(&self.state);
        if *state == DirState::Untouched {
            *state = match fs::create_dir(&self.path) {
                Ok(()) => DirState::Made,
                Err(_) if self.path.is_dir() => self.look()?,
                Err(cause) => return Err(Error::io(&self.path, "make the directory", cause)),
            };
        }
        Ok(&self.path)
    }

    fn look(&self) -> Result<DirState> {
        let list = |cause| Error::io(&self.path, "list the directory", cause);
        for entry in fs::read_dir(&self.path).map_err(list)? {
            if !entry.map_err(list)?.file_name().as_encoded_bytes().starts_with(b".") {
                let what = "the directory is not empty: what is there and what this job writes \
                            would be taken for one";
                return Err(Error::new(ErrorKind::Io, what).at(Place::File(self.path.clone())));
            }
        }
        Ok(DirState::Found)
    }
}

impl Drop for NewDir {
    fn drop(&mut self) {
        if *lock(&self.state) == DirState::Made {
            // Refused when there is anything in it, which is when the job went well.
            let _ = fs::remove_dir(&self.path);
        }
    }
}
