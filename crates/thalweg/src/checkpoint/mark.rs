//! The marks of the runs of a job, by which a run finds that another one has begun with its checkpoints.
//!
//! Where a file system has no locks, or does not share them among hosts, and in an object store, two runs of a job may both believe that a directory of
//! checkpoints is theirs: a host that was cut off goes on while its job was started again elsewhere. So each run makes a file, its
//! mark, with the next free number, before it reads the checkpoint that it begins with. The run with the highest mark is the one
//! that counts; others are superseded. A run looks for a higher mark before it gives a checkpoint its name, and before it
//! decides to publish its outputs, and ends if there is one. It looks again when the checkpoint has its name, before that counts,
//! and when it has read what it begins with; with a lock it removes a name that it was too late to give. Where there is no lock and marks cannot be read, no checkpoint counts, and nothing is published or removed.
//!
//! **Without a lock, checkpoints are numbered by runs** ([`Mark::first`]). A run that is stopped after its look, or whose request
//! arrives late, may give a checkpoint its name after a later run has begun. It does not count for the run that has written it, and
//! its number is below all those of the later run. So the next run begins with it only if the later one has written none:
//! then nothing else goes on from what the later one began with, unless that one was held up in turn (decision 48 has what stays
//! open). Such a checkpoint must not be removed either, as the later run may
//! have begun with it, and committed what it has prepared. Only where the job has [ended well](Mark::end) in the later run is it
//! removed.
//!
//! What stays is a race: a run that is stopped between its look and what it does next, for as long as the start of another one
//! takes, does that all the same. It may give names to its files. In a directory of a file system whose locks do not work it may
//! leave one more checkpoint if it is stopped for ever, which the other one could begin with if it is interrupted before its own
//! next checkpoint. A file system that shows hosts the names in a directory late widens the race by that time.

use super::Store;
use super::folder::{Folder, TEMPORARY, unique};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::fault::{Fault, is_planted};
use std::collections::BTreeSet;
use std::io;

/// How the names of marks begin; a number of ten digits, or more, follows.
const MARK: &str = "run-";
/// What the name of a mark is followed by where checkpoints of earlier runs are not needed any more.
const ENDED: &str = "-ended";
/// How many numbers the checkpoints of one run have: at one a second, those of thirty years.
const NUMBERS: u64 = 1_000_000_000;

/// The mark of a run of a job.
pub(super) struct Mark {
    number: u64,
    /// What its file has: if the directory was removed, another run has a mark with this number.
    token: String,
}

