//! The table of the task that owns the keys: aggregates by key, emitted when the input ends.
//!
//! When the memory budget does not allow the table to grow, its keys stay and continue to be updated. Records of
//! other keys are written to disk (see [`overflow`](crate::support::overflow)). After the table has been emitted,
//! they are read back and aggregated part by part. Where the heap memory of the states keeps growing, the states are
//! written to disk too.

use super::KeyBy;
use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::Clock;
use crate::data::{Batch, Data, Key, Portable, Record, Wire};
use crate::error::Result;
use crate::exchange::{Partial, PartialEntry};
use crate::flow::{CHUNK, Event, Flow, Op, Pipe, Push, guard, pump};
use crate::metrics::Report;
use crate::operators::aggregates::{Aggregate, Combine};
use crate::plan::TaskContext;
use crate::state::{Drain, GroupTable, HeapEstimate, SlotHint};
use crate::stream::Chain;
use crate::support::cost::{Cost, Meter};
use crate::support::evict::{Evicted, UNACCOUNTED, begin_save, evict, restore, restore_all};
use crate::support::gradual_save::{GradualSave, saves_small_in_parts};
use crate::support::overflow::{Overflow, PartReader};
use crate::time::Time;
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::Arc;

/// How a record of type `I` updates the table.
pub trait Upsert<I: Record + ?Sized>: Clone + Send + 'static {
    /// The key of the table.
    type Key: Key<Owned: Borrow<Self::Key>> + ?Sized;
    /// The state per key.
    #[doc(hidden)]
    type State: Data;
    /// The result per key.
    type Output: Data;
    /// The form in which a record is written to disk.
    #[doc(hidden)]
    type Spilled: Wire + ?Sized;

    /// The hash of the record's key.
    #[doc(hidden)]
    fn hash(&self, item: &I::Of<'_>) -> u64;
    /// Passes the record's key to `see`, with its hash.
    #[doc(hidden)]
    fn with_key<R>(
        &self,
        item: &I::Of<'_>,
        see: impl FnOnce(u64, <Self::Key as Key>::Probe<'_>) -> R,
    ) -> R;
    /// Updates the table with a record.
    #[doc(hidden)]
    fn absorb(&self, table: &mut GroupTable<Self::Key, Self::State>, item: I::Of<'_>);
    /// As [`absorb`](Self::absorb), for a record whose key is probably in this slot of the table.
    #[doc(hidden)]
    fn absorb_at(
        &self,
        table: &mut GroupTable<Self::Key, Self::State>,
        place: SlotHint,
        item: I::Of<'_>,
    );
    /// Converts a record into the form that is written to disk.
    #[doc(hidden)]
    fn spill<R>(item: I::Of<'_>, write: impl FnOnce(&<Self::Spilled as Record>::Of<'_>) -> R) -> R;
    /// Converts it back.
    #[doc(hidden)]
    fn restore<R>(item: <Self::Spilled as Record>::Of<'_>, read: impl FnOnce(I::Of<'_>) -> R) -> R;
    /// The hash of the key of a record that was written to disk.
    #[doc(hidden)]
    fn spilled_hash(&self, item: &<Self::Spilled as Record>::Of<'_>) -> u64;
    /// The result of a key's state.
    #[doc(hidden)]
    fn finish(&self, state: Self::State) -> Self::Output;
}

/// Absorbs records that are values of their key.
pub struct Values<A, G> {
    pub(super) aggregate: Arc<A>,
    pub(super) keys: G,
}

impl<A, G: Clone> Clone for Values<A, G> {
    fn clone(&self) -> Self {
        Self { aggregate: Arc::clone(&self.aggregate), keys: self.keys.clone() }
    }
}

impl<I, A, G> Upsert<I> for Values<A, G>
where
    I: Wire + ?Sized,
    G: KeyBy<I, Key: Key<Owned: Borrow<G::Key>>>,
    A: Aggregate<G::Value>,
{
    type Key = G::Key;
    type State = A::State;
    type Output = A::Output;
    type Spilled = I;

    #[inline(always)]
    fn hash(&self, item: &I::Of<'_>) -> u64 {
        self.keys.hash(item)
    }

    fn with_key<R>(
        &self,
        item: &I::Of<'_>,
        see: impl FnOnce(u64, <G::Key as Key>::Probe<'_>) -> R,
    ) -> R {
        see(self.keys.hash(item), self.keys.key(item).probe())
    }

    #[inline(always)]
    fn absorb(&self, table: &mut GroupTable<G::Key, A::State>, item: I::Of<'_>) {
        let (hash, key) = (self.keys.hash(&item), self.keys.key(&item));
        let known = table.entry(hash, key.probe(), key, || self.aggregate.start());
        known.guard(|state| self.aggregate.update(state, self.keys.value(item)));
    }

    #[inline(always)]
    fn absorb_at(
        &self,
        table: &mut GroupTable<G::Key, A::State>,
        place: SlotHint,
        item: I::Of<'_>,
    ) {
        let (hash, key) = (self.keys.hash(&item), self.keys.key(&item));
        match table.known_at(place, hash, key.probe()) {
            Some(known) => {
                known.guard(|state| self.aggregate.update(state, self.keys.value(item)));
            }
            None => self.absorb(table, item),
        }
    }

    fn spill<R>(item: I::Of<'_>, write: impl FnOnce(&I::Of<'_>) -> R) -> R {
        write(&item)
    }

    fn restore<R>(item: I::Of<'_>, read: impl FnOnce(I::Of<'_>) -> R) -> R {
        read(item)
    }

    fn spilled_hash(&self, item: &I::Of<'_>) -> u64 {
        self.keys.hash(item)
    }

    fn finish(&self, state: A::State) -> A::Output {
        self.aggregate.finish(state)
    }
}

