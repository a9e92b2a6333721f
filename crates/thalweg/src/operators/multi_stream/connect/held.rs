//! A queue of records that must not be processed yet: in memory as long as they are few, then on disk. All
//! records are pushed before the first is taken.
//!
//! Checkpoints refer to what is on disk, and a job goes on with these files behind the records that were in memory. While
//! records are taken, no barrier comes.

use crate::checkpoint::{Redistribution, Saving, StateHandle};
use crate::data::{Data, Record, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::RecordBatch;
use crate::flow::CHUNK;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{HashRange, SpillDir, SpillReader, SpillShare, SpillWriter};
use crate::time::Time;
use std::collections::VecDeque;

/// Bytes that may be used even if the budget is exhausted.
const ALWAYS: usize = 16 << 10;
/// All tasks together may use one part in this many of the budget.
const SHARE: usize = 8;

/// The hash of a record's key, of records that are in the task that owns it.
pub(super) type HashOf<I> = Option<for<'r, 'a> fn(&'r <I as Record>::Of<'a>) -> u64>;

/// The tasks that get records from a checkpoint. Records without keys stay with those that their task had before and after them,
/// since a task keeps their order.
pub(super) fn redistributed<I: Record + ?Sized>(hash: HashOf<I>) -> Redistribution {
    match hash {
        Some(_) => Redistribution::ByKey,
        None => Redistribution::Dealt,
    }
}

/// Records in the order of arrival.
pub(super) struct Held<I: Wire + ?Sized, T: Time> {
    batches: VecDeque<RecordBatch<I, T>>,
    /// The bytes of the batches before the last.
    bytes: usize,
    most: usize,
    reservation: Reservation,
    spill: SpillDir,
    /// The records behind the batches: files of records, each with another one of their times.
    files: VecDeque<(SpillShare<I>, SpillShare<T>)>,
    /// The records behind those, and their times.
    writers: Option<(SpillWriter<I>, SpillWriter<T>)>,
    reader: Option<Reader<I, T>>,
    written: u64,
    /// With records of files that do not count.
    len: u64,
}

/// Reads a file of records and the one of their times.
struct Reader<I: Wire + ?Sized, T: Time> {
    items: SpillReader<I>,
    times: SpillReader<T>,
    /// The hashes of keys that count, if not all do.
    hashes: Option<HashRange>,
}

/// What is noted of a file in a checkpoint.
#[derive(Data)]
struct Note {
    /// Whether it has the times of the records in the file before it.
    has_times: bool,
}

const ITEMS: Note = Note { has_times: false };
const TIMES: Note = Note { has_times: true };

fn torn() -> Error {
    Error::new(ErrorKind::Internal, "records that were held have no times")
}

impl<I: Wire + ?Sized, T: Time> Held<I, T> {
    pub(super) fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            bytes: 0,
            most: cx.memory.limit() / SHARE / cx.tasks.max(1),
            reservation: cx.modest(op),
            spill: cx.spill.clone(),
            files: VecDeque::new(),
            writers: None,
            reader: None,
            written: 0,
            len: 0,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes written to disk.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn push(&mut self, item: I::Of<'_>, time: T) -> Result<()> {
        self.len += 1;
        if let Some((items, times)) = &mut self.writers {
            items.push(&item)?;
            return times.push(&time);
        }
        match self.batches.back_mut() {
            Some(last) if last.len() < CHUNK => last.push(item, time),
            _ => return self.push_more(item, time),
        }
        Ok(())
    }

    /// Begins a batch, or a file.
    #[cold]
    fn push_more(&mut self, item: I::Of<'_>, time: T) -> Result<()> {
        self.bytes += self.batches.back().map_or(0, RecordBatch::bytes);
        // The new batch may become as large as the average of those before.
        let wanted = self.bytes + self.bytes / self.batches.len().max(1);
        if wanted <= ALWAYS || (wanted <= self.most && self.reservation.try_resize(wanted)) {
            let mut batch = RecordBatch::default();
            batch.push(item, time);
            self.batches.push_back(batch);
            return Ok(());
        }
        let (items, times) = self.writers.insert((self.spill.writer(), self.spill.writer()));
        items.push(&item)?;
        times.push(&time)
    }

    /// Drops all records.
    pub(super) fn clear(&mut self) {
        (self.batches, self.bytes, self.len) = (VecDeque::new(), 0, 0);
        (self.files, self.writers, self.reader) = (VecDeque::new(), None, None);
        let _ = self.reservation.try_resize(0);
    }

    /// Completes the files that are being written, if there are any.
    fn complete_files(&mut self) -> Result<()> {
        if let Some((items, times)) = self.writers.take() {
            let (items, times) = (items.finish()?, times.finish()?);
            self.written += items.bytes() + times.bytes();
            if items.records() > 0 {
                self.files.push_back((items.into(), times.into()));
            }
        }
        Ok(())
    }

    /// Restores records that were [saved](Self::save).
    pub(super) fn restore(&mut self, saved: &StateHandle) -> Result<()> {
        saved.restore_encoded(|bytes| {
            let item = I::decode(bytes)?;
            Ok(self.push(item, T::decode(bytes)?))
        })?;
        self.complete_files()?;
        let mut items = None;
        saved.restore_files(|file| {
            let Note { has_times } = file.note()?;
            if !has_times {
                items = Some(file.open::<I>(&self.spill)?);
                return Ok(());
            }
            let (items, times) = (items.take().ok_or_else(torn)?, file.open::<T>(&self.spill)?);
            self.len += items.file.records();
            self.files.push_back((items, times));
            Ok(())
        })?;
        if !self.files.is_empty() {
            // Others come behind.
            self.writers = Some((self.spill.writer(), self.spill.writer()));
        }
        Ok(())
    }

    /// Saves the records, with the hashes of their keys if they have any.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written; then they are refused too.
    pub(super) fn save(&mut self, hash: HashOf<I>, out: &mut Saving) -> Result<()> {
        // No barrier comes then, and what was read would be lost.
        if self.reader.is_some() {
            out.refuse("some of its records are being read back from disk");
        }
        for batch in &mut self.batches {
            std::mem::take(batch).drain(|item, time| {
                out.add_by_key(hash.map_or(0, |hash| hash(&item)), |bytes| {
                    I::encode(&item, bytes);
                    time.encode(bytes);
                });
                batch.push(item, time);
            });
        }
        for (items, times) in &self.files {
            out.add_share(items, &ITEMS);
            out.add_share(times, &TIMES);
        }
        if let Some((items, times)) = &mut self.writers {
            let (items, times) = (out.written(items)?, out.written(times)?);
            out.add_share(&items, &ITEMS);
            out.add_share(&times, &TIMES);
        }
        Ok(())
    }

    /// Passes a chunk of the records to `each`; `hash` as they are saved with.
    pub(super) fn give(
        &mut self,
        hash: HashOf<I>,
        mut each: impl FnMut(I::Of<'_>, T),
    ) -> Result<()> {
        if let Some(mut batch) = self.batches.pop_front() {
            self.len -= batch.len() as u64;
            batch.drain(each);
            return Ok(());
        }
        (self.bytes, self.batches) = (0, VecDeque::new());
        let _ = self.reservation.try_resize(0);
        self.complete_files()?;
        for _ in 0..CHUNK {
            if self.reader.is_none() {
                let next = self.files.pop_front();
                self.reader = next.map(|(items, times)| Reader {
                    items: items.file.read(),
                    times: times.file.read(),
                    hashes: items.hashes,
                });
            }
            let Some(Reader { items, times, hashes }) = &mut self.reader else { break };
            let time = times.next(|time| time)?.ok_or_else(torn)?;
            items.next(|item| match (*hashes, hash) {
                (Some((first, last)), Some(hash)) if !(first..=last).contains(&hash(&item)) => {}
                _ => each(item, time),
            })?;
            self.len -= 1;
            if items.remaining() == 0 {
                self.reader = None;
            }
        }
        Ok(())
    }
}
