//! Keys that are looked at again when time has come: what joins and windows of one's own have in common.
//!
//! A key is in the table as long as something is kept for it, and has one timer: for the first moment at
//! which something is to be done. The timer knows its key by hash and number, so that neither is a key
//! copied nor does a table that grows have to tell the timers. Where a key is to be looked at earlier than
//! its timer comes, it gets another one, and the later one is passed over. Nothing is known here of
//! watermarks or of what is kept.

use crate::data::{Key, Portable};
use crate::flow::Op;
use crate::memory::Reservation;
use crate::state::{GroupTable, Known, Timers};

/// What is kept for a key.
pub trait Lasting {
    /// When the key is to be looked at again, if nothing else happens to it.
    fn due(&self) -> Option<i64>;

    /// Whether nothing would be lost with it.
    fn is_spent(&self) -> bool;

    /// The bytes beside itself. Asked at every record.
    fn heap(&self) -> usize;
}

/// A key, as its timer knows it: its hash and its number.
type Alarm = (u64, u64);

struct Kept<S> {
    /// Tells the key from others when its timer comes, which may have come too late for one before it.
    number: u64,
    /// When the timer comes that counts.
    armed: Option<i64>,
    state: S,
}

/// Bytes that are not worth giving back.
const SPARE: usize = 4096;

/// The keys of a task.
pub(in crate::operators) struct Watched<K: Key + ?Sized, S> {
    table: GroupTable<K, Kept<S>>,
    /// Keys that were new so far.
    numbers: u64,
    accounts: Accounts,
}

/// What is known of all keys together.
struct Accounts {
    op: Op,
    /// What is kept, for people.
    what: &'static str,
    timers: Timers<Alarm>,
    /// Keys that are not spent.
    live: usize,
    /// The bytes that what is kept has beside the table.
    heap: usize,
    /// Those of the table when it was last looked at.
    table: usize,
    reservation: Reservation,
    failed: bool,
}

/// What counts of a key.
#[derive(Clone, Copy)]
struct Counts {
    spent: bool,
    heap: usize,
}

impl Counts {
    #[inline(always)]
    fn of(state: &impl Lasting) -> Self {
        Self { spent: state.is_spent(), heap: state.heap() }
    }
}

/// A key while something is done to it. [`leave`](Self::leave) it, or nobody comes back.
#[must_use]
pub(in crate::operators) struct Visit<'w, K: Key + ?Sized, S> {
    known: Known<'w, K, Kept<S>>,
    before: Counts,
    accounts: &'w mut Accounts,
}

impl<K: Key + ?Sized, S: Lasting> Visit<'_, K, S> {
    /// What is kept for the key.
    #[inline(always)]
    pub(in crate::operators) fn state(&mut self) -> &mut S {
        &mut self.known.value.state
    }

    /// Calls what may refuse a value of the key with what is kept for it.
    #[inline(always)]
    pub(in crate::operators) fn guard<R>(&mut self, closure: impl FnOnce(&mut S) -> R) -> R {
        self.known.reborrow().guard(|kept| closure(&mut kept.state))
    }

    /// A copy of the key.
    pub(in crate::operators) fn key(&self) -> <K as Portable>::Owned {
        self.known.key()
    }

    /// Takes down what has changed. `hash` must be the key's.
    #[inline(always)]
    pub(in crate::operators) fn leave(self, hash: u64) {
        let Self { known: Known { value: kept, .. }, before, accounts } = self;
        accounts.changed(before, Counts::of(&kept.state));
        if let Some(at) = kept.state.due()
            && kept.armed.is_none_or(|armed| at < armed)
        {
            kept.armed = Some(at);
            accounts.set_timer(at, (hash, kept.number));
        }
    }
}

impl<K: Key + ?Sized, S: Lasting> Watched<K, S> {
    /// No keys yet. `what` ends the sentence "one of its tasks keeps …".
    pub(in crate::operators) fn new(op: Op, reservation: Reservation, what: &'static str) -> Self {
        let accounts = Accounts {
            op,
            what,
            timers: Timers::new(),
            live: 0,
            heap: 0,
            table: 0,
            reservation,
            failed: false,
        };
        Self { table: GroupTable::new(), numbers: 0, accounts }
    }

    /// Forgets every key.
    pub(in crate::operators) fn clear(&mut self) {
        self.table = GroupTable::new();
        self.accounts.timers = Timers::new();
        (self.accounts.live, self.accounts.heap) = (0, 0);
        self.account();
    }

    /// The keys for which something is kept.
    pub(in crate::operators) fn live(&self) -> usize {
        self.accounts.live
    }

    /// Whether the job was failed for want of memory.
    pub(in crate::operators) fn has_failed(&self) -> bool {
        self.accounts.failed
    }

