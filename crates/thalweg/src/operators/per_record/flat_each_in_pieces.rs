//! The `flat_each_in_pieces` operator: parts of large input records, borrowed from them, some at a time.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Flow, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// Splits a large record into parts and emits them without copying them, some at a time.
///
/// Unlike a [`Visit`](crate::Visit), it can be paused: see
/// [`flat_each_in_pieces`](Stream::flat_each_in_pieces), which has an example.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take apart records of `{I}` in pieces",
    label = "not such a visitor of these records",
    note = "a visitor that emits all parts at once is a `thalweg::Visit`, for `flat_each`"
)]
pub trait VisitInPieces<I>: Send + Sync + 'static {
    /// The type of the parts: `str` or `[T]` for parts that are borrowed.
    type Out: Record + ?Sized;
    /// How far the visit of a record has come. The first call for a record gets the default.
    type Cursor: Default + Send + 'static;

    /// Calls `emit` with the next parts of `item`, about as many as make a batch (a thousand), and moves the cursor past
    /// them. Returns whether there are more.
    fn visit_piece(
        &self,
        item: &I,
        cursor: &mut Self::Cursor,
        emit: &mut impl FnMut(<Self::Out as Record>::Of<'_>),
    ) -> bool;
}

impl<I: Send + 'static, C: Chain<Item = I>> Stream<C> {
    /// Emits the parts of each record that a [visitor](VisitInPieces) finds, borrowed from the record, and waits between
    /// two pieces of a record while receivers cannot keep up.
    ///
    /// For records of a megabyte or more, such as encoded blocks: [`flat_each`](Self::flat_each) emits all parts of such a
    /// record before anything else happens, and they are held in memory until the receivers have had their turn.
    /// For smaller records, `flat_each` is simpler and as fast. For parts that the record does not own, see
    /// [`flat_map`](Self::flat_map).
    ///
    /// Keeps the order of the records, and of each record's parts.
    ///
    /// ```
    /// use thalweg::{Environment, VisitInPieces};
    ///
    /// /// The lines of a text.
    /// struct Lines;
    ///
    /// impl VisitInPieces<String> for Lines {
    ///     type Out = str;
    ///     /// Where the next line begins.
    ///     type Cursor = usize;
    ///
    ///     fn visit_piece(&self, text: &String, at: &mut usize, emit: &mut impl FnMut(&str)) -> bool {
    ///         let mut lines = text[*at..].split_inclusive('\n');
    ///         for line in lines.by_ref().take(1000) {
    ///             *at += line.len();
    ///             emit(line.trim_end());
    ///         }
    ///         *at < text.len()
    ///     }
    /// }
    ///
    /// let env = Environment::new();
    /// let out = env
    ///     .iter(["one\ntwo\n".to_owned(), "three".to_owned()])
    ///     .flat_each_in_pieces(Lines)
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["one", "two", "three"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn flat_each_in_pieces<V>(self, visitor: V) -> Stream<FlatEachInPieces<C, V>>
    where
        V: VisitInPieces<I>,
    {
        let visitor = Arc::new(visitor);
        self.then(Origin::here("flat_each_in_pieces"), |prev, op| FlatEachInPieces {
            prev,
            op,
            visitor,
        })
    }
}

/// The chain that ends in a visitor of large records.
pub struct FlatEachInPieces<C, V> {
    prev: C,
    op: usize,
    visitor: Arc<V>,
}

impl<I, C, V> Chain for FlatEachInPieces<C, V>
where
    I: Send + 'static,
    C: Chain<Item = I>,
    V: VisitInPieces<I>,
{
    type Item = V::Out;
    type Time = C::Time;
    type Task<N: Push<V::Out, C::Time> + 'static> = C::Task<InPiecesPush<I, C::Time, V, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<V::Out, C::Time> + 'static,
    {
        let (op, visitor) = (cx.op(self.op), Arc::clone(&self.visitor));
        let push = InPiecesPush {
            op,
            visitor,
            waiting: VecDeque::new(),
            emitted: 0,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// A visitor of large records in a running task.
pub struct InPiecesPush<I, T, V: VisitInPieces<I>, N> {
    op: Op,
    visitor: Arc<V>,
    /// Records whose parts are not all emitted: the records of one batch at most.
    waiting: VecDeque<(I, V::Cursor, T)>,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I)>,
}

/// The number of pieces that are emitted before watermarks, barriers and other tasks have their turn.
const PIECES: usize = 16;

/// Emits pieces of a record until there are none left, `next` is full, or enough are emitted; returns whether there are
/// more.
#[inline(always)]
fn emit_some<I, T, V, N>(
    (op, visitor): (&Op, &V),
    (item, cursor, time): (&I, &mut V::Cursor, T),
    emitted: &mut u64,
    next: &mut N,
) -> bool
where
    I: 'static,
    T: Time,
    V: VisitInPieces<I>,
    N: Push<V::Out, T>,
{
    for _ in 0..PIECES {
        let has_more = guard(op, || {
            visitor.visit_piece(item, cursor, &mut |part: <V::Out as Record>::Of<'_>| {
                *emitted += 1;
                next.push(part, time);
            })
        });
        if !has_more {
            return false;
        }
        if next.is_full() {
            return true;
        }
    }
    true
}

impl<I, T, V, N> Pipe for InPiecesPush<I, T, V, N>
where
    I: Send + 'static,
    T: Time,
    V: VisitInPieces<I>,
    N: Push<V::Out, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn resume(&mut self) -> Flow {
        let Self { op, visitor, waiting, emitted, next, .. } = self;
        match next.resume() {
            Flow::Ready => {}
            other => return other,
        }
        // What is left of a record may be endless, and does not belong to the next round of a loop.
        if next.is_closed() {
            waiting.clear();
        }
        let Some((item, cursor, time)) = waiting.front_mut() else { return Flow::Ready };
        if !emit_some((op, &**visitor), (item, cursor, *time), emitted, next) {
            waiting.pop_front();
        }
        Flow::Busy
    }

    fn is_full(&mut self) -> bool {
        !self.waiting.is_empty() || self.next.is_full()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        self.next.report(report);
    }
}

