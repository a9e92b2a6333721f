//! Timers with near-constant cost: a hierarchical timing wheel.
//!
//! Times are divided into digits of six bits. A timer lies on the *level* of the highest digit in which it differs
//! from the time reached so far, in the slot of that digit's value:
//!
//! ```text
//!   level 0   64 slots of a tick           the timers of one slot are due at the same time
//!   level 1   64 slots of 64 ticks
//!   level 2   64 slots of 4096 ticks
//!     …
//!   level 10  16 slots of 2^60 ticks       the levels cover all of `i64`
//! ```
//!
//! So every timer on a level is due before every one on the levels above it, and the first occupied slot of the
//! lowest occupied level holds those that are due next: two bit scans find it. When time reaches a slot above level
//! 0, its timers are distributed over the levels below; each timer moves down at most once a level. A slot with few
//! timers that are all due is sorted instead. The structure is a radix heap (Ahuja and others, 1990) with the digits
//! of a hierarchical timing wheel (Varghese and Lauck, 1987).
//!
//! This module knows nothing of keys or memory budgets. Single timers cannot be cancelled: the caller ignores the
//! ones that it no longer wants when they are due, or removes many at once with [`Timers::retain`].

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of a digit.
const BITS: u32 = 6;
/// Slots of a level.
const SLOTS: usize = 1 << BITS;
/// Levels that cover 64 bits.
const LEVELS: usize = 64_usize.div_ceil(BITS as usize);
/// The number of timers in a chunk. Few, since every occupied slot has a chunk that is not full.
const CHUNK: usize = 16;
/// The number of chunks allocated together.
const PAGE: usize = 32;
/// A slot with at most this many timers, all of them due, is sorted: that is faster than distributing them.
const SORTED: usize = 256;
/// The same of a slot whose order does not matter: its timers are copied, into memory that stays.
const COPIED: usize = 1 << 13;
/// No chunk.
const NONE: u32 = u32::MAX;

/// The order in which timers are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// That of their times.
    OfTime,
    Any,
}

/// Timers, in the order of their times.
///
/// Time is any `i64` that does not go back: microseconds since 1970, or a clock's nanoseconds. Adding a timer and
/// removing it when it is due cost a near-constant number of steps, whether there are ten timers or ten million.
/// Timers of the same time are returned in the order in which they were added.
///
/// A timer takes `size_of::<(i64, T)>()` bytes, and every occupied slot wastes the space of up to fifteen timers. The
/// owner must reserve memory when the timers [are full](Self::is_full), as much as
/// [`bytes_if_grown`](Self::bytes_if_grown) returns.
///
/// ```
/// use thalweg::state::Timers;
///
/// let mut timers = Timers::new();
/// timers.add(20, 'b');
/// timers.add(i64::MAX, 'd');
/// timers.add(-5, 'a');
/// timers.add(20, 'c');
/// assert_eq!(timers.pop(20), Some((-5, 'a')));
/// assert_eq!(timers.pop(20), Some((20, 'b')));
/// assert_eq!(timers.pop(20), Some((20, 'c')));
/// assert_eq!(timers.pop(20), None);
/// assert_eq!(timers.len(), 1);
/// ```
pub struct Timers<T> {
    /// The time reached: timers before it are in `sorted` or `overdue`, all others on a level.
    reached: u64,
    /// The slots of all levels, the lowest level first.
    slots: Vec<Slot>,
    /// Which slots of a level are occupied.
    used: [u64; LEVELS],
    /// Which levels have occupied slots.
    levels: u16,
    /// How many timers were removed from the first chunk of the first slot; only on level 0.
    taken: usize,
    chunks: Chunks<T>,
    /// The timers of a slot that was reached, sorted, and how many of them were removed.
    sorted: Vec<Timer<T>>,
    sorted_taken: usize,
    /// Timers that were added after their time had been reached.
    overdue: BinaryHeap<Reverse<Overdue<T>>>,
    /// The number of overdue timers so far.
    overdue_ever: u64,
    len: usize,
}

