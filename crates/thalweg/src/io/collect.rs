//! Sinks that return the records to the program.

use super::Output;
use super::output::Slot;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, Portable};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::Broadcast;
use crate::flow::{Event, Op, Pipe, Push};
use crate::metrics::Report;
use crate::plan::{Details, Origin, TaskContext, TieKind};
use crate::stream::{Chain, Stream};
use crate::sync::{AtomicUsize, Mutex, Ordering, lock};
use crate::time::Time;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

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
    /// Everything is held in memory. Borrowed records are collected as owned ones (`str` as `String`). On several hosts,
    /// every record is sent to each of them, and the program on each gets the same result.
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
        let finish: Finish<_, R> = |parts| {
            // If the result is a `Vec`, the last step copies nothing.
            let others = parts.iter().skip(1).map(Vec::len).sum();
            let mut parts = parts.into_iter();
            let mut all = parts.next().unwrap_or_default();
            all.reserve_exact(others);
            parts.for_each(|mut part| all.append(&mut part));
            all.into_iter().collect()
        };
        let (stage, env) = (self.stage, self.env.clone());
        self.collect_parts(origin, slot, u64::MAX, finish);
        env.builder().require_bounded_end(
            stage,
            "it could never be handed back; `to_channel` and `for_each` take records as they come",
        );
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
        let finish: Finish<_, _> = |parts| parts.into_iter().flatten().next();
        let one = self.gather(origin);
        let (stage, env) = (one.stage, one.env.clone());
        one.collect_parts(origin, slot, 1, finish);
        env.builder().require_bounded_end(
            stage,
            "it could never be handed back; `to_channel` and `for_each` take records as they come",
        );
        output
    }
}

/// The kind of the operator that collects the records of all tasks on each of several hosts. What it holds is a state of the
/// sink.
const EACH_HOST: &str = "collect on each host";

/// Makes the result of the parts of all tasks, in the order of the tasks.
type Finish<O, R> = fn(Vec<Vec<O>>) -> R;

impl<C: Chain<Item: Portable>> Stream<C> {
    /// Ends the stage in a sink that collects at most `most` records in each task, and hands the result of all of them
    /// to the program on every host.
    ///
    /// On one host the tasks share their parts in memory. On several, each host has a task to which all tasks broadcast
    /// their records.
    fn collect_parts<R: Send + 'static>(
        self,
        origin: Origin,
        slot: Arc<Slot<R>>,
        most: u64,
        finish: Finish<<C::Item as Portable>::Owned, R>,
    ) {
        let from = self.stage;
        let to_each_host = self.env.hosts_if_several().map(|hosts| {
            let (edge, parts) = self.env.to_each_host::<[u8], C::Time>(hosts, self.stage, origin);
            let slot = Arc::clone(&slot);
            let origin = Origin { kind: EACH_HOST, ..origin };
            parts.close(origin, Details::none(), move |cx, op| {
                slot.begin();
                let tasks = cx.plan.stages[from].tasks;
                let mut parts: Vec<_> = (0..tasks).map(|_| Vec::new()).collect();
                // The state is that of the sink, so that the job may go on on one host.
                let sink = cx.plan.stages[from].operators.last().copied().unwrap_or(op);
                let state = cx.state::<<C::Item as Portable>::Owned>(
                    sink,
                    "records",
                    Redistribution::United,
                );
                state.restore(|record| {
                    parts[0].push(record);
                    Ok(())
                })?;
                let (op, task, slot) = (cx.op(op), cx.task, Arc::clone(&slot));
                Ok(PartsPush { op, task, parts, slot, finish, state })
            });
            edge
        });
        let here = OnceLock::new();
        let (env, stage) = (self.env.clone(), self.stage);
        self.close_in_sink(origin, Details::none(), move |cx, op| {
            slot.begin();
            let to = match &to_each_host {
                None => {
                    let all = Gather::once(&here, cx, op, &slot, finish)?;
                    Destination::Here(Vec::new(), all)
                }
                Some(edge) => {
                    let hosts = Broadcast::new(edge.lanes_from(cx.task, cx.op(op)));
                    Destination::EachHost(Box::new(hosts), Vec::new())
                }
            };
            let state =
                cx.state::<<C::Item as Portable>::Owned>(op, "records", Redistribution::First);
            let (op, task, types) = (cx.op(op), cx.task, PhantomData::<fn(&C::Item)>);
            let mut push = CollectPush { op, task, most, collected: 0, to, state, types };
            push.restore()?;
            Ok(push)
        });
        if env.hosts_if_several().is_none() {
            env.tie_last(stage, TieKind::Collected);
        }
    }
}

/// The parts that the tasks of a job on one host have collected, and the function that combines them in the last task.
struct Gather<O, R> {
    parts: Mutex<Vec<Vec<O>>>,
    missing: AtomicUsize,
    slot: Arc<Slot<R>>,
    finish: Finish<O, R>,
}

impl<O: Send + 'static, R: Send + 'static> Gather<O, R> {
    /// That of all tasks of this operator, which the first of them makes.
    fn once(
        all: &OnceLock<Arc<Self>>,
        cx: &TaskContext<'_>,
        op: usize,
        slot: &Arc<Slot<R>>,
        finish: Finish<O, R>,
    ) -> Result<Arc<Self>> {
        // There are no other hosts to send frames on its channel to.
        cx.tie(TieKind::Collected, op)?;
        let make = || {
            let parts = Mutex::new((0..cx.tasks).map(|_| Vec::new()).collect());
            let missing = AtomicUsize::new(cx.tasks);
            Arc::new(Self { parts, missing, slot: Arc::clone(slot), finish })
        };
        Ok(Arc::clone(all.get_or_init(make)))
    }

