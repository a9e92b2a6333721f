//! The slots of the keyed table: open addressing with linear probing.
//!
//! Beside the entries there is one byte a slot, its tag: zero when the slot is empty, otherwise a set top bit and
//! seven bits of the hash. A lookup compares sixteen tags at once, starting at the key's home slot, and goes straight
//! to the entries whose tags match, so that neither neighbours nor collisions cause branches that the processor
//! mispredicts. (A misprediction costs some ten nanoseconds; when slots are tried one by one, every fourth lookup in
//! a half-full table has one.) The tags of a table in main memory still fit into a cache, and entries need no
//! occupied flag, so that a pair of `u64` takes 17 bytes instead of 24.
//!
//! The index is taken from the low bits of the hash and the tag from the middle: the top bits, by which keys are
//! routed to tasks, are the same for many keys of a table.
//!
//! A run of occupied slots has no holes: a key lies between its home slot and the next empty one. Where an entry is
//! removed, those behind it move up.
#![allow(unsafe_code)] // An entry is there exactly when its tag says so; see `Slots`.

use super::pages::Pages;
use crate::hints::{prefetch, prefetch_end};
use std::mem::{MaybeUninit, needs_drop};
use std::ops::Range;

/// The number of slots in a new table; at least a window.
const FIRST_CAPACITY: usize = 16;
/// The number of tags compared at once.
pub(crate) const WINDOW: usize = 16;
/// An entry that would be so many slots behind its home makes the slots double before they are full, if they are half of that.
///
/// Keys with equally distributed hashes never get there. But those that come in the order of another, larger table fill
/// the first slots twice while the last ones are empty, and each would be put behind all of them: a state of ten million
/// keys took a minute to restore.
const FAR: usize = 1024;
/// Set in the tag of a slot that is in use.
const OCCUPIED: u8 = 0x80;

/// A power of two of slots for entries, at most three quarters of them occupied.
///
/// Invariants: there are `mask + 1` entries, and `WINDOW` tags more than that; `entries[at]` is initialised exactly
/// when `tags[at]` has the bit `OCCUPIED`; the tags after the last slot repeat the first ones, so that a window never
/// wraps; at least one slot is empty.
pub(super) struct Slots<E> {
    tags: Vec<u8>,
    entries: Pages<E>,
    mask: usize,
    len: usize,
    // How many more entries fit before the slots are doubled; none when one was put far behind its home.
    room: usize,
}

#[inline(always)]
fn tag(hash: u64) -> u8 {
    (hash >> 40) as u8 | OCCUPIED
}

/// The load factor is 3/4: beyond it, runs outgrow the window. From a random slot to the end of its run it is 7.5
/// slots on average at 3/4, and 31.5 at 7/8.
const fn limit(capacity: usize) -> usize {
    capacity / 4 * 3
}

/// Two bit masks, the first tag in the lowest bit: which tags equal `tag`, and which are occupied.
#[inline(always)]
fn compare(tags: &[u8; WINDOW], tag: u8) -> (u32, u32) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8,
        };
        // SAFETY: SSE2 is part of every x86-64; the load is of the sixteen bytes that `tags` borrows, and needs no
        // alignment.
        unsafe {
            let tags = _mm_loadu_si128(std::ptr::from_ref(tags).cast::<__m128i>());
            let equal = _mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8));
            (_mm_movemask_epi8(equal) as u32, _mm_movemask_epi8(tags) as u32)
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    compare_each(tags, tag)
}

/// The portable form of [`compare`].
#[cfg(any(test, not(target_arch = "x86_64")))]
fn compare_each(tags: &[u8; WINDOW], tag: u8) -> (u32, u32) {
    let mut masks = (0, 0);
    for (at, &other) in tags.iter().enumerate() {
        masks.0 |= u32::from(other == tag) << at;
        masks.1 |= u32::from(other >> 7) << at;
    }
    masks
}