/// A list of chunks.
#[derive(Clone, Copy)]
struct Slot {
    first: u32,
    last: u32,
    len: usize,
}

impl Slot {
    const EMPTY: Self = Self { first: NONE, last: NONE, len: 0 };
}

#[derive(Clone, Copy, Default)]
struct Timer<T> {
    at: u64,
    what: T,
}

/// An overdue timer. Those of the same time are ordered by their number.
struct Overdue<T> {
    at: u64,
    number: u64,
    what: T,
}

impl<T> Overdue<T> {
    fn rank(&self) -> (u64, u64) {
        (self.at, self.number)
    }
}

impl<T> PartialEq for Overdue<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank() == other.rank()
    }
}

impl<T> Eq for Overdue<T> {}

impl<T> PartialOrd for Overdue<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Overdue<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Timers of a slot, in the order in which they were added.
#[derive(Clone, Copy)]
struct Chunk<T> {
    timers: [Timer<T>; CHUNK],
    len: u32,
    /// The next chunk of the slot, or of the free list.
    next: u32,
}

/// All chunks, in pages that never move, so that growing copies nothing.
struct Chunks<T> {
    pages: Vec<Box<[Chunk<T>]>>,
    unused: u32,
}

impl<T: Copy + Default> Chunks<T> {
    #[inline(always)]
    fn at(&mut self, chunk: u32) -> &mut Chunk<T> {
        &mut self.pages[chunk as usize / PAGE][chunk as usize % PAGE]
    }

    fn see(&self, chunk: u32) -> &Chunk<T> {
        &self.pages[chunk as usize / PAGE][chunk as usize % PAGE]
    }

    /// An empty chunk.
    #[inline]
    fn take(&mut self) -> u32 {
        if self.unused == NONE {
            self.grow();
        }
        let chunk = self.unused;
        self.unused = std::mem::replace(&mut self.at(chunk).next, NONE);
        chunk
    }

    #[cold]
    fn grow(&mut self) {
        let first = (self.pages.len() * PAGE) as u32;
        assert!(first < NONE - PAGE as u32, "more timers than can be counted");
        let timers = [Timer::default(); CHUNK];
        let chunk = |at: u32| Chunk { timers, len: 0, next: first + at + 1 };
        let mut page: Box<[Chunk<T>]> = (0..PAGE as u32).map(chunk).collect();
        page[PAGE - 1].next = NONE;
        self.pages.push(page);
        self.unused = first;
    }

    /// Returns a chunk to the free list; returns its successor.
    #[inline]
    fn give_back(&mut self, chunk: u32) -> u32 {
        let unused = std::mem::replace(&mut self.unused, chunk);
        let chunk = self.at(chunk);
        chunk.len = 0;
        std::mem::replace(&mut chunk.next, unused)
    }
}

/// Maps signed to unsigned, keeping the order.
#[inline(always)]
fn to_key(at: i64) -> u64 {
    at as u64 ^ (1 << 63)
}

#[inline(always)]
fn to_time(key: u64) -> i64 {
    (key ^ (1 << 63)) as i64
}

/// A mask of the bits below a level's digit.
#[inline(always)]
fn below(level: usize) -> u64 {
    (1 << (BITS * level as u32)) - 1
}

impl<T: Copy + Default> Timers<T> {
    /// No timers; the time reached is the least `i64`.
    pub fn new() -> Self {
        Self {
            reached: 0,
            slots: vec![Slot::EMPTY; LEVELS * SLOTS],
            used: [0; LEVELS],
            levels: 0,
            taken: 0,
            chunks: Chunks { pages: Vec::new(), unused: NONE },
            sorted: Vec::new(),
            sorted_taken: 0,
            overdue: BinaryHeap::new(),
            overdue_ever: 0,
            len: 0,
        }
    }

