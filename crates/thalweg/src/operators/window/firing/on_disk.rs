//! Slices on disk: states for which there is no memory, until the windows that they are part of are emitted.
//!
//! When the memory budget is used up, the states of all slices are written to disk, and the tables go on empty. The states of a
//! slice are divided into parts, by some bits of the hashes of their keys. A key may have several states in a slice; they are
//! combined in the order in which they were written.
//!
//! A window is then emitted part by part ([`Merging`]): the states of a part, of all slices of the window, are combined in a table,
//! which is emitted as that of a window of one slice. A part for which there is no room is divided further
//! ([`overflow`](crate::support::overflow)). The files of a slice are read by each window that contains it, and removed after
//! the last. So windows that overlap cost more reading than rolling aggregates cost in memory, as many times as they overlap.
//!
//! Where a window has several results, the files of a slice stay until no record changes them any more, and single keys are
//! found by an index (`index.rs`).
//!
//! Rolling aggregates go to disk as slices. Where aggregates have no inverse, what is left of the earlier slices of a key are
//! sums of a slice and some later ones: of these, the earliest that is within a window counts for it, and no other.

use super::counts::cache;
use super::feed::Feed;
use super::index::SliceIndex;
use crate::checkpoint::{SavedFile, Saving};
use crate::data::{Data, Key, Portable, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{CHUNK, Op, guard, guard_key};
use crate::memory::Reservation;
use crate::operators::window::frames::SliceId;
use crate::plan::TaskContext;
use crate::state::{
    Drain, GroupTable, HeapEstimate, ShareReader, SpillDir, SpillShare, SpillWriter,
};
use crate::support::evict::UNACCOUNTED;
use crate::support::overflow::{FilesReader, Overflow, PARTS, part_of};
use std::collections::BTreeMap;
use std::mem::{replace, take};

/// The hash of a key, the key, and a state. It counts for windows that do not contain this slice, if there is one.
type Spilled<K, S> = (u64, <K as Portable>::Owned, (Option<SliceId>, S));

/// The slices of a task that are on disk.
pub(super) struct OnDisk<K: Key + ?Sized, S: Data> {
    spill: SpillDir,
    reservation: Reservation,
    slices: BTreeMap<SliceId, Vec<Part<K, S>>>,
    /// Finds keys, where windows have several results.
    index: Option<SliceIndex<K, S>>,
    /// The bytes of files that are complete.
    bytes: u64,
}

/// A part of a slice, by the hashes of keys.
struct Part<K: Key + ?Sized, S: Data> {
    written: Vec<SpillShare<Spilled<K, S>>>,
    writer: Option<SpillWriter<Spilled<K, S>>>,
    /// How many of the files that are written the index has.
    indexed: usize,
    /// The bytes and records that it has of the file after these.
    indexed_of_next: (u64, u64),
}

impl<K: Key + ?Sized, S: Data> Part<K, S> {
    /// Completes the file that is being written; `bytes` are those of complete files.
    fn complete(&mut self, bytes: &mut u64) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let file = writer.finish()?;
            *bytes += file.bytes();
            self.written.extend((file.records() > 0).then(|| file.into()));
        }
        Ok(())
    }

    /// Whether the index lacks some of it.
    fn is_unindexed(&self) -> bool {
        let (_, indexed) = self.indexed_of_next;
        let has_more = |writer: &SpillWriter<_>| writer.records() > indexed;
        self.indexed < self.written.len() || self.writer.as_ref().is_some_and(has_more)
    }

    /// What the index lacks, and is to have from now on.
    fn take_unindexed(&mut self) -> Result<Vec<ShareReader<Spilled<K, S>>>> {
        let mut readers = Vec::new();
        for file in &self.written[self.indexed..] {
            readers.push(file.read_after(take(&mut self.indexed_of_next)));
        }
        self.indexed = self.written.len();
        if let Some(writer) = &mut self.writer {
            let file = writer.file_so_far()?;
            let so_far = (file.bytes(), file.records());
            let before = replace(&mut self.indexed_of_next, so_far);
            readers.push(SpillShare::from(file).read_after(before));
        }
        Ok(readers)
    }
}

