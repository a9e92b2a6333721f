//! Compares the saved keys with a copy of them at the barrier.

use super::*;
use crate::flow::Epoch;
use crate::support::gradual_save::tests::{handle_with, numbers, saved};
use std::collections::BTreeMap;

type Saved = (u32, [Vec<i64>; 2]);

/// The keys of the table that are not spent.
fn contents(keys: &KeyedTimers<u32, Numbers>) -> Vec<Saved> {
    let mut contents = BTreeMap::new();
    keys.table.for_each(|key, Slot { state, .. }| {
        if !state.is_spent() {
            contents.insert(*key, state.0.clone());
        }
    });
    contents.into_iter().collect()
}

#[test]
fn what_is_saved_are_the_keys_at_the_barrier_however_they_change_meanwhile() {
    let (mut in_parts, mut grown, mut rebuilt, mut spent) = (0, 0, 0, 0);
    for seed in 0..60 {
        let mut below = numbers(seed);
        let (all, handle) = handle_with::<Saved>(None);
        let (mut operator, _) = operator(1 << 30);
        operator.keys.saved.table = handle;
        let (keys, mut now) = (1 + below(900), 0);
        let mut some =
            |operator: &mut TimerPush<Taking>, most: u64, below: &mut dyn FnMut(u64) -> u64| {
                for _ in 0..below(most) {
                    if below(8) == 0 {
                        now += below(40).cast_signed();
                        spent += until(operator, now).len();
                    } else {
                        let due = now + below(150).cast_signed();
                        assert!(add(operator, below(keys) as u32, due));
                    }
                }
            };
        for epoch in (1..6).map(Epoch) {
            some(&mut operator, 600, &mut below);
            let at_barrier = contents(&operator.keys);
            operator.event(Event::Barrier(epoch));
            while operator.resume() == Flow::Busy {}
            let (slots, most) = (operator.keys.table.slots(), 1 + below(40));
            while operator.save_part() {
                in_parts += 1;
                some(&mut operator, most, &mut below);
                if below(20) == 0 {
                    let live = operator.keys.accounts.live;
                    operator.keys.rebuild(live);
                    rebuilt += 1;
                }
            }
            assert!(operator.keys.saving.is_none());
            grown += usize::from(operator.keys.table.slots() > slots);
            assert_eq!(saved::<Saved>(&all, epoch), at_barrier, "seed {seed}, {epoch:?}");
        }
    }
    let all = [in_parts, grown, rebuilt, spent];
    assert!(in_parts > 500 && grown > 9 && rebuilt > 9 && spent > 500, "{all:?}");
}

/// How a table ceases to be saved in parts.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Barrier,
    Input,
    Round,
    Grows,
}

#[test]
fn all_is_saved_when_the_table_is_needed() {
    for ends in [Ends::Barrier, Ends::Input, Ends::Round, Ends::Grows] {
        let (all, handle) = handle_with::<Saved>(None);
        let (mut operator, _) = operator(1 << 30);
        operator.keys.saved.table = handle;
        (0..500).for_each(|key| _ = add(&mut operator, key, 1000 + i64::from(key)));
        let at_barrier = contents(&operator.keys);
        fire(&mut operator, Some(Event::Barrier(Epoch(1))));
        assert!(operator.save_part());
        assert_eq!(until(&mut operator, 1200).len(), 201);
        assert!(operator.keys.saving.is_some(), "a watermark is no reason");
        match ends {
            Ends::Barrier => _ = fire(&mut operator, Some(Event::Barrier(Epoch(2)))),
            Ends::Input => _ = fire(&mut operator, Some(Event::End)),
            Ends::Round => _ = fire(&mut operator, Some(Event::Round(Depth(0)))),
            Ends::Grows => (500..5000).for_each(|key| _ = add(&mut operator, key, 2000)),
        }
        assert_eq!(operator.keys.saving.is_some(), ends == Ends::Barrier, "{ends:?}");
        while operator.save_part() {}
        assert_eq!(saved::<Saved>(&all, Epoch(1)), at_barrier, "{ends:?}");
    }
}

/// Keys that are spent while the table is being saved do not take the memory of others.
#[test]
fn spent_keys_are_no_reason_for_others_to_go_to_disk() {
    let (_all, handle) = handle_with::<Saved>(None);
    let (mut operator, _) = operator(700_000);
    operator.keys.saved.table = handle;
    for round in 0..20 {
        let at = i64::from(round);
        (0..2000).for_each(|key| assert!(add(&mut operator, 2000 * round + key, at)));
        fire(&mut operator, Some(Event::Barrier(Epoch(1 + u64::from(round)))));
        assert_eq!(until(&mut operator, at).len(), 2000);
        operator.save_part();
    }
    assert_eq!((operator.keys.spilled(), operator.keys.live()), (0, 0));
}

/// A key that is spent while the table is being saved stays in its slot, and the others in theirs.
#[test]
fn spent_keys_are_dropped_when_all_is_saved() {
    let (_all, handle) = handle_with::<Saved>(None);
    let (mut operator, _) = operator(1 << 30);
    operator.keys.saved.table = handle;
    (0..5000).for_each(|key| _ = add(&mut operator, key, 1));
    operator.event(Event::Barrier(Epoch(1)));
    while operator.resume() == Flow::Busy {}
    assert_eq!(until(&mut operator, 1).len(), 5000);
    assert_eq!((operator.keys.live(), operator.keys.table.len()), (0, 5000));
    while operator.save_part() {}
    operator.resume();
    assert_eq!((operator.keys.live(), operator.keys.table.len()), (0, 0));
}
