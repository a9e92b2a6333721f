//! The queue of records from the tails of a loop to its heads, for the next round.
//!
//! A tail hands over what it feeds back at the end of the round, so that a head which has not begun the next round yet
//! does not get records of that one.

use super::head::Input;
use super::inbox::{Excess, FeedbackHosts, Inbox, RemoteHead};
use super::tail::Feed;
use crate::checkpoint::{Redistribution, Saving, StateHandle, check_spilled};
use crate::data::{Batch, Data, Portable, hash_u64};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{Edge, Outlet, RecordBatch, RoundRobin};
use crate::flow::{Event, Pipe, Push, Waker};
use crate::memory::{Claim, MemoryPool, Reservation};
use crate::plan::TaskContext;
use crate::state::{ShareReader, SpillDir, SpillFile, SpillShare, SpillWriter};
use crate::sync::{Mutex, lock};
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// Why the number of tasks of a head is fixed.
pub(super) const FED_BACK: &str = "records of its loop are fed back to as many";

/// The most records of a batch.
const BATCH_RECORDS: usize = 1024;
/// A batch is full, too, when its records own so many bytes on the heap.
const BATCH_HEAP: usize = 256 << 10;
/// Empty batches that are kept to be filled again.
const SPARES: usize = 8;

/// The records fed back.
pub(super) struct Feedback<I: Portable + ?Sized, T>(Arc<Queues<I, T>>);

struct Queues<I: Portable + ?Sized, T> {
    /// By head.
    heads: Vec<Mutex<Held<I, T>>>,
    /// The ways to and from other hosts, if there are any.
    hosts: OnceLock<FeedbackHosts>,
}

impl<I: Portable + ?Sized, T> Clone for Feedback<I, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Held<I: Portable + ?Sized, T> {
    batches: VecDeque<(RecordBatch<I, T>, Reservation)>,
    /// Encoded batches for which there was no memory.
    files: Vec<SpillShare<[u8]>>,
    spare: Vec<RecordBatch<I, T>>,
}

impl<I: Portable + ?Sized, T: Time> Feedback<I, T> {
    pub(super) fn new(heads: usize) -> Self {
        let held = || Held { batches: VecDeque::new(), files: Vec::new(), spare: Vec::new() };
        let heads = (0..heads).map(|_| Mutex::new(held())).collect();
        Self(Arc::new(Queues { heads, hosts: OnceLock::new() }))
    }

    /// The ways to and from other hosts, if there are any. `op` is the head or the tail.
    fn hosts(&self, cx: &TaskContext<'_>, op: usize) -> Result<Option<&FeedbackHosts>> {
        let hosts = &self.0.hosts;
        if cx.links.hosts().count() > 1 && hosts.get().is_none() {
            let _ = hosts.set(FeedbackHosts::of(cx, op)?);
        }
        Ok(hosts.get())
    }

    /// The end for a tail, whose number is `op`.
    pub(super) fn feeder(&self, cx: &TaskContext<'_>, op: usize) -> Result<Feeder<I, T>> {
        let (head, remote) = match self.hosts(cx, op)? {
            None => (cx.task % self.0.heads.len(), None),
            Some(hosts) => hosts.of_tail(cx.task),
        };
        Ok(self.feeder_of(cx, head, remote))
    }

    /// The end for a head, by which it feeds itself.
    pub(super) fn own_feeder(&self, cx: &TaskContext<'_>) -> Feeder<I, T> {
        self.feeder_of(cx, cx.task, None)
    }

    fn feeder_of(
        &self,
        cx: &TaskContext<'_>,
        head: usize,
        remote: Option<RemoteHead>,
    ) -> Feeder<I, T> {
        Feeder {
            to: Self::clone(self),
            head,
            remote,
            open: RecordBatch::default(),
            heap: 0,
            full: Vec::new(),
            memory: cx.memory.clone(),
            spill: cx.spill.clone(),
            writer: None,
            bytes: Vec::new(),
            waker: cx.waker.clone(),
            fed: 0,
        }
    }

