//! The table of keys, their timers, and the memory of both. `disk` moves keys out of the table and back; `saving` saves them at
//! barriers; `beyond` is for operators with tables of their own, whose keys are here once memory is short.

mod beyond;
mod disk;
mod saving;

use super::budget::Budget;
use super::calendar::{AHEAD, Calendar};
use super::cold::Cold;
use super::{Armed, Clocks, Firing, TimedState, TimerClock, TimerPolicy};
use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::{Clock, Nanos};
use crate::data::{Key, Portable};
use crate::error::{Error, Result};
use crate::flow::{Event, Op};
use crate::plan::TaskContext;
use crate::state::{GroupTable, HeapEstimate, Known, SpillDir, Timers};
use crate::support::gradual_save::GradualSave;
use crate::support::saved_keys::restore_keys;
use crate::support::saved_watermark::SavedWatermark;
use crate::time::Timestamp;
use disk::{PORTION, Pace};

/// What a timer carries: the hash of its key and the ticket of its arming.
type Alarm = (u64, u64);

/// The entry of a key in the table.
struct Slot<S: TimedState> {
    armed: <S::Clocks as Clocks>::Armed,
    state: S,
}

/// The timers of one clock.
struct Wheel {
    timers: Timers<Alarm>,
    /// The number of keys that have an armed timer.
    armed: usize,
}

impl Wheel {
    fn new() -> Self {
        Self { timers: Timers::new(), armed: 0 }
    }
}

/// The number of superseded timers that may stay, in addition to as many as are armed.
const SUPERSEDED: usize = 1024;
/// A number of spent keys that are not worth dropping.
const FEW: usize = 64;
/// The number of slots for each key, beside some, at which a table with a calendar is too large for its keys.
const SPARSE: usize = 16;
/// Bytes of the reservation that are not worth releasing.
const SPARE: usize = 4096;

/// The keys of a task with their states and timers.
pub struct KeyedTimers<K: Key + ?Sized, S: TimedState> {
    table: GroupTable<K, Slot<S>>,
    /// The keys that are on disk, and in no table.
    cold: Cold<K, S>,
    /// The hash from which on keys are moved to disk next.
    hand: u64,
    pace: Pace,
    accounts: Accounts<S>,
    /// In place of timers, where keys are woken in any order.
    calendar: Calendar,
    clock: Clock,
    /// An event that waits until everything that is due before it is done.
    held: Option<Event>,
    /// The last watermark that was passed on.
    watermark: Option<Timestamp>,
    /// Whether the input has ended, or that of a round.
    ended: bool,
    /// At the end, the position of the next key in the table.
    ending: usize,
    saved: Saved,
    /// What is still to be saved of the table as it was at a barrier. Until then, keys stay in their slots.
    saving: Option<GradualSave>,
}

/// The places of the table and the watermark in checkpoints.
struct Saved {
    table: StateHandle,
    watermark: SavedWatermark,
}

/// Totals over all keys.
struct Accounts<S: TimedState> {
    op: Op,
    /// For the message when memory is short: what is kept, and a hint on what would need less.
    words: (&'static str, &'static str),
    /// One for each clock.
    wheels: Vec<Wheel>,
    /// The number of armings so far, from which tickets are taken.
    tickets: u64,
    /// The number of keys in the table that are not spent.
    live: usize,
    /// The bytes that states report.
    heap: usize,
    weighed: HeapEstimate<S::Owned>,
    /// The bytes of states that have come with what they own, and were not measured since.
    unweighed: usize,
    /// The bytes of states that have come so since memory was accounted for, and how many may.
    came: usize,
    most: usize,
    /// The bytes of records that the policy holds.
    beside: usize,
    budget: Budget,
    failed: bool,
    /// A copy of why, while a checkpoint is restored.
    failure: Option<Error>,
}

/// The contribution of a state to the totals.
#[derive(Clone, Copy)]
struct Counts {
    spent: bool,
    heap: usize,
}

impl Counts {
    #[inline(always)]
    fn of(state: &impl TimedState) -> Self {
        Self { spent: state.is_spent(), heap: state.heap() }
    }
}

/// Access to the state of a key. Call [`leave`](Self::leave) afterwards to arm its timer and to account for it.
#[must_use]
pub(crate) struct Visit<'w, K: Key + ?Sized, S: TimedState> {
    known: Known<'w, K, Slot<S>>,
    slot: usize,
    before: Counts,
    /// When the key was due, where there is a calendar.
    due: Option<i64>,
    accounts: &'w mut Accounts<S>,
    calendar: &'w mut Calendar,
}