/// A bit mask, the first byte in the lowest bit: which bytes are `first` or one of so many `others` behind it, where 0 follows
/// 255.
#[inline(always)]
pub(crate) fn within(bytes: &[u8; WINDOW], (first, others): (u8, u8)) -> u32 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8,
            _mm_set1_epi8, _mm_sub_epi8,
        };
        // SAFETY: SSE2 is part of every x86-64; the load is of the sixteen bytes that `bytes` borrows, and needs no
        // alignment.
        unsafe {
            let bytes = _mm_loadu_si128(std::ptr::from_ref(bytes).cast::<__m128i>());
            let from_first = _mm_sub_epi8(bytes, _mm_set1_epi8(first as i8));
            let least = _mm_min_epu8(from_first, _mm_set1_epi8(others as i8));
            _mm_movemask_epi8(_mm_cmpeq_epi8(least, from_first)) as u32
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    within_each(bytes, (first, others))
}

/// The portable form of [`within`].
#[cfg(any(test, not(target_arch = "x86_64")))]
fn within_each(bytes: &[u8; WINDOW], (first, others): (u8, u8)) -> u32 {
    let each = bytes.iter().map(|byte| u32::from(byte.wrapping_sub(first) <= others));
    each.enumerate().fold(0, |mask, (at, bit)| mask | bit << at)
}

impl<E> Slots<E> {
    pub(super) fn new() -> Self {
        Self::with_capacity(FIRST_CAPACITY)
    }

    /// Slots that hold `entries` entries without growing.
    pub(super) fn with_room(entries: usize) -> Self {
        let capacity = (entries / 3 * 4 + 4).next_power_of_two();
        Self::with_capacity(capacity.max(FIRST_CAPACITY))
    }

