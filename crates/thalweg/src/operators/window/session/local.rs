//! Merges a task's own records into parts of sessions before they are sent.
//!
//! A part is a session of the records of one task since its last watermark: its span, and their aggregate. The table has
//! one part for each key. A record within the gap extends it; any other record replaces it, and the part is sent. All
//! parts are sent before the next watermark, and so before anything that can end a session.
//!
//! Where many keys have few records between two watermarks, a watermark waits for more of them: at most
//! [`PATIENCE`], and only while the task is busy. When its input runs dry, or the task waits for something else,
//! everything is sent.
//!
//! Late records are counted by the task that owns their key, one by one. A record at or after this task's own watermark
//! is not late there, as the merged watermark is no further. Any other record is sent by itself, and so is every record
//! after this task was idle: lanes that are idle do not hold back the merged watermark, which may be ahead of this task
//! from then on.
//!
//! If few records follow another one of their key, they are sent by themselves for a while, since a look-up then costs
//! more than it saves.

use super::Gap;
use crate::clock::{Clock, Nanos};
use crate::data::{Batch, Data, Key, Record};
use crate::error::Result;
use crate::exchange::{Partial, PartialBatch, PartialEntry};
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, arm, guard};
use crate::metrics::{HotKeys, Report};
use crate::operators::aggregates::Combine;
use crate::operators::keyed::KeyBy;
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable, HeapEstimate};
use crate::stream::Chain;
use crate::support::saved_watermark::SavedWatermark;
use crate::time::{EventTime, Timestamp};
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

/// A part of a session, on its way to the task that owns the key.
pub(super) type SessionPart<K, S> = Partial<K, Part<S>>;

/// The time of its first record, the last timestamp at which another one may join, and the aggregate.
pub(super) type Part<S> = (i64, i64, S);

/// The chain that ends with parts of sessions.
pub struct SessionParts<C, G, F, A> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) gap: F,
    pub(super) aggregate: Arc<A>,
}

impl<C, G, F, A> Chain for SessionParts<C, G, F, A>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    F: Gap<G::Value>,
    A: Combine<G::Value>,
{
    type Item = SessionPart<G::Key, A::State>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<SessionPartsPush<C::Item, C::Time, G, F, A, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let (saved, passed) = SavedWatermark::new(cx, self.op)?;
        let watermark = passed.map_or(i64::MIN, Timestamp::as_micros);
        let push = SessionPartsPush {
            saved,
            op: cx.op(self.op),
            keys: self.keys.clone(),
            gap: self.gap.clone(),
            aggregate: Arc::clone(&self.aggregate),
            merged_from: watermark,
            watermark,
            was_idle: false,
            table: GroupTable::new(),
            weighed: HeapEstimate::new(),
            sending: None,
            waiting: PartialBatch::default(),
            alone: 0,
            behind: PartialBatch::default(),
            delayed: None,
            held: None,
            flushed: 0,
            clock: cx.clock.clone(),
            hot: HotKeys::default(),
            trial: Trial::new(),
            emitted: 0,
            next,
            types: PhantomData,
        };
        self.prev.attach(cx, push)
    }
}

/// Bytes that the table may occupy with what its states own: an amount that fits into a core's second-level cache beside
/// other data.
const TABLE: usize = 1 << 20;
/// The number of parts that are handed on together while the table is in use.
const WAITING: usize = 64;
/// How long, in nanoseconds, a watermark may wait for more records in a busy task.
const PATIENCE: Nanos = 5_000_000;
/// The number of records that it waits for at most, also if the clock does not advance.
const MOST: u64 = 1 << 18;
/// A watermark does not wait if there are as many records to a part.
const ENOUGH: u64 = 32;
/// Records after which it is decided whether merging pays. As many as a watermark may wait for in a table that is nearly
/// full, since parts are counted when they are sent, many at a time.
const TRIAL: u64 = 1 << 16;
/// Records sent by themselves before merging is tried again. Doubled every time it has not paid.
const FIRST_PATIENCE: u64 = 1 << 20;
const LAST_PATIENCE: u64 = 1 << 26;

/// Whether merging pays: at least every second record must be in the part of another one.
struct Trial {
    /// The number of records seen when it began.
    began: u64,
    /// The number of parts since then.
    parts: u64,
    /// The number of further records that are sent by themselves.
    passing: u64,
    patience: u64,
}

