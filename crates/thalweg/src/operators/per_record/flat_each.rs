//! The `flat_each` operator: parts of each input record, borrowed from it.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// Splits a record into parts and emits them, without copying them.
///
/// The compiler does not infer a closure that returns an iterator borrowing from its argument, so this is a
/// trait for visitors. [`text`](crate::text) has visitors for text.
///
/// ```
/// use thalweg::{Environment, Visit};
///
/// /// The fields of a line, without those that are empty.
/// struct Fields(char);
///
/// impl Visit<str> for Fields {
///     type Out = str;
///     type Scratch = ();
///
///     fn visit(&self, line: &str, (): &mut (), emit: &mut impl FnMut(&str)) {
///         line.split(self.0).filter(|field| !field.is_empty()).for_each(emit);
///     }
/// }
///
/// let env = Environment::new();
/// let out = env
///     .iter(["1;;2", "3"])
///     .flat_map_str(|line, out| out.push(line))
///     .flat_each(Fields(';'))
///     .collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, ["1", "2", "3"]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take apart records of `{I}`",
    label = "not a visitor of these records",
    note = "the visitors in `thalweg::text` take streams of `str`, such as lines read from files",
    note = "for records of another type, or with a closure, use `flat_map` or `flat_map_str`; \
            or implement `thalweg::Visit` for a type of your own"
)]
pub trait Visit<I: Record + ?Sized>: Send + Sync + 'static {
    /// The type of the parts: `str` or `[T]` for parts that are borrowed.
    type Out: Record + ?Sized;
    /// Scratch space, one per task, so that a visit need not allocate; `()` for none.
    ///
    /// The result of a visit must not depend on what earlier ones left there: which records share the scratch
    /// space depends on the tasks.
    type Scratch: Default + Send + 'static;

    /// Calls `emit` with each part of `item`, in order. It is fastest with one call of `emit` in the code: the
    /// operators after it are compiled into that place.
    fn visit(
        &self,
        item: I::Of<'_>,
        scratch: &mut Self::Scratch,
        emit: &mut impl FnMut(<Self::Out as Record>::Of<'_>),
    );
}

impl<C: Chain> Stream<C> {
    /// Emits the parts of each record that a [visitor](Visit) finds, borrowed from the record.
    ///
    /// This is [`flat_map`](Self::flat_map) without copies: nothing is allocated and the visitor is compiled
    /// into the loop. A visit is not interrupted: however many parts a record has, all are emitted before the
    /// operator checks for back-pressure. For records of a megabyte or more, see
    /// [`flat_each_in_pieces`](Self::flat_each_in_pieces).
    ///
    /// Keeps the order of the records, and of each record's parts.
    ///
    /// ```
    /// use thalweg::{Environment, text};
    ///
    /// let env = Environment::new();
    /// let words = env
    ///     .iter(["Time and tide", "wait for no-one."])
    ///     .flat_map_str(|line, out| out.push(line))
    ///     .flat_each(text::LowercaseWords)
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(words.take()?, ["time", "and", "tide", "wait", "for", "no", "one"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn flat_each<V: Visit<C::Item>>(self, visitor: V) -> Stream<FlatEach<C, V>> {
        self.then(Origin::here("flat_each"), |prev, op| FlatEach::new(prev, op, visitor))
    }
}

/// The chain that ends in a visitor.
pub struct FlatEach<C, V> {
    prev: C,
    op: usize,
    visitor: Arc<V>,
}

impl<C, V> FlatEach<C, V> {
    pub(super) fn new(prev: C, op: usize, visitor: V) -> Self {
        Self { prev, op, visitor: Arc::new(visitor) }
    }
}

impl<C: Chain, V: Visit<C::Item>> Chain for FlatEach<C, V> {
    type Item = V::Out;
    type Time = C::Time;
    type Task<N: Push<V::Out, C::Time> + 'static> = C::Task<FlatEachPush<C::Item, V, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<V::Out, C::Time> + 'static,
    {
        let (op, visitor) = (cx.op(self.op), Arc::clone(&self.visitor));
        let scratch = V::Scratch::default();
        let push = FlatEachPush { op, visitor, scratch, emitted: 0, next, types: PhantomData };
        self.prev.attach(cx, push)
    }
}

/// A visitor in a running task.
pub struct FlatEachPush<I: Record + ?Sized, V: Visit<I>, N> {
    op: Op,
    visitor: Arc<V>,
    scratch: V::Scratch,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I)>,
}

impl<I: Record + ?Sized, V: Visit<I>, N: Pipe> Pipe for FlatEachPush<I, V, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        self.next.report(report);
    }
}

impl<I, T, V, N> Push<I, T> for FlatEachPush<I, V, N>
where
    I: Record + ?Sized,
    T: Time,
    V: Visit<I>,
    N: Push<V::Out, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let Self { op, visitor, scratch, emitted, next, .. } = self;
        guard(op, || {
            visitor.visit(item, scratch, &mut |part: <V::Out as Record>::Of<'_>| {
                *emitted += 1;
                next.push(part, time);
            });
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Environment;
    use crate::check::check;

    struct Pairs;

    impl Visit<[u8]> for Pairs {
        type Out = [u8];
        type Scratch = Vec<u8>;

        fn visit(&self, item: &[u8], scratch: &mut Vec<u8>, emit: &mut impl FnMut(&[u8])) {
            for pair in item.chunks(2) {
                assert!(pair != b"!!", "shouting");
                scratch.clear();
                scratch.extend(pair.iter().rev());
                emit(scratch);
            }
        }
    }

    struct Bytes;

    impl Visit<String> for Bytes {
        type Out = [u8];
        type Scratch = ();

        fn visit(&self, item: String, (): &mut (), emit: &mut impl FnMut(&[u8])) {
            emit(item.as_bytes());
        }
    }

    #[test]
    fn parts_of_parts_flow_in_order() -> crate::Result<()> {
        let env = Environment::new();
        let texts = ["abcde".to_owned(), String::new(), "fg".to_owned()];
        let out = env.iter(texts).flat_each(Bytes).flat_each(Pairs).collect::<Vec<_>>();
        env.run()?;
        assert_eq!(out.take()?, [b"ba".to_vec(), b"dc".to_vec(), b"e".to_vec(), b"gf".to_vec()]);
        Ok(())
    }

    #[test]
    fn every_part_is_emitted_once_in_any_run() {
        let text = |n: u64| format!("{n}-{}", n * n);
        let pairs = |text: String| {
            let pairs = text.as_bytes().chunks(2).map(|pair| pair.iter().rev().copied().collect());
            pairs.collect::<Vec<Vec<u8>>>()
        };
        check(|env| env.range(0..100).map(text).flat_each(Bytes).flat_each(Pairs))
            .seeds(2)
            .equals((0..100).map(text).flat_map(pairs));
    }

    #[test]
    fn a_visitor_that_panics_is_named() {
        let env = Environment::new();
        let _out =
            env.iter(["ab!!".to_owned()]).flat_each(Bytes).flat_each(Pairs).count().collect_one();
        let error = env.run().unwrap_err().to_string();
        assert!(
            error.starts_with("flat_each (") && error.ends_with("panicked: shouting"),
            "{error}"
        );
    }
}