/// Absorbs partial aggregates from other tasks.
pub struct Partials<A, K: ?Sized, V: ?Sized> {
    pub(super) aggregate: Arc<A>,
    types: PhantomData<fn(&K, &V)>,
}

impl<A, K: ?Sized, V: ?Sized> Partials<A, K, V> {
    pub(super) fn new(aggregate: Arc<A>) -> Self {
        Self { aggregate, types: PhantomData }
    }
}

impl<A, K: ?Sized, V: ?Sized> Clone for Partials<A, K, V> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.aggregate))
    }
}

impl<K, V, A> Upsert<Partial<K, A::State>> for Partials<A, K, V>
where
    K: Key<Owned: Borrow<K>> + ?Sized,
    V: Record + ?Sized,
    A: Combine<V>,
{
    type Key = K;
    type State = A::State;
    type Output = A::Output;
    type Spilled = (u64, K::Owned, A::State);

    #[inline(always)]
    fn hash(&self, part: &PartialEntry<'_, K, A::State>) -> u64 {
        part.hash
    }

    fn with_key<R>(
        &self,
        part: &PartialEntry<'_, K, A::State>,
        see: impl FnOnce(u64, K::Probe<'_>) -> R,
    ) -> R {
        see(part.hash, part.probe())
    }

    #[inline(always)]
    fn absorb(&self, table: &mut GroupTable<K, A::State>, part: PartialEntry<'_, K, A::State>) {
        match table.known(part.hash, part.probe()) {
            Some(known) => known.guard(|state| self.aggregate.combine(state, part.state)),
            // The first partial of a key becomes its state.
            None => table.insert_slot(part.hash, part.key, part.arena, part.state),
        }
    }

    #[inline(always)]
    fn absorb_at(
        &self,
        table: &mut GroupTable<K, A::State>,
        place: SlotHint,
        part: PartialEntry<'_, K, A::State>,
    ) {
        match table.known_at(place, part.hash, part.probe()) {
            Some(known) => known.guard(|state| self.aggregate.combine(state, part.state)),
            None => self.absorb(table, part),
        }
    }

    fn spill<R>(
        part: PartialEntry<'_, K, A::State>,
        write: impl FnOnce(&(u64, K::Owned, A::State)) -> R,
    ) -> R {
        write(&(part.hash, K::take(part.key, part.arena), part.state))
    }

    fn restore<R>(
        (hash, key, state): (u64, K::Owned, A::State),
        read: impl FnOnce(PartialEntry<'_, K, A::State>) -> R,
    ) -> R {
        let (key, mut arena): (&K, _) = (key.borrow(), K::Arena::default());
        let key = key.store(key.probe(), &mut arena);
        read(PartialEntry { hash, key, arena: &arena, state })
    }

    fn spilled_hash(&self, (hash, ..): &(u64, K::Owned, A::State)) -> u64 {
        *hash
    }

    fn finish(&self, state: A::State) -> A::Output {
        self.aggregate.finish(state)
    }
}

/// The chain that ends in a table of aggregates.
pub struct Grouped<C, B> {
    pub(super) prev: C,
    pub(super) op: usize,
    pub(super) absorb: B,
    /// Publishes what it costs to receive a record.
    pub(super) cost: Cost,
}

/// What a table emits: a key and its result.
pub type Row<I, B> = (<<B as Upsert<I>>::Key as Portable>::Owned, <B as Upsert<I>>::Output);

impl<C, B> Chain for Grouped<C, B>
where
    C: Chain<Item: Portable>,
    B: Upsert<C::Item>,
{
    type Item = Row<C::Item, B>;
    type Time = C::Time;
    type Task<N: Push<Self::Item, C::Time> + 'static> = C::Task<GroupPush<C::Item, C::Time, B, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, C::Time> + 'static,
    {
        let mut core = Core {
            op: cx.op(self.op),
            absorb: self.absorb.clone(),
            table: GroupTable::new(),
            weighed: HeapEstimate::new(),
            overflow: Overflow::new(cx, self.op),
            saving: None,
        };
        let state = cx.state::<SavedState<C::Item, B>>(self.op, "table", Redistribution::ByKey);
        let Core { table, weighed, overflow, .. } = &mut core;
        restore_all(&state, table, weighed, overflow)?;
        let group = GroupPush {
            core,
            state,
            waiting: Waiting { hashes: Vec::with_capacity(WAITING), items: Default::default() },
            phase: Phase::Taking,
            held: Event::End,
            received: 0,
            meter: Meter::default(),
            cost: self.cost.clone(),
            clock: cx.clock.clone(),
            emitted: 0,
            next,
            time: PhantomData,
        };
        self.prev.attach(cx, group)
    }
}

/// A table of aggregates in a running task.
pub struct GroupPush<I, T, B, N>
where
    I: Portable + ?Sized,
    B: Upsert<I>,
{
    core: Core<I, B>,
    state: StateHandle,
    /// Records that wait until their slots have been prefetched.
    waiting: Waiting<I>,
    phase: Phase<I, B>,
    /// The event that is held back until the table has been emitted.
    held: Event,
    received: u64,
    meter: Meter,
    cost: Cost,
    clock: Clock,
    emitted: u64,
    next: N,
    time: PhantomData<fn(T)>,
}

enum Phase<I: Portable + ?Sized, B: Upsert<I>> {
    /// Records arrive.
    Taking,
    /// The input has ended; the table is emitted.
    Giving(Drain<B::Key, B::State>),
    /// A part is read back from disk.
    Reading(PartReader<B::Spilled, EvictedState<I, B>>),
    /// The job has failed, and the held event is never passed on.
    Over,
}

struct Core<I: Portable + ?Sized, B: Upsert<I>> {
    op: Op,
    absorb: B,
    table: GroupTable<B::Key, B::State>,
    /// What states own on the heap.
    weighed: HeapEstimate<B::State>,
    /// Holds the records whose keys are not in the table and have no room there.
    overflow: Overflow<B::Spilled, EvictedState<I, B>>,
    /// What is still to be saved of the table as it was at a barrier.
    saving: Option<GradualSave>,
}

/// A state on disk.
type EvictedState<I, B> = Evicted<<B as Upsert<I>>::Key, <B as Upsert<I>>::State>;

/// A key with its state, in a checkpoint.
type SavedState<I, B> = (<<B as Upsert<I>>::Key as Portable>::Owned, <B as Upsert<I>>::State);

impl<I: Portable + ?Sized, B: Upsert<I>> Core<I, B> {
    /// Updates the table with a record, or writes the record to disk when the table must not grow.
    #[inline(always)]
    fn take(&mut self, item: I::Of<'_>, place: Option<SlotHint>) {
        if (self.table.is_full() || self.overflow.is_frozen()) && !self.has_room_for(&item) {
            self.write(item);
            return;
        }
        self.weighed.changed();
        let Self { op, absorb, table, .. } = self;
        guard(op, || match place {
            Some(place) => absorb.absorb_at(table, place, item),
            None => absorb.absorb(table, item),
        });
    }

    /// Whether the record's key is in the table, or the table may grow.
    #[inline(never)]
    fn has_room_for(&mut self, item: &I::Of<'_>) -> bool {
        self.overflow.may_grow(self.table.bytes_if_grown() + self.weighed.bytes())
            || self.absorb.with_key(item, |hash, probe| self.table.find(hash, probe).is_some())
    }

    #[cold]
    #[inline(never)]
    fn write(&mut self, item: I::Of<'_>) {
        let hash = self.absorb.hash(&item);
        let overflow = &mut self.overflow;
        if let Err(error) = B::spill(item, |spilled| overflow.write(hash, spilled)) {
            self.op.fail(error);
        }
    }

    fn account(&mut self) {
        if self.weighed.is_due(|| self.table.len()) {
            self.weighed.weigh(self.table.values().map(Data::heap_size));
        }
        if self.overflow.account(self.table.bytes() + self.weighed.bytes()) {
            self.evict();
        }
    }

    /// Writes all states to disk.
    #[cold]
    #[inline(never)]
    fn evict(&mut self) {
        if self.overflow.is_hopeless(self.table.len(), self.weighed.bytes()) {
            return self.op.fail(self.overflow.too_large(self.table.len()));
        }
        let table = self.take_table();
        if let Err(error) = evict(table, &mut self.overflow) {
            self.op.fail(error);
        }
    }

    /// Saves the table at this barrier: at once if it is small, else in parts, while records change it.
    fn begin_save(&mut self, state: &StateHandle, barrier: Event) {
        self.save_rest();
        match begin_save(state, barrier, &self.table, &mut self.overflow) {
            Ok(saving) => self.saving = saving,
            Err(error) => self.op.fail(error),
        }
    }

    /// Saves the rest of the table at once.
    fn save_rest(&mut self) {
        GradualSave::save_rest(&mut self.saving, &self.table);
    }

    /// Takes the table out, to be emitted or written to disk.
    fn take_table(&mut self) -> Drain<B::Key, B::State> {
        self.save_rest();
        self.weighed = HeapEstimate::new();
        std::mem::take(&mut self.table).into_drain()
    }
}

/// Records that wait for their slots together, with the hashes of their keys.
struct Waiting<I: Portable + ?Sized> {
    hashes: Vec<u64>,
    items: I::Batch,
}

/// How many records wait together: enough to keep memory busy, and few enough that the prefetched slots are still in
/// the nearest cache.
const WAITING: usize = 64;

impl<I, T, B, N> Push<I, T> for GroupPush<I, T, B, N>
where
    I: Portable + ?Sized,
    B: Upsert<I>,
    T: Time,
    N: Push<Row<I, B>, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: T) {
        self.received += 1;
        self.core.put(&mut self.waiting, item);
    }
}

