//! Compares aggregates with a loop over all values: with the values divided at random, parts combined in any order,
//! and parts subtracted again.

use super::*;
use crate::check::check;
use crate::operators::time::Watermarks;
use crate::operators::window::EventTimeWindow;
use crate::time::Timestamp;
use crate::{Data, Environment, ErrorKind};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Which part each value goes to, and the order in which parts are combined.
#[derive(Clone, Debug)]
struct Division {
    parts: Vec<u8>,
    picks: Vec<(usize, usize)>,
}

const PARTS: u8 = 6;

fn divisions() -> impl Strategy<Value = Division> {
    let parts = prop::collection::vec(0..PARTS, 1..200);
    let picks = prop::collection::vec((any::<usize>(), any::<usize>()), PARTS as usize);
    (parts, picks).prop_map(|(parts, picks)| Division { parts, picks })
}

fn part<V: Data + Clone, A: Combine<V> + AggregateRef<V>>(aggregate: &A, values: &[V]) -> A::State {
    let mut state = aggregate.start();
    for (number, value) in values.iter().enumerate() {
        if number % 3 == 0 {
            aggregate.update_ref(&mut state, value);
        } else {
            aggregate.update(&mut state, value.clone());
        }
    }
    // As for a state that is sent to another host or written to disk.
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut bytes = bytes.as_slice();
    let state = A::State::decode(&mut bytes).unwrap();
    assert_eq!(bytes, b"");
    state
}

fn whole<V: Data + Clone, A: Combine<V> + AggregateRef<V>>(
    aggregate: &A,
    values: &[V],
) -> A::Output {
    aggregate.finish(part(aggregate, values))
}

impl Division {
    fn divide<V: Clone>(&self, values: &[V]) -> Vec<Vec<V>> {
        let mut parts = vec![Vec::new(); usize::from(PARTS)];
        for (value, part) in values.iter().zip(self.parts.iter().cycle()) {
            parts[usize::from(*part)].push(value.clone());
        }
        parts
    }

    /// The aggregate of all values, part by part.
    fn state<V: Data + Clone, A: Combine<V> + AggregateRef<V>>(
        &self,
        aggregate: &A,
        values: &[V],
    ) -> A::State {
        let parts = self.divide(values);
        let mut states: Vec<_> = parts.iter().map(|values| part(aggregate, values)).collect();
        let mut picks = self.picks.iter();
        while states.len() > 1 {
            let (from, into) = picks.next().unwrap();
            let from = states.swap_remove(from % states.len());
            let into = into % states.len();
            aggregate.combine(&mut states[into], from);
        }
        states.pop().unwrap()
    }

    fn result<V: Data + Clone, A: Combine<V> + AggregateRef<V>>(
        &self,
        aggregate: &A,
        values: &[V],
    ) -> A::Output {
        aggregate.finish(self.state(aggregate, values))
    }

    /// The aggregate of the first values, computed by subtracting the others.
    fn without_last<V: Data + Clone, A: Combine<V> + AggregateRef<V>>(
        &self,
        aggregate: &A,
        values: &[V],
        first: usize,
    ) -> A::Output {
        let inverse = A::INVERSE.expect("it has an inverse");
        let mut state = self.state(aggregate, values);
        for values in self.divide(&values[first..]) {
            inverse(aggregate, &mut state, &part(aggregate, &values));
        }
        aggregate.finish(state)
    }
}

fn values() -> impl Strategy<Value = Vec<i32>> {
    prop::collection::vec(-20..20i32, 1..200)
}

fn sorted(values: &[i32]) -> Vec<i32> {
    let mut values = values.to_vec();
    values.sort_unstable();
    values
}

/// Equal, but for the last digits.
fn near(found: f64, expected: f64, size: f64) -> bool {
    (found - expected).abs() <= 1e-9 * size.max(1.0)
}

fn of<V: ?Sized>() -> Aggregates<V> {
    Aggregates::new()
}

