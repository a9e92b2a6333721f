//! Combines a task's own records into partial aggregates before they are sent, as long as that pays.
//!
//! A small table that stays in the core's cache collects the aggregates; when it is full, it is sent and a new one
//! begins. Whether that pays depends on the keys, on the cost of an update and on the cost of sending. None of these
//! is known beforehand, so they are measured: the task that owns the keys publishes what it costs to receive a
//! record. The combiner times its own updates and its own sending, and knows how many records were combined into one.
//! Combining goes on while
//!
//! ```text
//!   update + (partials / records) * (send + receive)  <  send + receive
//! ```
//!
//! Otherwise records are sent uncombined. After some time a table is filled again, to see whether the keys have
//! changed.
//!
//! If the keys are few integers for some time, each is moved out of the table into a slot of its own
//! ([`DirectMapped`]), and back as soon as there are more.

use super::KeyBy;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::Clock;
use crate::data::{Batch, Data, Key, Portable, Record};
use crate::error::Result;
use crate::exchange::{Partial, PartialBatch, PartialEntry};
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, arm, guard};
use crate::memory::Reservation;
use crate::metrics::{HotKeys, Report};
use crate::operators::aggregates::Combine;
use crate::plan::TaskContext;
use crate::state::{DirectMapped, Drain, GroupTable, HeapEstimate, SlotHint};
use crate::stream::Chain;
use crate::support::cost::{Cost, Meter};
use crate::support::gradual_save::GradualSave;
use crate::support::repeats::Repeats;
use crate::time::Time;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::sync::Arc;

/// The chain that ends in partial aggregates.
pub struct Combiner<C, G, A> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) keys: G,
    pub(super) aggregate: Arc<A>,
    /// What it costs the receivers to process a partial aggregate.
    pub(super) receive: Cost,
}

impl<C, G, A> Chain for Combiner<C, G, A>
where
    C: Chain,
    G: KeyBy<C::Item, Key: Key<Owned: Borrow<G::Key>>>,
    A: Combine<G::Value>,
{
    type Item = Partial<G::Key, A::State>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> =
        C::Task<CombinePush<C::Item, C::Time, G, A, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let mut push = CombinePush {
            op: cx.op(self.op),
            state: cx.state::<(<G::Key as Portable>::Owned, A::State)>(
                self.op,
                "partials",
                Redistribution::ByKey,
            ),
            keys: self.keys.clone(),
            aggregate: Arc::clone(&self.aggregate),
            table: GroupTable::new(),
            saving: None,
            direct: None,
            direct_at: FEW_KEYS_AFTER,
            direct_patience: FEW_KEYS_AFTER,
            behind: 0,
            weighed: HeapEstimate::new(),
            full: None,
            held: None,
            choice: Choice::new(self.receive.clone()),
            way: UpdateMode::Direct,
            waiting: PartialBatch::default(),
            reservation: cx.spillable(self.op),
            growth: Growth::default(),
            hot: HotKeys::default(),
            emitted: 0,
            clock: cx.clock.clone(),
            next,
            types: PhantomData,
        };
        push.restore()?;
        self.prev.attach(cx, push)
    }
}

/// Bytes that the table may always occupy: what stays in a core's second-level cache beside everything else.
const TABLE: usize = 1 << 20;
/// Bytes that it may occupy when keys repeat often enough.
const LARGEST: usize = 64 << 20;
/// The table may have one part in this many of the memory budget where its states own heap memory.
const SHARE: usize = 16;
/// The largest share of records that may remain after combining for a table to be worth growing up to [`LARGEST`].
const WORTH_GROWING: f64 = 0.67;
/// Records that wait for their slots together: enough to keep memory busy, and few enough that the prefetched slots
/// are still in the nearest cache.
const WAITING: usize = 64;
/// The largest size, in bytes, of an aggregate's state that may wait.
const SMALL: usize = 64;
/// Records sent uncombined to measure what that costs.
const TRIAL: u64 = 1 << 16;
/// Records sent uncombined before a table is filled again to see whether the keys have changed;
/// doubled every time they have not.
const FIRST_PATIENCE: u64 = 1 << 20;
const LAST_PATIENCE: u64 = 1 << 26;
/// Records after which a table is direct-mapped if it has few keys; doubled every time it was not for as many records.
const FEW_KEYS_AFTER: u64 = 1 << 16;
/// Keys without a slot that a direct-mapped table takes before it becomes an ordinary one again.
const FEW_BEHIND: usize = 256;
/// The same if more than one record in this many has such a key: these cost more than the others save.
const MANY_BEHIND: u64 = 12;

