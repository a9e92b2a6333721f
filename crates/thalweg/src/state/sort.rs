//! External sort: sorts any number of records within a memory budget.
//!
//! A merge sort: records are collected in memory until the pool refuses more, then sorted and written as a run; at
//! the end all runs are merged. It is stable: runs are numbered in the order of their records, only neighbours are
//! merged, and of equal records the one from the earlier run comes first.
//!
//! A run is never changed, so checkpoints refer to runs as they are. Those of a checkpoint come before all others in the
//! sort of a job that begins with it.

use super::loser_tree::{LoserTree, precedes};
use super::spill::BLOCK;
use super::{ShareReader, SpillDir, SpillShare};
use crate::data::Data;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Reservation;
use std::cmp::Ordering;
use std::mem::{needs_drop, size_of};

/// The number of runs merged at once: each needs a block of 64 KiB in memory.
const FAN_IN: usize = 128;

/// The working memory that is used even if the pool refuses it: with less, runs would be so short that merging them
/// costs more memory than it saves.
const MINIMUM: usize = 256 * 1024;

/// Takes records in any order and returns them in order: [`finish`](Self::finish) turns it into a [`Sorted`].
///
/// Stable: records that compare equal keep the order in which they were pushed. Within the budget it costs as much as
/// `sort_by` on a `Vec`. Beyond it, every record is written to disk and read back once for every factor of 128 in the
/// number of runs.
///
/// Memory is reserved ahead, by doubling: for records, their heap and the scratch space of the sort, and 64 KiB for
/// each of the runs that are merged at once. If the pool has less, fewer runs are merged at once, in more passes. 256
/// KiB are used even if the pool refuses them.
///
/// ```
/// use thalweg::memory::MemoryPool;
/// use thalweg::state::{SpillDir, Sorter};
///
/// let pool = MemoryPool::new(1 << 20);
/// let spill = SpillDir::new(std::env::temp_dir(), "example");
/// let mut sorter = Sorter::new(|a: &u64, b: &u64| a.cmp(b), pool.reserve(), spill);
/// for number in [3, 1, 2] {
///     sorter.push(number)?;
/// }
/// let mut sorted = sorter.finish()?;
/// assert_eq!(sorted.next()?, Some(1));
/// assert_eq!(sorted.next()?, Some(2));
/// assert_eq!(sorted.next()?, Some(3));
/// assert_eq!(sorted.next()?, None);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct Sorter<T: Data, F> {
    records: Vec<T>,
    /// The bytes that the records own on the heap.
    heap: usize,
    /// The number of records, and the bytes of heap, that are reserved.
    room: Room,
    compare: F,
    runs: Vec<SpillShare<T>>,
    /// The hash of a record's key, for runs of which only some hashes count.
    hash: HashOf<T>,
    /// The bytes of all runs.
    spilled: u64,
    reservation: Reservation,
    spill: SpillDir,
    limits: Limits,
}

/// The hash of a record's key.
type HashOf<T> = fn(&T) -> u64;

#[derive(Clone, Copy)]
struct Room {
    records: usize,
    heap: usize,
}

/// Limits that tests make small.
#[derive(Clone, Copy)]
struct Limits {
    fan_in: usize,
    minimum: usize,
}

impl Room {
    /// The bytes to reserve for this room.
    fn bytes<T>(self) -> usize {
        self.records
            .saturating_add(scratch::<T>(self.records))
            .saturating_mul(size_of::<T>())
            .saturating_add(self.heap)
    }
}

/// The number of records that the standard library's stable sort may use as scratch space: as many as it sorts, but
/// no more than half of them or 8 MB, whichever is more.
fn scratch<T>(records: usize) -> usize {
    (records / 2).max(records.min(8_000_000 / size_of::<T>().max(1)))
}