proptest! {
    #[test]
    fn counts_and_sums(all in values(), by in divisions()) {
        prop_assert_eq!(by.result(&of::<i32>().count(), &all), all.len() as u64);
        let even = all.iter().filter(|n| *n % 2 == 0).count() as u64;
        prop_assert_eq!(by.result(&of::<i32>().count_if(|n| n % 2 == 0), &all), even);
        let total: i64 = all.iter().map(|&n| i64::from(n)).sum();
        prop_assert_eq!(by.result(&of::<i32>().sum(|n| i64::from(*n)), &all), total);
        let different = all.iter().collect::<BTreeSet<_>>().len() as u64;
        prop_assert_eq!(by.result(&of::<i32>().count_distinct(|n| *n), &all), different);
        prop_assert_eq!(by.result(&of::<i32>().count_distinct(|n| n.to_string()), &all), different);
        let folded = by.result(
            &of::<i32>().fold_assoc(0i64, |s, n| *s += i64::from(n), |s, o| *s += o),
            &all,
        );
        prop_assert_eq!(folded, total);
        prop_assert_eq!(by.result(&of::<i32>().reduce(|a, b| a.max(b)), &all), *all.iter().max().unwrap());
    }

    #[test]
    fn all_values(all in values(), by in divisions()) {
        prop_assert_eq!(sorted(&by.result(&of::<i32>().to_vec(), &all)), sorted(&all));
    }

    #[test]
    fn the_least_and_the_greatest(all in values(), by in divisions(), few in 0..12usize) {
        let ascending = sorted(&all);
        let descending: Vec<i32> = ascending.iter().rev().copied().collect();
        prop_assert_eq!(by.result(&of::<i32>().min(|n| *n), &all), ascending[0]);
        prop_assert_eq!(by.result(&of::<i32>().max(|n| *n), &all), descending[0]);
        let kept = few.min(all.len());
        prop_assert_eq!(by.result(&of::<i32>().bottom_of(few, |n| *n), &all), &ascending[..kept]);
        prop_assert_eq!(by.result(&of::<i32>().top_of(few, |n| *n), &all), &descending[..kept]);
        prop_assert_eq!(by.result(&of::<i32>().bottom(few), &all), &ascending[..kept]);
        prop_assert_eq!(by.result(&of::<i32>().top(few), &all), &descending[..kept]);
        let backwards = |a: &i32, b: &i32| b.cmp(a);
        prop_assert_eq!(by.result(&of::<i32>().bottom_by(few, backwards), &all), &descending[..kept]);
        prop_assert_eq!(by.result(&of::<i32>().top_by(few, backwards), &all), &ascending[..kept]);
        prop_assert_eq!(by.result(&of::<i32>().min_by(backwards), &all), descending[0]);
        prop_assert_eq!(by.result(&of::<i32>().max_by(backwards), &all), ascending[0]);
    }

    /// Whole values, with distinct keys so that there is one answer.
    #[test]
    fn values_by_key(keys in prop::collection::hash_set(-500..500i32, 1..120), by in divisions(), few in 0..12usize) {
        let all: Vec<(String, i32)> = keys.into_iter().map(|key| (format!("v{key}"), key)).collect();
        let mut ascending = all.clone();
        ascending.sort_by_key(|value| value.1);
        let mut descending = ascending.clone();
        descending.reverse();
        type Value = (String, i32);
        prop_assert_eq!(&by.result(&of::<Value>().min_by_key(|v| v.1), &all), &ascending[0]);
        prop_assert_eq!(&by.result(&of::<Value>().max_by_key(|v| v.1), &all), &descending[0]);
        prop_assert_eq!(&by.result(&of::<Value>().first_by_key(|v| v.1), &all), &ascending[0]);
        prop_assert_eq!(&by.result(&of::<Value>().last_by_key(|v| v.1), &all), &descending[0]);
        let kept = few.min(all.len());
        prop_assert_eq!(by.result(&of::<Value>().bottom_by_key(few, |v| v.1), &all), &ascending[..kept]);
        prop_assert_eq!(by.result(&of::<Value>().top_by_key(few, |v| v.1), &all), &descending[..kept]);
        let nth = by.result(&of::<Value>().nth_by_key(few, |v| v.1), &all);
        prop_assert_eq!(nth.as_ref(), ascending.get(few));
    }

    #[test]
    fn means_and_variances(all in prop::collection::vec(-1e3..1e3f64, 2..200), far in -1e9..1e9f64, by in divisions()) {
        // Far from zero and close together, where a sum of squares would lose precision.
        let all: Vec<f64> = all.into_iter().map(|number| far.round() + number.round()).collect();
        let count = all.len() as f64;
        let mean = all.iter().sum::<f64>() / count;
        let squares: f64 = all.iter().map(|number| (number - mean).powi(2)).sum();
        prop_assert!(near(by.result(&of::<f64>().average(|n| *n), &all), mean, mean.abs()));
        let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-6 * expected.max(1.0);
        prop_assert!(near(by.result(&of::<f64>().variance(|n| *n), &all), squares / (count - 1.0)));
        prop_assert!(near(by.result(&of::<f64>().stddev(|n| *n), &all), (squares / (count - 1.0)).sqrt()));
        let population = squares / count;
        prop_assert!(near(by.result(&of::<f64>().variance(|n| *n).of_population(), &all), population));
        prop_assert!(near(by.result(&of::<f64>().stddev(|n| *n).of_population(), &all), population.sqrt()));
    }

    #[test]
    fn approximate_quantiles_are_within_their_bound(
        all in prop::collection::vec(prop_oneof![
            5 => -1e6..1e6f64,
            2 => prop::num::f64::NORMAL | prop::num::f64::ZERO,
            1 => Just(f64::INFINITY),
            1 => Just(f64::NEG_INFINITY),
            1 => Just(f64::MAX),
        ], 1..200),
        by in divisions(),
        share in 0.0..=1.0f64,
        error in prop_oneof![Just(0.01), Just(0.5), Just(0.001), Just(1e-6)],
    ) {
        let mut ascending = all.clone();
        ascending.sort_by(f64::total_cmp);
        let shares = [0.0, share, 0.5, 1.0];
        let found = by.result(&of::<f64>().approx_quantiles(|n| *n, shares).relative_error(error), &all);
        for (share, found) in shares.into_iter().zip(found) {
            let exact = ascending[(share * (all.len() - 1) as f64) as usize];
            let within = found == exact || (found - exact).abs() <= error * exact.abs() * (1.0 + 1e-6);
            prop_assert!(within, "{found} stands for {exact}");
        }
    }

    #[test]
    fn exact_quantiles_are_values(
        all in prop::collection::vec(prop_oneof![3 => -9..9i32, 1 => any::<i32>()], 1..200),
        by in divisions(),
        share in 0.0..=1.0f64,
    ) {
        let mut ascending = all.clone();
        ascending.sort_unstable();
        let last = all.len() - 1;
        let expected = [ascending[last], ascending[(share * last as f64) as usize], ascending[0]];
        let exact = of::<i32>().quantiles(|n| *n, [1.0, share, 0.0]);
        prop_assert_eq!(by.result(&exact, &all), expected);
    }

    #[test]
    fn the_inverse_undoes_a_combination(all in values(), by in divisions(), first in 1..200usize) {
        let first = first.min(all.len());
        let kept = &all[..first];
        let number = |n: &i32| f64::from(*n);
        prop_assert_eq!(by.without_last(&of::<i32>().count(), &all, first), first as u64);
        prop_assert_eq!(
            by.without_last(&of::<i32>().count_if(|n| *n > 3), &all, first),
            by.result(&of::<i32>().count_if(|n| *n > 3), kept)
        );
        let several = (of::<i32>().count(), of::<i32>().sum(|n| i64::from(*n)), of::<i32>().approx_quantiles(number, [0.25, 0.5]));
        prop_assert_eq!(by.without_last(&several, &all, first), by.result(&several, kept));
        let taken_out = {
            let aggregate = of::<i32>().approx_quantiles(number, [0.5]);
            let mut state = by.state(&aggregate, &all);
            let inverse = <ApproxQuantiles<_, 1> as Combine<i32>>::INVERSE.unwrap();
            inverse(&aggregate, &mut state, &part(&aggregate, &all[first..]));
            state
        };
        prop_assert_eq!(taken_out, by.state(&of::<i32>().approx_quantiles(number, [0.5]), kept));
    }

    /// The estimate does not depend on how values are divided, or on duplicates.
    #[test]
    fn an_estimate_depends_on_the_values_alone(all in prop::collection::vec(0..3000u32, 1..3000), by in divisions()) {
        let estimate = by.result(&of::<u32>().approx_count_distinct(|n| *n), &all);
        let mut once: Vec<u32> = all.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(estimate, whole(&of::<u32>().approx_count_distinct(|n| *n), &once));
        let exact = once.len() as f64;
        prop_assert!((estimate as f64 - exact).abs() <= 0.05 * exact + 1.0, "{} of {}", estimate, exact);
    }

    /// Tested for any order of the values, at every size of a sketch and at every precision.
    #[test]
    fn an_encoded_sketch_is_the_same_whatever_the_order(
        count in prop_oneof![0..40u64, 0..900u64, 0..20_000u64],
        precision in 4..=16u8,
        by in divisions(),
    ) {
        let aggregate = of::<u64>().approx_count_distinct(|n| *n).precision(precision);
        let all: Vec<u64> = (0..count).collect();
        let encoded = |state: &approx_distinct::Sketch| {
            let mut bytes = Vec::new();
            state.encode(&mut bytes);
            bytes
        };
        // Not yet encoded; all at once; in parts, each encoded and decoded; and the whole of those.
        let mut fresh = Aggregate::<u64>::start(&aggregate);
        all.iter().rev().for_each(|n| Aggregate::<u64>::update(&aggregate, &mut fresh, *n));
        let in_parts = by.state(&aggregate, &all);
        prop_assert_eq!(encoded(&fresh), encoded(&part(&aggregate, &all)));
        prop_assert_eq!(encoded(&fresh), encoded(&in_parts));
        prop_assert_eq!(fresh.key_hash(), in_parts.key_hash());
        let estimate = Aggregate::<u64>::finish(&aggregate, fresh);
        prop_assert_eq!(estimate, Aggregate::<u64>::finish(&aggregate, in_parts));
    }

    /// Made-up hashes and registers are either refused or can be combined with others.
    #[test]
    fn a_made_up_sketch_does_no_harm(
        precision in prop_oneof![Just(8), 2..=18u8],
        hashes in prop::collection::btree_set(any::<u32>(), 0..300),
        registers in prop::option::of(prop_oneof![
            prop::collection::vec(0..=63u8, 256),
            prop::collection::vec(0..=64u8, 256),
        ]),
        count in 0..2000u64,
    ) {
        let mut bytes = vec![precision];
        match registers {
            Some(registers) => {
                bytes.push(1);
                registers.encode(&mut bytes);
            }
            None => {
                bytes.push(0);
                hashes.into_iter().collect::<Vec<u32>>().encode(&mut bytes);
            }
        }
        if let Ok(sketch) = <approx_distinct::Sketch as Data>::decode(&mut bytes.as_slice()) {
            let aggregate = of::<u64>().approx_count_distinct(|n| *n).precision(precision);
            let mut again = Vec::new();
            sketch.encode(&mut again);
            prop_assert_eq!(bytes, again);
            let mut state = part(&aggregate, &(0..count).collect::<Vec<u64>>());
            Combine::<u64>::combine(&aggregate, &mut state, sketch);
            Aggregate::<u64>::finish(&aggregate, state);
        }
    }

    /// Bytes that are not a sketch are refused, and those that are one cannot make it allocate much memory.
    #[test]
    fn a_broken_sketch_is_refused(at in 0..60usize, byte in any::<u8>(), cut in 0..80usize, count in 0..700u64) {
        let aggregate = of::<u64>().approx_count_distinct(|n| *n);
        let mut bytes = Vec::new();
        let all: Vec<u64> = (0..count).collect();
        part(&aggregate, &all).encode(&mut bytes);
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        if let Ok(sketch) = <approx_distinct::Sketch as Data>::decode(&mut bytes.as_slice()) {
            prop_assert!(sketch.heap_size() <= 1 << 17);
            // Whatever its content, it can be combined with others.
            let mut state = part(&aggregate, &all);
            Combine::<u64>::combine(&aggregate, &mut state, sketch);
            Aggregate::<u64>::finish(&aggregate, state);
        }
    }
}