    /// The end for a head, whose number is `op`.
    pub(super) fn eater(&self, cx: &TaskContext<'_>, op: usize) -> Result<Eater<I, T>> {
        let inbox = self.hosts(cx, op)?.and_then(|hosts| hosts.inbox.clone());
        let remote = inbox.map(|inbox| {
            inbox.add_head(cx.task, cx.waker.clone());
            RemoteInput {
                inbox,
                head: cx.task,
                rounds: 0,
                spill: cx.spill.clone(),
                writers: [None, None],
            }
        });
        Ok(Eater {
            from: Self::clone(self),
            head: cx.task,
            own: None,
            has_begun: false,
            saved: StateHandle::none(),
            remote,
            batches: VecDeque::new(),
            encoded: Vec::new(),
            files: Vec::new(),
            reader: None,
        })
    }
}

/// Feeds records back: the tail's end.
pub struct Feeder<I: Portable + ?Sized, T> {
    to: Feedback<I, T>,
    head: usize,
    /// The way to the head, if it is on another host.
    remote: Option<RemoteHead>,
    open: RecordBatch<I, T>,
    /// What its records own on the heap.
    heap: usize,
    /// The full batches of this round.
    full: Vec<(RecordBatch<I, T>, Reservation)>,
    memory: MemoryPool,
    spill: SpillDir,
    writer: Option<SpillWriter<[u8]>>,
    /// The buffer that a batch is encoded into.
    bytes: Vec<u8>,
    /// Wakes the task.
    waker: Waker,
    fed: u64,
}

impl<I: Portable + ?Sized, T: Time> Feeder<I, T> {
    /// Feeds a record back.
    #[inline(always)]
    pub(super) fn feed(&mut self, item: I::Of<'_>, time: T) -> Result<()> {
        self.open.push(item, time);
        self.fed += 1;
        // Always 0 for records that own nothing on the heap; the branch is then compiled away.
        let heap = self.open.items.last_heap();
        let is_heavy = heap > 0 && {
            self.heap += heap;
            self.heap >= BATCH_HEAP
        };
        if is_heavy || self.open.len() >= BATCH_RECORDS { self.send() } else { Ok(()) }
    }

