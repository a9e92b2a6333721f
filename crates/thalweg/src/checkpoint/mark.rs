//! The marks of the runs of a job, by which a run finds that another one has begun with its checkpoints.
//!
//! Where a file system has no locks, or does not share them among hosts, and in an object store, two runs of a job may both believe that a directory of
//! checkpoints is theirs: a host that was cut off goes on while its job was started again elsewhere. So each run makes a file, its
//! mark, with the next free number, before it reads the checkpoint that it begins with. The run with the highest mark is the one
//! that counts; others are superseded. A run looks for a higher mark before it gives a checkpoint its name, and before it
//! decides to publish its outputs, and ends if there is one. It looks again when the checkpoint has its name, and removes it then.
//! Where there is no lock and marks cannot be read, no checkpoint counts, and nothing is published or removed.
//!
//! What stays is a race: a run that is stopped between its look and what it does next, for as long as the start of another one
//! takes, does that all the same. It may give names to its files, or leave one more checkpoint if it is stopped for ever, which the
//! other one could begin with if it is interrupted before its own next checkpoint. A file system that shows hosts the names in a
//! directory late widens the race by that time.

use super::folder::{Folder, TEMPORARY, unique};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::fault::{Fault, is_planted};
use std::collections::BTreeSet;
use std::io;

/// How the names of marks begin; a number of ten digits, or more, follows.
const MARK: &str = "run-";

/// The mark of a run of a job.
pub(super) struct Mark {
    number: u64,
    /// What its file has: if the directory was removed, another run has a mark with this number.
    token: String,
}

impl Mark {
    /// The mark of a run that begins now.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(super) fn next(folder: &dyn Folder) -> Result<Self> {
        let failed = |cause| Error::io(folder.path(), "write the mark of a run", cause);
        loop {
            let number = marks(folder).map_err(failed)?.last().map_or(1, |last| last + 1);
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
