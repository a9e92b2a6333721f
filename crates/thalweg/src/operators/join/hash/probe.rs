//! Lookup of a batch of records, one result at a time.

use super::super::kinds::Shape;
use super::kept::BuildTable;
use crate::data::Data;
use crate::flow::{Op, guard};
use crate::state::Link;
use crate::time::Time;

/// Records that are looked up together: enough to hide the memory latency of the prefetches, few enough that
/// what was prefetched is still in the nearest cache.
const GROUP: usize = 64;

/// The rows of a record's chain that are prefetched.
const ROWS_NEAR: usize = 8;

/// A record of the probe side: its hash, key, value and time.
pub(in crate::operators::join) type Sought<K, P, T> = (u64, K, P, T);

/// Records to be looked up, and the progress of their lookup.
pub(in crate::operators::join) struct Probes<K, P, T> {
    waiting: Vec<Waiting<K, P, T>>,
    /// The record whose partners are being emitted.
    at: usize,
    /// For records before this one, the first row of their chains is known.
    located: usize,
    /// The number of records before those in `waiting`.
    before: u64,
}

struct Waiting<K, P, T> {
    hash: u64,
    key: K,
    value: P,
    time: T,
    link: Link,
    /// Whether a partner was found.
    met: bool,
}

/// Records that have met a partner, where they are looked up in several tables one after the other.
#[derive(Default)]
pub(in crate::operators::join) struct Met {
    bits: Vec<u64>,
}

impl Met {
    pub(super) fn with_room(records: u64) -> Self {
        Self { bits: vec![0; (records / 64 + 1) as usize] }
    }

    fn has(&self, record: u64) -> bool {
        self.bits.get((record / 64) as usize).is_some_and(|bits| bits >> (record % 64) & 1 == 1)
    }

    fn add(&mut self, record: u64) {
        if let Some(bits) = self.bits.get_mut((record / 64) as usize) {
            *bits |= 1 << (record % 64);
        }
    }
}

impl<K: Data + Eq + Clone, P: Data, T: Time> Probes<K, P, T> {
    pub(in crate::operators::join) fn new() -> Self {
        Self { waiting: Vec::new(), at: 0, located: 0, before: 0 }
    }

    #[inline(always)]
    pub(in crate::operators::join) fn push(&mut self, (hash, key, value, time): Sought<K, P, T>) {
        self.waiting.push(Waiting { hash, key, value, time, link: Link::default(), met: false });
    }

    pub(in crate::operators::join) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Counts records from zero again.
    pub(super) fn restart(&mut self) {
        self.before = 0;
    }

    /// Finds the next result; `None` when all records have been looked up, which are then dropped.
    ///
    /// `met` is set where records are looked up in several tables, and `last` tells whether this is the last
    /// one.
    #[inline(always)]
    pub(in crate::operators::join) fn next<B: Data, S: Shape<B, P>>(
        &mut self,
        kept: &mut BuildTable<K, B, T>,
        op: &Op,
        mut met: Option<&mut Met>,
        last: bool,
    ) -> Option<((K, S::Out), T)> {
        loop {
            if self.at >= self.located && !self.locate::<B, S>(kept) {
                return None;
            }
            let probe = &mut self.waiting[self.at];
            let record = self.before + self.at as u64;
            // `Eq` and `Clone` of the user's types may panic.
            let found = guard(op, || kept.rows.find(probe.hash, &probe.key, probe.link));
            let Some(row) = found else {
                let has_met = probe.met || met.as_ref().is_some_and(|met| met.has(record));
                self.at += 1;
                if S::PROBE_ALONE && last && !has_met {
                    let made = guard(op, || {
                        S::row(None, Some(&probe.value)).map(|made| (probe.key.clone(), made))
                    });
                    if let Some(made) = made {
                        return Some((made, probe.time));
                    }
                }
                continue;
            };
            if !probe.met {
                probe.met = true;
                if (S::PROBE_ALONE || S::PROBE_MET)
                    && let Some(met) = &mut met
                {
                    if S::PROBE_MET && met.has(record) {
                        self.at += 1;
                        continue;
                    }
                    met.add(record);
                }
                if (S::KEPT_MET || (S::KEPT_ALONE && !S::PAIRS)) && kept.met[row] {
                    // Either all rows of a key have met a partner or none has.
                    self.at += 1;
                    continue;
                }
            }
            if S::KEPT_MET || S::KEPT_ALONE {
                kept.met[row] = true;
            }
            let (value, time) = kept.rows.value(row);
            if S::PAIRS || S::KEPT_MET {
                probe.link = kept.rows.after(row);
            } else if S::KEPT_ALONE {
                probe.link = kept.rows.after(row);
                continue;
            } else {
                self.at += 1;
            }
            if !(S::PAIRS || S::KEPT_MET || S::PROBE_MET) {
                continue;
            }
            let made = guard(op, || {
                S::row(Some(value), Some(&probe.value)).map(|made| (probe.key.clone(), made))
            });
            let time = match () {
                () if S::PAIRS => probe.time.max(*time),
                () if S::KEPT_MET => *time,
                () => probe.time,
            };
            if let Some(made) = made {
                return Some((made, time));
            }
        }
    }

    /// Finds the chains of the next records; returns whether there were any. If not, drops all records.
    #[inline(never)]
    fn locate<B: Data, S: Shape<B, P>>(&mut self, kept: &BuildTable<K, B, T>) -> bool {
        let group = self.located..self.waiting.len().min(self.located + GROUP);
        if group.is_empty() {
            self.before += self.waiting.len() as u64;
            self.waiting.clear();
            (self.at, self.located) = (0, 0);
            return false;
        }
        self.located = group.end;
        for probe in &self.waiting[group.clone()] {
            kept.rows.prefetch(probe.hash);
        }
        let waiting = &mut self.waiting[group];
        // The records with rows to prefetch, and the link that was prefetched last.
        let mut hurried = [(0, Link::default()); GROUP];
        let mut many = 0;
        for (at, probe) in waiting.iter_mut().enumerate() {
            probe.link = kept.rows.first(probe.hash);
            hurried[many] = (at, probe.link);
            many += 1;
        }
        // This many rows of a key are prefetched and no more, since the nearest cache would not hold them.
        // Where one row of a key is enough, it is most often the first.
        let near = if S::PAIRS || S::KEPT_MET || S::KEPT_ALONE { ROWS_NEAR } else { 0 };
        for _ in 0..near {
            let mut left = 0;
            for next in 0..many {
                let (at, mut ahead) = hurried[next];
                let probe = &mut waiting[at];
                if kept.rows.look_ahead(probe.hash, &mut probe.link, &mut ahead) {
                    hurried[left] = (at, ahead);
                    left += 1;
                }
            }
            many = left;
        }
        true
    }
}
