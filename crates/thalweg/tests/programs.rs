//! Whole programs, each run in every way that must not make a difference.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use thalweg::check::check;
use thalweg::{Environment, text};

/// A number from a number, without any pattern that tasks could share.
fn mix(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb) >> 20
}

/// Files of text in a folder of their own: without a last newline, empty, with CRLF, with a line
/// longer than most, with letters of several bytes.
fn texts() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let long = "long ".repeat(20_000);
    let files = [
        ("a.txt", "The line of fastest flow\nalong the bed of a river".to_owned()),
        ("b.txt", String::new()),
        ("c.txt", "Zoë says:\r\nthe river, THE river!\r\n\r\n".to_owned()),
        ("d.txt", format!("{long}\nand the end\n")),
    ];
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("a file can be written");
    }
    folder
}

fn expected_counts(folder: &Path) -> Vec<(String, u64)> {
    let mut counts = BTreeMap::new();
    for name in ["a.txt", "b.txt", "c.txt", "d.txt"] {
        let text = std::fs::read_to_string(folder.join(name)).expect("the file is there");
        for word in text.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
            *counts.entry(word.to_ascii_lowercase()).or_insert(0) += 1;
        }
    }
    counts.into_iter().collect()
}

#[test]
fn word_count_in_both_forms() {
    let folder = texts();
    let expected = expected_counts(folder.path());
    let path = PathBuf::from(folder.path());
    let read = move |env: &Environment| env.lines(path.clone()).flat_each(text::LowercaseWords);
    check(|env| read(env).group_by_ref(|word| *word).count()).equals(expected.clone());
    check(|env| read(env).group_by_ref(|word| *word).fold_assoc(0, |n, _| *n += 1, |n, m| *n += m))
        .equals(expected);
}

#[test]
fn every_line_of_every_file_is_read_once() {
    let folder = texts();
    let mut expected = Vec::new();
    for name in ["a.txt", "c.txt", "d.txt"] {
        let text = std::fs::read_to_string(folder.path().join(name)).expect("the file is there");
        expected.extend(text.lines().map(str::to_owned));
    }
    let path = PathBuf::from(folder.path());
    check(|env| env.lines(path.clone()).map(str::to_owned)).equals(expected);
}

#[test]
fn the_longest_collatz_sequence() {
    let steps = |mut n: u64| {
        let mut steps = 0u64;
        while n != 1 {
            n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
            steps += 1;
        }
        steps
    };
    check(|env| {
        let steps = env.range(1..3000).map(move |n| (steps(n), std::cmp::Reverse(n)));
        steps.map(|(steps, n)| (steps, n.0)).reduce(|a, b| {
            let better = b.0 > a.0 || (b.0 == a.0 && b.1 < a.1);
            if better { b } else { a }
        })
    })
    .equals([(216, 2919)]);
}

#[test]
fn aggregates_of_keys() {
    let numbers = || (0..6000u64).map(mix);
    let mut expected = BTreeMap::<u64, Vec<u64>>::new();
    for n in numbers() {
        expected.entry(n % 700).or_default().push(n);
    }
    let of = |make: fn(&[u64]) -> u64| -> Vec<(u64, u64)> {
        expected.iter().map(|(key, values)| (*key, make(values))).collect()
    };
    let keyed = |env: &Environment| env.iter(numbers()).shuffle().group_by(|n| n % 700);
    check(|env| keyed(env).count()).equals(of(|values| values.len() as u64));
    check(|env| keyed(env).sum(|n| *n)).equals(of(|values| values.iter().sum()));
    check(|env| keyed(env).min(|n| *n)).equals(of(|values| *values.iter().min().unwrap_or(&0)));
    check(|env| keyed(env).reduce(|a, b| a.max(b)))
        .equals(of(|values| *values.iter().max().unwrap_or(&0)));
    check(|env| keyed(env).fold(0u64, |sum, n| *sum = sum.wrapping_add(n.wrapping_mul(n)))).equals(
        of(|values| values.iter().fold(0, |sum: u64, n| sum.wrapping_add(n.wrapping_mul(*n)))),
    );
}

