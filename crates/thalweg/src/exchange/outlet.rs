//! The end of a stage: fills batches and sends them.

use super::compression::Compressor;
use super::far::{Far, HEADER, add_section, compress};
use super::lane::{Credit, Lane};
use super::record_batch::RecordBatch;
use super::{BatchMode, LaneSettings, Route};
use crate::clock::{Nanos, nanos};
use crate::config::LARGEST_BATCH;
use crate::data::{Batch, Portable, Record};
use crate::error::{Error, ErrorKind};
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::metrics::{Report, Sent};
use crate::time::Time;
use std::sync::Arc;
use std::time::Duration;

/// How long a record of a busy task may wait in a batch that is not full, or for more batches to the same host.
const PATIENCE: Duration = Duration::from_millis(1);

/// Bytes at which a batch is sent, however few its records; the credit of a lane if that is more, or if the memory budget
/// allows no more credit than that.
const HEAVY: usize = 64 << 10;

/// The records of a batch to another host, if they own memory on the heap. The allocator keeps some freed blocks of each size
/// at hand.
const OWNING: usize = 16;

/// The time between two watermarks of a task to the other hosts of an exchange, for each lane that they go to: 20 µs, of which
/// they take a small part.
const PACE: Nanos = 20_000;

/// When to look again whether a connection that is behind takes more: 5 ms.
const AGAIN: Nanos = 5_000_000;

/// How long a watermark waits for a connection that is behind: 100 ms. It may be so as long as there is much to send.
const LONGEST: Nanos = 100_000_000;

/// The time in flight is measured for one batch in this many. A task often fills the batches for all receivers in turn, and they
/// are seldom a multiple of a prime: so it is not always the same receiver's.
const MEASURED: u64 = 17;

/// The sending ends of a task's lanes, with the batches being filled.
pub(crate) struct Lanes<I: Portable + ?Sized, T: Time> {
    op: Op,
    /// The number of the edge in the plan.
    edge: usize,
    receivers: usize,
    lanes: Sendings<I, T>,
    settings: LaneSettings,
    /// The records of a full batch: as many as are configured, or fewer if they are large.
    size: usize,
    /// The bytes of a full batch, and those that its records may own on the heap before it is sent.
    heavy: usize,
    /// Compresses frames to other hosts.
    compressor: Option<Box<Compressor>>,
    /// The buffer that batches are encoded into, if `settings.encode`.
    bytes: Vec<u8>,
    /// The lanes to other hosts on which frames may wait for more.
    held: Vec<usize>,
    /// The number of lanes that were short of credit when last checked.
    short: usize,
    /// Whether all lanes were closed, as of the last time that one was found closed.
    shut: bool,
    last_flush: Nanos,
    /// When frames to other hosts were last released because they had waited.
    last_release: Nanos,
    /// The number of lanes to other hosts.
    far: usize,
    /// When the next watermark may go to other hosts.
    next_watermark: Nanos,
    /// Whether a watermark waits on a lane to another host.
    lags: bool,
    sent: Sent,
}

/// The lanes of a task.
struct Sendings<I: Portable + ?Sized, T: Time> {
    /// By receiver; none if there are bundles.
    single: Vec<Sending<I, T>>,
    bundles: Option<Box<Bundles<I, T>>>,
}

/// The lanes of a task if those to other hosts are bundled: one to each task of this host, then one to each other host.
struct Bundles<I: Portable + ?Sized, T: Time> {
    lanes: Vec<Sending<I, T>>,
    /// By receiver.
    destinations: Arc<[Destination]>,
    /// For each task of a host, the records of a batch that is encoded; empty in between.
    by_task: Vec<RecordBatch<I, T>>,
    /// The records of a full batch of a bundle: as many as `most`, or fewer if they are large.
    size: usize,
    most: usize,
}

/// A full batch of a bundle has at most this many times the records of another one. With 256 tasks a host, each then gets 64
/// records of it, if others have 1024.
const FULLER: usize = 16;

/// The lane to a receiving task, if lanes to other hosts are bundled.
#[derive(Clone, Copy, Default)]
pub(crate) struct Destination {
    /// The number of the lane or bundle.
    pub(super) lane: u32,
    /// In a bundle: the number of the task among those of its host.
    pub(super) task: u32,
}

impl Destination {
    /// The most tasks that a host has.
    fn tasks(all: &[Self]) -> usize {
        all.iter().map(|to| to.task as usize + 1).max().unwrap_or(0)
    }
}