/// The error agrees with the standard error, over many sets of values.
#[test]
fn estimates_are_as_near_as_they_say() {
    for (precision, bound) in [(8, 0.065), (12, 0.01625), (14, 0.008_125)] {
        let aggregate = of::<u64>().approx_count_distinct(|n| *n).precision(precision);
        let (mut beyond, mut squares) = (0, 0.0);
        let sets = 100;
        for set in 0..sets {
            let many = 1000 * (1 + set % 20);
            let all: Vec<u64> = (0..many).map(|n| n * 100 + set).collect();
            let estimate = whole(&aggregate, &all) as f64;
            let error = estimate / many as f64 - 1.0;
            squares += error * error;
            beyond += u32::from(error.abs() > 3.0 * bound);
        }
        assert!(beyond <= 2, "{beyond} of {sets} are off by more than three standard errors");
        let deviation = (squares / sets as f64).sqrt();
        assert!(deviation <= 1.2 * bound, "{deviation} where {bound} is promised");
    }
}

#[test]
fn nan_is_worse_than_any_number() {
    let by = Division { parts: vec![0, 1, 2], picks: vec![(1, 2); 6] };
    for all in [[f64::NAN, 1.0, 2.0], [1.0, f64::NAN, 2.0], [2.0, 1.0, f64::NAN]] {
        assert_eq!(by.result(&of::<f64>().min(|n| *n), &all), 1.0);
        assert_eq!(by.result(&of::<f64>().max(|n| *n), &all), 2.0);
        assert_eq!(by.result(&of::<f64>().max_by_key(|n| *n), &all), 2.0);
        assert_eq!(by.result(&of::<f64>().top_of(2, |n| *n), &all), [2.0, 1.0]);
        assert_eq!(by.result(&of::<f64>().bottom_of(2, |n| *n), &all), [1.0, 2.0]);
        let [median, greatest] = by.result(&of::<f64>().approx_quantiles(|n| *n, [0.5, 1.0]), &all);
        assert!((median - 2.0).abs() <= 0.02 && greatest.is_nan());
        let exact = of::<f64>().quantiles(|n| *n, [0.0, 0.5, 1.0]);
        let [least, median, greatest] = by.result(&exact, &all);
        assert!((least, median) == (1.0, 2.0) && greatest.is_nan());
    }
    let alone = [f64::NAN];
    assert!(by.result(&of::<f64>().min(|n| *n), &alone).is_nan());
    assert_eq!(by.result(&of::<f64>().top_of(2, |n| *n), &alone).len(), 1);
    assert!(by.result(&of::<f64>().variance(|n| *n), &[3.0]).is_nan());
    assert_eq!(by.result(&of::<f64>().variance(|n| *n).of_population(), &[3.0]), 0.0);
    assert_eq!(
        by.result(&of::<f64>().approx_quantiles(|n| *n, [0.5]), &[f64::MIN_POSITIVE / 4.0]),
        [0.0]
    );
}