impl<K: Key + ?Sized, S: TimedState> Visit<'_, K, S> {
    /// The state of the key.
    #[inline(always)]
    pub(crate) fn state(&mut self) -> &mut S {
        &mut self.known.value.state
    }

    /// Calls a closure with the key's state; the closure may refuse a value of the key.
    #[inline(always)]
    pub(crate) fn guard<R>(&mut self, closure: impl FnOnce(&mut S) -> R) -> R {
        self.known.reborrow().guard(|slot| closure(&mut slot.state))
    }

    /// Calls a closure with the key, its state, and the measurement of payloads.
    #[inline(always)]
    pub(crate) fn see<R>(
        &mut self,
        see: impl FnOnce(&K, &mut S, &mut HeapEstimate<S::Owned>) -> R,
    ) -> R {
        let weighed = &mut self.accounts.weighed;
        self.known.reborrow().see(|key, slot| see(key, &mut slot.state, weighed))
    }

    /// A copy of the key.
    pub(crate) fn key(&self) -> <K as Portable>::Owned {
        self.known.key()
    }

    /// Ends the access: accounts for what has changed and arms the key's timer. `hash` must be the key's.
    #[inline(always)]
    pub(crate) fn leave(self, hash: u64) {
        let Self { known: Known { value: entry, .. }, slot, before, due, accounts, calendar } =
            self;
        accounts.changed(before, Counts::of(&entry.state));
        if !S::Clocks::ANY_ORDER {
            accounts.arm(hash, entry);
        } else if let Some(now) = entry.state.due(TimerClock::Event)
            && due != Some(now)
        {
            calendar.set(slot, due, now);
        }
    }
}

impl<K: Key + ?Sized, S: TimedState> KeyedTimers<K, S> {
    /// Creates a table, which is empty unless the job goes on from a checkpoint. When memory is short, the error message
    /// begins with `what` is kept, in the plural, and ends with `hint`, what would need less.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read, or what is kept there fits neither into memory nor on the disk.
    pub(crate) fn new(
        cx: &TaskContext<'_>,
        op: usize,
        what: &'static str,
        hint: &'static str,
    ) -> Result<Self> {
        let (watermark, before) = SavedWatermark::of_owner(cx, op)?;
        let mut keys = Self::without_time(cx, op, "keys", (what, hint))?;
        (keys.watermark, keys.saved.watermark) = (before, watermark);
        Ok(keys)
    }

    /// As [`new`](Self::new), for an operator that needs no watermark: its keys are never due, and are in checkpoints under the
    /// name `state`.
    pub(crate) fn without_time(
        cx: &TaskContext<'_>,
        op: usize,
        state: &str,
        words: (&'static str, &'static str),
    ) -> Result<Self> {
        let table = cx.state::<(K::Owned, S)>(op, state, Redistribution::ByKey);
        Self::restored(cx, op, Budget::of(cx, op, 1), table, words)
    }

    fn restored(
        cx: &TaskContext<'_>,
        op: usize,
        budget: Budget,
        table: StateHandle,
        words: (&'static str, &'static str),
    ) -> Result<Self> {
        let mut keys = Self::of(cx.op(op), budget, cx.spill.clone(), cx.clock.clone(), words);
        if table.is_on() {
            keys.cold.begin_log(cx.spill);
        }
        // First, as it also does again how keys came back that were in memory, of which some may go to disk.
        keys.cold.restore(&table, cx.spill, |state, entry| entry.due = times_of(state))?;
        restore_keys::<K, S>(&table, |hash, key, state| keys.restore_key(hash, key, state))?;
        if keys.accounts.budget.is_in_memory() {
            keys.return_all()?;
        }
        keys.saved.table = table;
        Ok(keys)
    }