    fn with_capacity(capacity: usize) -> Self {
        debug_assert!(capacity.is_power_of_two() && capacity >= WINDOW);
        Self {
            tags: vec![0; capacity + WINDOW],
            entries: Pages::new(capacity),
            mask: capacity - 1,
            len: 0,
            room: limit(capacity),
        }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)]
    pub(super) fn capacity(&self) -> usize {
        self.mask + 1
    }

    /// Whether one more entry doubles the number of slots.
    #[inline(always)]
    pub(super) fn is_full(&self) -> bool {
        self.room == 0
    }

    /// Makes the slots accept as many entries again as there is room for.
    pub(super) fn reopen(&mut self) {
        self.room = limit(self.capacity()).saturating_sub(self.len);
    }

    /// The bytes that the slots occupy.
    #[inline(always)]
    pub(super) fn bytes(&self) -> usize {
        self.capacity() * (size_of::<E>() + 1) + WINDOW
    }

    /// The peak of the bytes occupied while the number of slots doubles: the old and the new ones.
    #[inline(always)]
    pub(super) fn bytes_if_grown(&self) -> usize {
        3 * self.capacity() * (size_of::<E>() + 1) + 2 * WINDOW
    }

    /// Prefetches the tags at the home slot of this hash: the first of a lookup's three steps.
    #[inline(always)]
    pub(super) fn prefetch(&self, hash: u64) {
        let home = hash as usize & self.mask;
        // SAFETY: `home` is at most `mask`, and there are more tags than that.
        prefetch(unsafe { self.tags.get_unchecked(home) });
    }

    /// The first slot whose tag matches this hash, or the one where a new entry would go; prefetches its entry. The
    /// second step.
    #[inline(always)]
    pub(super) fn locate(&self, hash: u64) -> usize {
        let home = hash as usize & self.mask;
        let (equal, used) = self.window(home, tag(hash));
        let named = if equal == 0 { !used } else { equal };
        let at = (home + named.trailing_zeros() as usize) & self.mask;
        // SAFETY: `at` is at most `mask`, and there are `mask + 1` entries.
        let entry = unsafe { self.entries.get_unchecked(at) };
        prefetch_entry(entry);
        at
    }

    /// Prefetches the entry of a slot.
    #[inline(always)]
    pub(super) fn prefetch_entry(&self, at: usize) {
        if let Some(entry) = self.entries.get(at) {
            prefetch_entry(entry);
        }
    }

    /// The entry in a slot, if it is occupied.
    #[inline(always)]
    pub(super) fn entry_at(&mut self, at: usize) -> Option<&mut E> {
        if at > self.mask || self.tags[at] == 0 {
            return None;
        }
        // SAFETY: the tag says that the entry is initialised.
        Some(unsafe { self.entries[at].assume_init_mut() })
    }

    /// The entry in the slot that [`locate`](Self::locate) returned, if it satisfies `is_it`: the last step.
    /// Otherwise the entry may still be in another slot.
    ///
    /// The slots may have changed since.
    #[inline(always)]
    pub(super) fn find_at(
        &mut self,
        at: usize,
        hash: u64,
        is_it: impl FnOnce(&E) -> bool,
    ) -> Option<&mut E> {
        if *self.tags.get(at)? != tag(hash) || at > self.mask {
            return None;
        }
        // SAFETY: `at` is at most `mask`, and its tag has `OCCUPIED`: the entry is initialised.
        let entry = unsafe { self.entries.get_unchecked_mut(at).assume_init_mut() };
        is_it(entry).then_some(entry)
    }

    #[inline(always)]
    fn window(&self, at: usize, tag: u8) -> (u32, u32) {
        debug_assert!(at <= self.mask);
        // SAFETY: `at` is at most `mask`, and there are `mask + 1 + WINDOW` tags.
        unsafe { window(&self.tags, at, tag) }
    }

    /// The entry with this hash that satisfies `is_it`.
    #[inline(always)]
    pub(super) fn find(&mut self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<&mut E> {
        self.finder().into_found(hash, is_it)
    }

    /// The slot of the entry with this hash that satisfies `is_it`, or the one that such an entry gets if it is added
    /// before the slots are doubled.
    #[inline]
    pub(super) fn position(
        &mut self,
        hash: u64,
        is_it: impl FnMut(&E) -> bool,
    ) -> Result<usize, usize> {
        self.finder().position(hash, is_it)
    }

    /// Borrows the slots for a run of look-ups.
    #[inline(always)]
    pub(super) fn finder(&mut self) -> Finder<'_, E> {
        Finder { tags: &self.tags, entries: &mut self.entries, mask: self.mask }
    }

    /// The entry with this hash that satisfies `is_it`, created by `make` if there is none; `make` also returns whether the
    /// slots [are full](Self::is_full) with it. `shared` is passed to every closure, because one of them changes what
    /// the others read.
    #[inline(always)]
    pub(super) fn upsert<S>(
        &mut self,
        hash: u64,
        shared: &mut S,
        is_it: impl Fn(&E, &S) -> bool,
        make: impl FnOnce(&mut S) -> (E, bool),
        hash_of: impl Fn(&E, &S) -> u64,
    ) -> (usize, &mut E) {
        let at = match self.finder().position(hash, |entry| is_it(entry, shared)) {
            Ok(at) => at,
            Err(vacant) => {
                // Made here, not in `insert`: what `make` refers to stays in registers on the path of known entries,
                // since no reference to it leaves this function.
                let (entry, is_last) = make(shared);
                let at = self.insert(vacant, hash, shared, entry, hash_of);
                if is_last {
                    self.room = 0;
                }
                at
            }
        };
        // SAFETY: `position` found an initialised entry there, or `insert` wrote one.
        (at, unsafe { self.entries.get_unchecked_mut(at).assume_init_mut() })
    }

    /// Adds an entry that is known to be new.
    #[inline(always)]
    pub(super) fn insert_new<S>(
        &mut self,
        hash: u64,
        shared: &mut S,
        make: impl FnOnce(&mut S) -> E,
        hash_of: impl Fn(&E, &S) -> u64,
    ) {
        let (vacant, entry) = (self.vacant(hash), make(shared));
        self.insert(vacant, hash, shared, entry, hash_of);
    }

    #[inline(never)]
    fn insert<S>(
        &mut self,
        mut at: usize,
        hash: u64,
        shared: &mut S,
        entry: E,
        hash_of: impl Fn(&E, &S) -> u64,
    ) -> usize {
        if self.room == 0 {
            self.grow(|entry| hash_of(entry, shared));
            at = self.vacant(hash);
        }
        self.put(at, hash, entry);
        if at.wrapping_sub(hash as usize) & self.mask >= FAR && self.len >= self.capacity() / 8 * 3
        {
            self.room = 0;
        }
        at
    }

    /// The first empty slot, from the hash's home slot on.
    #[inline(always)]
    fn vacant(&self, hash: u64) -> usize {
        let mut home = hash as usize & self.mask;
        loop {
            let empty = !self.window(home, 0).1 & 0xFFFF;
            if empty != 0 {
                return (home + empty.trailing_zeros() as usize) & self.mask;
            }
            home = (home + WINDOW) & self.mask;
        }
    }

    #[inline(always)]
    fn set_tag(&mut self, at: usize, tag: u8) {
        self.tags[at] = tag;
        if at < WINDOW {
            let behind = self.capacity() + at;
            self.tags[behind] = tag;
        }
    }

    /// Moves the entry out of a slot, if it is occupied.
    #[inline(always)]
    fn take(&mut self, at: usize) -> Option<E> {
        if self.tags[at] == 0 {
            return None;
        }
        self.set_tag(at, 0);
        // SAFETY: the tag said that the entry is initialised, and now says that it is not.
        Some(unsafe { self.entries[at].assume_init_read() })
    }

    /// Passes the entry with this hash that satisfies `is_it` to `see`, which returns whether the entry stays, and
    /// removes it otherwise.
    #[inline]
    pub(super) fn see_or_remove<R>(
        &mut self,
        hash: u64,
        is_it: impl FnMut(&E) -> bool,
        hash_of: impl Fn(&E) -> u64,
        see: impl FnOnce(&mut E) -> (R, bool),
    ) -> Option<(R, Option<E>)> {
        let at = self.finder().position(hash, is_it).ok()?;
        // SAFETY: `position` found an initialised entry there.
        let (seen, stays) = see(unsafe { self.entries.get_unchecked_mut(at).assume_init_mut() });
        let removed = if stays { None } else { self.remove(at, hash_of) };
        Some((seen, removed))
    }

    /// Moves the entry out of a slot, and closes the hole in its run: an entry behind it moves up unless it would then
    /// lie before its home slot.
    ///
    /// If `hash_of` panics, entries behind the hole may no longer be found.
    #[inline(never)]
    fn remove(&mut self, mut hole: usize, hash_of: impl Fn(&E) -> u64) -> Option<E> {
        let removed = self.take(hole)?;
        self.len -= 1;
        self.room += 1;
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            if self.tags[at] == 0 {
                return Some(removed);
            }
            // SAFETY: the tag says that the entry is initialised.
            let hash = hash_of(unsafe { self.entries[at].assume_init_ref() });
            let from_home = at.wrapping_sub(hash as usize) & self.mask;
            if from_home >= at.wrapping_sub(hole) & self.mask
                && let Some(entry) = self.take(at)
            {
                self.entries[hole].write(entry);
                self.set_tag(hole, tag(hash));
                hole = at;
            }
        }
    }

    /// Whether there are more than this many slots for each entry.
    pub(super) fn is_sparse(&self, slots: usize) -> bool {
        self.capacity() > slots.saturating_mul(self.len.max(FIRST_CAPACITY))
    }

    /// Doubles the number of slots.
    #[cold]
    #[inline(never)]
    pub(super) fn grow(&mut self, hash_of: impl Fn(&E) -> u64) {
        let mut larger = Self::with_capacity(2 * self.capacity());
        let mut cursor = 0;
        while let Some(entry) = self.take_next(&mut cursor) {
            let hash = hash_of(&entry);
            let at = larger.vacant(hash);
            larger.put(at, hash, entry);
        }
        *self = larger;
    }

    /// Writes an entry into an empty slot.
    #[inline(always)]
    fn put(&mut self, at: usize, hash: u64, entry: E) {
        self.entries[at].write(entry);
        self.set_tag(at, tag(hash));
        self.len += 1;
        self.room -= 1;
    }

    /// The first occupied slot from `start` on. Examines a window of tags at once: a branch for each slot would be
    /// unpredictable.
    #[inline(always)]
    fn next_occupied(&self, mut start: usize) -> Option<usize> {
        while start <= self.mask {
            let (_, used) = self.window(start, 0);
            if used != 0 {
                let at = start + used.trailing_zeros() as usize;
                // The tags after the last slot repeat the first ones.
                return (at <= self.mask).then_some(at);
            }
            start += WINDOW;
        }
        None
    }

    /// The occupied slots of a range, in order.
    #[inline]
    fn occupied(&self, slots: Range<usize>) -> impl Iterator<Item = usize> {
        let mut from = slots.start;
        std::iter::from_fn(move || {
            let at = self.next_occupied(from).filter(|at| *at < slots.end)?;
            from = at + 1;
            Some(at)
        })
    }

    /// The entries, in the order of their slots.
    pub(super) fn iter(&self) -> impl Iterator<Item = &E> {
        self.places().map(|(_, entry)| entry)
    }

    /// The entries with their slots, in order.
    pub(super) fn places(&self) -> impl Iterator<Item = (usize, &E)> {
        self.places_in(0..self.capacity())
    }

    /// As [`places`](Self::places), for a range of slots.
    pub(super) fn places_in(&self, slots: Range<usize>) -> impl Iterator<Item = (usize, &E)> {
        // SAFETY: the tag says that the entry is initialised.
        self.occupied(slots).map(|at| (at, unsafe { self.entries[at].assume_init_ref() }))
    }

    /// The entries, in the order of their slots.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut E> {
        let entries = self.tags.iter().zip(self.entries.iter_mut());
        // SAFETY: the tag says that the entry is initialised.
        entries.filter(|(tag, _)| **tag != 0).map(|(_, entry)| unsafe { entry.assume_init_mut() })
    }

    /// The first entry at or after the slot `cursor`, which is moved past it.
    #[inline]
    pub(super) fn see_next(&self, cursor: &mut usize) -> Option<&E> {
        let at = self.next_occupied(*cursor)?;
        *cursor = at + 1;
        // SAFETY: the tag says that the entry is initialised.
        Some(unsafe { self.entries[at].assume_init_ref() })
    }

    /// The first entry at or after the slot `cursor`, which is moved past it.
    #[inline]
    pub(super) fn see_next_mut(&mut self, cursor: &mut usize) -> Option<&mut E> {
        let at = self.next_occupied(*cursor)?;
        *cursor = at + 1;
        // SAFETY: the tag says that the entry is initialised.
        Some(unsafe { self.entries[at].assume_init_mut() })
    }

    /// Removes the first entry at or after the slot `cursor`, which is moved past it.
    #[inline]
    pub(super) fn take_next(&mut self, cursor: &mut usize) -> Option<E> {
        let Some(at) = self.next_occupied(*cursor) else {
            *cursor = self.capacity();
            return None;
        };
        *cursor = at + 1;
        self.len -= 1;
        self.take(at)
    }

    /// Drops every entry and keeps the slots.
    pub(super) fn clear(&mut self) {
        if needs_drop::<E>() {
            let mut cursor = 0;
            while self.take_next(&mut cursor).is_some() {}
        }
        self.tags.fill(0);
        self.len = 0;
        self.room = limit(self.capacity());
    }
}

