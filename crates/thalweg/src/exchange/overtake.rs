//! Barriers that overtake the batches on their way to a task.
//!
//! An aligned barrier waits behind all that lies in front of it on the lanes, and blocks each lane until all others have delivered
//! it. That takes as long as those batches take to be processed: long, where operators are slow. So a barrier may overtake
//! them, once the first host lets it ([`Signals::overtaking`](crate::flow::Signals::overtaking)):
//!
//! 1. Batches in front of the barrier are *drawn* ([`draw`](InFlight::draw)): taken from the lanes, and kept in order until their
//!    turn. Their credit is returned when they are processed, as always, so that no more is in flight than usual. A sender without
//!    credit that has a barrier to send is let through for that (`Pipe::overdraw`).
//! 2. When the first lane has delivered the barrier and the stage is settled, the barrier is sent down the stage
//!    ([`begin`](InFlight::begin)). What was drawn and not processed is encoded, and so is what is still drawn from lanes whose
//!    barrier has not come.
//! 3. When every lane has delivered it, or has ended, what is encoded is saved. Then the barrier has left the task.
//!
//! What the operators have saved and what was in flight is together what came before the barrier, each record once. The task
//! processes what it has drawn before anything that comes behind the barrier on the same lane, and in the next run before
//! anything else.
//!
//! An operator that pauses may wait for the checkpoint, while a sender with pending output waits for credit in front of the
//! barrier. Where it has said so ([`Signals::wants_checkpoint`](crate::flow::Signals::wants_checkpoint)), credit is returned for what
//! is not processed ([`release`](InFlight::release)).
//!
//! Other heads than an [`Inlet`](super::Inlet), and those where a plan does not allow it, align all barriers.

use super::align::Align;
use super::intake::{Intake, Rest, Taken};
use super::record_batch::RecordBatch;
use crate::data::{DecodeError, Portable};
use crate::fault::{Fault, is_planted};
use crate::flow::{Epoch, Event, Turn};
use crate::time::Time;
use std::collections::VecDeque;

