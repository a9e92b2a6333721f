//! The marks of the runs of a job, by which a run finds that another one has begun with its checkpoints.
//!
//! Where a file system has no locks, or does not share them among hosts, and in an object store, two runs of a job may both believe that a directory of
//! checkpoints is theirs: a host that was cut off goes on while its job was started again elsewhere. So each run makes a file, its
//! mark, with the next free number, before it reads the checkpoint that it begins with. The run with the highest mark is the one
//! that counts; others are superseded. A run looks for a higher mark before it gives a checkpoint its name, and before it
//! decides to publish its outputs, and ends if there is one. It looks again when the checkpoint has its name, before that counts;
//! with a lock it removes a name that it was too late to give. Where there is no lock and marks cannot be read, no checkpoint
//! counts, and nothing is published or removed.
//!
//! **Without a lock, each run writes down what it goes on from** ([`Mark::begin`]), and looks once more before it removes or commits
//! anything. A run that is stopped after its look, or whose request arrives late, may give a checkpoint its name after a later run
//! has begun. So each run has [numbers of its own](Mark::first), and of all checkpoints only these count for the next run
//! ([`Counted`]): the one that the last run which has come so far has begun with, older ones that it has found beside it, and those of
//! that run itself. A run that has seen no
//! later one after it wrote that down is known to all later ones. What a run has written that counts was there before the mark of
//! the next one, which therefore finds it. A name that is given later counts for nobody, whoever dies when, and the next run
//! removes it. Where the job has [ended well](Mark::end), none counts.
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
use std::path::Path;

/// How the names of marks begin; a number of ten digits, or more, follows.
const MARK: &str = "run-";
/// What it is followed by where its run says what it has begun with, and where the job has ended in it.
const BEGUN: &str = "-begun";
const ENDED: &str = "-ended";
/// How often what a run has said is looked for, if another one removes it meanwhile.
const LOOKS: usize = 100;
/// How many numbers the checkpoints of one run have: at one a second, those of thirty years.
const NUMBERS: u64 = 1_000_000_000;

/// The mark of a run of a job.
pub(super) struct Mark {
    number: u64,
    /// What its file has: if the directory was removed, another run has a mark with this number.
    token: String,
}

impl Mark {
    /// The mark of a run that begins now, above those of the runs that have numbered the checkpoints which are there.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub(super) fn next(folder: &dyn Folder) -> Result<Self> {
        let failed = |cause| Error::io(folder.path(), "write the mark of a run", cause);
        loop {
            let names = folder.names().map_err(failed)?;
            let last = names.iter().filter_map(|name| run_of(name)).max().unwrap_or_default();
            let newest = Store::all_numbers(&names).last().copied().unwrap_or_default();
            let number = last.max(newest / NUMBERS).checked_add(1);
            let is_left = |number: &u64| {
                number.checked_add(1).is_some_and(|next| next.checked_mul(NUMBERS).is_some())
            };
            let Some(number) = number.filter(is_left) else {
                let what = "the names of checkpoints here have numbers that no run can have given: there is none left for another run";
                let place = Place::File(folder.path().to_owned());
                return Err(Error::new(ErrorKind::Input, what).at(place));
            };
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

    /// The number after which those of this run's checkpoints follow, above all those of earlier runs.
    pub(super) fn first(&self) -> u64 {
        self.number.saturating_mul(NUMBERS)
    }

    /// This run goes on from the last of these checkpoints, or from none: of those that are there, no others count any more, if
    /// no later run has begun. So it must [look](Self::look) before it relies on that. The others are there in case the last
    /// cannot be read. Returns what counts then.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub(super) fn begin(&self, folder: &dyn Folder, begun: Vec<u64>) -> Result<Counted> {
        if is_planted(Fault::SaysNotWhatItBeginsWith) {
            return Ok(Counted::All);
        }
        let said = begun.iter().fold(self.token.clone(), |said, number| format!("{said} {number}"));
        let written = folder.create(&self.name_with(BEGUN), &[said.as_bytes()], &mut || true);
        written.map_err(|cause| {
            Error::io(folder.path(), "write which checkpoint a run goes on from", cause)
        })?;
        self.remove_older(folder, (self.number, false));
        Ok(Counted::Of { begun, first: self.first() })
    }

    /// The job has ended well: when it is run again it begins anew, whatever checkpoint gets its name later.
    ///
    /// # Errors
    ///
    /// If that cannot be written.
    pub(super) fn end(&self, folder: &dyn Folder) -> Result<()> {
        match folder.create(&self.name_with(ENDED), &[self.token.as_bytes()], &mut || true) {
            Err(cause) if cause.kind() != io::ErrorKind::AlreadyExists => {
                Err(Error::io(folder.path(), "write that the job has ended", cause))
            }
            _ => {
                self.remove_older(folder, (self.number, true));
                Ok(())
            }
        }
    }

    fn name_with(&self, what: &str) -> String {
        format!("{}{what}", name_of(self.number))
    }