impl<I: Portable + ?Sized, T: Time> Bundles<I, T> {
    /// Fits the records of a batch of a bundle to their size: so many were so large.
    fn fit(&mut self, records: usize, bytes: usize, heavy: usize) {
        if bytes > heavy || self.size < self.most {
            self.size = (records.saturating_mul(heavy) / bytes.max(1)).clamp(1, self.most);
        }
    }
}

impl<I: Portable + ?Sized, T: Time> Sendings<I, T> {
    fn all(&self) -> &[Sending<I, T>] {
        match &self.bundles {
            None => &self.single,
            Some(bundles) => &bundles.lanes,
        }
    }

    fn all_mut(&mut self) -> &mut [Sending<I, T>] {
        match &mut self.bundles {
            None => &mut self.single,
            Some(bundles) => &mut bundles.lanes,
        }
    }

    fn at(&mut self, lane: usize) -> &mut Sending<I, T> {
        &mut self.all_mut()[lane]
    }
}

struct Sending<I: Portable + ?Sized, T: Time> {
    open: RecordBatch<I, T>,
    /// The bytes that the records of the open batch, and of the frame, own on the heap.
    heap: usize,
    /// The records of the open batch after which it is sent if they own memory on the heap.
    owning: usize,
    /// On a lane to another host. Boxed, so that the lanes of a task are close together.
    frame: Option<Box<Filling>>,
    lane: Arc<Lane<RecordBatch<I, T>>>,
    credit: Credit,
}

/// A frame that is being filled with batches. Where records own memory on the heap, there are many small batches in it, so
/// that memory which the encoded records have owned is used again by those that follow.
#[derive(Default)]
struct Filling {
    bytes: Vec<u8>,
    /// Of a bundle: for each record of the open batch, the number of its task among those of the host.
    tasks: Vec<u32>,
    records: usize,
    credit: usize,
    /// The length of the last frame.
    usual: usize,
    /// Whether the lane is in `held`.
    held: bool,
    /// The last watermark, if it was not sent yet, and since when one waits. Whatever was pushed before it goes first.
    watermark: Option<(Event, Nanos)>,
    /// Whether the receiver believes that nothing comes, and lets the watermarks of others pass: then the next one must not
    /// wait.
    is_idle: bool,
}

impl<I: Portable + ?Sized, T: Time> Lanes<I, T> {
    pub(crate) fn new(
        op: Op,
        edge: usize,
        settings: LaneSettings,
        to: Vec<Arc<Lane<RecordBatch<I, T>>>>,
        destinations: Option<Arc<[Destination]>>,
    ) -> Self {
        let (mut lanes, mut far) = (Vec::with_capacity(to.len()), 0);
        for lane in to {
            let is_far = lane.far().is_some();
            far += usize::from(is_far);
            lanes.push(Sending {
                open: RecordBatch::default(),
                heap: 0,
                owning: if is_far { OWNING } else { usize::MAX },
                frame: is_far.then(Box::default),
                lane,
                credit: Credit::Left,
            });
        }
        let compressor = settings.compress_from.filter(|_| far > 0);
        let receivers =
            destinations.as_ref().map_or(lanes.len(), |destinations| destinations.len());
        let lanes = match destinations {
            None => Sendings { single: lanes, bundles: None },
            Some(destinations) => {
                let tasks = Destination::tasks(&destinations);
                let fuller = match settings.batch {
                    BatchMode::Single => 1,
                    _ => tasks.clamp(1, FULLER),
                };
                for lane in &mut lanes {
                    if lane.frame.is_some() {
                        lane.owning *= fuller;
                    }
                }
                let mut by_task = Vec::new();
                by_task.resize_with(tasks, RecordBatch::default);
                let most = (settings.batch.size() * fuller).min(LARGEST_BATCH);
                let bundles = Bundles { lanes, destinations, by_task, size: most, most };
                let bundles = Some(Box::new(bundles));
                Sendings { single: Vec::new(), bundles }
            }
        };
        Self {
            op,
            edge,
            receivers,
            lanes,
            compressor: compressor.map(|least| Box::new(Compressor::new(least))),
            size: settings.batch.size(),
            heavy: match settings.credit < settings.usual_credit {
                true => settings.credit,
                false => settings.credit.max(HEAVY),
            },
            settings,
            bytes: Vec::new(),
            held: Vec::new(),
            short: 0,
            shut: false,
            last_flush: 0,
            last_release: 0,
            far,
            next_watermark: 0,
            lags: false,
            sent: Sent::default(),
        }
    }

