//! What a stage is made of: pushers nested in one another, and the task that drives them.
//!
//! Data goes down by [`Push::push`], one record at a time, through code that the compiler sees as
//! one piece. Everything else goes through [`Pipe`], between batches, by dynamic calls that cost
//! nothing worth counting there:
//!
//! ```text
//!            push(record)                  event, resume, idle, is_full
//!   head ───────────────────> operator ───────────────────> … ───────> outlet or sink
//! ```
//!
//! The protocol, which every head keeps and every operator may rely on:
//!
//! 1. Before each batch of input the head calls `resume` until it answers [`Flow::Ready`]. An
//!    operator that has output left from before goes on with it there, and says so.
//! 2. The head then pushes at most one batch. An operator that fans out without bound stops when
//!    the next one `is_full`, remembers the rest, and goes on at the next `resume`.
//! 3. An [`Event`] is sent only when `resume` has just answered `Ready`, so it never overtakes a
//!    record. An operator that still has something to say before the event holds the event back.
//! 4. After [`Event::End`] and a last `Ready`, the task is done.
//! 5. When `is_closed`, pushed records are dropped: the head stops reading its input. An operator that is closed
//!    drops its pending output, and what is still pushed to it.
//! 6. [`Event::Round`] ends a round of a loop. The next round begins anew: operators reset their state, and those that
//!    were closed are open again. So a head within a loop that finds the stage closed drops its input up to the end
//!    of the round only.

mod forked;
mod guard;
mod head;
mod nowhere;
mod op;
mod partitions;
mod renewed;
mod task;

pub(crate) use forked::Forked;
pub(crate) use guard::{arm, catch, discard, guard, guard_key, note_key, refuse};
pub(crate) use head::{Head, Settled};
pub(crate) use nowhere::Nowhere;
pub(crate) use op::{Op, Publish, Signals};
pub(crate) use partitions::Partitions;
pub(crate) use renewed::{Remembered, Renewed};
pub(crate) use task::{Poll, Task, Turn, Wake, Waker};

use crate::clock::Nanos;
use crate::data::Record;
use crate::metrics::Report;
use crate::time::{Time, Timestamp};

/// The number of a barrier, counted from 1; of none before the first.
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

/// How many loops an operator is within: 1 in the body of a loop that is in no other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Depth(pub u32);

/// What travels between batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// No later record will carry a timestamp below this one.
    Watermark(Timestamp),
    /// Until the next watermark, nobody need wait for one from here: there is no input for now.
    Idle,
    /// What follows was read from this partition of the source; `None` when its piece has been read to the end.
    /// Within a stage only: from a source whose [`Partitions`] are timed to the operator that makes watermarks.
    Partition(Option<usize>),
    /// Everything before belongs to this epoch and those before it, everything after does not: where
    /// it comes, all that sources had read when it was sent has come too, and nothing else.
    Barrier(Epoch),
    /// A round of the loops nested so deep ends: what came before belongs to it, what comes after to the next.
    /// Operators give out what they hold, as at the end, and begin anew.
    Round(Depth),
    /// Nothing comes after this.
    End,
}

impl Event {
    /// Whether all input has come that operators compute a result of: of a round, or at all.
    pub(crate) fn completes(self) -> bool {
        matches!(self, Self::Round(_) | Self::End)
    }
}

/// How far an operator got with what it still had to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Nothing is left: give me the next batch.
    Ready,
    /// Some is left; call again.
    Busy,
    /// Some is left, and it waits for a receiver; the task will be woken.
    Blocked,
    /// Some is left, and it waits for something else; the task will be woken, or comes back when `idle` says.
    Waiting,
}

/// The part of an operator that does not touch records.
///
/// Every method has a default that asks the next operator, so that one which keeps nothing back
/// implements [`next`](Pipe::next) alone.
pub trait Pipe: Send {
    /// The operator after this one; `None` at the end of a stage.
    fn next(&mut self) -> Option<&mut dyn Pipe>;

    /// Takes an event. See the protocol above.
    fn event(&mut self, event: Event) {
        if let Some(next) = self.next() {
            next.event(event);
        }
    }

    /// Goes on with output left from before, a bounded amount of it.
    fn resume(&mut self) -> Flow {
        self.next().map_or(Flow::Ready, |next| next.resume())
    }

    /// Whether a fan-out should pause after the current record: also where it is closed, since the fan-out may be
    /// endless, and looks for that when it goes on.
    fn is_full(&mut self) -> bool {
        self.next().is_some_and(|next| next.is_full())
    }

    /// Whether the operators downstream drop what is pushed, for the rest of this round of a loop or for ever.
    fn is_closed(&mut self) -> bool {
        self.next().is_some_and(|next| next.is_closed())
    }

    /// Input has run out for now: sends on what waits for more. Returns when to call again even if
    /// no input comes, for those who hold something back for a set time.
    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        self.next().and_then(|next| next.idle(now))
    }

    /// A turn ends with input left: sends on what has waited too long.
    fn tick(&mut self, now: Nanos) {
        if let Some(next) = self.next() {
            next.tick(now);
        }
    }

    /// Writes down what was counted since the job began.
    fn report(&mut self, report: &mut Report) {
        if let Some(next) = self.next() {
            next.report(report);
        }
    }
}

/// An operator, as the one before it sees it.
pub trait Push<I: Record + ?Sized, T: Time>: Pipe {
    /// Takes one record.
    fn push(&mut self, item: I::Of<'_>, time: T);

    /// Takes a run of records, no more than a batch: the same as pushing each.
    ///
    /// An operator passes it on when it can say what it does as an adapter of iterators. A fold at
    /// the end then holds its value in a register instead of storing it for every record, and the
    /// loop can become vector instructions.
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

/// An operator that two streams come to, as the head of its stage sees it. Records are pushed in batches,
/// each of one side, under the protocol above; events are those on which both sides agree.
pub trait PushTwo<I: Record + ?Sized, J: Record + ?Sized, T: Time>: Pipe {
    /// Takes a record of the first side.
    fn push_first(&mut self, item: I::Of<'_>, time: T);

    /// Takes a record of the second side.
    fn push_second(&mut self, item: J::Of<'_>, time: T);

    /// The first side has ended, or its round has. `resume` is called next.
    fn first_ended(&mut self) {}

    /// The second side has ended, or its round has. `resume` is called next.
    fn second_ended(&mut self) {}

    /// The event that has just come ends a round; the first side comes again in the next one, or was over
    /// before.
    fn round_ends(&mut self, _first_comes_again: bool) {}

    /// Whether records of the first side should come while the second has not ended. Where a barrier has to
    /// come through, they come in any case. One of the sides must always be wanted.
    fn wants_first(&self) -> bool {
        true
    }

    /// The same for records of the second side.
    fn wants_second(&self) -> bool;
}

/// How many records an operator pushes between two looks at whether it should pause.
pub(crate) const CHUNK: usize = 1024;

/// Goes on with an operator's remaining output: calls `step`, which pushes one piece of it to
/// `next` and answers whether there was any, until it is exhausted, `next` is full, or a chunk is
/// through. Answers `Ready` only when both the output and `next` have nothing left, or nobody wants
/// it.
pub(crate) fn pump<N: Pipe>(next: &mut N, mut step: impl FnMut(&mut N) -> bool) -> Flow {
    match next.resume() {
        Flow::Ready => {}
        other => return other,
    }
    // Nobody wants the rest, which may be endless: the head will see so and end.
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
