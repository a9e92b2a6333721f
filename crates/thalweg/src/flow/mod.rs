//! The operators of a stage, nested in one another, and the task that drives them.
//!
//! Records are pushed by [`Push::push`], one at a time, through code that the compiler sees as one piece. Everything
//! else goes through [`Pipe`], between batches, by dynamic calls whose cost is shared by all records of a batch:
//!
//! ```text
//!            push(record)                  event, resume, idle, is_full
//!   head ───────────────────> operator ───────────────────> … ───────> outlet or sink
//! ```
//!
//! The protocol, which every head keeps and every operator may rely on:
//!
//! 1. Before each batch of input the head calls `resume` until it returns [`Flow::Ready`]. An
//!    operator that has pending output pushes it there, and returns one of the other values as long as some is left.
//! 2. The head then pushes at most one batch. An operator that fans out without bound stops when
//!    the next one `is_full`, keeps the rest as pending output, and continues in `resume`.
//! 3. An [`Event`] is sent only when `resume` has just returned `Ready`, so it never overtakes a
//!    record. An operator that still has output to push before the event holds the event back.
//! 4. After [`Event::End`] and a last `Ready`, the task is done.
//! 5. When `is_closed`, pushed records are dropped: the head stops reading its input. An operator that is closed
//!    drops its pending output, and what is still pushed to it.
//! 6. [`Event::Barrier`] may leave an operator that has not saved all of its state. It saves the rest of the state, as it was
//!    at the barrier, in `save_part`; at the next barrier, and at the end of a round or of the input, it saves all that is
//!    left.
//! 7. [`Event::Round`] ends a round of a loop. For the next round, operators reset their state, and those that
//!    were closed are open again. So a head within a loop that finds the stage closed drops its input up to the end of
//!    the round only.

mod forked;
mod guard;
mod head;
mod null_sink;
mod numbers;
mod op;
mod partitions;
mod round_state;
mod task;

pub(crate) use forked::Forked;
pub(crate) use guard::{arm, catch, discard, guard, guard_key, note_key, refuse};
pub(crate) use head::{Head, Settled};
pub use null_sink::NullSink;
pub(crate) use numbers::push_numbers;
pub(crate) use op::{AtEnd, Op, Others, Publish, Signals};
pub(crate) use partitions::Partitions;
pub(crate) use round_state::{RoundScoped, RoundState};
pub(crate) use task::{Poll, Task, Turn, Wake, Waker, WeakWaker};

use crate::clock::Nanos;
use crate::data::Record;
use crate::metrics::Report;
use crate::time::{Time, Timestamp};

/// The number of a barrier, counted from 1; 0 before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

impl Epoch {
    /// After all others.
    pub(crate) const LAST: Self = Self(u64::MAX);

    /// That of the barrier after this one.
    pub(crate) fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// How many loops an operator is nested in: 1 in the body of an outermost loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Depth(pub u32);

/// Control messages, which are sent between batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// No later record will carry a timestamp below this one.
    Watermark(Timestamp),
    /// There is no input for now: until the next watermark, this input does not hold back others.
    Idle,
    /// The records that follow were read from another partition of the source, or one of them has changed. Sent within a
    /// stage only: from a source whose [`Partitions`] are timed, to the operator that generates watermarks.
    Partition(PartitionEvent),
    /// Separates epochs: everything that sources read before they sent the barrier comes before it, and everything
    /// else after.
    Barrier(Epoch),
    /// Ends a round of the loops at this depth: what came before belongs to the round, what follows to the next.
    /// Operators emit what they hold, as at the end, and reset their state.
    Round(Depth),
    /// Nothing follows.
    End,
}

