//! Moves keys out of the table when memory is short, and back when they are needed.
//!
//! Half of the keys go at a time: those whose hashes follow the ones that went last, so that each key goes in its turn and
//! neighbours in the store go together. Memory is short then, so they are not listed all at once but in pieces, whose bounds
//! are estimated from a sample. A key returns with its next record, when it is due, or at the end of the input. Many may come
//! back between two accounts of memory: when what they own is too much, the table [is closed](GroupTable::place_or_close), and
//! the next new key has memory accounted for before it gets a place.

use super::*;
use crate::fault::{Fault, is_planted};
use crate::state::Portion;

/// The most keys that come back together because they are due.
pub(super) const PORTION: usize = 256;
/// Bytes that a table may always occupy, beside the cache of the store.
pub(super) const ALWAYS: usize = 64 << 10;
/// A single state that owns more than one part in this many of the budget stays in memory, since it would be there more than once for
/// a moment.
const LARGE: usize = 4;

/// The size of the sample of keys from which the bounds of the pieces are estimated.
const SAMPLE: usize = 1024;
/// The number of pieces in which half of many keys goes to disk; the keys of one piece are listed at a time.
const PIECES: usize = 8;
/// The bytes for each key of the table that choosing takes, besides 32 KiB at most.
const CHOOSING: usize = 2;

/// A key that goes to disk: how far its hash is behind the hand, its slot, and its number in the order of slots.
type Chosen = (u64, usize, usize);

/// The bytes that are reserved for choosing among this many keys.
pub(super) fn choosing(keys: usize, budget: &Budget) -> usize {
    if budget.is_in_memory() { 0 } else { CHOOSING * keys }
}

/// The most keys of one piece, of `keys` in all: a quarter more than an equal share of half of them.
fn most_in_a_piece(keys: usize) -> usize {
    let share = keys / 2 / PIECES;
    share + share / 4
}

/// The longest pause, in accounts of memory, before few keys are taken back that went to disk again before.
const LONGEST: u32 = 255;

/// When few keys are taken back from disk. If they had to go to disk again, as they take more in memory than there, pauses get
/// longer.
#[derive(Default)]
pub(super) struct Pace {
    /// Whether keys were taken back since some went.
    gave: bool,
    pause: u32,
    /// What is left of a pause.
    wait: u32,
}

impl Pace {
    fn gives(&mut self) {
        self.gave = true;
    }

    fn goes(&mut self) {
        if std::mem::take(&mut self.gave) {
            self.pause = (2 * self.pause + 1).min(LONGEST);
            self.wait = self.pause;
        }
    }

    /// Whether it is too early to take keys back. Called once for each account of memory.
    fn waits(&mut self) -> bool {
        let waits = self.wait > 0;
        self.wait = self.wait.saturating_sub(1);
        waits
    }
}

/// The keys of a table that have gone to disk, by their numbers in the order of slots.
struct Gone {
    bits: Vec<u64>,
    count: usize,
}

impl Gone {
    /// No keys, of a table with this many.
    fn of(keys: usize) -> Self {
        Self { bits: vec![0; keys.div_ceil(64)], count: 0 }
    }

    fn add(&mut self, number: usize) {
        self.bits[number / 64] |= 1 << (number % 64);
        self.count += 1;
    }

    fn has(&self, number: usize) -> bool {
        self.bits[number / 64] & (1 << (number % 64)) != 0
    }
}

/// The bytes of a store's cache, where the base of the budget has so many.
pub(super) fn cache(base: usize) -> usize {
    (base / 8).clamp(64 << 10, 16 << 20)
}

/// The bytes that states may come back with before memory is accounted for.
pub(super) fn most_that_come(base: usize) -> usize {
    (base / 4).max(64 << 10)
}

impl<S: TimedState> Accounts<S> {
    /// Whether states have come with so much that memory has to be accounted for.
    #[inline(always)]
    pub(super) fn is_crowded(&self) -> bool {
        self.came > self.most
    }

    /// Accounts for what a state owns with which a key comes.
    fn came_with(&mut self, state: &S) {
        let owned = state.owned();
        self.came += state.heap() + owned;
        if HeapEstimate::<S::Owned>::OWNS {
            self.unweighed += owned;
        }
    }

