//! The few integer keys of a table, direct-mapped for a time: each in the one slot that its bits select.
//!
//! A look-up multiplies the key and compares it with one entry. It reads no tags and needs no hash. So that nearly all
//! keys have a slot to themselves, there are many times more slots than keys; what is read of them is the cache lines
//! of the keys alone. Keys whose slot is taken stay in the table.

use super::{Entry, GroupTable, Known};
use crate::data::Key;
use std::mem::needs_drop;

/// The number of slots is two to the power of this.
const BITS: u32 = 14;
const SLOTS: usize = 1 << BITS;
/// The largest number of keys: beyond an eighth of the slots, too many would be taken.
const MOST_KEYS: usize = SLOTS / 8;
/// Not used if more than one key in this many stays in the table: a look-up that fails here costs a misprediction.
const FEW: usize = 16;
/// The largest entry, in bytes.
const LARGEST_ENTRY: usize = 32;

/// Entries of a [`GroupTable`], moved out of it by [`GroupTable::take_direct`].
///
/// A key is in a slot exactly if the slot is its own: all others hold copies of one of the keys, which no look-up
/// finds because it looks into the slot of its key.
pub(crate) struct DirectMapped<K: Key + ?Sized, A> {
    entries: Box<[Entry<K, A>; SLOTS]>,
    arena: K::Arena,
}

/// The slot of a key: the top bits of a product with 2^64 divided by the golden ratio, which spreads consecutive
/// numbers evenly.
#[inline(always)]
fn home(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - BITS)) as usize
}

impl<K: Key + ?Sized, A> DirectMapped<K, A> {
    /// Whether tables of such keys and accumulators can be direct-mapped.
    pub(crate) const SUITS: bool = K::WORD.is_some()
        && !needs_drop::<K::Slot>()
        && !needs_drop::<A>()
        && size_of::<Entry<K, A>>() <= LARGEST_ENTRY;

    /// The bytes occupied.
    pub(crate) const BYTES: usize = size_of::<[Entry<K, A>; SLOTS]>();

    /// The accumulator of a key, if the key is in its slot.
    #[inline(always)]
    pub(crate) fn known(&mut self, probe: K::Probe<'_>) -> Option<Known<'_, K, A>> {
        let entry = &mut self.entries[home(K::WORD?(probe))];
        let found = K::matches(&entry.key, &self.arena, probe);
        found.then_some(Known { key: &entry.key, arena: &self.arena, value: &mut entry.value })
    }
}

impl<K: Key + ?Sized, A> GroupTable<K, A> {
    /// Moves the keys out of the table into slots of their own, where they have them. `None`, with the table as it
    /// was, if there are too many keys for that, none, or the [type](DirectMapped::SUITS) does not suit. `start` makes
    /// the accumulators that fill the slots; it is called for each of them.
    pub(crate) fn take_direct(
        &mut self,
        mut start: impl FnMut() -> A,
    ) -> Option<DirectMapped<K, A>> {
        let word = K::WORD?;
        if !DirectMapped::<K, A>::SUITS || self.len() > MOST_KEYS {
            return None;
        }
        let mut homes = vec![false; SLOTS];
        let mut taken = 0;
        self.for_each(|key, _| {
            let home = &mut homes[home(word(key.probe()))];
            taken += usize::from(std::mem::replace(home, true));
        });
        if taken * FEW > self.len() {
            return None;
        }
        let mut arena = K::Arena::default();
        let mut entry = |key: &K, value| Entry { key: key.store(key.probe(), &mut arena), value };
        let entries = self.see_next(&mut 0, |key, _| {
            std::iter::repeat_with(|| entry(key, start())).take(SLOTS).collect::<Box<[_]>>()
        })?;
        let mut entries: Box<[_; SLOTS]> = entries.try_into().ok()?;
        homes.fill(false);
        let mut all = std::mem::take(self).into_drain();
        let mut move_key = |key, from: &K::Arena, value| {
            let at = home(word(K::slot_probe(&key, from)));
            if std::mem::replace(&mut homes[at], true) {
                self.insert_slot(K::slot_hash(&key, from), key, from, value);
            } else {
                entries[at] = K::view(&key, from, |key| entry(key, value));
            }
        };
        while all.slot_for_next(&mut move_key).is_some() {}
        Some(DirectMapped { entries, arena })
    }

    /// Moves all keys back.
    pub(crate) fn put_back(&mut self, direct: DirectMapped<K, A>) {
        let DirectMapped { entries, arena } = direct;
        let Some(word) = K::WORD else { return };
        let entries: Box<[_]> = entries;
        for (at, Entry { key, value }) in entries.into_iter().enumerate() {
            if home(word(K::slot_probe(&key, &arena))) == at {
                self.insert_slot(K::slot_hash(&key, &arena), key, &arena, value);
            }
        }
    }
}

// There is no unsafe code here, and an interpreter would take minutes for so many slots.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A table with each key.
    fn table(keys: impl Iterator<Item = u64>) -> GroupTable<u64, u64> {
        let mut table = GroupTable::new();
        for key in keys {
            *table.upsert(u64::hash(&key), &key, &key, || 0) += key.wrapping_add(1);
        }
        table
    }

