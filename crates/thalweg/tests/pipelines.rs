//! Random chains of operators against the same steps on a `Vec`.

use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use thalweg::check::check;
use thalweg::{Boxed, Environment, Stream};

/// One operator, or a keyed one with what makes records of its results.
#[derive(Clone, Debug)]
enum Step {
    Add(u64),
    KeepMultiples(u64),
    Repeat(u64),
    Shuffle,
    Random(u64),
    Forward,
    Partition(u64),
    Narrow(usize),
    Unique,
    Sort,
    Top(usize),
    Count(u64),
    Sum(u64),
    Fold(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..1000u64).prop_map(Step::Add),
        (1..5u64).prop_map(Step::KeepMultiples),
        (0..4u64).prop_map(Step::Repeat),
        Just(Step::Shuffle),
        any::<u64>().prop_map(Step::Random),
        Just(Step::Forward),
        (1..9u64).prop_map(Step::Partition),
        (1..4usize).prop_map(Step::Narrow),
        Just(Step::Unique),
        Just(Step::Sort),
        (0..50usize).prop_map(Step::Top),
        (1..200u64).prop_map(Step::Count),
        (1..200u64).prop_map(Step::Sum),
        (1..200u64).prop_map(Step::Fold),
    ]
}

type Numbers = Stream<Boxed<u64>>;

/// A key and a result as one number.
fn join((key, value): (u64, u64)) -> u64 {
    key.wrapping_mul(1_000_003).wrapping_add(value)
}

fn attach(stream: Numbers, step: &Step) -> Numbers {
    match *step {
        Step::Add(by) => stream.map(move |n| n.wrapping_add(by)).boxed(),
        Step::KeepMultiples(of) => stream.filter(move |n| n % of == 0).boxed(),
        Step::Repeat(times) => stream.flat_map(move |n| (0..times).map(move |i| n ^ i)).boxed(),
        Step::Shuffle => stream.shuffle().boxed(),
        Step::Random(seed) => stream.random(seed).boxed(),
        Step::Forward => stream.forward().boxed(),
        Step::Partition(by) => stream.repartition_by(move |n, _| (n / by) as usize).boxed(),
        Step::Narrow(tasks) => stream.parallelism(tasks).boxed(),
        Step::Unique => stream.unique().boxed(),
        Step::Sort => stream.sorted().boxed(),
        Step::Top(n) => stream.top(n).boxed(),
        Step::Count(keys) => stream.group_by(move |n| n % keys).count().unkey().map(join).boxed(),
        Step::Sum(keys) => stream
            .map(|n| n % 1_000_000)
            .group_by(move |n| n % keys)
            .sum(|n| *n)
            .unkey()
            .map(join)
            .boxed(),
        Step::Fold(keys) => stream
            .group_by(move |n| n % keys)
            .fold(0u64, |sum, n| *sum = sum.wrapping_add(n))
            .unkey()
            .map(join)
            .boxed(),
    }
}

fn grouped(numbers: Vec<u64>, keys: u64, fold: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    let mut groups = BTreeMap::new();
    for n in numbers {
        let state = groups.entry(n % keys).or_insert(0);
        *state = fold(*state, n);
    }
    groups.into_iter().map(join).collect()
}

/// The same on a `Vec`.
fn reference(mut numbers: Vec<u64>, step: &Step) -> Vec<u64> {
    match *step {
        Step::Add(by) => numbers.into_iter().map(|n| n.wrapping_add(by)).collect(),
        Step::KeepMultiples(of) => numbers.into_iter().filter(|n| n % of == 0).collect(),
        Step::Repeat(times) => {
            numbers.into_iter().flat_map(|n| (0..times).map(move |i| n ^ i)).collect()
        }
        Step::Unique => numbers.into_iter().collect::<BTreeSet<_>>().into_iter().collect(),
        Step::Top(n) => {
            numbers.sort_unstable_by(|a, b| b.cmp(a));
            numbers.truncate(n);
            numbers
        }
        Step::Count(keys) => grouped(numbers, keys, |count, _| count + 1),
        Step::Sum(keys) => {
            let small = numbers.into_iter().map(|n| n % 1_000_000).collect();
            grouped(small, keys, |sum, n| sum + n)
        }
        Step::Fold(keys) => grouped(numbers, keys, u64::wrapping_add),
        Step::Shuffle | Step::Random(_) | Step::Forward => numbers,
        Step::Partition(_) | Step::Narrow(_) | Step::Sort => numbers,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_random_pipeline_computes_what_its_steps_say(
        records in 0..1500u64,
        steps in prop::collection::vec(step(), 0..6),
        memory in prop_oneof![Just(64 << 10), Just(1 << 30)],
    ) {
        let input = move || (0..records).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44);
        let expected = steps.iter().fold(input().collect(), reference);
        let job = |env: &Environment| steps.iter().fold(env.iter(input()).boxed(), attach);
        check(job).memory(memory).seeds(4).equals(expected);
    }
}