/// A combiner in a running task.
pub struct CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    A: Combine<G::Value>,
{
    op: Op,
    /// The partial aggregates at a barrier: any task may go on with them.
    state: StateHandle,
    keys: G,
    aggregate: Arc<A>,
    table: GroupTable<G::Key, A::State>,
    /// What is still to be saved of the table as it was at a barrier.
    saving: Option<GradualSave>,
    /// Keys that are not in the table for as long as they are few, and the memory reserved for them: see
    /// [`take_direct`](Self::take_direct).
    direct: Option<(DirectMapped<G::Key, A::State>, Reservation)>,
    /// The number of records seen at which the table was direct-mapped, or may be the next time.
    direct_at: u64,
    /// The records to wait for the next time.
    direct_patience: u64,
    /// The records whose keys were in the table while others were direct-mapped.
    behind: u64,
    /// What the states own on the heap, including those being sent.
    weighed: HeapEstimate<A::State>,
    /// A table that is being sent.
    full: Option<Drain<G::Key, A::State>>,
    /// An event that waits until everything before it has been sent.
    held: Option<Event>,
    choice: Choice,
    way: UpdateMode,
    /// The last records, each as a partial of its own, while their slots are prefetched.
    waiting: PartialBatch<G::Key, A::State>,
    /// What the table occupies beyond [`TABLE`].
    reservation: Reservation,
    growth: Growth,
    hot: HotKeys,
    emitted: u64,
    clock: Clock,
    next: N,
    types: PhantomData<fn(&I, T)>,
}

/// What happens to a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum UpdateMode {
    /// It updates the table.
    Direct,
    /// It updates the table, and its key is added to the sample of keys.
    Sampled,
    /// It updates the table while it is being saved: the state of the record's key is saved before.
    Saving,
    /// It waits, and updates the table together with others.
    InSteps,
    /// It waits, and is sent together with others.
    Uncombined,
}

/// The records and keys seen when the table was last doubled.
#[derive(Clone, Copy, Default)]
struct Growth {
    records: u64,
    keys: usize,
}

/// Whether to combine, and the measurements that decide it.
struct Choice {
    combining: bool,
    /// The number of records seen when the mode was entered or the table was begun.
    began: u64,
    /// Records to send uncombined before the next decision.
    left: u64,
    patience: u64,
    /// The share of records that became partial aggregates when a table was last filled.
    kept: f64,
    /// Whether this is a trial to measure what sending uncombined costs.
    trial: bool,
    /// Whether keys repeat, though too seldom for a small table to detect it.
    grow: bool,
    /// How often keys repeat among the records sent uncombined.
    repeats: Repeats,
    combined: Meter,
    uncombined: Meter,
    send: Meter,
    receive: Cost,
}

impl Choice {
    fn new(receive: Cost) -> Self {
        Self {
            combining: true,
            began: 0,
            left: 0,
            patience: FIRST_PATIENCE,
            kept: 0.0,
            trial: false,
            grow: false,
            repeats: Repeats::default(),
            combined: Meter::default(),
            uncombined: Meter::default(),
            send: Meter::default(),
            receive,
        }
    }

    /// Called when a table is full, with `keys` keys, after `seen` records: decides how to go on.
    fn filled(&mut self, seen: u64, keys: usize) {
        self.kept = keys as f64 / (seen - self.began).max(1) as f64;
        self.began = seen;
        self.grow = false;
        if self.kept <= 0.125 {
            return; // At least seven records in eight are combined: sending them all cannot cost less.
        }
        if self.uncombined.per_record().is_none() {
            self.combining = false;
            self.trial = true;
            self.left = TRIAL;
        } else {
            self.decide();
        }
    }

