//! Records that come before they can be looked up: in memory as long as that is little, then on disk.

use super::probe::Sought;
use crate::data::Data;
use crate::error::Result;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillReader, SpillWriter};
use crate::time::Time;
use std::collections::VecDeque;

/// So many bytes are taken whether the budget has them or not.
const ALWAYS: usize = 16 << 10;
/// The part of the budget that the buffers of all tasks may take: what is kept to be looked up goes first,
/// since it would be written and read again many times over.
const SHARE: usize = 8;

/// A queue of records.
pub(super) struct Buffer<K: Data, P: Data, T: Time> {
    memory: VecDeque<Sought<K, P, T>>,
    bytes: usize,
    most: usize,
    reservation: Reservation,
    spill: SpillDir,
    /// Behind those in memory.
    writer: Option<SpillWriter<Sought<K, P, T>>>,
    reader: Option<SpillReader<Sought<K, P, T>>>,
    written: u64,
}

impl<K: Data, P: Data, T: Time> Buffer<K, P, T> {
    pub(super) fn new(cx: &TaskContext<'_>) -> Self {
        Self {
            memory: VecDeque::new(),
            bytes: 0,
            most: cx.memory.limit() / SHARE / cx.tasks.max(1),
            reservation: cx.memory.reserve(),
            spill: cx.spill.clone(),
            writer: None,
            reader: None,
            written: 0,
        }
    }

    pub(super) fn push(&mut self, record: Sought<K, P, T>) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            return writer.push(&record);
        }
        let heap = record.1.heap_size() + record.2.heap_size();
        self.bytes += size_of::<Sought<K, P, T>>() + heap;
        let has_room = self.bytes <= ALWAYS.max(self.reservation.bytes()) || {
            // Ahead, by doubling, as the queue itself grows.
            let wanted = 2 * self.bytes;
            wanted <= self.most && self.reservation.try_resize(wanted)
        };
        if has_room {
            self.memory.push_back(record);
            return Ok(());
        }
        self.writer.insert(self.spill.writer()).push(&record)
    }

    /// The first record; `None` when there is none. What is on disk is written no more then.
    pub(super) fn pop(&mut self) -> Result<Option<Sought<K, P, T>>> {
        if let Some(record) = self.memory.pop_front() {
            return Ok(Some(record));
        }
        if let Some(writer) = self.writer.take() {
            let file = writer.finish()?;
            self.written += file.bytes();
            self.reader = Some(file.read());
        }
        if let Some(reader) = &mut self.reader
            && let Some(record) = reader.next(|record| record)?
        {
            return Ok(Some(record));
        }
        (self.memory, self.reader, self.bytes) = (VecDeque::new(), None, 0);
        let _ = self.reservation.try_resize(0);
        Ok(None)
    }

    /// The bytes written to disk.
    pub(super) fn written(&self) -> u64 {
        self.written
    }
}