#[test]
fn aggregates_that_do_not_fit_into_memory() {
    let words = || (0..20_000u64).map(|n| format!("a word longer than a slot: {}", mix(n) % 9000));
    let mut expected = BTreeMap::new();
    for word in words() {
        *expected.entry(word).or_insert(0u64) += 1;
    }
    check(|env| env.iter(words()).shuffle().group_by_ref(|word| word.as_str()).count())
        .memory(64 << 10)
        .seeds(2)
        .equals(expected);
}

#[test]
fn skewed_keys_and_one_hot_key() {
    let keys =
        || (0..20_000u64).map(|n| if n % 2 == 0 { 0 } else { mix(n) % (1 + mix(n + 7) % 999) });
    let mut expected = BTreeMap::new();
    for key in keys() {
        *expected.entry(key).or_insert(0u64) += 1;
    }
    check(|env| env.iter(keys()).group_by_ref(|key| key).count()).equals(expected.clone());
    check(|env| env.iter(keys()).group_by(|key| *key).fold(0u64, |n, _| *n += 1)).equals(expected);
}

#[test]
fn sorted_top_and_unique() {
    let numbers = || (0..5000u64).map(|n| mix(n) % 3000);
    let mut sorted: Vec<u64> = numbers().collect();
    sorted.sort_unstable();
    check(|env| env.iter(numbers()).shuffle().sorted()).ordered().equals(sorted.clone());
    check(|env| env.iter(numbers()).shuffle().sorted())
        .ordered()
        .memory(4 << 10)
        .equals(sorted.clone());
    let top: Vec<u64> = sorted.iter().rev().take(10).copied().collect();
    check(|env| env.iter(numbers()).shuffle().top(10)).equals(top);
    check(|env| env.iter(numbers()).shuffle().unique()).equals(numbers().collect::<BTreeSet<_>>());
}

#[test]
fn a_limit_gives_as_many_and_ends_endless_sources() {
    check(|env| env.iter(0u64..).shuffle().limit(100)).satisfies(|records| {
        let distinct: BTreeSet<_> = records.iter().collect();
        match (records.len(), distinct.len()) {
            (100, 100) => Ok(()),
            (all, distinct) => Err(format!("{all} records, {distinct} of them distinct")),
        }
    });
}

#[test]
fn a_fan_out_larger_than_every_buffer() {
    check(|env| {
        env.iter(0..5u64)
            .flat_map(|n| (0..n * 5000).map(move |m| m % 7))
            .shuffle()
            .group_by(|m| *m)
            .count()
    })
    .equals((0..7u64).map(|m| {
        let each = |n: u64| (n * 5000).saturating_sub(m).div_ceil(7);
        (m, (0..5).map(each).sum::<u64>())
    }));
}

#[test]
fn nothing_in_nothing_out() {
    let none = |env: &Environment| env.iter(std::iter::empty::<u64>());
    check(|env| none(env).shuffle().sorted()).equals([0u64; 0]);
    check(|env| none(env).group_by(|n| *n).count()).equals([(0u64, 0u64); 0]);
    check(|env| none(env).sum(|n| *n)).equals([0u64]);
}

#[test]
fn every_way_to_repartition_keeps_every_record() {
    check(|env| {
        env.iter(0..2000u64)
            .shuffle()
            .map(|n| n * 2)
            .filter(|n| n % 3 == 0)
            .random(3)
            .flat_map(|n| [n, n + 1])
            .forward()
            .boxed()
            .repartition_by(|n, _| *n as usize)
            .batch_mode(thalweg::config::BatchMode::Single)
            .shuffle()
    })
    .equals((0..2000u64).map(|n| n * 2).filter(|n| n % 3 == 0).flat_map(|n| [n, n + 1]));
}

#[test]
fn a_panic_is_named_however_the_job_runs() {
    check(|env| {
        env.iter(0..2000u64).shuffle().map(|n| if n == 1500 { panic!("no {n}") } else { n })
    })
    .fails_with("panicked: no 1500");
}