    /// Goes to a key, for which `start` makes what is kept if that is nothing yet. `None` when there is no
    /// room.
    #[inline(always)]
    pub(in crate::operators) fn visit(
        &mut self,
        hash: u64,
        key: &K,
        start: impl FnOnce() -> S,
    ) -> Option<Visit<'_, K, S>> {
        if self.accounts.failed || (self.table.is_full() && !self.may_grow()) {
            return None;
        }
        let Self { table, numbers, accounts } = self;
        let numbers_before = *numbers;
        let known = table.entry(hash, key.probe(), key, || {
            *numbers += 1;
            Kept { number: *numbers, armed: None, state: start() }
        });
        let before = match *numbers == numbers_before {
            true => Counts::of(&known.value.state),
            false => Counts { spent: true, heap: 0 },
        };
        Some(Visit { known, before, accounts })
    }

    /// Shows the next key that is due by `until`; `None` when there is none. What is still due after that
    /// comes again.
    pub(in crate::operators) fn wake<R>(
        &mut self,
        until: i64,
        mut wake: impl FnMut(&K, &mut S) -> R,
    ) -> Option<R> {
        let Self { table, accounts, .. } = self;
        loop {
            let (at, (hash, number)) = accounts.timers.pop(until)?;
            let counts = |kept: &Kept<S>| kept.number == number && kept.armed == Some(at);
            let woken = table.see_where(hash, counts, |key, kept| {
                let before = Counts::of(&kept.state);
                let result = wake(key, &mut kept.state);
                accounts.changed(before, Counts::of(&kept.state));
                kept.armed = kept.state.due();
                (result, kept.armed)
            });
            let Some((result, again)) = woken else { continue };
            if let Some(again) = again {
                accounts.set_timer(again, (hash, number));
            }
            return Some(result);
        }
    }

    /// Shows the key at the cursor or the next one, and moves the cursor behind it: for who goes through
    /// all at the end. Timers are not set any more.
    pub(in crate::operators) fn see_next<R>(
        &mut self,
        cursor: &mut usize,
        see: impl FnOnce(&K, &mut S) -> R,
    ) -> Option<R> {
        let Self { table, accounts, .. } = self;
        table.see_next_mut(cursor, |key, kept| {
            let before = Counts::of(&kept.state);
            let result = see(key, &mut kept.state);
            accounts.changed(before, Counts::of(&kept.state));
            result
        })
    }

    /// When the next key may be due. Costs up to a step a key: to tell people, now and then.
    pub(in crate::operators) fn first_due(&self) -> Option<i64> {
        self.accounts.timers.first()
    }

    /// Before a new key may make the table grow.
    #[cold]
    #[inline(never)]
    fn may_grow(&mut self) -> bool {
        self.accounts.table = self.table.bytes_if_grown();
        self.accounts.reserve(self.accounts.bytes())
    }

    /// Between batches: accounts for what there is, with some to spare.
    pub(in crate::operators) fn account(&mut self) {
        self.accounts.table = self.table.bytes();
        self.accounts.settle();
    }

    /// Drops the keys that are spent, when there are many.
    pub(in crate::operators) fn forget_spent(&mut self) {
        let Accounts { live, heap, .. } = &mut self.accounts;
        self.table.forget_spent(*live, |kept| {
            let spent = kept.state.is_spent();
            *heap -= if spent { kept.state.heap() } else { 0 };
            !spent
        });
    }
}

impl Accounts {
    #[inline(always)]
    fn changed(&mut self, before: Counts, after: Counts) {
        self.live = self.live + usize::from(before.spent) - usize::from(after.spent);
        self.heap = self.heap + after.heap - before.heap;
    }

    #[inline(never)]
    fn set_timer(&mut self, at: i64, alarm: Alarm) {
        if self.timers.is_full() {
            let grown = self.timers.bytes_if_grown() - self.timers.bytes();
            self.reserve(self.bytes() + grown);
        }
        self.timers.add(at, alarm);
    }

    fn bytes(&self) -> usize {
        self.table + self.timers.bytes() + self.heap
    }

    /// Asks for memory, and fails the job when it is not there.
    #[cold]
    fn reserve(&mut self, bytes: usize) -> bool {
        if !self.failed && bytes > self.reservation.bytes() && !self.reservation.try_resize(bytes) {
            self.failed = true;
            let what = format!(
                "one of its tasks keeps {} of {} keys, for which the memory budget of {} bytes has no room, and \
                 which do not go to disk; shorter windows and intervals need less",
                self.what,
                self.live,
                self.reservation.pool().limit(),
            );
            self.op.fail(self.reservation.refused(what));
        }
        !self.failed
    }

