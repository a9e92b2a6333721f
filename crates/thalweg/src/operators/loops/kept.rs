//! The input of a loop that sees the same records in each round: kept in its task, and passed on by reference.

use super::head::Input;
use crate::checkpoint::{Redistribution, Saving, StateHandle};
use crate::data::{Covariant, Data, Record, hash_u64};
use crate::error::Result;
use crate::flow::{CHUNK, Event, NullSink, Push};
use crate::plan::TaskContext;
use crate::support::replay_buffer::{Cursor, ReplayBuffer, ReplayWriter};
use crate::time::Time;
use std::marker::PhantomData;

/// Records that are kept elsewhere and passed on by reference: closures see a `&T`.
pub struct ByRef<T> {
    types: PhantomData<fn(T)>,
    // Makes the type unsized, so that it does not collide with other kinds of record.
    _unsized: [()],
}

impl<T: 'static> Record for ByRef<T> {
    type Of<'a> = &'a T;
}

impl<T: 'static> Covariant for ByRef<T> {
    #[inline(always)]
    fn shorten<'short, 'long: 'short>(item: &'long T) -> &'short T {
        item
    }
}

/// A task's input.
pub struct ReplayInput<D: Data, T: Time> {
    /// The input while it arrives.
    growing: ReplayWriter<D, T>,
    /// The input once it is complete.
    part: Option<ReplayBuffer<D, T>>,
    /// The progress of a round.
    cursor: Cursor<D, T>,
    task: usize,
    /// All of it, in each checkpoint.
    saved: StateHandle,
}

impl<D: Data, T: Time> ReplayInput<D, T> {
    pub(super) fn new(cx: &TaskContext<'_>, op: usize) -> Result<Self> {
        let mut growing = ReplayWriter::new(cx.modest(op), cx.spill);
        let saved = cx.state::<(D, T)>(op, "input", Redistribution::ByKey);
        saved.restore_files(|file| {
            let (records, ()) = file.open_dealt::<(D, T), ()>(cx.spill)?;
            growing.restore_file(records);
            Ok(())
        })?;
        saved.restore(|(record, time)| growing.push(record, time))?;
        Ok(Self { growing, part: None, cursor: Cursor::start(), task: cx.task, saved })
    }
}

/// Saves the records in memory of the task with this number.
fn save_records<'a, D: Data, T: Time>(
    task: usize,
    records: impl Iterator<Item = &'a (D, T)>,
    out: &mut Saving,
) {
    for (number, (record, time)) in records.enumerate() {
        // Dealt out to all tasks, of which there may be another number.
        let hash = hash_u64((task as u64) << 48 | number as u64);
        out.add_by_key(hash, |bytes| {
            record.encode(bytes);
            time.encode(bytes);
        });
    }
}

impl<D: Data, T: Time> Input<D, T> for ReplayInput<D, T> {
    type Out = ByRef<D>;
    type Left = NullSink;

    const AT_ONCE: bool = false;

    #[inline(always)]
    fn take<N: Push<ByRef<D>, T>>(&mut self, item: D, time: T, _: &mut N) -> Result<()> {
        self.growing.push(item, time)
    }

    fn complete(&mut self) -> Result<()> {
        let others = self.growing.another();
        let (part, _) = std::mem::replace(&mut self.growing, others).finish()?;
        self.part = Some(part);
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.cursor = Cursor::start();
        Ok(())
    }

    fn give<N: Push<ByRef<D>, T>>(&mut self, next: &mut N) -> Result<bool> {
        let Some(part) = &self.part else { return Ok(false) };
        self.cursor.show(part, CHUNK, |item, time| next.push(item, time))
    }

    fn leave(&mut self, _: &mut NullSink) -> Result<bool> {
        Ok(false)
    }

    fn save(&mut self, event: Event) -> Result<()> {
        let Self { growing, part, task, saved, .. } = self;
        saved.try_save(event, |out| match part {
            _ if event == Event::End => Ok(()),
            Some(part) => {
                save_records(*task, part.in_memory(), out);
                part.files().iter().for_each(|file| out.add_dealt(file, &()));
                Ok(())
            }
            None => {
                save_records(*task, growing.in_memory(), out);
                growing.files().iter().for_each(|file| out.add_dealt(file, &()));
                let Some(writer) = growing.writer() else { return Ok(()) };
                out.written(writer).map(|file| out.add_dealt(&file, &()))
            }
        })
    }

    fn restart(&mut self) {
        self.part = None;
    }
}
