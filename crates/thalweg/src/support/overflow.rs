//! Where the records go that a table has no room for.
//!
//! When the memory budget does not let a table grow, it is frozen: it keeps its keys, and records of
//! other keys are written to disk, apart by a part of their hash. When the input has ended, each part
//! is gone through like an input of its own, with an empty table, and split up further if it does not
//! fit either. So every key is seen in one place, and its records in the order in which they came.
//!
//! Where the states in a frozen table go on growing, or the pool is over its budget, the whole table is evicted:
//! its states are written to the same parts, and from there on every record. A part is read back states first,
//! and its records are then applied to them.
//!
//! Knows of no table and no aggregate: whoever has them asks before they grow.

use crate::data::{Data, Wire};
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillFile, SpillReader, SpillWriter};

/// Parts that records are split into when the table is full.
const PARTS_BITS: u32 = 4;
/// A table may always be this large, so that every part gets smaller each time it is split up.
const ALWAYS: usize = 64 << 10;
/// How often a part with a single key, or with several, may be split before eviction is given up.
const EVICTED: [u32; 2] = [2, 11];
/// The part of the budget that one state may have and be written to disk, where it is there twice for a moment.
const LARGE: usize = 4;

/// The memory of a table, and the records and states that it has no room for: records as `S`, states with hash and
/// key as `E`.
pub(crate) struct Overflow<S: Wire + ?Sized, E: Data> {
    reservation: Reservation,
    /// The table must not take new keys.
    frozen: bool,
    spill: SpillDir,
    /// What is being written, by a part of the hash.
    parts: Vec<Part<SpillWriter<E>, SpillWriter<S>>>,
    /// How often what is being gone through has been split up already.
    depth: u32,
    /// Parts that are still to be gone through, each with how often it has been split up.
    on_disk: Vec<(WrittenPart<S, E>, u32)>,
    /// The bytes of all parts so far.
    bytes: u64,
}

/// States, and the records that came after them.
struct Part<E, S> {
    states: E,
    records: S,
}

/// A part of which all has been written.
type WrittenPart<S, E> = Part<SpillFile<E>, SpillFile<S>>;

/// A part that is being read.
pub(crate) struct PartReader<S: Wire + ?Sized, E: Data> {
    /// To be read to the end before the records.
    pub(crate) states: SpillReader<E>,
    pub(crate) records: SpillReader<S>,
}

impl<S: Wire + ?Sized, E: Data> Overflow<S, E> {
    /// For the operator of this number. Where `ends` is false, there is no time at which to go through what is on
    /// disk, and nothing may be written.
    pub(crate) fn new(cx: &TaskContext<'_>, op: usize, ends: bool) -> Self {
        Self {
            reservation: if ends { cx.spillable(op) } else { cx.fixed(op) },
            frozen: false,
            spill: cx.spill.clone(),
            parts: Vec::new(),
            depth: 0,
            on_disk: Vec::new(),
            bytes: 0,
        }
    }

    /// The bytes written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory budget that the table shares, in bytes.
    pub(crate) fn limit(&self) -> usize {
        self.reservation.pool().limit()
    }

    /// The error of what has no room.
    pub(crate) fn refused(&self, what: String) -> Error {
        self.reservation.refused(what)
    }

    /// Whether the table must not take new keys.
    #[inline(always)]
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Whether the table may take a new key, for which it would have to grow to `wanted` bytes.
    pub(crate) fn may_grow(&mut self, wanted: usize) -> bool {
        if !self.frozen && (wanted <= ALWAYS || self.reservation.try_resize(wanted)) {
            return true;
        }
        self.frozen = true;
        false
    }

    /// Accounts for what grows apart from the slots, the bytes of long keys and of states, and gives back what was
    /// needed while the slots were doubled. `used` is what the table occupies. Answers whether the table has to
    /// be evicted.
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
        // A little may be beyond what is reserved: keys that came before the table was frozen.
        !self.reservation.try_resize(used) && used > held + held / 8 + ALWAYS
    }

    /// Whether it is of no use to evict a table of so many keys whose states own so much on the heap: a state is
    /// too large in itself, or it has been tried.
    pub(crate) fn is_hopeless(&self, keys: usize, heap: usize) -> bool {
        let [one, any] = EVICTED;
        match keys {
            0 | 1 => self.depth >= one || heap > self.limit() / LARGE,
            _ => self.depth >= any,
        }
    }

    /// The table is empty now, and every record is to be written from here on.
    pub(crate) fn evicted(&mut self) -> Result<()> {
        self.frozen = true;
        let _ = self.reservation.try_resize(0);
        self.parts.iter_mut().try_for_each(|part| part.states.rest())
    }

    /// Writes a record whose key has this hash.
    pub(crate) fn write(&mut self, hash: u64, item: &S::Of<'_>) -> Result<()> {
        self.part(hash).records.push(item)
    }

    /// Writes a state whose key has this hash, before any record of the key.
    pub(crate) fn write_state(&mut self, hash: u64, state: &E) -> Result<()> {
        self.part(hash).states.push(state)
    }

    fn part(&mut self, hash: u64) -> &mut Part<SpillWriter<E>, SpillWriter<S>> {
        if self.parts.is_empty() {
            let part = |_| Part { states: self.spill.writer(), records: self.spill.writer() };
            self.parts = (0..1 << PARTS_BITS).map(part).collect();
        }
        // Routing has used the top bits, the table uses the lowest; each depth uses its own.
        let shift = 44 - PARTS_BITS * (self.depth % 6);
        let part = (hash >> shift) as usize & ((1 << PARTS_BITS) - 1);
        &mut self.parts[part]
    }

    /// What was being gone through has ended: sets aside what was written meanwhile.
    pub(crate) fn set_aside(&mut self) -> Result<()> {
        let depth = self.depth + 1;
        for Part { states, records } in self.parts.drain(..) {
            if states.records() + records.records() > 0 {
                let (states, records) = (states.finish()?, records.finish()?);
                self.bytes += states.bytes() + records.bytes();
                self.on_disk.push((Part { states, records }, depth));
            }
        }
        Ok(())
    }

    /// The next part to go through, with a table that is empty again; `None` when all is done.
    pub(crate) fn next_part(&mut self) -> Option<PartReader<S, E>> {
        self.frozen = false;
        let _ = self.reservation.try_resize(0);
        let (part, depth) = self.on_disk.pop().unzip();
        self.depth = depth.unwrap_or(0);
        let part: WrittenPart<S, E> = part?;
        Some(PartReader { states: part.states.read(), records: part.records.read() })
    }
}
