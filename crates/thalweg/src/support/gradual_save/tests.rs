//! Compares the saved entries of a table with a copy of the table at the barrier.

use super::*;
use crate::checkpoint::{Checkpoints, Redistribution, Shape, Snapshot, StateHandle, StateId};
use crate::data::hash_u64;
use crate::flow::{Depth, Epoch, Event, Op, Signals};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

type Table = GroupTable<u64, u64>;

/// The handle of a table's state, in a job that begins with this snapshot.
fn handle(restored: Option<Snapshot>) -> (Arc<Checkpoints>, StateHandle) {
    handle_of::<u64>(restored)
}

/// The same, of states of this type.
fn handle_of<V: Data>(restored: Option<Snapshot>) -> (Arc<Checkpoints>, StateHandle) {
    handle_with::<(u64, V)>(restored)
}

/// The same, with entries of this type.
pub(crate) fn handle_with<E: Data>(restored: Option<Snapshot>) -> (Arc<Checkpoints>, StateHandle) {
    let all = Checkpoints::new(restored, None);
    let op = Op::new(0, "count".into(), Depth::default(), Arc::new(Signals::default()));
    let id = StateId { operator: "count".to_owned(), name: "table".to_owned() };
    let shape = Shape { entries: E::schema(), operator: String::new(), by_key: true };
    let state = all.handle((op, id, shape), (0, 1), Redistribution::ByKey);
    (all, state)
}

/// The entries saved at a barrier, in the order of keys: a key that was saved twice is there twice.
pub(crate) fn saved<E: Data + Ord>(all: &Checkpoints, epoch: Epoch) -> Vec<E> {
    let taken = all.take(epoch, BTreeSet::new()).unwrap();
    let (_, state) = handle_with::<E>(Some(taken.snapshot));
    let mut entries = Vec::new();
    let restored = state.restore(|entry: E| {
        entries.push(entry);
        Ok(())
    });
    restored.unwrap();
    entries.sort_unstable();
    entries
}

fn contents(table: &Table) -> Vec<(u64, u64)> {
    let mut contents = BTreeMap::new();
    table.for_each(|key, value| _ = contents.insert(*key, *value));
    contents.into_iter().collect()
}

/// Counts a key, as an operator does.
fn count(saving: &mut Option<GradualSave>, table: &mut Table, key: u64) {
    let hash = key.key_hash();
    if let Some(saving) = saving {
        saving.before_change(table, hash, &key);
    }
    *table.upsert(hash, &key, &key, || 0) += 1;
}

/// Numbers that look random.
pub(crate) fn numbers(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut drawn = 0;
    move |below| {
        drawn += 1;
        hash_u64(seed << 32 | drawn) % below
    }
}

#[test]
fn what_is_saved_is_the_table_at_the_barrier_however_it_changes_meanwhile() {
    let (mut grown, mut emptied, mut in_parts) = (0, 0, 0);
    for seed in 0..60 {
        let mut below = numbers(seed);
        let (all, state) = handle(None);
        let (mut table, keys) = (Table::new(), 1 + below(600));
        for epoch in (1..6).map(Epoch) {
            for _ in 0..below(200) {
                count(&mut None, &mut table, below(keys));
            }
            let (at_barrier, slots) = (contents(&table), table.slots());
            let open = state.open(Event::Barrier(epoch)).unwrap();
            let part = 1 + below(40) as usize;
            let mut saving = Some(GradualSave::in_parts_from(part, open, &table));
            let (most, ends_early) = (1 + below(60), below(5) == 0);
            loop {
                for _ in 0..below(most) {
                    count(&mut saving, &mut table, below(keys));
                }
                if ends_early && below(3) == 0 {
                    GradualSave::save_rest(&mut saving, &table);
                    table = Table::new();
                    emptied += 1;
                }
                if !GradualSave::save_part(&mut saving, &table) {
                    break;
                }
                in_parts += 1;
            }
            assert!(saving.is_none());
            grown += u64::from(table.slots() > slots);
            assert_eq!(saved::<(u64, u64)>(&all, epoch), at_barrier, "seed {seed}, {epoch:?}");
        }
    }
    assert!(grown > 9 && emptied > 9 && in_parts > 500, "{grown}, {emptied}, {in_parts}");
}

