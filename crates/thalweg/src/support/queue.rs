//! Records that wait for something, first in and first out: in memory as long as they are few, then on disk.

use crate::data::Data;
use crate::error::Result;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillReader, SpillWriter};
use std::collections::VecDeque;

/// So many bytes are taken whether the budget has them or not.
const ALWAYS: usize = 16 << 10;
/// The part of the budget that the queues of all tasks may take: what others keep to be looked at is read more often.
const SHARE: usize = 8;

/// A queue of records.
pub(crate) struct Waiting<R: Data> {
    memory: VecDeque<R>,
    /// What those in memory take.
    bytes: usize,
    most: usize,
    reservation: Reservation,
    spill: SpillDir,
    /// Behind those in memory.
    reader: Option<SpillReader<R>>,
    /// Behind those that are being read.
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

    /// The number of records that wait.
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
        // Ahead, by doubling, as the queue itself grows.
        let wanted = (2 * bytes).min(self.most);
        bytes <= wanted && self.reservation.try_resize(wanted)
    }

    /// The first record, if any.
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
        // Let go of at once, so that what comes next may stay in memory.
        if reader.remaining() == 0 {
            self.reader = None;
        }
        Ok(record)
    }

    /// Forgets all that wait.
    pub(crate) fn clear(&mut self) {
        (self.memory, self.bytes, self.len) = (VecDeque::new(), 0, 0);
        (self.reader, self.writer) = (None, None);
        let _ = self.reservation.try_resize(0);
    }
}
