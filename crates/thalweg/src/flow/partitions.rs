//! The watermarks of a source's partitions, where tasks read the partitions in turn.
//!
//! A task must not send a watermark that makes the records of files still to be read late. So every task sends the
//! minimum over all partitions that have not been read to their end, whichever task reads them. A partition that has
//! not been begun has no watermark, and as long as there is one, no watermark is sent.
//!
//! A partition (a file) is read in pieces (ranges of the file), which are begun in order and read by several tasks at
//! once. Its watermark is the minimum over the pieces being read, once the first of them has a watermark: records of
//! later pieces are assumed not to be behind it. The next piece to be read is of the partition with the least
//! watermark, so that partitions advance together.
//!
//! The watermarks of files are saved by the first of this host's tasks that a barrier reaches: what the others have read until
//! then came before that barrier, and what they read when it has passed them is not in what they save. So no watermark in a
//! checkpoint is ahead of it.

use super::Epoch;
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use crate::time::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// The partitions of the source that a stage begins with. Empty where each task of the source tracks its own
/// watermark.
#[derive(Default)]
pub(crate) struct Partitions {
    /// Whether an operator of the stage generates watermarks.
    timed: AtomicBool,
    state: Mutex<State>,
    /// Of the splits that tasks of this host read, by number.
    split_names: Mutex<BTreeMap<usize, String>>,
    /// Whether each task reads on what it has read before the checkpoint that the job began with.
    keeps_tasks: AtomicBool,
}

impl Partitions {
    /// Notes that an operator of the stage generates watermarks. Called before the source is opened.
    pub(crate) fn expect_watermarks(&self) {
        self.timed.store(true, Ordering::Release);
    }

    /// Whether the source must send [`Event::Partition`].
    pub(crate) fn is_timed(&self) -> bool {
        self.timed.load(Ordering::Acquire)
    }

    /// Notes what a split is called in messages.
    pub(crate) fn name_split(&self, split: usize, name: String) {
        lock(&self.split_names).insert(split, name);
    }

    /// What a split is called, if it has a name.
    pub(crate) fn split_name(&self, split: usize) -> Option<String> {
        lock(&self.split_names).get(&split).cloned()
    }

    /// Notes that each task reads on what it has read before the checkpoint that the job began with.
    pub(crate) fn keep_tasks(&self) {
        self.keeps_tasks.store(true, Ordering::Release);
    }

    /// Whether each task does so.
    pub(crate) fn keeps_tasks(&self) -> bool {
        self.keeps_tasks.load(Ordering::Acquire)
    }

    /// Sets the file of each partition, and the number of its pieces.
    pub(crate) fn open(&self, files: impl Iterator<Item = (PathBuf, usize)>) {
        lock(&self.state).open(files);
    }

    /// Adds watermarks of files from a checkpoint. Called before the source is opened.
    pub(crate) fn restore(&self, files: impl Iterator<Item = (PathBuf, Timestamp)>) {
        let mut state = lock(&self.state);
        for (path, at) in files {
            let watermark = state.before.entry(path).or_insert(at);
            *watermark = at.max(*watermark);
        }
    }

    /// The watermarks of files at a barrier, for the first task of this host that it reaches, and none for the others.
    pub(crate) fn at_barrier(&self, epoch: Epoch) -> Vec<(PathBuf, Timestamp)> {
        lock(&self.state).at_barrier(epoch)
    }

    /// Assigns the next piece to a task: of the partition with the least watermark among those with pieces left.
    /// Returns the partition, or `None` if no piece is left.
    pub(crate) fn begin(&self, task: usize) -> Option<usize> {
        lock(&self.state).begin(task)
    }

    /// Adds a piece to a partition: the rest of one that a task stops reading.
    pub(crate) fn put_back(&self, partition: usize) {
        lock(&self.state).update(partition, |of| of.pieces += 1);
    }

    /// Records the watermark of the task that reads a piece of this partition; returns the watermark of the source.
    pub(crate) fn advance(
        &self,
        partition: usize,
        task: usize,
        watermark: Option<Timestamp>,
    ) -> Option<Timestamp> {
        let mut state = lock(&self.state);
        state.update(partition, |of| of.advance(task, watermark, false));
        state.watermark()
    }

    /// The piece that a task reads has no records for now: it does not hold back the watermark.
    pub(crate) fn idle(&self, partition: usize, task: usize) {
        lock(&self.state).update(partition, |of| of.advance(task, None, true));
    }

    /// A task has read its piece of this partition to the end. The first, if it has begun another one: an operator before the one that
    /// generates watermarks may hold records back.
    pub(crate) fn end(&self, partition: usize, task: usize, watermark: Option<Timestamp>) {
        lock(&self.state).update(partition, |of| {
            of.advance(task, watermark, false);
            if let Some(at) = of.readers.iter().position(|reader| reader.task == task) {
                of.readers.remove(at);
            }
            of.settle();
        });
    }
}