    /// Counts `records` that were just sent uncombined, of `seen` in all; decides again after enough of them.
    fn pass(&mut self, seen: u64, records: u64) {
        self.left = self.left.saturating_sub(records);
        if self.left > 0 {
            return;
        }
        self.began = seen;
        if self.trial {
            self.trial = false;
            self.decide();
        } else {
            // The task that owns the keys has a table as large, with look-ups as slow. Combining in a large table
            // here saves the sending, and all but one of those look-ups per key.
            self.grow = self.repeats.kept() < WORTH_GROWING;
            self.repeats = Repeats::default();
            self.combining = true;
        }
    }

    fn decide(&mut self) {
        let send = self.send.per_record().unwrap_or(0.0);
        let receive = self.receive.get().unwrap_or(send);
        let combined = self.combined.per_record().unwrap_or(0.0) + self.kept * (send + receive);
        let uncombined = self.uncombined.per_record().unwrap_or(0.0) + receive;
        // Without measurements, as under a clock that stands still, the share alone decides.
        self.combining = if uncombined > 0.0 { combined < uncombined } else { self.kept < 0.5 };
        if self.combining {
            self.patience = FIRST_PATIENCE;
        } else {
            self.left = self.patience;
            self.patience = (self.patience * 2).min(LAST_PATIENCE);
        }
    }

    fn meter(&mut self) -> &mut Meter {
        if self.combining { &mut self.combined } else { &mut self.uncombined }
    }
}