    /// The state of a key that is not in the table, if the key is on disk.
    #[cold]
    #[inline(never)]
    pub(super) fn return_key<K: Key + ?Sized>(
        &mut self,
        cold: &mut Cold<K, S>,
        hash: u64,
        key: &K,
    ) -> Option<S> {
        match cold.take(hash, key) {
            Ok(state) => state.inspect(|state| self.came_with(state)),
            Err(error) => {
                self.fail(error);
                None
            }
        }
    }

    /// Accounts for a key that is moved to disk.
    fn leaves(&mut self, slot: &Slot<S>) {
        self.live -= 1;
        self.forget(slot);
    }

    /// Fails the job.
    pub(super) fn fail(&mut self, error: Error) {
        if !self.failed {
            self.failed = true;
            self.failure = Some(error.for_others());
            self.op.fail(error);
        }
    }
}

impl<K: Key + ?Sized, S: TimedState> KeyedTimers<K, S> {
    /// Whether there is memory for what is in use, for which keys go to disk; the job fails otherwise.
    #[cold]
    pub(super) fn fits(&mut self) -> bool {
        if self.accounts.failed {
            return false;
        }
        if self.has_memory(self.table.bytes()) {
            return true;
        }
        // The bytes of the payloads may have been estimated too high.
        self.weigh();
        while !self.has_memory(self.table.bytes()) {
            if !self.evict() {
                return false;
            }
        }
        true
    }

    /// Makes room for a new key in a table that cannot grow, by moving keys to disk; returns whether there is room.
    #[cold]
    pub(super) fn evicts(&mut self) -> bool {
        self.evict() && self.fits()
    }

    /// State that has to stay in memory has taken the place of keys: moves keys to disk until it has room.
    #[cold]
    pub(super) fn gives_way(&mut self) {
        self.makes_room();
        loop {
            let bytes = self.bytes(self.table.bytes());
            let has_room = self.accounts.budget.try_resize(bytes);
            let keys = self.table.len();
            let is_least = keys == 0 || bytes <= ALWAYS + self.cold.bytes();
            if has_room && !self.accounts.budget.is_over() || is_least || !self.evict() {
                return;
            }
            if self.table.len() == keys {
                return;
            }
        }
    }

    /// In tests, every now and then there is no memory.
    pub(super) fn plant_lack(&mut self) {
        let may_go = !self.accounts.budget.is_in_memory();
        if is_planted(Fault::HasNoRoom) && may_go && self.accounts.live % 2 == 1 {
            self.evict();
        }
    }

    /// Moves half of the keys to disk, or all if they are few, but none whose state is too large. If all states are too large,
    /// their memory is taken from other reservations. Returns `false` if that fails or no key may go to disk; the job has then
    /// failed.
    #[cold]
    #[inline(never)]
    pub(super) fn evict(&mut self) -> bool {
        if self.accounts.failed {
            return false;
        }
        if self.accounts.budget.is_in_memory() {
            let error = self.accounts.budget.kept_in_memory();
            self.accounts.fail(error);
            return false;
        }
        self.pace.goes();
        self.save_rest();
        let (live, all, bounds) = self.bounds();
        // Of many keys, a quarter more than an equal share, as the bounds are estimated.
        let most = if bounds.len() > 1 { most_in_a_piece(live) } else { live };
        let (mut gone, mut after) = (Gone::of(all), None);
        for until in bounds.iter().copied() {
            if let Err(error) = self.move_between(after, until, most, &mut gone) {
                self.accounts.fail(error);
                return false;
            }
            after = Some(until);
        }
        if let Some(last) = after {
            self.hand = self.hand.wrapping_add(last).wrapping_add(1);
        }
        if gone.count == 0 && live == all {
            return self.insists();
        }

        let Self { table, accounts, .. } = self;
        let mut number = 0;
        table.rebuild(live - gone.count + 1, |slot| {
            number += 1;
            if gone.has(number - 1) {
                accounts.leaves(slot);
                return false;
            }
            accounts.keeps(slot)
        });
        self.set_calendar();
        self.forget_superseded(0);
        self.weigh();
        self.accounts.came = 0;
        true
    }