impl<I: Portable + ?Sized, B: Upsert<I>> Core<I, B> {
    /// Processes a record: at once, or with others when the table is larger than the caches.
    #[inline(always)]
    fn put(&mut self, waiting: &mut Waiting<I>, item: I::Of<'_>) {
        // A table that is saved in parts is changed only by `take_all`.
        let at_once = !saves_small_in_parts::<B::State>() || self.saving.is_none();
        if self.table.is_cache_resident() && waiting.hashes.is_empty() && at_once {
            self.take(item, None);
            return;
        }
        let hash = guard(&self.op, || self.absorb.hash(&item));
        self.table.prefetch(hash);
        waiting.hashes.push(hash);
        waiting.items.push(item);
        if waiting.hashes.len() >= WAITING {
            self.take_all(waiting);
        }
    }

    #[inline(never)]
    fn take_all(&mut self, waiting: &mut Waiting<I>) {
        if self.saving.is_some() {
            return self.take_all_saving(waiting);
        }
        let mut places = [SlotHint::default(); WAITING];
        for (place, hash) in places.iter_mut().zip(waiting.hashes.drain(..)) {
            *place = self.table.locate(hash);
        }
        let mut places = places.into_iter();
        waiting.items.drain(|item| self.take(item, places.next()));
    }

