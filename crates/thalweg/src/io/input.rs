//! The files of a source, and how its tasks share them.

use super::files::{InputFile, Split, expand_inputs, largest_first, plan_splits};
use crate::error::Result;
use crate::memory::Reservation;
use crate::metrics::Total;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One or several inputs: each a file, a directory or a glob.
///
/// A directory stands for every file below it that is not hidden, a glob (`*`, `?`, `[a-z]`, `**`)
/// for what it matches; see [`expand_inputs`] for the rules. Strings, paths, and vectors, arrays
/// and slices of them are `Paths`.
pub trait Paths {
    /// The inputs as a list.
    fn into_paths(self) -> Vec<PathBuf>;
}

macro_rules! one_path {
    ($($type:ty),*) => {
        $(impl Paths for $type {
            fn into_paths(self) -> Vec<PathBuf> {
                vec![self.into()]
            }
        })*
    };
}

one_path!(&str, String, &String, &Path, PathBuf, &PathBuf, &OsStr, OsString);

impl<P: AsRef<Path>> Paths for Vec<P> {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

impl<P: AsRef<Path>> Paths for &Vec<P> {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

impl<P: AsRef<Path>> Paths for &[P] {
    fn into_paths(self) -> Vec<PathBuf> {
        self.iter().map(|path| path.as_ref().to_owned()).collect()
    }
}

impl<P: AsRef<Path>, const N: usize> Paths for [P; N] {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

impl<P: AsRef<Path>, const N: usize> Paths for &[P; N] {
    fn into_paths(self) -> Vec<PathBuf> {
        self.as_slice().into_paths()
    }
}

/// For plans: the inputs as the program names them.
pub(super) fn describe(paths: &[PathBuf]) -> String {
    let names: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
    names.join(", ")
}

/// How a source divides its files among tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    /// Into ranges of about this many bytes; chosen by the amount of input where there is none.
    Ranges(Option<u64>),
    /// Into whole files.
    Files,
}

/// A source's inputs. Nothing is looked at before the first task is made.
pub struct Inputs {
    paths: Vec<PathBuf>,
    division: Division,
    queue: Mutex<Option<Arc<SplitQueue>>>,
}

/// What the tasks of a source take their work from.
pub struct SplitQueue {
    pub(super) files: Vec<InputFile>,
    splits: Vec<Split>,
    next: AtomicUsize,
}

/// The smallest and the largest range, unless the program says how large they are to be. Opening
/// one costs some microseconds; reading the largest takes a few milliseconds.
const RANGE: (u64, u64) = (256 << 10, 8 << 20);
/// So many ranges a task, so that the last ones to end do so at about the same time.
const RANGES_PER_TASK: u64 = 8;

impl Inputs {
    pub(super) fn new(paths: Vec<PathBuf>, division: Division) -> Self {
        Self { paths, division, queue: Mutex::new(None) }
    }

    /// The queue, shared by `tasks` tasks; the first call lists the files.
    pub(super) fn open(&self, tasks: usize) -> Result<Arc<SplitQueue>> {
        let mut queue = lock(&self.queue);
        if let Some(queue) = &*queue {
            return Ok(Arc::clone(queue));
        }
        let files = expand_inputs(&self.paths)?;
        let split_bytes = match self.division {
            Division::Files => u64::MAX,
            Division::Ranges(Some(bytes)) => bytes,
            Division::Ranges(None) => {
                let all: u64 = files.iter().map(|file| file.bytes).sum();
                (all / (tasks as u64 * RANGES_PER_TASK)).clamp(RANGE.0, RANGE.1)
            }
        };
        let mut splits = plan_splits(&files, split_bytes);
        if tasks > 1 {
            largest_first(&files, &mut splits);
        }
        let made = Arc::new(SplitQueue { files, splits, next: AtomicUsize::new(0) });
        *queue = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl SplitQueue {
    /// What task number `task` adds to the bytes that there are to read: all of them, as the first,
    /// since it is not settled beforehand which task reads what. Unknown where no file says its
    /// size.
    pub(super) fn total(&self, task: usize) -> Option<Total> {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        (bytes > 0).then_some(Total::Bytes(if task == 0 { bytes } else { 0 }))
    }

    /// The next piece of work.
    pub(super) fn take(&self) -> Option<(&InputFile, Split)> {
        let at = self.next.fetch_add(1, Ordering::Relaxed);
        let split = *self.splits.get(at)?;
        Some((&self.files[split.file], split))
    }
}

/// Reserves what a reader's buffers take.
pub(super) fn hold(reservation: &mut Reservation, bytes: usize) -> Result<()> {
    if reservation.bytes() == bytes || reservation.try_resize(bytes) {
        return Ok(());
    }
    let limit = reservation.pool().limit();
    let what =
        format!("a read buffer of {bytes} bytes does not fit into the memory budget of {limit}");
    Err(reservation.refused(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_together_know_how_much_there_is() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        for (name, bytes) in [("a.txt", 10), ("b.txt", 0), ("c.txt", 32)] {
            std::fs::write(folder.path().join(name), vec![b'x'; bytes]).expect("a file");
        }
        let inputs = Inputs::new(folder.path().into_paths(), Division::Files);
        let queue = inputs.open(3)?;
        let totals: Vec<_> = (0..3).map(|task| queue.total(task)).collect();
        assert_eq!(totals, [42, 0, 0].map(|bytes| Some(Total::Bytes(bytes))));
        let nothing = Inputs::new(folder.path().join("b.txt").into_paths(), Division::Files);
        assert_eq!(nothing.open(1)?.total(0), None);
        Ok(())
    }
}
