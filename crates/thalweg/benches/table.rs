//! The keyed table against hashbrown: counts by key, one core.
//!
//! `cargo bench -p thalweg --bench table -- [ROUNDS] [CASE]`. Every line is a case and a contender, with the
//! median over the rounds; the contenders take turns, so that their ratio means more than their
//! figures. A digest of the counts must be the same for all.

use hashbrown::HashMap;
use std::hint::black_box;
use std::time::Instant;
use thalweg::data::Key;
use thalweg::state::{GroupTable, SlotHint};

/// A seeded generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        thalweg::data::splitmix64(&mut self.0)
    }
    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// What a contender makes of the records: a digest of its counts.
type Contender<'a> = (&'static str, Box<dyn Fn() -> u64 + 'a>);

/// Order does not matter to it; a wrong count or a key too many does.
fn digest(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, |sum, count| sum + count * count + 1)
}

fn rounds(case: &str, records: usize, rounds: usize, contenders: &[Contender<'_>]) {
    let mut times = vec![Vec::new(); contenders.len()];
    let mut expected = None;
    for round in 0..=rounds {
        for (times, (name, run)) in times.iter_mut().zip(contenders) {
            let start = Instant::now();
            let digest = black_box(run());
            let time = start.elapsed().as_secs_f64();
            assert_eq!(*expected.get_or_insert(digest), digest, "{case}: {name} counts otherwise");
            // The first round warms up.
            if round > 0 {
                times.push(time);
            }
        }
    }
    for (times, (name, _)) in times.iter_mut().zip(contenders) {
        times.sort_by(f64::total_cmp);
        let time = times[times.len() / 2];
        println!(
            "{case:<14} {name:<18} {:7.1} M/s {:7.2} ns   ({:.1} .. {:.1} M/s)",
            records as f64 / time / 1e6,
            time / records as f64 * 1e9,
            records as f64 / times[times.len() - 1] / 1e6,
            records as f64 / times[0] / 1e6,
        );
    }
}

/// Keys that are looked up together, step by step.
const TOGETHER: usize = 64;

#[inline(always)]
fn add(table: &mut GroupTable<u64, u64>, hash: u64, key: u64) {
    *table.upsert(hash, &key, &key, || 0) += 1;
}

fn numbers(distinct: u64, records: usize, times: usize) {
    let mut random = Random(distinct);
    let keys: Vec<u64> = (0..records).map(|_| random.below(distinct)).collect();
    let direct = || {
        let mut table = GroupTable::<u64, u64>::new();
        for key in &keys {
            add(&mut table, u64::hash(key), *key);
        }
        digest(table.values().copied())
    };
    let in_steps = || {
        let mut table = GroupTable::<u64, u64>::new();
        for keys in keys.chunks(TOGETHER) {
            let mut steps = [(0, SlotHint::default()); TOGETHER];
            for (step, key) in steps.iter_mut().zip(keys) {
                step.0 = u64::hash(key);
                table.prefetch(step.0);
            }
            for (hash, place) in &mut steps[..keys.len()] {
                *place = table.locate(*hash);
            }
            for ((hash, place), key) in steps.iter().zip(keys) {
                match table.find_at(*place, *hash, key) {
                    Some(count) => *count += 1,
                    None => add(&mut table, *hash, *key),
                }
            }
        }
        digest(table.values().copied())
    };
    let hashbrown = || {
        let mut map = HashMap::<u64, u64>::new();
        for key in &keys {
            *map.entry(*key).or_insert(0) += 1;
        }
        digest(map.values().copied())
    };
    rounds(
        &format!("u64 {distinct}"),
        records,
        times,
        &[
            ("direct", Box::new(direct)),
            ("in steps", Box::new(in_steps)),
            ("hashbrown", Box::new(hashbrown)),
        ],
    );
}

/// Words of 1 to 20 letters, 5 to 6 on average, their frequency that of natural text.
fn words(vocabulary: usize, records: usize) -> (String, Vec<std::ops::Range<usize>>) {
    let mut random = Random(7);
    let mut seen = HashMap::new();
    let mut list = Vec::new();
    while list.len() < vocabulary {
        let mut length = 1 + random.below(4) + random.below(4) + random.below(4);
        if random.below(20) == 0 {
            length += 10;
        }
        let word: String = (0..length).map(|_| char::from(b'a' + random.below(26) as u8)).collect();
        if seen.insert(word.clone(), ()).is_none() {
            list.push(word);
        }
    }
    let mut total = 0.0;
    let sums: Vec<f64> = (1..=vocabulary)
        .map(|rank| {
            total += 1.0 / rank as f64;
            total
        })
        .collect();
    let mut text = String::new();
    let ranges = (0..records)
        .map(|_| {
            let at = random.unit() * total;
            let start = text.len();
            text.push_str(&list[sums.partition_point(|&sum| sum < at).min(vocabulary - 1)]);
            text.push(' ');
            start..text.len() - 1
        })
        .collect();
    (text, ranges)
}

#[inline(always)]
fn add_word(table: &mut GroupTable<str, u64>, hash: u64, word: &str) {
    *table.upsert(hash, word.probe(), word, || 0) += 1;
}

fn strings(vocabulary: usize, records: usize, times: usize) {
    let (text, ranges) = words(vocabulary, records);
    let words: Vec<&str> = ranges.iter().map(|range| &text[range.clone()]).collect();
    let letters: usize = words.iter().map(|word| word.len()).sum();
    println!("{:.2} letters a word", letters as f64 / records as f64);
    let hash_only = || words.iter().fold(0_u64, |sum, word| sum ^ str::hash(word.probe()));
    rounds("words, hash", records, times, &[("probe and hash", Box::new(hash_only))]);
    let direct = || {
        let mut table = GroupTable::<str, u64>::new();
        for word in &words {
            let probe = word.probe();
            *table.upsert(str::hash(probe), probe, word, || 0) += 1;
        }
        digest(table.values().copied())
    };
    let in_steps = || {
        let mut table = GroupTable::<str, u64>::new();
        for words in words.chunks(TOGETHER) {
            let mut steps = [(0, SlotHint::default()); TOGETHER];
            for (step, word) in steps.iter_mut().zip(words) {
                step.0 = str::hash(word.probe());
                table.prefetch(step.0);
            }
            for (hash, place) in &mut steps[..words.len()] {
                *place = table.locate(*hash);
            }
            for ((hash, place), word) in steps.iter().zip(words) {
                match table.find_at(*place, *hash, word.probe()) {
                    Some(count) => *count += 1,
                    None => add_word(&mut table, *hash, word),
                }
            }
        }
        digest(table.values().copied())
    };
    let owning = || {
        let mut map = HashMap::<String, u64>::new();
        for &word in &words {
            *map.entry_ref(word).or_insert(0) += 1;
        }
        digest(map.values().copied())
    };
    let borrowing = || {
        let mut map = HashMap::<&str, u64>::new();
        for &word in &words {
            *map.entry(word).or_insert(0) += 1;
        }
        digest(map.values().copied())
    };
    rounds(
        "words 100K",
        records,
        times,
        &[
            ("direct", Box::new(direct)),
            ("in steps", Box::new(in_steps)),
            ("hashbrown String", Box::new(owning)),
            ("hashbrown &str", Box::new(borrowing)),
        ],
    );
}

fn main() {
    // Cargo passes `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let times = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(5);
    let case = args.iter().find(|arg| arg.parse::<usize>().is_err());
    let wanted = |name| case.is_none_or(|case| case == name);
    if wanted("1K") {
        numbers(1_000, 1 << 24, times);
    }
    if wanted("caches") {
        for distinct in [20_000, 50_000, 100_000, 200_000, 400_000] {
            numbers(distinct, 1 << 22, times);
        }
    }
    if wanted("1M") {
        numbers(1_000_000, 1 << 24, times);
    }
    if wanted("16M") {
        numbers(16_000_000, 1 << 26, times);
    }
    if wanted("words") {
        strings(100_000, 1 << 22, times);
    }
}
