//! How far event time was in a task, in checkpoints.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::Data;
use crate::error::Result;
use crate::flow::Event;
use crate::plan::TaskContext;
use crate::time::Timestamp;

/// The watermark of an operator in one task. Without it, a job that goes on from a checkpoint would not know what is late,
/// and a task that gets no more records would never let event time advance to where it had been.
pub(crate) struct SavedWatermark(StateHandle);

/// What a task saves.
#[derive(Clone, Copy, Data)]
pub(crate) struct Entry {
    /// Whether it held the watermarks of other tasks back: it was not idle, and its input had not ended.
    pub(crate) holds: bool,
    pub(crate) ended: bool,
    pub(crate) at: Option<Timestamp>,
}

impl SavedWatermark {
    /// That of a task, and the watermark that it begins with: the least of all tasks that held others back, since it may get
    /// the records of any of them.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read.
    pub(crate) fn new(cx: &TaskContext<'_>, op: usize) -> Result<(Self, Option<Timestamp>)> {
        let (saved, entries) = Self::read(cx, op)?;
        let entries: Vec<_> = entries.into_iter().map(|(_, entry)| entry).collect();
        Ok((saved, least(&entries)))
    }

    /// As [`new`](Self::new), of a task that owns the keys of its records: its own watermark, if there were as many tasks. Windows
    /// behind it begin with their own, too.
    pub(crate) fn of_owner(cx: &TaskContext<'_>, op: usize) -> Result<(Self, Option<Timestamp>)> {
        let (saved, entries) = Self::read(cx, op)?;
        let before = saved.0.tasks_before();
        Ok((saved, own_or_least(entries, before, (cx.task, cx.tasks))))
    }

    fn read(cx: &TaskContext<'_>, op: usize) -> Result<(Self, Vec<(usize, Entry)>)> {
        let united = Redistribution::United;
        let handle = cx.state_for_any_details::<Entry>(op, "watermark", united);
        let mut entries = Vec::new();
        handle.restore_by_task(|task, entry: Entry| {
            entries.push((task, entry));
            Ok(())
        })?;
        Ok((Self(handle), entries))
    }

    /// That of a job without checkpoints.
    pub(crate) fn none() -> Self {
        Self(StateHandle::none())
    }

    /// Saves the watermark at a barrier, and at the end.
    pub(crate) fn save(&self, event: Event, holds: bool, at: Option<Timestamp>) {
        let ended = event == Event::End;
        let entry = Entry { holds: holds && !ended, ended, at };
        self.0.save(event, |out| out.add(&entry));
    }
}

/// That which a task, of so many, has saved itself, if there were as many before; else the least of all.
fn own_or_least(
    mut entries: Vec<(usize, Entry)>,
    before: usize,
    (task, tasks): (usize, usize),
) -> Option<Timestamp> {
    if before == tasks {
        entries.retain(|(saved_by, _)| *saved_by == task);
    }
    least(&entries.into_iter().map(|(_, entry)| entry).collect::<Vec<_>>())
}

/// The least of those that held others back; if there is none, of those that were idle, which may have records again; else how
/// far the last of those that had ended was.
pub(crate) fn least(entries: &[Entry]) -> Option<Timestamp> {
    let holding = entries.iter().filter(|entry| entry.holds).map(|entry| entry.at);
    let idle = entries.iter().filter(|entry| !entry.ended).map(|entry| entry.at);
    holding
        .min()
        .or_else(|| idle.min())
        .unwrap_or_else(|| entries.iter().filter_map(|entry| entry.at).max())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tasks_that_have_input_hold_others_back() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        let holds = |at| Entry { holds: true, ended: false, at };
        let idle = |at| Entry { holds: false, ended: false, at };
        let ended = |at| Entry { holds: false, ended: true, at };
        assert_eq!(least(&[holds(at(7)), holds(at(5)), idle(at(3)), ended(at(1))]), at(5));
        assert_eq!(least(&[holds(at(7)), holds(None), ended(at(3))]), None);
        assert_eq!(least(&[idle(at(3)), idle(at(9)), ended(at(1))]), at(3));
        assert_eq!(least(&[ended(at(3)), ended(None), ended(at(9))]), at(9));
        assert_eq!(least(&[]), None);
    }

    #[test]
    fn a_task_that_owns_its_keys_goes_on_with_its_own_watermark() {
        let at = |micros| Some(Timestamp::from_micros(micros));
        let both = || {
            [(0, 7), (1, 5)]
                .map(|(task, micros)| (task, Entry { holds: true, ended: false, at: at(micros) }))
        };
        assert_eq!(own_or_least(both().into(), 2, (0, 2)), at(7));
        assert_eq!(own_or_least(both().into(), 2, (1, 2)), at(5));
        assert_eq!(own_or_least(both().into(), 2, (0, 3)), at(5));
        assert_eq!(own_or_least(Vec::new(), 0, (0, 1)), None);
    }
}
