//! The folders of the checkpoints of a job that is run again.

use std::path::PathBuf;

/// A program has one job with each folder, so that of the run before is moved to the next one.
pub(crate) struct Folders(tempfile::TempDir, usize);

impl Folders {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap(), 0)
    }

    pub(crate) fn next(&mut self) -> PathBuf {
        let path = |number: usize| self.0.path().join(number.to_string());
        if self.1 > 0 {
            std::fs::rename(path(self.1), path(self.1 + 1)).unwrap();
        }
        self.1 += 1;
        self.0.path().join(self.1.to_string())
    }
}