#[test]
fn parts_are_short_where_a_task_runs_out_of_input_and_grow_where_it_does_not() {
    let (_all, state) = handle(None);
    let mut table = Table::new();
    (0..1000).for_each(|key| count(&mut None, &mut table, key));
    let open = state.open(Event::Barrier(Epoch(1))).unwrap();
    let mut saving = Some(GradualSave::in_parts_from(LEAST, open, &table));
    let mut part = |records: bool| {
        let before = saving.as_ref().unwrap().next;
        if records {
            count(&mut saving, &mut table, 3);
        }
        assert!(GradualSave::save_part(&mut saving, &table));
        saving.as_ref().unwrap().next - before
    };
    let lengths = [true, true, true, true, true, true, true, true, false, true].map(&mut part);
    assert_eq!(lengths, [4, 4, 8, 8, 16, 16, 16, 16, 4, 4]);
}

#[test]
fn a_long_part_of_large_states_ends_early() {
    let mut large = GroupTable::<u64, Vec<u8>>::new();
    (0..100u64).for_each(|key| _ = large.upsert(key.key_hash(), &key, &key, || vec![7; 1000]));
    let (_all, state) = handle_of::<Vec<u8>>(None);
    let open = state.open(Event::Barrier(Epoch(1))).unwrap();
    let mut saving = Some(GradualSave::in_parts_from(64, open, &large));
    assert!(GradualSave::save_part(&mut saving, &large));
    let encoded = saving.unwrap().open.saving.encoded();
    assert!((1000..1100).contains(&encoded), "{encoded}");
}

#[test]
fn nothing_of_a_barrier_is_there_before_all_is_saved() {
    let (all, state) = handle(None);
    let mut table = Table::new();
    (0..50).for_each(|key| count(&mut None, &mut table, key));
    let open = state.open(Event::Barrier(Epoch(1))).unwrap();
    let mut saving = GradualSave::begin(open, &table);
    assert!(GradualSave::save_part(&mut saving, &table), "tests save small tables in parts");
    assert_eq!(all.kept(), 0);
    while GradualSave::save_part(&mut saving, &table) {}
    assert_eq!((all.kept(), saving.is_none()), (1, true));
    // An empty table is saved at once.
    let open = state.open(Event::Barrier(Epoch(2))).unwrap();
    assert!(GradualSave::begin(open, &Table::new()).is_none());
    assert_eq!(all.kept(), 2);
}

#[test]
fn a_table_is_saved_at_once_unless_it_or_what_it_owns_is_large() {
    let (all, state) = handle(None);
    let mut table = Table::new();
    (0..50).for_each(|key| count(&mut None, &mut table, key));
    let begin = |epoch, bytes| {
        let open = state.open(Event::Barrier(Epoch(epoch))).unwrap();
        GradualSave::begin_within(bytes, open, &table)
    };
    assert!(begin(1, table.bytes()).is_none());
    assert_eq!(saved::<(u64, u64)>(&all, Epoch(1)), contents(&table));
    let untouched = begin(2, table.bytes() - 1).unwrap();
    assert_eq!((untouched.next, untouched.open.saving.encoded()), (0, 0));
    // A few slots, each with a kilobyte on the heap.
    let mut large = GroupTable::<u64, Vec<u8>>::new();
    (0..50u64).for_each(|key| _ = large.upsert(key.key_hash(), &key, &key, || vec![7; 1000]));
    let (all, state) = handle_of::<Vec<u8>>(None);
    let open = state.open(Event::Barrier(Epoch(1))).unwrap();
    let bytes = large.bytes();
    assert!(bytes < 20_000, "{bytes}");
    let mut saving = GradualSave::begin_within(bytes, open, &large);
    let encoded = saving.as_ref().unwrap().open.saving.encoded();
    assert!(encoded > bytes && encoded < 40_000, "{encoded}");
    while GradualSave::save_part(&mut saving, &large) {}
    let taken = all.take(Epoch(1), BTreeSet::new()).unwrap();
    let (_, state) = handle_of::<Vec<u8>>(Some(taken.snapshot));
    let mut keys = BTreeSet::new();
    let restored = state.restore(|(key, bytes): (u64, Vec<u8>)| {
        assert!(keys.insert(key) && bytes == vec![7; 1000]);
        Ok(())
    });
    restored.unwrap();
    assert_eq!(keys.len(), 50);
}
