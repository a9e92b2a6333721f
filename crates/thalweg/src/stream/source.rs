//! Sources: the heads of stages without inputs.

use super::{Chain, Environment, Stream};
use crate::clock::Nanos;
use crate::data::Record;
use crate::error::Result;
use crate::fault::{Fault, is_planted};
use crate::flow::{Epoch, Event, Head, Op, PartitionEvent, Poll, Push, Settled, Task, Turn, guard};
use crate::metrics::{Awaits, Report, TaskWaits, Total};
use crate::plan::{Details, Origin, Parallelism, TaskContext};
use crate::time::Time;

/// The result of one call of a source.
pub enum Produced {
    /// Records were pushed, and there are more.
    Some,
    /// There are none for now; the source wakes its task when there are.
    Nothing,
    /// There are none until this time.
    NothingUntil(Nanos),
    /// There are none until another host or a thread has answered, which wakes the task. Unlike after `Nothing`, the input does
    /// not count as idle: on one host there would be no such pause, and no record may be late because of it.
    Pending,
    /// No records were pushed, but the following ones come from another partition, or a partition has changed. For sources
    /// whose [`Partitions`](crate::flow::Partitions) are timed.
    Partition(PartitionEvent),
    /// There are no more records.
    End,
}

/// The part of a source that one task reads.
pub trait Source: Send + 'static {
    /// The kind of record.
    type Item: Record + ?Sized;
    /// What each record carries beside its value.
    type Time: Time;

    /// Pushes about one batch of records.
    #[doc(hidden)]
    fn produce<N>(&mut self, now: Nanos, next: &mut N) -> Result<Produced>
    where
        N: Push<Self::Item, Self::Time>;

    /// Stops accepting input, because the job drains. Returns whether it has accepted input that is not emitted yet:
    /// [`produce`](Self::produce) is then called until it returns [`Produced::End`]. If not, `produce` is not called
    /// again, and the task ends.
    #[doc(hidden)]
    fn stop(&mut self) -> bool {
        false
    }

    /// The end follows: it is saved, and sent. Says whether the operators behind have closed the source before: some of what it has
    /// pushed may not count then.
    #[doc(hidden)]
    fn ends(&mut self, _is_closed: bool) {}

    /// Whether it can save how far it has read: not before it knows where it begins. Until then a barrier waits, and nothing is
    /// read: it could not be committed. The source wakes its task when it knows.
    #[doc(hidden)]
    fn may_save(&mut self, _now: Nanos) -> Result<bool> {
        Ok(true)
    }

    /// Saves how far it has read, if this event is a barrier or the end, and the job has checkpoints.
    #[doc(hidden)]
    fn save(&mut self, _event: Event) {}

    /// The records pushed so far.
    #[doc(hidden)]
    fn records(&self) -> u64;

    /// The bytes read so far, for sources that read bytes.
    #[doc(hidden)]
    fn bytes(&self) -> u64 {
        0
    }

    /// What it needs from the program to continue, if anything.
    #[doc(hidden)]
    fn awaits(&self) -> Option<Awaits> {
        None
    }

    /// What it has waited for while it had nothing, if it knows.
    #[doc(hidden)]
    fn waits(&self) -> Option<TaskWaits> {
        None
    }

    /// This task's share of the total amount to read, if it is known at the start. Tasks that share the remaining
    /// input may divide it in any way: only the sum over the tasks is used.
    #[doc(hidden)]
    fn total(&self) -> Option<Total> {
        None
    }
}

/// Creates the tasks' parts of a source.
pub trait SourceFactory: Send + 'static {
    /// One task's share.
    #[doc(hidden)]
    type Source: Source;

    /// Opens one task's share.
    #[doc(hidden)]
    fn open(&self, cx: &TaskContext<'_>) -> Result<Self::Source>;
}

/// The chain that a source begins.
pub struct Sourced<F> {
    factory: F,
    op: usize,
}

impl Environment {
    /// Begins a stage with a source.
    pub(crate) fn source<F: SourceFactory>(
        &self,
        origin: Origin,
        details: Details,
        parallelism: Parallelism,
        bounded: bool,
        factory: F,
    ) -> Stream<Sourced<F>> {
        let mut builder = self.builder();
        let stage = builder.stage(parallelism, bounded);
        let op = builder.operator(stage, origin, details);
        drop(builder);
        Stream { env: self.clone(), chain: Sourced { factory, op }, stage }
    }
}

impl<F> Sourced<F> {
    /// The same source with another factory.
    pub(crate) fn made_by<G>(self, change: impl FnOnce(F) -> G) -> Sourced<G> {
        Sourced { factory: change(self.factory), op: self.op }
    }
}

