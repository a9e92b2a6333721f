//! What has been fetched of a partition and was not read yet: between the thread that fetches and the task that reads.

use crate::ahead::Room;
use crate::ends::End;
use crate::protocol::answer::Answered;
use crate::protocol::batches::{Batches, Fetched, Wrong, extent};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Buffers that are kept to be used again.
const SPARE: usize = 2;

pub(crate) struct Queue {
    state: Mutex<State>,
    room: Room,
    /// Where the partition ends, as far as it is known.
    end: End,
    /// Has the reader look again.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct State {
    /// What is asked for next, and the epoch of the leader that has appended the record before.
    next: i64,
    epoch: i32,
    fetched: VecDeque<Fetched>,
    /// The bytes in the queue, and those that are being read.
    held: usize,
    spare: Vec<Vec<u8>>,
    trouble: Option<Trouble>,
    /// Nothing more is asked for: it would be in vain.
    is_over: bool,
    /// Whether a broker has ever answered.
    is_known: bool,
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
    /// Other records than those that were read are before the next offset: the log goes on otherwise from here.
    Diverged(i64),
    Denied,
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
    pub(crate) fn new(
        from: i64,
        room: Room,
        end: End,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> Self {
        let state = State {
            next: from,
            epoch: -1,
            fetched: VecDeque::new(),
            held: 0,
            spare: Vec::new(),
            trouble: None,
            is_over: false,
            is_known: false,
            is_passed_over: false,
        };
        Self { state: Mutex::new(state), room, end, wake: Box::new(wake) }
    }

    /// Has batches go on with what was fetched next. Returns also whether the thread that fetches waits for the room.
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
        state.held -= read.length;
        let is_usual = read.buffer.len() <= self.room.fetch.saturating_mul(2);
        if is_usual && read.buffer.capacity() > 0 && state.spare.len() < SPARE {
            state.spare.push(read.buffer);
        }
        let is_waited_for = state.is_passed_over && self.has_room(&state);
        (taken, is_waited_for)
    }

    fn has_room(&self, state: &State) -> bool {
        state.held == 0 || state.held.saturating_add(self.room.fetch) <= self.room.queue
    }

    /// What to ask for, if anything: an offset, and the epoch of the record before.
    pub(super) fn wanted(&self) -> Wants {
        let mut state = self.state();
        let has_room = self.has_room(&state);
        state.is_passed_over = !has_room && !state.is_over;
        match () {
            () if state.is_over => Wants::Nothing,
            () if !has_room => Wants::Room,
            () => {
                Wants::Records { from: state.next, epoch: state.epoch, is_first: !state.is_known }
            }
        }
    }

    /// How many bytes to ask for at a time.
    pub(super) fn most(&self) -> usize {
        self.room.fetch
    }

    /// Memory for records.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.state().spare.pop().unwrap_or_default()
    }

    /// Takes records that were asked for from this offset on.
    pub(super) fn put(&self, from: i64, answered: Answered, buffer: Vec<u8>) {
        self.end.set(answered.end);
        let mut state = self.state();
        state.is_known = true;
        // The answer to another request, which a broker never gives.
        if state.next != from {
            return;
        }
        if let Some(end) = answered.diverges_at {
            state.fail(Trouble::Diverged(end));
        } else {
            match extent(&buffer[..answered.length], from) {
                Err(wrong) => state.fail(Trouble::Wrong(wrong)),
                Ok(extent) => match extent.last {
                    Some((next, epoch)) => {
                        (state.next, state.epoch) = (next, epoch);
                        state.held += extent.length;
                        let (length, aborted) = (extent.length, answered.aborted);
                        state.fetched.push_back(Fetched { buffer, length, aborted });
                    }
                    None => {
                        if state.spare.len() < SPARE {
                            state.spare.push(buffer);
                        }
                        return;
                    }
                },
            }
        }
        drop(state);
        (self.wake)();
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

/// What is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Records { from: i64, epoch: i32, is_first: bool },
    Room,
    Nothing,
}

impl State {
    fn fail(&mut self, trouble: Trouble) {
        self.is_over = trouble != Trouble::Unknown;
        self.trouble = Some(trouble);
    }
}
