//! Sinks that return the records to the program.

use super::Output;
use super::output::Slot;
use crate::data::Portable;
use crate::error::{Error, ErrorKind};
use crate::flow::{Event, Op, Pipe, Push, guard};
use crate::metrics::Report;
use crate::plan::{Details, Origin};
use crate::stream::{Chain, Stream};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::Arc;

/// A collection of records: every `'static` type that can be built from an iterator over them and sent to another
/// thread, and no other.
///
/// It stands in the bounds of [`collect`](Stream::collect) so that the compiler can suggest what to do about a type
/// that is not a collection.
#[diagnostic::on_unimplemented(
    message = "records of `{T}` cannot be collected into `{Self}`",
    label = "not a collection of such records",
    note = "say what to collect into, as in `collect::<Vec<_>>()`; a map is made of a stream of pairs"
)]
pub trait Collection<T>: FromIterator<T> + Send + 'static {}

impl<T, R: FromIterator<T> + Send + 'static> Collection<T> for R {}

impl<C: Chain> Stream<C> {
    /// Collects all records: into a `Vec`, a `HashMap` of pairs, a `String`, ….
    ///
    /// The records of one task stay in order; the records of several tasks follow each other, task by task.
    /// Everything is held in memory. Borrowed records are collected as owned ones (`str` as `String`).
    ///
    /// # Errors
    ///
    /// On an unbounded stream, the job is refused at its start.
    ///
    /// ```
    /// use std::collections::BTreeMap;
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let squares = env.iter(1..4).map(|n| (n, n * n)).collect::<BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(squares.take()?[&3], 9);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("collect_vec", "executeAndCollect", "to_vec"))]
    #[track_caller]
    pub fn collect<R>(self) -> Output<R>
    where
        C::Item: Portable,
        R: Collection<<C::Item as Portable>::Owned>,
    {
        let origin = Origin::here("collect");
        let (output, slot) = Output::new(format!("collect ({})", origin.place));
        let all = Gather::<<C::Item as Portable>::Owned, R>::new(self.tasks(), slot, |parts| {
            // If the result is a `Vec`, the last step copies nothing.
            let others = parts.iter().skip(1).map(Vec::len).sum();
            let mut parts = parts.into_iter();
            let mut all = parts.next().unwrap_or_default();
            all.reserve_exact(others);
            parts.for_each(|mut part| all.append(&mut part));
            all.into_iter().collect()
        });
        let stage = self.stage;
        let env = self.env.clone();
        self.close(origin, Details::none(), move |cx, op| {
            all.slot.begin();
            Ok(CollectPush {
                op: cx.op(op),
                task: cx.task,
                records: Vec::new(),
                left: 0,
                all: Arc::clone(&all),
                types: PhantomData::<fn(&C::Item)>,
            })
        });
        env.build(|builder| builder.require_bounded_end(stage, "it could never be handed back; `to_channel` and `for_each` take records as they come"));
        output
    }

    /// Returns the only record, such as an aggregate of the whole stream; `None` if there is none.
    ///
    /// # Errors
    ///
    /// A second record stops the job, and [`take`](Output::take) has no result then. On an unbounded stream, the job
    /// is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let sum = env.iter(1..=10).sum(|n| *n).collect_one();
    /// let none = env.iter(1..10).filter(|n| *n > 10).collect_one();
    /// env.run()?;
    /// assert_eq!((sum.take()?, none.take()?), (Some(55), None));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn collect_one(self) -> Output<Option<<C::Item as Portable>::Owned>>
    where
        C::Item: Portable,
    {
        let origin = Origin::here("collect_one");
        let (output, slot) = Output::new(format!("collect_one ({})", origin.place));
        let one = self.gather(origin);
        let (stage, env) = (one.stage, one.env.clone());
        one.close(origin, Details::none(), move |cx, op| {
            let slot = Arc::clone(&slot);
            slot.begin();
            Ok(OnePush {
                op: cx.op(op),
                one: None,
                left: 0,
                slot,
                kind: PhantomData::<fn(&C::Item)>,
            })
        });
        env.build(|builder| builder.require_bounded_end(stage, "it could never be handed back; `to_channel` and `for_each` take records as they come"));
        output
    }
}

