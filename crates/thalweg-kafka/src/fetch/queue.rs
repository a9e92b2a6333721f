//! What has been fetched of a partition and was not read yet: between the thread that fetches and the task that reads.

use super::budget::{Asking, Budget};
use crate::ahead::Room;
use crate::ends::End;
use crate::protocol::TopicId;
use crate::protocol::answer::{Answered, Diverging};
use crate::protocol::batches::{Batches, Fetched, Wrong, batch_at, extent};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Buffers that are kept to be used again.
const SPARE: usize = 2;

pub(crate) struct Queue {
    state: Mutex<State>,
    room: Room,
    /// Of all partitions together.
    budget: Arc<Budget>,
    /// Where the partition ends, as far as it is known.
    end: End,
    /// Has the reader look again.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct State {
    /// What is asked for next, and the epoch of the leader that has appended the record before.
    next: i64,
    epoch: i32,
    /// Whether the record before is to be fetched once more, to compare its epoch.
    looks_back: bool,
    fetched: VecDeque<Fetched>,
    /// The memory of what is in the queue, and of what is being read.
    held: usize,
    spare: Vec<Vec<u8>>,
    trouble: Option<Trouble>,
    /// Nothing more is asked for: it would be in vain.
    is_over: bool,
    /// Whether a broker has answered since the partition was [without](Queue::unanswered) one that does.
    is_answered: bool,
    /// Whether the partition was passed over, as there was no room.
    is_passed_over: bool,
}

/// Why there are no records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// No broker knows the partition.
    Unknown,
    /// There is no such offset.
    OutOfRange,
    /// The log does not have the record that was read last, of an epoch, but that of another one. It was cut off at an offset, if that is
    /// known.
    Diverged {
        end: Option<i64>,
        epoch: i32,
        read: i32,
    },
    Denied,
    /// The topic was made anew under its name.
    Another {
        before: TopicId,
        now: TopicId,
    },
    /// Brokers want the partition read from this replica.
    Replica(i32),
    /// The code of an error that does not end by itself.
    Code(i16),
    /// What came makes no sense.
    Wrong(Wrong),
}

/// What a reader gets.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    Records,
    Nothing,
    Trouble(Trouble),
}