    #[inline(never)]
    fn send(&mut self) -> Result<()> {
        self.heap = 0;
        if let Some(remote) = &self.remote {
            remote.send(self.open.bytes(), |frame| self.open.encode(frame));
            self.open.drain(|_, _| {});
            return Ok(());
        }
        let mut reservation = self.memory.unnamed(Claim::Modest);
        if reservation.try_resize(self.open.bytes()) {
            let empty = lock(&self.to.0.heads[self.head]).spare.pop().unwrap_or_default();
            self.full.push((std::mem::replace(&mut self.open, empty), reservation));
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
        if let Some(remote) = &self.remote {
            remote.close();
        } else {
            let file = self.writer.take().map(SpillWriter::finish).transpose()?;
            let held = &mut *lock(&self.to.0.heads[self.head]);
            held.batches.extend(self.full.drain(..));
            held.files.extend(file.map(SpillShare::from));
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

    fn must_wait(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.must_wait(&self.waker))
    }

    fn is_full(&self) -> bool {
        // The window is looked at once a batch.
        self.open.is_empty() && self.remote.as_ref().is_some_and(RemoteHead::is_full)
    }
}

/// Takes the records that were fed back, one round at a time: the head's end.
pub struct Eater<I: Portable + ?Sized, T> {
    from: Feedback<I, T>,
    head: usize,
    /// Where the input of the loop goes in a job with checkpoints: it waits for the first round.
    own: Option<Feeder<I, T>>,
    /// Whether a round of this run has taken records from this buffer.
    has_begun: bool,
    /// The records of the next round.
    saved: StateHandle,
    /// The records that tails of other hosts feed back, if there are any.
    remote: Option<RemoteInput>,
    batches: VecDeque<(RecordBatch<I, T>, Reservation)>,
    /// Batches of other hosts.
    encoded: Vec<(Vec<u8>, Reservation)>,
    files: Vec<SpillShare<[u8]>>,
    reader: Option<ShareReader<[u8]>>,
}

/// The end for a head that tails of other hosts feed too.
struct RemoteInput {
    inbox: Arc<Inbox>,
    head: usize,
    /// The rounds whose records have been taken over.
    rounds: u64,
    spill: SpillDir,
    /// The batches for which there was no memory, by whether the number of their round is odd.
    writers: [Option<SpillWriter<[u8]>>; 2],
}

impl RemoteInput {
    fn write(&mut self, odd: usize, batches: Vec<Excess>) -> Result<()> {
        for excess in batches {
            let writer = self.writers[odd].get_or_insert_with(|| self.spill.writer());
            writer.push(&excess.batch.as_slice())?;
        }
        Ok(())
    }

    /// Writes batches for which there is no memory to disk.
    fn spill(&mut self) -> Result<()> {
        let Some([even, odd]) = self.inbox.take_excess(self.head) else { return Ok(()) };
        self.write(0, even)?;
        self.write(1, odd)
    }

    /// What is on disk of the next round.
    fn next_writer(&mut self) -> Option<&mut SpillWriter<[u8]>> {
        self.writers[(self.rounds as usize + 1) % 2].as_mut()
    }

    /// Passes the encoded batches of the next round to `each`, which are in memory.
    fn see(&self, each: impl FnMut(&[u8])) {
        self.inbox.see(self.head, self.rounds + 1, each);
    }

    /// The records of the next round, in memory and on disk.
    fn take(&mut self) -> Result<(Vec<(Vec<u8>, Reservation)>, Option<SpillFile<[u8]>>)> {
        self.rounds += 1;
        let received = self.inbox.take(self.head, self.rounds);
        let odd = self.rounds as usize % 2;
        self.write(odd, received.excess)?;
        let file = self.writers[odd].take().map(SpillWriter::finish).transpose()?;
        Ok((received.batches, file))
    }
}

impl<I: Portable + ?Sized, T: Time> Eater<I, T> {
    /// In a job with checkpoints, keeps the input of the loop, whose operator has this number, for the first round; and begins
    /// with the records that were saved. Any head may have them.
    pub(super) fn saving(mut self, cx: &TaskContext<'_>, op: usize) -> Result<Self> {
        self.saved = cx.state_of_batches::<I::Owned, T>(op, "input", Redistribution::ByKey);
        if !cx.has_checkpoints() {
            return Ok(self);
        }
        let mut own = self.from.own_feeder(cx);
        self.saved.restore_encoded(|bytes| {
            let mut batch = RecordBatch::<I, T>::default();
            batch.decode(std::mem::take(bytes))?;
            let mut fed = Ok(());
            batch.drain(|item, time| {
                if fed.is_ok() {
                    fed = own.feed(item, time);
                }
            });
            Ok(fed)
        })?;
        let mut files = Vec::new();
        self.saved.restore_files(|file| {
            let (batches, schema) = file.open_dealt::<[u8], String>(cx.spill)?;
            check_spilled(&schema, &Self::schema())?;
            files.push(batches);
            Ok(())
        })?;
        lock(&self.from.0.heads[self.head]).files.append(&mut files);
        self.own = Some(own);
        Ok(self)
    }

    /// The type of records and times in batches on disk.
    fn schema() -> String {
        <(I::Owned, T) as Data>::schema().to_string()
    }

    /// Takes over the records for the round that begins; records that are fed back from now on are for the
    /// round after it. Records that the last round has not read are dropped.
    pub(super) fn take_over(&mut self) -> Result<()> {
        self.clear();
        let held = &mut *lock(&self.from.0.heads[self.head]);
        self.batches.append(&mut held.batches);
        self.files.append(&mut held.files);
        let is_fed = self.is_fed();
        self.has_begun = true;
        if let Some(remote) = self.remote.as_mut().filter(|_| is_fed) {
            let (encoded, file) = remote.take()?;
            self.encoded = encoded;
            self.files.extend(file.map(SpillShare::from));
        }
        Ok(())
    }

    /// Whether the next round has what a round before has fed back. The first one of a run has the input of the loop, while other
    /// hosts may be in it already and feed back for the second.
    fn is_fed(&self) -> bool {
        self.own.is_none() || self.has_begun
    }

    /// Drops the records of a round that does not take place.
    pub(super) fn clear(&mut self) {
        self.batches.clear();
        self.encoded.clear();
        self.files.clear();
        self.reader = None;
    }

    fn decoded(bytes: &[u8]) -> Result<RecordBatch<I, T>> {
        let mut batch = RecordBatch::default();
        batch.decode(bytes).map_err(|error| {
            let what = format!("records fed back cannot be decoded as they were encoded: {error}");
            Error::new(ErrorKind::Internal, what)
        })?;
        Ok(batch)
    }

    /// Passes a batch of records to `each`; returns whether there was one.
    #[inline]
    pub(super) fn show(&mut self, each: impl FnMut(I::Of<'_>, T)) -> Result<bool> {
        if let Some((mut batch, reservation)) = self.batches.pop_front() {
            batch.drain(each);
            drop(reservation);
            let held = &mut *lock(&self.from.0.heads[self.head]);
            if held.spare.len() < SPARES {
                held.spare.push(batch);
            }
            return Ok(true);
        }
        if let Some((bytes, _reservation)) = self.encoded.pop() {
            Self::decoded(&bytes)?.drain(each);
            return Ok(true);
        }
        loop {
            let Some(reader) = &mut self.reader else {
                let Some(file) = self.files.pop() else { return Ok(false) };
                self.reader = Some(file.read());
                continue;
            };
            match reader.next(|_| 0, Self::decoded)? {
                None => self.reader = None,
                Some(batch) => {
                    batch?.drain(each);
                    return Ok(true);
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
        match &mut self.own {
            Some(own) => own.feed(item, time),
            None => {
                next.push(item, time);
                Ok(())
            }
        }
    }

    fn complete(&mut self) -> Result<()> {
        self.own.as_mut().map_or(Ok(()), |own| own.close().map(drop))
    }

    fn save(&mut self, event: Event) -> Result<()> {
        let is_fed = self.is_fed();
        let Self { from, head, own, saved, remote, .. } = self;
        let mut remote = remote.as_mut().filter(|_| is_fed);
        saved.try_save(event, |out| {
            if event == Event::End {
                return Ok(());
            }
            let mut number = 0;
            let mut add = |out: &mut Saving, encode: &dyn Fn(&mut Vec<u8>)| {
                // Dealt out to all heads, of which there may be another number.
                out.add_by_key(hash_u64((*head as u64) << 32 | number), encode);
                number += 1;
            };
            let held = lock(&from.0.heads[*head]);
            let full = own.iter().flat_map(|own| own.full.iter().map(|(batch, _)| batch));
            let open = own.iter().map(|own| &own.open);
            let fed_back = held.batches.iter().map(|(batch, _)| batch);
            let batches = full.chain(open).chain(fed_back).filter(|batch| !batch.is_empty());
            batches.for_each(|batch| add(out, &|bytes| batch.encode(bytes)));
            if let Some(remote) = &remote {
                remote.see(|batch| add(out, &|bytes| bytes.extend_from_slice(batch)));
            }
            let schema = Self::schema();
            held.files.iter().for_each(|batches| out.add_dealt(batches, &schema));
            drop(held);
            let own_writer = own.as_mut().and_then(|own| own.writer.as_mut());
            let others_writer = remote.as_mut().and_then(|remote| remote.next_writer());
            own_writer.into_iter().chain(others_writer).try_for_each(|writer| {
                out.written(writer).map(|batches| out.add_dealt(&batches, &schema))
            })
        })
    }

    fn tend(&mut self) -> Result<()> {
        self.remote.as_mut().map_or(Ok(()), RemoteInput::spill)
    }

    fn has_come(&self) -> bool {
        let has_all = |remote: &RemoteInput| remote.inbox.has_all_of(remote.rounds + 1);
        self.remote.as_ref().is_none_or(has_all)
    }

    fn begin(&mut self) -> Result<()> {
        self.take_over()
    }

    fn give<N: Push<I, T>>(&mut self, next: &mut N) -> Result<bool> {
        self.show(|item, time| next.push(item, time))
    }

    fn leave(&mut self, left: &mut Self::Left) -> Result<bool> {
        self.show(|item, time| left.push(item, time))
    }

    fn restart(&mut self) {
        self.clear();
        // In a job with checkpoints, the first round of the next run has its input.
        self.has_begun = false;
    }
}