/// What is noted of a file in a checkpoint.
#[derive(Data)]
struct Note {
    slice: SliceId,
    part: u64,
}

impl<K: Key + ?Sized, S: Data> OnDisk<K, S> {
    /// No slices yet. Windows may have `several` results, for which single keys are to be found.
    pub(super) fn new(cx: &TaskContext<'_>, op: &Op, several: bool) -> Self {
        let (spill, reservation) = (cx.spill.clone(), cx.keyed(op.id()));
        let index = several.then(|| SliceIndex::new(spill.clone(), cache(cx)));
        Self { spill, reservation, slices: BTreeMap::new(), index, bytes: 0 }
    }

    /// The first slice.
    pub(super) fn first(&self) -> Option<SliceId> {
        self.slices.keys().next().copied()
    }

    /// Whether there are no slices.
    pub(super) fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// The first slice from this one on.
    pub(super) fn first_from(&self, from: SliceId) -> Option<SliceId> {
        self.slices.range(from..).next().map(|(slice, _)| *slice)
    }

    /// Whether any of these slices is there, from the first to the last.
    pub(super) fn has_any(&self, (first, last): (SliceId, SliceId)) -> bool {
        self.first_from(first).is_some_and(|slice| slice <= last)
    }

    /// The bytes of memory, beside those of reading a window.
    pub(super) fn memory(&self) -> usize {
        self.index.as_ref().map_or(0, SliceIndex::bytes)
    }

