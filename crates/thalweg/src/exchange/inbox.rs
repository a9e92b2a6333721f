//! What arrives on an edge from the tasks of another host, where lanes are bundled.
//!
//! A lane for each pair of tasks of different hosts would be too many on large clusters: their number grows with the square of
//! the tasks. So where an edge has very many, all lanes from one task to the tasks of another host are one *bundle*: they share a
//! batch that is being filled, frames, and credit. A frame of batches has a section for each receiving task. An event goes to
//! another host once.
//!
//! The host that receives has an inbox for each other host. It aligns the events of that host's tasks, so that each of its own
//! tasks has one lane from that host, and needs to know nothing of the tasks there. What a task has sent behind a barrier or the
//! end of a round waits here until the others have sent theirs; what may wait is bounded by its credit.

use super::align::{Align, Idleness};
use super::compression::decompress;
use super::far::{Ends, Frame, sections};
use super::lane::Lane;
use crate::clock::Nanos;
use crate::data::DecodeError;
use crate::flow::Event;
use crate::memory::{InFlight, MemoryPool};
use crate::net::Link;
use crate::sync::{Mutex, lock};
use std::collections::VecDeque;
use std::sync::Arc;

/// The way back to the tasks of a host whose lanes to this one are bundled: returns their credit, and tells them when none of
/// the tasks here needs more.
pub(super) struct Gate {
    link: Link,
    /// The number of the first of the sending tasks.
    first: u32,
    state: Mutex<GateState>,
}

struct GateState {
    senders: Vec<Account>,
    /// What each of the receiving tasks still accepts.
    accepts: Vec<Accepts>,
}

/// The credit of a sending task.
#[derive(Clone)]
struct Account {
    /// Credit that is free and not yet returned.
    unreturned: usize,
    /// The credit that the task has in all.
    known: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Accepts {
    All,
    /// Nothing of the round after this many rounds.
    NextRound(u64),
    Nothing,
}

impl Gate {
    /// A gate for so many sending tasks, which begin with the task `first` and have this credit each, and for so many receiving
    /// ones.
    pub(super) fn new(
        link: Link,
        first: u32,
        senders: usize,
        receivers: usize,
        credit: usize,
    ) -> Self {
        let account = Account { unreturned: 0, known: credit };
        let state =
            GateState { senders: vec![account; senders], accepts: vec![Accepts::All; receivers] };
        Self { link, first, state: Mutex::new(state) }
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// The number of a sending task among those of its host.
    fn index_of(&self, from: u32) -> Option<usize> {
        let index = from.checked_sub(self.first)? as usize;
        (index < lock(&self.state).senders.len()).then_some(index)
    }

    fn send(&self, index: usize, frame: Frame<'_>) {
        let mut bytes = Vec::new();
        frame.encode(Ends { from: self.first + index as u32, to: Ends::ALL }, &mut bytes);
        self.link.send(bytes);
    }

    /// Returns credit to the sending task with this number: not for every batch, but so that at most half of it is kept back.
    pub(super) fn give_back(&self, index: u32, bytes: usize) {
        let mut state = lock(&self.state);
        let Some(account) = state.senders.get_mut(index as usize) else { return };
        account.unreturned = account.unreturned.saturating_add(bytes);
        if account.unreturned > account.known / 2 {
            let returned = std::mem::take(&mut account.unreturned);
            drop(state);
            self.send(index as usize, Frame::Returned(returned));
        }
    }

    /// The receiving task with this number needs no more records.
    pub(super) fn close(&self, receiver: usize) {
        let mut state = lock(&self.state);
        state.accepts[receiver] = Accepts::Nothing;
        let senders = state.senders.len();
        if state.accepts.iter().all(|accepts| *accepts == Accepts::Nothing) {
            drop(state);
            (0..senders).for_each(|index| self.send(index, Frame::Closed));
            return;
        }
        // It may be the last one that the others of a round have waited for.
        let of_round = state.accepts.iter().filter_map(|accepts| match accepts {
            Accepts::NextRound(rounds) => Some(*rounds),
            _ => None,
        });
        if let Some(rounds) = of_round.max() {
            self.close_round_if_all(&state.accepts, senders, rounds);
        }
    }

    /// The receiving task with this number needs no more records of the round after this many rounds.
    pub(super) fn close_round(&self, receiver: usize, rounds: u64) {
        let mut state = lock(&self.state);
        state.accepts[receiver] = Accepts::NextRound(rounds);
        self.close_round_if_all(&state.accepts, state.senders.len(), rounds);
    }

    fn close_round_if_all(&self, accepts: &[Accepts], senders: usize, rounds: u64) {
        let not = [Accepts::Nothing, Accepts::NextRound(rounds)];
        if accepts.iter().all(|accepts| not.contains(accepts)) {
            (0..senders).for_each(|index| self.send(index, Frame::ClosedRound(rounds)));
        }
    }
}

/// The lanes of the tasks of this host from another one.
pub(super) struct Inbox<B> {
    gate: Arc<Gate>,
    /// By receiving task.
    lanes: Vec<Arc<Lane<B>>>,
    arrivals: Mutex<Arrivals>,
}

struct Arrivals {
    /// Of the sending tasks.
    align: Align,
    senders: Vec<Arrived>,
    /// The number of frames that wait in all.
    waiting: usize,
    /// Counts their bytes.
    held: InFlight,
}

/// What has arrived from a sending task.
#[derive(Default)]
struct Arrived {
    /// Frames behind a barrier or the end of a round that the other tasks have not reached.
    waiting: VecDeque<Waiting>,
    /// When the next frame of batches was sent, if it is stamped.
    sent_at: Option<Nanos>,
}

enum Waiting {
    Event(Event),
    Batches(Vec<u8>, Option<Nanos>),
}

impl Arrived {
    /// Has an event wait; returns whether it is one more, and does not take the place of the one before it, as in a lane.
    fn wait(&mut self, event: Event) -> bool {
        if let Some(Waiting::Event(before)) = self.waiting.back_mut()
            && event.supersedes(*before)
        {
            *before = event;
            return false;
        }
        self.waiting.push_back(Waiting::Event(event));
        true
    }
}

impl<B> Inbox<B> {
    pub(super) fn new(
        gate: Arc<Gate>,
        lanes: Vec<Arc<Lane<B>>>,
        memory: &MemoryPool,
        idleness: &Idleness,
    ) -> Self {
        let senders = lock(&gate.state).senders.len();
        let arrivals = Arrivals {
            align: Align::before_another(senders, idleness),
            senders: (0..senders).map(|_| Arrived::default()).collect(),
            waiting: 0,
            held: memory.carry(0),
        };
        Self { gate, lanes, arrivals: Mutex::new(arrivals) }
    }