    /// The number of receivers.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.receivers
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, to: usize, item: I::Of<'_>, time: T) {
        // If lanes are bundled, there are none here: so the usual case takes no branch more than the check of the number.
        let Some(sending) = self.lanes.single.get_mut(to) else {
            return self.push_to_bundle(to, item, time);
        };
        sending.open.push(item, time);
        sending.open.items.prefetch_push();
        // Always 0 for records that own nothing on the heap; the branch is then compiled away.
        let heap = sending.open.items.last_heap();
        let heavy = heap > 0 && {
            sending.heap += heap;
            sending.heap >= self.heavy || sending.open.len() >= sending.owning
        };
        if heavy || sending.open.len() >= self.size {
            self.send(to);
        }
    }

    /// As [`push`](Self::push), where lanes to other hosts are bundled.
    #[inline(never)]
    fn push_to_bundle(&mut self, to: usize, item: I::Of<'_>, time: T) {
        let Some(bundles) = &mut self.lanes.bundles else { panic!("there is no receiver {to}") };
        let Destination { lane, task } = bundles.destinations[to];
        let lane = lane as usize;
        let sending = &mut bundles.lanes[lane];
        let mut size = self.size;
        if let Some(frame) = &mut sending.frame {
            frame.tasks.push(task);
            size = bundles.size;
        }
        sending.open.push(item, time);
        let heap = sending.open.items.last_heap();
        sending.heap += heap;
        let heavy =
            heap > 0 && (sending.heap >= self.heavy || sending.open.len() >= sending.owning);
        if heavy || sending.open.len() >= size {
            self.send(lane);
        }
    }

    #[cold]
    #[inline(never)]
    fn send(&mut self, to: usize) {
        let (sending, bundle) = match &mut self.lanes.bundles {
            None => (&mut self.lanes.single[to], None),
            Some(bundles) => (&mut bundles.lanes[to], Some((&mut bundles.by_task, bundles.size))),
        };
        let Sending { open, heap, lane, frame, .. } = sending;
        if let (Some(far), Some(frame)) = (lane.far(), frame) {
            let size = match bundle {
                None => {
                    frame.add(open, far);
                    self.size
                }
                Some((by_task, size)) => {
                    frame.add_sections(open, far, by_task);
                    size
                }
            };
            if frame.records >= size || *heap >= self.heavy {
                self.send_frame(to);
            }
            return;
        }
        let heap = std::mem::take(heap);
        let (bytes, records) = (open.bytes(), open.len());
        let measured = self.sent.batches.is_multiple_of(MEASURED);
        open.sent_at = measured.then(|| self.settings.clock.now());
        if self.settings.encode
            && let Err(error) = open.recode(&mut self.bytes)
        {
            let what = format!("a batch cannot be decoded as it was encoded: {error}");
            self.op.fail(Error::new(ErrorKind::Internal, what));
        }
        self.sent.records += records as u64;
        self.sent.batches += 1;
        self.sent.bytes += bytes as u64;
        let (spare, after) = lane.send(std::mem::take(open), bytes.max(records), heap);
        *open = spare.unwrap_or_default();
        if after == Credit::Closed {
            open.drain(|_, _| {});
        }
        self.note(to, after);
        self.fit(records, bytes);
    }

    /// Fits the records of a batch to their size: so many were so large.
    fn fit(&mut self, records: usize, bytes: usize) {
        let most = self.settings.batch.size();
        if bytes > self.heavy || self.size < most {
            self.size = (records.saturating_mul(self.heavy) / bytes.max(1)).clamp(1, most);
        }
    }

    /// Sends the frame to another host, if there is anything in it.
    fn send_frame(&mut self, to: usize) {
        let Sending { heap, lane, frame, .. } = self.lanes.at(to);
        let (Some(far), Some(frame)) = (lane.far(), frame) else { return };
        if frame.bytes.is_empty() {
            return;
        }
        *heap = 0;
        // Without an estimate of the other clock there, as here, nothing could be measured.
        let measured =
            self.sent.batches.is_multiple_of(MEASURED) && far.link.clock_offset().is_some();
        let sent_at = measured.then(|| self.settings.clock.now());
        let (mut bytes, records, credit) = frame.take();
        if let Some(compressor) = &mut self.compressor {
            compress(&mut bytes, compressor);
        }
        self.sent.records += records as u64;
        self.sent.batches += 1;
        self.sent.bytes += credit as u64;
        let after = lane.send_far(far, bytes, credit, sent_at);
        if frame.begin_hold() {
            self.held.push(to);
        }
        self.note(to, after);
        match &mut self.lanes.bundles {
            None => self.fit(records, credit),
            Some(bundles) => bundles.fit(records, credit, self.heavy),
        }
        if self.settings.batch == BatchMode::Single {
            self.release();
        } else {
            self.release_if_due();
        }
    }

    /// Sends the frames that wait for more, if the last ones were sent some time ago.
    fn release_if_due(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let now = self.settings.clock.now();
        if now.saturating_sub(self.last_release) >= nanos(PATIENCE) {
            self.last_release = now;
            self.release();
        }
    }

    /// Notes whether a lane has credit left.
    fn note(&mut self, to: usize, after: Credit) {
        let credit = &mut self.lanes.at(to).credit;
        self.short += usize::from(after == Credit::Short && *credit == Credit::Left);
        self.short -= usize::from(after == Credit::Closed && *credit == Credit::Short);
        if !(after == Credit::Left && *credit == Credit::Short) {
            *credit = after;
        }
        if after == Credit::Closed {
            self.shut = self.is_closed();
        }
    }

    pub(crate) fn flush(&mut self) {
        (0..self.lanes.all().len()).for_each(|to| self.flush_lane(to));
    }

    fn flush_lane(&mut self, to: usize) {
        if !self.lanes.at(to).open.is_empty() {
            self.send(to);
        }
        self.send_frame(to);
    }

    /// Sends the frames that wait for more.
    fn release(&mut self) {
        for to in self.held.drain(..) {
            let Sending { frame, lane, .. } = self.lanes.at(to);
            if let (Some(far), Some(frame)) = (lane.far(), frame) {
                frame.held = false;
                far.release();
            }
        }
    }

    fn event(&mut self, event: Event) {
        // Partitions are known within a stage only: the next stage receives records of several.
        if matches!(event, Event::Partition(_)) {
            return;
        }
        if matches!(event, Event::Watermark(_)) {
            return self.advance(event);
        }
        self.flush();
        if matches!(event, Event::Round(_)) {
            self.shut = false;
        }
        for to in 0..self.lanes.all().len() {
            let Sending { lane, credit, frame, .. } = self.lanes.at(to);
            // The lane may have been closed for that round only.
            if matches!(event, Event::Round(_)) && *credit == Credit::Closed {
                *credit = Credit::Left;
            }
            if let Some(frame) = frame {
                if let Some((watermark, _)) = frame.watermark.take() {
                    lane.send_event(watermark);
                }
                // A barrier changes nothing of it.
                frame.is_idle &= matches!(event, Event::Barrier(_));
                frame.is_idle |= event == Event::Idle;
            }
            self.send_event(to, event);
        }
        self.lags = false;
        if event == Event::Idle {
            self.release_if_due();
        } else {
            self.release();
        }
    }

    fn send_event(&mut self, to: usize, event: Event) {
        let Sending { lane, frame, .. } = self.lanes.at(to);
        lane.send_event(event);
        if frame.as_mut().is_some_and(|frame| frame.begin_hold()) {
            self.held.push(to);
        }
    }

    /// Sends a watermark. To another host it may wait until a later one takes its place: nothing but watermarks would
    /// otherwise be sent on a narrow connection, or to very many tasks.
    fn advance(&mut self, event: Event) {
        let now = if self.far > 0 { self.settings.clock.now() } else { 0 };
        let is_due = now >= self.next_watermark;
        self.lags = false;
        let mut any = false;
        for to in 0..self.lanes.all().len() {
            let Sending { lane, frame, .. } = self.lanes.at(to);
            if let (Some(far), Some(frame)) = (lane.far(), frame) {
                let since = frame.watermark.map_or(now, |(_, since)| since);
                let may = frame.is_idle || (is_due && may_send(far, since, now));
                if !may {
                    frame.watermark = Some((event, since));
                    self.lags = true;
                    continue;
                }
                (frame.is_idle, frame.watermark) = (false, None);
                any = true;
            }
            self.flush_lane(to);
            self.send_event(to, event);
        }
        if any {
            self.pace(now);
        }
        // There may be many watermarks, which are no more urgent than the records before them.
        self.release_if_due();
    }

    /// Sets when the next watermark may go to other hosts: some time after this one.
    fn pace(&mut self, now: Nanos) {
        self.next_watermark = now.saturating_add(PACE.saturating_mul(self.far as Nanos));
    }

    /// Sends the watermarks that wait; returns when to call again if some still have to.
    fn catch_up(&mut self, now: Nanos) -> Option<Nanos> {
        if !self.lags {
            return None;
        }
        if now < self.next_watermark {
            return Some(self.next_watermark);
        }
        self.lags = false;
        let mut any = false;
        for to in 0..self.lanes.all().len() {
            let Sending { lane, frame, .. } = self.lanes.at(to);
            let (Some(far), Some(frame)) = (lane.far(), frame) else { continue };
            let Some((watermark, since)) = frame.watermark else { continue };
            if !may_send(far, since, now) {
                self.lags = true;
                continue;
            }
            frame.watermark = None;
            any = true;
            self.flush_lane(to);
            self.send_event(to, watermark);
        }
        if any {
            self.pace(now);
        }
        self.lags.then(|| self.next_watermark.max(now.saturating_add(AGAIN)))
    }

    fn resume(&mut self) -> Flow {
        if self.short == 0 {
            return Flow::Ready;
        }
        self.short = 0;
        for sending in self.lanes.all_mut() {
            if sending.credit == Credit::Short {
                sending.credit = sending.lane.await_credit();
            }
            self.short += usize::from(sending.credit == Credit::Short);
        }
        if self.short > 0 { Flow::Blocked } else { Flow::Ready }
    }

    /// Lets each lane without credit take one more batch.
    fn overdraw(&mut self) {
        for sending in self.lanes.all_mut() {
            if sending.credit == Credit::Short {
                sending.credit = Credit::Left;
            }
        }
        self.short = 0;
    }

    /// Ends the overdraft: lanes without credit take no more batches.
    fn end_overdraft(&mut self) {
        self.short = 0;
        for sending in self.lanes.all_mut() {
            sending.credit = sending.lane.await_credit();
            self.short += usize::from(sending.credit == Credit::Short);
        }
    }

    fn is_closed(&self) -> bool {
        // Read from the lanes themselves: a task that has nothing to send must end too. Stops at the first open lane.
        let lanes = self.lanes.all();
        !lanes.is_empty() && lanes.iter().all(|sending| sending.lane.is_closed())
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        let again = match self.settings.batch {
            BatchMode::Adaptive { .. } | BatchMode::Single => {
                self.flush();
                None
            }
            BatchMode::Fixed { .. } => None,
            BatchMode::Timed { delay, .. } => self.flush_if_due(now, delay),
        };
        let again = again.into_iter().chain(self.catch_up(now)).min();
        self.release();
        again
    }

    /// Flushes if a record may have waited for so long; returns when that will be otherwise.
    fn flush_if_due(&mut self, now: Nanos, delay: Duration) -> Option<Nanos> {
        if self.lanes.all().iter().all(Sending::is_empty) {
            self.last_flush = now;
            return None;
        }
        let due = self.last_flush.saturating_add(nanos(delay));
        if now < due {
            return Some(due);
        }
        self.last_flush = now;
        self.flush();
        None
    }

    fn tick(&mut self, now: Nanos) {
        let patience = match self.settings.batch {
            BatchMode::Adaptive { .. } => Some(PATIENCE),
            BatchMode::Timed { delay, .. } => Some(delay),
            BatchMode::Fixed { .. } | BatchMode::Single => None,
        };
        if patience.is_some_and(|patience| now.saturating_sub(self.last_flush) >= nanos(patience)) {
            self.last_flush = now;
            self.flush();
        }
        self.catch_up(now);
        self.release_if_due();
    }
}

