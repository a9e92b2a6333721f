//! A bounded cache that evicts entries that have not been used lately.
//!
//! Entries are in a ring. Each has a mark for whether it was looked up since the hand last passed it. When the
//! cache is full, the hand advances, clears the mark of entries that have one, and evicts the first that has
//! none. This is the second-chance algorithm (F. J. Corbató, 1968): nearly as good as least recently used, and
//! a hit moves nothing. An entry that is never looked up again is evicted before entries that are in use.
//!
//! An index finds an entry by its hash, by linear probing; where an entry is removed, those behind it move up.

use crate::data::Key;
use crate::memory::Reservation;

/// Values by key, with a bound on their number.
pub(super) struct Cache<K: Key + ?Sized, V> {
    entries: Vec<Entry<K, V>>,
    /// Positions in `entries`, plus 1; the length is a power of two, and at most half of the slots are
    /// occupied.
    index: Vec<u32>,
    /// The entry that the hand reaches next.
    hand: usize,
    /// The most entries there may be.
    most: usize,
    reserved: Reservation,
}

struct Entry<K: Key + ?Sized, V> {
    hash: u64,
    key: K::Slot,
    /// The bytes of the key outside of its slot: an arena per entry, so that they are freed with the key.
    arena: K::Arena,
    value: V,
    /// Whether it was looked up since the hand passed it.
    asked: bool,
}

/// The number of entries that a cache begins with.
const FEW: usize = 16;

impl<K: Key + ?Sized, V> Cache<K, V> {
    /// A cache of at most `most` entries, and of fewer where memory is short.
    pub(super) fn new(most: usize, reserved: Reservation) -> Self {
        let most = most.min(u32::MAX as usize / 2);
        Self { entries: Vec::new(), index: Vec::new(), hand: 0, most, reserved }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The value of a key, if it is there.
    #[inline]
    pub(super) fn find(&mut self, hash: u64, probe: K::Probe<'_>) -> Option<&V> {
        if self.index.is_empty() {
            return None;
        }
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let place = (self.index[at] as usize).checked_sub(1)?;
            let entry = &mut self.entries[place];
            if entry.hash == hash && K::matches(&entry.key, &entry.arena, probe) {
                entry.asked = true;
                return Some(&self.entries[place].value);
            }
            at = (at + 1) & mask;
        }
    }

    /// The stored form of a key that is not in the cache.
    pub(super) fn store(key: &K, probe: K::Probe<'_>) -> (K::Slot, K::Arena) {
        let mut arena = K::Arena::default();
        (key.store(probe, &mut arena), arena)
    }

    /// Adds a key that is not in the cache. Where memory is too short for any entry, it is dropped.
    pub(super) fn insert(&mut self, hash: u64, (key, arena): (K::Slot, K::Arena), value: V) {
        let entry = Entry { hash, key, arena, value, asked: false };
        if self.may_grow() {
            self.entries.push(entry);
            self.note(hash, self.entries.len() - 1);
        } else if let Some(place) = self.evict() {
            self.entries[place] = entry;
            self.note(hash, place);
        }
    }

    /// Whether there is room for one more entry without eviction, or room can be made.
    fn may_grow(&mut self) -> bool {
        let (length, room) = (self.entries.len(), self.index.len() / 2);
        if length >= self.most {
            return false;
        }
        if length < room {
            return true;
        }
        let room = (2 * room).clamp(FEW, self.most.next_power_of_two().max(FEW));
        // While it grows, both copies of the entries exist.
        let entry = size_of::<Entry<K, V>>();
        let bytes = (length + room.min(self.most)) * entry + 2 * room * size_of::<u32>();
        if !self.reserved.try_resize(bytes) {
            return false;
        }
        self.entries.reserve_exact(room.min(self.most) - length);
        self.index.clear();
        self.index.resize(2 * room, 0);
        for place in 0..length {
            self.note(self.entries[place].hash, place);
        }
        let shrunk = self.reserved.bytes() - length * entry;
        let _ = self.reserved.try_resize(shrunk);
        true
    }

    /// Adds an entry to the index.
    fn note(&mut self, hash: u64, place: usize) {
        let mask = self.index.len() - 1;
        let mut at = hash as usize & mask;
        while self.index[at] != 0 {
            at = (at + 1) & mask;
        }
        self.index[at] = place as u32 + 1;
    }

