//! The overflow of a keyed table: records and states on disk for which there is no memory.
//!
//! When the memory budget does not allow a table to grow, the table is frozen: it keeps its keys, and records of
//! other keys are written to disk, divided into parts by some bits of their hash. When the input has ended, each part
//! is processed like an input of its own, with an empty table, and split further if it does not fit either. So all
//! records of a key are processed by one table, in the order in which they arrived.
//!
//! Where the states of a frozen table keep growing, or the pool is over its budget, the whole table is evicted: its
//! states are written to the same parts, and so is every later record. When a part is read back, its states come
//! first, and its records are then applied to them.
//!
//! Checkpoints refer to what has been written of each part before the input's end; no barrier comes while parts are read
//! back. In a job that begins with a checkpoint, the files of the checkpoint come first in each part, and whatever the task
//! writes comes behind them. Its table is frozen from the start then, since the keys that it does not have may be in those
//! files. A file that was written by a task with other keys is read by each task that owns some of them.
//!
//! This module uses no table and no aggregate: operators ask it before their tables grow.

use crate::checkpoint::{SavedFile, Saving};
use crate::config::StateBackend;
use crate::data::{Data, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Claim, Reservation};
use crate::plan::TaskContext;
use crate::state::{ShareReader, SpillDir, SpillShare, SpillWriter};
use std::collections::VecDeque;

/// The binary logarithm of the number of parts that records are split into when the table is full.
const PARTS_BITS: u32 = 4;
/// The number of parts.
pub(crate) const PARTS: usize = 1 << PARTS_BITS;
/// Bytes that a table may always occupy, so that every part gets smaller each time it is split.
pub(crate) const ALWAYS: usize = 64 << 10;
/// How often a part with a single key, or with several, may be split before eviction is given up.
const EVICTED: [u32; 2] = [2, 11];
/// A single state that is larger than one part in this many of the budget is not evicted, since it is in memory twice
/// for a moment.
const LARGE: usize = 4;

/// The memory reservation of a table, and the records and states for which it has no room: records as `S`, states
/// with hash and key as `E`.
pub(crate) struct Overflow<S: Wire + ?Sized, E: Data> {
    reservation: Reservation,
    /// Whether the table must not accept new keys.
    frozen: bool,
    /// Whether nothing may go to disk.
    in_memory: bool,
    spill: SpillDir,
    /// The parts that are being written, by the bits of the hash.
    parts: Vec<HashPart<SpillWriter<E>, SpillWriter<S>>>,
    /// What the checkpoint has of each part with which the job began, until its input ends.
    restored: Vec<WrittenPart<S, E>>,
    /// How often the part that is being processed has been split.
    depth: u32,
    /// Parts that are still to be processed, each with how often it has been split.
    on_disk: Vec<(WrittenPart<S, E>, u32)>,
    /// The bytes of all parts written so far.
    bytes: u64,
    /// Whether something could not be written, and is nowhere: the job has failed.
    lost: bool,
}

/// States, and the records that arrived after them.
#[derive(Default)]
struct HashPart<E, S> {
    states: E,
    records: S,
}

/// A part that has been written completely. Of one key, what was written first is in the first file.
type WrittenPart<S, E> = HashPart<Vec<SpillShare<E>>, Vec<SpillShare<S>>>;

/// A part that is being read.
pub(crate) struct PartReader<S: Wire + ?Sized, E: Data> {
    /// Must be read to the end before the records.
    pub(crate) states: FilesReader<E>,
    pub(crate) records: FilesReader<S>,
}

/// Reads files one after the other. Each is released when it has been read.
pub(crate) struct FilesReader<I: Wire + ?Sized>(VecDeque<ShareReader<I>>);