/// Whether a watermark that has waited since this time may go to another host.
fn may_send(far: &Far, since: Nanos, now: Nanos) -> bool {
    now.saturating_sub(since) >= LONGEST || !far.link.is_behind()
}

impl<I: Portable + ?Sized, T: Time> Sending<I, T> {
    /// Whether there is nothing to send.
    fn is_empty(&self) -> bool {
        self.open.is_empty() && self.frame.as_ref().is_none_or(|frame| frame.bytes.is_empty())
    }
}

impl Filling {
    /// Adds the records of a batch, and leaves it empty.
    fn add<I: Portable + ?Sized, T: Time>(&mut self, batch: &mut RecordBatch<I, T>, far: &Far) {
        let credit = batch.bytes().max(batch.len());
        if self.bytes.is_empty() {
            // The first frame may be the last one, and small.
            self.bytes = far.begin(self.usual.max(credit) + HEADER);
        }
        self.records += batch.len();
        self.credit += credit;
        batch.encode(&mut self.bytes);
        batch.clear();
    }

    /// The same for a bundle: adds a section for each receiver. `by_task` has an empty batch for each of the host's tasks.
    fn add_sections<I: Portable + ?Sized, T: Time>(
        &mut self,
        batch: &mut RecordBatch<I, T>,
        far: &Far,
        by_task: &mut [RecordBatch<I, T>],
    ) {
        if self.bytes.is_empty() {
            self.bytes = far.begin(self.usual.max(batch.bytes()) + HEADER);
        }
        self.records += batch.len();
        let mut tasks = self.tasks.drain(..);
        batch.drain(|item, time| {
            if let Some(task) = tasks.next() {
                by_task[task as usize].push(item, time);
            }
        });
        drop(tasks);
        for (task, part) in by_task.iter_mut().enumerate().filter(|(_, part)| !part.is_empty()) {
            let credit = part.bytes().max(part.len());
            self.credit += credit;
            add_section(task as u32, credit, &mut self.bytes, |out| part.encode(out));
            part.clear();
        }
    }

