//! How much of its input a source has read, where tasks share out one range of positions.

use std::collections::VecDeque;
use std::ops::Range;

/// Ranges of positions that were read, each its begin and its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Consumed(Vec<(u64, u64)>);

impl Consumed {
    /// Adds a range.
    #[inline]
    pub(super) fn add(&mut self, begin: u64, end: u64) {
        match self.0.last_mut() {
            Some((_, last)) if *last == begin => *last = end,
            _ => self.0.push((begin, end)),
        }
    }

    /// Adds ranges, and puts all in order. What is no range, as of a damaged checkpoint, is left out.
    pub(super) fn add_all(&mut self, other: Vec<(u64, u64)>) {
        let Self(all) = self;
        all.extend(other.into_iter().filter(|(begin, end)| begin < end));
        all.sort_unstable();
        all.dedup_by(|(begin, end), (_, last)| {
            let touches = *begin <= *last;
            *last = if touches { (*last).max(*end) } else { *last };
            touches
        });
    }

    /// How much was read, of ranges in order.
    pub(super) fn length(&self) -> u64 {
        self.0.iter().map(|(begin, end)| end - begin).sum()
    }

    pub(super) fn ranges(&self) -> &Vec<(u64, u64)> {
        &self.0
    }

    pub(super) fn into_ranges(self) -> Vec<(u64, u64)> {
        self.0
    }

    /// What it leaves of a range, in order. Its own ranges must be in order.
    pub(super) fn left_of(&self, range: Range<u64>) -> VecDeque<(u64, u64)> {
        let mut left = VecDeque::new();
        let mut from = range.start;
        for &(begin, end) in &self.0 {
            if from < begin.min(range.end) {
                left.push_back((from, begin.min(range.end)));
            }
            from = from.max(end);
        }
        if from < range.end {
            left.push_back((from, range.end));
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_no_range_was_not_read() {
        let mut read = Consumed::default();
        read.add_all(vec![(9, 3), (20, u64::MAX), (15, u64::MAX), (0, 1), (4, 4)]);
        assert_eq!(read.length(), 1 + (u64::MAX - 15));
        assert_eq!(read.left_of(0..30), [(1, 15)]);
    }

    proptest! {
        #[test]
        fn what_is_read_and_what_is_left_are_all(
            (start, end) in (0..50u64, 0..60u64),
            parts in prop::collection::vec((0..60u64, 1..9u64), 0..20),
        ) {
            let mut read = Consumed::default();
            let (begun, later) = parts.split_at(parts.len() / 2);
            begun.iter().for_each(|(begin, length)| read.add(*begin, begin + length));
            read.add_all(later.iter().map(|(begin, length)| (*begin, begin + length)).collect());
            let is_in = |ranges: &mut dyn Iterator<Item = &(u64, u64)>, at: u64| {
                ranges.filter(|(begin, end)| (*begin..*end).contains(&at)).count()
            };
            let left = read.left_of(start..end);
            for at in 0..70 {
                let was_read = parts.iter().any(|(begin, length)| (*begin..begin + length).contains(&at));
                prop_assert_eq!(is_in(&mut read.ranges().iter(), at), usize::from(was_read));
                let is_left = !was_read && (start..end).contains(&at);
                prop_assert_eq!(is_in(&mut left.iter(), at), usize::from(is_left));
            }
        }
    }
}
