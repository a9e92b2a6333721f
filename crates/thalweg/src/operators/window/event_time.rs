//! Windows of event time.

use super::early::{Early, too_many};
use super::firing::{Firing, Parts, Values};
use super::frames::Frames;
use super::pane::Pane;
use super::slicing::{SlicePart, Slicing};
use super::windowed::{Described, Window, Windowing};
use crate::data::Data;
use crate::operators::aggregates::{Aggregate, Combine};
use crate::operators::keyed::{KeyBy, KeyedStream, Partitioned, Scattered, by_hash};
use crate::plan::{Details, Origin};
use crate::stream::{Chain, Received, Stream};
use crate::time::{EventTime, micros};
use std::sync::Arc;
use std::time::Duration;

/// Windows of equal length at equal distances in event time, for
/// [`KeyedStream::window`](crate::KeyedStream::window).
///
/// A window begins every `slide`, at multiples of it counted from 1970-01-01T00:00:00Z, and contains the records
/// of the `size` that follows. Its result is emitted when the watermark has passed its end. A record that
/// arrives after all its windows have emitted theirs is late. Late records are not added to any window, but
/// [counted, and reported at the end](crate::metrics::Stats::late_dropped), or sent to a side output by
/// [`late_output`](crate::operators::window::Windowed::late_output). [`early`](Self::early) adds results of
/// windows that have not ended.
///
/// A record costs one look-up, however many windows it is in, and every key of a window costs one addition per
/// slide. Memory: one aggregate for each key in each slice that is in an open window.
#[derive(Clone, Copy, Debug)]
pub struct EventTimeWindow<E = AtEnd> {
    size: Duration,
    slide: Duration,
    offset: Duration,
    lateness: Duration,
    early: E,
    /// Whether their time is that of the clock.
    by_clock: bool,
}

/// Windows emit no result before they end; see [`EventTimeWindow::early`].
#[derive(Clone, Copy, Debug)]
pub struct AtEnd;

impl EventTimeWindow {
    /// Windows that follow one another without overlap.
    ///
    /// A size of less than a microsecond is refused at the job's start.
    pub fn tumbling(size: Duration) -> Self {
        Self::sliding(size, size)
    }

    /// Windows of `size`, one of which begins every `slide`. With a slide greater than the size, the records
    /// between two windows are in no window.
    ///
    /// A size or slide of less than a microsecond is refused at the job's start.
    pub fn sliding(size: Duration, slide: Duration) -> Self {
        let (offset, lateness) = (Duration::ZERO, Duration::ZERO);
        Self { size, slide, offset, lateness, early: AtEnd, by_clock: false }
    }

    /// Emits results also before windows end: after a number of records, or at an interval. Their
    /// [`timing`](super::Pane::timing) is [`Early`](super::Timing::Early), numbered for each key and window. The
    /// results at the end, and late ones, do not change.
    ///
    /// An early result has the same timestamp as the result at the end, the last of its window. It is therefore
    /// never late, and it may be far ahead of the watermark. A window over results contains all results of one
    /// window together; the last one is current.
    ///
    /// In a [`window_join`](crate::KeyedStream::window_join), an early result consists of all pairs so far: a
    /// pair is repeated in each later result.
    ///
    /// Memory: a state for each key of an open window, and the slices of overlapping windows for as long as they
    /// are in an open window; on disk beyond the budget, where an early result costs a search for each key. See
    /// [`Early`] for the other costs. A size of more than 1,048,576 slides is refused at the job's start.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::{Early, EventTimeWindow, Timing};
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let hour = EventTimeWindow::tumbling(Duration::from_secs(3600)).early(Early::every(2));
    /// let sales = env.iter([(60, 5), (120, 1), (300, 2), (2000, 2), (3000, 7)]);
    /// let sums = sales
    ///     .assign_timestamps(|sale| Timestamp::from_secs(sale.0), Watermarks::monotonous())
    ///     .window_all(hour)
    ///     .sum(|sale| sale.1);
    /// let out = sums.map(|hour| (hour.timing, hour.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timing::Early(1), 6), (Timing::Early(2), 10), (Timing::OnTime, 17)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn early(self, early: Early) -> EventTimeWindow<Early> {
        let Self { size, slide, offset, lateness, early: AtEnd, by_clock } = self;
        EventTimeWindow { size, slide, offset, lateness, early, by_clock }
    }
}