    /// The number of keys that are not spent, the number of all keys, and the bounds of the pieces that go to disk, as
    /// distances of hashes behind the hand. The bounds of many keys are estimated from a sample.
    fn bounds(&self) -> (usize, usize, Vec<u64>) {
        let (hand, every) = (self.hand, self.accounts.live.div_ceil(SAMPLE).max(1));
        let (mut live, mut all, mut sample) = (0_usize, 0, Vec::with_capacity(SAMPLE));
        self.table.for_each_place(|_, hash, entry| {
            all += 1;
            if !entry.state.is_spent() {
                if live.is_multiple_of(every) {
                    sample.push(hash.wrapping_sub(hand));
                }
                live += 1;
            }
        });
        sample.sort_unstable();
        let go = (sample.len() / 2).max(sample.len().min(FEW));
        let pieces = if every == 1 { 1 } else { PIECES };
        let last_of = |piece: usize| sample.get((go * piece / pieces).checked_sub(1)?).copied();
        (live, all, (1..=pieces).filter_map(last_of).collect())
    }

    /// Moves keys to disk whose hashes are between two distances behind the hand, at most `most`, and none whose state is too
    /// large.
    fn move_between(
        &mut self,
        after: Option<u64>,
        until: u64,
        most: usize,
        gone: &mut Gone,
    ) -> Result<()> {
        let hand = self.hand;
        let (mut chosen, mut number): (Vec<Chosen>, _) = (Vec::with_capacity(most), 0);
        self.table.for_each_place(|slot, hash, entry| {
            let distance = hash.wrapping_sub(hand);
            let is_between = after.is_none_or(|after| distance > after) && distance <= until;
            if is_between && chosen.len() < most && !entry.state.is_spent() {
                chosen.push((distance, slot, number));
            }
            number += 1;
        });
        chosen.sort_unstable();

        let largest = self.accounts.budget.limit() / LARGE;
        let mut next = chosen.into_iter();
        let Self { table, cold, .. } = self;
        cold.put_all(|entry| {
            for (distance, slot, number) in next.by_ref() {
                let filled = table.see_at(slot, |key, Slot { state, .. }| {
                    let is_small = state.heap() + state.owned() <= largest;
                    if is_small {
                        Cold::<K, S>::fill(entry, hand.wrapping_add(distance), key, state);
                        entry.due = times_of::<S>(state);
                    }
                    is_small
                });
                if filled == Some(true) {
                    gone.add(number);
                    return true;
                }
            }
            false
        })
    }

    /// If few keys are on disk, and there is room for them, takes them back, and releases the memory of the store.
    pub(super) fn gives_back(&mut self) {
        let of_store = self.cold.bytes();
        if of_store == 0
            || self.cold.len() > PORTION
            || self.pace.waits()
            || self.accounts.failed
            || is_planted(Fault::HasNoRoom)
        {
            return;
        }
        if !self.cold.is_empty() {
            let live = self.live();
            if self.table.slots() > SPARSE * (live + FEW) {
                self.rebuild(2 * live);
            }
            // Less than the base by a quarter, so that they do not go to disk again at once.
            let base = self.accounts.budget.base();
            let in_memory = self.bytes(self.table.bytes()) - of_store;
            let held = usize::try_from(self.cold.held()).unwrap_or(usize::MAX);
            let wanted = in_memory.saturating_add(held);
            // State of other operators that has to stay in memory may leave less than the base. The memory of the store is not
            // counted: it is not needed afterwards, and accounted for at once if it is.
            if wanted > base - base / 4 || !self.accounts.budget.try_resize(wanted) {
                return;
            }
            self.pace.gives();
            if !self.return_some() {
                return;
            }
        }
        if self.cold.is_empty() {
            self.cold.release();
        }
    }

    /// Takes the memory of what has to stay in memory from others; the job fails if they need it too.
    fn insists(&mut self) -> bool {
        let bytes = self.bytes(self.table.bytes());
        if self.accounts.budget.insists(bytes) {
            return true;
        }
        let error = self.lack_of_memory();
        self.accounts.fail(error);
        false
    }

    /// Takes back the keys on disk that are due first by a clock, until a time, at most so many; returns whether there were any.
    pub(super) fn return_due(&mut self, clock: usize, until: i64, keys: usize) -> bool {
        if self.accounts.failed || self.cold.first_due(clock).is_none_or(|first| first > until) {
            return false;
        }
        let portion = Portion { keys, bytes: self.accounts.most };
        self.return_keys(|cold| cold.take_due(clock, until, portion))
    }

