//! A first-in, first-out queue of records that wait for something: in memory while they are few, then on disk.

use crate::checkpoint::Saving;
use crate::data::Data;
use crate::error::Result;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{ShareReader, SpillDir, SpillShare, SpillWriter};
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
    files: VecDeque<QueueFile<R>>,
    /// Records behind those in files.
    writer: Option<SpillWriter<R>>,
    /// The hash of a record's key, for files of which only some hashes count.
    hash: fn(&R) -> u64,
    written: u64,
    len: u64,
}

/// A file of records, the first of which may have been removed from the queue.
struct QueueFile<R: Data> {
    share: SpillShare<R>,
    /// How many were removed when the job began.
    removed: u64,
    reader: Option<ShareReader<R>>,
}

impl<R: Data> QueueFile<R> {
    fn new(share: SpillShare<R>, removed: u64) -> Self {
        Self { share, removed, reader: None }
    }

    /// How many records are left, with those that do not count.
    fn left(&self) -> u64 {
        match &self.reader {
            Some(reader) => reader.remaining(),
            None => self.share.file.records().saturating_sub(self.removed),
        }
    }

    fn next(&mut self, hash: fn(&R) -> u64) -> Result<Option<R>> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => {
                let mut reader = self.share.read();
                reader.skip(self.removed)?;
                none.insert(reader)
            }
        };
        reader.next(hash, |record| record)
    }
}

impl<R: Data> Waiting<R> {
    pub(crate) fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        Self {
            memory: VecDeque::new(),
            bytes: 0,
            most: cx.memory.limit() / SHARE / cx.tasks.max(1),
            reservation: cx.modest(op),
            spill: cx.spill.clone(),
            files: VecDeque::new(),
            writer: None,
            hash: |_| 0,
            written: 0,
            len: 0,
        }
    }

    /// With the hash of a record's key: files of a checkpoint may have records of keys that are not this task's.
    pub(crate) fn hashed_by(mut self, hash: fn(&R) -> u64) -> Self {
        self.hash = hash;
        self
    }

    /// The number of records in the queue. It may be less where a file of a checkpoint has records of other tasks.
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
        if self.files.is_empty() && self.writer.is_none() {
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
        if let Some(record) = self.memory.pop_front() {
            self.len -= 1;
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
        loop {
            let Some(file) = self.files.front_mut() else {
                if self.writer.is_none() {
                    return Ok(None);
                }
                self.complete_file()?;
                continue;
            };
            let before = file.left();
            let record = file.next(self.hash)?;
            let left = file.left();
            self.len -= before - left;
            // Dropped at once, so that later records may stay in memory.
            if left == 0 {
                self.files.pop_front();
            }
            if record.is_some() {
                return Ok(record);
            }
        }
    }

    /// Completes the file that is being written, if there is one.
    fn complete_file(&mut self) -> Result<()> {
        if let Some(writer) = self.writer.take() {
            let file = writer.finish()?;
            self.written += file.bytes();
            self.files.push_back(QueueFile::new(file.into(), 0));
        }
        Ok(())
    }

    /// The records in memory, in order, which come before those on disk.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = &R> {
        self.memory.iter()
    }

    /// Saves the files, in order: passes each to `save`, with the number of its first records that are not in the queue any
    /// more.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written; then it is refused too.
    pub(crate) fn save_files(
        &mut self,
        out: &mut Saving,
        save: impl Fn(&mut Saving, &SpillShare<R>, u64),
    ) -> Result<()> {
        for QueueFile { share, removed, reader } in &self.files {
            let read = reader.as_ref().map(|reader| share.file.records() - reader.remaining());
            save(out, share, read.unwrap_or(*removed));
        }
        if let Some(writer) = &mut self.writer {
            let written = out.written(writer)?;
            save(out, &written, 0);
        }
        Ok(())
    }

    /// Adds a file that was [saved](Self::save_files), behind all that is in the queue.
    pub(crate) fn restore_file(&mut self, share: SpillShare<R>, removed: u64) -> Result<()> {
        self.complete_file()?;
        let file = QueueFile::new(share, removed);
        self.len += file.left();
        self.files.push_back(file);
        Ok(())
    }

    /// Removes all records.
    pub(crate) fn clear(&mut self) {
        (self.memory, self.bytes, self.len) = (VecDeque::new(), 0, 0);
        (self.files, self.writer) = (VecDeque::new(), None);
        let _ = self.reservation.try_resize(0);
    }
}