impl<T: Data, F: Fn(&T, &T) -> Ordering> Sorter<T, F> {
    /// An empty sorter, which reserves with `reservation` and spills to `spill`.
    pub fn new(compare: F, reservation: Reservation, spill: SpillDir) -> Self {
        Self {
            records: Vec::new(),
            heap: 0,
            room: Room { records: 0, heap: 0 },
            compare,
            runs: Vec::new(),
            hash: |_| 0,
            spilled: 0,
            reservation,
            spill,
            limits: Limits { fan_in: FAN_IN, minimum: MINIMUM },
        }
    }

    /// Adds a record. If there is no memory for it, first sorts the records in memory and writes them to disk, which
    /// fails with [`ErrorKind::Io`](crate::ErrorKind::Io) when the disk is full or cannot be written.
    #[inline]
    pub fn push(&mut self, record: T) -> Result<()> {
        let heap = if needs_drop::<T>() { record.heap_size() } else { 0 };
        if self.records.len() == self.room.records || self.heap + heap > self.room.heap {
            self.make_room(heap)?;
        }
        self.records.push(record);
        self.heap += heap;
        Ok(())
    }

    /// The number of records added so far.
    pub fn len(&self) -> u64 {
        let on_disk = self.runs.iter().map(|run| run.file.records()).sum::<u64>();
        on_disk + self.records.len() as u64
    }

    /// Whether no record was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of sorted runs on disk.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The bytes written to disk.
    pub fn spilled(&self) -> u64 {
        self.spilled
    }

    /// The sorted runs on disk, and the records in memory, which have come after those.
    pub(crate) fn parts(&self) -> (&[SpillShare<T>], &[T]) {
        (&self.runs, &self.records)
    }

    /// With the hash of a record's key: runs of a checkpoint may have records of keys that are not this sorter's.
    pub(crate) fn hashed_by(mut self, hash: HashOf<T>) -> Self {
        self.hash = hash;
        self
    }

    /// Adds a run of a checkpoint, before any record.
    pub(crate) fn add_run(&mut self, run: SpillShare<T>) {
        self.runs.push(run);
    }

    /// Where it spills to.
    pub(crate) fn spill_dir(&self) -> &SpillDir {
        &self.spill
    }

    /// Spills what is in memory, if the pool is over its budget. Called between batches; fails as
    /// [`push`](Self::push) does.
    pub(crate) fn give_way(&mut self) -> Result<()> {
        if !self.reservation.is_over_budget() {
            return Ok(());
        }
        if !self.records.is_empty() {
            self.spill_run()?;
        }
        (self.records, self.room) = (Vec::new(), Room { records: 0, heap: 0 });
        let _ = self.reservation.try_resize(0);
        Ok(())
    }

    /// Makes room for one more record that owns `heap` bytes: grows, or else spills.
    #[cold]
    fn make_room(&mut self, heap: usize) -> Result<()> {
        let needed = Room { records: self.records.len() + 1, heap: self.heap + heap };
        // If the memory cannot double, a quarter more still avoids a run.
        let grown = |by: fn(usize) -> usize| Room {
            records: if needed.records > self.room.records {
                needed.records.max(by(self.room.records)).max(16)
            } else {
                self.room.records
            },
            heap: if needed.heap > self.room.heap {
                needed.heap.max(by(self.room.heap))
            } else {
                self.room.heap
            },
        };
        for room in [grown(|size| size * 2), grown(|size| size + size / 4)] {
            if self.reservation.try_resize(room.bytes::<T>()) {
                self.grow(room);
                return Ok(());
            }
        }
        if needed.bytes::<T>() > self.limits.minimum && !self.records.is_empty() {
            self.spill_run()?;
            // One large record may exceed the room of the run before it; it is accepted anyway.
            self.room.heap = self.room.heap.max(heap);
            return Ok(());
        }
        let within = grown(|size| size * 2);
        self.grow(if within.bytes::<T>() <= self.limits.minimum { within } else { needed });
        Ok(())
    }

    fn grow(&mut self, room: Room) {
        self.records.reserve_exact(room.records - self.records.len());
        self.room = room;
    }

    fn sort(&mut self) {
        self.records.sort_by(&self.compare);
    }