/// A tuple supports subtraction if all of its members do.
#[test]
fn a_tuple_has_an_inverse_if_all_have() {
    fn inverse<A: Combine<i32>>(_: &A) -> bool {
        A::INVERSE.is_some()
    }
    assert!(inverse(&(of::<i32>().count(), of::<i32>().sum(|n| *n))));
    assert!(!inverse(&(of::<i32>().count(), of::<i32>().sum(|n| f64::from(*n)))));
    assert!(!inverse(&(of::<i32>().max(|n| *n), of::<i32>().count())));
    assert!(inverse(&(of::<i32>().count(),)));
}

/// Counts how often it is cloned.
#[derive(Data)]
struct Watched(u32);

thread_local!(static CLONES: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });

impl Clone for Watched {
    fn clone(&self) -> Self {
        CLONES.set(CLONES.get() + 1);
        Self(self.0)
    }
}

#[test]
fn only_kept_records_are_cloned() {
    let of_key = |value: &Watched| value.0;
    let several = (
        of::<Watched>().count(),
        of::<Watched>().max_by_key(of_key),
        (of::<Watched>().count(), of::<Watched>().top_by_key(1, of_key)),
        of::<Watched>().sum(|value| value.0),
    );
    let mut state = Aggregate::<Watched>::start(&several);
    for n in [5, 1, 2, 3, 4] {
        Aggregate::<Watched>::update(&several, &mut state, Watched(n));
    }
    assert_eq!(CLONES.get(), 2);
    let (many, greatest, (_, top), total) = Aggregate::<Watched>::finish(&several, state);
    assert_eq!((many, greatest.0, top[0].0, total), (5, 5, 5, 15));
}