    fn add_one(count: &mut u64) {
        *count = count.wrapping_add(1);
    }

    fn rows(table: GroupTable<u64, u64>) -> BTreeMap<u64, u64> {
        let len = table.len();
        let rows: BTreeMap<u64, u64> = table.into_drain().collect();
        assert_eq!(rows.len(), len, "a key is in the table twice");
        rows
    }

    /// Keys with the same slot.
    fn colliding(count: u64) -> impl Iterator<Item = u64> + Clone {
        // Their products are the numbers up to `count`.
        let golden = 0x9e37_79b9_7f4a_7c15_u64;
        let step = |x: u64| x.wrapping_mul(2_u64.wrapping_sub(golden.wrapping_mul(x)));
        let inverse = (0..6).fold(golden, |x, _| step(x));
        (0..count).map(move |n| n.wrapping_mul(inverse)).inspect(|key| assert_eq!(home(*key), 0))
    }

    #[test]
    fn keys_are_in_a_slot_or_in_the_table_and_come_back() {
        let scattered = |n: u64| u64::hash(&n);
        let keys: [Vec<u64>; 6] = [
            vec![7],
            vec![0, u64::MAX],
            (0..1000).collect(),
            (0..1000).map(|n| n << 40).collect(),
            (0..1500).map(scattered).collect(),
            // Five keys of one slot, of which four stay in the table.
            (1 << 20..(1 << 20) + 500).chain(colliding(5)).collect(),
        ];
        for keys in keys {
            let mut table = table(keys.iter().copied());
            let before = rows(self::table(keys.iter().copied()));
            let mut direct = table.take_direct(|| 0).expect("few keys");
            assert!(table.len() <= before.len() / FEW);
            assert!(before.len() != 505 || table.len() >= 4);
            for key in before.keys() {
                let found = direct.known(key).map(|known| add_one(known.value)).is_some();
                let behind = table.find(u64::hash(key), key).map(add_one).is_some();
                assert!(found != behind, "{key}");
                let other = key.wrapping_add(1 << 50);
                assert!(before.contains_key(&other) || direct.known(&other).is_none());
            }
            table.put_back(direct);
            let after: BTreeMap<u64, u64> = rows(table);
            let expected = before.into_iter().map(|(key, count)| (key, count.wrapping_add(1)));
            assert_eq!(after, expected.collect());
        }
    }

    #[test]
    fn a_table_that_does_not_suit_is_left_as_it_is() {
        let mut same = table(colliding(100));
        assert!(same.take_direct(|| 0).is_none());
        assert_eq!(rows(same), rows(table(colliding(100))));
        let many = 0..MOST_KEYS as u64 + 1;
        let mut few = table(many.clone());
        assert!(few.take_direct(|| 0).is_none());
        assert_eq!(rows(few), rows(table(many)));
        assert!(table(0..0).take_direct(|| 0).is_none());
    }

    /// Whether keys of this type get slots; each must then be found in its own, and come back.
    fn are_mapped<K: for<'a> Key<Owned = K, Probe<'a> = &'a K> + Clone + Ord>(keys: &[K]) -> bool {
        let mut table = GroupTable::<K, u64>::new();
        for (at, key) in (0..).zip(keys) {
            table.upsert(K::hash(key), key, key, || at);
        }
        let Some(mut direct) = table.take_direct(|| 0) else { return false };
        for (at, key) in (0..).zip(keys) {
            let known = direct.known(key).expect("few keys, all with a slot");
            assert_eq!((known.key(), *known.value), (key.clone(), at));
        }
        table.put_back(direct);
        let rows: BTreeMap<K, u64> = table.into_drain().collect();
        assert!(rows.into_iter().eq(keys.iter().cloned().zip(0..)));
        true
    }

    #[test]
    fn integers_of_every_width_are_mapped_and_other_types_are_not() {
        assert!(are_mapped(&[i8::MIN, -1, 0, 1, i8::MAX]));
        assert!(are_mapped(&[i16::MIN, -1, 0, 1, i16::MAX]));
        assert!(are_mapped(&[i32::MIN, -1, 0, 1, i32::MAX]));
        assert!(are_mapped(&[i64::MIN, -1, 0, 1, i64::MAX]));
        assert!(are_mapped(&[isize::MIN, -1, 0, 1, isize::MAX]));
        assert!(are_mapped(&[0, 1, u8::MAX]));
        assert!(are_mapped(&[0, 1, u16::MAX]));
        assert!(are_mapped(&[0, 1, u32::MAX]));
        assert!(are_mapped(&[0, 1, usize::MAX]));
        assert!(!are_mapped(&[0, 1, u128::MAX]));
        assert!(!are_mapped(&[false, true]));
        assert!(!are_mapped(&['a', 'b']));
        assert!(!are_mapped(&["a".to_owned(), "b".to_owned()]));
    }
}