    /// Writes the records in memory as a run, and keeps their memory for the next.
    fn spill_run(&mut self) -> Result<()> {
        self.sort();
        let mut writer = self.spill.writer();
        for record in self.records.drain(..) {
            writer.push(&record)?;
        }
        self.heap = 0;
        let run = writer.finish()?;
        self.spilled += run.bytes();
        self.runs.push(run.into());
        Ok(())
    }

    /// Ends the input: sorts what is in memory, and merges runs until so few are left that the result can be merged
    /// while it is read.
    ///
    /// Fails as [`push`](Self::push) does.
    pub fn finish(mut self) -> Result<Sorted<T, F>> {
        if self.runs.is_empty() {
            self.sort();
            let Self { records, compare, reservation, spill, .. } = self;
            let state = State::Memory(records.into_iter());
            return Ok(Sorted { state, compare, reservation, blocks: 0, spill, spilled: 0 });
        }
        // The last run stays in memory if there is enough memory beside it for the merge.
        let mut blocks = self.limits.fan_in.min(self.runs.len()) * BLOCK;
        let tail = !self.records.is_empty();
        if tail && !self.reservation.try_resize(self.reservation.bytes() + blocks) {
            self.spill_run()?;
        }
        self.sort();
        let Self { mut records, mut runs, hash, compare, mut reservation, spill, limits, .. } =
            self;
        let mut spilled = self.spilled;
        let mut fan_in = limits.fan_in;
        if records.is_empty() {
            records = Vec::new();
            let _ = reservation.try_resize(0);
            // Fewer runs at once if memory is short, down to the minimum that is always used.
            fan_in = fan_in.min(runs.len()).max(2);
            let least = (limits.minimum / BLOCK).max(2);
            while fan_in > least && !reservation.try_resize(fan_in * BLOCK) {
                fan_in = (fan_in / 2).max(least);
            }
            blocks = reservation.bytes();
        }
        let slots = fan_in - usize::from(!records.is_empty());
        while runs.len() > slots {
            runs = merge_pass((runs, hash), slots, fan_in, &compare, &spill, &mut spilled)?;
        }
        let disk = runs.iter().map(|run| Source::disk(run, hash));
        let memory = (!records.is_empty()).then(|| Source::Memory(records.into_iter()));
        let merge = Merge::new(disk.chain(memory).collect(), &compare)?;
        Ok(Sorted { state: State::Merge(merge), compare, reservation, blocks, spill, spilled })
    }
}

/// Merges neighbouring runs, starting with the first, and no more of them than needed to leave `slots`.
fn merge_pass<T: Data>(
    (runs, hash): (Vec<SpillShare<T>>, HashOf<T>),
    slots: usize,
    fan_in: usize,
    compare: &impl Fn(&T, &T) -> Ordering,
    spill: &SpillDir,
    spilled: &mut u64,
) -> Result<Vec<SpillShare<T>>> {
    let mut excess = runs.len() - slots;
    let mut merged = Vec::new();
    let mut runs = runs.into_iter();
    while excess > 0 {
        let group: Vec<_> = runs.by_ref().take(fan_in.min(excess + 1)).collect();
        if group.len() < 2 {
            merged.extend(group);
            break;
        }
        excess -= group.len() - 1;
        let sources = group.iter().map(|run| Source::disk(run, hash)).collect();
        let mut merge = Merge::new(sources, compare)?;
        let mut writer = spill.writer();
        while let Some(record) = merge.next(compare)? {
            writer.push(&record)?;
        }
        let run = writer.finish()?;
        *spilled += run.bytes();
        merged.push(run.into());
    }
    merged.extend(runs);
    Ok(merged)
}

/// Records in sorted order, read one at a time.
///
/// Its memory and disk space are released when it is dropped.
pub struct Sorted<T: Data, F> {
    state: State<T>,
    compare: F,
    reservation: Reservation,
    /// The part of the reservation that is for blocks of runs on disk.
    blocks: usize,
    spill: SpillDir,
    spilled: u64,
}