impl<I, T, V, N> Push<I, T> for InPiecesPush<I, T, V, N>
where
    I: Send + 'static,
    T: Time,
    V: VisitInPieces<I>,
    N: Push<V::Out, T>,
{
    // Only stored: emitting here as well would compile the visitor, and all operators after it, twice.
    #[inline(always)]
    fn push(&mut self, item: I, time: T) {
        self.waiting.push_back((item, V::Cursor::default(), time));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::check;
    use crate::config::{BatchMode, Config, Scheduler};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// The numbers below a number.
    struct Below;

    impl VisitInPieces<u64> for Below {
        type Out = u64;
        type Cursor = u64;

        fn visit_piece(&self, end: &u64, at: &mut u64, emit: &mut impl FnMut(u64)) -> bool {
            assert!(*end != 666, "unlucky");
            let piece = *at..at.saturating_add(10).min(*end);
            *at = piece.end;
            piece.for_each(emit);
            *at < *end
        }
    }

    #[test]
    fn all_parts_flow_under_every_scheduler_and_on_several_hosts() {
        let expected =
            [25u64, 0, 3, 1000].into_iter().flat_map(|end| 0..end).filter(|n| n % 3 == 0);
        check(|env| {
            let parts = env.iter([25, 0, 3, 1000]).shuffle().flat_each_in_pieces(Below);
            parts.filter(|n| n % 3 == 0).shuffle()
        })
        .equals(expected.collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_parts_flow_in_order() -> crate::Result<()> {
        let env = Environment::new();
        let out = env.iter([4, 0, 30]).flat_each_in_pieces(Below).flat_each_in_pieces(Below);
        let out = out.collect::<Vec<_>>();
        env.run()?;
        let expected = [4u64, 0, 30].into_iter().flat_map(|end| 0..end).flat_map(|end| 0..end);
        assert_eq!(out.take()?, expected.collect::<Vec<_>>());
        Ok(())
    }

    #[test]
    fn an_endless_record_is_left_when_its_consumer_has_enough() -> crate::Result<()> {
        let env = Environment::new();
        let out = env.iter([u64::MAX]).flat_each_in_pieces(Below).limit(5).collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?, [0, 1, 2, 3, 4]);
        Ok(())
    }

    #[test]
    fn a_record_waits_while_its_receivers_have_no_room() -> crate::Result<()> {
        let (emitted, most) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (sent, got, ahead) = (Arc::clone(&emitted), AtomicU64::new(0), Arc::clone(&most));
        // One task runs at a time, so that the sender could be done before the receivers begin.
        let scheduler = Scheduler::Deterministic { seed: 1 };
        let batch = BatchMode::Fixed { size: 10 };
        let env = Environment::with_config(Config {
            credit: 1000,
            batch,
            scheduler,
            ..Config::default()
        });
        env.iter([100_000])
            .flat_each_in_pieces(Below)
            .inspect(move |_| _ = sent.fetch_add(1, Ordering::Relaxed))
            .shuffle()
            .for_each_parallel(move |_| {
                let got = 1 + got.fetch_add(1, Ordering::Relaxed);
                ahead.fetch_max(emitted.load(Ordering::Relaxed) - got, Ordering::Relaxed);
            });
        env.run()?;
        let most = most.load(Ordering::Relaxed);
        assert!((10..2000).contains(&most), "the sender was {most} records ahead");
        Ok(())
    }

    #[test]
    fn a_visitor_that_panics_is_named() {
        let env = Environment::new();
        let _out = env.iter([666]).flat_each_in_pieces(Below).count().collect_one();
        let error = env.run().unwrap_err().to_string();
        assert!(
            error.starts_with("flat_each_in_pieces (") && error.ends_with("panicked: unlucky"),
            "{error}"
        );
    }
}
