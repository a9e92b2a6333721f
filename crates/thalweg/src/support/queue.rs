//! A first-in, first-out queue of records that wait for something: in memory while they are few, then on disk.

use crate::data::Data;
use crate::error::Result;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillReader, SpillWriter};
use std::collections::VecDeque;

/// Bytes that a queue may take whether the budget has them or not.
const ALWAYS: usize = 16 << 10;
/// The queues of all tasks together may take one part in this many of the budget. It is small because records that
/// are kept for look-ups are read more often.
const SHARE: usize = 8;

/// A queue of records.
pub(crate) struct Waiting<R: Data> {
    memory: VecDeque<R>,
    /// The bytes of the records in memory.
    bytes: usize,
    most: usize,
    reservation: Reservation,
    spill: SpillDir,
    /// Records behind those in memory.
    reader: Option<SpillReader<R>>,
    /// Records behind those that are being read.
    writer: Option<SpillWriter<R>>,
    written: u64,
    len: u64,
}

impl<R: Data> Waiting<R> {
    pub(crate) fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        Self {
            memory: VecDeque::new(),
            bytes: 0,
            most: cx.memory.limit() / SHARE / cx.tasks.max(1),
            reservation: cx.modest(op),
            spill: cx.spill.clone(),
            reader: None,
            writer: None,
            written: 0,
            len: 0,
        }
    }

    /// The number of records in the queue.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes written to disk.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    fn size(record: &R) -> usize {
        size_of::<R>() + record.heap_size()
    }

    pub(crate) fn push(&mut self, record: R) -> Result<()> {
        self.len += 1;
        if self.reader.is_none() && self.writer.is_none() {
            let bytes = self.bytes + Self::size(&record);
            if bytes <= ALWAYS.max(self.reservation.bytes()) || self.has_room(bytes) {
                self.bytes = bytes;
                self.memory.push_back(record);
                return Ok(());
            }
        }
        self.writer.get_or_insert_with(|| self.spill.writer()).push(&record)
    }

    #[cold]
    fn has_room(&mut self, bytes: usize) -> bool {
        // Reserves ahead, by doubling, as the queue itself grows.
        let wanted = (2 * bytes).min(self.most);
        bytes <= wanted && self.reservation.try_resize(wanted)
    }

    /// Removes and returns the first record, if any.
    pub(crate) fn pop(&mut self) -> Result<Option<R>> {
        if self.len == 0 {
            return Ok(None);
        }
        self.len -= 1;
        if let Some(record) = self.memory.pop_front() {
            self.bytes -= Self::size(&record);
            if self.len == 0 && self.reservation.bytes() > 0 {
                self.memory = VecDeque::new();
                let _ = self.reservation.try_resize(0);
            }
            return Ok(Some(record));
        }
        self.pop_from_disk()
    }

    #[cold]
    fn pop_from_disk(&mut self) -> Result<Option<R>> {
        if self.reservation.bytes() > 0 {
            self.memory = VecDeque::new();
            let _ = self.reservation.try_resize(0);
        }
        if self.reader.is_none()
            && let Some(writer) = self.writer.take()
        {
            let file = writer.finish()?;
            self.written += file.bytes();
            self.reader = Some(file.read());
        }
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let record = reader.next(|record| record)?;
        // Dropped at once, so that later records may stay in memory.
        if reader.remaining() == 0 {
            self.reader = None;
        }
        Ok(record)
    }

    /// The records, in order; `None` if some are on disk.
    pub(crate) fn in_memory(&self) -> Option<impl Iterator<Item = &R>> {
        let on_disk = self.reader.is_some() || self.writer.is_some();
        (!on_disk).then(|| self.memory.iter())
    }

    /// Removes all records.
    pub(crate) fn clear(&mut self) {
        (self.memory, self.bytes, self.len) = (VecDeque::new(), 0, 0);
        (self.reader, self.writer) = (None, None);
        let _ = self.reservation.try_resize(0);
    }
}
