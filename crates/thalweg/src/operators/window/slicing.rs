//! Aggregates the records of a task slice by slice before they are sent.
//!
//! The aggregates of a slice are sent when the task's own watermark has passed its end, and earlier only if the task is idle or the
//! tables have outgrown the cache. A record that arrives later is sent by itself, so that the receiver can count
//! late records. Windows with early results also need their input early: each record by itself, or all partial
//! aggregates at each tick. If few keys repeat, records are sent one by one for a while, since a look-up then
//! costs more than it saves.

use super::early::{Early, Ticks};
use super::frames::{Frames, SliceId};
use super::slices::Slices;
use crate::clock::{Clock, Nanos};
use crate::data::{Batch, Data, Key, Record};
use crate::error::Result;
use crate::exchange::{Partial, PartialBatch, PartialEntry};
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, arm, guard};
use crate::memory::Reservation;
use crate::metrics::Report;
use crate::operators::aggregates::Combine;
use crate::operators::keyed::KeyBy;
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable, HeapEstimate};
use crate::stream::Chain;
use crate::support::saved_watermark::SavedWatermark;
use crate::time::{EventTime, Timestamp};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// The partial aggregate of a key in a slice, on its way to the task that owns the key.
pub(super) type SlicePart<K, S> = Partial<K, (SliceId, S)>;

/// The chain that ends with partial aggregates of slices.
pub struct Slicing<C, G, A> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) aggregate: Arc<A>,
    pub(super) frames: Frames,
    pub(super) early: Option<Early>,
}

impl<C, G, A> Chain for Slicing<C, G, A>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value>,
{
    type Item = SlicePart<G::Key, A::State>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<SlicingPush<C::Item, C::Time, G, A, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let (saved, passed) = SavedWatermark::new(cx, self.op)?;
        let push = SlicingPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            aggregate: Arc::clone(&self.aggregate),
            frames: self.frames,
            alone: self.early.is_some_and(|early| early.records().is_some()),
            ticks: self.early.and_then(Early::ticks_before).map(|ticks| (ticks, cx.clock.clone())),
            slices: Slices::new(),
            weighed: HeapEstimate::new(),
            current: Current::NOWHERE,
            open: None,
            closed: passed.and_then(|at| self.frames.last_closed(at)),
            saved,
            passed,
            sending: VecDeque::new(),
            held: None,
            waiting: PartialBatch::default(),
            reservation: cx.spillable(self.op),
            records: 0,
            passing: 0,
            patience: FIRST_PATIENCE,
            emitted: 0,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// Bytes that the tables may always occupy: an amount that fits into a core's second-level cache beside other
/// data.
const TABLES: usize = 1 << 20;
/// Bytes that the tables may occupy as long as keys repeat.
const LARGEST: usize = 16 << 20;
/// The tables may have this fraction (1/16) of the memory budget if states own memory on the heap.
const SHARE: usize = 16;
/// The number of records in a batch of records that are sent one by one.
const WAITING: usize = 64;
/// Records sent one by one before a table is filled again to check whether the keys have changed. Doubled every
/// time they have not.
const FIRST_PATIENCE: u64 = 1 << 20;
const LAST_PATIENCE: u64 = 1 << 26;

/// The slice of the last record.
#[derive(Clone, Copy)]
struct Current {
    from: Timestamp,
    to: Timestamp,
    slice: SliceId,
    way: Destination,
}

impl Current {
    const NOWHERE: Self =
        Self { from: Timestamp::MAX, to: Timestamp::MIN, slice: 0, way: Destination::Nowhere };
}

/// The destination of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    /// The table of its slice.
    Table,
    /// The receiver: the record is sent by itself.
    Alone,
    /// None: there are gaps between windows, and the record is in no window.
    Nowhere,
}