/// A key, a time in microseconds, and a number.
type Reading = (u8, i64, u32);

fn some_readings() -> Vec<Reading> {
    (0..600u32).map(|n| ((n % 3) as u8, i64::from(n), (n * 7919) % 101)).collect()
}

fn expected(all: &[Reading]) -> Results {
    let numbers: Vec<u32> = all.iter().map(|reading| reading.2).collect();
    let mut descending = numbers.clone();
    descending.sort_unstable_by(|a, b| b.cmp(a));
    let different = numbers.iter().collect::<BTreeSet<_>>().len() as u64;
    descending.truncate(3);
    (
        numbers.len() as u64,
        numbers.iter().map(|&n| u64::from(n)).sum(),
        descending,
        *all.iter().max_by_key(|reading| reading.1).unwrap(),
        different,
    )
}

type Results = (u64, u64, Vec<u32>, Reading, u64);

macro_rules! several {
    () => {
        |a| {
            (
                a.count(),
                a.sum(|reading| u64::from(reading.2)),
                a.top_of(3, |reading| reading.2),
                a.last_by_key(|reading| reading.1),
                a.count_distinct(|reading| reading.2),
            )
        }
    };
}

#[test]
fn several_at_once_over_keys() {
    let all = some_readings();
    let mut by_key: BTreeMap<u8, Vec<Reading>> = BTreeMap::new();
    all.iter().for_each(|reading| by_key.entry(reading.0).or_default().push(*reading));
    let expected: Vec<_> = by_key.iter().map(|(key, all)| (*key, expected(all))).collect();
    let readings =
        |env: &Environment| env.iter(all.clone()).shuffle().group_by(|reading| reading.0);
    check(|env| readings(env).aggregate(several!())).equals(expected.clone());
    check(|env| readings(env).repartition().aggregate(several!())).equals(expected);
}

