//! The one hint that the standard library has no safe form of.
#![allow(unsafe_code)] // A prefetch instruction takes a raw pointer; it never faults.

/// Asks for the cache line in which `value` begins, and goes on without waiting for it.
///
/// A hint: it reads nothing, and does nothing on machines for which it is not written.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of every x86-64, and a prefetch of any address has no effect that a
        // program could observe; this one even comes from a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = value;
}