    /// Removes what runs have said before. One too many does no harm.
    fn remove_older(&self, folder: &dyn Folder, than: (u64, bool)) {
        let names = folder.names().unwrap_or_default();
        let is_older = |name: &&String| said_by(name).is_some_and(|said| said < than);
        folder.remove_all(&mut names.iter().filter(is_older).map(String::as_str));
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
            // Removed by a later run.
            Ok(_) if marks(folder).map_err(failed)?.last() > Some(&self.number) => {
                let superseded = self.look(folder).map_err(failed)?;
                superseded.map_or(Ok(()), Err)
            }
            Ok(_) => {
                let what = "this object store replaces objects where it is to create them (it ignores `If-None-Match: *`), so that \
                            two runs of a job could not be told apart: checkpoints cannot be there";
                let place = Place::File(folder.path().to_owned());
                Err(Error::new(ErrorKind::Config, what).at(place))
            }
        }
    }
}

/// Which checkpoints count for the run that begins next. It goes on from the newest of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// No run has said what it has begun with: there is a lock, or none has come so far.
    All,
    /// Those that the last run has begun with, and its own, which follow this number.
    Of { begun: Vec<u64>, first: u64 },
    /// The job has ended.
    None,
}

impl Counted {
    /// Whether a checkpoint of this number counts.
    pub(super) fn has(&self, number: u64) -> bool {
        match self {
            Self::All => true,
            Self::Of { begun, first } => {
                begun.contains(&number)
                    || number.checked_sub(*first).is_some_and(|n| 0 < n && n < NUMBERS)
            }
            Self::None => false,
        }
    }
}

/// The names in a folder, and which of the checkpoints among them count.
///
/// # Errors
///
/// If the folder cannot be read.
pub(super) fn counted(folder: &dyn Folder) -> Result<(Vec<String>, Counted)> {
    let failed = |path: &Path, cause| Error::io(path, "list the checkpoints", cause);
    let mut looks = 0;
    loop {
        let names = folder.names().map_err(|cause| failed(folder.path(), cause))?;
        let number = match names.iter().filter_map(|name| said_by(name)).max() {
            None => return Ok((names, Counted::All)),
            Some((_, true)) => return Ok((names, Counted::None)),
            Some((number, false)) => number,
        };
        let name = format!("{}{BEGUN}", name_of(number));
        let path = folder.path().join(&name);
        match folder.read(&name) {
            Ok(said) => {
                let Some(begun) = numbers_in(&said) else {
                    let what = "this is to say which checkpoint a run has begun with, and does not";
                    return Err(Error::new(ErrorKind::Input, what).at(Place::File(path)));
                };
                return Ok((names, Counted::Of { begun, first: number.saturating_mul(NUMBERS) }));
            }
            // By a later run, which has said it itself before.
            Err(cause) if cause.kind() == io::ErrorKind::NotFound && looks < LOOKS => looks += 1,
            Err(cause) => return Err(failed(&path, cause)),
        }
    }
}

/// Removes what runs have said: there is a lock, and no checkpoint is left that does not count.
///
/// # Errors
///
/// If some of it is left.
pub(super) fn forget(folder: &dyn Folder) -> Result<()> {
    let failed =
        |cause| Error::io(folder.path(), "remove what runs have said of checkpoints", cause);
    for name in folder.names().map_err(failed)?.iter().filter(|name| said_by(name).is_some()) {
        folder.remove(name).map_err(failed)?;
    }
    Ok(())
}

/// The numbers that a run has said, behind its token.
fn numbers_in(said: &[u8]) -> Option<Vec<u64>> {
    let mut words = std::str::from_utf8(said).ok()?.split(' ').skip(1);
    words.try_fold(Vec::new(), |mut all, word| {
        all.push(word.parse().ok()?);
        Some(all)
    })
}

fn name_of(number: u64) -> String {
    format!("{MARK}{number:010}")
}

/// The run that has said what it has begun with, and whether the job has ended in it.
fn said_by(name: &str) -> Option<(u64, bool)> {
    let (mark, is_ended) = match name.strip_suffix(BEGUN) {
        Some(mark) => (mark, false),
        None => (name.strip_suffix(ENDED)?, true),
    };
    Some((marked(mark)?, is_ended))
}

/// The number of a mark, if this is its name.
fn marked(name: &str) -> Option<u64> {
    let number = name.strip_prefix(MARK)?.parse().ok()?;
    (name_of(number) == name).then_some(number)
}

/// The run that a name belongs to, if it is a mark or what a run has said.
fn run_of(name: &str) -> Option<u64> {
    let said = said_by(name).map(|(number, _)| number);
    said.or_else(|| marked(name))
}

/// The numbers of the marks in a folder.
fn marks(folder: &dyn Folder) -> io::Result<BTreeSet<u64>> {
    let names = folder.names()?;
    Ok(names.iter().filter_map(|name| marked(name)).collect())
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
