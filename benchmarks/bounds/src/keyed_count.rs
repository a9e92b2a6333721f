//! Keyed count by hand: how often each 64-bit key occurs in an array.
//!
//! Few keys: each thread counts its part in a table of its own and the tables are merged. Many
//! keys: the threads first scatter the keys into partitions by their hash, through small buffers,
//! so that the table of a partition stays in cache; then each thread counts whole partitions,
//! hashing and prefetching some keys ahead. A key that a sample shows to have a large share is
//! counted while scattering and never written. With `--form dense` the program may count in an
//! array indexed by the key, which is what a specialist would do who knows that keys are below
//! `--distinct`.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bench_protocol::digest::Digest;
use bench_protocol::workload::read_keys;
use bench_protocol::{Answer, Request, Result};

use crate::threads::{on_each, part};

/// Up to so many keys, a table a thread stays in the second-level cache.
const FEW: usize = 1 << 12;
/// Keys of one partition that are looked up together.
const AHEAD: usize = 32;
/// Keys gathered for a partition before they are written.
const GATHER: usize = 32;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let distinct: usize = request.value("distinct")?;
    let dense = match request.get("form").unwrap_or("hash") {
        "hash" => false,
        "dense" => true,
        other => return Err(format!("there is no form {other:?}: hash, dense").into()),
    };
    let keys = read_keys(request.data()?)?;
    bench_protocol::serve(request, |stopwatch| {
        let rows = stopwatch.time(|| match dense {
            true => count_dense(&keys, distinct, cores),
            false if distinct <= FEW => count_few(&keys, distinct, cores),
            false => count_many(&keys, distinct, cores),
        });
        let mut digest = Digest::default();
        rows.iter().flatten().for_each(|(key, count)| digest.add_number(*key, *count));
        let records = keys.len() as u64;
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}

/// Key and count, a vector for each thread.
type Rows = Vec<Vec<(u64, u64)>>;

#[inline]
fn hash(key: u64) -> u64 {
    let product = u128::from(key ^ 0x9e37_79b9_7f4a_7c15) * 0xd1b5_4a32_d192_ed03;
    (product >> 64) as u64 ^ product as u64
}

/// An open table. The key 0 is counted apart, since it marks a free slot.
struct Table {
    slots: Vec<(u64, u64)>,
    zero: u64,
}

impl Table {
    /// A table with at least `spread` slots for each of `distinct` keys. The more slots, the fewer
    /// keys collide, which costs a misprediction each; the fewer, the better they stay in cache.
    fn new(distinct: usize, spread: usize) -> Self {
        Self { slots: vec![(0, 0); (distinct * spread).next_power_of_two().max(16)], zero: 0 }
    }

    #[inline]
    fn add(&mut self, key: u64, hash: u64, count: u64) {
        if key == 0 {
            self.zero += count;
            return;
        }
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.0 == key {
                slot.1 += count;
                return;
            }
            if slot.0 == 0 {
                *slot = (key, count);
                return;
            }
            at = (at + 1) & mask;
        }
    }

    /// Adds one for each key, with the slots prefetched.
    fn add_all(&mut self, keys: &[u64]) {
        let mask = self.slots.len() - 1;
        for keys in keys.chunks(AHEAD) {
            let mut hashes = [0; AHEAD];
            for (hashed, key) in hashes.iter_mut().zip(keys) {
                *hashed = hash(*key);
                prefetch(&self.slots[*hashed as usize & mask]);
            }
            for (hash, key) in hashes.iter().zip(keys) {
                self.add(*key, *hash, 1);
            }
        }
    }

    /// Moves the rows out and leaves the table empty, in one pass.
    fn drain_into(&mut self, rows: &mut Vec<(u64, u64)>) {
        if self.zero > 0 {
            rows.push((0, std::mem::take(&mut self.zero)));
        }
        for slot in self.slots.iter_mut().filter(|slot| slot.1 > 0) {
            rows.push(std::mem::take(slot));
        }
    }

    fn rows(&self) -> impl Iterator<Item = (u64, u64)> {
        let zero = (self.zero > 0).then_some((0, self.zero));
        zero.into_iter().chain(self.slots.iter().copied().filter(|slot| slot.1 > 0))
    }
}

fn slice(keys: &[u64], index: usize, count: usize) -> &[u64] {
    let range = part(keys.len() as u64, index, count);
    &keys[range.start as usize..range.end as usize]
}

fn count_few(keys: &[u64], distinct: usize, cores: usize) -> Rows {
    let tables = on_each(cores, |index| {
        let mut table = Table::new(distinct, 16);
        table.add_all(slice(keys, index, cores));
        table
    });
    let mut tables = tables.into_iter();
    let Some(mut all) = tables.next() else { return Vec::new() };
    for table in tables {
        table.rows().for_each(|(key, count)| all.add(key, hash(key), count));
    }
    vec![all.rows().collect()]
}

/// The key that has more than an eighth of a sample, if there is one.
fn heavy(keys: &[u64]) -> Option<u64> {
    let step = (keys.len() / 1024).max(1);
    let mut sample: Vec<u64> = keys.iter().step_by(step).copied().collect();
    sample.sort_unstable();
    let run = sample.len() / 8 + 1;
    sample.windows(run).find(|window| window[0] == window[run - 1]).map(|window| window[0])
}