    pub(super) fn lanes(&self) -> &[Arc<Lane<B>>] {
        &self.lanes
    }

    /// Takes a frame of a sending task.
    ///
    /// # Errors
    ///
    /// If the frame is torn, or not from a task of that host.
    pub(super) fn take(&self, from: u32, frame: Frame<'_>) -> Result<(), DecodeError> {
        let Some(index) = self.gate.index_of(from) else {
            return Err(DecodeError::invalid("a task of that host"));
        };
        let mut arrivals = lock(&self.arrivals);
        match frame {
            Frame::Batch(_, batches) => self.arrive(&mut arrivals, index, batches),
            Frame::Compressed(_, batches) => {
                self.arrive(&mut arrivals, index, &decompress(batches)?)
            }
            Frame::Event(event) if arrivals.align.is_held(index) => {
                let added = arrivals.senders[index].wait(event);
                arrivals.waiting += usize::from(added);
                Ok(())
            }
            Frame::Event(event) => {
                arrivals.align.note(index, event);
                self.agree(&mut arrivals)
            }
            Frame::SentAt(at) => {
                arrivals.senders[index].sent_at = Some(at);
                Ok(())
            }
            Frame::Credit(credit) => {
                lock(&self.gate.state).senders[index].known = credit;
                Ok(())
            }
            Frame::Returned(_) | Frame::Closed | Frame::ClosedRound(_) => {
                Err(DecodeError::invalid("a frame of a sender"))
            }
        }
    }

    /// Batches have arrived.
    fn arrive(
        &self,
        arrivals: &mut Arrivals,
        index: usize,
        batches: &[u8],
    ) -> Result<(), DecodeError> {
        let sent_at = arrivals.senders[index].sent_at.take();
        if !arrivals.align.is_held(index) {
            return self.hand_out(index, batches, sent_at);
        }
        arrivals.waiting += 1;
        arrivals.held.resize(arrivals.held.bytes() + batches.len());
        let waiting = &mut arrivals.senders[index].waiting;
        waiting.push_back(Waiting::Batches(batches.to_owned(), sent_at));
        Ok(())
    }

    /// Sends the events on which all sending tasks agree to the lanes, and what has waited for that.
    fn agree(&self, arrivals: &mut Arrivals) -> Result<(), DecodeError> {
        loop {
            while let Some(event) = arrivals.align.agreed() {
                self.lanes.iter().for_each(|lane| lane.take_event(event));
            }
            if arrivals.waiting == 0 {
                return Ok(());
            }
            let Arrivals { align, senders, .. } = arrivals;
            let mut indices = 0..senders.len();
            let next = indices.find(|at| !senders[*at].waiting.is_empty() && !align.is_held(*at));
            let Some(index) = next else { return Ok(()) };
            let Some(first) = senders[index].waiting.pop_front() else { return Ok(()) };
            arrivals.waiting -= 1;
            match first {
                Waiting::Event(event) => arrivals.align.note(index, event),
                Waiting::Batches(batches, sent_at) => {
                    arrivals.held.resize(arrivals.held.bytes() - batches.len());
                    self.hand_out(index, &batches, sent_at)?;
                }
            }
        }
    }

    /// Gives each lane its sections.
    fn hand_out(
        &self,
        index: usize,
        batches: &[u8],
        mut sent_at: Option<Nanos>,
    ) -> Result<(), DecodeError> {
        let mut by_task = vec![(0, Vec::new()); self.lanes.len()];
        for section in sections(batches) {
            let section = section?;
            let task = by_task.get_mut(section.task as usize);
            let (credit, bytes) = task.ok_or(DecodeError::invalid("a task of this host"))?;
            *credit = usize::saturating_add(*credit, section.credit);
            bytes.extend_from_slice(section.batches);
        }
        for (lane, (credit, bytes)) in self.lanes.iter().zip(by_task) {
            if !bytes.is_empty() && !lane.take_section(index as u32, bytes, credit, sent_at.take())
            {
                self.gate.give_back(index as u32, credit);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
