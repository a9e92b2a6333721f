//! Each record once.
//!
//! A record that is new is handed on at once. Where the memory budget does not let the table of what
//! was seen grow, and the input ends, the others go to disk (see [`overflow`](super::overflow)): part by
//! part, they are told apart and handed on after the end.

use super::KeyBy;
use super::overflow::Overflow;
use super::partition::{add_hash, by_hash};
use super::sieve::Sieve;
use crate::data::{Data, Key, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::Hashed;
use crate::flow::{Event, Flow, Op, Pipe, Push, guard, pump};
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::state::{GroupTable, SpillReader};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::fmt::Debug;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Hands on each record the first time it comes, and never again.
    ///
    /// Equal records meet in one task, which remembers them all: a record is copied when it is new.
    /// Those that a task has seen a short while ago are dropped before they are sent, where enough
    /// come again. A record is handed on at once, so that this serves unbounded streams too, as long
    /// as their distinct records fit into the memory budget. On a stream that ends, records for which
    /// there is no room are written to disk, and handed on after the end, in no order. Which of equal
    /// records from several tasks comes first is not said. To keep one record a key, group by the key
    /// and `reduce`.
    ///
    /// # Errors
    ///
    /// On a stream without an end, more distinct records than the memory budget holds stop the job;
    /// on one with an end, a full disk does.
    ///
    /// ```
    /// use thalweg::{Environment, text};
    ///
    /// let env = Environment::new();
    /// let words = env
    ///     .iter(["to be or", "not to be"])
    ///     .flat_map_str(|line, out| out.push(line))
    ///     .flat_each(text::Words)
    ///     .unique();
    /// let out = words.sorted().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["be", "not", "or", "to"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn unique(self) -> Stream<impl Chain<Item = C::Item, Time = C::Time>>
    where
        C::Item: Distinct,
    {
        let origin = Origin::here("unique");
        let bounded = self.is_bounded();
        let item = PhantomData::<fn(&C::Item)>;
        let hashed = add_hash(self, Whole, origin);
        let sieve = Origin { kind: "sieve", ..origin };
        let sieved = hashed.then(sieve, |prev, op| Sieve { prev, op, item });
        by_hash(sieved, Origin { kind: "partition", ..origin })
            .then(origin, |prev, op| Unique { prev, op, bounded, item })
            .with_state(true, "()")
    }
}

/// A kind of record that can be compared as a whole: every [`Data`] type that is
/// `Eq + Clone + Debug`, and `str` and `[u8]`.
#[diagnostic::on_unimplemented(
    message = "records of `{Self}` cannot be told apart as a whole",
    label = "records are compared, copied and sent to other tasks, and this type lacks some of that",
    note = "for a type of your own, add `#[derive(thalweg::Data, PartialEq, Eq, Clone, Debug)]`",
    note = "floats are not compared, as NaN is not equal to itself: `map` them with `to_bits` first"
)]
pub trait Distinct: Key + Wire {
    /// The record, by reference.
    fn whole<'k>(item: &'k Self::Of<'_>) -> &'k Self;
}

#[diagnostic::do_not_recommend]
impl<T: Data + Eq + Clone + Debug> Distinct for T {
    #[inline(always)]
    fn whole(item: &T) -> &T {
        item
    }
}

#[diagnostic::do_not_recommend]
impl Distinct for str {
    #[inline(always)]
    fn whole<'k>(item: &'k &str) -> &'k str {
        item
    }
}

#[diagnostic::do_not_recommend]
impl Distinct for [u8] {
    #[inline(always)]
    fn whole<'k>(item: &'k &[u8]) -> &'k [u8] {
        item
    }
}

/// The key is the whole record.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

impl<I: Distinct + ?Sized> KeyBy<I> for Whole {
    type Key = I;
    type Value = I;

    #[inline(always)]
    fn key<'k>(&self, item: &'k I::Of<'_>) -> &'k I {
        I::whole(item)
    }

    #[inline(always)]
    fn value<'a>(&self, item: I::Of<'a>) -> I::Of<'a> {
        item
    }
}

