//! The solution of a delta iteration: one value per key, kept in place for all rounds, and the changes of a
//! round.
//!
//! When memory is short, all entries of a task move to a [`StoredSolution`], whose keys go to disk one by one. What is in
//! memory here is empty from then on, and counts as full.

use super::stored_solution::StoredSolution;
use crate::checkpoint::Saving;
use crate::data::{Data, Key, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::fault::{Fault, is_planted};
use crate::flow::Event;
use crate::memory::Reservation;
use crate::operators::keyed::KeyBy;
use crate::state::GroupTable;
use crate::sync::{Mutex, lock};

/// Entries that are moved before memory is released.
const MOVED: usize = 1024;

/// The part of a solution whose keys a task owns.
pub struct Solution<K: Data + Key, V: Data> {
    /// The index of a key in `entries`.
    places: GroupTable<K, u32>,
    /// In the order in which the keys arrived.
    entries: Vec<(K, V)>,
    /// Whether the entry is among the changed ones.
    marks: Vec<bool>,
    /// The entries that have changed in this round, each once.
    changed: Vec<u32>,
    /// In a job with checkpoints, the entries that had changed in the last round: those of the next.
    fed_back: Option<Vec<u32>>,
    /// The heap bytes of values, and of keys, which are both in `places` and `entries`.
    heap: usize,
    /// The bytes reserved for `heap`.
    heap_room: usize,
    /// Covers `heap_room`, `places`, and the lists with an element per entry.
    reservation: Reservation,
    /// Where the entries are once memory is short. One is shared by the solutions of all runs of a loop: see
    /// [`reuse`](Self::reuse).
    stored: Option<Box<StoredSolution<K, V>>>,
    /// Whether they are there.
    is_stored: bool,
}

impl<K: Data + Key<Owned = K> + Eq + Clone, V: Data + Clone> Solution<K, V> {
    /// `saved` says whether it is a part of checkpoints; `stored` may have entries of one.
    pub(super) fn new(
        reservation: Reservation,
        saved: bool,
        stored: Option<Box<StoredSolution<K, V>>>,
    ) -> Self {
        let is_stored = stored.as_ref().is_some_and(|stored| stored.has_keys());
        Self {
            places: GroupTable::new(),
            entries: Vec::new(),
            marks: Vec::new(),
            changed: Vec::new(),
            fed_back: saved.then(Vec::new),
            heap: 0,
            heap_room: 0,
            reservation,
            stored,
            is_stored,
        }
    }

    /// An empty solution of the same operator, which takes over [what is stored](Self::reuse) before it gets entries.
    pub(super) fn another(&self) -> Self {
        Self::new(self.reservation.another(), self.fed_back.is_some(), None)
    }

    /// Another run of the loop begins: takes over what the solution of the run before had for its disk, without its entries.
    pub(super) fn reuse(&mut self, left: Entries<K, V>) {
        self.stored = left.stored;
        if let Some(stored) = &mut self.stored {
            stored.clear();
        }
    }

    /// The bytes written to disk.
    pub(super) fn written(&self) -> u64 {
        self.stored.as_ref().map_or(0, |stored| stored.written())
    }

    /// Offers a record's value to its key: a new key takes it; for a key that is in the solution, `improve`
    /// merges it into the value, and returns whether that has changed.
    #[inline(always)]
    pub(super) fn take<I: Record + ?Sized, G: KeyBy<I, Key = K, Value = V>>(
        &mut self,
        keys: &G,
        item: I::Of<'_>,
        improve: impl FnOnce(&mut V, V) -> bool,
    ) -> Result<()> {
        let full = self.places.is_full() || self.entries.len() == self.entries.capacity();
        let key = keys.key(&item);
        if full && !self.has_room_for(keys.hash(&item), key) {
            let (hash, key) = (keys.hash(&item), key.clone());
            return self.take_beyond(hash, key, keys.value(item), improve);
        }
        let new = self.entries.len() as u32;
        let at = *self.places.upsert(keys.hash(&item), key.probe(), key, || new);
        if at == new {
            let key = key.clone();
            let value = keys.value(item);
            self.heap += 2 * key.heap_size() + value.heap_size();
            self.entries.push((key, value));
            self.marks.push(true);
            self.changed.push(at);
            return self.reserve_heap();
        }
        let at = at as usize;
        let current = &mut self.entries[at].1;
        let before = current.heap_size();
        if improve(current, keys.value(item)) {
            self.heap = (self.heap + current.heap_size()).saturating_sub(before);
            if !std::mem::replace(&mut self.marks[at], true) {
                self.changed.push(at as u32);
            }
        }
        self.reserve_heap()
    }

    /// Whether a key is in memory, or there is room for it.
    #[inline(never)]
    fn has_room_for(&mut self, hash: u64, key: &K) -> bool {
        // All keys are stored, or none.
        !self.is_stored && (self.make_room() || self.places.find(hash, key.probe()).is_some())
    }

    /// As [`take`](Self::take), where there is no room in memory.
    #[cold]
    #[inline(never)]
    fn take_beyond(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        improve: impl FnOnce(&mut V, V) -> bool,
    ) -> Result<()> {
        self.moved()?.take(hash, key, value, improve)
    }

    /// Where all entries are stored, to which those in memory are moved first.
    ///
    /// # Errors
    ///
    /// If they may not be on disk, or it is full.
    fn moved(&mut self) -> Result<&mut StoredSolution<K, V>> {
        let Self { entries, marks, fed_back, reservation, .. } = self;
        let Some(stored) = &mut self.stored else {
            return Err(Error::new(ErrorKind::Internal, "a solution has no place on disk"));
        };
        if self.is_stored {
            return Ok(stored);
        }
        if stored.stays_in_memory() {
            return Err(stored.kept_in_memory());
        }
        self.is_stored = true;
        (self.places, self.changed) = (GroupTable::new(), Vec::new());
        let last = fed_back.as_mut().map(std::mem::take).unwrap_or_default();
        let mut were_changed = vec![false; if last.is_empty() { 0 } else { entries.len() }];
        last.into_iter().for_each(|at| were_changed[at as usize] = true);
        let (all, bytes) = (entries.len().max(1), reservation.bytes());
        while let Some((key, value)) = entries.pop() {
            let at = entries.len();
            let is_changed = marks.pop().unwrap_or_default();
            let was_changed = were_changed.get(at).is_some_and(|was_changed| *was_changed);
            stored.add(key, value, (is_changed, was_changed))?;
            if at.is_multiple_of(MOVED) && at < entries.capacity() / 2 {
                entries.shrink_to_fit();
                let left = bytes as u128 * at as u128 / all as u128;
                let _ = reservation.try_resize(usize::try_from(left).unwrap_or(bytes).min(bytes));
            }
        }
        (*entries, *marks) = (Vec::new(), Vec::new());
        (self.heap, self.heap_room) = (0, 0);
        let _ = reservation.try_resize(0);
        stored.settle()?;
        Ok(stored)
    }

    /// Accounts for the memory of what is stored, and gives way to state that has to stay in memory.
    pub(super) fn tend(&mut self) -> Result<()> {
        match &mut self.stored {
            Some(stored) if self.is_stored => return stored.settle(),
            Some(stored) if !stored.stays_in_memory() => {}
            _ => return Ok(()),
        }
        // In tests there is no memory from the beginning.
        if self.reservation.is_over_budget() || is_planted(Fault::HasNoRoom) {
            self.moved()?;
        }
        Ok(())
    }

    /// Makes room for more keys, if the budget allows.
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        let keys = (2 * self.entries.len()).clamp(64, u32::MAX as usize);
        let lists = 1 + usize::from(self.fed_back.is_some());
        let each = size_of::<(K, V)>() + size_of::<bool>() + lists * size_of::<u32>();
        let bytes = self.places.bytes_if_grown() + keys * each + self.heap_room;
        if self.entries.len() == u32::MAX as usize || !self.reservation.try_resize(bytes) {
            return false;
        }
        self.entries.reserve(keys - self.entries.len());
        self.marks.reserve(keys - self.marks.len());
        true
    }

    /// Reserves the heap memory of keys and values.
    #[inline(always)]
    fn reserve_heap(&mut self) -> Result<()> {
        if self.heap <= self.heap_room { Ok(()) } else { self.reserve_more_heap() }
    }

    #[inline(never)]
    fn reserve_more_heap(&mut self) -> Result<()> {
        let rest = self.reservation.bytes() - self.heap_room;
        for room in [2 * self.heap, self.heap] {
            if self.reservation.try_resize(rest + room) {
                self.heap_room = room;
                return Ok(());
            }
        }
        self.moved().map(|_| ())
    }

    /// Passes the entries that have changed since the last call to `each`, each once.
    pub(super) fn take_changed(
        &mut self,
        mut each: impl FnMut((K, V)) -> Result<()>,
    ) -> Result<()> {
        if self.is_stored {
            return self.moved()?.take_changed(each);
        }
        if let Some(fed_back) = &mut self.fed_back {
            fed_back.clone_from(&self.changed);
        }
        for at in self.changed.drain(..) {
            self.marks[at as usize] = false;
            each(self.entries[at as usize].clone())?;
        }
        Ok(())
    }

    /// Saves the entries at a barrier, each with whether it belongs to the next round. Those that are stored have a place of
    /// their own in the checkpoint.
    ///
    /// # Errors
    ///
    /// If those could not be written.
    pub(super) fn save(&mut self, event: Event, out: &mut Saving) -> Result<()> {
        if self.is_stored {
            return self.moved()?.save(event);
        }
        let mut is_next = self.marks.clone();
        for at in self.fed_back.iter().flatten() {
            is_next[*at as usize] = true;
        }
        for ((key, value), is_next) in self.entries.iter().zip(is_next) {
            out.add_by_key(key.key_hash(), |bytes| {
                key.encode(bytes);
                value.encode(bytes);
                is_next.encode(bytes);
            });
        }
        Ok(())
    }

    /// Adds an entry that was saved, whose key is not in the solution.
    pub(super) fn restore(&mut self, key: K, value: V, is_next: bool) -> Result<()> {
        let full = self.places.is_full() || self.entries.len() == self.entries.capacity();
        if full && (self.is_stored || !self.make_room()) {
            return self.moved()?.add(key, value, (is_next, false));
        }
        let at = self.entries.len() as u32;
        self.places.upsert(key.key_hash(), key.probe(), &key, || at);
        self.heap += 2 * key.heap_size() + value.heap_size();
        self.entries.push((key, value));
        self.marks.push(is_next);
        if is_next {
            self.changed.push(at);
        }
        self.reserve_heap()
    }

    /// All entries; those in memory in the order in which the keys arrived.
    pub(super) fn into_entries(self) -> Entries<K, V> {
        let Self { entries, reservation, stored, is_stored, .. } = self;
        let entries = entries.into_iter();
        Entries { entries, stored, is_stored, _reservation: reservation }
    }
}