    /// Takes some keys back from disk.
    pub(super) fn return_some(&mut self) -> bool {
        let portion = Portion { keys: PORTION, bytes: self.accounts.most };
        self.return_keys(|cold| cold.take_some(portion))
    }

    /// Accounts for memory if states have come with so much that it is due, and moves keys to disk for them; returns whether
    /// there is room.
    pub(super) fn accounts_for_those_that_came(&mut self) -> bool {
        if !self.accounts.is_crowded() {
            return true;
        }
        self.accounts.came = 0;
        self.table.reopen();
        self.fits()
    }

    #[cold]
    fn return_keys(
        &mut self,
        take: impl FnOnce(&mut Cold<K, S>) -> Result<Vec<(u64, K::Owned, S)>>,
    ) -> bool {
        // Those that came before have been woken, and may go.
        if !self.accounts_for_those_that_came() {
            return false;
        }
        match take(&mut self.cold) {
            Ok(taken) => {
                let (is_some, mut taken) = (!taken.is_empty(), taken.into_iter());
                is_some && taken.all(|(hash, key, state)| self.insert(hash, K::lent(&key), state))
            }
            Err(error) => {
                self.accounts.fail(error);
                false
            }
        }
    }

    /// Adds a key that is neither in the table nor on disk; returns whether there was room.
    pub(super) fn insert(&mut self, hash: u64, key: &K, state: S) -> bool {
        let probe = key.probe();
        if self.table.is_full() && !self.has_room_for(hash, probe) {
            return false;
        }
        self.save_before(hash, probe);
        let Self { table, accounts, calendar, .. } = self;
        accounts.came_with(&state);
        accounts.changed(Counts { spent: true, heap: 0 }, Counts::of(&state));
        let (slot, known) =
            table.place(hash, probe, key, || Slot { armed: Default::default(), state });
        if !S::Clocks::ANY_ORDER {
            accounts.arm(hash, known.value);
        } else if let Some(due) = known.value.state.due(TimerClock::Event) {
            calendar.set(slot, None, due);
        }
        true
    }

    /// Adds a key of a checkpoint.
    ///
    /// # Errors
    ///
    /// If there is no room for it, nor on disk.
    pub(super) fn restore_key(&mut self, hash: u64, key: &K, state: S) -> Result<()> {
        let has_room = self.insert(hash, key, state);
        if has_room && self.accounts.is_crowded() {
            self.settle();
        }
        if self.accounts.failed { Err(self.failure()) } else { Ok(()) }
    }

    /// Takes every key of a checkpoint back from disk, where none may be on disk.
    ///
    /// # Errors
    ///
    /// If there is no room for them, or they cannot be read.
    pub(super) fn return_all(&mut self) -> Result<()> {
        while !self.cold.is_empty() {
            if !self.return_some() {
                return Err(self.failure());
            }
        }
        self.cold.clear();
        self.cold.release();
        Ok(())
    }

    /// Why the job has failed.
    pub(super) fn failure(&mut self) -> Error {
        let failure = self.accounts.failure.take();
        failure.unwrap_or_else(|| self.lack_of_memory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_choosing_takes_is_within_what_is_reserved_for_it() {
        for keys in [SAMPLE + 1, 5000, 1_000_000] {
            let listed = most_in_a_piece(keys) * size_of::<Chosen>();
            let marked = Gone::of(keys).bits.len() * size_of::<u64>();
            assert!(listed + marked <= CHOOSING * keys + 64, "{keys} keys");
        }
        assert!(SAMPLE * (size_of::<Chosen>() + size_of::<u64>()) <= 32 << 10);
    }

    #[test]
    fn keys_that_went_again_are_taken_back_ever_more_rarely() {
        let mut pace = Pace::default();
        let pauses = (0..10).map(|_| {
            let pause = (0..1000).take_while(|_| pace.waits()).count();
            pace.gives();
            pace.goes();
            // More go, of those that have come with records.
            pace.goes();
            pause
        });
        assert!(pauses.eq([0, 1, 3, 7, 15, 31, 63, 127, 255, 255]));
    }

    #[test]
    fn keys_are_marked_by_their_numbers() {
        let mut gone = Gone::of(130);
        [0, 63, 64, 129].into_iter().for_each(|number| gone.add(number));
        let marked: Vec<usize> = (0..130).filter(|number| gone.has(*number)).collect();
        assert_eq!((marked, gone.count), (vec![0, 63, 64, 129], 4));
    }
}