/// Aggregates slices in a running task.
pub struct SlicingPush<I: Record + ?Sized, T, G: KeyBy<I>, A: Combine<G::Value>, N> {
    op: Op,
    keys: G,
    aggregate: Arc<A>,
    frames: Frames,
    /// Whether every record is sent by itself.
    alone: bool,
    /// The ticks at which all tables are sent, and the clock for them.
    ticks: Option<(Ticks, Clock)>,
    slices: Slices<G::Key, A::State>,
    /// Heap memory of the states, including those being sent.
    weighed: HeapEstimate<A::State>,
    current: Current,
    /// The table of the current slice, if it has one. Taken out of `slices`, so that a record is looked up in
    /// one step.
    open: Option<GroupTable<G::Key, A::State>>,
    /// The last slice whose end the task's own watermark has passed.
    closed: Option<SliceId>,
    /// The last watermark, and its place in checkpoints; all else has been sent at a barrier.
    passed: Option<Timestamp>,
    saved: SavedWatermark,
    /// The tables being sent.
    sending: VecDeque<(SliceId, Drain<G::Key, A::State>)>,
    /// An event that waits until everything before it is sent.
    held: Option<Event>,
    /// Records to be sent by themselves.
    waiting: PartialBatch<G::Key, (SliceId, A::State)>,
    /// Reserves the bytes of the tables beyond [`TABLES`].
    reservation: Reservation,
    /// Records since a table was last started because another one was full.
    records: u64,
    /// The number of further records that are sent by themselves.
    passing: u64,
    patience: u64,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

impl<I, T, G, A, N> SlicingPush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    A: Combine<G::Value>,
    N: Push<SlicePart<G::Key, A::State>, T>,
{
    /// Switches to the slice of a timestamp.
    #[cold]
    #[inline(never)]
    fn turn_to(&mut self, at: Timestamp) {
        self.leave();
        let slice = self.frames.slice(at);
        let (from, to) = self.frames.span(slice);
        let (first, last) = self.frames.windows(slice);
        let way = if first > last {
            Destination::Nowhere
        } else if self.alone
            || self.passing > 0
            || self.closed.is_some_and(|closed| slice <= closed)
        {
            Destination::Alone
        } else {
            self.open = Some(self.slices.take(slice));
            Destination::Table
        };
        self.current = Current { from, to, slice, way };
    }

    /// Puts the table of the current slice back.
    fn leave(&mut self) {
        if let Some(table) = self.open.take() {
            self.slices.put_back(self.current.slice, table);
        }
        self.current = Current::NOWHERE;
    }

    /// Adds a record whose key is new in its slice to the table.
    #[inline(never)]
    fn take_new(&mut self, hash: u64, item: I::Of<'_>) {
        let full = self.open.as_ref().is_some_and(GroupTable::is_full);
        if full && !self.may_grow() {
            self.set_aside();
        }
        let Self { op, keys, aggregate, open, .. } = self;
        let Some(table) = open else { return };
        guard(op, || {
            let key = keys.key(&item);
            let known = table.entry(hash, key.probe(), key, || aggregate.start());
            known.guard(|state| aggregate.update(state, keys.value(item)));
        });
    }

    fn may_grow(&mut self) -> bool {
        let (bytes, grown, keys) = self
            .open
            .as_ref()
            .map_or((0, 0, 0), |table| (table.bytes(), table.bytes_if_grown(), table.len()));
        let after = self.slices.bytes() + bytes + grown + self.weighed.bytes();
        let repeats = 2 * (self.slices.keys() + keys) as u64 <= self.records;
        after <= TABLES || (after <= LARGEST && repeats && self.reservation.try_resize(after))
    }

    /// Sends the tables when the current one is full, and decides whether to fill another.
    #[cold]
    fn set_aside(&mut self) {
        let current = self.current;
        self.leave();
        let keys = self.slices.keys() as u64;
        self.set_all_aside();
        if 2 * keys > self.records {
            self.passing = self.patience;
            self.patience = (2 * self.patience).min(LAST_PATIENCE);
        } else {
            self.patience = FIRST_PATIENCE;
        }
        self.records = 0;
        // This record still goes into a table; the next one is routed anew.
        self.open = Some(self.slices.take(current.slice));
        self.current =
            Current { slice: current.slice, way: Destination::Table, ..Current::NOWHERE };
    }

    fn set_all_aside(&mut self) {
        while let Some((slice, table)) = self.slices.take_until(SliceId::MAX) {
            self.sending.push_back((slice, table.into_drain()));
        }
    }

    /// Called between two batches: sends all tables if memory is short for the heap memory of their states, or
    /// if the pool is over its budget.
    fn mind_memory(&mut self) {
        if !self.sending.is_empty() {
            return;
        }
        if self.weighed.is_due(|| self.slices.keys()) {
            self.leave();
            self.weighed.weigh(self.slices.values().map(Data::heap_size));
        }
        let (heap, held) = (self.weighed.bytes(), self.reservation.bytes());
        if heap == 0 && held == 0 {
            return;
        }
        let open = self.open.as_ref().map_or(0, GroupTable::bytes);
        let bytes = self.slices.bytes() + open + heap;
        let lacks = bytes > TABLES
            && heap > 0
            && (bytes > LARGEST.min(self.reservation.pool().limit() / SHARE)
                || (bytes > held && !self.reservation.try_resize(bytes + bytes / 8)));
        if lacks || self.reservation.is_over_budget() {
            self.leave();
            self.set_all_aside();
            self.slices.drop_spares();
            self.records = 0;
            if self.sending.is_empty() {
                self.give_back();
            }
        }
    }

    /// Releases memory of tables that have been sent.
    fn give_back(&mut self) {
        if self.reservation.is_over_budget() {
            self.slices.drop_spares();
        }
        let open = self.open.as_ref().map_or(0, GroupTable::bytes);
        let bytes = self.slices.bytes() + open + self.weighed.bytes();
        let bytes = if bytes > TABLES { bytes } else { 0 };
        if bytes < self.reservation.bytes() {
            let _ = self.reservation.try_resize(bytes);
        }
    }

    /// Starts sending all tables if the tick has passed. Returns when to check again.
    fn look(&mut self, now: Nanos) -> Option<Nanos> {
        let (ticks, _) = self.ticks.as_mut()?;
        if self.open.is_none() && self.slices.first().is_none() {
            return None;
        }
        if !ticks.has_come(now) {
            return Some(ticks.next());
        }
        self.leave();
        self.set_all_aside();
        self.records = 0;
        Some(now)
    }

    /// Sends a record by itself.
    #[inline(never)]
    fn send_alone(&mut self, item: I::Of<'_>) {
        let Self { op, keys, aggregate, waiting, current, .. } = self;
        guard(op, || {
            let key = keys.key(&item);
            let (probe, hash) = (key.probe(), keys.hash(&item));
            let slot = waiting.store(key, probe);
            let mut state = aggregate.start();
            aggregate.update(&mut state, keys.value(item));
            waiting.push_slot(hash, slot, (current.slice, state));
        });
        if self.waiting.count() >= WAITING {
            self.send_waiting();
        }
    }

    fn send_waiting(&mut self) {
        let count = self.waiting.count() as u64;
        self.emitted += count;
        let next = &mut self.next;
        self.waiting.drain(|part| next.push(part, T::LAST));
        if self.passing > 0 {
            self.passing = self.passing.saturating_sub(count);
            if self.passing == 0 {
                self.leave();
            }
        }
    }

    /// Sends some of the tables in `sending`; returns whether any is left.
    fn send_on(&mut self) -> bool {
        for _ in 0..CHUNK {
            let Some((slice, table)) = self.sending.front_mut() else { return false };
            let (slice, next, weighed) = (*slice, &mut self.next, &mut self.weighed);
            let sent = table.slot_for_next(|key, arena, state| {
                weighed.leaves(&state);
                let hash = G::Key::slot_hash(&key, arena);
                next.push(PartialEntry { hash, key, arena, state: (slice, state) }, T::LAST);
            });
            match sent {
                Some(()) => self.emitted += 1,
                None => {
                    if let Some((_, table)) = self.sending.pop_front() {
                        self.slices.give_back(table.into_table());
                    }
                    if self.sending.is_empty() {
                        self.give_back();
                    }
                }
            }
        }
        true
    }

    /// Moves the tables that belong before an event to `sending`; returns whether there was one.
    fn close(&mut self, event: Event) -> bool {
        let until = match event {
            Event::Watermark(at) => {
                let closed = self.frames.last_closed(at);
                self.closed = self.closed.max(closed);
                self.passed = self.passed.max(Some(at));
                closed
            }
            Event::Partition(_) => None,
            // From now on, this task does not hold back the end of windows that have some of it.
            Event::Idle | Event::Barrier(_) | Event::End => Some(SliceId::MAX),
            Event::Round(_) => {
                self.closed = None;
                Some(SliceId::MAX)
            }
        };
        let Some(until) = until else { return false };
        self.leave();
        let mut any = false;
        while let Some((slice, table)) = self.slices.take_until(until) {
            self.sending.push_back((slice, table.into_drain()));
            any = true;
        }
        any
    }
}

impl<I, T, G, A, N> Push<I, T> for SlicingPush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    A: Combine<G::Value>,
    N: Push<SlicePart<G::Key, A::State>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let at = time.into();
        if at < self.current.from || at >= self.current.to {
            self.turn_to(at);
        }
        match self.current.way {
            Destination::Table => {}
            Destination::Alone => return self.send_alone(item),
            Destination::Nowhere => return,
        }
        self.records += 1;
        self.weighed.changed();
        let Self { op, keys, aggregate, open, .. } = self;
        let armed = arm(op);
        let (hash, key) = (keys.hash(&item), keys.key(&item));
        let found = open.as_mut().and_then(|table| table.known(hash, key.probe()));
        if let Some(known) = found {
            known.guard(|state| aggregate.update(state, keys.value(item)));
            armed.disarm();
        } else {
            armed.disarm();
            self.take_new(hash, item);
        }
    }
}

impl<I, T, G, A, N> Pipe for SlicingPush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    A: Combine<G::Value>,
    N: Push<SlicePart<G::Key, A::State>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        self.send_waiting();
        self.held = Some(event);
    }

    fn resume(&mut self) -> Flow {
        self.mind_memory();
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            if self.send_on() {
                return Flow::Busy;
            }
            let Some(event) = self.held else {
                if let Some((ticks, clock)) = &mut self.ticks
                    && self.open.is_none()
                    && self.slices.first().is_none()
                {
                    ticks.restart(clock.now());
                }
                return Flow::Ready;
            };
            if !self.close(event) {
                self.held = None;
                self.saved.save(event, true, self.passed);
                self.next.event(event);
            }
        }
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        self.send_waiting();
        let again = self.next.idle(now);
        again.into_iter().chain(self.look(now)).min()
    }

    fn tick(&mut self, now: Nanos) {
        self.look(now);
        self.next.tick(now);
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        // Records that are still here have not reached the task that emits the windows.
        let windows = self.slices.first().map(|slice| self.frames.windows(slice));
        let open = windows.filter(|(first, last)| first <= last);
        report.open_until(self.op.id(), open.map(|(first, _)| self.frames.window(first).1));
        self.next.report(report);
    }
}