/// The entries of a solution that is complete.
pub struct Entries<K: Data + Key, V: Data> {
    entries: std::vec::IntoIter<(K, V)>,
    stored: Option<Box<StoredSolution<K, V>>>,
    /// Whether all entries are stored.
    is_stored: bool,
    /// Held until the entries are dropped.
    _reservation: Reservation,
}

impl<K: Data + Key<Owned = K> + Eq + Clone, V: Data + Clone> Entries<K, V> {
    /// Passes at most `most` of them to `each`; returns whether there were any.
    ///
    /// # Errors
    ///
    /// If one cannot be read from disk.
    pub(super) fn give(&mut self, most: usize, mut each: impl FnMut((K, V))) -> Result<bool> {
        let mut given = 0;
        while given < most
            && let Some(entry) = self.next()?
        {
            each(entry);
            given += 1;
        }
        Ok(given > 0)
    }

    /// The bytes written to disk.
    pub(super) fn written(&self) -> u64 {
        self.stored.as_ref().map_or(0, |stored| stored.written())
    }

    fn next(&mut self) -> Result<Option<(K, V)>> {
        match &mut self.stored {
            Some(stored) if self.is_stored => stored.next_left(),
            _ => Ok(self.entries.next()),
        }
    }
}

/// A slot by which a head and the tail of the same keys pass a solution to each other.
pub(super) struct Handed<X>(Mutex<Option<X>>);

