//! The memory of a table's slots; in large pages when the table is large.
#![allow(unsafe_code)] // Owns an allocation; see `Pages`.

use crate::hints::{LARGE, LINE, large_pages};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// The bytes up to which an allocation need not begin at a cache line.
const SMALL: usize = 4096;

/// A fixed number of slots for `T`s, all uninitialised.
///
/// A lookup in a table of many megabytes misses the TLB as often as the caches, and a page walk costs more than the
/// access itself. With pages of 2 MiB the TLB covers the table; so an allocation of at least that size is aligned to
/// a large page and advises the kernel to use them.
///
/// Does not drop the values that were written into it.
pub(super) struct Pages<T> {
    // Invariant: allocated with `layout(len)`, or dangling when that is of no bytes.
    start: NonNull<MaybeUninit<T>>,
    len: usize,
}

// SAFETY: it owns its memory, as a `Vec` does.
unsafe impl<T: Send> Send for Pages<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Pages<T> {}

impl<T> Pages<T> {
    /// Allocates slots for `len` values.
    ///
    /// # Panics
    ///
    /// If the size exceeds the address space.
    pub(super) fn new(len: usize) -> Self {
        let layout = Self::layout(len);
        if layout.size() == 0 {
            return Self { start: NonNull::dangling(), len };
        }
        // SAFETY: the layout is not of size zero.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        let pages = Self { start: start.cast(), len };
        if layout.align() >= LARGE {
            large_pages(&pages);
        }
        pages
    }

    fn layout(len: usize) -> Layout {
        let layout = Layout::array::<T>(len).expect("fewer bytes than the address space has");
        let align = match layout.size() {
            0..SMALL => return layout,
            // An entry of 64 or 128 bytes then takes as few cache lines as it can.
            SMALL..LARGE => LINE,
            _ => LARGE,
        };
        layout.align_to(align).expect("a power of two, and few bytes more")
    }
}

impl<T> Deref for Pages<T> {
    type Target = [MaybeUninit<T>];

    #[inline(always)]
    fn deref(&self) -> &[MaybeUninit<T>] {
        // SAFETY: there are `len` slots, and a `MaybeUninit` need not be initialised.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Pages<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [MaybeUninit<T>] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> Drop for Pages<T> {
    fn drop(&mut self) {
        let layout = Self::layout(self.len);
        if layout.size() > 0 {
            // SAFETY: allocated with this layout by `new`.
            unsafe { dealloc(self.start.as_ptr().cast(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_can_be_written_and_read() {
        for len in [0, 1, 100, LARGE / 8] {
            let mut pages = Pages::<u64>::new(len);
            assert_eq!(pages.len(), len);
            // Both ends, and some slots between; miri is too slow for all.
            let step = if cfg!(miri) { (len / 16).max(1) } else { 1 };
            for (at, place) in pages.iter_mut().enumerate().step_by(step) {
                place.write(at as u64);
            }
            // SAFETY: each of these was written.
            let read = pages.iter().step_by(step).map(|place| unsafe { place.assume_init() });
            assert_eq!(read.sum::<u64>(), (0..len as u64).step_by(step).sum::<u64>());
        }
        assert!(Pages::<()>::new(5).len() == 5);
    }
}
