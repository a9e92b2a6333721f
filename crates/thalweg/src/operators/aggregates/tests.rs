//! Aggregates against what a loop over all values gives: divided at random, put together in any order, and
//! with parts taken out again.

use super::*;
use super::{Aggregate, Combine};
use crate::check::check;
use crate::operators::time::Watermarks;
use crate::operators::window::EventTimeWindow;
use crate::time::Timestamp;
use crate::{Data, Environment, ErrorKind};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Which part each value goes to, and in which order parts are put together.
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

fn part<V: Data + Clone, A: Combine<V>>(aggregate: &A, values: &[V]) -> A::State {
    let mut state = aggregate.start();
    for (number, value) in values.iter().enumerate() {
        if number % 3 == 0 {
            aggregate.update_shared(&mut state, value);
        } else {
            aggregate.update(&mut state, value.clone());
        }
    }
    // As it does that goes to another host or to a disk.
    let mut bytes = Vec::new();
    state.encode(&mut bytes);
    let mut bytes = bytes.as_slice();
    let state = A::State::decode(&mut bytes).unwrap();
    assert_eq!(bytes, b"");
    state
}

fn whole<V: Data + Clone, A: Combine<V>>(aggregate: &A, values: &[V]) -> A::Output {
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
    fn state<V: Data + Clone, A: Combine<V>>(&self, aggregate: &A, values: &[V]) -> A::State {
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

    fn result<V: Data + Clone, A: Combine<V>>(&self, aggregate: &A, values: &[V]) -> A::Output {
        aggregate.finish(self.state(aggregate, values))
    }

    /// The aggregate of the first values, by taking the others out again.
    fn without_last<V: Data + Clone, A: Combine<V>>(
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

proptest! {
    #[test]
    fn counts_and_sums(all in values(), by in divisions()) {
        prop_assert_eq!(by.result(&count(), &all), all.len() as u64);
        let even = all.iter().filter(|n| *n % 2 == 0).count() as u64;
        prop_assert_eq!(by.result(&count_if(|n: i32| n % 2 == 0), &all), even);
        let total: i64 = all.iter().map(|&n| i64::from(n)).sum();
        prop_assert_eq!(by.result(&sum(|n: i32| i64::from(n)), &all), total);
        let different = all.iter().collect::<BTreeSet<_>>().len() as u64;
        prop_assert_eq!(by.result(&count_distinct(|n: i32| n), &all), different);
        prop_assert_eq!(by.result(&count_distinct(|n: i32| n.to_string()), &all), different);
        let folded = by.result(
            &fold_assoc(0i64, |s: &mut i64, n: i32| *s += i64::from(n), |s: &mut i64, o: i64| *s += o),
            &all,
        );
        prop_assert_eq!(folded, total);
        prop_assert_eq!(by.result(&reduce(|a: i32, b: i32| a.max(b)), &all), *all.iter().max().unwrap());
    }

    #[test]
    fn all_values(all in values(), by in divisions()) {
        prop_assert_eq!(sorted(&by.result(&to_vec(), &all)), sorted(&all));
    }

    #[test]
    fn the_least_and_the_greatest(all in values(), by in divisions(), few in 0..12usize) {
        let ascending = sorted(&all);
        let descending: Vec<i32> = ascending.iter().rev().copied().collect();
        prop_assert_eq!(by.result(&min(|n: i32| n), &all), ascending[0]);
        prop_assert_eq!(by.result(&max(|n: i32| n), &all), descending[0]);
        let kept = few.min(all.len());
        prop_assert_eq!(by.result(&bottom(few, |n: i32| n), &all), &ascending[..kept]);
        prop_assert_eq!(by.result(&top(few, |n: i32| n), &all), &descending[..kept]);
    }

    /// Whole values, whose keys are all different so that there is one answer.
    #[test]
    fn values_by_key(keys in prop::collection::hash_set(-500..500i32, 1..120), by in divisions(), few in 0..12usize) {
        let all: Vec<(String, i32)> = keys.into_iter().map(|key| (format!("v{key}"), key)).collect();
        let mut ascending = all.clone();
        ascending.sort_by_key(|value| value.1);
        let mut descending = ascending.clone();
        descending.reverse();
        type Value = (String, i32);
        prop_assert_eq!(&by.result(&min_by(|v: &Value| v.1), &all), &ascending[0]);
        prop_assert_eq!(&by.result(&max_by(|v: &Value| v.1), &all), &descending[0]);
        prop_assert_eq!(&by.result(&first_by(|v: &Value| v.1), &all), &ascending[0]);
        prop_assert_eq!(&by.result(&last_by(|v: &Value| v.1), &all), &descending[0]);
        let kept = few.min(all.len());
        prop_assert_eq!(by.result(&bottom_by(few, |v: &Value| v.1), &all), &ascending[..kept]);
        prop_assert_eq!(by.result(&top_by(few, |v: &Value| v.1), &all), &descending[..kept]);
        let nth = by.result(&nth_by(few, |v: &Value| v.1), &all);
        prop_assert_eq!(nth.as_ref(), ascending.get(few));
    }

    #[test]
    fn means_and_variances(all in prop::collection::vec(-1e3..1e3f64, 2..200), far in -1e9..1e9f64, by in divisions()) {
        // Far from zero and near to each other, where a sum of squares would have lost them.
        let all: Vec<f64> = all.into_iter().map(|number| far.round() + number.round()).collect();
        let count = all.len() as f64;
        let mean = all.iter().sum::<f64>() / count;
        let squares: f64 = all.iter().map(|number| (number - mean).powi(2)).sum();
        prop_assert!(near(by.result(&average(|n: f64| n), &all), mean, mean.abs()));
        let near = |found: f64, expected: f64| (found - expected).abs() <= 1e-6 * expected.max(1.0);
        prop_assert!(near(by.result(&variance(|n: f64| n), &all), squares / (count - 1.0)));
        prop_assert!(near(by.result(&stddev(|n: f64| n), &all), (squares / (count - 1.0)).sqrt()));
        let population = squares / count;
        prop_assert!(near(by.result(&variance(|n: f64| n).of_population(), &all), population));
        prop_assert!(near(by.result(&stddev(|n: f64| n).of_population(), &all), population.sqrt()));
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
        let found = by.result(&approx_quantiles(|n: f64| n, shares).relative_error(error), &all);
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
        prop_assert_eq!(by.result(&quantiles(|n: &i32| *n, [1.0, share, 0.0]), &all), expected);
    }

    #[test]
    fn what_was_put_in_is_taken_out(all in values(), by in divisions(), first in 1..200usize) {
        let first = first.min(all.len());
        let kept = &all[..first];
        let number = |n: i32| f64::from(n);
        prop_assert_eq!(by.without_last(&count(), &all, first), first as u64);
        prop_assert_eq!(
            by.without_last(&count_if(|n: i32| n > 3), &all, first),
            by.result(&count_if(|n: i32| n > 3), kept)
        );
        let several = (count(), sum(|n: i32| i64::from(n)), approx_quantiles(number, [0.25, 0.5]));
        prop_assert_eq!(by.without_last(&several, &all, first), by.result(&several, kept));
        let taken_out = {
            let aggregate = approx_quantiles(number, [0.5]);
            let mut state = by.state(&aggregate, &all);
            let inverse = <ApproxQuantiles<_, 1> as Combine<i32>>::INVERSE.unwrap();
            inverse(&aggregate, &mut state, &part(&aggregate, &all[first..]));
            state
        };
        prop_assert_eq!(taken_out, by.state(&approx_quantiles(number, [0.5]), kept));
    }

    /// However they were divided, and whatever comes twice.
    #[test]
    fn an_estimate_depends_on_the_values_alone(all in prop::collection::vec(0..3000u32, 1..3000), by in divisions()) {
        let estimate = by.result(&approx_count_distinct(|n: u32| n), &all);
        let mut once: Vec<u32> = all.clone();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(estimate, whole(&approx_count_distinct(|n: u32| n), &once));
        let exact = once.len() as f64;
        prop_assert!((estimate as f64 - exact).abs() <= 0.05 * exact + 1.0, "{} of {}", estimate, exact);
    }

    /// Whatever the order of the values, at every size of a sketch and at every precision.
    #[test]
    fn an_encoded_sketch_is_the_same_whatever_the_order(
        count in prop_oneof![0..40u64, 0..900u64, 0..20_000u64],
        precision in 4..=16u8,
        by in divisions(),
    ) {
        let aggregate = approx_count_distinct(|n: u64| n).precision(precision);
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

    /// Hashes and registers that nothing was counted into are put to others all the same, or refused.
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
            let aggregate = approx_count_distinct(|n: u64| n).precision(precision);
            let mut again = Vec::new();
            sketch.encode(&mut again);
            prop_assert_eq!(bytes, again);
            let mut state = part(&aggregate, &(0..count).collect::<Vec<u64>>());
            Combine::<u64>::combine(&aggregate, &mut state, sketch);
            Aggregate::<u64>::finish(&aggregate, state);
        }
    }

    /// Bytes that are no sketch are refused, and those that are one cannot ask for much memory.
    #[test]
    fn a_broken_sketch_is_refused(at in 0..60usize, byte in any::<u8>(), cut in 0..80usize, count in 0..700u64) {
        let aggregate = approx_count_distinct(|n: u64| n);
        let mut bytes = Vec::new();
        let all: Vec<u64> = (0..count).collect();
        part(&aggregate, &all).encode(&mut bytes);
        let at = at % bytes.len();
        bytes[at] = byte;
        bytes.truncate(bytes.len() - cut.min(bytes.len()));
        if let Ok(sketch) = <approx_distinct::Sketch as Data>::decode(&mut bytes.as_slice()) {
            prop_assert!(sketch.heap_size() <= 1 << 17);
            // Whatever it says, it can be put to others.
            let mut state = part(&aggregate, &all);
            Combine::<u64>::combine(&aggregate, &mut state, sketch);
            Aggregate::<u64>::finish(&aggregate, state);
        }
    }
}

/// As many as the standard error promises, over many sets of values.
#[test]
fn estimates_are_as_near_as_they_say() {
    for (precision, bound) in [(8, 0.065), (12, 0.01625), (14, 0.008_125)] {
        let aggregate = approx_count_distinct(|n: u64| n).precision(precision);
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
fn what_is_no_number_gives_way() {
    let by = Division { parts: vec![0, 1, 2], picks: vec![(1, 2); 6] };
    for all in [[f64::NAN, 1.0, 2.0], [1.0, f64::NAN, 2.0], [2.0, 1.0, f64::NAN]] {
        assert_eq!(by.result(&min(|n: f64| n), &all), 1.0);
        assert_eq!(by.result(&max(|n: f64| n), &all), 2.0);
        assert_eq!(by.result(&max_by(|n: &f64| *n), &all), 2.0);
        assert_eq!(by.result(&top(2, |n: f64| n), &all), [2.0, 1.0]);
        assert_eq!(by.result(&bottom(2, |n: f64| n), &all), [1.0, 2.0]);
        let [median, greatest] = by.result(&approx_quantiles(|n: f64| n, [0.5, 1.0]), &all);
        assert!((median - 2.0).abs() <= 0.02 && greatest.is_nan());
        let [least, median, greatest] = by.result(&quantiles(|n: &f64| *n, [0.0, 0.5, 1.0]), &all);
        assert!((least, median) == (1.0, 2.0) && greatest.is_nan());
    }
    let alone = [f64::NAN];
    assert!(by.result(&min(|n: f64| n), &alone).is_nan());
    assert_eq!(by.result(&top(2, |n: f64| n), &alone).len(), 1);
    assert!(by.result(&variance(|n: f64| n), &[3.0]).is_nan());
    assert_eq!(by.result(&variance(|n: f64| n).of_population(), &[3.0]), 0.0);
    assert_eq!(by.result(&approx_quantiles(|n: f64| n, [0.5]), &[f64::MIN_POSITIVE / 4.0]), [0.0]);
}

/// A tuple can be taken out of if all of its members can.
#[test]
fn a_tuple_has_an_inverse_if_all_have() {
    fn inverse<A: Combine<i32>>(_: &A) -> bool {
        A::INVERSE.is_some()
    }
    assert!(inverse(&(count(), sum(|n: i32| n))));
    assert!(!inverse(&(count(), sum(|n: i32| f64::from(n)))));
    assert!(!inverse(&(max(|n: i32| n), count())));
    assert!(inverse(&(count(),)));
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
fn what_is_kept_is_cloned_and_nothing_else() {
    let of_key = |value: &Watched| value.0;
    let several =
        (count(), max_by(of_key), (count(), top_by(1, of_key)), sum(|value: Watched| value.0));
    let mut state = several.start();
    for n in [5, 1, 2, 3, 4] {
        several.update(&mut state, Watched(n));
    }
    assert_eq!(CLONES.get(), 2);
    let (many, greatest, (_, top), total) = several.finish(state);
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
        (
            count(),
            sum(|reading: Reading| u64::from(reading.2)),
            top(3, |reading: Reading| reading.2),
            last_by(|reading: &Reading| reading.1),
            count_distinct(|reading: Reading| reading.2),
        )
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
    check(|env| readings(env).partition().aggregate(several!())).equals(expected);
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
        let panes = windowed(env)
            .aggregate((count(), approx_quantiles(|r: Reading| f64::from(r.2), [0.5])));
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
        .aggregate((count(), to_vec(), max(|word: &str| word.len())));
    let out = words.collect::<BTreeMap<_, _>>();
    env.run().unwrap();
    let result = |many, word: &str| (many, vec![word.to_owned(); many as usize], word.len());
    let expected = [("one", result(2, "one")), ("three", result(1, "three"))];
    assert_eq!(out.take().unwrap(), expected.map(|(word, of)| (word.to_owned(), of)).into());
}

/// What is asked for and cannot be is said before anything runs.
#[test]
fn an_impossible_aggregate_is_refused() {
    fn refused<A: Combine<u32, State: Clone>>(aggregate: impl Fn() -> A, what: &str) {
        let says = |env: Environment| {
            let error = env.run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Plan);
            assert!(error.to_string().contains(what), "{error}");
        };
        let env = Environment::new();
        drop(env.iter(0..9u32).group_by(|n| n % 2).aggregate(aggregate()).unkey().count());
        says(env);
        let env = Environment::new();
        let timed = env
            .iter(0..9u32)
            .assign_timestamps(|n| Timestamp::from_secs(i64::from(*n)), Watermarks::monotonous());
        let window = EventTimeWindow::tumbling(Duration::from_secs(1));
        let windowed = timed.group_by(|n| n % 2).window(window);
        drop(windowed.aggregate(aggregate()).unkey().count());
        says(env);
    }
    let number = |n: u32| f64::from(n);
    refused(|| quantiles(|n: &u32| *n, [-0.5]), "one of -0.5 is asked for");
    refused(|| approx_quantiles(number, [0.5, 50.0]), "one of 50 is asked for");
    refused(|| (count(), approx_quantiles(number, [f64::NAN])), "one of NaN is asked for");
    refused(|| approx_quantiles(number, [0.5]).relative_error(0.0), "0 is asked for");
    refused(|| approx_quantiles(number, [0.5]).relative_error(f64::NAN), "NaN is asked for");
    refused(|| approx_count_distinct(|n: u32| n).precision(17), "asked for 17");
}
