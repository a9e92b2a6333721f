//! Runs of numbers, pushed by code that is compiled for the vector instructions of the processor at hand.
//!
//! Cargo compiles for every processor of an architecture unless it is told otherwise; on x86-64 that is vectors of 128
//! bits. A stage that is nothing but a loop over numbers is therefore compiled three times, and each run goes to the
//! best copy that the processor supports. The operators and closures are inlined into each copy, and give the same
//! results in all: nothing allows the compiler to reorder sums of floats, or to fuse a product and a sum.
#![allow(unsafe_code)] // Calls functions that need instructions which not every processor has.

use super::Push;
use std::ops::Range;

/// The same as `next.push_run(run, ())`. Other stages than loops ([`Push::IS_LOOP`]) are compiled once.
#[inline]
pub(crate) fn push_numbers<N: Push<u64, ()>>(run: Range<u64>, next: &mut N) {
    #[cfg(target_arch = "x86_64")]
    if N::IS_LOOP {
        if x86_64::has_avx512() {
            // SAFETY: the processor has the instructions.
            return unsafe { x86_64::push_avx512(run, next) };
        }
        if x86_64::has_avx2() {
            // SAFETY: the processor has the instructions.
            return unsafe { x86_64::push_avx2(run, next) };
        }
    }
    next.push_run(run, ());
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Push, Range};

    /// Whether the processor has all instructions of x86-64-v3 that [`push_avx2`] may use.
    #[inline]
    pub(super) fn has_avx2() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt")
    }

    /// Whether the processor has all instructions of x86-64-v4 that [`push_avx512`] may use.
    #[inline]
    pub(super) fn has_avx512() -> bool {
        has_avx2()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,fma,lzcnt,popcnt")]
    pub(super) fn push_avx2<N: Push<u64, ()>>(run: Range<u64>, next: &mut N) {
        next.push_run(run, ());
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,fma,lzcnt,popcnt")]
    #[target_feature(enable = "avx512f,avx512bw,avx512cd,avx512dq,avx512vl")]
    pub(super) fn push_avx512<N: Push<u64, ()>>(run: Range<u64>, next: &mut N) {
        next.push_run(run, ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::every;
    use crate::flow::Pipe;

    /// Sums a function of numbers that the vector instructions must compute alike.
    struct Sum(f64, u64);

    impl Pipe for Sum {
        fn next(&mut self) -> Option<&mut dyn Pipe> {
            None
        }
    }

    impl Push<u64, ()> for Sum {
        const IS_LOOP: bool = true;

        #[inline(always)]
        fn push(&mut self, number: u64, (): ()) {
            let scaled = number as f64 / 3.0;
            self.0 += scaled * scaled + 0.1;
            self.1 = self.1.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7);
        }
    }

    #[test]
    fn every_copy_of_a_loop_has_the_same_result() {
        let run = 5..4000;
        let mut plain = Sum(0.0, 0);
        plain.push_run(run.clone(), ());
        let plain = (plain.0.to_bits(), plain.1);
        let mut chosen = Sum(0.0, 0);
        push_numbers(run.clone(), &mut chosen);
        assert_eq!((chosen.0.to_bits(), chosen.1), plain);
        #[cfg(target_arch = "x86_64")]
        if x86_64::has_avx2() {
            let mut wide = Sum(0.0, 0);
            // SAFETY: the processor has the instructions.
            unsafe { x86_64::push_avx2(run, &mut wide) };
            assert_eq!((wide.0.to_bits(), wide.1), plain);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore)] // Too many jobs.
    fn loops_over_a_range_agree_with_iterators() {
        every(|env| {
            let kept = |n: &u64| n.is_multiple_of(7);
            let sum =
                env.range(3..10_000).map(|n| n * 5).filter(kept).sum(|n| *n).collect::<Vec<_>>();
            let most =
                env.range(3..10_000).filter_map(move |n| kept(&n).then_some(n)).reduce(u64::max);
            let most = most.collect::<Vec<_>>();
            env.run()?;
            assert_eq!(sum.take()?, [(3..10_000).map(|n| n * 5).filter(kept).sum::<u64>()]);
            assert_eq!(most.take()?, [9996]);
            Ok(())
        });
    }
}