/// The parts that the tasks of a sink have collected, and the function that combines them in the last task.
struct Gather<P, R> {
    parts: Mutex<Vec<Vec<P>>>,
    missing: AtomicUsize,
    slot: Arc<Slot<R>>,
    finish: fn(Vec<Vec<P>>) -> R,
}

impl<P: Send + 'static, R: Send + 'static> Gather<P, R> {
    fn new(tasks: usize, slot: Arc<Slot<R>>, finish: fn(Vec<Vec<P>>) -> R) -> Arc<Self> {
        let parts = Mutex::new((0..tasks).map(|_| Vec::new()).collect());
        Arc::new(Self { parts, missing: AtomicUsize::new(tasks), slot, finish })
    }

    fn add(self: &Arc<Self>, op: &Op, task: usize, part: Vec<P>) {
        lock(&self.parts)[task] = part;
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let parts = std::mem::take(&mut *lock(&self.parts));
            let finish = self.finish;
            Arc::clone(&self.slot).publish(op, move || finish(parts));
        }
    }
}

struct CollectPush<I: ?Sized, O, R> {
    op: Op,
    task: usize,
    records: Vec<O>,
    /// The number of records collected.
    left: u64,
    all: Arc<Gather<O, R>>,
    types: PhantomData<fn(&I)>,
}

impl<I: ?Sized, O: Send + 'static, R: Send + 'static> Pipe for CollectPush<I, O, R> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        if event == Event::End {
            self.left = self.records.len() as u64;
            self.all.add(&self.op, self.task, std::mem::take(&mut self.records));
        }
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.left + self.records.len() as u64);
    }
}

impl<I, T, R> Push<I, T> for CollectPush<I, I::Owned, R>
where
    I: Portable + ?Sized,
    T: Time,
    R: Send + 'static,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        self.records.push(I::to_owned(item));
    }
}

/// Stores the only record, in the only task.
struct OnePush<I: ?Sized, O> {
    op: Op,
    one: Option<O>,
    /// The number of records stored.
    left: u64,
    slot: Arc<Slot<Option<O>>>,
    kind: PhantomData<fn(&I)>,
}

impl<I: ?Sized, O: Send + 'static> Pipe for OnePush<I, O> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        if event == Event::End {
            self.left = u64::from(self.one.is_some());
            let one = self.one.take();
            Arc::clone(&self.slot).publish(&self.op, move || one);
        }
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.left + u64::from(self.one.is_some()));
    }
}

impl<I: Portable + ?Sized, T: Time> Push<I, T> for OnePush<I, I::Owned> {
    fn push(&mut self, item: I::Of<'_>, _: T) {
        if self.one.is_some() {
            let what = "there is a second record, and `collect_one` takes the only one: \
                        `collect` takes any number";
            self.op.fail(Error::new(ErrorKind::Input, what));
            return;
        }
        self.one = Some(guard(&self.op, || I::to_owned(item)));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::ErrorKind;
    use crate::check::every;

    #[test]
    fn the_only_record_is_taken() {
        every(|env| {
            let one = env.range(0..1000).filter(|n| *n == 7).collect_one();
            let none = env.range(0..1000).filter(|n| *n > 1000).collect_one();
            let text = env.iter(["a"]).flat_map_str(|text, out| out.push(text)).collect_one();
            env.run()?;
            assert_eq!((one.take()?, none.take()?), (Some(7), None));
            assert_eq!(text.take()?.as_deref(), Some("a"));
            Ok(())
        });
    }

    #[test]
    fn a_second_record_stops_the_job() {
        every(|env| {
            let one = env.range(0..1000).filter(|n| n % 500 == 7).collect_one();
            let error = env.run().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(error.operator().unwrap_or_default().starts_with("collect_one ("), "{error}");
            assert!(error.to_string().contains("a second record"), "{error}");
            assert!(one.take().is_err());
            Ok(())
        });
    }
}
