//! Joins of more than memory holds.

use crate::oracle::{Kind, join};
use crate::ways::each_way;
use std::num::NonZeroUsize;
use thalweg::check::Checked;
use thalweg::config::{Config, Scheduler};
use thalweg::{Environment, ErrorKind};

/// Little memory in one task a stage, or in several.
fn configs() -> impl Iterator<Item = Config> {
    [(1, None), (2, None), (2, Some(3))].into_iter().map(|(cores, seed)| {
        let mut config = Config::default();
        config.cores = NonZeroUsize::new(cores).unwrap();
        config.keyed_tasks_per_core = NonZeroUsize::MIN;
        config.memory = 1 << 10;
        config.credit = 500;
        if let Some(seed) = seed {
            config.scheduler = Scheduler::Deterministic { seed };
        }
        config
    })
}

/// Runs a job and answers its records in order, with the bytes that its join wrote to disk.
fn run<S: Checked<Record: Ord>>(
    config: Config,
    job: impl Fn(&Environment) -> S,
) -> (Vec<S::Record>, u64) {
    let env = Environment::with_config(config);
    let records = job(&env).collected();
    let stats = env.start().unwrap().wait().unwrap();
    let spilled = stats.operators.iter().filter(|op| op.kind == "join").map(|op| op.spilled_bytes);
    let mut records = records.take().unwrap();
    records.sort();
    (records, spilled.sum())
}

/// Long values, so that few records are much.
fn long(key: u32, n: usize) -> (u32, String) {
    (key, format!("{n:01000}"))
}

#[test]
fn inputs_beyond_memory_are_joined_on_disk() {
    let left: Vec<_> = (0..500).map(|n| long(n as u32 % 200, n)).collect();
    let right: Vec<_> = (0..500).map(|n| long(n as u32 % 150 + 100, n)).collect();
    macro_rules! test {
        ($name:expr, $kind:expr, |$l:ident, $r:ident| $join:expr) => {{
            let mut expected = join($kind, &left, &right);
            expected.sort();
            // Of a side whose values do not matter, only the keys are kept.
            let keeps_keys = matches!($kind, Kind::Semi | Kind::Anti)
                && !$name.contains("build_left")
                && !$name.contains("sort_merge");
            for config in configs() {
                if $name.contains("symmetric") {
                    continue;
                }
                let (records, spilled) = run(config, |env| {
                    let $l = env.iter(left.clone()).shuffle().keyed();
                    let $r = env.iter(right.clone()).shuffle().keyed();
                    $join
                });
                assert!(records == expected, "{}: {} records", $name, records.len());
                assert!(spilled > 100_000 || keeps_keys, "{} wrote {spilled} bytes", $name);
            }
        }};
    }
    each_way!(test);
}

/// No part of the hash takes the records of a key apart, and neither side of it fits into memory.
#[test]
fn one_key_with_most_records_is_joined() {
    let most = |n: usize| if n.is_multiple_of(10) { n as u32 } else { 3 };
    let left: Vec<_> = (0..240).map(|n| long(most(n), n)).collect();
    let right: Vec<_> = (0..220).map(|n| long(most(n + 5), n)).collect();
    macro_rules! test {
        ($name:expr, $kind:expr, |$l:ident, $r:ident| $join:expr) => {{
            let shorten = |text: String| text[text.len() - 6..].parse::<u32>().unwrap();
            let mut expected: Vec<_> = join($kind, &left, &right)
                .into_iter()
                .map(|(key, (l, r))| (key, (l.map(shorten), r.map(shorten))))
                .collect();
            expected.sort();
            for config in configs() {
                if $name.contains("symmetric") {
                    continue;
                }
                let (records, _) = run(config, |env| {
                    let $l = env.iter(left.clone()).keyed();
                    let $r = env.iter(right.clone()).keyed();
                    $join.map(move |_, (l, r): (Option<String>, Option<String>)| {
                        (l.map(shorten), r.map(shorten))
                    })
                });
                assert!(records == expected, "{}: {} records", $name, records.len());
            }
        }};
    }
    each_way!(test);
}

/// What comes too early waits on disk too.
#[test]
fn halves_of_one_stream_meet_again_on_disk() {
    for config in configs() {
        let records = |env: &Environment| {
            let [left, right] = env.iter((0..3000).map(|n| long(n as u32 % 700, n))).split();
            left.keyed().join(right.filter(|(key, _)| key % 7 == 0).keyed()).count()
        };
        let (counts, spilled) = run(config, records);
        let of = |key: u32| (0..3000).filter(|n| n % 700 == key).count() as u64;
        let expected: Vec<_> = (0..700).step_by(7).map(|key| (key, of(key) * of(key))).collect();
        assert_eq!(counts, expected);
        assert!(spilled > 500_000, "{spilled} bytes");
    }
}

#[test]
fn a_table_that_no_probe_waits_for_must_fit() {
    let mut config = configs().next().unwrap();
    config.memory = 100_000;
    let env = Environment::with_config(config);
    let left = env.generate(f64::INFINITY, |n| Some((n as u32, ())));
    let right = env.iter((0..3000).map(|n| long(n as u32, n)));
    left.keyed().join(right.keyed()).unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.to_string().contains("none can wait on disk"), "{error}");
    assert!(error.operator().unwrap().starts_with("join ("), "{error}");
}

#[test]
fn records_of_both_sides_of_a_symmetric_join_go_to_disk() {
    let left: Vec<_> = (0..500).map(|n| long(n as u32 % 200, n)).collect();
    let right: Vec<_> = (0..500).map(|n| long(n as u32 % 150 + 100, n)).collect();
    let mut expected: Vec<(u32, (String, String))> = Vec::new();
    for (key, value) in &left {
        let partners = right.iter().filter(|(other, _)| other == key);
        expected.extend(partners.map(|(_, other)| (*key, (value.clone(), other.clone()))));
    }
    expected.sort();
    for mut config in configs() {
        config.memory = 200_000;
        let (records, spilled) = run(config, |env| {
            let left = env.iter(left.clone()).shuffle().keyed();
            let right = env.iter(right.clone()).shuffle().keyed();
            left.join_with(right).symmetric().inner().unkey()
        });
        assert!(records == expected, "{} records of {}", records.len(), expected.len());
        assert!(spilled > 100_000, "{spilled} bytes on disk");
    }
}

#[test]
fn records_of_one_key_of_a_symmetric_join_must_fit() {
    let mut config = configs().next().unwrap();
    config.memory = 200_000;
    let env = Environment::with_config(config);
    let side =
        |key: u32| env.generate(f64::INFINITY, move |_| Some((key, "x".repeat(100)))).keyed();
    side(0).join_with(side(1)).symmetric().inner().unkey().for_each(drop);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory);
    assert!(error.to_string().contains("interval_join"), "{error}");
}

#[test]
fn every_pair_of_more_than_memory() {
    for config in configs() {
        let (counts, _) = run(config, |env| {
            let texts = |n: usize| env.iter((0..n).map(|n| long(0, n).1));
            let pairs = texts(200).cross(texts(150)).map(|(a, b)| (a.len() + b.len(), ()));
            pairs.keyed().count()
        });
        assert_eq!(counts, [(2000, 30_000)]);
    }
}