/// What a source says of its partitions. They are numbered.
///
/// The pieces of a file are read by several tasks, which share what they know of its watermark. A split is read by one task
/// alone, in turn with its other splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartitionEvent {
    /// The records that follow are of a piece of this file.
    Piece(usize),
    /// The piece has been read to its end.
    PieceEnd,
    /// So many splits are named next, each for the first time. Until all are, nothing is known of the task's event time.
    Splits(usize),
    /// The records that follow are of this split. From the first time on, it holds back the watermark of the task.
    Split(usize),
    /// This split has no records for now.
    Quiet(usize),
    /// This split has records that have not come yet, or its reader does not know whether it has.
    Behind(usize),
    /// This split has been read to its end.
    SplitEnd(usize),
    /// The task has no split for now.
    NoSplit,
}

impl Event {
    /// Whether the input of a result is complete: that of a round, or all of it.
    pub(crate) fn completes(self) -> bool {
        matches!(self, Self::Round(_) | Self::End)
    }

    /// Whether an event that waits right before this one says nothing more, with nothing in between: of watermarks the last one
    /// counts.
    pub(crate) fn supersedes(self, before: Self) -> bool {
        matches!((before, self), (Self::Watermark(_), Self::Watermark(_)))
    }
}

/// The pending output of a stage, as `resume` reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// There is none: the next batch may be pushed.
    Ready,
    /// Some is left; call again.
    Busy,
    /// Some is left, and it waits for a receiver; the task will be woken.
    Blocked,
    /// Some is left, and it waits for something else; the task will be woken, or runs at the time that `idle`
    /// returns.
    Waiting,
    /// There is none, and no batch is to be pushed for now: an operator, which every barrier has passed that this host knows of,
    /// waits for other tasks. The task will be woken, or runs at the time that `idle` returns.
    Paused,
}

/// The part of an operator that does not touch records.
///
/// Every method defaults to a call of the next operator, so an operator that keeps nothing back implements
/// [`next`](Pipe::next) alone.
pub trait Pipe: Send {
    /// The operator after this one; `None` at the end of a stage.
    fn next(&mut self) -> Option<&mut dyn Pipe>;

    /// Takes an event. See the protocol above.
    fn event(&mut self, event: Event) {
        if let Some(next) = self.next() {
            next.event(event);
        }
    }

    /// Pushes pending output, a bounded amount of it.
    fn resume(&mut self) -> Flow {
        self.next().map_or(Flow::Ready, |next| next.resume())
    }

    /// Whether a fan-out should pause after the current record. Also true where the stage is closed: the fan-out may
    /// be endless, and checks `is_closed` when it resumes.
    fn is_full(&mut self) -> bool {
        self.next().is_some_and(|next| next.is_full())
    }

    /// Whether the operators downstream drop what is pushed, for the rest of this round of a loop or for ever.
    fn is_closed(&mut self) -> bool {
        self.next().is_some_and(|next| next.is_closed())
    }

    /// There is no input for now: flushes output that waits for more. Returns the time at which to call again even
    /// without input, for operators that hold output back for a set time.
    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        self.next().and_then(|next| next.idle(now))
    }

    /// Whether a source that reads several splits in turn may read this one for now: it may not while the split is too far ahead in
    /// event time. The task is woken when that may have changed.
    fn may_read(&mut self, split: usize) -> bool {
        self.next().is_none_or(|next| next.may_read(split))
    }

    /// A turn ends with input left: flushes output that has waited too long.
    fn tick(&mut self, now: Nanos) {
        if let Some(next) = self.next() {
            next.tick(now);
        }
    }

    /// Overdraws the stage for a barrier that may overtake batches: outlets without credit take one more batch on each lane
    /// before they are blocked again, until [`end_overdraft`](Self::end_overdraft).
    #[doc(hidden)]
    fn overdraw(&mut self) {
        if let Some(next) = self.next() {
            next.overdraw();
        }
    }

    /// Called when that barrier has left the stage: outlets without credit are blocked.
    #[doc(hidden)]
    fn end_overdraft(&mut self) {
        if let Some(next) = self.next() {
            next.end_overdraft();
        }
    }

    /// The last barrier that an operator has sent by itself, because its input had ended, and that has left the stage.
    /// `None` if there is no such operator.
    #[doc(hidden)]
    fn own_barrier(&mut self) -> Option<Epoch> {
        self.next().and_then(|next| next.own_barrier())
    }

    /// Saves a bounded part of the state that operators still have to save at the last barrier that has passed them; returns
    /// whether more is left. The head calls it between batches until nothing is left, and then reports the barrier as passed.
    /// An operator that implements it also calls the next operator, whether or not more of its own state is left.
    #[doc(hidden)]
    fn save_part(&mut self) -> bool {
        self.next().is_some_and(|next| next.save_part())
    }

    /// Adds what was counted since the job began to the report.
    fn report(&mut self, report: &mut Report) {
        if let Some(next) = self.next() {
            next.report(report);
        }
    }
}