    /// The bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        let writers = self.slices.values().flatten().filter_map(|part| part.writer.as_ref());
        let index = self.index.as_ref().map_or(0, SliceIndex::written);
        self.bytes + index + writers.map(SpillWriter::bytes).sum::<u64>()
    }

    fn parts(&mut self, slice: SliceId) -> &mut Vec<Part<K, S>> {
        let none =
            || Part { written: Vec::new(), writer: None, indexed: 0, indexed_of_next: (0, 0) };
        self.slices
            .entry(slice)
            .or_insert_with(|| std::iter::repeat_with(none).take(PARTS).collect())
    }

    /// Writes a state of a slice, that counts for windows that do not contain the slice `after`.
    pub(super) fn write(
        &mut self,
        slice: SliceId,
        after: Option<SliceId>,
        key: K::Owned,
        state: S,
    ) -> Result<()> {
        let hash = K::hash(K::lent(&key).probe());
        let spill = self.spill.clone();
        let part = &mut self.parts(slice)[part_of(hash, 0)];
        let writer = part.writer.get_or_insert_with(|| spill.writer());
        writer.push(&(hash, key, (after, state)))
    }

    /// Writes the states of a slice.
    pub(super) fn write_table(&mut self, slice: SliceId, mut table: Drain<K, S>) -> Result<()> {
        while let Some((key, state)) = table.for_next(|key, state| (key.own(), state)) {
            self.write(slice, None, key, state)?;
        }
        let parts = self.slices.get_mut(&slice).into_iter().flatten();
        parts.filter_map(|part| part.writer.as_mut()).try_for_each(SpillWriter::rest)
    }

    /// Frees all buffers.
    pub(super) fn rest(&mut self) -> Result<()> {
        let parts = self.slices.values_mut().flatten();
        parts.filter_map(|part| part.writer.as_mut()).try_for_each(SpillWriter::rest)
    }

    /// What is there of a part of some slices, in the order of the slices.
    fn read(
        &mut self,
        (first, last): (SliceId, SliceId),
        part: usize,
    ) -> Result<FilesReader<Spilled<K, S>>> {
        let Self { slices, bytes, .. } = self;
        let mut files = Vec::new();
        for (_, parts) in slices.range_mut(first..=last) {
            let part = &mut parts[part];
            part.complete(bytes)?;
            files.extend(part.written.iter());
        }
        Ok(FilesReader::of(files))
    }

    /// Appends what a key has in some slices, from the first to the last, in their order.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be used.
    pub(super) fn states_of(
        &mut self,
        (hash, key): (u64, &K),
        (first, last): (SliceId, SliceId),
        combine: &impl Fn(&K, &mut S, S),
        states: &mut Vec<(SliceId, S)>,
    ) -> Result<()> {
        if !self.has_any((first, last)) {
            return Ok(());
        }
        let Self { slices, index: Some(index), .. } = self else { return Ok(()) };
        let earliest = slices.keys().next().copied().unwrap_or(first);
        for (slice, parts) in slices.range_mut(first..=last) {
            let part = &mut parts[part_of(hash, 0)];
            if part.is_unindexed() {
                for reader in part.take_unindexed()? {
                    add_to_index(index, (*slice, earliest), reader, combine)?;
                }
            }
        }
        let found = index.get(hash, key)?;
        states.extend(found.into_iter().filter(|(slice, _)| (first..=last).contains(slice)));
        Ok(())
    }

    /// Removes the first slices, as long as they are over.
    ///
    /// # Errors
    ///
    /// If the disk cannot be used.
    pub(super) fn forget_where(&mut self, is_over: impl Fn(SliceId) -> bool) -> Result<()> {
        let before = self.slices.len();
        while self.first().is_some_and(&is_over) {
            self.slices.pop_first();
        }
        let first = self.first();
        match (&mut self.index, first) {
            (Some(index), Some(first)) if self.slices.len() < before => index.forget_before(first),
            (Some(index), None) => {
                index.clear();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Removes all slices.
    pub(super) fn clear(&mut self) {
        self.slices.clear();
        if let Some(index) = &mut self.index {
            index.clear();
        }
    }

    /// Saves what is on disk.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written; then it is refused too.
    pub(super) fn save(&mut self, out: &mut Saving) -> Result<()> {
        for (slice, parts) in &mut self.slices {
            for (part, Part { written, writer, .. }) in (0..).zip(parts) {
                let note = Note { slice: *slice, part };
                written.iter().for_each(|file| out.add_share(file, &note));
                let prefix = writer.as_mut().map_or(Ok(None), SpillWriter::prefix);
                let prefix = prefix.inspect_err(|_| out.refuse("its disk is full"))?;
                if let Some(prefix) = prefix {
                    out.add_file::<Spilled<K, S>>(prefix, None, &note);
                }
            }
        }
        Ok(())
    }

    /// Takes a file of the checkpoint with which the job begins.
    ///
    /// # Errors
    ///
    /// If it is of other records.
    pub(super) fn restore(&mut self, file: &SavedFile<'_>) -> Result<()> {
        let Note { slice, part } = file.note()?;
        let opened = file.open(&self.spill)?;
        let part = usize::try_from(part).ok().and_then(|part| self.parts(slice).get_mut(part));
        let Some(part) = part else {
            let what = "the checkpoint has slices on disk in more parts than there are";
            return Err(Error::new(ErrorKind::Input, what));
        };
        part.written.push(opened);
        Ok(())
    }
}

/// Adds what is read of a slice to the index; slices before `first` are over.
#[cold]
fn add_to_index<K: Key + ?Sized, S: Data>(
    index: &mut SliceIndex<K, S>,
    (slice, first): (SliceId, SliceId),
    mut reader: ShareReader<Spilled<K, S>>,
    combine: &impl Fn(&K, &mut S, S),
) -> Result<()> {
    let mut goes_on = true;
    while goes_on {
        let (mut table, mut heap) = (GroupTable::<K, S>::new(), 0);
        while goes_on && table.len() < CHUNK && heap < UNACCOUNTED {
            let read = reader.next(
                |(hash, ..)| *hash,
                // Slices of such windows are written as they are, and never as sums of several.
                |(hash, key, (_, state))| {
                    heap += state.heap_size();
                    let lent = K::lent(&key);
                    match table.find(hash, lent.probe()) {
                        Some(there) => combine(lent, there, state),
                        None => drop(table.upsert(hash, lent.probe(), lent, || state)),
                    }
                },
            )?;
            goes_on = read.is_some();
        }
        index.add((slice, first), table.into_drain(), combine)?;
    }
    Ok(())
}

/// The parts of a window that is emitted from disk.
pub(super) struct Merging<K: Key + ?Sized, S: Data> {
    slices: (SliceId, SliceId),
    /// The next part.
    part: usize,
    /// The part that is being read, and what of it has no room.
    overflow: Option<Overflow<Spilled<K, S>, ()>>,
    reader: Option<FilesReader<Spilled<K, S>>>,
    table: GroupTable<K, S>,
}

/// What comes next of a window that is emitted from disk.
pub(super) enum Step<K: Key + ?Sized, S> {
    /// More is to be read.
    Read,
    /// Results of some keys, which occur in no other of these tables.
    Give(Drain<K, S>),
    /// Nothing.
    Over,
}

impl<K: Key + ?Sized, S: Data> Merging<K, S> {
    /// Of a window of these slices, the first and the last.
    pub(super) fn new(slices: (SliceId, SliceId)) -> Self {
        Self { slices, part: 0, overflow: None, reader: None, table: GroupTable::new() }
    }

    /// Continues, by a chunk.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be read, or a state is too large to be read back.
    pub(super) fn go_on<I, F>(
        &mut self,
        on_disk: &mut OnDisk<K, S>,
        (op, feed): (&Op, &F),
        weighed: &mut HeapEstimate<S>,
    ) -> Result<Step<K, S>>
    where
        I: Record + ?Sized,
        F: Feed<I, Key = K, State = S>,
    {
        let (Some(reader), Some(overflow)) = (&mut self.reader, &mut self.overflow) else {
            return self.next_part(on_disk);
        };
        let (first, table) = (self.slices.0, &mut self.table);
        let accounted = weighed.bytes();
        for _ in 0..CHUNK {
            let read = reader.next(
                |(hash, ..)| *hash,
                |(hash, key, (after, state))| {
                    if after.is_some_and(|after| after >= first) {
                        return Ok(());
                    }
                    let lent = K::lent(&key);
                    let is_full = table.is_full() || overflow.is_frozen();
                    if is_full
                        && !overflow.may_grow(table.bytes_if_grown() + weighed.bytes())
                        && table.find(hash, lent.probe()).is_none()
                    {
                        return overflow.write(hash, &(hash, key, (None, state)));
                    }
                    weighed.comes(&state);
                    match table.find(hash, lent.probe()) {
                        Some(there) => {
                            guard(op, || guard_key(lent, || feed.combine(there, state)));
                        }
                        None => drop(table.upsert(hash, lent.probe(), lent, || state)),
                    }
                    Ok(())
                },
            )?;
            match read {
                Some(taken) => taken?,
                None => {
                    overflow.set_aside()?;
                    self.reader = None;
                    *weighed = HeapEstimate::new();
                    return Ok(Step::Give(take(&mut self.table).into_drain()));
                }
            }
            if weighed.bytes() >= accounted + UNACCOUNTED {
                break;
            }
        }
        // States that are combined may take no more room than one of them.
        if weighed.is_due(|| table.len()) {
            weighed.weigh(table.values().map(Data::heap_size));
        }
        if overflow.account(table.bytes() + weighed.bytes()) {
            if overflow.is_hopeless(table.len(), weighed.bytes()) {
                return Err(overflow.too_large(table.len()));
            }
            *weighed = HeapEstimate::new();
            let mut table = take(table).into_drain();
            while let Some((key, state)) = table.for_next(|key, state| (key.own(), state)) {
                let hash = K::hash(K::lent(&key).probe());
                overflow.write(hash, &(hash, key, (None, state)))?;
            }
            overflow.evicted()?;
        }
        Ok(Step::Read)
    }

    /// Begins with the next part of a part that was divided, or else of the window.
    fn next_part(&mut self, on_disk: &mut OnDisk<K, S>) -> Result<Step<K, S>> {
        if let Some(mut overflow) = self.overflow.take() {
            if let Some(part) = overflow.next_part() {
                (self.reader, self.overflow) = (Some(part.records), Some(overflow));
                return Ok(Step::Read);
            }
            on_disk.bytes += overflow.bytes();
        }
        if self.part == PARTS {
            return Ok(Step::Over);
        }
        self.reader = Some(on_disk.read(self.slices, self.part)?);
        let (reservation, spill) = (on_disk.reservation.another(), on_disk.spill.clone());
        self.overflow = Some(Overflow::of_part(reservation, spill));
        self.part += 1;
        Ok(Step::Read)
    }
}
