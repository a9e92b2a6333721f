//! The side of a join that is kept, within the memory budget.

use crate::data::Data;
use crate::error::Error;
use crate::memory::Reservation;
use crate::state::Rows;
use crate::time::Time;

/// So many bytes are taken whether the budget has them or not, so that every part gets done.
pub(super) const ALWAYS: usize = 64 << 10;

/// A row that is kept: its hash, key, value and time.
pub(in crate::operators::join) type Row<K, B, T> = (u64, K, B, T);

/// Rows in memory, to be looked up.
pub(in crate::operators::join) struct Kept<K, B, T> {
    pub(in crate::operators::join) rows: Rows<K, (B, T)>,
    /// Whether a row has met a partner; empty where nobody asks.
    pub(super) met: Vec<bool>,
    /// What rows may own on the heap.
    heap: usize,
    reservation: Reservation,
}

impl<K: Data + Eq, B: Data, T: Time> Kept<K, B, T> {
    pub(in crate::operators::join) fn new(reservation: Reservation) -> Self {
        Self { rows: Rows::new(), met: Vec::new(), heap: 0, reservation }
    }

    /// Keeps a row, to be linked later, or gives it back where the budget does not have room.
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

    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        let (rows, heap) = (self.rows.capacity(), self.rows.heap());
        let cost = |rows: usize| Rows::<K, (B, T)>::bytes_with(rows) + rows;
        // A quarter more may still be had where twice as much is not.
        for by in [|size| 2 * size, |size| size + size / 4] as [fn(usize) -> usize; 2] {
            let grown = if self.rows.is_full() { by(rows).max(16) } else { rows };
            let heap = if heap > self.heap { by(heap) } else { self.heap };
            // While rows are moved, they are there twice.
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

    /// The error of what has no room.
    pub(in crate::operators::join) fn refused(&self, what: String) -> Error {
        self.reservation.refused(what)
    }

    /// The budget, in bytes.
    pub(in crate::operators::join) fn limit(&self) -> usize {
        self.reservation.pool().limit()
    }

    /// Remembers of each row whether it has met a partner, from now on.
    pub(super) fn forget_met(&mut self) {
        self.met.clear();
        self.met.resize(self.rows.len(), false);
    }

    /// Gives everything back.
    pub(in crate::operators::join) fn reset(&mut self) {
        self.rows.reset();
        (self.met, self.heap) = (Vec::new(), 0);
        let _ = self.reservation.try_resize(0);
    }
}