impl<E> EventTimeWindow<E> {
    /// Shifts the beginnings of windows by `by`, for days that do not begin at 0:00 UTC.
    pub fn offset(mut self, by: Duration) -> Self {
        self.offset = by;
        self
    }

    /// Keeps windows open to late records for this long after their ends. Such a record gives its key another
    /// result in each of its windows that have ended, which replaces the one before and whose
    /// [`timing`](super::Pane::timing) is [`Late`](super::Timing::Late). Several late records in one batch give
    /// one result.
    ///
    /// Costs memory: slices are kept for this much longer, on disk beyond the budget. A late record costs as many
    /// look-ups as its windows have slices. As a result's timestamp is the last of its window, windows over such
    /// results need at least the same lateness to include them. A size of more than 1,048,576 slides is refused at
    /// the job's start.
    pub fn allowed_lateness(mut self, lateness: Duration) -> Self {
        self.lateness = lateness;
        self
    }
}

impl<E: Earliness> EventTimeWindow<E> {
    /// When the windows emit early results, if they do.
    pub(super) fn earliness(&self) -> Option<Early> {
        self.early.early()
    }

    /// The bounds of the windows, or the error in their definition.
    fn frames(&self) -> Result<Frames, String> {
        let (size, slide) = (micros(self.size), micros(self.slide));
        for (what, length, given) in [("size", size, self.size), ("slide", slide, self.slide)] {
            if length == 0 {
                return Err(format!("a {what} of {given:?} is less than a microsecond"));
            }
        }
        if let Some(fault) = self.early.early().and_then(Early::fault) {
            return Err(fault);
        }
        let again = self.earliness().is_some() || !self.lateness.is_zero();
        if let Some(fault) = too_many(size, slide).filter(|_| again) {
            return Err(fault);
        }
        let frames = Frames::new(size, slide, micros(self.offset));
        let frames = if self.by_clock { frames.by_clock() } else { frames };
        Ok(frames.with_lateness(micros(self.lateness)))
    }

    /// The same windows, of the clock's time.
    pub(super) fn by_clock(self) -> Self {
        Self { by_clock: true, ..self }
    }

    /// The bounds of the windows; arbitrary ones if the definition is invalid, since the job is refused then.
    pub(super) fn any_frames(&self) -> Frames {
        self.frames().unwrap_or_else(|_| Frames::new(1, 1, 0))
    }
}

/// Whether windows emit early results.
pub trait Earliness: Copy + Send + 'static {
    /// When they do.
    #[doc(hidden)]
    fn early(self) -> Option<Early>;

    /// The details of windows, with those of the early results.
    #[doc(hidden)]
    fn details(self, windows: Details) -> Details {
        match self.early() {
            Some(early) => early.details(windows),
            None => windows,
        }
    }
}

impl Earliness for AtEnd {
    fn early(self) -> Option<Early> {
        None
    }
}

impl Earliness for Early {
    fn early(self) -> Option<Early> {
        Some(self)
    }
}

impl<T: EventTime, E: Earliness> Window<T> for EventTimeWindow<E> {
    type Pane<V: Data> = Pane<V>;

    fn details(&self) -> Details {
        let span = |span: Duration| (!span.is_zero()).then_some(span);
        let windows = if self.size == self.slide {
            Details::of("windows", "tumbling").with("size", self.size)
        } else {
            Details::of("windows", "sliding").with("size", self.size).with("slide", self.slide)
        };
        let windows = windows.with_some("offset", span(self.offset));
        self.early.details(windows.with_some("lateness", span(self.lateness)))
    }

