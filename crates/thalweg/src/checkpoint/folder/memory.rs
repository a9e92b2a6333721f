//! A folder in memory, without files and requests: thousands of short histories are tried with it.

use super::{Folder, Found, Original, TEMPORARY};
use crate::error::{Error, Result};
use crate::state::SpillCopies;
use crate::sync::{Mutex, lock};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Names with their bytes.
#[derive(Debug, Default)]
pub(in crate::checkpoint) struct Memory(Mutex<BTreeMap<String, Vec<u8>>>);

impl Memory {
    fn find<T>(&self, name: &str, take: impl FnOnce(&Vec<u8>) -> T) -> io::Result<T> {
        lock(&self.0).get(name).map(take).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl SpillCopies for Memory {
    fn append(&self, name: &str, at: u64, begun: &mut bool, source: &mut dyn Read) -> Result<u64> {
        let failed = |cause| Error::io(Path::new(name), "copy spilled records", cause);
        let mut all = lock(&self.0);
        if !*begun && all.contains_key(name) {
            return Err(failed(io::ErrorKind::AlreadyExists.into()));
        }
        *begun = true;
        let bytes = all.entry(name.to_owned()).or_default();
        bytes.resize(at as usize, 0);
        source.read_to_end(bytes).map(|added| added as u64).map_err(failed)
    }
}

impl Folder for Memory {
    fn path(&self) -> &Path {
        Path::new("memory")
    }

    fn lock(&self) -> Result<Option<File>> {
        Ok(None)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        Ok(lock(&self.0).keys().cloned().collect())
    }

    fn look_at(&self, name: &str) -> io::Result<Option<Found>> {
        Ok(self.find(name, |bytes| (bytes.len() as u64, None)).ok())
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.find(name, Vec::clone)
    }

    fn create(
        &self,
        name: &str,
        pieces: &[&[u8]],
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let is_due = is_due();
        let mut all = lock(&self.0);
        if is_due && all.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if is_due {
            all.insert(name.to_owned(), pieces.concat());
        }
        Ok(is_due)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = lock(&self.0).remove(name);
        removed.map(drop).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn rename(&self, name: &str, to: &str) -> io::Result<()> {
        let bytes = self.read(name)?;
        self.remove(name)?;
        self.replace(to, &bytes);
        Ok(())
    }

    fn leftovers(&self) -> io::Result<Vec<String>> {
        Ok(self.names()?.into_iter().filter(|name| name.starts_with(TEMPORARY)).collect())
    }

    fn tidy(&self, leftovers: &[String]) -> io::Result<()> {
        lock(&self.0).retain(|name, _| !leftovers.contains(name));
        Ok(())
    }

    fn local(&self, name: &str, _: u64) -> Result<PathBuf> {
        let cause = io::ErrorKind::Unsupported.into();
        Err(Error::io(Path::new(name), "read spilled records in place", cause))
    }

    fn release(&self, _: &str) {}

    fn open(&self, name: &str) -> io::Result<Original> {
        Ok(Original { bytes: Box::new(io::Cursor::new(self.read(name)?)), modified: None })
    }

    fn copy_in(
        &self,
        name: &str,
        mut original: Original,
        is_due: &mut dyn FnMut() -> bool,
    ) -> io::Result<bool> {
        let mut bytes = Vec::new();
        original.bytes.read_to_end(&mut bytes)?;
        self.create(name, &[&bytes], is_due)
    }

    fn sync(&self) {}

    fn replace(&self, name: &str, bytes: &[u8]) {
        lock(&self.0).insert(name.to_owned(), bytes.to_vec());
    }
}
