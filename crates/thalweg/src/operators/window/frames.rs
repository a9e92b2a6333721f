//! Where windows of one size begin and end, and into which slices they are cut.
//!
//! Windows that overlap share their slices: the stretches of time between two neighbouring edges, be it
//! the beginning or the end of a window. A record goes into one slice, however many windows it is in,
//! and a window is put together of its slices. There are two slices a slide at most, whatever the sizes:
//!
//! ```text
//!   windows   ├───────────────┤              size 4, slide 3
//!                         ├───────────────┤
//!   slices    ├───┼───────┼───┼───────┼───┤  of lengths 1 and 2
//! ```
//!
//! All arithmetic is exact; only what a timestamp cannot hold is cut off at the ends of time.

use crate::time::Timestamp;

/// Windows of equal size at equal distances, numbered from the first that does not begin before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    size: i64,
    slide: i64,
    offset: i64,
    /// Whole slides in a size.
    whole: i64,
    /// What of a size remains.
    rest: i64,
    /// How long after its end a window still takes records in.
    lateness: i64,
}

/// The number of a slice. Slices without a window have numbers too.
pub(super) type SliceId = i64;
/// The number of a window.
pub(super) type WindowId = i64;

impl Frames {
    /// `size` and `slide` in microseconds, above 0.
    pub(super) fn new(size: i64, slide: i64, offset: i64) -> Self {
        debug_assert!(size > 0 && slide > 0);
        // Windows are where they are whichever of them is the first, and so numbers stay small.
        Self {
            size,
            slide,
            offset: offset.rem_euclid(slide),
            whole: size / slide,
            rest: size % slide,
            lateness: 0,
        }
    }

    /// The same windows, which take records in for so long after their ends.
    pub(super) fn with_lateness(self, lateness: i64) -> Self {
        Self { lateness, ..self }
    }

    /// Whether windows take records in after their ends.
    pub(super) fn allows_lateness(&self) -> bool {
        self.lateness > 0
    }

    /// The last window that takes no more records in when the watermark is `at`.
    pub(super) fn last_over(&self, at: Timestamp) -> WindowId {
        self.last_ended(Timestamp::from_micros(at.as_micros().saturating_sub(self.lateness)))
    }

    /// Whether a window is one slice, so that nothing is to be put together.
    pub(super) fn is_one_slice(&self) -> bool {
        self.whole + self.rest.signum() == 1
    }

    /// The slice that a timestamp lies in.
    pub(super) fn slice(&self, at: Timestamp) -> SliceId {
        let since = i128::from(at.as_micros()) - i128::from(self.offset);
        let (slide, rest) = (i128::from(self.slide), i128::from(self.rest));
        let (number, within) = (since.div_euclid(slide), since.rem_euclid(slide));
        let slice = if rest == 0 { number } else { 2 * number + i128::from(within >= rest) };
        // There may be one slice more than numbers, at each end of time.
        clamp(slice)
    }

    /// The first timestamp of a slice, and the first one behind it.
    pub(super) fn span(&self, slice: SliceId) -> (Timestamp, Timestamp) {
        (self.edge(slice), self.edge(slice.saturating_add(1)))
    }

    /// Where a slice begins.
    fn edge(&self, slice: SliceId) -> Timestamp {
        if self.rest == 0 {
            return self.at(i128::from(slice), 0);
        }
        let behind = if slice.rem_euclid(2) == 1 { self.rest } else { 0 };
        self.at(i128::from(slice.div_euclid(2)), behind)
    }

    fn at(&self, slides: i128, behind: i64) -> Timestamp {
        let micros = slides * i128::from(self.slide) + i128::from(self.offset) + i128::from(behind);
        Timestamp::from_micros(clamp(micros))
    }

    /// The first timestamp of a window, and the first one behind it.
    pub(super) fn window(&self, window: WindowId) -> (Timestamp, Timestamp) {
        (self.at(i128::from(window), 0), self.at(i128::from(window), self.size))
    }

    /// The first and the last slice of a window.
    pub(super) fn slices(&self, window: WindowId) -> (SliceId, SliceId) {
        if self.rest == 0 {
            (window, window.saturating_add(self.whole - 1))
        } else {
            let double = |number: i64| number.saturating_mul(2);
            (double(window), double(window.saturating_add(self.whole)))
        }
    }

    /// The first and the last window that a slice is part of; with gaps between windows, the first may
    /// lie behind the last, and then it is part of none.
    pub(super) fn windows(&self, slice: SliceId) -> (WindowId, WindowId) {
        if self.rest == 0 {
            return (slice.saturating_sub(self.whole - 1), slice);
        }
        let number = slice.div_euclid(2);
        let first = number.saturating_sub(self.whole) + slice.rem_euclid(2);
        (first, number)
    }

    /// The last window that has ended when the watermark is `at`.
    pub(super) fn last_ended(&self, at: Timestamp) -> WindowId {
        let since = i128::from(at.as_micros()) - i128::from(self.offset) - i128::from(self.size);
        clamp(since.div_euclid(i128::from(self.slide)))
    }

    /// The last slice that has ended when the watermark is `at`.
    pub(super) fn last_closed(&self, at: Timestamp) -> SliceId {
        self.slice(at).saturating_sub(1)
    }
}

fn clamp(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    proptest! {
        /// Slices and windows against their definitions.
        #[test]
        fn a_record_is_in_the_windows_that_its_slice_is_part_of(
            size in 1..40i64,
            slide in 1..40i64,
            offset in -50..50i64,
            micros in -300..300i64,
        ) {
            let frames = Frames::new(size, slide, offset);
            let offset = offset.rem_euclid(slide);
            let slice = frames.slice(at(micros));
            let (begin, end) = frames.span(slice);
            prop_assert!(begin <= at(micros) && at(micros) < end);
            let (first, last) = frames.windows(slice);
            for window in -700..700 {
                let (begin, end) = frames.window(window);
                prop_assert_eq!(begin, at(offset + window * slide));
                prop_assert_eq!(end, at(offset + window * slide + size));
                let within = begin <= at(micros) && at(micros) < end;
                prop_assert_eq!(within, (first..=last).contains(&window), "window {}", window);
                let (from, to) = frames.slices(window);
                prop_assert_eq!(within, (from..=to).contains(&slice));
                prop_assert_eq!((frames.span(from).0, frames.span(to).1), (begin, end));
                prop_assert_eq!(end <= at(micros), window <= frames.last_ended(at(micros)));
            }
            prop_assert_eq!(frames.is_one_slice(), frames.slices(3).0 == frames.slices(3).1);
            let closed = frames.last_closed(at(micros));
            prop_assert!(frames.span(closed).1 <= at(micros) && at(micros) < frames.span(closed + 1).1);
        }
    }

    #[test]
    fn the_ends_of_time_are_in_some_window() {
        for (size, slide) in [(1, 1), (10, 3), (i64::MAX, i64::MAX), (7, i64::MAX), (i64::MAX, 1)] {
            for offset in [0, i64::MIN, i64::MAX] {
                let frames = Frames::new(size, slide, offset);
                for micros in [i64::MIN, -1, 0, i64::MAX] {
                    let slice = frames.slice(at(micros));
                    let (begin, end) = frames.span(slice);
                    assert!(begin <= at(micros) && at(micros) <= end, "{frames:?} {micros}");
                    frames.windows(slice);
                    frames.last_ended(at(micros));
                    frames.last_closed(at(micros));
                }
            }
        }
    }
}
