//! The solution of a delta iteration: one value per key, kept in place for all rounds, and the changes of a
//! round.

use crate::checkpoint::Saving;
use crate::data::{Data, Key, Record};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Reservation;
use crate::operators::keyed::KeyBy;
use crate::state::GroupTable;
use crate::sync::{Mutex, lock};

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
}

impl<K: Data + Key<Owned = K> + Eq + Clone, V: Data + Clone> Solution<K, V> {
    /// `saved` says whether it is a part of checkpoints.
    pub(super) fn new(reservation: Reservation, saved: bool) -> Self {
        Self {
            places: GroupTable::new(),
            entries: Vec::new(),
            marks: Vec::new(),
            changed: Vec::new(),
            fed_back: saved.then(Vec::new),
            heap: 0,
            heap_room: 0,
            reservation,
        }
    }

    /// An empty solution of the same operator.
    pub(super) fn another(&self) -> Self {
        Self::new(self.reservation.another(), self.fed_back.is_some())
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
        if full && !self.make_room() && self.find(keys.hash(&item), key).is_none() {
            return Err(self.too_large());
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

    #[cold]
    fn find(&mut self, hash: u64, key: &K) -> Option<u32> {
        self.places.find(hash, key.probe()).copied()
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
        Err(self.too_large())
    }

    #[cold]
    fn too_large(&self) -> Error {
        let what = format!(
            "the {} keys that one of its tasks keeps for all rounds, and their values, are all that the memory \
             budget has room for, and a solution does not go to disk; smaller values need less",
            self.entries.len(),
        );
        self.reservation.refused(what)
    }

    /// Passes the entries that have changed since the last call to `each`, each once.
    pub(super) fn take_changed(
        &mut self,
        mut each: impl FnMut((K, V)) -> Result<()>,
    ) -> Result<()> {
        if let Some(fed_back) = &mut self.fed_back {
            fed_back.clone_from(&self.changed);
        }
        for at in self.changed.drain(..) {
            self.marks[at as usize] = false;
            each(self.entries[at as usize].clone())?;
        }
        Ok(())
    }

    /// Saves the entries, each with whether it belongs to the next round.
    pub(super) fn save(&self, out: &mut Saving) {
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
    }

    /// Adds an entry that was saved, whose key is not in the solution.
    pub(super) fn restore(&mut self, key: K, value: V, is_next: bool) -> Result<()> {
        let full = self.places.is_full() || self.entries.len() == self.entries.capacity();
        if full && !self.make_room() {
            return Err(self.too_large());
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

    /// All entries, in the order in which the keys arrived.
    pub(super) fn into_entries(self) -> Entries<K, V> {
        Entries { entries: self.entries.into_iter(), _reservation: self.reservation }
    }
}

/// The entries of a solution that is complete.
pub struct Entries<K, V> {
    entries: std::vec::IntoIter<(K, V)>,
    /// Held until the entries are dropped.
    _reservation: Reservation,
}

impl<K, V> Entries<K, V> {
    /// Passes at most `most` of them to `each`; returns whether there were any.
    pub(super) fn give(&mut self, most: usize, each: impl FnMut((K, V))) -> bool {
        let any = !self.entries.as_slice().is_empty();
        self.entries.by_ref().take(most).for_each(each);
        any
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

    pub(super) fn see<R>(&self, see: impl FnOnce(Option<&X>) -> R) -> R {
        see(lock(&self.0).as_ref())
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
        let mut solution = Solution::new(pool.reserve(), false);
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
