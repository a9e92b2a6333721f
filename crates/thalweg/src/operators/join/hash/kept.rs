//! The build side of a join, kept within the memory budget.

use super::saved::RowsOut;
use crate::data::Data;
use crate::error::{Error, Result};
use crate::memory::Reservation;
use crate::state::Rows;
use crate::time::Time;

/// Bytes that may be used even if the budget is exhausted, so that every part makes progress.
pub(super) const ALWAYS: usize = 64 << 10;

/// A row of the build side: its hash, key, value and time.
pub(in crate::operators::join) type Row<K, B, T> = (u64, K, B, T);

/// Rows in memory, for lookups.
pub(in crate::operators::join) struct BuildTable<K, B, T> {
    pub(in crate::operators::join) rows: Rows<K, (B, T)>,
    /// Whether a row has met a partner; empty where the kind of join does not need it.
    pub(super) met: Vec<bool>,
    /// The heap bytes that the rows may own.
    heap: usize,
    reservation: Reservation,
}

impl<K: Data + Eq, B: Data, T: Time> BuildTable<K, B, T> {
    pub(in crate::operators::join) fn new(reservation: Reservation) -> Self {
        Self { rows: Rows::new(), met: Vec::new(), heap: 0, reservation }
    }

    /// Keeps a row, to be linked later, or returns it as an error where the budget has no room.
    #[inline(always)]
    pub(super) fn push(&mut self, row: Row<K, B, T>) -> Result<(), Row<K, B, T>> {
        if !self.has_room() {
            return Err(row);
        }
        let (hash, key, value, time) = row;
        self.rows.push(hash, key, (value, time));
        Ok(())
    }

    /// Whether one more row may be kept.
    #[inline(always)]
    pub(in crate::operators::join) fn has_room(&mut self) -> bool {
        !(self.rows.is_full() || self.rows.heap() > self.heap) || self.make_room()
    }

    /// The bytes of so many rows, without what they own on the heap.
    fn cost(rows: usize) -> usize {
        Rows::<K, (B, T)>::bytes_with(rows) + rows
    }

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        let (rows, heap) = (self.rows.capacity(), self.rows.heap());
        let cost = Self::cost;
        // Growth by a quarter may still fit where doubling does not.
        for by in [|size| 2 * size, |size| size + size / 4] as [fn(usize) -> usize; 2] {
            let grown = if self.rows.is_full() { by(rows).max(16) } else { rows };
            let heap = if heap > self.heap { by(heap) } else { self.heap };
            // While rows are moved, both copies exist.
            let moved = if grown > rows { cost(rows) } else { 0 };
            let wanted = cost(grown) + heap;
            let may_grow = grown <= Rows::<K, (B, T)>::MOST
                && (wanted <= ALWAYS
                    || self.rows.is_empty()
                    || self.reservation.try_resize(wanted + moved));
            if may_grow {
                self.rows.grow(grown);
                let _ = self.reservation.try_resize(wanted.min(self.reservation.bytes()));
                self.heap = heap;
                return true;
            }
        }
        false
    }

    /// The error for rows that the budget has no room for.
    pub(in crate::operators::join) fn refused(&self, what: String) -> Error {
        self.reservation.refused(what)
    }

    /// The budget, in bytes.
    pub(in crate::operators::join) fn limit(&self) -> usize {
        self.reservation.pool().limit()
    }

    /// Whether the rows should go to disk, because state that has to stay in memory has taken their place.
    #[inline]
    pub(in crate::operators::join) fn is_over_budget(&self) -> bool {
        self.reservation.is_over_budget()
    }

    /// Releases memory of rows that were removed one by one.
    pub(in crate::operators::join) fn shrink(&mut self) {
        self.rows.shrink();
        self.heap = self.rows.heap();
        let needed = Self::cost(self.rows.capacity()) + self.heap;
        let _ = self.reservation.try_resize(needed.min(self.reservation.bytes()));
    }

    /// Saves all rows. `before` says which of the first have met a partner, if that is not recorded yet.
    pub(in crate::operators::join) fn save(&self, out: &mut RowsOut<'_>, before: &[bool]) {
        let met = if self.met.is_empty() { before } else { &self.met };
        for row in 0..self.rows.len() {
            let (value, time) = self.rows.value(row);
            let met = met.get(row).is_some_and(|met| *met);
            out.add(self.rows.key(row), value, *time, met);
        }
    }

    /// Records for each row, from now on, whether it has met a partner.
    pub(super) fn forget_met(&mut self) {
        self.met.clear();
        self.met.resize(self.rows.len(), false);
    }

    /// Drops the rows and releases the memory.
    pub(in crate::operators::join) fn reset(&mut self) {
        self.rows.reset();
        (self.met, self.heap) = (Vec::new(), 0);
        let _ = self.reservation.try_resize(0);
    }
}
