//! The inputs of programs that are killed: large enough for some checkpoints on their way, and the same in every run.

use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Numbers that look random, and follow from a seed.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(mixed(seed))
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0) % bound
    }
}

/// Another number for each number.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

/// The files of `words`, and how often each has the same text.
const FILES: usize = 3;
const COPIES: usize = 32;

/// The lines of `lines.txt`, and the rows of the two tables.
const LINES: u64 = 150_000;
const ORDERS: u64 = 300_000;
const CUSTOMERS: u64 = 20_000;

/// The nodes of the path, which is as many rounds long as its end is away from its least node, and the size of the other graph.
const PATH: u64 = 8000;
const NODES: u64 = 2000;
const EDGES: u64 = 8000;

/// Writes all of them into a folder.
pub(super) fn write(folder: &Path) -> Result<()> {
    fs::create_dir(folder.join("words")).context("the inputs cannot be written")?;
    let text = text(&mut Random::new(1), 32_000, 20_000).repeat(COPIES);
    for file in 0..FILES {
        save(folder, &format!("words/{file}.txt"), &text)?;
    }
    save(folder, "lines.txt", &self::text(&mut Random::new(2), LINES, 2000))?;
    save(folder, "orders.tsv", &orders(&mut Random::new(3)))?;
    save(folder, "customers.tsv", &customers())?;
    save(folder, "path.txt", &path(&mut Random::new(4)))?;
    save(folder, "edges.txt", &edges(&mut Random::new(5)))
}

fn save(folder: &Path, name: &str, text: &str) -> Result<()> {
    fs::write(folder.join(name), text).with_context(|| format!("{name} cannot be written"))
}

/// Lines of eight words, out of so many different ones.
fn text(random: &mut Random, lines: u64, words: u64) -> String {
    let mut text = String::new();
    for _ in 0..lines {
        for word in 0..8 {
            let mut rest = random.below(words) + 1;
            while rest > 0 {
                text.push(char::from(b'a' + (rest % 26) as u8));
                rest /= 26;
            }
            text.push(if word < 7 { ' ' } else { '\n' });
        }
    }
    text
}

/// Orders, some of customers that are not in the other table.
fn orders(random: &mut Random) -> String {
    (0..ORDERS).fold(String::new(), |mut text, order| {
        let (customer, item) = (random.below(CUSTOMERS), random.below(100));
        let _ = writeln!(text, "{order}\t{customer}\titem {item}");
        text
    })
}

/// Customers, some without orders.
fn customers() -> String {
    (CUSTOMERS / 10..CUSTOMERS + CUSTOMERS / 10).fold(String::new(), |mut text, customer| {
        let _ = writeln!(text, "{customer}\tcustomer {customer}");
        text
    })
}

/// A path whose nodes have names without an order, its edges in no order either: what is known at one node comes to all others
/// in thousands of rounds.
fn path(random: &mut Random) -> String {
    let mut edges: Vec<u64> = (1..PATH).collect();
    for at in (1..edges.len()).rev() {
        edges.swap(at, random.below(at as u64 + 1) as usize);
    }
    edges.into_iter().fold(String::new(), |mut text, node| {
        let _ = writeln!(text, "{} {}", mixed(node), mixed(node + 1));
        text
    })
}

fn edges(random: &mut Random) -> String {
    (0..EDGES).fold(String::new(), |mut text, _| {
        let _ = writeln!(text, "{} {}", random.below(NODES), random.below(NODES));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_has_each_node_but_its_ends_twice() {
        let mut nodes = std::collections::BTreeMap::<String, u64>::new();
        for node in path(&mut Random::new(4)).split_whitespace() {
            *nodes.entry(node.to_owned()).or_default() += 1;
        }
        let ends = nodes.values().filter(|edges| **edges == 1).count();
        assert_eq!((nodes.len() as u64, ends), (PATH, 2));
    }
}
