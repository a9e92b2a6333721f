//! The files of a job that goes on from a checkpoint: those that it began with, whatever there is now.
//!
//! Operators behind a source may have seen its end, and a result may have been made of all its files; so one that is new is none
//! of the job's. One that was read to its end is not needed any more.

use super::consumed::Consumed;
use super::files::{Compression, FileVersion, InputFile, expand_inputs};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::metrics::show;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A file as it is saved: its path, its version, and the ranges of bytes that were read, decompressed. Each task saves those that it
/// has read, and one saves all.
pub(super) type SavedFile = (PathBuf, FileVersion, Vec<(u64, u64)>);

/// Where a source goes on that has saved this.
pub(super) fn position(saved: Vec<SavedFile>) -> String {
    let mut files = BTreeMap::<PathBuf, Consumed>::new();
    for (path, _, ranges) in saved.into_iter().filter(|(_, _, ranges)| !ranges.is_empty()) {
        files.entry(path).or_default().add_all(ranges);
    }
    let bytes = show::bytes(files.values().map(Consumed::length).fold(0, u64::saturating_add));
    let s = if files.len() == 1 { "" } else { "s" };
    format!("after {bytes} read of {} file{s}", show::count(files.len() as u64))
}

/// The files that a job began with, by path. Empty if it begins with no checkpoint.
#[derive(Default)]
pub(super) struct Begun(BTreeMap<PathBuf, (FileVersion, Consumed)>);

impl Begun {
    pub(super) fn add(&mut self, (path, version, ranges): SavedFile) {
        let (_, read) = self.0.entry(path).or_insert_with(|| (version, Consumed::default()));
        read.add_all(ranges);
    }

    /// The files of these inputs that the job has still to read. Also returns those that are new since it began.
    ///
    /// # Errors
    ///
    /// If there are none and the job begins, or one is gone that was not read to its end.
    pub(super) fn list(
        &self,
        inputs: &[PathBuf],
        advice: &str,
    ) -> Result<(Vec<InputFile>, Vec<PathBuf>)> {
        let listed = expand_inputs(inputs);
        if self.0.is_empty() {
            return Ok((listed?, Vec::new()));
        }
        let (listed, failure) = match listed {
            Ok(listed) => (listed, None),
            // It may be that all of an input was read.
            Err(error) => {
                let there = inputs.iter().filter(|input| expand_inputs([input]).is_ok());
                let there: Vec<_> = there.collect();
                let listed = if there.is_empty() { Vec::new() } else { expand_inputs(there)? };
                (listed, Some(error))
            }
        };
        let (own, new): (Vec<_>, Vec<_>) =
            listed.into_iter().partition(|file| self.0.contains_key(&file.path));
        let left: Vec<_> = own.into_iter().filter(|file| !self.is_done(&file.path)).collect();
        let there: BTreeSet<_> = left.iter().map(|file| file.path.as_path()).collect();
        let is_gone = |path: &&PathBuf| !there.contains(path.as_path()) && !self.is_done(path);
        if let Some(path) = self.0.keys().find(is_gone) {
            let what = "the job began with this file and has not read all of it, but it is not among the inputs any more";
            let refused = || refusal(path, &format!("{what}: put it back, or {advice}"));
            return Err(failure.unwrap_or_else(refused));
        }
        Ok((left, new.into_iter().map(|file| file.path).collect()))
    }

    /// Whether a file was read to its end.
    fn is_done(&self, path: &Path) -> bool {
        self.0.get(path).is_some_and(|(version, read)| {
            let end = match Compression::of(path).is_splittable() {
                true => version.bytes(),
                false => u64::MAX,
            };
            end == 0 || *read.ranges() == [(0, end)]
        })
    }

    /// What was read of files that are still to be read, by their place in this list.
    ///
    /// # Errors
    ///
    /// If one was read in part, and was written since.
    pub(super) fn read_of(
        &self,
        files: &[InputFile],
        versions: &[FileVersion],
        advice: &str,
    ) -> Result<BTreeMap<usize, Consumed>> {
        let mut all = BTreeMap::new();
        for (at, file) in files.iter().enumerate() {
            let Some((version, read)) = self.0.get(&file.path) else { continue };
            if read.ranges().is_empty() {
                continue;
            }
            if versions.get(at) != Some(version) {
                let what = "the checkpoint has read a part of another version of this file: it was written since";
                return Err(refusal(&file.path, &format!("{what}; {advice}")));
            }
            all.insert(at, read.clone());
        }
        Ok(all)
    }

    /// Those that were read to their end, as they are saved.
    pub(super) fn done(&self) -> impl Iterator<Item = SavedFile> {
        let done = self.0.iter().filter(|(path, _)| self.is_done(path));
        done.map(|(path, (version, read))| (path.clone(), version.clone(), read.ranges().clone()))
    }
}

fn refusal(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Input, what.to_owned()).at(Place::File(path.to_owned()))
}
