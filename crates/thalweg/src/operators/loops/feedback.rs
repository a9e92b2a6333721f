//! The queue of records from the tails of a loop to its heads, for the next round.

use super::head::Input;
use super::tail::Feed;
use crate::data::Portable;
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Edge, Outlet, RecordBatch, RoundRobin};
use crate::flow::{Pipe, Push};
use crate::memory::{Claim, MemoryPool, Reservation};
use crate::plan::TaskContext;
use crate::state::{SpillDir, SpillFile, SpillReader, SpillWriter};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// Records in a batch.
const PACKET: usize = 1024;
/// Empty batches that are kept to be filled again.
const SPARES: usize = 8;

/// The records fed back, with a queue for each head.
pub(super) struct Feedback<I: Portable + ?Sized, T>(Arc<Vec<Mutex<Held<I, T>>>>);

impl<I: Portable + ?Sized, T> Clone for Feedback<I, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Held<I: Portable + ?Sized, T> {
    batches: VecDeque<(RecordBatch<I, T>, Reservation)>,
    /// Encoded batches for which there was no memory.
    files: Vec<SpillFile<[u8]>>,
    spare: Vec<RecordBatch<I, T>>,
}

impl<I: Portable + ?Sized, T: Time> Feedback<I, T> {
    pub(super) fn new(heads: usize) -> Self {
        let held = || Held { batches: VecDeque::new(), files: Vec::new(), spare: Vec::new() };
        Self(Arc::new((0..heads).map(|_| Mutex::new(held())).collect()))
    }

    /// The end for a tail.
    pub(super) fn feeder(&self, cx: &TaskContext<'_>) -> Feeder<I, T> {
        Feeder {
            to: Self::clone(self),
            head: cx.task % self.0.len(),
            open: RecordBatch::default(),
            memory: cx.memory.clone(),
            spill: cx.spill.clone(),
            writer: None,
            bytes: Vec::new(),
            fed: 0,
        }
    }

    /// The end for a head.
    pub(super) fn eater(&self, head: usize) -> Eater<I, T> {
        Eater {
            from: Self::clone(self),
            head,
            batches: VecDeque::new(),
            files: Vec::new(),
            reader: None,
        }
    }
}

/// Feeds records back: the tail's end.
pub struct Feeder<I: Portable + ?Sized, T> {
    to: Feedback<I, T>,
    head: usize,
    open: RecordBatch<I, T>,
    memory: MemoryPool,
    spill: SpillDir,
    writer: Option<SpillWriter<[u8]>>,
    /// The buffer that a batch is encoded into.
    bytes: Vec<u8>,
    fed: u64,
}

impl<I: Portable + ?Sized, T: Time> Feeder<I, T> {
    /// Feeds a record back.
    #[inline(always)]
    pub(super) fn feed(&mut self, item: I::Of<'_>, time: T) -> Result<()> {
        self.open.push(item, time);
        self.fed += 1;
        if self.open.len() < PACKET { Ok(()) } else { self.send() }
    }

    #[inline(never)]
    fn send(&mut self) -> Result<()> {
        let mut reservation = self.memory.unnamed(Claim::Modest);
        if reservation.try_resize(self.open.bytes()) {
            let held = &mut *lock(&self.to.0[self.head]);
            let empty = held.spare.pop().unwrap_or_default();
            held.batches.push_back((std::mem::replace(&mut self.open, empty), reservation));
            return Ok(());
        }
        self.bytes.clear();
        self.open.encode(&mut self.bytes);
        self.open.drain(|_, _| {});
        self.writer.get_or_insert_with(|| self.spill.writer()).push(&self.bytes.as_slice())
    }

    /// Ends the round; returns how many records were fed back in it.
    pub(super) fn close(&mut self) -> Result<u64> {
        if !self.open.is_empty() {
            self.send()?;
        }
        if let Some(writer) = self.writer.take() {
            let file = writer.finish()?;
            lock(&self.to.0[self.head]).files.push(file);
        }
        Ok(std::mem::take(&mut self.fed))
    }
}

