//! The state of an exchange: the batches on their way to its tasks that a barrier has overtaken.
//!
//! Exchanges with aligned barriers have no such state, nor have checkpoints whose barrier overtook nothing.

use crate::checkpoint::StateHandle;
use crate::data::{Data, DecodeError, Portable};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::InFlight;
use crate::flow::{Epoch, Event};
use crate::plan::{Overtaken, TaskContext};
use crate::time::Time;

/// The beginning of an entry: the number of the task that has saved it, and of all tasks. Encoded batches follow.
type SavedBy = (u64, u64);

/// The batches that barriers overtake on the way to a task with this many lanes, beginning with those of the checkpoint; `None`
/// where barriers are aligned. `op` is the operator that receives them.
pub(super) fn in_flight<I: Portable + ?Sized, T: Time>(
    cx: &TaskContext<'_>,
    op: usize,
    lanes: usize,
) -> Result<Option<Box<InFlight<I, T>>>> {
    let overtaken = cx.plan.overtaken(cx.stage).filter(|_| cx.has_checkpoints());
    let Some(overtaken) = overtaken else { return Ok(None) };
    let saved = cx.state_in_flight::<I::Owned, T>(op);
    let task = (cx.task as u64, cx.tasks as u64);
    let restored = restored(&saved, overtaken, task)?;
    let save_as_task = move |epoch, batches: Result<&[Vec<u8>], &'static str>| {
        save(&saved, epoch, batches, task);
    };
    let mut in_flight = Box::new(InFlight::new(lanes, Box::new(save_as_task)));
    let owner = (overtaken == Overtaken::ByKey).then_some((cx.task, cx.tasks));
    for batches in &restored {
        in_flight.restore(batches, owner).map_err(|error| unreadable(cx, op, &error))?;
    }
    Ok(Some(in_flight))
}

fn unreadable(cx: &TaskContext<'_>, op: usize, error: &DecodeError) -> Error {
    let what = format!("a batch that was in flight at the checkpoint cannot be read: {error}");
    Error::new(ErrorKind::Input, what).in_operator(&*cx.op(op).name())
}

/// The encoded batches of a checkpoint that may contain records for this task, of `tasks` tasks.
fn restored(
    saved: &StateHandle,
    overtaken: Overtaken,
    (task, tasks): (u64, u64),
) -> Result<Vec<Vec<u8>>> {
    let mut restored = Vec::new();
    saved.restore_encoded(|input| {
        let (of, before) = SavedBy::decode(input)?;
        let batches = std::mem::take(input);
        let is_for_me = match overtaken {
            Overtaken::ByKey => true,
            Overtaken::ByTask => of.saturating_mul(tasks) / before.max(1) == task,
        };
        if is_for_me {
            restored.push(batches.to_vec());
        }
        Ok(Ok(()))
    })?;
    Ok(restored)
}

/// Saves encoded batches that a barrier has overtaken, by a task.
fn save(
    saved: &StateHandle,
    epoch: Epoch,
    batches: Result<&[Vec<u8>], &'static str>,
    task: SavedBy,
) {
    saved.save(Event::Barrier(epoch), |out| match batches {
        Ok(batches) => {
            for batch in batches {
                out.add_by_key(0, |bytes| {
                    task.encode(bytes);
                    bytes.extend_from_slice(batch);
                });
            }
        }
        Err(why) => out.refuse(why),
    });
}
