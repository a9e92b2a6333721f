//! Each record once.

use super::partition::Placement;
use super::{KeyBy, KeyedStream, Scattered};
use crate::data::{Data, Key, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::Hashed;
use crate::flow::{Op, Pipe, Push, guard};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::state::GroupTable;
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::fmt::Debug;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Hands on each record the first time it comes, and never again.
    ///
    /// Equal records meet in one task, which remembers them all: a record is copied when it is new.
    /// A record is handed on at once, so that this serves unbounded streams too, as long as their
    /// distinct records fit into memory. Which of equal records from several tasks comes first is
    /// not said. To keep one record a key, group by the key and `reduce`.
    ///
    /// # Errors
    ///
    /// More distinct records than the memory budget holds stop the job.
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
        let together = Scattered::together(KeyedStream::new(self, Whole), origin);
        let wrap = |prev, op| Unique { prev, op, item: PhantomData::<fn(&C::Item)> };
        together.stream.then(origin, wrap).with_state(true, "()")
    }
}

/// A kind of record that can be compared as a whole: every [`Data`] type that is
/// `Eq + Clone + Debug`, and `str` and `[u8]`.
#[diagnostic::on_unimplemented(
    message = "records of `{Self}` cannot be told apart as a whole",
    note = "derive `Data`, `PartialEq`, `Eq`, `Clone` and `Debug` for a type of your own"
)]
pub trait Distinct: Key + Wire {
    /// The record, by reference.
    fn whole<'k>(item: &'k Self::Of<'_>) -> &'k Self;
}

impl<T: Data + Eq + Clone + Debug> Distinct for T {
    #[inline(always)]
    fn whole(item: &T) -> &T {
        item
    }
}

impl Distinct for str {
    #[inline(always)]
    fn whole<'k>(item: &'k &str) -> &'k str {
        item
    }
}

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
    item: PhantomData<fn(&I)>,
}

impl<I, C> Chain for Unique<C, I>
where
    I: Distinct + ?Sized,
    C: Chain<Item = Hashed<I>>,
{
    type Item = I;
    type Time = C::Time;
    type Task<N: Push<I, C::Time> + 'static> = C::Task<UniquePush<I, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<I, C::Time> + 'static,
    {
        let push = UniquePush {
            op: cx.op(self.op),
            seen: GroupTable::new(),
            reservation: cx.memory.reserve(),
            failed: false,
            next,
        };
        self.prev.attach(cx, push)
    }
}

/// Remembers the records of a running task.
pub struct UniquePush<I: Distinct + ?Sized, N> {
    op: Op,
    seen: GroupTable<I, ()>,
    reservation: Reservation,
    failed: bool,
    next: N,
}

impl<I: Distinct + ?Sized, N> UniquePush<I, N> {
    /// Asks for this much memory, and fails the job when it is not there.
    #[cold]
    fn ask(&mut self, bytes: usize) {
        if !self.failed && !self.reservation.try_resize(bytes) {
            self.failed = true;
            let what = format!(
                "{} distinct records in one of its tasks are more than the memory budget of {} \
                 bytes lets it remember",
                self.seen.len(),
                self.reservation.pool().limit(),
            );
            self.op.fail(Error::new(ErrorKind::Memory, what));
        }
    }
}

impl<I: Distinct + ?Sized, N: Pipe> Pipe for UniquePush<I, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.seen.len() as u64);
        report.keys(self.op.id(), self.seen.len() as u64);
        self.next.report(report);
    }
}

impl<I, T, N> Push<Hashed<I>, T> for UniquePush<I, N>
where
    I: Distinct + ?Sized,
    T: Time,
    N: Push<I, T>,
{
    #[inline(always)]
    fn push(&mut self, (hash, item): (u64, I::Of<'_>), time: T) {
        if self.seen.is_full() {
            self.ask(self.seen.bytes_if_grown());
        }
        if self.failed {
            return;
        }
        let mut new = false;
        guard(&self.op, || {
            let key = I::whole(&item);
            self.seen.upsert(hash, key.probe(), key, || new = true);
        });
        if new {
            // Keys kept outside the slots grow between two growths of the table.
            let bytes = self.seen.bytes();
            if bytes > self.reservation.bytes() {
                self.ask(bytes + bytes / 4);
            }
            self.next.push(item, time);
        }
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

    #[test]
    fn more_than_memory_holds_is_refused_by_name() {
        let env = Environment::with_config(Config { memory: 100_000, ..Config::default() });
        let _out = env.range(0..100_000).unique().count();
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Memory);
        assert!(error.operator().unwrap_or_default().starts_with("unique ("), "{error}");
    }
}
