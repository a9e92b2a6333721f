//! Snapshots of tables that change while they are saved.

use super::*;

const RECORDS: u64 = 1_000_000;
const KEYS: u64 = 700;

/// The sum of a snapshot's values for each key in these states, and the position of the source.
fn by_key(snapshot: &Snapshot, states: &[(&str, &str)]) -> (BTreeMap<u64, u64>, u64) {
    let id = |operator: &str, name: &str| StateId { operator: operator.into(), name: name.into() };
    let mut position = snapshot.entries(&id("iter-0", "position"));
    let mut entry = position.next().unwrap().unwrap().bytes;
    let (_, _, read) = <(usize, usize, u64)>::decode(&mut entry).unwrap();
    let mut all = BTreeMap::new();
    for &(operator, name) in states {
        let mut entries = snapshot.entries(&id(operator, name));
        while let Some(Saved { mut bytes, .. }) = entries.next().unwrap() {
            let (key, value) = <(u64, u64)>::decode(&mut bytes).unwrap();
            *all.entry(key).or_insert(0) += value;
        }
    }
    (all, read)
}

/// Interrupts a job that adds up `value` of its numbers by key, and compares the saved sums with those of the numbers read
/// before.
fn compare(job: impl Fn(&Environment), states: &[(&str, &str)], value: fn(u64) -> u64) {
    let mut begun = 0;
    for seed in 0..12 {
        let Taken { snapshot, .. } = saved(&job, 3, seed, 60 + 20 * seed as usize).unwrap();
        let (all, read) = by_key(&snapshot, states);
        // When the source has ended, the results may have been emitted too.
        if read == RECORDS {
            continue;
        }
        let mut expected = BTreeMap::new();
        (0..read).for_each(|n| *expected.entry(n % KEYS).or_insert(0) += value(n));
        assert!(all == expected, "seed {seed}: other states than those of {read} records");
        begun += u64::from(read > KEYS);
    }
    assert!(begun > 1, "some are interrupted within their input: {begun} of 12");
}

#[test]
fn tables_of_partial_aggregates_are_saved_as_they_were_at_the_barrier() {
    let job = |env: &Environment| {
        let numbers = env.iter(0..RECORDS).shuffle().group_by(|n| n % KEYS);
        numbers.count().unkey().for_each(drop);
    };
    compare(job, &[("combine-0", "partials"), ("count-0", "table")], |_| 1);
}

#[test]
fn tables_of_states_are_saved_as_they_were_at_the_barrier() {
    let job = |env: &Environment| {
        let numbers = env.iter(0..RECORDS).shuffle().group_by(|n| n % KEYS);
        numbers.fold(0u64, |sum, n| *sum += n).unkey().for_each(drop);
    };
    compare(job, &[("fold-0", "table")], |n| n);
}

#[test]
fn states_that_have_results_at_once_are_saved_as_they_were_at_the_barrier() {
    let job = |env: &Environment| {
        let numbers = env.iter(0..RECORDS).shuffle().group_by(|n| n % KEYS);
        numbers.stateful_map(0u64, |_, sum, n| *sum += n).unkey().for_each(drop);
    };
    compare(job, &[("stateful_map-0", "table")], |n| n);
}
