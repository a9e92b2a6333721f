//! Hints to the processor and the kernel about memory, which change nothing that a program sees.
#![allow(unsafe_code)] // Both take raw pointers; what they point to is neither read nor written.

/// The size of a large page, and how one is aligned.
pub(super) const LARGE: usize = 2 << 20;

/// Asks for large pages within an allocation, before it is used. Systems that do not know this do
/// nothing.
pub(super) fn large_pages<T>(memory: &[T]) {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        use rustix::mm::{Advice, madvise};
        let start = memory.as_ptr().cast_mut().cast::<u8>();
        let skipped = start.align_offset(LARGE);
        let whole = size_of_val(memory).saturating_sub(skipped) / LARGE * LARGE;
        if whole > 0 {
            // SAFETY: the range is within `memory`, and this advice changes no contents. It is
            // advice: that the kernel does not take it is no error.
            let _ = unsafe {
                madvise(start.wrapping_add(skipped).cast(), whole, Advice::LinuxHugepage)
            };
        }
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    let _ = memory;
}

/// Asks for the cache line in which `value` begins, and goes on without waiting for it.
///
/// A hint: it reads nothing, and does nothing on machines for which it is not written.
#[inline(always)]
pub(super) fn prefetch<T>(value: &T) {
    prefetch_at(std::ptr::from_ref(value).cast());
}

/// Asks for the cache line in which `value` ends.
#[inline(always)]
pub(super) fn prefetch_end<T>(value: &T) {
    prefetch_at(
        std::ptr::from_ref(value).cast::<u8>().wrapping_add(size_of::<T>().saturating_sub(1)),
    );
}

#[inline(always)]
fn prefetch_at(place: *const u8) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64, and a prefetch of any address has no effect that a
        // program could observe; these even come from live references.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(place.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
