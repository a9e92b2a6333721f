//! Compares the table with the standard library's map.

use super::*;
use crate::data::{Data, DecodeError, Schema};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A key with a hash chosen by the test.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Chosen {
    hash: u64,
    name: u16,
}

/// The number of keys to try; miri is a thousand times slower.
const MANY: usize = if cfg!(miri) { 40 } else { 400 };

thread_local! {
    static PANIC_ON_HASH: Cell<Option<u16>> = const { Cell::new(None) };
}

impl Data for Chosen {
    fn encode(&self, out: &mut Vec<u8>) {
        Data::encode(&(self.hash, self.name), out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (hash, name) = <(u64, u16) as Data>::decode(input)?;
        Ok(Self { hash, name })
    }
    fn key_hash(&self) -> u64 {
        assert_ne!(PANIC_ON_HASH.get(), Some(self.name), "the hash of this key fails");
        self.hash
    }
    fn schema() -> Schema {
        <(u64, u16)>::schema()
    }
}

fn count<K: Key + ?Sized>(table: &mut GroupTable<K, u64>, key: &K) -> u64 {
    let probe = key.probe();
    let value = table.upsert(K::hash(probe), probe, key, || 0);
    *value += 1;
    *value
}

fn find<K: Key + ?Sized>(table: &mut GroupTable<K, u64>, key: &K) -> Option<u64> {
    let probe = key.probe();
    table.find(K::hash(probe), probe).copied()
}

/// Counts the keys in a table and in a `HashMap`, and compares them by every method of access.
fn check<K: Key + ?Sized>(keys: &[K::Owned], strangers: &[K::Owned], borrow: fn(&K::Owned) -> &K)
where
    K::Owned: Clone + Eq + std::hash::Hash + Ord + fmt::Debug,
{
    let mut table = GroupTable::<K, u64>::new();
    let mut expected = HashMap::new();
    let mut bytes = table.bytes();
    for key in keys {
        let new = !expected.contains_key(key);
        let full = table.is_full();
        let doubled = table.bytes_if_grown();
        let counted = count(&mut table, borrow(key));
        *expected.entry(key.clone()).or_insert(0) += 1;
        assert_eq!(counted, expected[key]);
        if new {
            assert!(!full || (bytes < table.bytes() && 2 * table.bytes() <= 3 * doubled));
        } else {
            assert_eq!(table.bytes(), bytes);
        }
        assert!(table.bytes() >= bytes);
        bytes = table.bytes();
        assert_eq!(table.len(), expected.len());
    }
    for key in keys.iter().chain(strangers) {
        assert_eq!(find(&mut table, borrow(key)), expected.get(key).copied());
    }
    let mut seen = Vec::new();
    table.for_each(|key, count| seen.push((key.own(), *count)));
    assert_eq!(table.values().sum::<u64>(), keys.len() as u64);

    // Alternates between owned and borrowed keys; both keep the order of `for_each`.
    let mut drain = table.into_drain();
    let mut drained = Vec::new();
    while let Some(first) = drain.next() {
        drained.push(first);
        drained.extend(drain.for_next(|key, count| (key.own(), count)));
        assert_eq!(drain.remaining(), expected.len() - drained.len());
    }
    assert_eq!(drained, seen);
    assert!(drain.for_next(|_, _| ()).is_none());
    let mut expected: Vec<_> = expected.into_iter().collect();
    drained.sort();
    expected.sort();
    assert_eq!(drained, expected);

    // The same memory again, and the same order for the same input.
    let mut table = drain.into_table();
    assert!(table.is_empty());
    for key in keys {
        count(&mut table, borrow(key));
    }
    let mut again = GroupTable::<K, u64>::new();
    for key in keys {
        count(&mut again, borrow(key));
    }
    let mut order = Vec::new();
    again.for_each_mut(|key, count| order.push((key.own(), *count)));
    assert_eq!(order, seen);
    table.clear();
    for key in keys.iter().chain(strangers) {
        assert_eq!(find(&mut table, borrow(key)), None);
    }
}

/// Few letters, one of them NUL, and lengths around those at which the packed form changes.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ab\0]{0,3}",
        "[a\0é]{13,18}",
        "prefix of 14 by[ab\0]{0,4}",
        "a long beginning that all of them have in common[ab]{0,3}",
    ]
}