/// Prefetches an entry, which may span two cache lines of 64 bytes.
#[inline(always)]
fn prefetch_entry<E>(entry: &E) {
    prefetch(entry);
    if !64_usize.is_multiple_of(size_of::<E>().max(1)) {
        prefetch_end(entry);
    }
}

/// Compares the tags of a window that begins at the slot `at`.
///
/// # Safety
///
/// There must be at least `at + WINDOW` tags.
#[inline(always)]
unsafe fn window(tags: &[u8], at: usize, tag: u8) -> (u32, u32) {
    // SAFETY: the caller's; bytes need no alignment.
    compare(unsafe { &*tags.as_ptr().add(at).cast::<[u8; WINDOW]>() }, tag)
}

/// [`Slots`] borrowed for a run of look-ups. Its fields are values and not behind a reference, so that they stay in
/// registers although entries are written to between the look-ups.
pub(super) struct Finder<'a, E> {
    tags: &'a [u8],
    entries: &'a mut [MaybeUninit<E>],
    mask: usize,
}

impl<'a, E> Finder<'a, E> {
    /// The entry with this hash that satisfies `is_it`.
    #[inline(always)]
    pub(super) fn find(&mut self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<&mut E> {
        let at = self.position(hash, is_it).ok()?;
        // SAFETY: `position` found an initialised entry there.
        Some(unsafe { self.entries.get_unchecked_mut(at).assume_init_mut() })
    }

    /// The same for the last look-up, whose entry may be kept.
    #[inline(always)]
    fn into_found(self, hash: u64, is_it: impl FnMut(&E) -> bool) -> Option<&'a mut E> {
        let at = self.position(hash, is_it).ok()?;
        // SAFETY: as above.
        Some(unsafe { self.entries.get_unchecked_mut(at).assume_init_mut() })
    }