    /// The frame, its records and the credit that it takes.
    fn take(&mut self) -> (Vec<u8>, usize, usize) {
        self.usual = self.bytes.len();
        let (records, credit) =
            (std::mem::take(&mut self.records), std::mem::take(&mut self.credit));
        (std::mem::take(&mut self.bytes), records, credit)
    }

    /// Notes that a frame may wait for more; returns whether none did.
    fn begin_hold(&mut self) -> bool {
        !std::mem::replace(&mut self.held, true)
    }
}

/// Sends each record to the task that its route picks.
pub(crate) struct Outlet<I: Portable + ?Sized, T: Time, R> {
    lanes: Lanes<I, T>,
    route: R,
}

impl<I: Portable + ?Sized, T: Time, R: Route<I>> Outlet<I, T, R> {
    pub(crate) fn new(lanes: Lanes<I, T>, route: R) -> Self {
        Self { lanes, route }
    }
}

impl<I: Portable + ?Sized, T: Time, R: Route<I>> Push<I, T> for Outlet<I, T, R> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let receivers = self.lanes.len();
        let to = guard(&self.lanes.op, || self.route.pick(&item, receivers));
        self.lanes.push(to, item, time);
    }
}

/// Sends each record to every task of the next stage.
pub(crate) struct Broadcast<I: Portable + ?Sized, T: Time> {
    lanes: Lanes<I, T>,
}