/// Hashes that agree in their index, their tag, or both; many near the last slot.
fn chosen() -> impl Strategy<Value = Chosen> {
    let low = prop_oneof![Just(0_u64), 10..18_u64, 28..34_u64, 60..66_u64, 250..258_u64];
    let middle = prop_oneof![Just(0_u64), Just(1 << 40), Just(1 << 50)];
    (low, middle, 0..40_u16).prop_map(|(low, middle, name)| Chosen { hash: low | middle, name })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]

    // Generating such text takes minutes under miri.
    #[cfg_attr(miri, ignore)]
    #[test]
    fn text_keys(
        keys in prop::collection::vec(text(), 0..MANY / 2),
        strangers in prop::collection::vec(text(), 20),
    ) {
        check::<str>(&keys, &strangers, String::as_str);
        check::<String>(&keys, &strangers, |key| key);
        let bytes = |keys: &[String]| -> Vec<Vec<u8>> {
            keys.iter().map(|key| key.clone().into_bytes()).collect()
        };
        check::<[u8]>(&bytes(&keys), &bytes(&strangers), Vec::as_slice);
    }

    #[test]
    fn number_keys(
        keys in prop::collection::vec(0..300_u64, 0..2 * MANY),
        strangers in prop::collection::vec(any::<u64>(), 20),
    ) {
        check::<u64>(&keys, &strangers, |key| key);
    }

    // Takes minutes too; `one_hash_for_all` and `runs_go_around_the_end` cover collisions.
    #[cfg_attr(miri, ignore)]
    #[test]
    fn colliding_keys(
        keys in prop::collection::vec(chosen(), 0..MANY),
        strangers in prop::collection::vec(chosen(), 20),
    ) {
        check::<Chosen>(&keys, &strangers, |key| key);
    }
}

/// Counts a key, and removes it when its count reaches three.
fn count_or_remove<K: Key + ?Sized>(
    table: &mut GroupTable<K, (u64, Arc<()>)>,
    key: &K,
    held: &Arc<()>,
) {
    let (probe, hash) = (key.probe(), K::hash(key.probe()));
    table.upsert(hash, probe, key, || (0, Arc::clone(held))).0 += 1;
    let removed = table.see_or_remove(hash, |value| value.0 == 3, |_, value| (value.0, false));
    assert!(removed.is_none_or(|(seen, value)| seen == 3 && value.is_none_or(|it| it.0 == 3)));
}

/// Compares a table from which keys are removed with a `HashMap`.
fn check_removals<K: Key + ?Sized>(keys: &[K::Owned], borrow: fn(&K::Owned) -> &K)
where
    K::Owned: Clone + Eq + std::hash::Hash,
{
    let held = Arc::new(());
    let mut table = GroupTable::<K, (u64, Arc<()>)>::new();
    let mut expected = HashMap::new();
    for key in keys {
        count_or_remove(&mut table, borrow(key), &held);
        let count = expected.entry(key.clone()).or_insert(0_u64);
        *count += 1;
        if *count == 3 {
            expected.remove(key);
        }
        assert_eq!((table.len(), Arc::strong_count(&held)), (expected.len(), 1 + expected.len()));
        for key in keys {
            let probe = borrow(key).probe();
            let found = table.find(K::hash(probe), probe).map(|value| value.0);
            assert_eq!(found, expected.get(key).copied());
        }
    }
    assert_eq!(table.values().count(), expected.len());
    drop(table);
    assert_eq!(Arc::strong_count(&held), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 48 }))]

    // Generating hashes takes minutes under miri.
    #[cfg_attr(miri, ignore)]
    #[test]
    fn removals_among_colliding_keys(keys in prop::collection::vec(chosen(), 0..MANY / 2)) {
        check_removals::<Chosen>(&keys, |key| key);
    }

    #[test]
    fn removals_among_numbers(keys in prop::collection::vec(0..60_u64, 0..MANY / 2)) {
        check_removals::<u64>(&keys, |key| key);
    }
}