impl<X> Default for Handed<X> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<X> Handed<X> {
    pub(super) fn put(&self, what: X) {
        *lock(&self.0) = Some(what);
    }

    pub(super) fn see<R>(&self, see: impl FnOnce(Option<&mut X>) -> R) -> R {
        see(lock(&self.0).as_mut())
    }

    /// Takes it, if it is there.
    pub(super) fn try_take(&self) -> Option<X> {
        lock(&self.0).take()
    }

    pub(super) fn take(&self) -> Result<X> {
        let missing = || Error::new(ErrorKind::Internal, "a solution was taken twice");
        self.try_take().ok_or_else(missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;
    use crate::operators::keyed::FirstOf;

    type Kind = (u64, u64);

    fn offer(solution: &mut Solution<u64, u64>, entry: Kind) -> Result<()> {
        let larger =
            |value: &mut u64, other: u64| other > std::mem::replace(value, other.max(*value));
        solution.take::<Kind, _>(&FirstOf, entry, larger)
    }

    #[test]
    fn a_full_solution_takes_candidates_for_its_keys() {
        let pool = MemoryPool::new(1 << 16);
        let mut solution = Solution::new(pool.reserve(), false, None);
        let full = (0..).find(|&key| offer(&mut solution, (key, 0)).is_err()).unwrap();
        assert!(full > 64);
        for key in 0..full {
            offer(&mut solution, (key, key)).unwrap();
        }
        assert!(offer(&mut solution, (full, 1)).is_err());
        let entries = solution.into_entries().entries;
        assert!(entries.eq((0..full).map(|key| (key, key))));
        assert_eq!(pool.used(), 0);
    }
}
