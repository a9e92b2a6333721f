//! A queue of records that must not be processed yet: in memory as long as they are few, then on disk. All
//! records are pushed before the first is taken.

use crate::checkpoint::{Redistribution, Saving, StateHandle};
use crate::data::{Record, Wire};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::RecordBatch;
use crate::flow::CHUNK;
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillReader, SpillWriter};
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
    /// The records behind the batches, and in another file their times.
    writers: Option<(SpillWriter<I>, SpillWriter<T>)>,
    readers: Option<(SpillReader<I>, SpillReader<T>)>,
    written: u64,
    len: u64,
}

impl<I: Wire + ?Sized, T: Time> Held<I, T> {
    pub(super) fn new(cx: &TaskContext<'_>, op: usize) -> Self {
        Self {
            batches: VecDeque::new(),
            bytes: 0,
            most: cx.memory.limit() / SHARE / cx.tasks.max(1),
            reservation: cx.modest(op),
            spill: cx.spill.clone(),
            writers: None,
            readers: None,
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
        (self.writers, self.readers) = (None, None);
        let _ = self.reservation.try_resize(0);
    }

    /// Restores records that were [saved](Self::save).
    pub(super) fn restore(&mut self, saved: &StateHandle) -> Result<()> {
        saved.restore_encoded(|bytes| {
            let item = I::decode(bytes)?;
            Ok(self.push(item, T::decode(bytes)?))
        })
    }

    /// Saves the records, with the hashes of their keys if they have any.
    pub(super) fn save(&mut self, hash: HashOf<I>, out: &mut Saving) {
        if self.writers.is_some() || self.readers.is_some() {
            return out
                .refuse("some of its records are on disk, and what is there is not saved yet");
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
    }

    /// Passes a chunk of the records to `each`.
    pub(super) fn give(&mut self, mut each: impl FnMut(I::Of<'_>, T)) -> Result<()> {
        if let Some(mut batch) = self.batches.pop_front() {
            self.len -= batch.len() as u64;
            batch.drain(each);
            return Ok(());
        }
        (self.bytes, self.batches) = (0, VecDeque::new());
        let _ = self.reservation.try_resize(0);
        if let Some((items, times)) = self.writers.take() {
            let (items, times) = (items.finish()?, times.finish()?);
            self.written += items.bytes() + times.bytes();
            self.readers = Some((items.read(), times.read()));
        }
        let torn = || Error::new(ErrorKind::Internal, "records that were held have no times");
        for _ in 0..CHUNK {
            let Some((items, times)) = &mut self.readers else { return Ok(()) };
            if items.remaining() == 0 {
                self.readers = None;
                self.len = 0;
                return Ok(());
            }
            let time = times.next(|time| time)?.ok_or_else(torn)?;
            items.next(|item| each(item, time))?;
            self.len -= 1;
        }
        Ok(())
    }
}
