//! Hints about memory to the processor and the kernel. They have no effect that a program can observe.
#![allow(unsafe_code)] // They take raw pointers; what they point to is neither read nor written.

/// The size and the alignment of a large page, 2 MiB.
pub(crate) const LARGE: usize = 2 << 20;

/// The size of a cache line.
pub(crate) const LINE: usize = 64;

/// Advises the kernel to use large pages for an allocation, before it is first written. Does nothing on systems
/// without that advice.
pub(crate) fn large_pages<T>(memory: &[T]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let start = memory.as_ptr().cast_mut().cast::<u8>();
        let skipped = start.align_offset(LARGE);
        let whole = size_of_val(memory).saturating_sub(skipped) / LARGE * LARGE;
        if whole > 0 {
            // SAFETY: the range is within `memory`, and this advice changes no contents. A refusal is no error.
            let _ = unsafe {
                madvise(start.wrapping_add(skipped).cast(), whole, Advice::LinuxHugepage)
            };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = memory;
}

/// Prefetches the cache line in which `value` begins.
///
/// A hint: it reads nothing, and does nothing on architectures for which it is not implemented.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    prefetch_at(std::ptr::from_ref(value).cast());
}

/// Prefetches all cache lines of `value`, for one whose parts are read one after the other.
#[inline(always)]
pub(crate) fn prefetch_all<T>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    (0..size_of::<T>()).step_by(LINE).for_each(|at| prefetch_at(start.wrapping_add(at)));
    prefetch_end(value);
}

/// Prefetches the cache line in which `value` ends.
#[inline(always)]
pub(crate) fn prefetch_end<T>(value: &T) {
    prefetch_at(
        std::ptr::from_ref(value).cast::<u8>().wrapping_add(size_of::<T>().saturating_sub(1)),
    );
}

/// How far beyond the end of a list memory is prefetched that is written next.
const PUSHED: usize = 12 * LINE;
/// Smaller values are written so often for each line that a prefetch for each costs more than it saves.
const SMALL: usize = LINE / 2;

/// Prefetches the memory of values that are pushed onto a list after some others, for writing.
///
/// Batches go from one core to the other and return. Where those are far from each other, a line that the other core has
/// read takes some hundred nanoseconds to come back, and the processor requests few of them by itself. Does nothing for
/// small values.
#[inline(always)]
pub(crate) fn prefetch_push<T>(list: &[T]) {
    if size_of::<T>() >= SMALL {
        let start = list.as_ptr_range().end.cast::<u8>().wrapping_add(PUSHED);
        (0..size_of::<T>()).step_by(LINE).for_each(|at| prefetch_to_write(start.wrapping_add(at)));
    }
}

#[inline(always)]
fn prefetch_to_write(place: *const u8) {
    // By name, since the compiler makes a prefetch for reading of it unless a program is built for certain processors.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch of any address has no observable effect, and processors that do not know this one ignore it.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) place.addr(), options(nomem, nostack, preserves_flags));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = place;
}

#[inline(always)]
fn prefetch_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64, and a prefetch of any address has no observable effect; these
        // addresses even come from live references.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