    /// The slot whose entry satisfies `is_it`, or the empty slot where such an entry belongs.
    #[inline(always)]
    fn position(&self, hash: u64, mut is_it: impl FnMut(&E) -> bool) -> Result<usize, usize> {
        let mut home = hash as usize & self.mask;
        loop {
            if let Ok(found) = self.position_in_window(home, hash, &mut is_it) {
                return found;
            }
            // Rare.
            home = (home + WINDOW) & self.mask;
        }
    }

    /// The same in the window that begins at `home`; an error if it has neither.
    #[inline(always)]
    fn position_in_window(
        &self,
        home: usize,
        hash: u64,
        mut is_it: impl FnMut(&E) -> bool,
    ) -> Result<Result<usize, usize>, ()> {
        // SAFETY: `home` is at most `mask`, and there are `mask + 1 + WINDOW` tags.
        let (mut equal, used) = unsafe { window(self.tags, home, tag(hash)) };
        while equal != 0 {
            let at = (home + equal.trailing_zeros() as usize) & self.mask;
            // SAFETY: `at` is at most `mask`. Its tag equals one with `OCCUPIED` (or, behind the last slot, repeats
            // it), so the entry is initialised.
            if is_it(unsafe { self.entries.get_unchecked(at).assume_init_ref() }) {
                return Ok(Ok(at));
            }
            equal &= equal - 1;
        }
        let empty = !used & 0xFFFF;
        if empty == 0 {
            return Err(());
        }
        Ok(Err((home + empty.trailing_zeros() as usize) & self.mask))
    }
}