impl Queue {
    /// From an offset on. If the epoch of the record before is known, brokers are asked whether they have that record.
    pub(crate) fn new(
        (from, epoch): (i64, Option<i32>),
        (room, budget): (Room, Arc<Budget>),
        end: End,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            next: from,
            epoch: epoch.unwrap_or(-1),
            looks_back: false,
            fetched: VecDeque::new(),
            held: 0,
            spare: Vec::new(),
            trouble: None,
            is_over: false,
            is_answered: false,
            is_passed_over: false,
        };
        budget.begin(room.queue.max(room.fetch));
        Self { state: Mutex::new(state), room, budget, end, wake: Box::new(wake) }
    }

    /// Moves what was fetched next to `batches`, and takes back what was read. Returns also whether this or another partition was passed
    /// over for want of the room that there is now: [`Fetcher::has_room`](super::Fetcher::has_room) is to be called then.
    pub(crate) fn take(&self, batches: &mut Batches) -> (Taken, bool) {
        let mut state = self.state();
        let fetched = state.fetched.pop_front();
        let taken = match (&fetched, state.trouble) {
            (Some(_), _) => Taken::Records,
            (None, None) => Taken::Nothing,
            (None, Some(trouble)) => Taken::Trouble(trouble),
        };
        if fetched.is_none() {
            state.trouble = None;
        }
        let read = batches.replace(fetched.unwrap_or_default());
        let bytes = read.buffer.capacity();
        state.held -= bytes;
        let is_short = self.budget.free(bytes, state.held == 0);
        self.keep(&mut state, read.buffer);
        let is_waited_for = state.is_passed_over && self.has_room(&state);
        if is_waited_for {
            // Said once.
            state.is_passed_over = false;
        }
        (taken, is_waited_for || is_short)
    }

    /// Keeps a buffer to be used again, but for one that a large batch has made large.
    fn keep(&self, state: &mut State, buffer: Vec<u8>) {
        let is_usual = (1..=self.room.fetch).contains(&buffer.capacity());
        if is_usual && state.spare.len() < SPARE {
            state.spare.push(buffer);
        }
    }

    fn has_room(&self, state: &State) -> bool {
        // With nothing held there is always room: a batch may be larger than all of it.
        state.held == 0 || state.held.saturating_add(self.room.fetch) <= self.room.queue
    }

    /// What to ask for now, by a request. Where there is no room, a reader says when there is.
    pub(super) fn wanted(&self, asking: &mut Asking) -> Wants {
        let mut state = self.state();
        if state.is_over {
            return Wants::Nothing;
        }
        state.is_passed_over = !self.has_room(&state);
        if state.is_passed_over || !asking.may_ask(self.room.fetch, state.held > 0) {
            return Wants::Room;
        }
        let (from, epoch) = state.asks();
        Wants::Records { from, epoch, is_first: !state.is_answered }
    }

    /// How many bytes to ask for at a time.
    pub(super) fn most(&self) -> usize {
        self.room.fetch
    }

    /// Memory for records.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.state().spare.pop().unwrap_or_default()
    }

    /// Takes the answer to a request for records from this offset on, with this epoch.
    pub(super) fn put(&self, (from, epoch): (i64, i32), answered: Answered, buffer: Vec<u8>) {
        let mut state = self.state();
        let was_behind = self.is_behind(&state);
        self.end.set(answered.end);
        state.is_answered = true;
        // Two brokers may be asked for the partition at once, when its leader has just changed. What the one before answers to a request
        // from this offset on, with an epoch, is no look back.
        if state.asks().0 != from || (state.looks_back && epoch >= 0) {
            return self.wake_if_changed(state, was_behind);
        }
        if let Some(Diverging { epoch, end }) = answered.diverges
            && state.epoch >= 0
            && !state.looks_back
        {
            if end >= from {
                // It has a record before, which may be another one, or brokers have lost what they knew of epochs.
                state.looks_back = true;
                return self.wake_if_changed(state, was_behind);
            }
            let read = state.epoch;
            state.fail(Trouble::Diverged { end: Some(end), epoch, read });
        } else if let Some(replica) = answered.replica {
            state.fail(Trouble::Replica(replica));
        } else if state.looks_back {
            let found = batch_at(&buffer[..answered.length], from);
            self.keep(&mut state, buffer);
            match found {
                Err(wrong) => state.fail(Trouble::Wrong(wrong)),
                // The record is requested again.
                Ok(None) => return self.wake_if_changed(state, was_behind),
                Ok(Some((first, epoch))) => {
                    // Compaction may have removed the record.
                    let is_known = first <= from && epoch >= 0;
                    if !is_known || epoch == state.epoch {
                        state.forget_epoch();
                        return self.wake_if_changed(state, was_behind);
                    }
                    let read = state.epoch;
                    state.fail(Trouble::Diverged { end: None, epoch, read });
                }
            }
        } else {
            match extent(&buffer[..answered.length], from) {
                Err(wrong) => state.fail(Trouble::Wrong(wrong)),
                Ok(extent) => match extent.last {
                    Some((next, epoch)) => {
                        (state.next, state.epoch) = (next, epoch);
                        state.held += buffer.capacity();
                        self.budget.hold(buffer.capacity());
                        let (length, aborted) = (extent.length, answered.aborted);
                        state.fetched.push_back(Fetched { buffer, length, aborted });
                    }
                    None => {
                        self.keep(&mut state, buffer);
                        return self.wake_if_changed(state, was_behind);
                    }
                },
            }
        }
        drop(state);
        (self.wake)();
    }

    /// No broker is known that has the partition, or the one that has it does not answer: there may be records, until one does.
    pub(super) fn unanswered(&self) {
        let mut state = self.state();
        let was_behind = self.is_behind(&state);
        state.is_answered = false;
        self.wake_if_changed(state, was_behind);
    }

    /// Whether a broker has answered since the partition was [without](Self::unanswered) one that does.
    pub(crate) fn is_answered(&self) -> bool {
        self.state().is_answered
    }

    /// Whether there may be records that were not fetched.
    fn is_behind(&self, state: &State) -> bool {
        !state.is_answered || self.end.get().is_none_or(|end| end > state.next)
    }

    /// Has a reader that has read all look again, if it was behind and is not any more, or the reverse.
    fn wake_if_changed(&self, state: MutexGuard<'_, State>, was_behind: bool) {
        let has_changed = self.is_behind(&state) != was_behind;
        drop(state);
        if has_changed {
            (self.wake)();
        }
    }

    /// There is no offset that was asked for, with this epoch.
    pub(super) fn out_of_range(&self, epoch: i32) {
        let mut state = self.state();
        if epoch >= 0 || state.looks_back {
            // It may be the epoch that the broker does not know, or the record before that is gone.
            state.forget_epoch();
            return;
        }
        state.fail(Trouble::OutOfRange);
        drop(state);
        (self.wake)();
    }

    /// The topic is another one, whose epochs have begun anew.
    pub(super) fn forget_epoch(&self) {
        self.state().forget_epoch();
    }

    /// That of the leader that has appended the record before, negative if it is not known.
    pub(super) fn epoch(&self) -> i32 {
        self.state().epoch
    }

    /// The leader is of this epoch: a later one is of another history, where a cluster was restored.
    pub(super) fn forget_epoch_behind(&self, leader: i32) {
        let mut state = self.state();
        if state.epoch > leader {
            state.forget_epoch();
        }
    }

    /// There are no records, as the reader has to know.
    pub(super) fn fail(&self, trouble: Trouble) {
        self.state().fail(trouble);
        (self.wake)();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.budget.end(self.room.queue.max(self.room.fetch), self.state().held);
    }
}

/// What is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Records { from: i64, epoch: i32, is_first: bool },
    Room,
    Nothing,
}

impl State {
    /// The offset and epoch to ask with.
    fn asks(&self) -> (i64, i32) {
        if self.looks_back { (self.next - 1, -1) } else { (self.next, self.epoch) }
    }

    fn forget_epoch(&mut self) {
        (self.epoch, self.looks_back) = (-1, false);
    }

    fn fail(&mut self, trouble: Trouble) {
        // The first one that does not end by itself stays.
        if !self.is_over {
            self.is_over = trouble != Trouble::Unknown;
            self.trouble = Some(trouble);
        }
    }
}