impl Trial {
    fn new() -> Self {
        Self { began: 0, parts: 0, passing: 0, patience: FIRST_PATIENCE }
    }

    /// Accounts for parts that are sent after `seen` records; ends the trial if there were enough.
    fn sent(&mut self, parts: u64, seen: u64) {
        self.parts += parts;
        let records = seen - self.began;
        if records < TRIAL {
            return;
        }
        if 2 * self.parts > records {
            self.passing = self.patience;
            self.patience = (2 * self.patience).min(LAST_PATIENCE);
        } else {
            self.patience = FIRST_PATIENCE;
        }
        (self.began, self.parts) = (seen, 0);
    }

    /// Accounts for records that were sent by themselves, the last of `seen`; returns whether to try again.
    fn passed(&mut self, records: u64, seen: u64) -> bool {
        self.began = seen;
        let left = self.passing.saturating_sub(records);
        mem::replace(&mut self.passing, left) > 0 && left == 0
    }
}

/// A watermark that waits for more records.
struct Delayed {
    at: Timestamp,
    since: Nanos,
    /// Whether the input has run dry since.
    is_dry: bool,
}

/// Merges records into parts of sessions in a running task.
pub struct SessionPartsPush<I, T, G, F, A, N>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    A: Combine<G::Value>,
{
    op: Op,
    keys: G,
    gap: F,
    aggregate: Arc<A>,
    saved: SavedWatermark,
    /// Records before this time are sent by themselves.
    merged_from: i64,
    /// The last watermark, which may still wait.
    watermark: i64,
    /// Whether `Event::Idle` was passed on in this round.
    was_idle: bool,
    table: GroupTable<G::Key, Part<A::State>>,
    /// Heap memory of the states, including those being sent.
    weighed: HeapEstimate<A::State>,
    /// A table that is being sent.
    sending: Option<Drain<G::Key, Part<A::State>>>,
    /// Parts that are no longer in the table, and records that are parts by themselves.
    waiting: PartialBatch<G::Key, Part<A::State>>,
    /// The number of records that were sent by themselves at once, and are not accounted for.
    alone: usize,
    /// Records behind the watermark that waits, which must not arrive before it.
    behind: PartialBatch<G::Key, Part<A::State>>,
    delayed: Option<Delayed>,
    /// An event that waits until everything before it is sent, such as a watermark that waits for more records.
    held: Option<Event>,
    /// The number of records seen when the table was last sent because of an event.
    flushed: u64,
    clock: Clock,
    hot: HotKeys,
    trial: Trial,
    emitted: u64,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

impl<I, T, G, F, A, N> SessionPartsPush<I, T, G, F, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    A: Combine<G::Value>,
    N: Push<SessionPart<G::Key, A::State>, T>,
{
    /// Adds a record whose key is not in the table.
    #[inline(never)]
    fn take_new(&mut self, hash: u64, item: Option<I::Of<'_>>, at: i64) {
        let Some(item) = item else { return };
        let full = self.table.is_full();
        if full && self.table.bytes_if_grown() + self.weighed.bytes() > TABLE {
            self.set_aside();
        }
        let Self { op, keys, gap, aggregate, table, .. } = self;
        guard(op, || {
            let key = keys.key(&item);
            let known = table.entry(hash, key.probe(), key, || (at, at, aggregate.start()));
            known.guard(|(_, until, state)| {
                let value = keys.value(item);
                *until = at.saturating_add(gap.gap(&value));
                aggregate.update(state, value);
            });
        });
    }

    /// Sends a record by itself.
    #[inline(never)]
    fn send_alone(&mut self, item: Option<I::Of<'_>>, at: i64) {
        let Some(item) = item else { return };
        let Self { op, keys, gap, aggregate, waiting, behind, delayed, hot, next, .. } = self;
        let waits = delayed.is_some() || waiting.count() > 0;
        let waiting = if delayed.is_some() { behind } else { waiting };
        let (hash, slot, part) = guard(op, || {
            let (hash, key) = (keys.hash(&item), keys.key(&item));
            hot.see(hash, key);
            // The value may be the record that the key is borrowed from, so the key is stored before.
            let slot = waiting.store(key, key.probe());
            let (mut state, value) = (aggregate.start(), keys.value(item));
            let until = at.saturating_add(gap.gap(&value));
            aggregate.update(&mut state, value);
            (hash, slot, (at, until, state))
        });
        if !waits {
            waiting.pass(hash, slot, part, |part| next.push(part, T::LAST));
            self.alone += 1;
            if self.alone >= WAITING {
                self.count_alone();
            }
            return;
        }
        waiting.push_slot(hash, slot, part);
        if self.waiting.count() >= WAITING {
            self.send_waiting();
        }
    }

    /// Accounts for records that were sent by themselves at once.
    fn count_alone(&mut self) {
        let count = mem::take(&mut self.alone);
        self.count_sent(count as u64);
    }

    /// Accounts for parts that were sent.
    fn count_sent(&mut self, count: u64) {
        self.emitted += count;
        if self.merged_from < i64::MAX {
            self.trial.sent(count, self.hot.seen());
        } else if self.trial.passed(count, self.hot.seen()) {
            self.find_way();
        }
    }

    #[inline(never)]
    fn send_waiting(&mut self) {
        let count = self.waiting.count() as u64;
        let next = &mut self.next;
        self.waiting.drain(|part| next.push(part, T::LAST));
        self.count_sent(count);
    }

    /// Sets the table aside to be sent, and begins another.
    #[cold]
    #[inline(never)]
    fn set_aside(&mut self) {
        // It is rare that two tables fill up in one batch. The first must then be sent, whatever the receivers'
        // credit.
        self.send_on(usize::MAX);
        self.trial.sent(self.table.len() as u64, self.hot.seen());
        self.sending = Some(mem::take(&mut self.table).into_drain());
        self.find_way();
    }

    /// Sends up to `most` parts of the table that was set aside; returns whether any are left.
    fn send_on(&mut self, most: usize) -> bool {
        let Some(sending) = &mut self.sending else { return false };
        for _ in 0..most {
            let Self { next, weighed, .. } = self;
            let sent = sending.slot_for_next(|key, arena, part| {
                weighed.leaves(&part.2);
                let hash = G::Key::slot_hash(&key, arena);
                next.push(PartialEntry { hash, key, arena, state: part }, T::LAST);
            });
            if sent.is_none() {
                let sent = self.sending.take().map(Drain::into_table);
                if self.table.is_empty()
                    && let Some(empty) = sent.filter(|table| table.bytes() <= TABLE)
                {
                    self.table = empty;
                }
                return false;
            }
            self.emitted += 1;
        }
        true
    }

    /// Decides which records are merged from now on.
    fn find_way(&mut self) {
        let alone = self.was_idle || self.trial.passing > 0;
        self.merged_from = if alone { i64::MAX } else { self.watermark };
    }

    /// Between two batches: sends the table if what it owns on the heap outgrows the cache.
    fn mind_memory(&mut self) {
        if self.weighed.is_due(|| self.table.len()) {
            self.weighed.weigh(self.table.values().map(|part| part.2.heap_size()));
        }
        if self.sending.is_none() && self.table.bytes() + self.weighed.bytes() > TABLE {
            self.set_aside();
        }
    }

    /// Whether a watermark is to wait for more records.
    fn delays(&self) -> bool {
        let records = self.hot.seen() - self.flushed;
        self.merged_from < i64::MAX && ENOUGH * self.table.len() as u64 > records
    }

    /// The event that is to be passed on once everything before it is sent.
    fn next_event(&mut self) -> Option<Event> {
        let Some(Delayed { at, since, is_dry }) = self.delayed else { return self.held };
        let is_due = is_dry
            || self.held.is_some()
            || self.behind.count() > 0
            || self.hot.seen() - self.flushed >= MOST
            || self.clock.now().saturating_sub(since) >= PATIENCE;
        is_due.then_some(Event::Watermark(at))
    }

    /// Passes on the next event. Everything before it has been sent.
    fn pass_on(&mut self, event: Event) {
        if self.delayed.take().is_none() {
            self.held = None;
        }
        self.flushed = self.hot.seen();
        match event {
            Event::Watermark(at) => self.watermark = self.watermark.max(at.as_micros()),
            Event::Idle => self.was_idle = true,
            Event::Round(_) => (self.watermark, self.was_idle) = (i64::MIN, false),
            Event::Partition(_) | Event::Barrier(_) | Event::End => {}
        }
        self.find_way();
        let passed = (self.watermark > i64::MIN).then(|| Timestamp::from_micros(self.watermark));
        self.saved.save(event, !self.was_idle, passed);
        self.next.event(event);
        mem::swap(&mut self.waiting, &mut self.behind);
    }
}

impl<I, T, G, F, A, N> Push<I, T> for SessionPartsPush<I, T, G, F, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    A: Combine<G::Value>,
    N: Push<SessionPart<G::Key, A::State>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        let at = Timestamp::as_micros(time.into());
        if at < self.merged_from {
            return self.send_alone(Some(item), at);
        }
        self.weighed.changed();
        let Self { op, keys, gap, aggregate, table, waiting, weighed, hot, .. } = self;
        let armed = arm(op);
        let (hash, key) = (keys.hash(&item), keys.key(&item));
        hot.see(hash, key);
        let Some(mut known) = table.known(hash, key.probe()) else {
            armed.disarm();
            return self.take_new(hash, Some(item), at);
        };
        let replaced = known.reborrow().guard(|part| {
            let value = keys.value(item);
            let until = at.saturating_add(gap.gap(&value));
            if at <= part.1 && part.0 <= until {
                (part.0, part.1) = (part.0.min(at), part.1.max(until));
                aggregate.update(&mut part.2, value);
                return None;
            }
            let mut state = aggregate.start();
            aggregate.update(&mut state, value);
            Some(mem::replace(part, (at, until, state)))
        });
        armed.disarm();
        if let Some(part) = replaced {
            weighed.leaves(&part.2);
            known.see(|key, _| {
                let slot = waiting.store(key, key.probe());
                waiting.push_slot(hash, slot, part);
            });
            if waiting.count() >= WAITING {
                self.send_waiting();
            }
        }
    }
}

