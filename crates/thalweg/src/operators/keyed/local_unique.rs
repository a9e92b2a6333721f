//! Drops duplicates of records that this task has seen recently, before they are sent.
//!
//! The sieve keeps distinct records in a table that fits into the cache, and clears the table when it is full. So it
//! never drops the first occurrence of a record, but may miss later duplicates, which the task that owns the key
//! removes. Where most records are new, records bypass the sieve for a while, since a look-up then costs more than it
//! saves.

use super::distinct::Distinct;
use crate::error::Result;
use crate::exchange::Hashed;
use crate::flow::{Event, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::TaskContext;
use crate::state::GroupTable;
use crate::stream::Chain;
use crate::time::Time;
use std::marker::PhantomData;

/// The largest size of the table in bytes: a part of the second-level cache.
const LARGEST: usize = 512 << 10;
/// Records that bypass the table after most of those before were new; doubled each time, up to [`LAST_PASSING`].
const FIRST_PASSING: u64 = 1 << 18;
const LAST_PASSING: u64 = 1 << 24;

/// The chain that ends in a sieve.
pub struct Sieve<C, I: ?Sized> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) item: PhantomData<fn(&I)>,
}

impl<I, C> Chain for Sieve<C, I>
where
    I: Distinct + ?Sized,
    C: Chain<Item = Hashed<I>>,
{
    type Item = Hashed<I>;
    type Time = C::Time;
    type Task<N: Push<Hashed<I>, C::Time> + 'static> = C::Task<SievePush<I, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Hashed<I>, C::Time> + 'static,
    {
        let push = SievePush {
            op: cx.op(self.op),
            seen: GroupTable::new(),
            looked: 0,
            passing: 0,
            patience: FIRST_PASSING,
            emitted: 0,
            next,
        };
        self.prev.attach(cx, push)
    }
}

/// A sieve in a running task.
pub struct SievePush<I: Distinct + ?Sized, N> {
    op: Op,
    seen: GroupTable<I, ()>,
    /// Records looked up since the table was cleared.
    looked: u64,
    /// The number of records still to bypass the table.
    passing: u64,
    patience: u64,
    emitted: u64,
    next: N,
}

impl<I: Distinct + ?Sized, N> SievePush<I, N> {
    /// Clears the table, and decides whether the next records bypass it.
    #[cold]
    #[inline(never)]
    fn forget(&mut self) {
        // One record in four dropped pays for the look-ups of all.
        if 4 * self.seen.len() as u64 > 3 * self.looked {
            self.passing = self.patience;
            self.patience = (2 * self.patience).min(LAST_PASSING);
        } else {
            self.patience = FIRST_PASSING;
        }
        self.looked = 0;
        self.seen.clear();
    }
}

impl<I: Distinct + ?Sized, N: Pipe> Pipe for SievePush<I, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if matches!(event, Event::Round(_)) {
            self.seen.clear();
            self.looked = 0;
        }
        self.next.event(event);
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        self.next.report(report);
    }
}

impl<I, T, N> Push<Hashed<I>, T> for SievePush<I, N>
where
    I: Distinct + ?Sized,
    T: Time,
    N: Push<Hashed<I>, T>,
{
    #[inline(always)]
    fn push(&mut self, (hash, item): (u64, I::Of<'_>), time: T) {
        if self.passing > 0 {
            self.passing -= 1;
        } else {
            let mut new = false;
            guard(&self.op, || {
                let key = I::whole(&item);
                self.seen.upsert(hash, key.probe(), key, || new = true);
            });
            self.looked += 1;
            if !new {
                return;
            }
            let full = self.seen.is_full() && 2 * self.seen.bytes() > LARGEST;
            if full || self.seen.bytes() > LARGEST {
                self.forget();
            }
        }
        self.emitted += 1;
        self.next.push((hash, item), time);
    }
}

#[cfg(test)]
mod tests {
    use crate::Environment;
    use crate::check::check;
    use crate::config::Config;
    use std::collections::BTreeSet;

    /// Runs `unique` over these records. Returns how many the sieve and `unique` itself emit.
    fn counts(records: impl Iterator<Item = u64> + Send + 'static) -> [u64; 2] {
        let config = Config { cores: 1.try_into().unwrap(), ..Config::default() };
        let env = Environment::with_config(config);
        let _out = env.iter(records).unique().count().collect_one();
        let stats = env.start().unwrap().wait().unwrap();
        let of = |kind: &str| {
            let row = stats.operators.iter().find(|row| row.kind == kind).unwrap();
            row.records_out.unwrap()
        };
        [of("sieve"), of("unique")]
    }

    #[test]
    fn each_record_is_there_once_in_any_run() {
        let record = |n: u64| n * n % 97;
        check(|env| env.range(0..600).map(record).shuffle().unique())
            .seeds(2)
            .equals((0..600).map(record).collect::<BTreeSet<_>>());
    }

    #[test]
    fn a_recent_duplicate_is_not_sent() {
        assert_eq!(counts((0..100_000).map(|n| n % 1000)), [1000; 2]);
    }

    #[test]
    fn a_distant_duplicate_is_dropped_by_the_owner() {
        let n = 200_000;
        let [sent, unique] = counts((0..n).chain(0..n).chain(0..n));
        assert_eq!((sent, unique), (3 * n, n));
    }
}
