//! Small files that a host needs before any job: secrets, keys and certificates.
#![expect(clippy::disallowed_methods, reason = "small files, read before any job")]

use crate::error::{Error, ErrorKind, Place, Result};
use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// The bytes of a file, at most so many. `what` is in it, for messages.
pub(crate) fn read(path: &Path, what: &str, most: u64) -> Result<Vec<u8>> {
    bounded(path, what, most, open(path, what)?)
}

/// As [`read`], of a file that every user of the machine may read or others may change: that is refused.
pub(crate) fn read_secret(path: &Path, what: &str, most: u64) -> Result<Vec<u8>> {
    let file = open(path, what)?;
    #[cfg(unix)]
    check_access(path, what, &file)?;
    bounded(path, what, most, file)
}

/// An error about a file.
pub(crate) fn refused(path: &Path, what: impl Into<String>) -> Error {
    Error::new(ErrorKind::Config, what.into()).at(Place::File(path.to_owned()))
}

fn cannot_read(path: &Path, what: &str, cause: std::io::Error) -> Error {
    refused(path, format!("cannot read {what}")).caused_by(cause)
}

fn open(path: &Path, what: &str) -> Result<File> {
    File::open(path).map_err(|cause| cannot_read(path, what, cause))
}

fn bounded(path: &Path, what: &str, most: u64, file: File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|cause| cannot_read(path, what, cause))?;
    if bytes.len() as u64 > most {
        return Err(refused(path, format!("{what} has at most {most} bytes")));
    }
    Ok(bytes)
}

/// A group may read it, as where Kubernetes mounts a secret for a user.
#[cfg(unix)]
fn check_access(path: &Path, what: &str, file: &File) -> Result<()> {
    use std::os::unix::fs::MetadataExt as _;
    let mode = file.metadata().map_err(|cause| cannot_read(path, what, cause))?.mode();
    if mode & 0o026 != 0 {
        let what = format!(
            "other users may read or change {what}: the file has the mode {:03o}, and should have 600",
            mode & 0o777
        );
        return Err(refused(path, what));
    }
    Ok(())
}