impl<I, T, G, A, N> CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    A: Combine<G::Value>,
    N: Push<Partial<G::Key, A::State>, T>,
{
    /// Begins with partial aggregates of a checkpoint.
    fn restore(&mut self) -> Result<()> {
        let Self { op, state, aggregate, table, weighed, .. } = self;
        state.restore(|(key, partial): (<G::Key as Portable>::Owned, A::State)| {
            weighed.comes(&partial);
            let key: &G::Key = key.borrow();
            let hash = G::Key::hash(key.probe());
            match table.known(hash, key.probe()) {
                // Several tasks may have had the key.
                Some(known) => guard(op, || known.guard(|state| aggregate.combine(state, partial))),
                None => drop(table.upsert(hash, key.probe(), key, || partial)),
            }
            Ok(())
        })?;
        if self.table.bytes() > TABLE {
            // Where the pool has no room, the table is sent before the first batch.
            let _ = self.reservation.try_resize(self.table.bytes_if_grown() + self.weighed.bytes());
            self.growth.keys = self.table.len();
        }
        Ok(())
    }

    /// Passes on an event, unless the table has to be sent before; returns whether it does.
    fn pass_on(&mut self, event: Event) -> bool {
        let saves = matches!(event, Event::Barrier(_)) && self.state.is_on();
        if !saves && !self.table.is_empty() {
            return false;
        }
        if let Some(open) = self.state.open(event) {
            self.saving = GradualSave::begin(open, &self.table);
            self.find_way();
        }
        self.held = None;
        self.next.event(event);
        true
    }

    /// Whether records may wait for their slots. While it waits, a record has a key and a state of its own. Where
    /// these own heap memory, each would need an allocation; such records update the table one by one.
    const MAY_WAIT: bool = !needs_drop::<<G::Key as Key>::Slot>()
        && !needs_drop::<A::State>()
        && size_of::<A::State>() <= SMALL;

    /// Processes the waiting records: updates the table with them, or sends them.
    #[inline(never)]
    fn take_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let count = waiting.count();
        self.hot.pass(count as u64);
        if self.hot.is_due()
            && let Some((hash, key)) = waiting.first()
        {
            self.hot.sample(hash, || key);
        }
        if self.choice.combining {
            let mut places = [SlotHint::default(); WAITING];
            for (place, hash) in places.iter_mut().zip(waiting.hashes()) {
                *place = self.table.locate(hash);
            }
            let mut places = places.into_iter();
            waiting.drain(|part| {
                let place = places.next().unwrap_or_default();
                match self.table.known_at(place, part.hash, part.probe()) {
                    Some(known) => guard(&self.op, || {
                        known.guard(|state| self.aggregate.combine(state, part.state));
                    }),
                    None => self.find_or_insert(part),
                }
            });
        } else {
            let Self { next, choice, .. } = self;
            choice.repeats.see(waiting.hashes());
            waiting.drain(|part| next.push(part, T::LAST));
            self.emitted += count as u64;
            self.choice.pass(self.hot.seen(), count as u64);
            self.find_way();
        }
        self.waiting = waiting;
    }

    fn find_way(&mut self) {
        self.way = if !self.choice.combining {
            UpdateMode::Uncombined
        } else if self.saving.is_some() {
            UpdateMode::Saving
        } else if Self::MAY_WAIT && !self.table.is_cache_resident() {
            UpdateMode::InSteps
        } else {
            UpdateMode::Direct
        };
    }

    /// Updates the table with one record.
    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>) {
        if !self.is_direct() {
            self.take_in_table(item);
        } else if let Some(item) = self.take_direct(&mut std::iter::once(item)) {
            self.take_behind(item);
        }
    }

    #[inline(always)]
    fn take_in_table(&mut self, item: I::Of<'_>) {
        self.weighed.changed();
        let Self { op, keys, aggregate, table, hot, .. } = self;
        let armed = arm(op);
        let (hash, key) = (keys.hash(&item), keys.key(&item));
        hot.pass(1);
        if let Some(known) = table.known(hash, key.probe()) {
            known.guard(|state| aggregate.update(state, keys.value(item)));
            armed.disarm();
        } else {
            armed.disarm();
            self.take_new(hash, item);
        }
    }

    /// Updates the table with the records of a run up to the first whose key is new, which is returned with its hash.
    #[inline(always)]
    fn take_known<'a>(
        &mut self,
        items: &mut impl Iterator<Item = I::Of<'a>>,
    ) -> Option<(u64, I::Of<'a>)> {
        let Self { op, keys, aggregate, table, weighed, hot, .. } = self;
        let mut table = table.finder();
        let mut seen = 0;
        let new = loop {
            let Some(item) = items.next() else { break None };
            weighed.changed();
            seen += 1;
            let armed = arm(op);
            let (hash, key) = (keys.hash(&item), keys.key(&item));
            if let Some(known) = table.known(hash, key.probe()) {
                known.guard(|state| aggregate.update(state, keys.value(item)));
                armed.disarm();
            } else {
                armed.disarm();
                break Some((hash, item));
            }
        };
        hot.pass(seen);
        new
    }

    /// Updates the direct-mapped keys with the records of a run up to the first whose key is not one of them, which is
    /// returned.
    #[inline(always)]
    fn take_direct<'a>(
        &mut self,
        items: &mut impl Iterator<Item = I::Of<'a>>,
    ) -> Option<I::Of<'a>> {
        let Self { op, keys, aggregate, direct, hot, .. } = self;
        let Some((direct, _)) = direct else { return items.next() };
        let mut seen = 0;
        let other = loop {
            let Some(item) = items.next() else { break None };
            let armed = arm(op);
            if let Some(known) = direct.known(keys.key(&item).probe()) {
                known.guard(|state| aggregate.update(state, keys.value(item)));
                armed.disarm();
                seen += 1;
            } else {
                armed.disarm();
                break Some(item);
            }
        };
        hot.pass(seen);
        other
    }

    /// Updates the table with a record whose key is not direct-mapped.
    #[cold]
    #[inline(never)]
    fn take_behind(&mut self, item: I::Of<'_>) {
        self.take_in_table(item);
        self.behind += 1;
        let few = FEW_BEHIND as u64 + (self.hot.seen() - self.direct_at) / MANY_BEHIND;
        if self.table.len() > FEW_BEHIND || self.behind > few {
            self.end_direct();
        }
    }

    /// Whether keys are direct-mapped; known not to be by the compiler if their type does not suit.
    #[inline(always)]
    fn is_direct(&self) -> bool {
        DirectMapped::<G::Key, A::State>::SUITS && self.direct.is_some()
    }

    /// Between two batches: moves the keys of the table into slots of their own if they are few.
    fn mind_few_keys(&mut self) {
        let seen = self.hot.seen();
        if DirectMapped::<G::Key, A::State>::SUITS
            && seen >= self.direct_at
            && !self.is_direct()
            && self.way == UpdateMode::Direct
        {
            self.direct = self.begin_direct();
            self.direct_at = seen;
            if self.is_direct() {
                self.behind = 0;
                self.growth = Growth { records: seen, keys: self.table.len() };
            } else {
                self.wait_for_few_keys();
            }
        }
    }

    /// Moves keys into slots of their own, if the pool has the memory for these.
    #[cold]
    #[inline(never)]
    fn begin_direct(&mut self) -> Option<(DirectMapped<G::Key, A::State>, Reservation)> {
        let Self { op, aggregate, table, reservation, .. } = self;
        let mut slots = reservation.another();
        if !slots.try_resize(DirectMapped::<G::Key, A::State>::BYTES) {
            return None;
        }
        let direct = guard(op, || table.take_direct(|| aggregate.start()))?;
        Some((direct, slots))
    }

    /// Moves all keys back into the table.
    fn end_direct(&mut self) {
        if self.is_direct()
            && let Some((direct, _)) = self.direct.take()
        {
            self.table.put_back(direct);
            self.growth = Growth { records: self.hot.seen(), keys: self.table.len() };
            self.wait_for_few_keys();
        }
    }

    /// Decides when to try again: later each time, unless keys were direct-mapped for long enough to pay for it.
    fn wait_for_few_keys(&mut self) {
        let seen = self.hot.seen();
        let has_paid = seen - self.direct_at >= self.direct_patience;
        self.direct_patience =
            if has_paid { FEW_KEYS_AFTER } else { self.direct_patience.saturating_mul(2) };
        self.direct_at = seen.saturating_add(self.direct_patience);
    }

    /// Adds the key of one record to the sample of keys, and updates the table with the record.
    #[cold]
    #[inline(never)]
    fn take_sampled(&mut self, item: I::Of<'_>) {
        let Self { op, keys, hot, .. } = self;
        guard(op, || hot.sample(keys.hash(&item), || format!("{:?}", keys.key(&item))));
        self.find_way();
        self.take(item);
    }

    /// Updates the table with a record while it is being saved.
    #[cold]
    #[inline(never)]
    fn take_saving(&mut self, item: I::Of<'_>) {
        let Self { op, keys, table, saving, .. } = self;
        if let Some(saving) = saving {
            guard(op, || {
                saving.before_change(table, keys.hash(&item), keys.key(&item).probe());
            });
        }
        self.take_in_table(item);
    }

    /// Saves the rest of the table at once.
    fn save_rest(&mut self) {
        if self.saving.is_some() {
            GradualSave::save_rest(&mut self.saving, &self.table);
            self.find_way();
        }
    }

    /// Adds a record with a new key to the table.
    #[inline(never)]
    fn take_new(&mut self, hash: u64, item: I::Of<'_>) {
        self.make_room();
        let Self { op, keys, aggregate, table, .. } = self;
        guard(op, || {
            let key = keys.key(&item);
            let known = table.entry(hash, key.probe(), key, || aggregate.start());
            known.guard(|state| aggregate.update(state, keys.value(item)));
        });
        self.find_way();
    }

    /// Processes a partial whose key is not in the expected slot.
    #[inline(never)]
    fn find_or_insert(&mut self, part: PartialEntry<'_, G::Key, A::State>) {
        match self.table.known(part.hash, part.probe()) {
            Some(known) => guard(&self.op, || {
                known.guard(|state| self.aggregate.combine(state, part.state));
            }),
            None => self.insert(part),
        }
    }

    /// Inserts a new key, after making room for it.
    #[inline(never)]
    fn insert(&mut self, part: PartialEntry<'_, G::Key, A::State>) {
        self.make_room();
        self.table.insert_slot(part.hash, part.key, part.arena, part.state);
        self.find_way();
    }

    #[inline(always)]
    fn make_room(&mut self) {
        if self.table.is_full() && !self.may_grow() {
            self.set_aside();
        }
    }

    /// Whether the table is to be doubled rather than sent.
    ///
    /// Always, up to the size of the second-level cache. Beyond it a look-up costs more, but less than sending, so
    /// growing pays as long as most records find their key in the table: at least every second one since it was last
    /// doubled. Keys that repeat after a long time look new to a small table; [`Repeats`] detects them.
    #[cold]
    fn may_grow(&mut self) -> bool {
        let after = 2 * self.table.bytes();
        let now = Growth { records: self.hot.seen(), keys: self.table.len() };
        let (records, keys) = (now.records - self.growth.records, now.keys - self.growth.keys);
        let grows = after <= TABLE
            || (after <= LARGEST
                && (self.choice.grow || 2 * keys as u64 <= records)
                && self.reservation.try_resize(self.table.bytes_if_grown() + self.weighed.bytes()));
        if grows {
            self.growth = now;
        }
        grows
    }

    /// Between two batches: sends the table where memory is short for what its states own on the heap, or where the
    /// pool is over its budget.
    fn mind_memory(&mut self) {
        if self.direct.as_ref().is_some_and(|(_, slots)| slots.is_over_budget()) {
            self.end_direct();
        }
        if self.full.is_some() {
            return;
        }
        if self.weighed.is_due(|| self.table.len()) {
            self.weighed.weigh(self.table.values().map(Data::heap_size));
        }
        let heap = self.weighed.bytes();
        let bytes = self.table.bytes() + heap;
        let lacks = heap > 0
            && bytes > TABLE
            && (bytes > LARGEST.min(self.reservation.pool().limit() / SHARE)
                || (bytes > self.reservation.bytes()
                    && !self.reservation.try_resize(bytes + bytes / 8)));
        if !lacks && !self.reservation.is_over_budget() {
            return;
        }
        self.end_direct();
        if self.table.is_empty() {
            // The table grew before it was last sent, and may receive no more records for a while.
            self.table = GroupTable::new();
            self.give_back();
        } else {
            self.set_aside();
        }
    }

    /// Releases the memory that was reserved for a table that has been sent.
    fn give_back(&mut self) {
        let bytes = self.table.bytes();
        let bytes = if bytes > TABLE { bytes } else { 0 };
        if bytes < self.reservation.bytes() {
            let _ = self.reservation.try_resize(bytes);
        }
    }

    /// Sets the full table aside to be sent, and begins another.
    #[cold]
    #[inline(never)]
    fn set_aside(&mut self) {
        self.end_direct();
        self.save_rest();
        // It is rare that two tables fill up in one batch. The first must then be sent, whatever the receivers'
        // credit.
        self.send_on(usize::MAX);
        let seen = self.hot.seen();
        self.choice.filled(seen, self.table.len());
        self.growth = Growth { records: seen, keys: 0 };
        self.full = Some(std::mem::take(&mut self.table).into_drain());
    }

    /// Sends up to `most` partial aggregates of the table that was set aside; returns whether any are left.
    fn send_on(&mut self, most: usize) -> bool {
        let Some(full) = &mut self.full else { return false };
        for _ in 0..most {
            let Self { next, weighed, .. } = self;
            let sent = full.slot_for_next(|key, arena, state| {
                weighed.leaves(&state);
                let hash = G::Key::slot_hash(&key, arena);
                next.push(PartialEntry { hash, key, arena, state }, T::LAST);
            });
            if sent.is_none() {
                if let Some(empty) = self.full.take()
                    && self.table.is_empty()
                    && !self.reservation.is_over_budget()
                {
                    self.table = empty.into_table();
                }
                self.give_back();
                return false;
            }
            self.emitted += 1;
        }
        true
    }
}