    /// The number of timers.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no timers.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether the next timer may need more memory.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.chunks.unused == NONE
    }

    /// The bytes occupied. Removing timers may temporarily need at most a chunk a slot more.
    pub fn bytes(&self) -> usize {
        self.slots.len() * size_of::<Slot>()
            + self.chunks.pages.len() * PAGE * size_of::<Chunk<T>>()
            + self.sorted.capacity() * size_of::<Timer<T>>()
            + self.overdue.capacity() * size_of::<Overdue<T>>()
    }

    /// The most bytes that may be occupied after one more timer.
    pub fn bytes_if_grown(&self) -> usize {
        self.bytes() + PAGE * size_of::<Chunk<T>>()
    }

    /// Adds a timer. If its time has been reached, it is returned next.
    #[inline]
    pub fn add(&mut self, at: i64, what: T) {
        self.len += 1;
        let at = to_key(at);
        if at < self.reached {
            let number = self.overdue_ever;
            self.overdue_ever += 1;
            self.overdue.push(Reverse(Overdue { at, number, what }));
            return;
        }
        self.place(Timer { at, what });
    }

    /// Puts a timer onto its level.
    #[inline(always)]
    fn place(&mut self, timer: Timer<T>) {
        let apart = timer.at ^ self.reached;
        let level = ((63 - (apart | 1).leading_zeros()) / BITS) as usize;
        let digit = (timer.at >> (BITS * level as u32)) as usize % SLOTS;
        let slot = &mut self.slots[level * SLOTS + digit];
        slot.len += 1;
        if slot.first == NONE {
            slot.first = self.chunks.take();
            slot.last = slot.first;
            self.used[level] |= 1 << digit;
            self.levels |= 1 << level;
        }
        let mut chunk = self.chunks.at(slot.last);
        if chunk.len as usize == CHUNK {
            let fresh = self.chunks.take();
            self.chunks.at(slot.last).next = fresh;
            slot.last = fresh;
            chunk = self.chunks.at(fresh);
        }
        chunk.timers[chunk.len as usize] = timer;
        chunk.len += 1;
    }

    /// Removes and returns the timer that is due first, if it is due by `until`. `until` must not go back: a time
    /// once reached stays reached.
    #[inline]
    pub fn pop(&mut self, until: i64) -> Option<(i64, T)> {
        self.next(until, Order::OfTime)
    }

    /// The same, or any timer that is due by `until`: where the order does not matter, this costs less.
    #[inline]
    pub(crate) fn next(&mut self, until: i64, order: Order) -> Option<(i64, T)> {
        let until = to_key(until);
        loop {
            let sorted = self.sorted.get(self.sorted_taken);
            let overdue = self.overdue.peek();
            let timer = match (sorted, overdue) {
                // Timers added earlier come first.
                (Some(timer), None) => *timer,
                (Some(timer), Some(Reverse(overdue))) if timer.at <= overdue.at => *timer,
                (_, Some(Reverse(overdue))) => {
                    let (at, what) = (overdue.at, overdue.what);
                    if at > until {
                        return None;
                    }
                    self.overdue.pop();
                    self.len -= 1;
                    return Some((to_time(at), what));
                }
                (None, None) => match self.next_slot(until, order) {
                    Some(0) => {
                        let timer = self.pop_tick();
                        self.len -= 1;
                        return Some((to_time(timer.at), timer.what));
                    }
                    Some(_) => continue,
                    None => return None,
                },
            };
            if timer.at > until {
                return None;
            }
            self.sorted_taken += 1;
            self.len -= 1;
            return Some((to_time(timer.at), timer.what));
        }
    }

    /// What the timer carries that is returned after `by` others, if that is known without a search: for a prefetch.
    #[inline(always)]
    pub(crate) fn ahead(&self, by: usize) -> Option<&T> {
        self.sorted.get(self.sorted_taken + by).map(|timer| &timer.what)
    }

    /// The level and digit of the slot whose timers are due next, and the time at which the slot begins.
    #[inline(always)]
    fn first_slot(&self) -> Option<(usize, usize, u64)> {
        if self.levels == 0 {
            return None;
        }
        let level = self.levels.trailing_zeros() as usize;
        let digit = self.used[level].trailing_zeros() as usize;
        let shift = BITS * level as u32;
        // The digits above this one equal those of the time reached.
        let above = (self.reached >> shift) & !(SLOTS as u64 - 1);
        Some((level, digit, (above | digit as u64) << shift))
    }

    /// Advances to the slot that is due next, if it begins by `until`; returns its level. The timers of a slot above
    /// level 0 have then been sorted, or moved to lower levels.
    #[inline(always)]
    fn next_slot(&mut self, until: u64, order: Order) -> Option<usize> {
        let (level, digit, begins) =
            self.first_slot().filter(|slot| slot.2 <= until).or_else(|| {
                // No slot contains this time, or it would begin before it.
                self.reached = self.reached.max(until);
                None
            })?;
        self.reached = begins;
        if level > 0 {
            self.open(level, digit, until, order);
        }
        Some(level)
    }

    /// Sorts or distributes the timers of a slot that was reached.
    fn open(&mut self, level: usize, digit: usize, until: u64, order: Order) {
        let slot = self.free_slot(level, digit);
        let ends = self.reached | below(level);
        let most = if order == Order::Any { COPIED } else { SORTED };
        let whole = ends <= until && slot.len <= most;
        self.sorted.clear();
        self.sorted_taken = 0;
        let mut chunk = slot.first;
        while chunk != NONE {
            let Chunk { timers, len, .. } = *self.chunks.at(chunk);
            chunk = self.chunks.give_back(chunk);
            let timers = &timers[..len as usize];
            if whole {
                self.sorted.extend_from_slice(timers);
            } else {
                timers.iter().for_each(|timer| self.place(*timer));
            }
        }
        if whole {
            if order == Order::OfTime {
                // Stable: timers of the same time keep their order.
                self.sorted.sort_by_key(|timer| timer.at);
            }
            self.reached = ends;
        }
    }

    /// Removes the chunks of a slot and marks it as unoccupied.
    #[inline(always)]
    fn free_slot(&mut self, level: usize, digit: usize) -> Slot {
        self.used[level] &= !(1 << digit);
        if self.used[level] == 0 {
            self.levels &= !(1 << level);
        }
        std::mem::replace(&mut self.slots[level * SLOTS + digit], Slot::EMPTY)
    }

    /// Removes the first timer of the level 0 slot that was reached.
    #[inline(always)]
    fn pop_tick(&mut self) -> Timer<T> {
        let digit = self.reached as usize % SLOTS;
        let slot = &mut self.slots[digit];
        let chunk = self.chunks.at(slot.first);
        let timer = chunk.timers[self.taken];
        self.taken += 1;
        slot.len -= 1;
        if self.taken == chunk.len as usize {
            self.taken = 0;
            slot.first = self.chunks.give_back(slot.first);
            if slot.first == NONE {
                self.free_slot(0, digit);
            }
        }
        timer
    }

    /// A lower bound of the time of the next timer; `None` if there is none. Each call of [`pop`](Self::pop) with
    /// this time raises the bound; after at most ten, it is exact.
    pub fn not_before(&self) -> Option<i64> {
        // They are not sorted if their order does not matter.
        let sorted = self.sorted[self.sorted_taken..].iter().map(|timer| timer.at).min();
        let overdue = self.overdue.peek().map(|Reverse(timer)| timer.at);
        let reached = sorted.into_iter().chain(overdue).min();
        let next = reached.or_else(|| self.first_slot().map(|(_, _, begins)| begins));
        next.map(to_time)
    }

    /// The exact time of the next timer. Costs a step for every timer in the same slot, which may be most of them:
    /// for occasional use, such as reports.
    pub fn first(&self) -> Option<i64> {
        // They are not sorted if their order does not matter.
        let sorted = self.sorted[self.sorted_taken..].iter().map(|timer| timer.at).min();
        let overdue = self.overdue.peek().map(|Reverse(timer)| timer.at);
        let reached = sorted.into_iter().chain(overdue).min();
        let next = reached.or_else(|| {
            let (level, digit, _) = self.first_slot()?;
            let mut chunk = self.slots[level * SLOTS + digit].first;
            // Timers removed from the first chunk had the same time as those left.
            let mut first = u64::MAX;
            while chunk != NONE {
                let Chunk { timers, len, next } = self.chunks.see(chunk);
                let times = timers[..*len as usize].iter().map(|timer| timer.at);
                first = times.fold(first, u64::min);
                chunk = *next;
            }
            Some(first)
        });
        next.map(to_time)
    }

    /// Removes the timers for which `keep` returns `false`, and frees the memory that is no longer needed. Costs a
    /// step for every timer; call it when there are many to remove.
    pub fn retain(&mut self, mut keep: impl FnMut(i64, &T) -> bool) {
        let mut kept = Self { reached: self.reached, ..Self::new() };
        let mut keep = |timer: &Timer<T>| keep(to_time(timer.at), &timer.what);
        for slot in &self.slots {
            // Timers removed from a chunk belong to the first slot of level 0.
            let mut skip = if slot.first == NONE { 0 } else { std::mem::take(&mut self.taken) };
            let mut chunk = slot.first;
            while chunk != NONE {
                let Chunk { timers, len, next } = self.chunks.at(chunk);
                for timer in &timers[skip..*len as usize] {
                    if keep(timer) {
                        kept.place(*timer);
                        kept.len += 1;
                    }
                }
                (skip, chunk) = (0, *next);
            }
        }
        kept.sorted = self.sorted.split_off(self.sorted_taken);
        kept.sorted.retain(&mut keep);
        kept.overdue = std::mem::take(&mut self.overdue);
        kept.overdue.retain(|Reverse(timer)| keep(&Timer { at: timer.at, what: timer.what }));
        kept.overdue.shrink_to_fit();
        kept.overdue_ever = self.overdue_ever;
        kept.len += kept.sorted.len() + kept.overdue.len();
        *self = kept;
    }
}