/// Saves what was in flight at a barrier, each batch or frame of batches encoded; or says why it cannot be saved.
pub(crate) type SaveInFlight = Box<dyn Fn(Epoch, Result<&[Vec<u8>], &'static str>) + Send>;

/// Why there is no checkpoint where the operators behind have ended the input before all that belongs to it has come.
const CLOSED: &str =
    "its input was closed while batches that belong to the checkpoint were on their way";

/// What barriers overtake on the way to a task.
pub(crate) struct InFlight<I: Portable + ?Sized, T: Time> {
    save: SaveInFlight,
    /// What was drawn, and was not processed yet.
    ahead: VecDeque<Ahead<I, T>>,
    /// Of each lane: whether its end was drawn.
    ended: Vec<bool>,
    /// The barrier that was sent down the stage, until all is saved that it has overtaken.
    gathering: Option<Gathering>,
}

/// What was taken from a lane before its turn.
pub(super) enum Ahead<I: Portable + ?Sized, T: Time> {
    /// A batch, and what follows it in the same frame.
    Batch(Option<Owed>, RecordBatch<I, T>, Rest),
    Event(usize, Event),
}

/// Where a batch has come from, unless an earlier run has received it, and the credit that is still to be returned for it.
pub(super) struct Owed {
    pub(super) lane: usize,
    /// Where lanes are bundled: the number of the sending task among those of its host.
    pub(super) sender: u32,
    pub(super) bytes: usize,
}

struct Gathering {
    epoch: Epoch,
    /// What the barrier has overtaken so far, encoded.
    batches: Vec<Vec<u8>>,
    /// Of each lane: whether the barrier has not come there.
    open: Vec<bool>,
}

fn encoded<I: Portable + ?Sized, T: Time>(batch: &RecordBatch<I, T>, rest: &Rest) -> Vec<u8> {
    let mut bytes = Vec::new();
    batch.encode(&mut bytes);
    bytes.extend_from_slice(rest.encoded());
    bytes
}

impl<I: Portable + ?Sized, T: Time> InFlight<I, T> {
    /// None so far, to a task with so many lanes.
    pub(crate) fn new(lanes: usize, save: SaveInFlight) -> Self {
        Self { save, ahead: VecDeque::new(), ended: vec![false; lanes], gathering: None }
    }

    /// The job begins with these batches, encoded, in front of all others. Of records by key, those count whose keys the task owns:
    /// `owner` is its number and that of all tasks.
    pub(crate) fn restore(
        &mut self,
        mut batches: &[u8],
        owner: Option<(usize, usize)>,
    ) -> Result<(), DecodeError> {
        while !batches.is_empty() {
            let mut batch = RecordBatch::<I, T>::default();
            batch.decode_next(&mut batches)?;
            if let Some((task, tasks)) = owner {
                batch = batch.owned_by(task, tasks)?;
            }
            if !batch.is_empty() {
                self.ahead.push_back(Ahead::Batch(None, batch, Rest::default()));
            }
        }
        Ok(())
    }

    /// Whether something is left that a barrier has overtaken.
    pub(super) fn is_busy(&self) -> bool {
        !self.ahead.is_empty() || self.gathering.is_some()
    }

    /// Whether what comes on a lane is in front of a barrier that may overtake it, unless the lane has delivered that and is
    /// blocked.
    pub(super) fn draws_from(&self, lane: usize, passed: Epoch, turn: &Turn<'_>) -> bool {
        match &self.gathering {
            Some(gathering) => gathering.open[lane],
            None => !self.ended[lane] && turn.overtaking() > passed,
        }
    }

    /// Draws what lies in front of the barrier.
    pub(super) fn draw(&mut self, intake: &mut Intake<I, T>, turn: &mut Turn<'_>) {
        for lane in 0..intake.lanes.len() {
            while self.draws_from(lane, intake.align.passed(), turn)
                && let Some(taken) = intake.take(lane, turn)
            {
                self.add(lane, taken, intake);
            }
        }
        let is_whole = |gathering: &mut Gathering| !gathering.open.contains(&true);
        if let Some(Gathering { epoch, batches, .. }) = self.gathering.take_if(is_whole) {
            let batches = if is_planted(Fault::ForgetsInFlight) { Vec::new() } else { batches };
            (self.save)(epoch, Ok(&batches[..]));
            intake.head.gathered(turn);
        }
    }

    fn add(&mut self, lane: usize, taken: Taken<I, T>, intake: &mut Intake<I, T>) {
        match taken {
            Taken::Batch(batch, rest, bytes) => {
                if let Some(gathering) = &mut self.gathering {
                    gathering.batches.push(encoded(&batch, &rest));
                }
                let owed = Owed { lane, sender: intake.sender(), bytes };
                self.ahead.push_back(Ahead::Batch(Some(owed), batch, rest));
            }
            Taken::Event(event @ Event::Barrier(_)) => {
                intake.align.note(lane, event);
                self.delivered(lane);
            }
            Taken::Event(event) => {
                if event == Event::End {
                    self.ended[lane] = true;
                    self.delivered(lane);
                }
                self.ahead.push_back(Ahead::Event(lane, event));
            }
        }
    }

    /// A lane has delivered the barrier, or its end.
    fn delivered(&mut self, lane: usize) {
        if let Some(gathering) = &mut self.gathering {
            gathering.open[lane] = false;
        }
    }

    /// The barrier that a lane has delivered, if it may overtake batches and has not.
    pub(super) fn waiting(&self, align: &Align, turn: &Turn<'_>) -> Option<Epoch> {
        let may = |epoch: &Epoch| self.gathering.is_none() && *epoch <= turn.overtaking();
        align.aligning().filter(may)
    }

    /// Begins to overtake, if a lane has delivered a barrier that may: the caller sends it down the stage, which is settled.
    pub(super) fn begin(&mut self, align: &mut Align, turn: &Turn<'_>) -> Option<Epoch> {
        let epoch = self.waiting(align, turn)?;
        let awaited = align.overtake();
        let open = awaited.into_iter().zip(&self.ended).map(|(awaited, ended)| awaited && !ended);
        let batches = self.ahead.iter().filter_map(|ahead| match ahead {
            Ahead::Batch(_, batch, rest) => Some(encoded(batch, rest)),
            Ahead::Event(..) => None,
        });
        let (open, batches) = (open.collect(), batches.collect());
        self.gathering = Some(Gathering { epoch, batches, open });
        Some(epoch)
    }

    /// The next of what was drawn.
    pub(super) fn pop(&mut self) -> Option<Ahead<I, T>> {
        self.ahead.pop_front()
    }

    /// Returns the credit for what was drawn, as long as something in front of the barrier has not come.
    pub(super) fn release(&mut self, intake: &mut Intake<I, T>) {
        if self.gathering.is_none() {
            return;
        }
        for ahead in &mut self.ahead {
            if let Ahead::Batch(Some(owed), ..) = ahead
                && owed.bytes > 0
            {
                let bytes = std::mem::take(&mut owed.bytes);
                intake.return_earlier(owed.lane, owed.sender, RecordBatch::default(), bytes);
            }
        }
    }

    /// The stage is closed, and needs nothing of what was drawn. What belongs to a checkpoint and has not come is lost to it.
    pub(super) fn give_up(&mut self, intake: &mut Intake<I, T>, turn: &mut Turn<'_>) {
        for ahead in self.ahead.drain(..) {
            if let Ahead::Batch(Some(owed), ..) = ahead {
                intake.give_back_dropped(&owed);
            }
        }
        if let Some(Gathering { epoch, .. }) = self.gathering.take() {
            (self.save)(epoch, Err(CLOSED));
            intake.head.gathered(turn);
        }
    }
}

#[cfg(test)]
mod tests;