#[test]
fn several_at_once_over_windows() {
    let all = some_readings();
    let micros = Duration::from_micros;
    let mut windows: BTreeMap<(i64, u8), Vec<Reading>> = BTreeMap::new();
    for reading in &all {
        for start in
            (-100..600).step_by(50).filter(|start| (*start..start + 100).contains(&reading.1))
        {
            windows.entry((start, reading.0)).or_default().push(*reading);
        }
    }
    let invertible: Vec<_> = windows.iter().map(|(at, all)| (*at, all.len() as u64)).collect();
    let expected: Vec<_> = windows.iter().map(|(at, all)| (*at, expected(all))).collect();
    let windowed = |env: &Environment| {
        env.iter(all.clone())
            .assign_timestamps(
                |reading| Timestamp::from_micros(reading.1),
                Watermarks::monotonous(),
            )
            .group_by(|reading| reading.0)
            .window(EventTimeWindow::sliding(micros(100), micros(50)))
    };
    check(|env| {
        let panes = windowed(env).aggregate(several!()).unkey();
        panes.map(|(key, pane)| ((pane.start.as_micros(), key), pane.value))
    })
    .equals(expected);
    check(|env| {
        let panes =
            windowed(env).aggregate(|a| (a.count(), a.approx_quantiles(|r| f64::from(r.2), [0.5])));
        panes.unkey().map(|(key, pane)| ((pane.start.as_micros(), key), pane.value.0))
    })
    .equals(invertible);
}