impl<I: Portable + ?Sized, T: Time> Broadcast<I, T> {
    pub(crate) fn new(lanes: Lanes<I, T>) -> Self {
        Self { lanes }
    }
}

impl<I: Portable + ?Sized, T: Time> Push<I, T> for Broadcast<I, T>
where
    for<'a> <I as Record>::Of<'a>: Clone,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        for to in 1..self.lanes.len() {
            self.lanes.push(to, item.clone(), time);
        }
        self.lanes.push(0, item, time);
    }
}

/// `Pipe` for both outlets, which differ only in the lanes that a record goes to.
macro_rules! pipe_through_lanes {
    () => {
        fn next(&mut self) -> Option<&mut dyn Pipe> {
            None
        }

        fn event(&mut self, event: Event) {
            self.lanes.event(event);
        }

        fn resume(&mut self) -> Flow {
            self.lanes.resume()
        }

        fn is_full(&mut self) -> bool {
            self.lanes.short > 0 || self.lanes.shut
        }

        fn overdraw(&mut self) {
            self.lanes.overdraw();
        }

        fn end_overdraft(&mut self) {
            self.lanes.end_overdraft();
        }

        fn is_closed(&mut self) -> bool {
            self.lanes.is_closed()
        }

        fn idle(&mut self, now: Nanos) -> Option<Nanos> {
            self.lanes.idle(now)
        }

        fn tick(&mut self, now: Nanos) {
            self.lanes.tick(now);
        }

        fn report(&mut self, report: &mut Report) {
            report.sent(self.lanes.op.id(), self.lanes.edge, self.lanes.sent);
        }
    };
}

impl<I: Portable + ?Sized, T: Time, R: Route<I>> Pipe for Outlet<I, T, R> {
    pipe_through_lanes!();
}

impl<I: Portable + ?Sized, T: Time> Pipe for Broadcast<I, T> {
    pipe_through_lanes!();
}

#[cfg(test)]
mod tests;
