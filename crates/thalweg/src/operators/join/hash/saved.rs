//! Rows of joins in checkpoints.

use super::Row;
use super::parts::Note;
use crate::checkpoint::{Redistribution, Saving, StateHandle};
use crate::data::Data;
use crate::error::Result;
use crate::flow::Event;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillShare, SpillWriter};
use crate::support::queue::Waiting;
use crate::time::Time;
use std::marker::PhantomData;

/// Rows that a task keeps or that wait in it. They belong to the task that owns the key, or to every task.
pub(in crate::operators::join) struct SavedRows<K, V, T> {
    handle: StateHandle,
    /// Whether all tasks have the same rows; the first one saves them.
    everywhere: bool,
    is_first: bool,
    /// Whether they may be in any task.
    anywhere: bool,
    rows: PhantomData<fn() -> (K, V, T)>,
}

/// A row, and whether it has met a partner.
type Entry<K, V, T> = (K, V, T, bool);

/// Where rows are written.
pub(in crate::operators::join) struct RowsOut<'a> {
    saving: &'a mut Saving,
    anywhere: bool,
}

impl<K: Data, V: Data, T: Time> SavedRows<K, V, T> {
    pub(in crate::operators::join) fn new(
        cx: &TaskContext<'_>,
        op: usize,
        name: &str,
        everywhere: bool,
    ) -> Self {
        let redistribution = match everywhere {
            true => Redistribution::United,
            false => Redistribution::ByKey,
        };
        let handle = cx.state::<Entry<K, V, T>>(op, name, redistribution);
        Self { handle, everywhere, is_first: cx.task == 0, anywhere: false, rows: PhantomData }
    }

    /// Says whether rows may be in any task, and not in the one that owns the key.
    pub(in crate::operators::join) fn anywhere(mut self, anywhere: bool) -> Self {
        self.anywhere = anywhere;
        self
    }

    /// Whether this task saves the rows of all tasks.
    pub(in crate::operators::join) fn are_of_all_tasks(&self) -> bool {
        self.everywhere && self.is_first && self.handle.is_on()
    }

    /// Saves rows at a barrier, and when the input has ended. None is needed then, unless all tasks have them and this one
    /// saves them: others may go on.
    pub(in crate::operators::join) fn save(
        &self,
        event: Event,
        write: impl FnOnce(&mut RowsOut<'_>),
    ) {
        self.handle.save(event, |saving| {
            if self.are_needed(event) {
                write(&mut RowsOut { saving, anywhere: self.anywhere });
            }
        });
    }

    /// As [`save`](Self::save), where `write` may fail.
    ///
    /// # Errors
    ///
    /// Those of `write`.
    pub(super) fn try_save(
        &self,
        event: Event,
        write: impl FnOnce(&mut RowsOut<'_>) -> Result<()>,
    ) -> Result<()> {
        self.handle.try_save(event, |saving| match self.are_needed(event) {
            true => write(&mut RowsOut { saving, anywhere: self.anywhere }),
            false => Ok(()),
        })
    }

    fn are_needed(&self, event: Event) -> bool {
        match self.everywhere {
            true => self.is_first,
            false => event != Event::End,
        }
    }

    /// Gives the rows to this task that it begins with, each with whether it has met a partner.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read; those of `take`.
    pub(in crate::operators::join) fn restore(
        &self,
        mut take: impl FnMut(Row<K, V, T>, bool) -> Result<()>,
    ) -> Result<()> {
        self.handle.restore(|(key, value, time, met): Entry<K, V, T>| {
            take((key.key_hash(), key, value, time), met)
        })
    }

    /// Gives the files of rows to this task that it begins with, each with what was noted of it.
    ///
    /// # Errors
    ///
    /// If one cannot be read; those of `take`.
    pub(in crate::operators::join) fn restore_files<N: Data>(
        &self,
        spill: &SpillDir,
        mut take: impl FnMut(SpillShare<Row<K, V, T>>, N) -> Result<()>,
    ) -> Result<()> {
        self.handle.restore_files(|file| {
            let (rows, note): (SpillShare<Row<K, V, T>>, N) = match self.anywhere {
                true => file.open_dealt(spill)?,
                false => (file.open(spill)?, file.note()?),
            };
            take(rows, note)
        })
    }
}

impl RowsOut<'_> {
    pub(in crate::operators::join) fn add<K: Data, V: Data, T: Time>(
        &mut self,
        key: &K,
        value: &V,
        time: T,
        met: bool,
    ) {
        self.saving.add_by_key(key.key_hash(), |bytes| {
            key.encode(bytes);
            value.encode(bytes);
            time.encode(bytes);
            met.encode(bytes);
        });
    }

    /// Adds rows that are on disk, with a note.
    pub(in crate::operators::join) fn add_share<K: Data, V: Data, T: Time>(
        &mut self,
        rows: &SpillShare<Row<K, V, T>>,
        note: &impl Data,
    ) {
        match self.anywhere {
            true => self.saving.add_dealt(rows, note),
            false => self.saving.add_share(rows, note),
        }
    }

    /// Adds rows of a file that is still written, with a note.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written; then the rows are refused too.
    pub(super) fn add_written<K: Data, V: Data, T: Time>(
        &mut self,
        writer: &mut SpillWriter<Row<K, V, T>>,
        note: &Note,
    ) -> Result<()> {
        let written = self.saving.written(writer)?;
        self.add_share(&written, note);
        Ok(())
    }

    /// Adds records that wait for the table, in memory and on disk.
    ///
    /// # Errors
    ///
    /// As [`add_written`](Self::add_written).
    pub(super) fn add_waiting<K: Data, V: Data, T: Time>(
        &mut self,
        waiting: &mut Waiting<Row<K, V, T>>,
    ) -> Result<()> {
        for (_, key, value, time) in waiting.in_memory() {
            self.add(key, value, *time, false);
        }
        let anywhere = self.anywhere;
        waiting.save_files(self.saving, |saving, rows, removed| {
            RowsOut { saving, anywhere }.add_share(rows, &Note::of_waiting(removed));
        })
    }
}