enum State<T: Data> {
    Memory(std::vec::IntoIter<T>),
    Merge(Merge<T>),
}

impl<T: Data, F: Fn(&T, &T) -> Ordering> Sorted<T, F> {
    /// The next record; `None` after the last.
    ///
    /// Fails with [`ErrorKind::Io`](crate::ErrorKind::Io) when a run cannot be read back, without losing a record.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an error must end the loop, by `?`")]
    pub fn next(&mut self) -> Result<Option<T>> {
        match &mut self.state {
            State::Memory(records) => Ok(records.next()),
            State::Merge(merge) => merge.next(&self.compare),
        }
    }

    /// The number of records not read yet; in a job that goes on from a checkpoint, there may be fewer.
    pub fn remaining(&self) -> u64 {
        match &self.state {
            State::Memory(records) => records.len() as u64,
            State::Merge(merge) => {
                let heads = merge.heads.iter().flatten().count() as u64;
                heads + merge.sources.iter().map(Source::remaining).sum::<u64>()
            }
        }
    }

    /// The bytes written to disk, by the sort and since.
    pub fn spilled(&self) -> u64 {
        self.spilled
    }

    /// Spills what is in memory, if the pool is over its budget. Called between batches; fails with
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) when the disk is full or cannot be written.
    pub(crate) fn give_way(&mut self) -> Result<()> {
        if self.reservation.bytes() <= self.blocks || !self.reservation.is_over_budget() {
            return Ok(());
        }
        let mut write = |records: &mut std::vec::IntoIter<T>| -> Result<Source<T>> {
            let mut writer = self.spill.writer();
            records.try_for_each(|record| writer.push(&record))?;
            let run = writer.finish()?;
            self.spilled += run.bytes();
            Ok(Source::disk(&run.into(), |_| 0))
        };
        match &mut self.state {
            State::Memory(records) => {
                let run = write(records)?;
                self.state = State::Merge(Merge::new(vec![run], &self.compare)?);
            }
            State::Merge(merge) => {
                for source in &mut merge.sources {
                    if let Source::Memory(records) = source {
                        *source = write(records)?;
                    }
                }
            }
        }
        let _ = self.reservation.try_resize(self.blocks);
        Ok(())
    }

    /// The bytes reserved from the pool.
    pub fn reserved(&self) -> usize {
        self.reservation.bytes()
    }
}

enum Source<T: Data> {
    Disk {
        reader: ShareReader<T>,
        hash: HashOf<T>,
        /// Whether another run of the program has sorted it.
        is_restored: bool,
    },
    Memory(std::vec::IntoIter<T>),
}

impl<T: Data> Source<T> {
    fn disk(run: &SpillShare<T>, hash: HashOf<T>) -> Self {
        Self::Disk { reader: run.read(), hash, is_restored: run.file.is_of_checkpoint() }
    }

    #[inline]
    fn next(&mut self) -> Result<Option<T>> {
        match self {
            Self::Disk { reader, hash, .. } => reader.next(*hash, |record| record),
            Self::Memory(records) => Ok(records.next()),
        }
    }

    /// Whether the order of its records must be checked: the program may have another one now.
    fn is_restored(&self) -> bool {
        matches!(self, Self::Disk { is_restored: true, .. })
    }

    fn remaining(&self) -> u64 {
        match self {
            Self::Disk { reader, .. } => reader.remaining(),
            Self::Memory(records) => records.len() as u64,
        }
    }
}

/// A merge of sorted sources.
struct Merge<T: Data> {
    sources: Vec<Source<T>>,
    heads: Vec<Option<T>>,
    tree: LoserTree,
}

impl<T: Data> Merge<T> {
    fn new(mut sources: Vec<Source<T>>, compare: &impl Fn(&T, &T) -> Ordering) -> Result<Self> {
        let heads = sources.iter_mut().map(Source::next).collect::<Result<Vec<_>>>()?;
        let tree = LoserTree::new(sources.len(), |a, b| precedes(&heads, a, b, compare));
        Ok(Self { sources, heads, tree })
    }

