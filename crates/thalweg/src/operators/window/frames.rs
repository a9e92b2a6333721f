//! Computes the bounds of windows of one size, and the slices that they consist of.
//!
//! Windows that overlap share slices. A slice is the time between two neighbouring edges, where an edge is the
//! beginning or the end of a window. A record goes into one slice, however many windows it is in, and a window
//! is combined from its slices. There are at most two slices per slide, whatever the sizes:
//!
//! ```text
//!   windows   ├───────────────┤              size 4, slide 3
//!                         ├───────────────┤
//!   slices    ├───┼───────┼───┼───────┼───┤  of lengths 1 and 2
//! ```
//!
//! All arithmetic is exact, also at the first and the last timestamp: every slice that contains a timestamp has
//! a number of its own, and so has every window of such a slice, even if it begins before the first timestamp.
//! Only bounds are cut off there.

use crate::time::Timestamp;

/// Windows of equal size at equal distances, numbered from the first that does not begin before 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frames {
    size: i64,
    slide: i64,
    offset: i64,
    /// The number of whole slides in a size.
    whole: i64,
    /// The remainder of the size.
    rest: i64,
    /// How long after its end a window still accepts records.
    lateness: i64,
    /// The amount that is added to slice numbers counted from the first window.
    shift: i64,
    /// Whether their time is that of the clock, by which no record is late.
    by_clock: bool,
}

/// The number of a slice. Slices without a window have numbers too. Each record that is sent carries one, so the
/// type is as narrow as possible.
pub(super) type SliceId = i64;
/// The number of a window. A timestamp is in up to `i64::MAX` windows, so there are more of them than timestamps.
pub(super) type WindowId = i128;

impl Frames {
    /// Creates frames; `size` and `slide` are in microseconds, above 0.
    pub(super) fn new(size: i64, slide: i64, offset: i64) -> Self {
        debug_assert!(size > 0 && slide > 0);
        // The windows are the same whichever of them is the first; this choice keeps numbers small.
        let (offset, rest) = (offset.rem_euclid(slide), size % slide);
        // Slices of a microsecond need every number there is, so they are numbered as timestamps are.
        let shift = i64::from(slide == 2 && rest == 1 && offset == 1);
        Self { size, slide, offset, whole: size / slide, rest, lateness: 0, shift, by_clock: false }
    }

    /// The same windows, accepting records for `lateness` after their ends.
    pub(super) fn with_lateness(self, lateness: i64) -> Self {
        Self { lateness, ..self }
    }

    /// The same windows, of the clock's time.
    pub(super) fn by_clock(self) -> Self {
        Self { by_clock: true, ..self }
    }

    /// Whether no record is late, and nothing is kept of a window that has ended.
    pub(super) fn forgets_what_has_ended(&self) -> bool {
        self.by_clock && self.is_one_slice() && !self.allows_lateness()
    }

    /// Whether windows accept records after their ends.
    pub(super) fn allows_lateness(&self) -> bool {
        self.lateness > 0
    }

    /// The last window that accepts no more records when the watermark is `at`.
    pub(super) fn last_over(&self, at: Timestamp) -> WindowId {
        self.ended_by(i128::from(at.as_micros()) - i128::from(self.lateness))
    }

    /// Whether a window is one slice, so that there is nothing to combine.
    pub(super) fn is_one_slice(&self) -> bool {
        self.overlap() == 1
    }

    /// The most windows that a record is in.
    pub(super) fn overlap(&self) -> i64 {
        self.whole + self.rest.signum()
    }

    /// The slice of a timestamp.
    pub(super) fn slice(&self, at: Timestamp) -> SliceId {
        let since = i128::from(at.as_micros()) - i128::from(self.offset);
        let (slide, rest) = (i128::from(self.slide), i128::from(self.rest));
        let (number, within) = (since.div_euclid(slide), since.rem_euclid(slide));
        let slice = if rest == 0 { number } else { 2 * number + i128::from(within >= rest) };
        clamp(slice + i128::from(self.shift))
    }

    /// The first timestamp of a slice, and the first one after it.
    pub(super) fn span(&self, slice: SliceId) -> (Timestamp, Timestamp) {
        let slice = i128::from(slice);
        (self.edge(slice), self.edge(slice + 1))
    }

    /// The beginning of a slice.
    fn edge(&self, slice: i128) -> Timestamp {
        let slice = slice - i128::from(self.shift);
        if self.rest == 0 {
            return self.at(slice, 0);
        }
        let behind = if slice.rem_euclid(2) == 1 { self.rest } else { 0 };
        self.at(slice.div_euclid(2), behind)
    }

    fn at(&self, window: WindowId, behind: i64) -> Timestamp {
        let micros = window * i128::from(self.slide) + i128::from(self.offset) + i128::from(behind);
        Timestamp::from_micros(clamp(micros))
    }

    /// The first timestamp of a window, and the first one after it.
    pub(super) fn window(&self, window: WindowId) -> (Timestamp, Timestamp) {
        (self.at(window, 0), self.at(window, self.size))
    }

    /// The last timestamp within a window.
    pub(super) fn last_of(&self, window: WindowId) -> Timestamp {
        self.at(window, self.size - 1)
    }

    /// The first and the last slice of a window that contain timestamps. The window must contain one.
    pub(super) fn slices(&self, window: WindowId) -> (SliceId, SliceId) {
        let whole = i128::from(self.whole);
        let (first, last) = if self.rest == 0 {
            (window, window + whole - 1)
        } else {
            (2 * window, 2 * (window + whole))
        };
        let shift = i128::from(self.shift);
        (clamp(first + shift), clamp(last + shift))
    }