impl<E> Drop for Slots<E> {
    fn drop(&mut self) {
        if needs_drop::<E>() {
            self.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_with_room_need_not_grow() {
        for entries in (0..200).chain([1 << 20, 3 << 20]) {
            let slots = Slots::<()>::with_room(entries);
            assert!(slots.room >= entries && slots.capacity() <= 16.max(3 * entries));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn entries_in_the_order_of_other_slots_stay_near_their_homes() {
        let add = |slots: &mut Slots<u64>, hash| {
            slots.insert_new(hash, &mut (), |()| hash, |hash, ()| *hash);
        };
        // Slots half full to three quarters, which smaller ones would have twice in their first part, and others.
        for entries in [70_000, 80_000, 90_000, 98_000, 120_000_u64] {
            let mut first = Slots::new();
            (0..entries).for_each(|n| add(&mut first, crate::data::hash_u64(n)));
            let mut second = Slots::new();
            let mut farthest = 0;
            for hash in first.iter().copied() {
                let behind = second.vacant(hash).wrapping_sub(hash as usize) & second.mask;
                farthest = farthest.max(if second.is_full() { 0 } else { behind });
                add(&mut second, hash);
            }
            assert_eq!((second.len(), second.capacity()), (first.len(), first.capacity()));
            assert!(farthest < 2 * FAR, "{entries} entries: {farthest}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes too long")]
    fn equal_hashes_double_the_slots_once_at_most() {
        let mut slots = Slots::new();
        for n in 0..20_000_u64 {
            slots.insert_new(7, &mut (), |()| n, |_, ()| 7);
            let most = 16.max(16 * slots.len() / 3 + 16);
            assert!(slots.capacity() <= most, "{} of {}", slots.len(), slots.capacity());
        }
    }

    #[test]
    fn both_forms_of_comparisons_agree() {
        let mut tags = [0; WINDOW];
        for round in 0_u8..=255 {
            for (at, tag) in tags.iter_mut().enumerate() {
                *tag = [0, 0x80, 0xFF, round, round | 0x80][(at + usize::from(round)) % 5];
            }
            for tag in [0x80, 0xFF, round | 0x80] {
                assert_eq!(compare(&tags, tag), compare_each(&tags, tag));
                let range = (tag, round / 2);
                assert_eq!(within(&tags, range), within_each(&tags, range));
            }
        }
    }
}