/// An operator, as the one upstream of it calls it.
pub trait Push<I: Record + ?Sized, T: Time>: Pipe {
    /// Whether a run is one loop from here to the end of the stage: each operator passes it on as an adapter of its
    /// iterator, and the last one folds it. It is then worth compiling for several processors.
    const IS_LOOP: bool = false;

    /// Takes one record.
    fn push(&mut self, item: I::Of<'_>, time: T);

    /// A record whose key has this hash is among those that are pushed next. An operator with a large table prefetches the
    /// slot.
    #[inline(always)]
    fn prefetch(&self, _hash: u64) {}

    /// Takes a run of records, no more than a batch: the same as pushing each.
    ///
    /// An operator implements it when it can be expressed as an iterator adapter. A fold at the end of the run then
    /// holds its value in a register instead of storing it for every record, and the loop can be vectorised.
    #[inline(always)]
    fn push_run<'a>(&mut self, items: impl Iterator<Item = I::Of<'a>>, time: T)
    where
        Self: Sized,
    {
        for item in items {
            self.push(item, time);
        }
    }
}

/// An operator with two inputs, as the head of its stage calls it. Records are pushed in batches, each of one input,
/// under the protocol above; events have been aligned over both inputs.
pub trait PushTwo<I: Record + ?Sized, J: Record + ?Sized, T: Time>: Pipe {
    /// Takes a record of the first input.
    fn push_first(&mut self, item: I::Of<'_>, time: T);

    /// Takes a record of the second input.
    fn push_second(&mut self, item: J::Of<'_>, time: T);

    /// The first input has ended, or its round has. `resume` is called next.
    fn first_ended(&mut self) {}

    /// The second input has ended, or its round has. `resume` is called next.
    fn second_ended(&mut self) {}

    /// The event just sent ends a round. The parameter tells whether the first input brings records again in the next
    /// round; otherwise it has ended.
    fn round_ends(&mut self, _first_comes_again: bool) {}

    /// Whether to read the first input while the second has not ended. For a barrier to pass, it is read in any case.
    /// At least one input must always be wanted.
    fn wants_first(&self) -> bool {
        true
    }

    /// Whether to read the second input while the first has not ended, under the same rules.
    fn wants_second(&self) -> bool;
}

/// The number of records that an operator pushes before it checks again whether it should pause.
pub(crate) const CHUNK: usize = 1024;

/// Emits an operator's pending output: calls `step`, which pushes one piece of it to `next` and returns whether there
/// was any, until there is none left, `next` is full, or a chunk has been pushed. Returns `Ready` only when neither
/// the operator nor `next` has pending output, or `next` is closed.
pub(crate) fn pump<N: Pipe>(next: &mut N, mut step: impl FnMut(&mut N) -> bool) -> Flow {
    match next.resume() {
        Flow::Ready => {}
        other => return other,
    }
    // The rest would be dropped, and may be endless: the head checks `is_closed` next and ends.
    if next.is_closed() {
        return Flow::Ready;
    }
    for _ in 0..CHUNK {
        if next.is_full() {
            return Flow::Busy;
        }
        if !step(next) {
            return next.resume();
        }
    }
    Flow::Busy
}