impl<I: Wire + ?Sized> FilesReader<I> {
    /// Reads these files.
    pub(crate) fn of<'a>(files: impl IntoIterator<Item = &'a SpillShare<I>>) -> Self {
        Self(files.into_iter().map(SpillShare::read).collect())
    }

    /// Passes the next record to `see`; `None` after the last. `hash` is that of a record's key.
    #[inline]
    pub(crate) fn next<R>(
        &mut self,
        hash: impl Fn(&I::Of<'_>) -> u64,
        see: impl FnOnce(I::Of<'_>) -> R,
    ) -> Result<Option<R>> {
        let mut see = Some(see);
        while let Some(reader) = self.0.front_mut() {
            let read = reader.next(&hash, |item| see.take().map(|see| see(item)))?;
            if let Some(seen) = read {
                return Ok(seen);
            }
            self.0.pop_front();
        }
        Ok(None)
    }
}

/// What an overflow has to know of a file in a checkpoint.
#[derive(Data)]
struct Note {
    part: u64,
    /// Whether it has states, and not records.
    has_states: bool,
}

/// Whether a state that owns so many bytes on the heap is too large to be moved to disk.
pub(crate) fn is_too_large(reservation: &Reservation, heap: usize) -> bool {
    heap > reservation.pool().limit() / LARGE
}

/// The error that is raised when the states of so many keys are too large.
pub(crate) fn too_large(reservation: &Reservation, keys: usize) -> Error {
    reservation.refused(format!(
        "the states of {keys} keys, one or as many as share all bits of their hash, are more than the memory \
         budget of {} bytes has room for; a state that does not grow with its values (as of a count, or of \
         `top` in place of a list), or finer keys, need less",
        reservation.pool().limit(),
    ))
}

/// The error of keys that have no room in memory, with a state backend without a disk.
#[cold]
pub(crate) fn kept_in_memory(reservation: &Reservation) -> Error {
    reservation.refused(format!(
        "the keys of one of its tasks, with their states, are more than the memory budget of {} \
         bytes has room for, and the state backend `memory` keeps them off the disk; \
         `--state-backend memory-then-disk`, which is the default, moves them there, and smaller \
         states, finer keys or shorter windows need less",
        reservation.pool().limit(),
    ))
}

/// The part of a key with this hash, where parts have been split so often.
pub(crate) fn part_of(hash: u64, depth: u32) -> usize {
    // Routing has used the top bits, and the table uses the lowest; each depth uses its own.
    let shift = 44 - PARTS_BITS * (depth % 6);
    (hash >> shift) as usize & (PARTS - 1)
}

impl<S: Wire + ?Sized, E: Data> Overflow<S, E> {
    /// The overflow of the operator with this number, for an input that ends.
    pub(crate) fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        let in_memory = cx.state_backend == StateBackend::Memory;
        Self { depth: 0, in_memory, ..Self::of_part(cx.keyed(op), cx.spill.clone()) }
    }

    /// The overflow of an operator whose keys are in no table, but in [keyed timers](super::keyed_timers).
    pub(crate) fn of_no_table(cx: &TaskContext<'_>) -> Self {
        let reservation = cx.memory.unnamed(Claim::Spillable);
        Self { depth: 0, frozen: true, ..Self::of_part(reservation, cx.spill.clone()) }
    }

    /// That of a part which was split once, by [`part_of`], and is now processed.
    pub(crate) fn of_part(reservation: Reservation, spill: SpillDir) -> Self {
        Self {
            reservation,
            frozen: false,
            in_memory: false,
            spill,
            parts: Vec::new(),
            restored: Vec::new(),
            depth: 1,
            on_disk: Vec::new(),
            bytes: 0,
            lost: false,
        }
    }

    /// The bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Saves what is on disk.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written; then it is refused too, and so it is once something could not be written.
    pub(crate) fn save(&mut self, out: &mut Saving) -> Result<()> {
        if self.depth > 0 || !self.on_disk.is_empty() {
            out.refuse("some of its keys are being read back from disk");
        }
        if self.lost {
            out.refuse("some of its keys could not be moved to disk");
        }
        let note = |part: usize, has_states| Note { part: part as u64, has_states };
        for (at, part) in self.restored.iter().enumerate() {
            part.states.iter().for_each(|file| out.add_share(file, &note(at, true)));
            part.records.iter().for_each(|file| out.add_share(file, &note(at, false)));
        }
        for (at, HashPart { states, records }) in self.parts.iter_mut().enumerate() {
            let written = states.prefix().and_then(|states| Ok((states, records.prefix()?)));
            let (states, records) = written.inspect_err(|_| out.refuse("its disk is full"))?;
            if let Some(states) = states {
                out.add_file::<E>(states, None, &note(at, true));
            }
            if let Some(records) = records {
                out.add_file::<S>(records, None, &note(at, false));
            }
        }
        Ok(())
    }

    /// Takes a file of the checkpoint with which the job begins. Keys that the table does not have by then are not accepted
    /// any more.
    ///
    /// # Errors
    ///
    /// If the state is of other records, or nothing may be on disk.
    pub(crate) fn restore(&mut self, file: &SavedFile<'_>) -> Result<()> {
        self.check_backend()?;
        let Note { part, has_states } = file.note()?;
        if self.restored.is_empty() {
            let none = || HashPart { states: Vec::new(), records: Vec::new() };
            self.restored.resize_with(PARTS, none);
        }
        let Some(part) = usize::try_from(part).ok().and_then(|part| self.restored.get_mut(part))
        else {
            let what = "the checkpoint has keys on disk in more parts than there are";
            return Err(Error::new(ErrorKind::Input, what));
        };
        match has_states {
            true => part.states.push(file.open(&self.spill)?),
            false => part.records.push(file.open(&self.spill)?),
        }
        self.frozen = true;
        Ok(())
    }

    /// The memory budget that the table shares, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.reservation.pool().limit()
    }

    /// The error that is raised when eviction of a table with this many keys [is hopeless](Self::is_hopeless).
    pub(crate) fn too_large(&self, keys: usize) -> Error {
        too_large(&self.reservation, keys)
    }

    /// The error that is raised when there is no room.
    pub(crate) fn refused(&self, what: String) -> Error {
        self.reservation.refused(what)
    }

    /// Whether the table must not accept new keys.
    #[inline(always)]
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Whether the table may accept a new key for which it would have to grow to `wanted` bytes.
    pub(crate) fn may_grow(&mut self, wanted: usize) -> bool {
        if !self.frozen && (wanted <= ALWAYS || self.reservation.try_resize(wanted)) {
            return true;
        }
        self.frozen = true;
        false
    }

    /// Accounts for what grows besides the slots, such as long keys and states, and releases what was only needed
    /// while the slots were doubled. `used` is what the table occupies, in bytes. Returns whether the table has to be
    /// evicted.
    #[must_use]
    pub(crate) fn account(&mut self, used: usize) -> bool {
        if used <= ALWAYS {
            return false;
        }
        if self.reservation.is_over_budget() {
            return true;
        }
        let held = self.reservation.bytes();
        if used <= held && (self.frozen || held - used <= used / 4) {
            return false;
        }
        if !self.frozen && self.reservation.try_resize(used + used / 8) {
            return false;
        }
        self.frozen = true;
        // The table may exceed its reservation a little: keys may have arrived before it was frozen.
        !self.reservation.try_resize(used) && used > held + held / 8 + ALWAYS
    }

    /// Whether eviction would not help a table with this many keys, whose states own this many bytes on the heap: a state is
    /// too large by itself, or eviction has been tried often enough. A limit of keys below the memory budget is no reason: it
    /// is lifted, so that keys that are read back may use all free memory.
    pub(crate) fn is_hopeless(&mut self, keys: usize, heap: usize) -> bool {
        let [one, any] = EVICTED;
        let is_hopeless = match keys {
            0 | 1 => self.depth >= one || is_too_large(&self.reservation, heap),
            _ => self.depth >= any,
        };
        is_hopeless && !self.reservation.lift_limit()
    }

    /// Notes that the table has been evicted: it is empty, and every later record is to be written.
    pub(crate) fn evicted(&mut self) -> Result<()> {
        self.frozen = true;
        let _ = self.reservation.try_resize(0);
        let written = self.parts.iter_mut().try_for_each(|part| part.states.rest());
        self.note_lost(written)
    }

    /// Writes a record whose key has this hash.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written, or nothing may go there.
    pub(crate) fn write(&mut self, hash: u64, item: &S::Of<'_>) -> Result<()> {
        let written = self.check_backend().and_then(|()| self.part(hash).records.push(item));
        self.note_lost(written)
    }

    /// Whether anything is on disk that is still to be processed.
    pub(crate) fn holds_any(&self) -> bool {
        !self.parts.is_empty() || !self.on_disk.is_empty() || !self.restored.is_empty()
    }

    /// Writes a state whose key has this hash, before any record of the key.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write).
    pub(crate) fn write_state(&mut self, hash: u64, state: &E) -> Result<()> {
        let written = self.check_backend().and_then(|()| self.part(hash).states.push(state));
        self.note_lost(written)
    }

    /// Notes that something is nowhere if it could not be written.
    fn note_lost(&mut self, written: Result<()>) -> Result<()> {
        self.lost |= written.is_err();
        written
    }

    /// Fails if nothing may be on disk.
    fn check_backend(&self) -> Result<()> {
        if self.in_memory { Err(kept_in_memory(&self.reservation)) } else { Ok(()) }
    }

    fn part(&mut self, hash: u64) -> &mut HashPart<SpillWriter<E>, SpillWriter<S>> {
        if self.parts.is_empty() {
            let part = |_| HashPart { states: self.spill.writer(), records: self.spill.writer() };
            self.parts = (0..PARTS).map(part).collect();
        }
        &mut self.parts[part_of(hash, self.depth)]
    }

    /// The input, or the part being processed, has ended: completes what was written meanwhile.
    pub(crate) fn set_aside(&mut self) -> Result<()> {
        let depth = self.depth + 1;
        let (mut restored, mut written) = (self.restored.drain(..), self.parts.drain(..));
        for _ in 0..PARTS {
            let mut part = restored.next().unwrap_or_default();
            if let Some(HashPart { states, records }) = written.next() {
                let (states, records) = (states.finish()?, records.finish()?);
                self.bytes += states.bytes() + records.bytes();
                part.states.extend((states.records() > 0).then(|| states.into()));
                part.records.extend((records.records() > 0).then(|| records.into()));
            }
            if !(part.states.is_empty() && part.records.is_empty()) {
                self.on_disk.push((part, depth));
            }
        }
        Ok(())
    }

    /// The next part to process, with a table that is empty again; `None` when all are done.
    pub(crate) fn next_part(&mut self) -> Option<PartReader<S, E>> {
        self.frozen = false;
        let _ = self.reservation.try_resize(0);
        let (part, depth) = self.on_disk.pop().unzip();
        self.depth = depth.unwrap_or(0);
        let part: WrittenPart<S, E> = part?;
        Some(PartReader {
            states: FilesReader::of(&part.states),
            records: FilesReader::of(&part.records),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;

    #[test]
    fn there_is_no_checkpoint_without_what_could_not_be_written() {
        let spill = SpillDir::new(std::env::temp_dir(), "keys");
        let part = Overflow::<u64, u64>::of_part(MemoryPool::new(1 << 20).reserve(), spill);
        let mut overflow = Overflow { depth: 0, in_memory: true, ..part };
        let mut before = Saving::default();
        overflow.save(&mut before).unwrap();
        assert!(!before.is_refused());
        overflow.write_state(7, &7).unwrap_err();
        let mut after = Saving::default();
        overflow.save(&mut after).unwrap();
        assert!(after.is_refused());
    }
}