    fn of(
        op: Op,
        budget: Budget,
        spill: SpillDir,
        clock: Clock,
        words: (&'static str, &'static str),
    ) -> Self {
        let clocks = <S::Clocks as Clocks>::Armed::default().as_ref().len();
        let accounts = Accounts {
            op,
            words,
            wheels: (0..clocks).map(|_| Wheel::new()).collect(),
            tickets: 0,
            live: 0,
            heap: 0,
            weighed: HeapEstimate::new(),
            unweighed: 0,
            came: 0,
            most: disk::most_that_come(budget.base()),
            beside: 0,
            budget,
            failed: false,
            failure: None,
        };
        let table = GroupTable::new();
        let cache = disk::cache(accounts.budget.base());
        let cold = Cold::new(spill, cache, if S::Clocks::ANY_ORDER { 1 } else { clocks });
        let saved = Saved { table: StateHandle::none(), watermark: SavedWatermark::none() };
        let mut keys = Self {
            table,
            cold,
            hand: 0,
            pace: Pace::default(),
            accounts,
            calendar: Calendar::new(),
            clock,
            held: None,
            watermark: None,
            ended: false,
            ending: 0,
            saved,
            saving: None,
        };
        keys.set_calendar();
        keys
    }

    /// Sets the times of all keys in the calendar, if there is one.
    fn set_calendar(&mut self) {
        if !S::Clocks::ANY_ORDER {
            return;
        }
        self.calendar.reset(self.table.slots());
        for (slot, entry) in self.table.places() {
            if let Some(due) = entry.state.due(TimerClock::Event) {
                self.calendar.set_again(slot, due);
            }
        }
    }

    pub(crate) fn op(&self) -> &Op {
        &self.accounts.op
    }

    /// The last watermark that was passed on.
    #[inline(always)]
    pub(crate) fn watermark(&self) -> Option<Timestamp> {
        self.watermark
    }

    /// The number of keys whose states are not spent.
    pub(crate) fn live(&self) -> usize {
        self.accounts.live + self.cold.len()
    }

    /// The bytes written to disk.
    pub(crate) fn spilled(&self) -> u64 {
        self.cold.written()
    }

    /// Whether the job was failed for lack of memory, or of a disk.
    pub(crate) fn has_failed(&self) -> bool {
        self.accounts.failed
    }