impl Mark {
    /// The mark of a run that begins now, above those of the runs that have numbered the checkpoints which are there: they may
    /// be copies from elsewhere.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(super) fn next(folder: &dyn Folder) -> Result<Self> {
        let failed = |cause| Error::io(folder.path(), "write the mark of a run", cause);
        loop {
            let last = marks(folder).map_err(failed)?.last().copied().unwrap_or_default();
            let newest = Store::numbers(folder)?.last().copied().unwrap_or_default();
            let number = last.max(newest / NUMBERS) + 1;
            let token = unique(TEMPORARY, 16).map_err(failed)?;
            match folder.create(&name_of(number), &[token.as_bytes()], &mut || true) {
                Ok(_) => {
                    // The runs of these are superseded, also without them.
                    for old in marks(folder).map_err(failed)?.range(..number) {
                        let _ = folder.remove(&name_of(*old));
                    }
                    return Ok(Self { number, token });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Why this run must write no checkpoint any more and publish nothing, if another one has begun since, as far as that shows:
    /// where the folder cannot be read it is not known. One without any mark was emptied, and by no run.
    pub(super) fn superseded(&self, folder: &dyn Folder) -> Option<Error> {
        self.look(folder).ok().flatten()
    }

    /// As [`superseded`](Self::superseded).
    ///
    /// # Errors
    ///
    /// If that is not known.
    pub(super) fn look(&self, folder: &dyn Folder) -> io::Result<Option<Error>> {
        if is_planted(Fault::LooksAtNoMarks) {
            return Ok(None);
        }
        let Some(newest) = marks(folder)?.last().copied() else { return Ok(None) };
        let is_own = newest == self.number
            && match folder.read(&name_of(self.number)) {
                Ok(found) => found == self.token.as_bytes(),
                Err(cause) if cause.kind() == io::ErrorKind::NotFound => false,
                Err(cause) => return Err(cause),
            };
        // Of a kind with which no launcher starts the program again: two of them would end each other's for ever.
        let what = "another run of this job has begun with the checkpoints in this directory, so this one ends, and publishes \
                    nothing";
        let place = || Place::File(folder.path().to_owned());
        Ok((!is_own).then(|| Error::new(ErrorKind::Config, what).at(place())))
    }

    /// The number after which those of this run's checkpoints follow. It is above those of all runs before it, also of
    /// checkpoints that get their names later.
    pub(super) fn first(&self) -> u64 {
        self.number.saturating_mul(NUMBERS)
    }

    /// The job has ended well, or a tool changes what is there: one to which an earlier run gives a name later must not be what
    /// the job begins with when it is run again.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub(super) fn end(&self, folder: &dyn Folder) -> Result<()> {
        let failed = |cause| Error::io(folder.path(), "write that the job has ended", cause);
        let own = format!("{}{ENDED}", name_of(self.number));
        match folder.create(&own, &[self.token.as_bytes()], &mut || true) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        for name in folder.names().map_err(failed)? {
            if ended(&name).is_some_and(|number| number < self.number) {
                let _ = folder.remove(&name);
            }
        }
        Ok(())
    }

    /// Whether a later run has [ended](Self::end) well.
    ///
    /// # Errors
    ///
    /// If that is not known.
    pub(super) fn has_ended_since(&self, folder: &dyn Folder) -> io::Result<bool> {
        Ok(folder.names()?.iter().filter_map(|name| ended(name)).any(|number| number > self.number))
    }

    /// Checks that the folder refuses to create what is there, on which everything rests: some servers replace it.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub(super) fn check_creation(&self, folder: &dyn Folder) -> Result<()> {
        let failed = |cause| Error::io(folder.path(), "write the mark of a run", cause);
        let other = unique(TEMPORARY, 16).map_err(failed)?;
        match folder.create(&name_of(self.number), &[other.as_bytes()], &mut || true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(failed(error)),
            Ok(_) => {
                let what = "this object store replaces objects where it is to create them (it ignores `If-None-Match: *`), so that \
                            two runs of a job could not be told apart: checkpoints cannot be there";
                let place = Place::File(folder.path().to_owned());
                Err(Error::new(ErrorKind::Config, what).at(place))
            }
        }
    }
}

fn name_of(number: u64) -> String {
    format!("{MARK}{number:010}")
}

fn ended(name: &str) -> Option<u64> {
    name.strip_prefix(MARK)?.strip_suffix(ENDED)?.parse().ok()
}

/// The numbers of the marks in a folder.
fn marks(folder: &dyn Folder) -> io::Result<BTreeSet<u64>> {
    let names = folder.names()?;
    Ok(names.iter().filter_map(|name| name.strip_prefix(MARK)?.parse().ok()).collect())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::checkpoint::folder::{Directory, of_each_kind};

    #[test]
    fn the_last_run_to_begin_is_the_one_that_counts() {
        of_each_kind(|folder| {
            let run = || Mark::next(&**folder).unwrap();
            let is_over = |run: &Mark| run.superseded(&**folder).is_some();
            let marked = || marks(&**folder).unwrap().into_iter().collect::<Vec<_>>();
            let first = run();
            assert!(!is_over(&first));
            let second = run();
            assert_eq!(marked(), [2], "the mark of a run that is superseded is not needed");
            assert!(is_over(&first) && !is_over(&second));
            // The folder is emptied: other runs have lower numbers then, or the same.
            folder.remove(&name_of(2)).unwrap();
            assert!(!is_over(&second));
            let third = run();
            assert_eq!(marked(), [1]);
            assert!(is_over(&second) && !is_over(&third));
            let fourth = run();
            assert_eq!(marked(), [2]);
            assert!(is_over(&second) && is_over(&third) && !is_over(&fourth));
            // Where nothing can be read, nothing is known.
            let elsewhere = Directory::at(&folder.path().join("elsewhere"));
            assert!(fourth.superseded(&*elsewhere).is_none());
        });
    }

    #[test]
    fn a_folder_must_refuse_to_create_what_is_there() {
        of_each_kind(|folder| {
            let mark = Mark::next(&**folder).unwrap();
            mark.check_creation(&**folder).unwrap();
            assert!(mark.superseded(&**folder).is_none());
            // As one that does not: what is to be created is not there.
            folder.remove(&name_of(mark.number)).unwrap();
            let error = mark.check_creation(&**folder).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains("If-None-Match"), "{error}");
        });
    }

    #[test]
    fn runs_that_begin_at_the_same_time_have_marks_of_their_own() {
        of_each_kind(|folder| {
            let begin = || Mark::next(&**folder).unwrap().number;
            let numbers: Vec<_> = std::thread::scope(|scope| {
                let begun: Vec<_> = (0..8).map(|_| scope.spawn(begin)).collect();
                begun.into_iter().map(|run| run.join().unwrap()).collect()
            });
            let newest = numbers.iter().max();
            assert_eq!(marks(&**folder).unwrap().last(), newest);
            assert_eq!(numbers.iter().filter(|number| Some(*number) == newest).count(), 1);
        });
    }
}
