//! A join by hand: both sides are scattered into partitions by their keys' hashes, so that the table of one
//! stays in cache, and the partitions joined one by one.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use bench_protocol::workload::{Pairs, read_keys};
use bench_protocol::{Answer, Request, Result};

use crate::threads::{on_each, part};

/// Rows of a partition's table, on average, which the second-level cache holds.
const TABLE: usize = 1 << 15;

/// A key with its place.
type Row = (u64, u32);

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let left = read_keys(request.data()?)?;
    let right = read_keys(request.value::<PathBuf>("table")?.as_path())?;
    let records = (left.len() + right.len()) as u64;
    bench_protocol::serve(request, |stopwatch| {
        let pairs = stopwatch.time(|| join(&left, &right, cores));
        Ok(Answer { digest: pairs.digest(), records, bytes: records * 8, ..Answer::default() })
    })
}

#[inline]
fn hash(key: u64) -> u64 {
    let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd1b5_4a32_d192_ed03;
    (product >> 64) as u64 ^ product as u64
}

fn join(left: &[u64], right: &[u64], cores: usize) -> Pairs {
    let bits = (right.len() / TABLE).next_power_of_two().trailing_zeros().clamp(1, 10);
    let scattered = on_each(cores, |index| {
        [left, right].map(|keys| scatter(keys, part(keys.len() as u64, index, cores), bits))
    });
    let next = AtomicUsize::new(0);
    let parts = on_each(cores, |_| {
        let mut pairs = Pairs::default();
        let mut table = Table::default();
        loop {
            let partition = next.fetch_add(1, Ordering::Relaxed);
            if partition >= 1 << bits {
                return pairs;
            }
            table.build(scattered.iter().map(|[_, right]| right[partition].as_slice()));
            for [left, _] in &scattered {
                table.probe(&left[partition], &mut pairs);
            }
        }
    });
    let mut all = Pairs::default();
    parts.into_iter().for_each(|pairs| all.merge(pairs));
    all
}

/// The rows of a range, by the highest bits of their hashes.
fn scatter(keys: &[u64], range: std::ops::Range<u64>, bits: u32) -> Vec<Vec<Row>> {
    let rows = (range.end - range.start) as usize;
    let mut parts: Vec<Vec<Row>> =
        (0..1 << bits).map(|_| Vec::with_capacity((rows >> bits) * 9 / 8 + 64)).collect();
    for at in range {
        let key = keys[at as usize];
        parts[(hash(key) >> (64 - bits)) as usize].push((key, at as u32));
    }
    parts
}

/// The rows of a partition, those of a slot linked to one another.
#[derive(Default)]
struct Table {
    rows: Vec<Row>,
    /// By slot: the first row, counted from 1.
    first: Vec<u32>,
    after: Vec<u32>,
}

impl Table {
    fn build<'a>(&mut self, parts: impl Iterator<Item = &'a [Row]>) {
        self.rows.clear();
        parts.for_each(|part| self.rows.extend_from_slice(part));
        self.first.clear();
        self.first.resize((self.rows.len() * 2).next_power_of_two(), 0);
        self.after.clear();
        let mask = self.first.len() - 1;
        for (at, row) in (1..).zip(&self.rows) {
            let first = &mut self.first[hash(row.0) as usize & mask];
            self.after.push(*first);
            *first = at;
        }
    }

    fn probe(&self, rows: &[Row], pairs: &mut Pairs) {
        let mask = self.first.len() - 1;
        for &(key, left) in rows {
            let mut at = self.first[hash(key) as usize & mask];
            while at != 0 {
                let (other, right) = self.rows[at as usize - 1];
                if other == key {
                    pairs.add(u64::from(left), u64::from(right));
                }
                at = self.after[at as usize - 1];
            }
        }
    }
}
