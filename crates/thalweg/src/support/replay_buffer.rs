//! A buffer of records that are read more than once: the first in memory, the rest on disk. For records that are
//! removed when they are read, see [`Waiting`](super::queue::Waiting).

use crate::data::Data;
use crate::error::Result;
use crate::memory::Reservation;
use crate::state::{SpillDir, SpillShare, SpillWriter};
use crate::support::overflow::FilesReader;
use crate::time::Time;

/// The approximate size of a run in bytes. A run is one allocation of records, which does not move when more arrive.
const RUN: usize = 64 << 10;
/// More records are kept in memory only while the whole pool uses at most one part in this many of the budget.
const SHARE: usize = 2;

/// A complete buffer, whose records no longer change.
pub struct ReplayBuffer<D: Data, T: Time> {
    runs: Vec<Vec<(D, T)>>,
    files: Vec<SpillShare<(D, T)>>,
    /// Held as long as the records are.
    _reservation: Reservation,
}

/// A buffer that is being filled.
pub struct ReplayWriter<D: Data, T: Time> {
    runs: Vec<Vec<(D, T)>>,
    len: u64,
    /// What the records in memory own on the heap, and what is reserved for that.
    heap: usize,
    heap_reserved: usize,
    /// The bytes of the runs themselves.
    flat: usize,
    reservation: Reservation,
    spill: SpillDir,
    /// The files of a checkpoint.
    files: Vec<SpillShare<(D, T)>>,
    writer: Option<SpillWriter<(D, T)>>,
}

impl<D: Data, T: Time> ReplayBuffer<D, T> {
    /// The records in memory.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = &(D, T)> {
        self.runs.iter().flatten()
    }

    /// The others.
    pub(crate) fn files(&self) -> &[SpillShare<(D, T)>] {
        &self.files
    }
}

impl<D: Data, T: Time> ReplayWriter<D, T> {
    /// The number of records in a run.
    const RECORDS: usize = {
        let fit = RUN / if size_of::<(D, T)>() == 0 { 1 } else { size_of::<(D, T)>() };
        if fit < 16 { 16 } else { fit }
    };

    pub(crate) fn new(reservation: Reservation, spill: &SpillDir) -> Self {
        Self {
            runs: Vec::new(),
            len: 0,
            heap: 0,
            heap_reserved: 0,
            flat: 0,
            reservation,
            spill: spill.clone(),
            files: Vec::new(),
            writer: None,
        }
    }

    /// An empty buffer for other records, with a reservation of its own in the same budget.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.reservation.another(), &self.spill)
    }

    /// The number of records. It may be less where a file of a checkpoint has records of other tasks.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// The records in memory so far.
    pub(crate) fn in_memory(&self) -> impl Iterator<Item = &(D, T)> {
        self.runs.iter().flatten()
    }

    /// The others, in files of a checkpoint.
    pub(crate) fn files(&self) -> &[SpillShare<(D, T)>] {
        &self.files
    }

    /// And those in the file that is being written.
    pub(crate) fn writer(&mut self) -> Option<&mut SpillWriter<(D, T)>> {
        self.writer.as_mut()
    }

    /// Adds the records of a file of a checkpoint.
    pub(crate) fn restore_file(&mut self, file: SpillShare<(D, T)>) {
        self.len += file.file.records();
        self.files.push(file);
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, record: D, time: T) -> Result<()> {
        self.len += 1;
        if self.writer.is_none() {
            let heap = self.heap + record.heap_size();
            if let Some(run) = self.runs.last_mut()
                && run.len() < run.capacity()
                && heap <= self.heap_reserved
            {
                self.heap = heap;
                run.push((record, time));
                return Ok(());
            }
            return self.push_more(record, time, heap);
        }
        self.write(&(record, time))
    }

    /// Makes room in memory, or begins to write to disk.
    #[cold]
    #[inline(never)]
    fn push_more(&mut self, record: D, time: T, heap: usize) -> Result<()> {
        let is_full = self.runs.last().is_none_or(|run| run.len() == run.capacity());
        let flat = self.flat + if is_full { Self::RECORDS * size_of::<(D, T)>() } else { 0 };
        let reserved = if heap > self.heap_reserved { heap + heap / 4 } else { self.heap_reserved };
        let (wanted, pool) = (flat + reserved, self.reservation.pool());
        let others = pool.used().saturating_sub(self.reservation.bytes());
        let has_room =
            others + wanted <= pool.limit() / SHARE && self.reservation.try_resize(wanted);
        if !has_room {
            return self.write(&(record, time));
        }
        (self.flat, self.heap, self.heap_reserved) = (flat, heap, reserved);
        if is_full {
            self.runs.push(Vec::with_capacity(Self::RECORDS));
        }
        if let Some(run) = self.runs.last_mut() {
            run.push((record, time));
        }
        Ok(())
    }

    #[inline(never)]
    fn write(&mut self, record: &(D, T)) -> Result<()> {
        self.writer.get_or_insert_with(|| self.spill.writer()).push(record)
    }

    /// Completes the buffer; returns it, with the number of its bytes that are on disk.
    pub(crate) fn finish(self) -> Result<(ReplayBuffer<D, T>, u64)> {
        let Self { runs, mut files, writer, reservation, .. } = self;
        let mut written = 0;
        if let Some(writer) = writer {
            let file = writer.finish()?;
            written = file.bytes();
            files.push(file.into());
        }
        Ok((ReplayBuffer { runs, files, _reservation: reservation }, written))
    }
}

/// A position in a buffer up to which it has been read.
pub struct Cursor<D: Data, T: Time> {
    /// The index of the run, and of the next record in it.
    next: (usize, usize),
    /// The rest of the records on disk, once the first of them has been read.
    reader: Option<FilesReader<(D, T)>>,
}

impl<D: Data, T: Time> Cursor<D, T> {
    pub(crate) fn start() -> Self {
        Self { next: (0, 0), reader: None }
    }

    /// Calls `each` with up to `most` records; returns whether there were any.
    pub(crate) fn show(
        &mut self,
        part: &ReplayBuffer<D, T>,
        most: usize,
        mut each: impl FnMut(&D, T),
    ) -> Result<bool> {
        let (run, from) = self.next;
        if let Some(records) = part.runs.get(run) {
            let to = records.len().min(from + most);
            for (record, time) in &records[from..to] {
                each(record, *time);
            }
            self.next = if to == records.len() { (run + 1, 0) } else { (run, to) };
            return Ok(true);
        }
        if part.files.is_empty() {
            return Ok(false);
        }
        let reader = self.reader.get_or_insert_with(|| FilesReader::of(&part.files));
        for shown in 0..most {
            if reader.next(|_| 0, |(record, time)| each(&record, time))?.is_none() {
                return Ok(shown > 0);
            }
        }
        Ok(true)
    }
}
