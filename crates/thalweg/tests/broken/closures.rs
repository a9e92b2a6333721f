//! Closures that panic, at every place where a program can have one.

use super::Broken;
use std::time::Duration;
use thalweg::{Environment, Result};

pub(super) const ALL: &[Broken] = &[
    Broken::new("panic-in-map", panic_in_map),
    Broken::new("panic-in-a-named-operator", panic_in_a_named_operator),
    Broken::new("panic-in-a-key", panic_in_a_key),
    Broken::new("panic-in-a-fold", panic_in_a_fold),
    Broken::new("panic-in-an-iterator", panic_in_an_iterator),
    Broken::new("panic-in-a-sink", panic_in_a_sink),
    Broken::new("panic-in-a-destructor", panic_in_a_destructor),
    Broken::new("interrupted", interrupted).signal("INT").status(130),
    Broken::new("told-to-end", interrupted).signal("TERM").status(143),
];

fn panic_in_map() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..1000)
        .shuffle()
        .map(|n| if n == 700 { panic!("no {n}") } else { n })
        .write_lines("out.txt");
    env.run()
}

fn panic_in_a_named_operator() -> Result<()> {
    let env = Environment::from_args()?;
    let words = env.iter(["one", "two", "three"]);
    words.map(|word| word.parse::<u64>().unwrap()).name("parse").for_each(|_| ());
    env.run()
}

fn panic_in_a_key() -> Result<()> {
    let env = Environment::from_args()?;
    env.iter([3u64, 2, 1, 0]).group_by(|n| 6 / n).count().unkey().for_each(|_| ());
    env.run()
}

fn panic_in_a_fold() -> Result<()> {
    let env = Environment::from_args()?;
    let pairs = env.iter([("a", 1u8), ("b", 200), ("b", 100)]).map(|(k, v)| (k.to_owned(), v));
    pairs
        .keyed()
        .fold(0u8, |sum, n| *sum = sum.checked_add(n).expect("a small sum"))
        .unkey()
        .for_each(|_| ());
    env.run()
}

fn panic_in_an_iterator() -> Result<()> {
    let env = Environment::from_args()?;
    let numbers = (0..10).map(|n| if n == 5 { panic!("the fifth") } else { n });
    env.iter(numbers).for_each(|_| ());
    env.run()
}

fn panic_in_a_sink() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..10).for_each(|n| assert!(n < 5, "too large"));
    env.run()
}

struct Slippery(u64);

impl Drop for Slippery {
    fn drop(&mut self) {
        assert!(self.0 != 5, "dropped the fifth");
    }
}

fn panic_in_a_destructor() -> Result<()> {
    let env = Environment::from_args()?;
    env.range(0..10).map(Slippery).map(drop).for_each(|()| ());
    env.run()
}

/// Not broken, but ended by the person who runs it.
fn interrupted() -> Result<()> {
    let env = Environment::from_args()?;
    let tick = |n: u64| {
        std::thread::sleep(Duration::from_millis(1));
        n.to_string()
    };
    env.range(0..1_000_000).map(tick).write_lines("out.txt");
    env.run()
}
