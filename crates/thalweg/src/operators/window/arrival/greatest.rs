//! The greatest of the last times, as times enter and leave.

use crate::data::Data;
use crate::time::Time;
use std::collections::VecDeque;

/// The times of records or slices with ascending numbers: a monotonic queue that keeps only times greater than
/// all later ones, so that the first is the greatest.
#[derive(Data)]
pub(super) struct Greatest<T> {
    times: VecDeque<(i64, T)>,
}

impl<T: Time> Greatest<T> {
    pub(super) fn new() -> Self {
        Self { times: VecDeque::new() }
    }

    /// Adds a time with the highest number so far.
    #[inline(always)]
    pub(super) fn add(&mut self, number: i64, time: T) {
        // In a stream without time there is nothing to compare.
        if size_of::<T>() == 0 {
            return;
        }
        while self.times.back().is_some_and(|(_, other)| *other <= time) {
            self.times.pop_back();
        }
        self.times.push_back((number, time));
    }

    /// Returns the greatest time with this number or a higher one, and drops those with lower numbers.
    #[inline(always)]
    pub(super) fn since(&mut self, number: i64) -> T {
        self.drop_before(number);
        self.times.front().map_or(T::LAST, |(_, time)| *time)
    }

    /// Drops the times with lower numbers.
    #[inline(always)]
    pub(super) fn drop_before(&mut self, number: i64) {
        while self.times.front().is_some_and(|(other, _)| *other < number) {
            self.times.pop_front();
        }
    }

    /// Returns the greatest time with this number or a higher one, if there is one.
    pub(super) fn from(&self, number: i64) -> Option<T> {
        let first = self.times.partition_point(|(other, _)| *other < number);
        self.times.get(first).map(|(_, time)| *time)
    }

    /// The bytes owned on the heap.
    pub(super) fn bytes(&self) -> usize {
        if size_of::<T>() == 0 { 0 } else { self.times.capacity() * size_of::<(i64, T)>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_greatest(times in prop::collection::vec(-5..5i64, 1..40), length in 1..10usize) {
            let mut greatest = Greatest::new();
            for (number, &time) in times.iter().enumerate() {
                greatest.add(number as i64, Timestamp::from_micros(time));
                let first = (number + 1).saturating_sub(length);
                let expected = times[first..=number].iter().max().copied();
                prop_assert_eq!(greatest.from(first as i64).map(Timestamp::as_micros), expected);
                prop_assert_eq!(Some(greatest.since(first as i64).as_micros()), expected);
                prop_assert!(greatest.times.len() <= length);
            }
        }
    }
}
