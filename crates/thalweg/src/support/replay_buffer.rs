//! What a task keeps to show it more than once: records in memory, and those after them on disk. For records that are
//! taken out again there is [`Waiting`](super::waiting::Waiting).

use crate::data::Data;
use crate::error::Result;
use crate::memory::Reservation;
use crate::state::{SpillDir, SpillFile, SpillReader, SpillWriter};
use crate::time::Time;

/// The bytes, about, of a run of records that is not moved when more come.
const RUN: usize = 64 << 10;
/// The part of the budget that may be taken, by whomever, when more is kept in memory.
const SHARE: usize = 2;

/// Records that do not change any more.
pub struct Part<D: Data, T: Time> {
    runs: Vec<Vec<(D, T)>>,
    file: Option<SpillFile<(D, T)>>,
    len: u64,
    /// Held as long as the records are.
    _reservation: Reservation,
}

impl<D: Data, T: Time> Part<D, T> {
    pub(crate) fn len(&self) -> u64 {
        self.len
    }
}

/// A part that is being filled.
pub struct Growing<D: Data, T: Time> {
    runs: Vec<Vec<(D, T)>>,
    len: u64,
    /// What the records in memory own on the heap, and what is reserved for that.
    heap: usize,
    heap_reserved: usize,
    /// What the runs themselves take.
    flat: usize,
    reservation: Reservation,
    spill: SpillDir,
    writer: Option<SpillWriter<(D, T)>>,
}

impl<D: Data, T: Time> Growing<D, T> {
    /// Records in a run.
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
            writer: None,
        }
    }

    /// A part of other records, of the same budget.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.reservation.another(), &self.spill)
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
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

    /// Makes room, or begins to write to disk.
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

    /// All records have come; answers the part, and the bytes of it that are on disk.
    pub(crate) fn finish(self) -> Result<(Part<D, T>, u64)> {
        let file = self.writer.map(SpillWriter::finish).transpose()?;
        let written = file.as_ref().map_or(0, SpillFile::bytes);
        let part = Part { runs: self.runs, file, len: self.len, _reservation: self.reservation };
        Ok((part, written))
    }
}

/// How far a part has been read.
pub struct Cursor<D: Data, T: Time> {
    /// The run, and the record in it.
    next: (usize, usize),
    /// What is left on disk, once that has been begun with.
    reader: Option<SpillReader<(D, T)>>,
}

impl<D: Data, T: Time> Cursor<D, T> {
    pub(crate) fn start() -> Self {
        Self { next: (0, 0), reader: None }
    }

    /// Shows up to `most` records; answers whether there was any.
    pub(crate) fn show(
        &mut self,
        part: &Part<D, T>,
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
        let Some(file) = &part.file else { return Ok(false) };
        let reader = self.reader.get_or_insert_with(|| file.read());
        for shown in 0..most {
            if reader.next(|(record, time)| each(&record, time))?.is_none() {
                return Ok(shown > 0);
            }
        }
        Ok(true)
    }
}