    fn add(self: &Arc<Self>, op: &Op, task: usize, part: Vec<O>) {
        lock(&self.parts)[task] = part;
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            let parts = std::mem::take(&mut *lock(&self.parts));
            let finish = self.finish;
            Arc::clone(&self.slot).publish(op, move || finish(parts));
        }
    }
}

/// Collects the records of a task.
struct CollectPush<I: ?Sized, T: Time, O, R> {
    op: Op,
    task: usize,
    /// A further record fails the job.
    most: u64,
    collected: u64,
    to: Destination<T, O, R>,
    state: StateHandle,
    types: PhantomData<fn(&I)>,
}

/// Where the records of a task are collected.
enum Destination<T: Time, O, R> {
    /// In its own list.
    Here(Vec<O>, Arc<Gather<O, R>>),
    /// In a task of each host, which gets each record encoded, behind the number of its task. The buffer holds one.
    EachHost(Box<Broadcast<[u8], T>>, Vec<u8>),
}

impl<I: ?Sized, T: Time, O: Data, R> CollectPush<I, T, O, R> {
    /// The first task begins with what all tasks had collected.
    fn restore(&mut self) -> Result<()> {
        let Self { state, to, most, .. } = self;
        state.restore(|record| {
            *most = most.saturating_sub(1);
            if let Destination::Here(records, _) = to {
                records.push(record);
            }
            Ok(())
        })
    }
}

impl<I, T, O, R> Pipe for CollectPush<I, T, O, R>
where
    I: ?Sized,
    T: Time,
    O: Data,
    R: Send + 'static,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        match &mut self.to {
            Destination::Here(..) => None,
            Destination::EachHost(hosts, _) => Some(&mut **hosts),
        }
    }

    fn event(&mut self, event: Event) {
        self.state.save(event, |out| {
            if let Destination::Here(records, _) = &self.to {
                records.iter().for_each(|record| out.add(record));
            }
        });
        match &mut self.to {
            Destination::Here(records, all) if event == Event::End => {
                all.add(&self.op, self.task, std::mem::take(records));
            }
            Destination::Here(..) => {}
            Destination::EachHost(hosts, _) => hosts.event(event),
        }
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.collected);
        if let Destination::EachHost(hosts, _) = &mut self.to {
            hosts.report(report);
        }
    }
}

impl<I, T, R> Push<I, T> for CollectPush<I, T, I::Owned, R>
where
    I: Portable + ?Sized,
    T: Time,
    R: Send + 'static,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if self.collected == self.most {
            let what = "there is a second record, and `collect_one` takes the only one: \
                        `collect` takes any number";
            self.op.fail(Error::new(ErrorKind::Input, what));
            return;
        }
        self.collected += 1;
        match &mut self.to {
            Destination::Here(records, _) => records.push(I::to_owned(item)),
            Destination::EachHost(hosts, bytes) => {
                bytes.clear();
                (self.task, I::to_owned(item)).encode(bytes);
                hosts.push(bytes, time);
            }
        }
    }
}

/// Collects the records of all tasks, on one of several hosts.
struct PartsPush<O, R> {
    op: Op,
    task: usize,
    /// By task; before all others, those of the checkpoint that the job began with.
    parts: Vec<Vec<O>>,
    slot: Arc<Slot<R>>,
    finish: Finish<O, R>,
    state: StateHandle,
}

impl<O: Data, R: Send + 'static> Pipe for PartsPush<O, R> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn event(&mut self, event: Event) {
        self.state.save(event, |out| {
            // Each host has all records.
            if self.task == 0 {
                self.parts.iter().flatten().for_each(|record| out.add(record));
            }
        });
        if event == Event::End {
            let (parts, finish) = (std::mem::take(&mut self.parts), self.finish);
            Arc::clone(&self.slot).publish(&self.op, move || finish(parts));
        }
    }
}

impl<T: Time, O: Data, R: Send + 'static> Push<[u8], T> for PartsPush<O, R> {
    fn push(&mut self, mut bytes: &[u8], _: T) {
        let decoded = <(usize, O)>::decode(&mut bytes);
        match decoded.map(|(task, record)| (self.parts.get_mut(task), record)) {
            Ok((Some(part), record)) => part.push(record),
            Ok((None, _)) => self.op.fail(Error::new(ErrorKind::Internal, "a record of no task")),
            Err(error) => {
                let what = format!("a record cannot be decoded as it was encoded: {error}");
                self.op.fail(Error::new(ErrorKind::Internal, what));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ErrorKind;
    use crate::check::every;
    use crate::plan::{Strategy, TieKind};

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

    /// A tie on one host, and an exchange on several.
    #[test]
    fn the_plan_says_what_joins_the_tasks() {
        every(|env| {
            let all = env.range(0..1000).collect::<Vec<_>>();
            let plan = env.plan();
            let ties = plan.ties.iter().filter(|tie| tie.kind == TieKind::Collected).count();
            let edges = plan.edges.iter().filter(|edge| edge.strategy == Strategy::Broadcast);
            let several = env.hosts_if_several().is_some();
            assert_eq!((ties, edges.count()), if several { (0, 1) } else { (1, 0) }, "{plan}");
            env.run()?;
            assert_eq!(all.take()?.len(), 1000);
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