impl<I: Portable + ?Sized, T: Time> Feed<I, T> for Feeder<I, T> {
    type Seen = I;

    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T, mut see: impl FnMut(&I::Of<'_>)) -> Result<()> {
        see(&item);
        self.feed(item, time)
    }

    fn finish(&mut self, _: impl FnMut(&I::Of<'_>)) -> Result<u64> {
        self.close()
    }
}

/// Takes the records that were fed back, one round at a time: the head's end.
pub struct Eater<I: Portable + ?Sized, T> {
    from: Feedback<I, T>,
    head: usize,
    batches: VecDeque<(RecordBatch<I, T>, Reservation)>,
    files: Vec<SpillFile<[u8]>>,
    reader: Option<SpillReader<[u8]>>,
}

impl<I: Portable + ?Sized, T: Time> Eater<I, T> {
    /// Takes over the records for the round that begins; records that are fed back from now on are for the
    /// round after it. Records that the last round has not read are dropped.
    pub(super) fn take_over(&mut self) {
        self.clear();
        let held = &mut *lock(&self.from.0[self.head]);
        self.batches.append(&mut held.batches);
        self.files.append(&mut held.files);
    }

    /// Drops the records of a round that does not take place.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.files.clear();
        self.reader = None;
    }

    /// Passes a batch of records to `each`; returns whether there was one.
    #[inline]
    pub(super) fn show(&mut self, mut each: impl FnMut(I::Of<'_>, T)) -> Result<bool> {
        if let Some((mut batch, reservation)) = self.batches.pop_front() {
            batch.drain(each);
            drop(reservation);
            let held = &mut *lock(&self.from.0[self.head]);
            if held.spare.len() < SPARES {
                held.spare.push(batch);
            }
            return Ok(true);
        }
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(file) = self.files.pop() else { return Ok(false) };
                self.reader = Some(file.read());
                continue;
            };
            let mut batch = RecordBatch::<I, T>::default();
            match reader.next(|bytes| batch.decode(bytes))? {
                None => self.reader = None,
                Some(Ok(())) => {
                    batch.drain(&mut each);
                    return Ok(true);
                }
                Some(Err(error)) => {
                    let what =
                        format!("records fed back cannot be decoded as they were encoded: {error}");
                    return Err(Error::new(ErrorKind::Internal, what));
                }
            }
        }
    }
}

/// The output for the records that came out of the last round.
pub struct Leaving<I: Portable + ?Sized, T: Time>(Outlet<I, T, RoundRobin>);

impl<I: Portable + ?Sized, T: Time> Leaving<I, T> {
    pub(super) fn by(edge: &Edge<I, T>, cx: &TaskContext<'_>, op: usize) -> Self {
        Self(edge.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task)))
    }

    #[inline(always)]
    pub(super) fn push(&mut self, item: I::Of<'_>, time: T) {
        self.0.push(item, time);
    }
}

impl<I: Portable + ?Sized, T: Time> Pipe for Leaving<I, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<I: Portable + ?Sized, T: Time> Input<I, T> for Eater<I, T> {
    type Out = I;
    type Left = Leaving<I, T>;

    const AT_ONCE: bool = true;

    #[inline(always)]
    fn take<N: Push<I, T>>(&mut self, item: I::Of<'_>, time: T, next: &mut N) -> Result<()> {
        next.push(item, time);
        Ok(())
    }

    fn complete(&mut self) -> Result<()> {
        Ok(())
    }

    fn begin(&mut self) {
        self.take_over();
    }

    fn give<N: Push<I, T>>(&mut self, next: &mut N) -> Result<bool> {
        self.show(|item, time| next.push(item, time))
    }

    fn leave(&mut self, left: &mut Self::Left) -> Result<bool> {
        self.show(|item, time| left.push(item, time))
    }

    fn restart(&mut self) {
        self.clear();
    }
}