impl<T: Copy + Default> Default for Timers<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A reference implementation: a sorted list.
    #[derive(Default)]
    struct Model {
        timers: BTreeMap<(i64, u32), u32>,
    }

    impl Model {
        fn pop(&mut self, until: i64) -> Option<(i64, u32)> {
            let first = self.timers.first_entry().filter(|first| first.key().0 <= until)?;
            let ((at, _), what) = first.remove_entry();
            Some((at, what))
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        /// Adds a timer at this distance from now.
        Add(i64),
        /// Adds a timer at this time.
        AddAt(i64),
        /// Advances time, and removes up to so many timers.
        Pop(i64, usize),
        /// Retains the timers whose number is not divisible by this.
        Strike(u32),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let far = prop_oneof![
            3 => 0..10i64,
            3 => -20..200i64,
            2 => 0..100_000i64,
            1 => any::<i64>(),
        ];
        let step = prop_oneof![
            8 => far.prop_map(Step::Add),
            1 => any::<i64>().prop_map(Step::AddAt),
            1 => prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(-1), Just(0)].prop_map(Step::AddAt),
            3 => (0..300i64, 0..6usize).prop_map(|(by, n)| Step::Pop(by, n)),
            1 => (0..i64::MAX, 0..99usize).prop_map(|(by, n)| Step::Pop(by, n)),
            1 => (2..5u32).prop_map(Step::Strike),
        ];
        prop::collection::vec(step, 0..150)
    }

    proptest! {
        #[test]
        fn timers_come_in_order_or_in_any_after_any_steps(
            start in prop_oneof![Just(i64::MIN), Just(0), any::<i64>()],
            steps in steps(),
            order in prop_oneof![Just(Order::OfTime), Just(Order::Any)],
        ) {
            let (mut timers, mut model) = (Timers::new(), Model::default());
            let mut now = start;
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Add(from_now) => {
                        let at = now.saturating_add(from_now);
                        timers.add(at, number);
                        model.timers.insert((at, number), number);
                    }
                    Step::AddAt(at) => {
                        timers.add(at, number);
                        model.timers.insert((at, number), number);
                    }
                    Step::Pop(by, count) => {
                        now = now.saturating_add(by);
                        for _ in 0..count {
                            match (order, timers.next(now, order)) {
                                (Order::Any, Some(timer)) => {
                                    prop_assert!(timer.0 <= now);
                                    prop_assert!(model.timers.remove(&timer).is_some());
                                }
                                (_, timer) => prop_assert_eq!(timer, model.pop(now)),
                            }
                        }
                    }
                    Step::Strike(divisor) => {
                        timers.retain(|_, number| number % divisor != 0);
                        model.timers.retain(|_, number| *number % divisor != 0);
                    }
                }
                prop_assert_eq!(timers.len(), model.timers.len());
                let next = model.timers.keys().next().map(|(at, _)| *at);
                prop_assert!(timers.not_before() <= next);
                prop_assert_eq!(timers.first(), next);
                prop_assert_eq!(timers.not_before().is_some(), next.is_some());
            }
            while let Some(timer) = timers.next(i64::MAX, order) {
                if order == Order::OfTime {
                    prop_assert_eq!(model.timers.keys().next(), Some(&timer));
                }
                prop_assert!(model.timers.remove(&timer).is_some());
            }
            prop_assert!(model.timers.is_empty());
            prop_assert!(timers.is_empty());
        }
    }

    #[test]
    fn timers_added_meanwhile_are_ordered() {
        let mut timers = Timers::new();
        (0..100).for_each(|n| timers.add(n * 10, n));
        assert_eq!(timers.pop(1000), Some((0, 0)));
        timers.add(15, 1000);
        timers.add(20, 1001);
        timers.add(-7, 1002);
        let next: Vec<_> = (0..5).filter_map(|_| timers.pop(1000)).collect();
        assert_eq!(next, [(-7, 1002), (10, 1), (15, 1000), (20, 2), (20, 1001)]);
    }

    #[test]
    fn sorted_timers_are_known_ahead() {
        let mut timers = Timers::new();
        (0..100).for_each(|n| timers.add(n * 10, n));
        while timers.pop(1000) != Some((70, 7)) {}
        assert_eq!(timers.ahead(0), Some(&8));
        assert_eq!(timers.ahead(2), Some(&10));
        assert_eq!(timers.ahead(100), None);
    }

    #[test]
    fn the_lower_bound_reaches_the_next_timer() {
        let mut timers = Timers::new();
        timers.add(123_456_789_012_345, ());
        let mut looks = 0;
        loop {
            let at = timers.not_before().expect("there is one");
            looks += 1;
            if let Some((due, ())) = timers.pop(at) {
                assert_eq!((at, due), (123_456_789_012_345, 123_456_789_012_345));
                break;
            }
        }
        assert!(looks <= LEVELS, "{looks}");
    }

    #[test]
    fn memory_is_reused() {
        let mut timers = Timers::new();
        for round in 0..100i64 {
            (0..1000).for_each(|n| timers.add(round * 10_000 + n * 7, n));
            while timers.pop(round * 10_000 + 9_999).is_some() {}
        }
        let chunks = 1000_usize.div_ceil(CHUNK) + LEVELS * SLOTS;
        assert!(timers.bytes() <= (chunks + PAGE) * size_of::<Chunk<i64>>() + (64 << 10));
        timers.retain(|_, _| true);
        assert_eq!(timers.chunks.pages.len(), 0);
    }
}
