//! Timers against a binary heap and an ordered map: what a timer costs while many live, one core.
//!
//! `cargo bench -p thalweg --bench timers -- [ROUNDS] [CASE]`. Of so many timers live, those that come
//! due are taken out and set anew, each at a random time within the next minute, as sessions do whose
//! keys stay; what is shown is the cost of one such step. Every line is a case and a contender, with
//! the median over the rounds; the contenders take turns. A digest of the times must be the same for all.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::hint::black_box;
use std::time::Instant;
use thalweg::state::Timers;

/// A seeded generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        thalweg::data::splitmix64(&mut self.0)
    }

    /// A time within a minute.
    fn soon(&mut self) -> i64 {
        ((u128::from(self.next()) * MINUTE as u128) >> 64) as i64
    }
}

/// In microseconds.
const MINUTE: i64 = 60_000_000;
/// What a timer is for: as much as a key's hash and number.
type What = (u64, u64);

trait Contender {
    fn add(&mut self, at: i64, what: What);
    fn pop(&mut self, until: i64) -> Option<(i64, What)>;
}

impl Contender for Timers<What> {
    fn add(&mut self, at: i64, what: What) {
        Timers::add(self, at, what);
    }
    fn pop(&mut self, until: i64) -> Option<(i64, What)> {
        Timers::pop(self, until)
    }
}

impl Contender for BinaryHeap<Reverse<(i64, What)>> {
    fn add(&mut self, at: i64, what: What) {
        self.push(Reverse((at, what)));
    }
    fn pop(&mut self, until: i64) -> Option<(i64, What)> {
        self.peek().filter(|first| first.0.0 <= until)?;
        BinaryHeap::pop(self).map(|Reverse(timer)| timer)
    }
}

impl Contender for BTreeMap<(i64, u64), u64> {
    fn add(&mut self, at: i64, what: What) {
        self.insert((at, what.0), what.1);
    }
    fn pop(&mut self, until: i64) -> Option<(i64, What)> {
        let first = self.first_entry().filter(|first| first.key().0 <= until)?;
        let ((at, hash), number) = first.remove_entry();
        Some((at, (hash, number)))
    }
}

/// Takes out and sets anew so many timers; the seconds for that, and a digest of their times.
fn run(mut timers: impl Contender, live: u64, steps: usize) -> (f64, u64) {
    let mut random = Random(live);
    for number in 0..live {
        timers.add(random.soon(), (random.next(), number));
    }
    // As much time as passes until a thousand are due, so that there is a batch of them.
    let stride = (MINUTE / 2 * 1000 / live as i64).max(1);
    let (mut now, mut left, mut digest) = (0, steps, 0_u64);
    let start = Instant::now();
    while left > 0 {
        now += stride;
        while let Some((at, what)) = timers.pop(now) {
            digest = digest.wrapping_mul(31).wrapping_add(at as u64);
            timers.add(now + random.soon(), what);
            left = left.saturating_sub(1);
        }
    }
    (start.elapsed().as_secs_f64(), black_box(digest))
}

fn case(name: &str, live: u64, steps: usize, rounds: usize) {
    type Run = fn(u64, usize) -> (f64, u64);
    let contenders: [(&str, Run); 3] = [
        ("Timers", |live, steps| run(Timers::new(), live, steps)),
        ("BinaryHeap", |live, steps| run(BinaryHeap::new(), live, steps)),
        ("BTreeMap", |live, steps| run(BTreeMap::new(), live, steps)),
    ];
    let mut times = [const { Vec::new() }; 3];
    let mut expected = None;
    for _ in 0..rounds {
        for (times, (contender, run)) in times.iter_mut().zip(&contenders) {
            let (time, digest) = run(live, steps);
            let same = *expected.get_or_insert(digest) == digest;
            assert!(same, "{name}: {contender} has others");
            times.push(time / steps as f64 * 1e9);
        }
    }
    for (times, (contender, _)) in times.iter_mut().zip(&contenders) {
        times.sort_by(f64::total_cmp);
        println!(
            "{name:<6} {contender:<12} {:8.1} ns a timer   ({:.1} .. {:.1} ns)",
            times[times.len() / 2],
            times[0],
            times[times.len() - 1],
        );
    }
}

fn main() {
    // Cargo passes `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let rounds = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(5);
    let only = args.iter().find(|arg| arg.parse::<usize>().is_err());
    for (name, live) in [("10K", 10_000), ("1M", 1_000_000), ("10M", 10_000_000)] {
        if only.is_none_or(|only| only == name) {
            // So many steps that every timer has come due more than once, where that is not too many.
            case(name, live, 4_000_000, rounds);
        }
    }
}