impl<I, T, G, A, N> Push<I, T> for CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    A: Combine<G::Value>,
    N: Push<Partial<G::Key, A::State>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        match self.way {
            UpdateMode::Direct => return self.take(item),
            UpdateMode::Sampled => return self.take_sampled(item),
            UpdateMode::Saving => return self.take_saving(item),
            UpdateMode::InSteps | UpdateMode::Uncombined => {}
        }
        let Self { op, keys, aggregate, table, waiting, way, .. } = self;
        guard(op, || {
            let key = keys.key(&item);
            let (probe, hash) = (key.probe(), keys.hash(&item));
            if *way == UpdateMode::InSteps {
                table.prefetch(hash);
            }
            let slot = waiting.store(key, probe);
            // The value may be the record that the key is borrowed from, so the key is stored before.
            let mut state = aggregate.start();
            aggregate.update(&mut state, keys.value(item));
            waiting.push_slot(hash, slot, state);
        });
        if self.waiting.count() >= WAITING {
            self.take_waiting();
        }
    }

    #[inline(always)]
    fn push_run<'a>(&mut self, mut items: impl Iterator<Item = I::Of<'a>>, time: T) {
        loop {
            while self.way == UpdateMode::Direct {
                if self.is_direct() {
                    match self.take_direct(&mut items) {
                        Some(item) => self.take_behind(item),
                        None => return,
                    }
                    continue;
                }
                match self.take_known(&mut items) {
                    Some((hash, item)) => self.take_new(hash, item),
                    None => return,
                }
            }
            match items.next() {
                Some(item) => self.push(item, time),
                None => return,
            }
        }
    }
}

