//! The table of keys, their timers, and the memory of both.

use super::calendar::{AHEAD, Calendar};
use super::{Armed, Clocks, Firing, TimedState, TimerClock, TimerPolicy};
use crate::checkpoint::{Redistribution, StateHandle};
use crate::clock::{Clock, Nanos};
use crate::data::{Key, Portable};
use crate::error::{Error, Result};
use crate::flow::{Event, Op};
use crate::memory::Reservation;
use crate::plan::TaskContext;
use crate::state::{GroupTable, HeapEstimate, Known, Timers};
use crate::support::saved_keys::{restore_keys, save_key};
use crate::support::saved_watermark::SavedWatermark;
use crate::time::Timestamp;

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
    /// The number of keys that are not spent.
    live: usize,
    /// The bytes that states report.
    heap: usize,
    weighed: HeapEstimate<S::Owned>,
    /// The bytes of records that the policy holds.
    beside: usize,
    reservation: Reservation,
    failed: bool,
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
    /// If the checkpoint cannot be read, or what is kept there does not fit into memory.
    pub(crate) fn new(
        cx: &TaskContext<'_>,
        op: usize,
        what: &'static str,
        hint: &'static str,
    ) -> Result<Self> {
        let (watermark, before) = SavedWatermark::of_owner(cx, op)?;
        let table = cx.state::<(K::Owned, S)>(op, "keys", Redistribution::ByKey);
        let mut keys = Self::of(cx.op(op), cx.fixed(op), cx.clock.clone(), (what, hint));
        keys.watermark = before;
        restore_keys::<K, S>(&table, |hash, key, state| {
            let Some(visit) = keys.visit(hash, key, || state) else {
                return Err(keys.lack_of_memory());
            };
            visit.leave(hash);
            Ok(())
        })?;
        keys.saved = Saved { table, watermark };
        Ok(keys)
    }

    fn of(
        op: Op,
        reservation: Reservation,
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
            beside: 0,
            reservation,
            failed: false,
        };
        let table = GroupTable::new();
        let saved = Saved { table: StateHandle::none(), watermark: SavedWatermark::none() };
        let mut keys = Self {
            table,
            accounts,
            calendar: Calendar::new(),
            clock,
            held: None,
            watermark: None,
            ended: false,
            ending: 0,
            saved,
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
        self.accounts.live
    }

    /// Whether the job was failed for lack of memory.
    pub(crate) fn has_failed(&self) -> bool {
        self.accounts.failed
    }

    /// Prefetches the probable slot of a key that is about to be visited, if the table is large.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.table.prefetch_slot(hash);
    }

    /// Goes to a key, whose state `start` makes if it is new. `None` when there is no room for a new one.
    /// Keys that are known are visited even when the job has failed, until it stops.
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
        let Self { table, accounts, calendar, .. } = self;
        let mut is_new = false;
        let (slot, known) = table.place(hash, probe, key, || {
            is_new = true;
            let state = start();
            // Here, and not on the path of known keys.
            accounts.changed(Counts { spent: true, heap: 0 }, Counts::of(&state));
            Slot { armed: Default::default(), state }
        });
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
        // In place of growing, spent keys are dropped if they are most.
        if S::Clocks::ANY_ORDER && self.table.len() > 2 * self.live() + FEW {
            self.rebuild(2 * self.live());
            return true;
        }
        let days = if S::Clocks::ANY_ORDER { 2 * self.table.slots() } else { 0 };
        let grown = self.table.bytes_if_grown() + days;
        if !self.has_memory(grown) && self.makes_room() {
            return true;
        }
        let has_room = self.reserve(grown);
        if has_room {
            self.table.grow();
            self.set_calendar();
        }
        has_room
    }

    /// Holds an event, which is passed on when everything that is due before it is done.
    pub(super) fn hold(&mut self, event: Event) {
        self.ended |= event.completes();
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

    fn save(&self, event: Event) {
        let Self { table, watermark, ended, saved, .. } = self;
        saved.watermark.save(event, true, *watermark);
        saved.table.save(event, |out| {
            // No record needs them any more at the end.
            if !ended {
                table.for_each(|key, Slot { state, .. }| {
                    if !state.is_spent() {
                        save_key(key, out, |bytes| state.encode(bytes));
                    }
                });
            }
        });
    }

    /// Removes every key, for the next round of a loop.
    fn clear(&mut self) {
        self.table = GroupTable::new();
        self.calendar = Calendar::new();
        self.set_calendar();
        let Accounts { wheels, live, heap, weighed, .. } = &mut self.accounts;
        wheels.iter_mut().for_each(|wheel| *wheel = Wheel::new());
        (*live, *heap) = (0, 0);
        *weighed = HeapEstimate::new();
        (self.watermark, self.ended, self.ending) = (None, false, 0);
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
            if self.accounts.wheels[index].timers.is_empty() {
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

    /// Wakes the next key that is due by the calendar; returns whether there was one.
    fn wake_next<P>(&mut self, until: i64, policy: &mut P) -> bool
    where
        P: TimerPolicy<Key = K, State = S>,
    {
        let Self { table, accounts, calendar, watermark, ended, .. } = self;
        let (clock, at) = (TimerClock::Event, until);
        let firing = Firing { clock, at, until, watermark: *watermark, ended: *ended };
        while let Some(slot) = calendar.next(until, |slot| table.prefetch_at(slot)) {
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
        let Self { table, accounts, watermark, ended, .. } = self;
        let clock = S::Clocks::clock(index);
        while let Some((at, (hash, ticket))) = accounts.wheels[index].timers.pop(until) {
            if let Some(&(hash, _)) = accounts.wheels[index].timers.ahead(AHEAD) {
                table.prefetch_slot(hash);
            }
            let is_armed = |slot: &Slot<S>| slot.armed.as_ref()[index].ticket == ticket;
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
                (is_due, !slot.state.is_spent())
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
        again.is_some()
    }

    /// The earliest time at which the next processing-time timer may fire.
    pub(super) fn fires_at(&self) -> Option<Nanos> {
        let mut clocks = self.accounts.wheels.iter().enumerate();
        let (_, wheel) =
            clocks.find(|(index, _)| S::Clocks::clock(*index) == TimerClock::Processing)?;
        wheel.timers.not_before().map(|at| Nanos::try_from(at).unwrap_or(0))
    }

    /// The earliest time at which a key may be due by a clock. Costs up to one step per key: meant for reports.
    pub(crate) fn first_due(&self, clock: TimerClock) -> Option<i64> {
        if S::Clocks::ANY_ORDER {
            return self.table.values().filter_map(|slot| slot.state.due(clock)).min();
        }
        let mut wheels = self.accounts.wheels.iter().enumerate();
        wheels.find_map(|(index, wheel)| {
            (S::Clocks::clock(index) == clock).then(|| wheel.timers.first()).flatten()
        })
    }

    /// Between batches: drops spent keys and superseded timers when there are many, and accounts for the memory in
    /// use.
    pub(super) fn settle(&mut self) {
        self.forget_spent();
        self.forget_superseded();
        if self.accounts.weighed.is_due(|| self.table.len()) {
            self.weigh();
        }
        let (used, held) = (self.bytes(self.table.bytes()), self.accounts.reservation.bytes());
        if self.accounts.failed || used <= held && held - used <= used / 4 + SPARE {
            return;
        }
        // Reserves somewhat more than is used, so as not to request memory each time.
        if !self.accounts.reservation.try_resize(used + used / 8) {
            self.makes_room();
            self.reserve(self.table.bytes());
        }
    }

    fn forget_spent(&mut self) {
        if self.ending > 0 {
            // The position would no longer be valid, and keys behind it might be left out.
            return;
        }
        if !S::Clocks::ANY_ORDER {
            let Self { table, accounts, .. } = self;
            table.forget_spent(accounts.live, |slot| accounts.keeps(slot));
        } else if self.table.slots() > SPARSE * (self.live() + SUPERSEDED)
            || self.table.has_long_keys() && self.table.len() > 2 * self.live() + SUPERSEDED
        {
            self.rebuild(2 * self.live());
        } else if self.calendar.changes_length() {
            self.set_calendar();
        }
    }

    /// Drops all spent keys, and leaves room for so many in total.
    fn rebuild(&mut self, room: usize) {
        let Self { table, accounts, .. } = self;
        table.rebuild(room, |slot| accounts.keeps(slot));
        self.set_calendar();
    }

    /// Where memory is short: drops spent keys that were left in the table, unless they are few. Returns whether it has.
    #[cold]
    fn makes_room(&mut self) -> bool {
        let spent = self.table.len() - self.live();
        let pays = S::Clocks::ANY_ORDER && 8 * spent > self.table.len();
        if pays {
            self.rebuild(self.live() + 1);
        }
        pays
    }

    fn forget_superseded(&mut self) {
        let Self { table, accounts, .. } = self;
        for (index, wheel) in accounts.wheels.iter_mut().enumerate() {
            if wheel.timers.len() > 2 * wheel.armed + SUPERSEDED {
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
    }

    /// The bytes of everything, if the table has `table` bytes.
    fn bytes(&self, table: usize) -> usize {
        let Accounts { wheels, heap, weighed, beside, .. } = &self.accounts;
        let timers: usize = wheels.iter().map(|wheel| wheel.timers.bytes()).sum();
        let calendar = if S::Clocks::ANY_ORDER { self.calendar.bytes() } else { 0 };
        table + timers + calendar + heap + weighed.bytes() + beside
    }

    /// Whether there is memory for everything, if the table has `table` bytes; reserves it.
    fn has_memory(&mut self, table: usize) -> bool {
        let bytes = self.bytes(table);
        bytes <= self.accounts.reservation.bytes() || self.accounts.reservation.try_resize(bytes)
    }

    /// Reserves the memory of everything, if the table has `table` bytes, and fails the job if there is not enough.
    #[cold]
    fn reserve(&mut self, table: usize) -> bool {
        let bytes = self.bytes(table);
        let Accounts { reservation, failed, .. } = &mut self.accounts;
        if *failed || bytes <= reservation.bytes() || reservation.try_resize(bytes) {
            return !*failed;
        }
        // The bytes of the payloads may have been estimated too high.
        self.weigh();
        let bytes = self.bytes(table);
        if self.accounts.reservation.try_resize(bytes) {
            return true;
        }
        self.accounts.failed = true;
        self.accounts.op.fail(self.lack_of_memory());
        false
    }

    fn lack_of_memory(&self) -> Error {
        let Accounts { words: (what, hint), live, reservation, .. } = &self.accounts;
        let what = format!(
            "{what} of the {live} keys of one of its tasks are more than the memory budget of {} bytes has room for, and they \
             do not go to disk; {hint}",
            reservation.pool().limit(),
        );
        reservation.refused(what)
    }
}

/// A time on the engine's clock, in the form that timers use.
pub(crate) fn processing(at: Nanos) -> i64 {
    i64::try_from(at).unwrap_or(i64::MAX)
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
mod tests;