impl<F: SourceFactory> Chain for Sourced<F> {
    type Item = <F::Source as Source>::Item;
    type Time = <F::Source as Source>::Time;
    type Task<N: Push<Self::Item, Self::Time> + 'static> = SourceTask<F::Source, N>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, Self::Time> + 'static,
    {
        let op = cx.op(self.op);
        let opened = guard(&op, || self.factory.open(cx));
        let source = opened.map_err(|error| error.in_operator(&*op.name()))?;
        let (epoch, head) = (Epoch::default(), Head::default());
        Ok(SourceTask { op, source, next, stopped: false, exhausted: false, epoch, head })
    }
}

/// A task fed by a source.
pub struct SourceTask<S, N> {
    op: Op,
    source: S,
    next: N,
    /// Whether [`Source::stop`] was called.
    stopped: bool,
    /// Whether the source has ended.
    exhausted: bool,
    /// The last barrier that was sent.
    epoch: Epoch,
    head: Head,
}

impl<S: Source, N: Push<S::Item, S::Time>> SourceTask<S, N> {
    /// Whether a barrier may be sent. A source that is not called any more will never know more.
    fn may_save(&mut self, now: Nanos) -> Result<bool> {
        if self.stopped || self.exhausted || self.next.is_closed() {
            return Ok(true);
        }
        guard(&self.op, || self.source.may_save(now))
    }

    fn step(&mut self, turn: &mut Turn<'_>) -> Option<Poll> {
        // Checked before back-pressure too, because senders may wait for the source to accept their records.
        if !self.stopped && self.op.signals().draining() {
            self.stopped = true;
            self.exhausted |= !guard(&self.op, || self.source.stop());
        }
        match self.head.settle(&mut self.next, turn) {
            Settled::Ready => {}
            Settled::Busy => return None,
            Settled::Stop(poll) => {
                let barrier = self.epoch.next();
                let may = barrier <= turn.overtaking();
                let settles = may && self.head.overdraw(barrier, &mut self.next);
                return if settles { None } else { Some(poll) };
            }
        }
        if self.epoch < self.op.signals().epoch() {
            match self.may_save(turn.clock.now()) {
                Ok(true) => {}
                Ok(false) => return Some(self.head.rest(&mut self.next, turn)),
                Err(error) => {
                    self.op.fail(error);
                    return Some(Poll::Wait);
                }
            }
            // One by one, as in all other sources; otherwise barriers would not align.
            self.epoch = self.epoch.next();
            if is_planted(Fault::SavesLate) {
                self.head.send(Event::Barrier(self.epoch), &mut self.next);
                let _ = self.source.produce(turn.clock.now(), &mut self.next);
                guard(&self.op, || self.source.save(Event::Barrier(self.epoch)));
                return None;
            }
            guard(&self.op, || self.source.save(Event::Barrier(self.epoch)));
            self.head.send(Event::Barrier(self.epoch), &mut self.next);
            return None;
        }
        // The job is suspended here: nothing follows, not even the end, which would be worked through for nothing. A job that is
        // drained ends well.
        if !self.stopped && self.op.signals().is_last_barrier(self.epoch) {
            return Some(self.head.rest(&mut self.next, turn));
        }
        // Not together with the last batch: an operator may still have pending output of it.
        if self.exhausted {
            let is_closed = self.next.is_closed();
            guard(&self.op, || {
                self.source.ends(is_closed);
                self.source.save(Event::End);
            });
            self.head.send(Event::End, &mut self.next);
            return None;
        }
        let produced = if self.next.is_closed() {
            Ok(Produced::End)
        } else {
            let now = turn.clock.now();
            guard(&self.op, || self.source.produce(now, &mut self.next))
        };
        match produced {
            Ok(Produced::Some) => {
                self.head.pushed();
                None
            }
            Ok(Produced::End) => {
                self.exhausted = true;
                None
            }
            Ok(Produced::Partition(partition)) => {
                self.head.send(Event::Partition(partition), &mut self.next);
                None
            }
            Ok(Produced::Pending) => Some(self.head.wait()),
            Ok(Produced::Nothing) => Some(self.head.rest(&mut self.next, turn)),
            Ok(Produced::NothingUntil(at)) => Some(match self.head.rest(&mut self.next, turn) {
                Poll::Wait => Poll::WaitUntil(at),
                Poll::WaitUntil(again) => Poll::WaitUntil(again.min(at)),
                other => other,
            }),
            Err(error) => {
                self.op.fail(error);
                Some(Poll::Wait)
            }
        }
    }
}

impl<S: Source, N: Push<S::Item, S::Time>> Task for SourceTask<S, N> {
    fn poll(&mut self, turn: &mut Turn<'_>) -> Poll {
        while turn.spend() {
            if let Some(poll) = self.step(turn) {
                return poll;
            }
        }
        self.next.tick(turn.clock.now());
        Poll::Again
    }

    fn report(&mut self, report: &mut Report) {
        let (records, bytes) = (self.source.records(), self.source.bytes());
        report.read(self.op.id(), records, bytes, self.source.total());
        report.awaits(self.op.id(), self.source.awaits());
        report.waits(self.op.id(), self.source.waits());
        self.next.report(report);
    }
}