/// The chain that hands on each record once.
pub struct Unique<C, I: ?Sized> {
    prev: C,
    op: usize,
    bounded: bool,
    item: PhantomData<fn(&I)>,
}

impl<I, C> Chain for Unique<C, I>
where
    I: Distinct + ?Sized,
    C: Chain<Item = Hashed<I>>,
{
    type Item = I;
    type Time = C::Time;
    type Task<N: Push<I, C::Time> + 'static> = C::Task<UniquePush<I, C::Time, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<I, C::Time> + 'static,
    {
        let core = Core {
            op: cx.op(self.op),
            seen: GroupTable::new(),
            overflow: Overflow::new(cx),
            bounded: self.bounded,
            failed: false,
            emitted: 0,
        };
        self.prev.attach(cx, UniquePush { core, phase: Phase::Taking, next, time: PhantomData })
    }
}

/// Remembers the records of a running task.
pub struct UniquePush<I: Distinct + ?Sized, T, N> {
    core: Core<I>,
    phase: Phase<I>,
    next: N,
    time: PhantomData<fn(T)>,
}

enum Phase<I: Distinct + ?Sized> {
    /// Records come in.
    Taking,
    /// The input has ended; a part is read back from disk.
    Reading(SpillReader<Hashed<I>>),
    /// The end is passed on.
    Over,
}

struct Core<I: Distinct + ?Sized> {
    op: Op,
    seen: GroupTable<I, ()>,
    /// Where records go that are not in the table and have no room there.
    overflow: Overflow<Hashed<I>>,
    /// Whether the input ends, so that there is a time for those.
    bounded: bool,
    failed: bool,
    emitted: u64,
}

impl<I: Distinct + ?Sized> Core<I> {
    /// Hands a record on if it is new, or sets it aside if that cannot be told.
    #[inline(always)]
    fn take<T: Time, N: Push<I, T>>(&mut self, hash: u64, item: I::Of<'_>, time: T, next: &mut N) {
        if (self.seen.is_full() || self.overflow.is_frozen()) && !self.has_room_for(hash, &item) {
            self.set_aside(hash, item);
            return;
        }
        let mut new = false;
        guard(&self.op, || {
            let key = I::whole(&item);
            self.seen.upsert(hash, key.probe(), key, || new = true);
        });
        if new {
            self.emitted += 1;
            next.push(item, time);
        }
    }

    /// Whether the record is in the table, or the table may grow.
    #[inline(never)]
    fn has_room_for(&mut self, hash: u64, item: &I::Of<'_>) -> bool {
        let Self { op, seen, overflow, .. } = self;
        overflow.may_grow(seen.bytes_if_grown())
            || guard(op, || seen.find(hash, I::whole(item).probe()).is_some())
    }

    #[cold]
    #[inline(never)]
    fn set_aside(&mut self, hash: u64, item: I::Of<'_>) {
        if self.failed {
            return;
        }
        if self.bounded {
            if let Err(error) = self.overflow.write(hash, &(hash, item)) {
                self.fail(error);
            }
            return;
        }
        let what = format!(
            "{} distinct records in one of its tasks are more than the memory budget of {} bytes lets \
             it remember, and on a stream without an end none can wait on disk",
            self.seen.len(),
            self.overflow.limit(),
        );
        self.fail(Error::new(ErrorKind::Memory, what));
    }

    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.op.fail(error);
    }
}

impl<I, T, N> UniquePush<I, T, N>
where
    I: Distinct + ?Sized,
    T: Time,
    N: Push<I, T>,
{
    /// All records of the input, or of a part of it, were told apart: goes on with the next part.
    fn next_part(&mut self) {
        self.core.seen = GroupTable::new();
        if let Err(error) = self.core.overflow.set_aside() {
            self.core.fail(error);
        }
        self.phase = match self.core.overflow.next_part() {
            // A job that has failed is stopped, and its end must not look like one.
            _ if self.core.failed => Phase::Over,
            Some(reader) => Phase::Reading(reader),
            None => {
                self.next.event(Event::End);
                Phase::Over
            }
        };
    }
}