/// Borrowed values are shared without a copy.
#[test]
fn several_at_once_over_borrowed_text() {
    let env = Environment::new();
    let words = env
        .iter(["one", "three", "one"])
        .flat_map_str(|word, out| out.push(word))
        .group_by_ref(|word| *word)
        .aggregate(|a| (a.count(), a.to_vec(), a.max(|word| word.len())));
    let out = words.collect::<BTreeMap<_, _>>();
    env.run().unwrap();
    let result = |many, word: &str| (many, vec![word.to_owned(); many as usize], word.len());
    let expected = [("one", result(2, "one")), ("three", result(1, "three"))];
    assert_eq!(out.take().unwrap(), expected.map(|(word, of)| (word.to_owned(), of)).into());
}

/// Invalid parameters are reported before anything runs.
#[test]
fn an_impossible_aggregate_is_refused() {
    fn refused<A: Combine<u32, State: Clone>>(aggregate: impl Fn() -> A, what: &str) {
        let says = |env: Environment| {
            let error = env.run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Plan);
            assert!(error.to_string().contains(what), "{error}");
        };
        let env = Environment::new();
        drop(
            env.iter(0..9u32)
                .group_by(|n| n % 2)
                .aggregate(|_| aggregate())
                .unkey()
                .count()
                .collect_one(),
        );
        says(env);
        let env = Environment::new();
        let timed = env
            .iter(0..9u32)
            .assign_timestamps(|n| Timestamp::from_secs(i64::from(*n)), Watermarks::monotonous());
        let window = EventTimeWindow::tumbling(Duration::from_secs(1));
        let windowed = timed.group_by(|n| n % 2).window(window);
        drop(windowed.aggregate(|_| aggregate()).unkey().count().collect_one());
        says(env);
    }
    let number = |n: &u32| f64::from(*n);
    refused(|| of::<u32>().quantiles(|n| *n, [-0.5]), "from 0 to 1, not -0.5");
    refused(|| of::<u32>().approx_quantiles(number, [0.5, 50.0]), "from 0 to 1, not 50");
    refused(
        || (of::<u32>().count(), of::<u32>().approx_quantiles(number, [f64::NAN])),
        "from 0 to 1, not NaN",
    );
    refused(|| of::<u32>().approx_quantiles(number, [0.5]).relative_error(0.0), "not 0");
    refused(|| of::<u32>().approx_quantiles(number, [0.5]).relative_error(f64::NAN), "not NaN");
    refused(|| of::<u32>().approx_count_distinct(|n| *n).precision(17), "from 4 to 16, not 17");
}
