//! The files of a source, and their division among its tasks.
//!
//! In a stage with event time, each file is a partition (see [`Partitions`]): its pieces are read in order, and the
//! next file to read is the one whose event time is furthest behind.

use super::files::{InputFile, Split, expand_inputs, largest_first, plan_splits};
use crate::error::Result;
use crate::flow::Partitions;
use crate::memory::Reservation;
use crate::metrics::Total;
use crate::plan::TaskContext;
use crate::stream::Produced;
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One or several inputs: each a file, a directory or a glob.
///
/// A directory stands for every file below it that is not hidden, a glob (`*`, `?`, `[a-z]`, `**`) for its matches;
/// see [`expand_inputs`] for the rules. Strings, paths, and vectors, arrays and slices of them are `Paths`.
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

/// The division of a source's files among tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Division {
    /// Into ranges of about this many bytes; `None` derives the size from the amount of input.
    Ranges(Option<u64>),
    /// Into whole files.
    Files,
}

/// A source's inputs. The file system is not accessed before the first task is made.
pub struct Inputs {
    paths: Vec<PathBuf>,
    division: Division,
    queue: Mutex<Option<Arc<SplitQueue>>>,
}

/// The queue from which the tasks of a source take splits.
pub struct SplitQueue {
    pub(super) files: Vec<InputFile>,
    order: Order,
}

/// The order in which splits are read.
enum Order {
    /// The order of the list.
    Listed { splits: Vec<Split>, next: AtomicUsize },
    /// In order within a file; between files, the one that is furthest behind in event time first.
    Timed { pieces: Mutex<Vec<VecDeque<Split>>>, partitions: Arc<Partitions> },
}

/// The smallest and the largest range in bytes, unless the program sets the size. Opening one costs some
/// microseconds; reading the largest takes a few milliseconds.
const RANGE: (u64, u64) = (256 << 10, 8 << 20);
/// With event time and several files, the bytes at the beginning of each file that are read before all else.
const BEGINNING: u64 = 16 << 10;
/// Ranges per task, so that the tasks end at about the same time.
const RANGES_PER_TASK: u64 = 8;

impl Inputs {
    pub(super) fn new(paths: Vec<PathBuf>, division: Division) -> Self {
        Self { paths, division, queue: Mutex::new(None) }
    }

    /// The queue, shared by the source's tasks; the first call lists the files.
    pub(super) fn open(&self, cx: &TaskContext<'_>) -> Result<Arc<SplitQueue>> {
        self.open_for(cx.tasks, cx.partitions)
    }

    fn open_for(&self, tasks: usize, partitions: &Arc<Partitions>) -> Result<Arc<SplitQueue>> {
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
        let order = if partitions.is_timed() {
            let pieces = by_file(&files, splits, self.division);
            partitions.open(pieces.iter().map(VecDeque::len));
            Order::Timed { pieces: Mutex::new(pieces), partitions: Arc::clone(partitions) }
        } else {
            if tasks > 1 {
                largest_first(&files, &mut splits);
            }
            Order::Listed { splits, next: AtomicUsize::new(0) }
        };
        let made = Arc::new(SplitQueue { files, order });
        *queue = Some(Arc::clone(&made));
        Ok(made)
    }
}

impl SplitQueue {
    /// This task's share of the total bytes to read: all of them for the first task, since it is not known beforehand
    /// which task reads what. `None` if no file reports its size.
    pub(super) fn total(&self, task: usize) -> Option<Total> {
        let bytes: u64 = self.files.iter().map(|file| file.bytes).sum();
        (bytes > 0).then_some(Total::Bytes(if task == 0 { bytes } else { 0 }))
    }

    /// The next piece of work for a task.
    pub(super) fn take(&self, task: usize) -> Option<(&InputFile, Split)> {
        let split = match &self.order {
            Order::Listed { splits, next } => *splits.get(next.fetch_add(1, Ordering::Relaxed))?,
            Order::Timed { pieces, partitions } => {
                // Under one lock, so that pieces of a file are begun in order.
                let mut pieces = lock(pieces);
                pieces.get_mut(partitions.begin(task)?)?.pop_front()?
            }
        };
        Some((self.files.get(split.file)?, split))
    }

    /// What `Source::produce` returns after taking a split, before it pushes records.
    pub(super) fn entered(&self, split: Split) -> Produced {
        match self.order {
            Order::Listed { .. } => Produced::Some,
            Order::Timed { .. } => Produced::Partition(Some(split.file)),
        }
    }

    /// What `Source::produce` returns at the end of a split, without having pushed records.
    pub(super) fn left(&self) -> Produced {
        match self.order {
            Order::Listed { .. } => Produced::Some,
            Order::Timed { .. } => Produced::Partition(None),
        }
    }

    /// Whether a task that has read the beginning of a file, which is a single split, should [put
    /// back](Self::put_back) the rest.
    pub(super) fn beginning_is_enough(&self, split: Split) -> bool {
        matches!(self.order, Order::Timed { .. }) && self.files.len() > 1 && split.start == 0
    }

    /// Puts back the rest of a split that a task stops reading.
    pub(super) fn put_back(&self, rest: Split) {
        if let Order::Timed { pieces, partitions } = &self.order {
            let mut pieces = lock(pieces);
            if let Some(pieces) = pieces.get_mut(rest.file) {
                pieces.push_front(rest);
                partitions.put_back(rest.file);
            }
        }
    }
}

/// The splits of each file. With several files, the beginning of each is a split of its own where possible.
fn by_file(files: &[InputFile], splits: Vec<Split>, division: Division) -> Vec<VecDeque<Split>> {
    let mut pieces = vec![VecDeque::new(); files.len()];
    for split in splits {
        pieces[split.file].push_back(split);
    }
    if files.len() > 1 && division != Division::Files {
        for (file, pieces) in files.iter().zip(&mut pieces) {
            // A compressed file that is cut must not look like one that is not.
            let cut = file.bytes > BEGINNING;
            let Some(first) = cut.then(|| pieces.pop_front()).flatten() else { continue };
            let (beginning, rest) = first.cut(file, BEGINNING);
            rest.into_iter().for_each(|rest| pieces.push_front(rest));
            pieces.push_front(beginning);
        }
    }
    pieces
}

/// Reserves the memory of a reader's buffers.
pub(super) fn hold(reservation: &mut Reservation, bytes: usize) -> Result<()> {
    if reservation.bytes() == bytes || reservation.try_resize(bytes) {
        return Ok(());
    }
    let limit = reservation.pool().limit();
    let what = format!(
        "a read buffer of {bytes} bytes does not fit into the memory budget of {limit}; on \
         fewer cores there are fewer"
    );
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
        let untimed = Arc::default();
        let queue = inputs.open_for(3, &untimed)?;
        let totals: Vec<_> = (0..3).map(|task| queue.total(task)).collect();
        assert_eq!(totals, [42, 0, 0].map(|bytes| Some(Total::Bytes(bytes))));
        let nothing = Inputs::new(folder.path().join("b.txt").into_paths(), Division::Files);
        assert_eq!(nothing.open_for(1, &untimed)?.total(0), None);
        Ok(())
    }
}