    /// As `take_all`, while the table is being saved.
    #[cold]
    #[inline(never)]
    fn take_all_saving(&mut self, waiting: &mut Waiting<I>) {
        waiting.hashes.clear();
        waiting.items.drain(|item| {
            self.save_before(&item);
            self.take(item, None);
        });
    }

    /// Saves the state of a record's key before it changes.
    fn save_before(&mut self, item: &I::Of<'_>) {
        let Self { op, absorb, table, saving, .. } = self;
        let Some(saving) = saving else { return };
        guard(op, || {
            absorb.with_key(item, |hash, probe| saving.before_change(table, hash, probe));
        });
    }
}

impl<I, T, B, N> GroupPush<I, T, B, N>
where
    I: Portable + ?Sized,
    B: Upsert<I>,
    T: Time,
    N: Push<Row<I, B>, T>,
{
    /// Starts to emit the table, and completes the parts that have been written to disk.
    fn give(&mut self) {
        self.core.take_all(&mut self.waiting);
        if let Err(error) = self.core.overflow.set_aside() {
            self.core.op.fail(error);
        }
        self.phase = Phase::Giving(self.core.take_table());
    }

    /// The table has been emitted: continues with the next part on disk, if there is one.
    fn next_part(&mut self) {
        self.phase = match self.core.overflow.next_part() {
            Some(reader) => Phase::Reading(reader),
            None => {
                self.next.event(self.held);
                Phase::Taking
            }
        };
    }

    /// Reads a chunk of a part back; returns whether there is more.
    fn read(
        core: &mut Core<I, B>,
        waiting: &mut Waiting<I>,
        reader: &mut PartReader<B::Spilled, EvictedState<I, B>>,
    ) -> Result<bool> {
        let accounted = core.weighed.bytes();
        let (op, absorb) = (core.op.clone(), core.absorb.clone());
        for _ in 0..CHUNK {
            if let Some(state) = reader.states.next(|state| state.0, |state| state)? {
                restore(state, &mut core.table, &mut core.weighed, &mut core.overflow)?;
                if core.weighed.bytes() >= accounted + UNACCOUNTED {
                    break;
                }
                continue;
            }
            let read = reader.records.next(
                |spilled| guard(&op, || absorb.spilled_hash(spilled)),
                |spilled| B::restore(spilled, |item| core.put(waiting, item)),
            )?;
            if read.is_none() {
                return Ok(false);
            }
        }
        core.account();
        Ok(true)
    }
}