    /// Asks for what is used and some to spare, and gives back what is far more than that.
    fn settle(&mut self) {
        let (used, held) = (self.bytes(), self.reservation.bytes());
        if !self.failed && (used > held || held - used > used / 4 + SPARE) {
            let more = used + used / 8;
            if !self.reservation.try_resize(more) {
                self.reserve(used);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Data;
    use crate::flow::{Depth, Signals};
    use crate::memory::MemoryPool;
    use std::sync::Arc;

    /// Numbers that are each to be looked at when they are due.
    #[derive(Default)]
    struct Numbers(Vec<i64>);

    impl Lasting for Numbers {
        fn due(&self) -> Option<i64> {
            self.0.iter().min().copied()
        }
        fn is_spent(&self) -> bool {
            self.0.is_empty()
        }
        fn heap(&self) -> usize {
            self.0.capacity() * size_of::<i64>()
        }
    }

    fn watched(memory: usize) -> Watched<u32, Numbers> {
        let op = Op::new(0, "test".into(), Depth(0), Arc::new(Signals::default()));
        Watched::new(op, MemoryPool::new(memory).reserve(), "numbers")
    }

    fn change(
        watched: &mut Watched<u32, Numbers>,
        key: u32,
        change: impl FnOnce(&mut Numbers),
    ) -> bool {
        let hash = key.key_hash();
        let Some(mut visit) = watched.visit(hash, &key, Numbers::default) else { return false };
        change(visit.state());
        visit.leave(hash);
        true
    }

    fn add(watched: &mut Watched<u32, Numbers>, key: u32, number: i64) -> bool {
        change(watched, key, |all| all.0.push(number))
    }

    /// Takes the least number of each key out when it comes.
    fn due(watched: &mut Watched<u32, Numbers>, until: i64) -> Vec<(i64, u32)> {
        let take = |key: &u32, all: &mut Numbers| {
            let least = (0..all.0.len()).min_by_key(|at| all.0[*at]);
            least.map(|at| (all.0.swap_remove(at), *key))
        };
        std::iter::from_fn(|| watched.wake(until, take)).flatten().collect()
    }

    #[test]
    fn keys_come_when_they_are_due_and_not_before() {
        let mut watched = watched(1 << 20);
        for (key, number) in [(1, 50), (2, 20), (1, 30), (1, 30), (2, 90), (3, 5), (1, 10)] {
            assert!(add(&mut watched, key, number));
        }
        assert_eq!(due(&mut watched, 4), []);
        assert_eq!(due(&mut watched, 29), [(5, 3), (10, 1), (20, 2)]);
        assert_eq!(watched.live(), 2);
        // Some that are overdue when they come.
        assert!(add(&mut watched, 3, 7) && add(&mut watched, 1, 8));
        assert_eq!(due(&mut watched, 29), [(7, 3), (8, 1)]);
        assert_eq!(due(&mut watched, i64::MAX), [(30, 1), (30, 1), (50, 1), (90, 2)]);
        assert_eq!((watched.live(), watched.first_due()), (0, None));
    }

    #[test]
    fn what_is_spent_is_dropped_and_its_memory_given_back() {
        let mut watched = watched(64 << 20);
        for round in 0..20 {
            for key in 0..5000 {
                assert!(add(&mut watched, round * 5000 + key, i64::from(round)));
            }
            watched.account();
            assert_eq!(due(&mut watched, i64::from(round)).len(), 5000);
            watched.forget_spent();
            watched.account();
        }
        assert_eq!((watched.live(), watched.table.len()), (0, 0));
        assert_eq!(watched.accounts.heap, 0);
        let held = watched.accounts.reservation.bytes();
        assert!(held < 1 << 20, "{held}");
    }

    #[test]
    fn a_timer_of_a_key_that_was_dropped_finds_no_other() {
        let mut watched = watched(64 << 20);
        for key in 0..5000 {
            add(&mut watched, key, 10);
            add(&mut watched, key, 5);
        }
        assert_eq!(due(&mut watched, 5).len(), 5000);
        assert!(change(&mut watched, 7, |all| all.0.clear()));
        assert_eq!(watched.live(), 4999);
        let mut cursor = 0;
        while watched.see_next(&mut cursor, |_, all| all.0.clear()).is_some() {}
        watched.forget_spent();
        assert_eq!(watched.table.len(), 0);
        add(&mut watched, 7, 40);
        assert_eq!(due(&mut watched, 39), []);
        assert_eq!(due(&mut watched, 40), [(40, 7)]);
    }

    #[test]
    fn what_has_no_room_fails_the_job() {
        let mut watched = watched(20_000);
        assert!(!(0..5000).all(|key| add(&mut watched, key, 0)));
        assert!(watched.has_failed());
    }
}
