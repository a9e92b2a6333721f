//! Windows of event time, and which of them contain a time. Pure arithmetic.

/// Windows `[start, start + size)` whose starts are the multiples of the slide, counted from 1970. Partial windows at
/// both ends of a stream count.
///
/// ```
/// use thalweg_workloads::windows::Windows;
///
/// let hot_items = Windows::sliding(10, 2);
/// assert_eq!(hot_items.starts(11).collect::<Vec<_>>(), [10, 8, 6, 4, 2]);
/// assert_eq!(Windows::tumbling(10).starts(-1).collect::<Vec<_>>(), [-10]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Windows {
    size: i64,
    slide: i64,
}

impl Windows {
    /// Windows of `size`, one every `slide`.
    ///
    /// # Panics
    /// If one of them is not positive; at compile time in a constant.
    pub const fn sliding(size: i64, slide: i64) -> Self {
        assert!(size > 0 && slide > 0, "a window's size and slide are positive");
        Self { size, slide }
    }

    /// Windows of `size` that do not overlap and leave no gaps.
    ///
    /// # Panics
    /// If it is not positive; at compile time in a constant.
    pub const fn tumbling(size: i64) -> Self {
        Self::sliding(size, size)
    }

    /// The length of a window, in microseconds.
    pub const fn size(&self) -> i64 {
        self.size
    }

    /// The time from one start to the next, in microseconds.
    pub const fn slide(&self) -> i64 {
        self.slide
    }

    /// The start of the last window that begins at `time` or before.
    #[inline]
    pub fn last_start(&self, time: i64) -> i64 {
        time.saturating_sub(time.rem_euclid(self.slide))
    }

    /// The starts of all windows that contain `time`, the last one first. Starts before the least possible time are
    /// left out.
    pub fn starts(self, time: i64) -> impl Iterator<Item = i64> {
        let starts = std::iter::successors(Some(self.last_start(time)), move |start| {
            start.checked_sub(self.slide)
        });
        starts.take_while(move |&start| time.abs_diff(start) < self.size.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_those_that_hold_the_time(time in -200i64..200, size in 1i64..40, slide in 1i64..40) {
            let mut starts: Vec<i64> = Windows::sliding(size, slide).starts(time).collect();
            starts.reverse();
            let all = (-300..300).filter(|start| start % slide == 0);
            let held: Vec<i64> = all.filter(|s| (*s..s + size).contains(&time)).collect();
            prop_assert_eq!(starts, held);
        }
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        for time in [i64::MIN, i64::MIN + 3, i64::MAX] {
            for start in Windows::sliding(10, 3).starts(time) {
                assert!(start <= time);
            }
        }
    }
}