    /// Picks the entry to evict, and removes it from the index.
    fn evict(&mut self) -> Option<usize> {
        loop {
            if self.hand >= self.entries.len() {
                self.hand = 0;
            }
            let place = self.hand;
            let entry = self.entries.get_mut(place)?;
            self.hand += 1;
            if !std::mem::take(&mut entry.asked) {
                let hash = entry.hash;
                self.forget(hash, place);
                return Some(place);
            }
        }
    }

    /// Removes an entry from the index.
    fn forget(&mut self, hash: u64, place: usize) {
        let mask = self.index.len() - 1;
        let mut hole = hash as usize & mask;
        while self.index[hole] != place as u32 + 1 {
            hole = (hole + 1) & mask;
        }
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let Some(other) = (self.index[at] as usize).checked_sub(1) else { break };
            // Its distance from the slot of its hash, and from the hole.
            let from_home = at.wrapping_sub(self.entries[other].hash as usize) & mask;
            let from_hole = at.wrapping_sub(hole) & mask;
            if from_home >= from_hole {
                self.index[hole] = self.index[at];
                hole = at;
            }
        }
        self.index[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryPool;
    use proptest::prelude::*;

    /// The same, by searching all entries each time.
    struct Naive {
        entries: Vec<(String, u64, bool)>,
        hand: usize,
        most: usize,
    }

    impl Naive {
        fn find(&mut self, key: &str) -> Option<u64> {
            let entry = self.entries.iter_mut().find(|entry| entry.0 == key)?;
            entry.2 = true;
            Some(entry.1)
        }

        fn insert(&mut self, key: &str, value: u64) {
            let entry = (key.to_owned(), value, false);
            if self.entries.len() < self.most {
                self.entries.push(entry);
                return;
            }
            while self.entries[self.hand % self.most].2 {
                self.entries[self.hand % self.most].2 = false;
                self.hand += 1;
            }
            self.entries[self.hand % self.most] = entry;
            self.hand += 1;
        }
    }

    fn text(n: u16) -> String {
        // Some keys are stored in their slot, some in the arena.
        if n.is_multiple_of(3) {
            format!("a key that is longer than most, number {n}")
        } else {
            n.to_string()
        }
    }

    proptest! {
        #[test]
        fn the_cache_agrees_with_a_model(most in 1..60_usize, asked in prop::collection::vec(0..120_u16, 0..600)) {
            let pool = MemoryPool::new(1 << 20);
            let mut cache = Cache::<str, u64>::new(most, pool.reserve());
            let mut naive = Naive { entries: Vec::new(), hand: 0, most };
            for (value, n) in asked.into_iter().enumerate() {
                let (key, value) = (text(n), value as u64);
                let key: &str = &key;
                let probe = key.probe();
                let hash = str::hash(probe);
                let found = cache.find(hash, probe).copied();
                prop_assert_eq!(found, naive.find(key));
                if found.is_none() {
                    cache.insert(hash, Cache::<str, u64>::store(key, probe), value);
                    naive.insert(key, value);
                }
                prop_assert_eq!(cache.len(), naive.entries.len());
            }
        }
    }

    #[test]
    fn results_in_use_stay_in_the_cache() {
        let mut cache = Cache::<u64, u64>::new(8, MemoryPool::new(1 << 20).reserve());
        for n in 0..10_000_u64 {
            for key in [1 << 40, n] {
                let hash = u64::hash(&key);
                if cache.find(hash, &key).is_none() {
                    assert!(key == n || n == 0, "{n}");
                    cache.insert(hash, Cache::<u64, u64>::store(&key, &key), key);
                }
            }
        }
    }

    #[test]
    fn the_cache_stays_within_its_memory() {
        let pool = MemoryPool::new(10_000);
        let mut cache = Cache::<u64, [u64; 4]>::new(usize::MAX, pool.reserve());
        for key in 0..10_000_u64 {
            let hash = u64::hash(&key);
            assert!(cache.find(hash, &key).is_none());
            cache.insert(hash, Cache::<u64, u64>::store(&key, &key), [key; 4]);
            assert!(cache.find(hash, &key).is_some());
        }
        assert!((16..200).contains(&cache.len()), "{}", cache.len());
        let mut none = Cache::<u64, u64>::new(100, MemoryPool::new(10).reserve());
        none.insert(u64::hash(&1), Cache::<u64, u64>::store(&1, &1), 1);
        assert!(none.len() == 0 && none.find(u64::hash(&1), &1).is_none());
    }
}
