//! Barriers that overtake the batches on their way to a task.
//!
//! An aligned barrier waits behind all batches in front of it on the lanes, and blocks each lane until all others have
//! delivered it. Where operators are slow, processing these batches takes long. So a barrier may overtake them, once the first
//! host allows it ([`Signals::overtaking`](crate::flow::Signals::overtaking)):
//!
//! 1. Batches in front of the barrier are *drawn* ([`draw`](InFlight::draw)): taken from the lanes, and kept in order until
//!    they are processed. Only then is their credit returned, as always, so that no more is in flight than usual. A sender
//!    without credit may overdraw it to send the barrier (`Pipe::overdraw`).
//! 2. When the first lane has delivered the barrier and the stage is settled, the barrier is sent down the stage
//!    ([`begin`](InFlight::begin)). The drawn batches that are not processed are encoded, and so are those still to be drawn
//!    from lanes that have not delivered the barrier.
//! 3. When every lane has delivered it, or has ended, the encoded batches are saved. Then the barrier has left the task.
//!
//! The states that operators have saved and the batches in flight together contain each record in front of the barrier once.
//! The task processes drawn batches before those behind the barrier on the same lane, and in the next run before all others.
//!
//! An operator that pauses may wait for the checkpoint, while a sender with pending output in front of the barrier waits for
//! credit. If an operator has requested the checkpoint ([`Signals::wants_checkpoint`](crate::flow::Signals::wants_checkpoint)),
//! credit is also returned for batches that are not processed ([`release`](InFlight::release)).
//!
//! All barriers are aligned at heads other than an [`Inlet`](super::Inlet), and where the plan requires it.

use super::align::Align;
use super::intake::{Intake, Rest, Taken};
use super::record_batch::RecordBatch;
use crate::data::{DecodeError, Portable};
use crate::fault::{Fault, is_planted};
use crate::flow::{Epoch, Event, Turn};
use crate::time::Time;
use std::collections::VecDeque;

/// Saves the batches in flight at a barrier, each batch or frame of batches encoded; or the reason why they cannot be saved.
pub(crate) type SaveInFlight = Box<dyn Fn(Epoch, Result<&[Vec<u8>], &'static str>) + Send>;

/// Why there is no checkpoint where the operators behind have closed the input before all of its batches have arrived.
const CLOSED: &str =
    "its input was closed while batches that belong to the checkpoint were on their way";

/// The batches on the way to a task that barriers overtake.
pub(crate) struct InFlight<I: Portable + ?Sized, T: Time> {
    save: SaveInFlight,
    /// Drawn batches and events that are not processed yet.
    ahead: VecDeque<Ahead<I, T>>,
    /// For each lane: whether its end was drawn.
    ended: Vec<bool>,
    /// The barrier that was sent down the stage, until the batches that it has overtaken are saved.
    gathering: Option<Gathering>,
}

/// A message that was drawn from a lane.
pub(super) enum Ahead<I: Portable + ?Sized, T: Time> {
    /// A batch, and those that follow it in the same frame.
    Batch(Option<Owed>, RecordBatch<I, T>, Rest),
    Event(usize, Event),
}

/// The lane of a drawn batch, and the credit that is still to be returned for it. A batch of an earlier run has none.
pub(super) struct Owed {
    pub(super) lane: usize,
    /// Where lanes are bundled: the number of the sending task among those of its host.
    pub(super) sender: u32,
    pub(super) bytes: usize,
}

struct Gathering {
    epoch: Epoch,
    /// The batches that the barrier has overtaken so far, encoded.
    batches: Vec<Vec<u8>>,
    /// For each lane: whether it is still to deliver the barrier.
    open: Vec<bool>,
}

fn encoded<I: Portable + ?Sized, T: Time>(batch: &RecordBatch<I, T>, rest: &Rest) -> Vec<u8> {
    let mut bytes = Vec::new();
    batch.encode(&mut bytes);
    bytes.extend_from_slice(rest.encoded());
    bytes
}

impl<I: Portable + ?Sized, T: Time> InFlight<I, T> {
    /// No batches, for a task with this many lanes.
    pub(crate) fn new(lanes: usize, save: SaveInFlight) -> Self {
        Self { save, ahead: VecDeque::new(), ended: vec![false; lanes], gathering: None }
    }

    /// Puts these encoded batches in front of all others at the beginning of a job. With `owner`, the number of the task and of
    /// all tasks, only records are kept whose keys the task owns.
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

    /// Whether overtaken batches are left, or still to be gathered.
    pub(super) fn is_busy(&self) -> bool {
        !self.ahead.is_empty() || self.gathering.is_some()
    }

    /// Whether messages of a lane are in front of a barrier that may overtake them. A lane that has delivered the barrier is
    /// blocked, and delivers none.
    pub(super) fn draws_from(&self, lane: usize, passed: Epoch, turn: &Turn<'_>) -> bool {
        match &self.gathering {
            Some(gathering) => gathering.open[lane],
            None => !self.ended[lane] && turn.overtaking() > passed,
        }
    }

    /// Draws the batches in front of the barrier.
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

    /// Notes that a lane has delivered the barrier, or its end.
    fn delivered(&mut self, lane: usize) {
        if let Some(gathering) = &mut self.gathering {
            gathering.open[lane] = false;
        }
    }

    /// The barrier that a lane has delivered, if it may overtake batches and has not yet done so.
    pub(super) fn waiting(&self, align: &Align, turn: &Turn<'_>) -> Option<Epoch> {
        let may = |epoch: &Epoch| self.gathering.is_none() && *epoch <= turn.overtaking();
        align.aligning().filter(may)
    }

    /// Begins to overtake, if a lane has delivered a barrier that may. The caller sends the barrier down the stage, which is
    /// settled.
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

    /// The next drawn batch or event.
    pub(super) fn pop(&mut self) -> Option<Ahead<I, T>> {
        self.ahead.pop_front()
    }

    /// Returns the credit for drawn batches, as long as batches in front of the barrier are still to arrive.
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

    /// Drops the drawn batches, as the stage is closed. If batches of a checkpoint are still to arrive, the checkpoint fails.
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
