//! Windows of event time.

use super::frames::Frames;
use super::windowed::Window;
use crate::time::micros;
use std::time::Duration;

/// Windows of equal length at equal distances in event time, for
/// [`KeyedStream::window`](crate::KeyedStream::window).
///
/// A window begins every `slide`, at multiples of it counted from 1970-01-01T00:00:00Z, and holds the
/// records of the `size` that follows. It has its result when the watermark has passed its end. A record
/// that comes after all its windows have had theirs is late; late records are counted (`--stats`) and
/// not taken in.
///
/// A record costs one look-up, however many windows it is in, and every key of a window one addition a
/// slide. Memory: an aggregate a key in each slice that is in an open window.
#[derive(Clone, Copy, Debug)]
pub struct EventTimeWindow {
    size: Duration,
    slide: Duration,
    offset: Duration,
}

impl EventTimeWindow {
    /// Windows that follow one another without overlap.
    ///
    /// A size of less than a microsecond is refused at the job's start.
    pub fn tumbling(size: Duration) -> Self {
        Self::sliding(size, size)
    }

    /// Windows of `size`, one of which begins every `slide`. With a slide above the size, the records
    /// between two windows are in none.
    ///
    /// A size or slide of less than a microsecond is refused at the job's start.
    pub fn sliding(size: Duration, slide: Duration) -> Self {
        Self { size, slide, offset: Duration::ZERO }
    }

    /// Windows begin so much later, for days that begin at another hour than that of UTC.
    pub fn offset(mut self, by: Duration) -> Self {
        self.offset = by;
        self
    }
}

impl Window for EventTimeWindow {
    fn frames(&self) -> Result<Frames, String> {
        let (size, slide) = (micros(self.size), micros(self.slide));
        for (what, length, given) in [("size", size, self.size), ("slide", slide, self.slide)] {
            if length == 0 {
                return Err(format!("a {what} of {given:?} is less than a microsecond"));
            }
        }
        Ok(Frames::new(size, slide, micros(self.offset)))
    }

    fn describe(&self) -> String {
        if self.size == self.slide {
            format!("tumbling, {:?}", self.size)
        } else {
            format!("sliding, {:?} every {:?}", self.size, self.slide)
        }
    }
}