    /// Prefetches the probable slot of a key that is about to be visited, if the table is large.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.table.prefetch_slot(hash);
    }

    /// Goes to a key, whose state `start` makes if it is new. `None` when there is no room for a new one, nor on disk, and once
    /// the job has failed: what a key had may be on disk, and cannot be read then.
    #[inline(always)]
    pub(crate) fn visit(
        &mut self,
        hash: u64,
        key: &K,
        start: impl FnOnce() -> S,
    ) -> Option<Visit<'_, K, S>> {
        let probe = key.probe();
        if self.table.is_full() && !self.has_room_for(hash, probe) {
            return None;
        }
        if self.saving.is_some() {
            self.save_before(hash, probe);
        }
        let Self { table, cold, accounts, calendar, .. } = self;
        let mut is_new = false;
        let (slot, known) = table.place_or_close(hash, probe, key, || {
            is_new = true;
            // Here, and not on the path of known keys.
            let returned =
                if cold.is_empty() { None } else { accounts.return_key(cold, hash, key) };
            let state = returned.unwrap_or_else(start);
            accounts.changed(Counts { spent: true, heap: 0 }, Counts::of(&state));
            (Slot { armed: Default::default(), state }, accounts.is_crowded())
        });
        if accounts.failed {
            return None;
        }
        let state = &known.value.state;
        let before = Counts::of(state);
        let due = if S::Clocks::ANY_ORDER && !is_new { state.due(TimerClock::Event) } else { None };
        Some(Visit { known, slot, before, due, accounts, calendar })
    }

    /// Whether a key is in the table, or there is room for it, for which the table may grow.
    #[cold]
    #[inline(never)]
    fn has_room_for(&mut self, hash: u64, probe: K::Probe<'_>) -> bool {
        if self.table.find(hash, probe).is_some() {
            return true;
        }
        if self.accounts.failed {
            return false;
        }
        if self.accounts.is_crowded() {
            self.accounts.came = 0;
            self.table.reopen();
            if !self.fits() {
                return false;
            }
            if !self.table.is_full() {
                return true;
            }
        }
        // In place of growing, spent keys are dropped if they are most.
        if self.keeps_spent() && self.table.len() > 2 * self.accounts.live + FEW {
            self.rebuild(2 * self.accounts.live);
        } else if !self.may_grow() && !self.makes_room() {
            // The bytes of the payloads may have been estimated too high.
            self.weigh();
            if !self.may_grow() && !self.evicts() {
                return false;
            }
        }
        // Rarely, too, if keys have less room than there are slots.
        if self.table.is_full() {
            self.save_rest();
            self.table.grow();
            self.set_calendar();
        }
        true
    }

    /// Whether keys stay in the table when they are spent.
    fn keeps_spent(&self) -> bool {
        S::Clocks::ANY_ORDER || self.saving.is_some() || self.table.has_long_keys()
    }

    /// Whether there is memory for the table to grow; reserves it.
    fn may_grow(&mut self) -> bool {
        let days = if S::Clocks::ANY_ORDER { 2 * self.table.slots() } else { 0 };
        self.has_memory(self.table.bytes_if_grown() + days)
    }

    /// Holds an event, which is passed on when everything that is due before it is done.
    pub(super) fn hold(&mut self, event: Event) {
        if event.completes() {
            self.ended = true;
            self.save_rest();
        }
        self.held = Some(event);
    }

    /// Accounts for the bytes of records that the policy holds.
    pub(crate) fn holds_beside(&mut self, bytes: usize) {
        self.accounts.beside = bytes;
    }

    /// The event that is held.
    pub(crate) fn held(&self) -> Option<Event> {
        self.held
    }

    /// Releases the held event: everything that is due before it is done.
    pub(super) fn release(&mut self) {
        if let Some(event) = self.held {
            self.save(event);
        }
        match self.held.take() {
            Some(Event::Watermark(at)) => self.watermark = self.watermark.max(Some(at)),
            Some(Event::Round(_)) => self.clear(),
            _ => {}
        }
    }

    /// Processes an event where no key is ever due: begins to save the keys at a barrier, and removes them after a round. Returns
    /// whether the event may be passed on, as the end of a job that has failed would look like a regular one. The owner must
    /// implement [`Pipe::save_part`](crate::flow::Pipe::save_part) by [`save_part`](Self::save_part).
    pub(crate) fn pass(&mut self, event: Event) -> bool {
        self.hold(event);
        self.release();
        !(self.accounts.failed && event.completes())
    }

    /// Removes every key, for the next round of a loop.
    fn clear(&mut self) {
        self.clear_table();
        self.cold.clear();
        self.calendar = Calendar::new();
        self.set_calendar();
        (self.watermark, self.ended, self.ending) = (None, false, 0);
    }

    /// Removes every key of the table.
    fn clear_table(&mut self) {
        self.save_rest();
        self.table = GroupTable::new();
        self.set_calendar();
        let Accounts { wheels, live, heap, weighed, unweighed, came, .. } = &mut self.accounts;
        wheels.iter_mut().for_each(|wheel| *wheel = Wheel::new());
        (*live, *heap, *unweighed, *came) = (0, 0, 0, 0);
        *weighed = HeapEstimate::new();
    }

    /// Fires the next timer that is due; returns whether there was one.
    #[inline]
    pub(super) fn fire_next<P>(&mut self, policy: &mut P) -> bool
    where
        P: TimerPolicy<Key = K, State = S>,
    {
        if S::Clocks::ANY_ORDER {
            let until = self.due_until::<P>(TimerClock::Event);
            return until.is_some_and(|until| self.wake_next(until, policy));
        }
        for index in 0..self.accounts.wheels.len() {
            let is_idle = self.accounts.wheels[index].timers.is_empty();
            if is_idle && self.cold.first_due(index).is_none() {
                continue;
            }
            if let Some(until) = self.due_until::<P>(S::Clocks::clock(index))
                && self.fire(index, until, policy)
            {
                return true;
            }
        }
        false
    }

    /// The last moment by which keys are due now, by one clock.
    fn due_until<P: TimerPolicy>(&self, clock: TimerClock) -> Option<i64> {
        match (self.held, clock) {
            (Some(event), _) if event.completes() => Some(i64::MAX),
            (_, TimerClock::Processing) => Some(processing(self.clock.now())),
            (Some(Event::Watermark(at)), TimerClock::Event) => P::passed(at),
            (_, TimerClock::Event) => None,
        }
    }

    /// Wakes the next key that is due, where they have no timers; returns whether there was one.
    fn wake_next<P>(&mut self, until: i64, policy: &mut P) -> bool
    where
        P: TimerPolicy<Key = K, State = S>,
    {
        let mut keys = PORTION;
        loop {
            if self.wake_by_calendar(until, policy) {
                return true;
            }
            if !self.return_due(0, until, keys) {
                return false;
            }
            keys = (keys / 4).max(1);
        }
    }

    /// Wakes the next key of the table that is due by the calendar; returns whether there was one.
    fn wake_by_calendar<P>(&mut self, until: i64, policy: &mut P) -> bool
    where
        P: TimerPolicy<Key = K, State = S>,
    {
        let Self { table, accounts, calendar, watermark, ended, saving, .. } = self;
        let (clock, at) = (TimerClock::Event, until);
        let firing = Firing { clock, at, until, watermark: *watermark, ended: *ended };
        while let Some(slot) = calendar.next(until, |slot| table.prefetch_at(slot)) {
            if let Some(saving) = saving {
                saving.before_change_at(table, slot);
            }
            let woken = table.see_at(slot, |key, Slot { state, .. }| {
                let is_due = state.due(clock).is_some_and(|due| due <= until);
                if is_due {
                    let before = Counts::of(state);
                    policy.wake(key, state, firing, &mut accounts.weighed);
                    accounts.changed(before, Counts::of(state));
                }
                if let Some(due) = state.due(clock) {
                    calendar.set(slot, None, due);
                }
                is_due
            });
            if woken == Some(true) {
                return true;
            }
        }
        false
    }

    /// Wakes the key that is due first by one clock; returns whether there was one.
    fn fire<P>(&mut self, index: usize, until: i64, policy: &mut P) -> bool
    where
        P: TimerPolicy<Key = K, State = S>,
    {
        let mut keys = PORTION;
        loop {
            // No key of the table goes before one on disk that is due earlier.
            let first = self.cold.first_due(index).filter(|first| *first <= until);
            if self.fire_timer(index, first.unwrap_or(until), until, policy) {
                return true;
            }
            if first.is_none() || !self.return_due(index, until, keys) {
                return false;
            }
            // Fewer, where they have moved each other out.
            keys = (keys / 4).max(1);
        }
    }

    /// Wakes the key of the table that is due first, if it is by `reach`; returns whether there was one.
    fn fire_timer<P>(&mut self, index: usize, reach: i64, until: i64, policy: &mut P) -> bool
    where
        P: TimerPolicy<Key = K, State = S>,
    {
        let Self { table, accounts, watermark, ended, saving, .. } = self;
        let clock = S::Clocks::clock(index);
        while let Some((at, (hash, ticket))) = accounts.wheels[index].timers.pop(reach) {
            if let Some(&(hash, _)) = accounts.wheels[index].timers.ahead(AHEAD) {
                table.prefetch_slot(hash);
            }
            let is_armed = |slot: &Slot<S>| slot.armed.as_ref()[index].ticket == ticket;
            let keeps_all = saving.is_some();
            if let Some(saving) = saving
                && let Some(slot) = table.slot_where(hash, is_armed)
            {
                saving.before_change_at(table, slot);
            }
            let wake = |key: &K, slot: &mut Slot<S>| {
                accounts.disarm(index, &mut slot.armed);
                let is_due = slot.state.due(clock).is_some_and(|due| due <= at);
                if is_due {
                    let before = Counts::of(&slot.state);
                    let firing = Firing { clock, at, until, watermark: *watermark, ended: *ended };
                    policy.wake(key, &mut slot.state, firing, &mut accounts.weighed);
                    accounts.changed(before, Counts::of(&slot.state));
                }
                accounts.arm(hash, slot);
                (is_due, keeps_all || !slot.state.is_spent())
            };
            let Some((woken, spent)) = table.see_or_remove(hash, is_armed, wake) else { continue };
            if let Some(slot) = spent {
                accounts.forget(&slot);
            }
            if woken {
                return true;
            }
        }
        false
    }

    /// Calls [`TimerPolicy::end`] for the next key; returns whether there was one.
    pub(super) fn end_next<P>(&mut self, policy: &mut P) -> bool
    where
        P: TimerPolicy<Key = K, State = S>,
    {
        loop {
            let Self { table, accounts, ending, watermark, .. } = self;
            let at = *ending;
            let again = table.see_next_mut(ending, |key, slot| {
                let before = Counts::of(&slot.state);
                let again = policy.end(key, &mut slot.state, *watermark);
                accounts.changed(before, Counts::of(&slot.state));
                again
            });
            if again == Some(true) {
                *ending = at;
            }
            if again.is_some() {
                return true;
            }
            // All keys of the table have ended; then those on disk are.
            if !self.begins_next_portion() {
                return false;
            }
        }
    }

    /// At the end, puts some of the keys on disk in the place of those of the table; returns whether there are any.
    fn begins_next_portion(&mut self) -> bool {
        if self.cold.is_empty() || self.accounts.failed {
            return false;
        }
        self.clear_table();
        self.ending = 0;
        self.return_some();
        true
    }

    /// The earliest time at which the next processing-time timer may fire.
    pub(super) fn fires_at(&self) -> Option<Nanos> {
        let mut clocks = self.accounts.wheels.iter().enumerate();
        let (index, wheel) =
            clocks.find(|(index, _)| S::Clocks::clock(*index) == TimerClock::Processing)?;
        let timers = wheel.timers.not_before().into_iter();
        let first = timers.chain(self.cold.first_due(index)).min();
        first.map(|at| Nanos::try_from(at).unwrap_or(0))
    }

    /// The earliest time at which a key may be due by a clock. Costs up to one step per key: meant for reports.
    pub(crate) fn first_due(&self, clock: TimerClock) -> Option<i64> {
        if S::Clocks::ANY_ORDER {
            let table = self.table.values().filter_map(|slot| slot.state.due(clock));
            return table.chain(self.cold.first_due(0)).min();
        }
        let mut wheels = self.accounts.wheels.iter().enumerate();
        let (index, wheel) = wheels.find(|(index, _)| S::Clocks::clock(*index) == clock)?;
        wheel.timers.first().into_iter().chain(self.cold.first_due(index)).min()
    }

    /// Between batches: drops spent keys and superseded timers when there are many, and accounts for the memory in
    /// use.
    pub(crate) fn settle(&mut self) {
        self.forget_spent();
        self.forget_superseded(SUPERSEDED);
        if self.accounts.weighed.is_due(|| self.table.len()) {
            self.weigh();
        }
        if self.ending == 0 {
            self.plant_lack();
            self.gives_back();
        }
        if self.accounts.is_crowded() {
            self.table.reopen();
        }
        self.accounts.came = 0;
        let used = self.bytes(self.table.bytes());
        let Accounts { budget, failed, .. } = &mut self.accounts;
        let (held, is_over) = (budget.bytes(), budget.is_over());
        if *failed || !is_over && used <= held && held - used <= used / 4 + SPARE {
            return;
        }
        // Reserves somewhat more than is used, so as not to request memory each time.
        let has_room = !is_over && budget.try_resize(used + used / 8);
        // At the end, keys are in an order from which none may go.
        if has_room || self.ending > 0 {
            return;
        }
        if is_over {
            self.gives_way();
        } else {
            self.makes_room();
            self.fits();
        }
    }

    fn forget_spent(&mut self) {
        // At the end, the position would no longer be valid, and keys behind it might be left out.
        if self.ending > 0 {
            return;
        }
        if self.saving.is_some() {
            // Keys stay in their slots until they are saved.
        } else if !S::Clocks::ANY_ORDER {
            let Self { table, accounts, .. } = self;
            table.forget_spent(accounts.live, |slot| accounts.keeps(slot));
        } else if let live = self.accounts.live
            && (self.table.slots() > SPARSE * (live + SUPERSEDED)
                || self.table.has_long_keys() && self.table.len() > 2 * live + SUPERSEDED)
        {
            self.rebuild(2 * live);
        }
        if S::Clocks::ANY_ORDER && self.calendar.changes_length() {
            self.set_calendar();
        }
    }

    /// Drops all spent keys, and leaves room for so many in total.
    fn rebuild(&mut self, room: usize) {
        self.save_rest();
        let Self { table, accounts, .. } = self;
        table.rebuild(room, |slot| accounts.keeps(slot));
        self.set_calendar();
    }

    /// Where memory is short: drops spent keys that were left in the table, unless they are few. Returns whether it has.
    #[cold]
    fn makes_room(&mut self) -> bool {
        let live = self.accounts.live;
        let spent = self.table.len() - live;
        let pays = 8 * spent > self.table.len();
        if pays {
            self.rebuild(live + 1);
        }
        pays
    }

    /// Drops superseded timers where they are more than so many, and more than others.
    fn forget_superseded(&mut self, few: usize) {
        let Self { table, accounts, .. } = self;
        for (index, wheel) in accounts.wheels.iter_mut().enumerate() {
            if wheel.timers.len() > 2 * wheel.armed + few {
                wheel.timers.retain(|_, (hash, ticket)| {
                    let is_armed = |slot: &Slot<S>| slot.armed.as_ref()[index].ticket == *ticket;
                    table.see_where(*hash, is_armed, |_, _| ()).is_some()
                });
            }
        }
    }

    #[cold]
    fn weigh(&mut self) {
        self.accounts.weighed.weigh(self.table.values().map(|slot| slot.state.owned()));
        self.accounts.unweighed = 0;
    }

    /// The bytes of everything, if the table has `table` bytes.
    fn bytes(&self, table: usize) -> usize {
        let Accounts { wheels, heap, weighed, unweighed, beside, .. } = &self.accounts;
        let timers: usize = wheels.iter().map(|wheel| wheel.timers.bytes()).sum();
        let calendar = if S::Clocks::ANY_ORDER { self.calendar.bytes() } else { 0 };
        let states = heap + weighed.bytes() + unweighed;
        let choosing = disk::choosing(self.table.len(), &self.accounts.budget);
        table + timers + calendar + states + beside + choosing + self.cold.bytes()
    }

    /// Whether there is memory for everything, if the table has `table` bytes; reserves it.
    fn has_memory(&mut self, table: usize) -> bool {
        let bytes = self.bytes(table);
        bytes <= self.accounts.budget.bytes()
            || self.accounts.budget.try_resize(bytes)
            || bytes <= disk::ALWAYS + self.cold.bytes()
    }

    fn lack_of_memory(&self) -> Error {
        let Accounts { words: (what, hint), budget, .. } = &self.accounts;
        let what = format!(
            "{what} of a single key, or what a task needs for those on disk, are more than the memory budget of {} bytes \
             has room for; {hint}",
            budget.limit(),
        );
        budget.refused(what)
    }
}