fn count_many(keys: &[u64], distinct: usize, cores: usize) -> Rows {
    // A partition's table (at half load, 16 bytes a slot) is to stay in a cache of one megabyte,
    // but scattering more than 256 ways costs more than it gains.
    let ways = (distinct * 32 / (1 << 20)).next_power_of_two().clamp(16, 256);
    let heavy = heavy(keys);
    let scattered = on_each(cores, |index| scatter(slice(keys, index, cores), ways, heavy));
    let room = distinct / ways + distinct / ways / 4 + 64;
    let next = AtomicUsize::new(0);
    let mut rows = on_each(cores, |_| {
        let mut rows = Vec::with_capacity(distinct / cores);
        let mut table = Table::new(room, 2);
        loop {
            let way = next.fetch_add(1, Ordering::Relaxed);
            if way >= ways {
                return rows;
            }
            for (partitions, _) in &scattered {
                table.add_all(&partitions[way]);
            }
            table.drain_into(&mut rows);
        }
    });
    if let Some(heavy) = heavy {
        rows.push(vec![(heavy, scattered.iter().map(|(_, count)| count).sum())]);
    }
    rows
}

/// Sorts keys into partitions by the top bits of their hash, and counts the heavy one.
fn scatter(keys: &[u64], ways: usize, heavy: Option<u64>) -> (Vec<Vec<u64>>, u64) {
    let shift = 64 - ways.trailing_zeros();
    let expected = keys.len() / ways;
    let mut partitions: Vec<Vec<u64>> =
        (0..ways).map(|_| Vec::with_capacity(expected + expected / 4 + GATHER)).collect();
    let mut gathered = vec![[0; GATHER]; ways];
    let mut filled = vec![0u8; ways];
    let mut heavies = 0;
    let (heavy, any) = (heavy.unwrap_or(0), u64::from(heavy.is_some()));
    for key in keys {
        // Whether the key is the heavy one cannot be predicted, so it is not asked: it is written
        // and then overwritten.
        let is_heavy = u64::from(*key == heavy) & any;
        heavies += is_heavy;
        let way = (hash(*key) >> shift) as usize;
        let at = &mut filled[way];
        gathered[way][usize::from(*at)] = *key;
        *at += 1 - is_heavy as u8;
        if usize::from(*at) == GATHER {
            *at = 0;
            partitions[way].extend_from_slice(&gathered[way]);
        }
    }
    for ((partition, gathered), filled) in partitions.iter_mut().zip(&gathered).zip(&filled) {
        partition.extend_from_slice(&gathered[..usize::from(*filled)]);
    }
    (partitions, heavies)
}

fn count_dense(keys: &[u64], distinct: usize, cores: usize) -> Rows {
    let shared: Vec<AtomicU64>;
    let counts: Vec<u64> = if cores == 1 || distinct <= 1 << 21 {
        let arrays = on_each(cores, |index| {
            let mut counts = vec![0u64; distinct];
            slice(keys, index, cores).iter().for_each(|key| counts[*key as usize] += 1);
            counts
        });
        arrays
            .into_iter()
            .reduce(|mut all, other| {
                all.iter_mut().zip(other).for_each(|(all, other)| *all += other);
                all
            })
            .unwrap_or_default()
    } else {
        shared = (0..distinct).map(|_| AtomicU64::new(0)).collect();
        on_each(cores, |index| {
            for key in slice(keys, index, cores) {
                shared[*key as usize].fetch_add(1, Ordering::Relaxed);
            }
        });
        shared.into_iter().map(AtomicU64::into_inner).collect()
    };
    let rows = (0u64..).zip(counts).filter(|(_, count)| *count > 0);
    vec![rows.collect()]
}

/// Asks for a cache line in advance.
#[inline]
fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch has no effect on the program's state.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bench_protocol::digest::mix;

    use super::*;

    fn flat(rows: Rows) -> BTreeMap<u64, u64> {
        let count = rows.iter().map(Vec::len).sum::<usize>();
        let map: BTreeMap<u64, u64> = rows.into_iter().flatten().collect();
        assert_eq!(map.len(), count, "a key came twice");
        map
    }

    #[test]
    fn all_ways_agree() {
        for distinct in [1u64, 1000, 100_000] {
            for hot in [false, true] {
                let keys: Vec<u64> = (0..200_000u64)
                    .map(|i| if hot && i % 2 == 0 { 0 } else { mix(i) % distinct })
                    .collect();
                let mut expected = BTreeMap::new();
                keys.iter().for_each(|key| *expected.entry(*key).or_default() += 1);
                for cores in 1..4 {
                    let distinct = distinct as usize;
                    assert_eq!(flat(count_few(&keys, distinct, cores)), expected);
                    assert_eq!(flat(count_many(&keys, distinct, cores)), expected);
                    assert_eq!(flat(count_dense(&keys, distinct, cores)), expected);
                }
            }
        }
    }
}