#[test]
fn a_table_of_removed_keys_does_not_grow() {
    let mut table = GroupTable::<u64, (u64, Arc<()>)>::new();
    let (held, bytes) = (Arc::new(()), table.bytes());
    for key in 0..MANY as u64 {
        (0..3).for_each(|_| count_or_remove(&mut table, &key, &held));
    }
    assert_eq!((table.len(), table.bytes()), (0, bytes));
}

#[test]
fn keys_in_the_arena_stay_until_they_are_forgotten() {
    let mut table = GroupTable::<str, (u64, Arc<()>)>::new();
    let (held, key) = (Arc::new(()), "a key that is too long for its slot");
    (0..3).for_each(|_| count_or_remove(&mut table, key, &held));
    let probe = key.probe();
    assert_eq!(table.find(str::hash(probe), probe).map(|value| value.0), Some(3));
}

#[cfg_attr(miri, ignore)] // Too many keys.
#[test]
fn a_table_too_large_for_its_keys_shrinks() {
    let mut table = GroupTable::<u64, [u64; 8]>::new();
    for key in 0..50_000_u64 {
        table.upsert(u64::hash(&key), &key, &key, || [key; 8]);
    }
    let bytes = table.bytes();
    for key in 10..50_000_u64 {
        let hash = u64::hash(&key);
        assert!(table.see_or_remove(hash, |value| value[0] == key, |_, _| ((), false)).is_some());
    }
    assert_eq!((table.len(), table.bytes()), (10, bytes));
    table.forget_spent(10, |_| true);
    assert!(table.bytes() < bytes / 1000);
    let left: Vec<_> = (0..50_000).filter(|key| find_first(&mut table, *key)).collect();
    assert_eq!(left, (0..10).collect::<Vec<u64>>());
}

fn find_first(table: &mut GroupTable<u64, [u64; 8]>, key: u64) -> bool {
    table.find(u64::hash(&key), &key).is_some_and(|value| value[0] == key)
}

#[test]
fn one_hash_for_all() {
    for hash in [0, u64::MAX, 15, 1 << 40] {
        let keys: Vec<_> = (0..MANY as u16 / 2).map(|name| Chosen { hash, name }).collect();
        let strangers: Vec<_> = (1000..1020).map(|name| Chosen { hash, name }).collect();
        check::<Chosen>(&keys, &strangers, |key| key);
    }
}

/// Runs that begin at the last slots and wrap around to the first.
#[test]
fn runs_go_around_the_end() {
    let at_the_end = |name: u16| Chosen { hash: u64::MAX - u64::from(name % 3), name };
    let keys: Vec<_> = (0..MANY as u16 / 2).map(at_the_end).collect();
    let strangers: Vec<_> = (1000..1020).map(at_the_end).collect();
    check::<Chosen>(&keys, &strangers, |key| key);
}

#[test]
fn many_keys() {
    let keys: Vec<u64> = (0..if cfg!(miri) { 200 } else { 30_000 }).collect();
    check::<u64>(&keys, &[u64::MAX, 1 << 40], |key| key);
}

#[test]
fn accumulators_without_size() {
    let mut table = GroupTable::<u64, ()>::new();
    for key in (0..50_u64).chain(0..50) {
        table.upsert(u64::hash(&key), &key, &key, || ());
    }
    assert_eq!(table.len(), 50);
    assert_eq!(table.into_drain().map(|(key, ())| key).sum::<u64>(), 1225);
}

