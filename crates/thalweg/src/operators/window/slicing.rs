//! Aggregates a task's own records slice by slice, before they are sent.
//!
//! A slice's aggregates are sent when the task's own watermark has passed its end; before that only where
//! the tables have outgrown the cache. A record that comes after that is sent by itself, so that the
//! receiver can count what is late. Windows that have results early need what they are made of early too: each record
//! by itself, or all that there is at certain times. Where keys hardly ever come again, records are sent one by one for
//! a while, since a look-up then costs more than it saves.

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
use crate::state::{Drain, GroupTable, Weighed};
use crate::stream::Chain;
use crate::time::{EventTime, Timestamp};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a task knows of a key in a slice, on its way to the task that owns the key.
pub(super) type SlicePart<K, S> = Partial<K, (SliceId, S)>;

/// The chain that ends in aggregates a slice.
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
        let push = SlicingPush {
            op: cx.op(self.op),
            keys: self.keys.clone(),
            aggregate: Arc::clone(&self.aggregate),
            frames: self.frames,
            alone: self.early.is_some_and(|early| early.records().is_some()),
            ticks: self.early.and_then(Early::ticks_before).map(|ticks| (ticks, cx.clock.clone())),
            slices: Slices::new(),
            weighed: Weighed::new(),
            current: Current::NOWHERE,
            open: None,
            closed: None,
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

/// Bytes that all tables may always occupy: what stays in a core's second-level cache beside the rest.
const TABLES: usize = 1 << 20;
/// Bytes that they may occupy as long as keys come again.
const LARGEST: usize = 16 << 20;
/// The part of the memory budget that they may have where states own memory apart from them.
const SHARE: usize = 16;
/// Records that are sent together when they are sent one by one.
const WAITING: usize = 64;
/// Records sent one by one before a table is filled again to see whether the keys have changed;
/// doubled every time they have not.
const FIRST_PATIENCE: u64 = 1 << 20;
const LAST_PATIENCE: u64 = 1 << 26;

/// The slice that the last record lay in.
#[derive(Clone, Copy)]
struct Current {
    from: Timestamp,
    to: Timestamp,
    slice: SliceId,
    way: Way,
}

impl Current {
    const NOWHERE: Self =
        Self { from: Timestamp::MAX, to: Timestamp::MIN, slice: 0, way: Way::Nowhere };
}

/// What becomes of a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It goes into the slice's table.
    Table,
    /// It is sent by itself.
    Alone,
    /// It is in no window: there are gaps between them.
    Nowhere,
}

/// Aggregates slices in a running task.
pub struct SlicingPush<I: Record + ?Sized, T, G: KeyBy<I>, A: Combine<G::Value>, N> {
    op: Op,
    keys: G,
    aggregate: Arc<A>,
    frames: Frames,
    /// Every record is sent by itself.
    alone: bool,
    /// When all tables are sent, and the clock that says so.
    ticks: Option<(Ticks, Clock)>,
    slices: Slices<G::Key, A::State>,
    /// What states own on the heap, those being sent included.
    weighed: Weighed<A::State>,
    current: Current,
    /// Its table, if it has one: at hand, so that a record is not looked up in two steps.
    open: Option<GroupTable<G::Key, A::State>>,
    /// The last slice whose end the task's own watermark has passed.
    closed: Option<SliceId>,
    /// Tables being sent.
    sending: VecDeque<(SliceId, Drain<G::Key, A::State>)>,
    /// An event that waits until all is sent that belongs before it.
    held: Option<Event>,
    /// Records that are sent by themselves.
    waiting: PartialBatch<G::Key, (SliceId, A::State)>,
    /// What the tables occupy beyond [`TABLES`].
    reservation: Reservation,
    /// Records since a table was last begun because another one was full.
    records: u64,
    /// Records to come that are sent by themselves.
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
    /// Goes to the slice of a timestamp.
    #[cold]
    #[inline(never)]
    fn turn_to(&mut self, at: Timestamp) {
        self.leave();
        let slice = self.frames.slice(at);
        let (from, to) = self.frames.span(slice);
        let (first, last) = self.frames.windows(slice);
        let way = if first > last {
            Way::Nowhere
        } else if self.alone
            || self.passing > 0
            || self.closed.is_some_and(|closed| slice <= closed)
        {
            Way::Alone
        } else {
            self.open = Some(self.slices.take(slice));
            Way::Table
        };
        self.current = Current { from, to, slice, way };
    }

    /// Lays the table at hand back to the others.
    fn leave(&mut self) {
        if let Some(table) = self.open.take() {
            self.slices.put_back(self.current.slice, table);
        }
        self.current = Current::NOWHERE;
    }

    /// Brings a record with a key that is new in its slice into the table.
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

    /// The table is full: sends it, and decides whether to fill another.
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
        // This record still finds a table; the next one looks where to go.
        self.open = Some(self.slices.take(current.slice));
        self.current = Current { slice: current.slice, way: Way::Table, ..Current::NOWHERE };
    }

    fn set_all_aside(&mut self) {
        while let Some((slice, table)) = self.slices.take_until(SliceId::MAX) {
            self.sending.push_back((slice, table.into_drain()));
        }
    }

    /// Between two batches: sends all tables where memory is short for what their states own, or where the pool is
    /// over its budget.
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

    /// Gives back what was needed for tables that have been sent.
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

    /// Sets all tables aside when it is time; when to look again.
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

    /// Sends some of the tables set aside; answers whether any is left.
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

    /// Sets aside the tables that belong before the event that waits; answers whether there was one.
    fn close(&mut self, event: Event) -> bool {
        let until = match event {
            Event::Watermark(at) => {
                let closed = self.frames.last_closed(at);
                self.closed = self.closed.max(closed);
                closed
            }
            Event::Idle | Event::Partition(_) => None,
            Event::Barrier(_) | Event::End => Some(SliceId::MAX),
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
            Way::Table => {}
            Way::Alone => return self.send_alone(item),
            Way::Nowhere => return,
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
        // What is kept here for a window has not come to the task that gives it out.
        let windows = self.slices.first().map(|slice| self.frames.windows(slice));
        let open = windows.filter(|(first, last)| first <= last);
        report.open_until(self.op.id(), open.map(|(first, _)| self.frames.window(first).1));
        self.next.report(report);
    }
}