/// A time on the engine's clock, in the form that timers use.
pub(crate) fn processing(at: Nanos) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
}

/// The times at which a state is due, by each of its clocks.
fn times_of<S: TimedState>(state: &S) -> [Option<i64>; 2] {
    let clocks = <S::Clocks as Clocks>::Armed::default().as_ref().len();
    let clocks = if S::Clocks::ANY_ORDER { 1 } else { clocks };
    [0, 1].map(|index| (index < clocks).then(|| state.due(S::Clocks::clock(index))).flatten())
}

impl<S: TimedState> Accounts<S> {
    #[inline(always)]
    fn changed(&mut self, before: Counts, after: Counts) {
        self.weighed.changed();
        self.live = self.live + usize::from(before.spent) - usize::from(after.spent);
        self.heap = self.heap + after.heap - before.heap;
    }

    /// Whether a key stays when spent ones are dropped; accounts for those.
    fn keeps(&mut self, slot: &Slot<S>) -> bool {
        let spent = slot.state.is_spent();
        if spent {
            self.forget(slot);
        }
        !spent
    }

    /// Accounts for a spent key that is dropped.
    fn forget(&mut self, slot: &Slot<S>) {
        self.heap -= slot.state.heap();
        for (wheel, armed) in self.wheels.iter_mut().zip(slot.armed.as_ref()) {
            wheel.armed -= usize::from(armed.ticket != 0);
        }
    }

    /// Arms the timers of a key that is due before those that are armed.
    #[inline(always)]
    fn arm(&mut self, hash: u64, slot: &mut Slot<S>) {
        for (index, armed) in slot.armed.as_mut().iter_mut().enumerate() {
            if let Some(at) = slot.state.due(S::Clocks::clock(index))
                && (armed.ticket == 0 || at < armed.at)
            {
                self.set_timer(index, armed, at, hash);
            }
        }
    }

    #[inline(never)]
    fn set_timer(&mut self, index: usize, armed: &mut Armed, at: i64, hash: u64) {
        self.tickets += 1;
        let wheel = &mut self.wheels[index];
        wheel.armed += usize::from(armed.ticket == 0);
        *armed = Armed { at, ticket: self.tickets };
        wheel.timers.add(at, (hash, self.tickets));
    }

    fn disarm(&mut self, index: usize, armed: &mut <S::Clocks as Clocks>::Armed) {
        armed.as_mut()[index].ticket = 0;
        self.wheels[index].armed -= 1;
    }
}

#[cfg(test)]
pub(super) mod tests;