    /// The first and the last window that a slice is part of. With gaps between windows, a slice may be part of
    /// none; the first then comes after the last.
    pub(super) fn windows(&self, slice: SliceId) -> (WindowId, WindowId) {
        let (slice, whole) = (i128::from(slice) - i128::from(self.shift), i128::from(self.whole));
        if self.rest == 0 {
            return (slice - (whole - 1), slice);
        }
        let number = slice.div_euclid(2);
        (number - whole + slice.rem_euclid(2), number)
    }

    /// The last window: none that contains a timestamp begins later.
    pub(super) fn last(&self) -> WindowId {
        self.windows(self.slice(Timestamp::MAX)).1
    }

    /// The last window that has ended when the watermark is `at`.
    pub(super) fn last_ended(&self, at: Timestamp) -> WindowId {
        self.ended_by(i128::from(at.as_micros()))
    }

    fn ended_by(&self, at: i128) -> WindowId {
        (at - i128::from(self.offset) - i128::from(self.size)).div_euclid(i128::from(self.slide))
    }

    /// The last slice that has ended when the watermark is `at`; `None` if that is before the first slice.
    pub(super) fn last_closed(&self, at: Timestamp) -> Option<SliceId> {
        self.slice(at).checked_sub(1)
    }
}

fn clamp(number: i128) -> i64 {
    i64::try_from(number).unwrap_or(if number < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(micros: i128) -> Timestamp {
        Timestamp::from_micros(clamp(micros))
    }

    /// Timestamps of every kind: about 1970, near the first and the last, and anywhere.
    fn times() -> impl Strategy<Value = i64> {
        let near = 0..300i64;
        prop_oneof![
            4 => -300..300i64,
            2 => near.clone().prop_map(|n| i64::MIN + n),
            2 => near.prop_map(|n| i64::MAX - n),
            1 => any::<i64>(),
        ]
    }

    /// Sizes and slides of every kind.
    fn lengths() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 1..4i64, 4 => 1..40i64, 1 => i64::MAX - 40..=i64::MAX, 1 => 1..=i64::MAX]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2048, ..ProptestConfig::default() })]

        /// Compares slices and windows with their definitions.
        #[test]
        fn a_record_is_in_the_windows_that_its_slice_is_part_of(
            (size, slide, lateness) in (lengths(), lengths(), prop_oneof![Just(0), lengths()]),
            offset in prop_oneof![-50..50i64, any::<i64>()],
            (micros, apart) in (times(), 0..60i64),
        ) {
            let frames = Frames::new(size, slide, offset).with_lateness(lateness);
            let wide = |n: i64| i128::from(n);
            let offset = wide(offset.rem_euclid(slide));
            let begins = |window: i128| offset + window * wide(slide);
            let ends = |window: i128| begins(window) + wide(size);
            // The first window that ends after a time, and the last that does not begin after it.
            let windows = |at: i64| {
                let since = wide(at) - offset;
                ((since - wide(size)).div_euclid(wide(slide)) + 1, since.div_euclid(wide(slide)))
            };
            let other = micros.saturating_add(apart);
            for micros in [micros, other] {
                let slice = frames.slice(at(wide(micros)));
                let (begin, end) = frames.span(slice);
                prop_assert!(begin.as_micros() <= micros);
                prop_assert!(micros < end.as_micros() || end == Timestamp::MAX);
                let (first, last) = windows(micros);
                prop_assert_eq!(frames.windows(slice).1, last);
                prop_assert!(frames.windows(slice).0 == first || (first > last && frames.windows(slice).0 > last));
                prop_assert!(last <= frames.last());
                for window in [first - 1, first, last, last + 1] {
                    prop_assert_eq!(frames.window(window), (at(begins(window)), at(ends(window))));
                    prop_assert_eq!(frames.last_of(window), at(ends(window) - 1));
                    let holds = |at: i64| begins(window) <= wide(at) && wide(at) < ends(window);
                    let is_in_time = begins(window) <= wide(i64::MAX) && ends(window) > wide(i64::MIN);
                    let (from, to) = frames.slices(window);
                    for other in [micros, other].into_iter().filter(|_| is_in_time) {
                        let slice = frames.slice(at(wide(other)));
                        prop_assert_eq!(holds(other), (from..=to).contains(&slice), "window {}", window);
                    }
                }
                let (ended, over) = (frames.last_ended(at(wide(micros))), frames.last_over(at(wide(micros))));
                prop_assert!(ends(ended) <= wide(micros) && ends(ended + 1) > wide(micros));
                let until = wide(micros) - wide(lateness);
                prop_assert!(ends(over) <= until && ends(over + 1) > until);
                let closed = frames.last_closed(at(wide(micros)));
                prop_assert!(closed.is_none_or(|closed| closed + 1 == slice && frames.span(closed).1 == begin));
            }
            let (from, to) = frames.slices(frames.windows(frames.slice(at(0))).1);
            prop_assert_eq!(frames.is_one_slice(), from == to);
        }
    }

    /// With slices of a microsecond there are exactly as many slices as timestamps.
    #[test]
    fn no_two_slices_have_one_number() {
        for (size, slide) in [(1, 1), (5, 1), (1, 2), (7, 2)] {
            for offset in [0, 1] {
                let frames = Frames::new(size, slide, offset);
                for end in [i64::MIN, i64::MAX - 9] {
                    let slices: Vec<_> =
                        (end..=end + 9).map(|micros| frames.slice(at(micros.into()))).collect();
                    assert!(slices.is_sorted_by(|a, b| a < b), "{frames:?}: {slices:?}");
                }
            }
        }
    }
}
