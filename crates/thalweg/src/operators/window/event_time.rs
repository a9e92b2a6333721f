//! Windows of event time.

use super::firing::{Firing, Parts, Values};
use super::frames::Frames;
use super::pane::Pane;
use super::slicing::{SlicePart, Slicing};
use super::windowed::{Described, Window, Windowing};
use crate::data::Data;
use crate::operators::keyed::{Combine, KeyBy, KeyedStream, Partitioned, Scattered, by_hash};
use crate::plan::Origin;
use crate::stream::{Chain, Received, Stream};
use crate::time::{EventTime, micros};
use std::sync::Arc;
use std::time::Duration;

/// Windows of equal length at equal distances in event time, for
/// [`KeyedStream::window`](crate::KeyedStream::window).
///
/// A window begins every `slide`, at multiples of it counted from 1970-01-01T00:00:00Z, and holds the
/// records of the `size` that follows. It has its result when the watermark has passed its end. A record
/// that comes after all its windows have had theirs is late; late records are counted (`--stats`) and
/// not taken in, or sent to a second stream by
/// [`late_output`](crate::operators::window::Windowed::late_output).
///
/// A record costs one look-up, however many windows it is in, and every key of a window one addition a
/// slide. Memory: an aggregate a key in each slice that is in an open window.
#[derive(Clone, Copy, Debug)]
pub struct EventTimeWindow {
    size: Duration,
    slide: Duration,
    offset: Duration,
    lateness: Duration,
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
        Self { size, slide, offset: Duration::ZERO, lateness: Duration::ZERO }
    }

    /// Windows begin so much later, for days that begin at another hour than that of UTC.
    pub fn offset(mut self, by: Duration) -> Self {
        self.offset = by;
        self
    }

    /// Windows take records in for so long after their ends. One that comes then gives its key another
    /// result of each of its windows that have had theirs, which replaces the one before: its
    /// [`timing`](super::Pane::timing) is [`Late`](super::Timing::Late). Several that come in one batch
    /// give one result.
    ///
    /// Costs memory: slices are kept for so much longer. A late record costs as many look-ups as its
    /// windows have slices. As a result's timestamp is the last of its window, windows of such results
    /// take them in only if they allow for as much lateness themselves.
    pub fn allowed_lateness(mut self, lateness: Duration) -> Self {
        self.lateness = lateness;
        self
    }
}

impl EventTimeWindow {
    /// Where they begin and end, or what is wrong with them.
    fn frames(&self) -> Result<Frames, String> {
        let (size, slide) = (micros(self.size), micros(self.slide));
        for (what, length, given) in [("size", size, self.size), ("slide", slide, self.slide)] {
            if length == 0 {
                return Err(format!("a {what} of {given:?} is less than a microsecond"));
            }
        }
        let frames = Frames::new(size, slide, micros(self.offset));
        Ok(frames.with_lateness(micros(self.lateness)))
    }

    /// The same; any at all where they are wrong, since the job is refused then.
    pub(super) fn any_frames(&self) -> Frames {
        self.frames().unwrap_or_else(|_| Frames::new(1, 1, 0))
    }
}

impl<T: EventTime> Window<T> for EventTimeWindow {
    type Pane<V: Data> = Pane<V>;

    fn describe(&self) -> String {
        if self.size == self.slide {
            format!("tumbling, {:?}", self.size)
        } else {
            format!("sliding, {:?} every {:?}", self.size, self.slide)
        }
    }

    fn fault(&self) -> Option<String> {
        self.frames().err()
    }
}

impl<C, G, A> Windowing<C, G, Partitioned, A> for EventTimeWindow
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value, State: Clone>,
{
    type Chain = Firing<C, Values<A, G>>;

    fn windows(
        self,
        keyed: KeyedStream<C, G, Partitioned>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        let frames = self.any_frames();
        let (stream, keys) = keyed.into_parts();
        let feed = Values { aggregate: Arc::new(aggregate), keys };
        stream.then_described(plan.origin, plan.detail, |prev, op| Firing {
            prev,
            op,
            feed,
            frames,
        })
    }
}

impl<C, G, A> Windowing<C, G, Scattered, A> for EventTimeWindow
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value, State: Clone>,
{
    type Chain = Firing<Received<SlicePart<G::Key, A::State>, C::Time>, Parts<A, G::Key, G::Value>>;

    fn windows(
        self,
        keyed: KeyedStream<C, G, Scattered>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        let frames = self.any_frames();
        let Described { origin, detail } = plan;
        let (stream, keys) = keyed.into_parts();
        let aggregate = Arc::new(aggregate);
        let local = Arc::clone(&aggregate);
        let slice = Origin { kind: "slice", ..origin };
        let sliced =
            stream.then(slice, |prev, op| Slicing { prev, op, keys, aggregate: local, frames });
        let feed = Parts::new(aggregate);
        by_hash(sliced, Origin { kind: "partition", ..origin }).then_described(
            origin,
            detail,
            |prev, op| Firing { prev, op, feed, frames },
        )
    }
}