    fn next(&mut self, compare: &impl Fn(&T, &T) -> Ordering) -> Result<Option<T>> {
        let Some(winner) = self.tree.winner() else { return Ok(None) };
        // The successor is read first: if that fails, the record must not be lost.
        let successor = self.sources[winner].next()?;
        if self.sources[winner].is_restored()
            && let (Some(record), Some(successor)) = (&self.heads[winner], &successor)
            && compare(record, successor) == Ordering::Greater
        {
            let what = "the checkpoint has records on disk that were sorted in another order than that of this program";
            return Err(Error::new(ErrorKind::Plan, what));
        }
        let record = std::mem::replace(&mut self.heads[winner], successor);
        let heads = &self.heads;
        self.tree.replay(|a, b| precedes(heads, a, b, compare));
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;
    use proptest::collection::vec;
    use proptest::prelude::*;

    struct Outcome<T> {
        records: Vec<T>,
        runs: usize,
        peak: usize,
    }

    fn sort<T: Data>(
        records: Vec<T>,
        compare: impl Fn(&T, &T) -> Ordering,
        budget: usize,
        limits: Limits,
    ) -> Outcome<T> {
        let parent = tempfile::tempdir().unwrap();
        let pool = MemoryPool::new(budget);
        let spill = SpillDir::new(parent.path(), "sort");
        let mut sorter = Sorter { limits, ..Sorter::new(compare, pool.reserve(), spill) };
        let count = records.len() as u64;
        for record in records {
            sorter.push(record).unwrap();
        }
        assert_eq!(sorter.len(), count);
        let runs = sorter.runs();
        let mut sorted = sorter.finish().unwrap();
        let mut records = Vec::new();
        loop {
            assert_eq!(sorted.remaining(), count - records.len() as u64);
            match sorted.next().unwrap() {
                Some(record) => records.push(record),
                None => break,
            }
        }
        assert!(sorted.next().unwrap().is_none());
        drop(sorted);
        assert_eq!(pool.used(), 0);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
        Outcome { records, runs, peak: pool.peak() }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn equals_the_stable_sort_in_memory(
            keys in vec(0..30_u8, 0..600),
            budget in 0..20_000_usize,
            fan_in in 2..6_usize,
            minimum in 0..1000_usize,
        ) {
            // The second field distinguishes records of equal keys and is not compared.
            let records: Vec<(u8, u32)> = keys.into_iter().zip(0..).collect();
            let mut expected = records.clone();
            expected.sort_by_key(|record| record.0);
            let limits = Limits { fan_in, minimum };
            let outcome = sort(records, |a, b| a.0.cmp(&b.0), budget, limits);
            prop_assert_eq!(outcome.records, expected);
            prop_assert!(outcome.peak <= budget);
        }

        #[test]
        fn records_with_heap_are_sorted(
            records in vec(".{0,12}", 0..200),
            budget in 0..10_000_usize,
            fan_in in 2..6_usize,
        ) {
            let mut expected = records.clone();
            expected.sort();
            let outcome = sort(records, String::cmp, budget, Limits { fan_in, minimum: 500 });
            prop_assert_eq!(outcome.records, expected);
        }
    }

    const USUAL: Limits = Limits { fan_in: FAN_IN, minimum: MINIMUM };

    #[test]
    fn within_the_budget_nothing_is_written() {
        let records: Vec<u64> = (0..1000).rev().collect();
        let outcome = sort(records, u64::cmp, 1 << 20, USUAL);
        assert!(outcome.records.is_sorted());
        assert_eq!(outcome.runs, 0);
        assert!(outcome.peak >= 8000);
    }

    #[test]
    fn the_minimum_is_used_without_reservation() {
        let records: Vec<u64> = (0..10_000).rev().collect();
        let outcome = sort(records, u64::cmp, 0, USUAL);
        assert!(outcome.records.is_sorted());
        assert_eq!((outcome.runs, outcome.peak), (0, 0));
    }

    #[test]
    fn beyond_the_budget_runs_are_written() {
        // An odd multiplier permutes the numbers.
        let records: Vec<u64> = (0..1 << 19).map(|n: u64| n * 77_773 % (1 << 19)).collect();
        let budget = 1 << 20;
        let outcome = sort(records, u64::cmp, budget, USUAL);
        assert!(outcome.records.into_iter().eq(0..1 << 19));
        // 4 MB of records, twice that with the scratch space of the sort.
        assert!((7..=32).contains(&outcome.runs), "{} runs", outcome.runs);
        assert!(outcome.peak <= budget);
    }

    #[test]
    fn the_heap_of_records_counts() {
        let records: Vec<String> = (0..4096).rev().map(|n| format!("{n:01000}")).collect();
        let outcome = sort(records, String::cmp, 1 << 20, USUAL);
        assert!(outcome.records.is_sorted());
        assert!((4..=16).contains(&outcome.runs), "{} runs", outcome.runs);
    }

    #[test]
    fn one_large_record_is_taken() {
        let records = ["b", "c", "a"].map(|letter| letter.repeat(1 << 20)).to_vec();
        let outcome = sort(records, String::cmp, 1000, USUAL);
        assert!(outcome.records.is_sorted());
        assert_eq!(outcome.records.len(), 3);
    }

    #[test]
    fn a_pass_merges_no_more_than_needed() {
        let parent = tempfile::tempdir().unwrap();
        let spill = SpillDir::new(parent.path(), "sort");
        for (count, slots, fan_in, expected) in
            [(5, 4, 4, 4), (9, 4, 4, 4), (16, 4, 4, 4), (17, 4, 4, 5), (3, 1, 2, 2)]
        {
            let runs: Vec<SpillShare<u8>> = (0..count)
                .map(|run| {
                    let mut writer = spill.writer();
                    writer.push(&run).unwrap();
                    writer.finish().unwrap().into()
                })
                .collect();
            let runs = (runs, (|_| 0) as HashOf<u8>);
            let merged = merge_pass(runs, slots, fan_in, &u8::cmp, &spill, &mut 0).unwrap();
            assert_eq!(merged.len(), expected, "{count} runs");
            let mut records = Vec::new();
            for run in &merged {
                run.file.read().read_batch(&mut records, 100).unwrap();
            }
            assert!(records.into_iter().eq(0..count));
        }
    }

    #[test]
    fn runs_of_a_checkpoint_are_merged_if_they_are_in_order() {
        let (parent, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let spill = SpillDir::new(parent.path(), "sort");
        for (number, run) in [[1, 3, 5], [1, 3, 2]].into_iter().enumerate() {
            let mut writer = spill.writer::<u64>();
            run.iter().for_each(|record| writer.push(record).unwrap());
            let prefix = writer.prefix().unwrap().unwrap();
            let path = copies.path().join(&**prefix.copy_name(|| number.to_string().into()));
            prefix.copy_into(copies.path()).unwrap();
            let mut sorter =
                Sorter::new(u64::cmp, MemoryPool::new(1 << 20).reserve(), spill.clone());
            sorter.add_run(spill.stored(path, prefix.bytes(), prefix.records()).into());
            sorter.push(4).unwrap();
            let mut sorted = sorter.finish().unwrap();
            let found: Result<Vec<u64>> =
                std::iter::from_fn(|| sorted.next().transpose()).collect();
            match number {
                0 => assert_eq!(found.unwrap(), [1, 3, 4, 5]),
                _ => assert!(found.unwrap_err().to_string().contains("in another order")),
            }
        }
    }

    #[test]
    fn an_unwritable_disk_is_an_error() {
        let parent = tempfile::tempdir().unwrap();
        let occupied = parent.path().join("occupied");
        std::fs::write(&occupied, "a file").unwrap();
        let spill = SpillDir::new(&occupied, "sort");
        let reservation = MemoryPool::new(0).reserve();
        let mut sorter = Sorter::new(u64::cmp, reservation, spill);
        let error = (0..1 << 20).try_for_each(|number| sorter.push(number)).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Io);
    }
}