impl<I, T, N> Pipe for UniquePush<I, T, N>
where
    I: Distinct + ?Sized,
    T: Time,
    N: Push<I, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        match event {
            // Held back until what is on disk is handed on.
            Event::End => self.next_part(),
            other => self.next.event(other),
        }
    }

    fn resume(&mut self) -> Flow {
        let Self { core, phase, next, .. } = self;
        core.overflow.account(core.seen.bytes());
        let Phase::Reading(reader) = phase else { return next.resume() };
        let flow = pump(next, |next| {
            match reader.next(|(hash, item)| core.take(hash, item, T::LAST, next)) {
                Ok(read) => read.is_some(),
                Err(error) => {
                    core.fail(error);
                    false
                }
            }
        });
        if flow == Flow::Ready {
            self.next_part();
            return Flow::Busy;
        }
        flow
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.core.op.id();
        report.emitted(op, self.core.emitted);
        report.keys(op, self.core.emitted);
        report.spilled(op, self.core.overflow.bytes());
        self.next.report(report);
    }
}

impl<I, T, N> Push<Hashed<I>, T> for UniquePush<I, T, N>
where
    I: Distinct + ?Sized,
    T: Time,
    N: Push<I, T>,
{
    #[inline(always)]
    fn push(&mut self, (hash, item): (u64, I::Of<'_>), time: T) {
        self.core.take(hash, item, time, &mut self.next);
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;
    use crate::config::Config;
    use crate::{Environment, ErrorKind};

    #[test]
    fn each_record_comes_once() {
        every(|env| {
            let numbers = env.range(0..20_000).map(|n| n % 777).unique().sorted();
            let numbers = numbers.collect::<Vec<_>>();
            let texts = env
                .range(0..5000)
                .flat_map_str(|n, out| out.push(&format!("{:0width$}", n % 50, width = 40)))
                .unique()
                .count();
            let endless = env.iter(0_u64..).map(|n| n / 3).unique().limit(5).count();
            env.run()?;
            assert_eq!(numbers.take()?, (0..777).collect::<Vec<_>>());
            assert_eq!((texts.take()?, endless.take()?), (50, 5));
            Ok(())
        });
    }

    /// Without an end, on a job that runs until it is stopped.
    #[test]
    fn what_memory_does_not_hold_is_refused_by_name_where_there_is_no_end() {
        let env = Environment::with_config(Config { memory: 100_000, ..Config::default() });
        env.generate(f64::INFINITY, Some).unique().for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.operator().unwrap_or_default().starts_with("unique ("), "{error}");
    }

    #[test]
    fn what_memory_does_not_hold_waits_on_disk_where_there_is_an_end() -> crate::Result<()> {
        for cores in [1, 3] {
            let folder = tempfile::tempdir().unwrap();
            let config = Config {
                memory: 200_000,
                cores: cores.try_into().unwrap(),
                spill_dir: folder.path().to_owned(),
                ..Config::default()
            };
            let env = Environment::with_config(config);
            let n = 200_000;
            let numbers = env.range(0..3 * n).map(move |i| i % n).unique().collect::<Vec<_>>();
            let texts = env
                .range(0..60_000)
                .flat_map_str(|n, out| {
                    out.push(&format!("a text that no slot holds: {}", n % 20_000))
                })
                .unique()
                .collect::<Vec<_>>();
            let stats = env.start()?.wait()?;
            let mut numbers = numbers.take()?;
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..n), "{cores} cores");
            let texts = texts.take()?;
            let set: std::collections::BTreeSet<_> = texts.iter().collect();
            assert_eq!((texts.len(), set.len()), (20_000, 20_000), "{cores} cores");
            let spilled = stats.operators.iter().filter(|op| op.kind == "unique");
            assert!(spilled.into_iter().all(|op| op.spilled_bytes > 0), "{cores} cores");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        }
        Ok(())
    }
}