impl<I, T, G, A, N> Pipe for CombinePush<I, T, G, A, N>
where
    I: Record + ?Sized,
    T: Time,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    A: Combine<G::Value>,
    N: Push<Partial<G::Key, A::State>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        match event {
            // Results are known only at the end, and do not carry the time of their records.
            Event::Watermark(_) | Event::Idle | Event::Partition(_) => self.next.event(event),
            // Everything combined so far must be sent before these events, or saved.
            Event::Barrier(_) | Event::Round(_) | Event::End => {
                self.take_waiting();
                self.end_direct();
                self.save_rest();
                self.held = Some(event);
            }
        }
    }

    fn save_part(&mut self) -> bool {
        let has_saved =
            self.saving.is_some() && !GradualSave::save_part(&mut self.saving, &self.table);
        if has_saved {
            self.find_way();
        }
        self.next.save_part() || self.saving.is_some()
    }

    fn resume(&mut self) -> Flow {
        self.choice.meter().stop(self.clock.now(), self.hot.seen());
        self.mind_memory();
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            let (began, before) = (self.clock.now(), self.emitted);
            if self.send_on(CHUNK) {
                let (took, sent) = (self.clock.now() - began, self.emitted - before);
                self.choice.send.add(took, sent);
                return Flow::Busy;
            }
            let Some(event) = self.held else { break };
            if !self.pass_on(event) {
                self.growth = Growth { records: self.hot.seen(), keys: 0 };
                self.full = Some(std::mem::take(&mut self.table).into_drain());
            }
        }
        self.mind_few_keys();
        self.choice.meter().start(self.clock.now(), self.hot.seen());
        if self.way == UpdateMode::Direct && self.hot.is_due() {
            self.way = UpdateMode::Sampled;
        }
        Flow::Ready
    }

    fn is_full(&mut self) -> bool {
        self.next.is_full()
    }

    fn report(&mut self, report: &mut Report) {
        report.emitted(self.op.id(), self.emitted);
        report.hot(self.op.id(), &self.hot);
        self.next.report(report);
    }
}

#[cfg(test)]
mod tests;