    fn fault(&self) -> Option<String> {
        self.frames().err()
    }
}

/// Adds windows of records that are already in the tasks that own their keys.
fn of_values<C, G, A, E, const EARLY: bool>(
    window: EventTimeWindow<E>,
    keyed: KeyedStream<C, G, Partitioned>,
    plan: Described,
    aggregate: A,
) -> Stream<Firing<C, Values<A, G>, EARLY>>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value, State: Clone>,
    E: Earliness,
{
    let (frames, early) = (window.any_frames(), window.earliness());
    let (stream, keys) = keyed.into_parts();
    let feed = Values { aggregate: Arc::new(aggregate), keys };
    stream.then_described(plan.origin, plan.details, |prev, op| Firing {
        prev,
        op,
        feed,
        frames,
        early,
    })
}

/// The chain of windows that combine the partial aggregates of several tasks.
type OfParts<C, G, A, const EARLY: bool> = Firing<
    Received<SlicePart<<G as KeyBy<<C as Chain>::Item>>::Key, State<C, G, A>>, <C as Chain>::Time>,
    Parts<A, <G as KeyBy<<C as Chain>::Item>>::Key, <G as KeyBy<<C as Chain>::Item>>::Value>,
    EARLY,
>;

/// The state of a key.
type State<C, G, A> = <A as Aggregate<<G as KeyBy<<C as Chain>::Item>>::Value>>::State;

/// Adds windows of records that are not partitioned by key.
fn of_parts<C, G, A, E, const EARLY: bool>(
    window: EventTimeWindow<E>,
    keyed: KeyedStream<C, G, Scattered>,
    plan: Described,
    aggregate: A,
) -> Stream<OfParts<C, G, A, EARLY>>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value, State: Clone>,
    E: Earliness,
{
    let (frames, early) = (window.any_frames(), window.earliness());
    let Described { origin, details } = plan;
    let (stream, keys) = keyed.into_parts();
    let aggregate = Arc::new(aggregate);
    let local = Arc::clone(&aggregate);
    let slice = Origin { kind: "slice", ..origin };
    let sliced =
        stream.then(slice, |prev, op| Slicing { prev, op, keys, aggregate: local, frames, early });
    let feed = Parts::new(aggregate);
    by_hash::<_, G::Key>(sliced, Origin { kind: "repartition", ..origin }).then_described(
        origin,
        details,
        |prev, op| Firing { prev, op, feed, frames, early },
    )
}

// Whether there are early results is known at compile time, so that windows without them have no extra cost per
// record.
macro_rules! windowing {
    ($early:ty, $is_early:literal) => {
        impl<C, G, A> Windowing<C, G, Partitioned, A> for EventTimeWindow<$early>
        where
            C: Chain<Time: EventTime>,
            G: KeyBy<C::Item>,
            A: Combine<G::Value, State: Clone>,
        {
            type Chain = Firing<C, Values<A, G>, $is_early>;

            fn windows(
                self,
                keyed: KeyedStream<C, G, Partitioned>,
                plan: Described,
                aggregate: A,
            ) -> Stream<Self::Chain> {
                of_values(self, keyed, plan, aggregate)
            }
        }

        impl<C, G, A> Windowing<C, G, Scattered, A> for EventTimeWindow<$early>
        where
            C: Chain<Time: EventTime>,
            G: KeyBy<C::Item>,
            A: Combine<G::Value, State: Clone>,
        {
            type Chain = OfParts<C, G, A, $is_early>;

            fn windows(
                self,
                keyed: KeyedStream<C, G, Scattered>,
                plan: Described,
                aggregate: A,
            ) -> Stream<Self::Chain> {
                of_parts(self, keyed, plan, aggregate)
            }
        }
    };
}

windowing!(AtEnd, false);
windowing!(Early, true);