impl<I, T, G, F, A, N> Pipe for SessionPartsPush<I, T, G, F, A, N>
where
    I: Record + ?Sized,
    T: EventTime,
    G: KeyBy<I>,
    F: Gap<G::Value>,
    A: Combine<G::Value>,
    N: Push<SessionPart<G::Key, A::State>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        let delays = self.delays();
        match (event, &mut self.delayed) {
            (Event::Watermark(at), Some(delayed)) if self.behind.count() == 0 => delayed.at = at,
            (Event::Watermark(at), None) if delays => {
                self.delayed = Some(Delayed { at, since: self.clock.now(), is_dry: false });
            }
            _ => {
                self.held = Some(event);
                return;
            }
        }
        if let Event::Watermark(at) = event {
            self.watermark = at.as_micros();
            self.find_way();
        }
    }

    fn resume(&mut self) -> Flow {
        self.mind_memory();
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            if self.send_on(CHUNK) {
                return Flow::Busy;
            }
            let Some(event) = self.next_event() else { return Flow::Ready };
            if self.waiting.count() > 0 {
                self.send_waiting();
            } else if self.table.is_empty() {
                self.pass_on(event);
            } else {
                self.set_aside();
            }
        }
    }

    fn is_full(&mut self) -> bool {
        self.next.is_full()
    }

    fn idle(&mut self, now: Nanos) -> Option<Nanos> {
        // A task whose receivers have no room does not lack input.
        if let Some(delayed) = &mut self.delayed
            && self.next.resume() != Flow::Blocked
        {
            delayed.is_dry = true;
            // Passed on here: a task that waits for something else than input, such as a call in flight, is not resumed
            // before that has come.
            while self.resume() == Flow::Busy {}
        }
        // Parts in the table may stay: they are sent before the watermark that can end their sessions.
        self.send_waiting();
        self.next.idle(now)
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.op.id();
        report.emitted(op, self.emitted + self.alone as u64);
        report.hot(op, &self.hot);
        // Parts that are still here have not reached the task that ends the sessions.
        let until = self.table.values().map(|part| part.1).min();
        report.open_until(op, until.map(|until| Timestamp::from_micros(until.saturating_add(1))));
        self.next.report(report);
    }
}

#[cfg(test)]
mod tests;
