//! Where the records go that a table has no room for.
//!
//! When the memory budget does not let a table grow, it is frozen: it keeps its keys, and records of
//! other keys are written to disk, apart by a part of their hash. When the input has ended, each part
//! is gone through like an input of its own, with an empty table, and split up further if it does not
//! fit either. So every key is seen in one place, and its records in the order in which they came.
//!
//! Knows of no table and no aggregate: whoever has them asks before they grow.

use crate::data::Wire;
use crate::error::Result;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillFile, SpillReader, SpillWriter};

/// Parts that records are split into when the table is full.
const PARTS_BITS: u32 = 4;
/// A table may always be this large, so that every part gets smaller each time it is split up.
const ALWAYS: usize = 64 << 10;

/// The memory of a table, and the records that it has no room for.
pub(super) struct Overflow<S: Wire + ?Sized> {
    reservation: Reservation,
    /// The table must not take new keys.
    frozen: bool,
    spill: SpillDir,
    /// What is being written, by a part of the hash.
    parts: Vec<SpillWriter<S>>,
    /// How often what is being gone through has been split up already.
    depth: u32,
    /// Parts that are still to be gone through, each with how often it has been split up.
    on_disk: Vec<(SpillFile<S>, u32)>,
    /// The bytes of all parts so far.
    bytes: u64,
}

impl<S: Wire + ?Sized> Overflow<S> {
    pub(super) fn new(cx: &TaskContext<'_>) -> Self {
        Self {
            reservation: cx.memory.reserve(),
            frozen: false,
            spill: cx.spill.clone(),
            parts: Vec::new(),
            depth: 0,
            on_disk: Vec::new(),
            bytes: 0,
        }
    }

    /// The bytes written so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory budget that the table shares, in bytes.
    pub(super) fn limit(&self) -> usize {
        self.reservation.pool().limit()
    }

    /// Whether the table must not take new keys.
    #[inline(always)]
    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// Whether the table may take a new key, for which it would have to grow to `wanted` bytes.
    pub(super) fn may_grow(&mut self, wanted: usize) -> bool {
        if !self.frozen && (wanted <= ALWAYS || self.reservation.try_resize(wanted)) {
            return true;
        }
        self.frozen = true;
        false
    }

    /// Accounts for what grows apart from the slots, the bytes of long keys, and gives back what was
    /// needed while the slots were doubled. `used` is what the table occupies.
    pub(super) fn account(&mut self, used: usize) {
        let held = self.reservation.bytes();
        if used > ALWAYS && !self.frozen && (used > held || held - used > used / 4) {
            self.frozen = !self.reservation.try_resize(used + used / 8);
        }
    }

    /// Writes a record whose key has this hash.
    pub(super) fn write(&mut self, hash: u64, item: &S::Of<'_>) -> Result<()> {
        if self.parts.is_empty() {
            self.parts = (0..1 << PARTS_BITS).map(|_| self.spill.writer()).collect();
        }
        // Routing has used the top bits, the table uses the lowest; each depth uses its own.
        let shift = 44 - PARTS_BITS * (self.depth % 6);
        let part = (hash >> shift) as usize & ((1 << PARTS_BITS) - 1);
        self.parts[part].push(item)
    }

    /// What was being gone through has ended: sets aside what was written meanwhile.
    pub(super) fn set_aside(&mut self) -> Result<()> {
        let depth = self.depth + 1;
        for part in self.parts.drain(..).filter(|part| part.records() > 0) {
            let file = part.finish()?;
            self.bytes += file.bytes();
            self.on_disk.push((file, depth));
        }
        Ok(())
    }

    /// The next part to go through, with a table that is empty again; `None` when all is done.
    pub(super) fn next_part(&mut self) -> Option<SpillReader<S>> {
        self.frozen = false;
        let _ = self.reservation.try_resize(0);
        let (part, depth) = self.on_disk.pop().unzip();
        self.depth = depth.unwrap_or(0);
        let part: SpillFile<S> = part?;
        Some(part.read())
    }
}