/// The state of [`Partitions`], under its lock.
#[derive(Default)]
struct State {
    partitions: Vec<Partition>,
    /// The file of each.
    paths: Vec<PathBuf>,
    /// The watermarks of files in the checkpoint that the job began with.
    before: BTreeMap<PathBuf, Timestamp>,
    /// The last barrier at which they were saved.
    saved: Epoch,
    /// The partitions that hold back the watermark of the source, ordered by their own watermark.
    holding: BTreeSet<(Option<Timestamp>, usize)>,
    /// The partitions with pieces still to be read, ordered by watermark, then by the number of their readers.
    waiting: BTreeSet<(Option<Timestamp>, usize, usize)>,
}

#[derive(Debug, Default)]
struct Partition {
    watermark: Option<Timestamp>,
    /// The number of pieces whose reading has not begun.
    pieces: usize,
    /// Ordered by piece.
    readers: Vec<Reader>,
}

#[derive(Debug)]
struct Reader {
    task: usize,
    watermark: Option<Timestamp>,
    idle: bool,
}

impl State {
    fn open(&mut self, files: impl Iterator<Item = (PathBuf, usize)>) {
        for (partition, (path, pieces)) in files.enumerate() {
            let watermark = self.before.get(&path).copied();
            self.partitions.push(Partition::default());
            self.paths.push(path);
            self.update(partition, |of| (of.pieces, of.watermark) = (pieces, watermark));
        }
    }

    fn at_barrier(&mut self, epoch: Epoch) -> Vec<(PathBuf, Timestamp)> {
        if epoch <= self.saved {
            return Vec::new();
        }
        self.saved = epoch;
        // Files of other hosts may not be open there yet.
        let mut files = self.before.clone();
        for (path, of) in self.paths.iter().zip(&self.partitions) {
            match of.watermark {
                Some(at) if of.pieces > 0 || !of.readers.is_empty() => {
                    files.insert(path.clone(), at);
                }
                _ => {
                    files.remove(path);
                }
            }
        }
        files.into_iter().collect()
    }

    fn begin(&mut self, task: usize) -> Option<usize> {
        let (_, _, partition) = *self.waiting.first()?;
        self.update(partition, |of| {
            of.pieces -= 1;
            of.readers.push(Reader { task, watermark: None, idle: false });
        });
        Some(partition)
    }

    /// Changes a partition, and reorders it in both sets.
    fn update(&mut self, partition: usize, change: impl FnOnce(&mut Partition)) {
        let Some(of) = self.partitions.get_mut(partition) else { return };
        self.holding.remove(&(of.watermark, partition));
        self.waiting.remove(&(of.watermark, of.readers.len(), partition));
        change(of);
        if of.holds() {
            self.holding.insert((of.watermark, partition));
        }
        if of.pieces > 0 {
            self.waiting.insert((of.watermark, of.readers.len(), partition));
        }
    }

    fn watermark(&self) -> Option<Timestamp> {
        self.holding.first()?.0
    }
}

impl Partition {
    fn advance(&mut self, task: usize, watermark: Option<Timestamp>, idle: bool) {
        if let Some(reader) = self.readers.iter_mut().find(|reader| reader.task == task) {
            reader.idle = idle;
            reader.watermark = reader.watermark.max(watermark);
        }
        self.settle();
    }

    /// Raises the watermark to the minimum of the readers', unless the first reader has none.
    fn settle(&mut self) {
        let mut busy =
            self.readers.iter().filter(|reader| !reader.idle).map(|reader| reader.watermark);
        if let Some(first) = busy.next().flatten() {
            let least = busy.flatten().fold(first, Timestamp::min);
            self.watermark = self.watermark.max(Some(least));
        }
    }

