//! Computes which arrivals of a key each window contains.

use crate::operators::window::early::too_many;
use crate::operators::window::frames::{Frames, SliceId, WindowId};
use crate::time::Timestamp;

/// Windows of `size` arrivals, one every `slide`, and which of the unfilled ones are emitted.
#[derive(Clone, Copy, Debug)]
pub struct Spans {
    frames: Frames,
    size: u64,
    slide: u64,
    /// Whether windows that begin before the first record are emitted, from the first record on.
    pub(super) leading: bool,
    /// Whether windows that are not full at the end are emitted.
    pub(super) partial: bool,
}

impl Spans {
    /// Creates spans; `size` and `slide` are above 0.
    pub(super) fn new(size: u64, slide: u64) -> Self {
        // No key ever has more records than `i64::MAX`.
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX).max(1);
        let (size, slide) = (count(size), count(slide));
        let frames = Frames::new(size, slide, 0);
        let (size, slide) = (size.unsigned_abs(), slide.unsigned_abs());
        Self { frames, size, slide, leading: false, partial: false }
    }

    /// The same, with windows that begin before the first record.
    pub(super) fn leading(self) -> Self {
        Self { leading: true, ..self }
    }

    /// The same, with or without windows that are not full at the end.
    pub(super) fn partial(self, wanted: bool) -> Self {
        Self { partial: wanted, ..self }
    }

    /// The error if a record would be in too many windows for each to have several results.
    pub(super) fn too_many(&self) -> Option<String> {
        too_many(self.size.cast_signed(), self.slide.cast_signed())
    }

    pub(super) fn size(&self) -> u64 {
        self.size
    }

    pub(super) fn slide(&self) -> u64 {
        self.slide
    }

    /// Whether no record is in two windows.
    pub(super) fn is_apart(&self) -> bool {
        self.size <= self.slide
    }

    /// The number of the record that follows a slice.
    pub(super) fn end_of(&self, slice: SliceId) -> u64 {
        number(self.frames.span(slice).1)
    }

    /// Whether a slice is part of no window.
    pub(super) fn is_gap(&self, slice: SliceId) -> bool {
        let (first, last) = self.frames.windows(slice);
        first > last
    }

    /// The window that is complete with a slice.
    pub(super) fn completed_by(&self, slice: SliceId) -> Option<WindowId> {
        let (first, last) = self.frames.windows(slice);
        (first <= last && self.frames.slices(first).1 == slice).then_some(first)
    }

    /// The first window that is not full after `arrived` records.
    pub(super) fn unfilled(&self, arrived: u64) -> WindowId {
        let filled = arrived.checked_sub(self.size).map_or(0, |more| more / self.slide + 1);
        WindowId::from(filled)
    }

    /// The first slice of a window.
    pub(super) fn first_slice(&self, window: WindowId) -> SliceId {
        self.frames.slices(window).0
    }

    /// The number of the first record of a window.
    pub(super) fn first_record(&self, window: WindowId) -> u64 {
        number(self.frames.window(window).0)
    }
}

/// Converts a timestamp of `Frames`, which here counts records in place of microseconds.
fn number(at: Timestamp) -> u64 {
    u64::try_from(at.as_micros()).unwrap_or(0)
}