#[test]
fn every_accumulator_is_dropped_once() {
    let held = Arc::new(());
    let fill = || {
        let mut table = GroupTable::<String, Arc<()>>::new();
        for key in 0..100_u64 {
            let key = format!("a key of some length: {key}");
            table.upsert(key.key_hash(), &key, &key, || held.clone());
        }
        assert_eq!(Arc::strong_count(&held), 101);
        table
    };
    drop(fill());
    assert_eq!(Arc::strong_count(&held), 1);
    fill().clear();
    assert_eq!(Arc::strong_count(&held), 1);
    let mut drain = fill().into_drain();
    drain.by_ref().take(30).for_each(drop);
    assert_eq!(Arc::strong_count(&held), 71);
    let table = drain.into_table();
    assert_eq!((Arc::strong_count(&held), table.len()), (1, 0));
}

#[test]
fn a_failing_hash_loses_its_key_alone() {
    let held = Arc::new(());
    let mut table = GroupTable::<Chosen, Arc<()>>::new();
    let mut add = |name: u16| {
        let key = Chosen { hash: u64::from(name) << 2, name };
        table.upsert(key.hash, &key, &key, || held.clone());
        table.len()
    };
    // The table grows with the thirteenth key, which calls the hash of the fifth.
    for name in 0..12 {
        add(name);
    }
    PANIC_ON_HASH.set(Some(5));
    let failed = catch_unwind(AssertUnwindSafe(|| add(12)));
    PANIC_ON_HASH.set(None);
    assert!(failed.is_err());
    let mut left = Vec::new();
    table.for_each(|key, _| left.push(key.name));
    left.sort();
    assert!(!left.contains(&5));
    assert_eq!(Arc::strong_count(&held), 1 + left.len());
    drop(table);
    assert_eq!(Arc::strong_count(&held), 1);
}

/// Counts keys by lookups in steps, several keys at a time, while the table grows.
fn count_in_steps<K: Key + ?Sized>(keys: &[K::Owned], borrow: fn(&K::Owned) -> &K)
where
    K::Owned: Clone + Eq + std::hash::Hash,
{
    let mut table = GroupTable::<K, u64>::new();
    let mut expected = HashMap::new();
    let mut at_once = 0;
    for keys in keys.chunks(8) {
        let probes: Vec<_> = keys.iter().map(|key| borrow(key).probe()).collect();
        probes.iter().for_each(|probe| table.prefetch(K::hash(*probe)));
        let places: Vec<_> = probes.iter().map(|probe| table.locate(K::hash(*probe))).collect();
        for ((key, probe), place) in keys.iter().zip(probes).zip(places) {
            *expected.entry(key.clone()).or_insert(0) += 1;
            let hash = K::hash(probe);
            if let Some(count) = table.find_at(place, hash, probe) {
                *count += 1;
                at_once += 1;
            } else if let Some(count) = table.find(hash, probe) {
                *count += 1;
            } else {
                let mut arena = K::Arena::default();
                let slot = borrow(key).store(probe, &mut arena);
                table.insert_slot(hash, slot, &arena, 1);
            }
        }
    }
    assert_eq!(table.len(), expected.len());
    for (key, count) in &expected {
        assert_eq!(find(&mut table, borrow(key)), Some(*count));
    }
    assert!(at_once > keys.len() / 4, "only {at_once} of {} keys", keys.len());
}

#[test]
fn lookups_in_steps_equal_plain_lookups() {
    let numbers: Vec<u64> = (0..MANY as u64 * 2).map(|n| n * n % 61).collect();
    count_in_steps::<u64>(&numbers, |key| key);
    let texts: Vec<String> =
        numbers.iter().map(|n| "a key of some length "[..*n as usize % 21].to_owned()).collect();
    count_in_steps::<str>(&texts, String::as_str);
    check::<str>(&texts[..MANY / 2], &["no such key".to_owned()], String::as_str);
}