    /// Whether the partition holds back the watermark of the source.
    fn holds(&self) -> bool {
        match &*self.readers {
            [] => self.pieces > 0,
            readers => readers.iter().any(|reader| !reader.idle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Option<Timestamp> {
        Some(Timestamp::from_micros(micros))
    }

    fn files(pieces: &[usize]) -> impl Iterator<Item = (PathBuf, usize)> {
        pieces.iter().enumerate().map(|(file, pieces)| (PathBuf::from(file.to_string()), *pieces))
    }

    fn partitions(pieces: &[usize]) -> Partitions {
        let partitions = Partitions::default();
        partitions.open(files(pieces));
        partitions
    }

    #[test]
    fn partitions_not_begun_hold_back_the_watermark() {
        let all = partitions(&[1, 1, 1]);
        assert_eq!([all.begin(0), all.begin(1)], [Some(0), Some(1)]);
        assert_eq!(all.advance(0, 0, at(5)), None);
        assert_eq!(all.advance(1, 1, at(3)), None);
        all.end(1, 1, at(4));
        assert_eq!(all.begin(1), Some(2));
        assert_eq!(all.advance(0, 0, at(6)), None);
        assert_eq!(all.advance(2, 1, at(7)), at(6), "the ended partition holds nothing back");
        all.end(0, 0, at(9));
        assert_eq!(all.advance(2, 1, at(8)), at(8));
        assert_eq!(all.begin(0), None);
    }

    #[test]
    fn the_partition_with_the_least_watermark_is_read_next() {
        let all = partitions(&[2, 2]);
        assert_eq!([all.begin(0), all.begin(1)], [Some(0), Some(1)], "the beginning of each first");
        all.end(0, 0, at(10));
        all.end(1, 1, at(5));
        assert_eq!(all.begin(0), Some(1), "it has the least watermark");
        assert_eq!(all.begin(1), Some(0));
        assert_eq!(all.advance(0, 1, None), at(5), "its second piece has no watermark yet");
        assert_eq!(
            all.advance(1, 0, at(20)),
            at(10),
            "the piece may begin where the first one ended"
        );
        assert_eq!(all.advance(0, 1, at(30)), at(20));
    }

    #[test]
    fn several_tasks_may_read_one_partition() {
        let all = partitions(&[3]);
        assert_eq!([all.begin(0), all.begin(1)], [Some(0), Some(0)]);
        assert_eq!(all.advance(0, 1, at(100)), None, "the first piece has no watermark yet");
        assert_eq!(all.advance(0, 0, at(7)), at(7));
        all.end(0, 1, at(150));
        assert_eq!(all.begin(1), Some(0));
        assert_eq!(
            all.advance(0, 0, at(9)),
            at(9),
            "the first is not at its end, the second has none"
        );
        all.end(0, 0, at(99));
        assert_eq!(all.advance(0, 1, None), at(99));
        assert_eq!(all.advance(0, 1, at(200)), at(200));
    }

    #[test]
    fn a_task_may_begin_a_piece_before_the_records_of_another_have_arrived() {
        let all = partitions(&[2]);
        assert_eq!([all.begin(0), all.begin(0)], [Some(0), Some(0)]);
        assert_eq!(all.advance(0, 0, at(5)), at(5));
        all.end(0, 0, at(9));
        assert_eq!(all.advance(0, 0, at(8)), at(9), "the second piece is still read");
        assert_eq!(all.advance(0, 0, at(20)), at(20));
        all.end(0, 0, at(30));
        assert_eq!(all.advance(0, 0, at(40)), None, "nothing is");
    }

    #[test]
    fn idle_partitions_hold_back_no_watermark() {
        let all = partitions(&[1, 1]);
        assert_eq!([all.begin(0), all.begin(1)], [Some(0), Some(1)]);
        all.advance(0, 0, at(1));
        assert_eq!(all.advance(1, 1, at(50)), at(1));
        all.idle(0, 0);
        assert_eq!(all.advance(1, 1, at(60)), at(60));
        assert_eq!(all.advance(0, 0, at(2)), at(2));
    }

    #[test]
    fn a_piece_put_back_is_read_later() {
        let all = partitions(&[1]);
        assert_eq!(all.begin(0), Some(0));
        all.put_back(0);
        all.end(0, 0, at(5));
        assert_eq!(all.begin(1), Some(0));
        assert_eq!(all.advance(0, 1, None), at(5));
    }

    #[test]
    fn watermarks_of_files_go_on_as_they_were_when_the_first_task_had_a_barrier() {
        let all = partitions(&[2, 2, 1, 1]);
        assert_eq!([0, 1, 2].map(|task| all.begin(task)), [Some(0), Some(1), Some(2)]);
        all.advance(0, 0, at(5));
        all.advance(1, 1, at(9));
        all.end(2, 2, at(7));
        let saved = all.at_barrier(Epoch(1));
        let named = |watermarks: &[(usize, i64)]| {
            let named = watermarks.iter().map(|(file, micros)| {
                (PathBuf::from(file.to_string()), Timestamp::from_micros(*micros))
            });
            named.collect::<Vec<_>>()
        };
        assert_eq!(saved, named(&[(0, 5), (1, 9)]), "others have ended, or are not begun");
        all.advance(1, 1, at(80));
        assert!(all.at_barrier(Epoch(1)).is_empty(), "this is of what comes behind the barrier");
        let next = Partitions::default();
        next.restore(saved.into_iter().chain(named(&[(7, 3)])));
        next.open(files(&[2, 1, 0, 0]));
        assert_eq!(next.begin(0), Some(0), "it is furthest behind");
        assert_eq!(next.advance(0, 0, None), at(5));
        assert_eq!(next.advance(0, 0, at(3)), at(5));
        assert_eq!(next.advance(0, 0, at(20)), at(9), "the other file is where it was");
        assert_eq!(next.at_barrier(Epoch(1)), named(&[(0, 20), (1, 9), (7, 3)]));
    }
}