impl<I, T, B, N> Pipe for GroupPush<I, T, B, N>
where
    I: Portable + ?Sized,
    B: Upsert<I>,
    T: Time,
    N: Push<Row<I, B>, T>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Round(_) | Event::End => {
                // All of it is sent before the end.
                self.core.save_rest();
                self.state.save(event, |_| ());
                self.held = event;
                self.give();
            }
            other => {
                self.core.take_all(&mut self.waiting);
                if let Event::Barrier(_) = other {
                    self.core.begin_save(&self.state, other);
                }
                self.next.event(other);
            }
        }
    }

    fn save_part(&mut self) -> bool {
        let saves = GradualSave::save_part(&mut self.core.saving, &self.core.table);
        self.next.save_part() || saves
    }

    fn resume(&mut self) -> Flow {
        match &mut self.phase {
            Phase::Taking => {
                self.core.account();
                self.meter.stop(self.clock.now(), self.received);
                let flow = self.next.resume();
                if let Some(cost) = self.meter.per_record() {
                    self.cost.set(cost);
                }
                self.meter.start(self.clock.now(), self.received);
                flow
            }
            Phase::Over => self.next.resume(),
            Phase::Giving(rows) => {
                let Self { core, emitted, next, .. } = self;
                let flow = pump(next, |next| match rows.next() {
                    Some((key, state)) => {
                        let output = guard(&core.op, || core.absorb.finish(state));
                        *emitted += 1;
                        next.push((key, output), T::LAST);
                        true
                    }
                    None => false,
                });
                if flow == Flow::Ready {
                    self.next_part();
                    return Flow::Busy;
                }
                flow
            }
            Phase::Reading(reader) => {
                match Self::read(&mut self.core, &mut self.waiting, reader) {
                    Ok(true) => {}
                    Ok(false) => self.give(),
                    Err(error) => {
                        self.core.op.fail(error);
                        self.phase = Phase::Over;
                    }
                }
                Flow::Busy
            }
        }
    }

    fn is_full(&mut self) -> bool {
        false
    }

    fn report(&mut self, report: &mut Report) {
        let op = self.core.op.id();
        report.emitted(op, self.emitted);
        report.keys(op, self.emitted.max(self.core.table.len() as u64));
        report.spilled(op, self.core.overflow.bytes());
        self.next.report(report);
    }
}
