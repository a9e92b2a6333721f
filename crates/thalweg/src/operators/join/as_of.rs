//! Joins of each record with the one that was in force at its time (as-of joins).

use super::joinable::{Joinable, JoinableWith, KeyOf, TimeOf, ValueOf};
use super::meeting::{Meet, Meeting, join_partitioned};
use super::tagged::Either;
use super::timeline::{Cursor, Timeline};
use crate::data::Data;
use crate::flow::guard;
use crate::operators::keyed::{FirstOf, KeyedStream, Partitioned};
use crate::plan::{Details, Origin};
use crate::stream::Chain;
use crate::support::keyed_timers::{EventClock, TimedState, TimerClock};
use crate::time::{EventTime, micros};
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Which record of a second stream matches a record of the first, in event time; for
/// [`KeyedStream::as_of_join`].
///
/// ```
/// use std::time::Duration;
/// use thalweg::operators::join::AsOf;
///
/// assert_eq!(AsOf::latest().to_string(), "the latest");
/// let tolerance = Duration::from_millis(5);
/// assert_eq!(AsOf::next().within(tolerance).to_string(), "the next within 5ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Data)]
pub struct AsOf {
    direction: Direction,
    tolerance: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Data)]
enum Direction {
    Latest,
    Next,
}

impl AsOf {
    /// The latest record at the same time or before it. Of several at one time, the one that arrived last.
    ///
    /// The result is emitted when the watermark has passed the time of the first stream's record, so that it is
    /// exact. For each key, the latest record of the second stream is kept as long as the job runs, unless it
    /// is [too old](Self::within) for any future record.
    pub fn latest() -> Self {
        Self { direction: Direction::Latest, tolerance: None }
    }

    /// The first record at the same time or after it. Of several at one time, the one that arrived first.
    ///
    /// The result is emitted when the watermark has passed the time of the second stream's record. A record of
    /// the first stream waits for a match as long as the job runs, or as long as the [tolerance](Self::within)
    /// allows.
    pub fn next() -> Self {
        Self { direction: Direction::Next, tolerance: None }
    }

    /// Limits how far apart the two records may be; a distance of exactly `tolerance` still matches. Fractions
    /// of a microsecond are ignored.
    pub fn within(mut self, tolerance: Duration) -> Self {
        self.tolerance = Some(micros(tolerance));
        self
    }

    /// The last time at which a record that follows one at `at` still matches; `None` where there is no limit.
    fn reach(self, at: i64) -> Option<i64> {
        self.tolerance.map(|most| at.saturating_add(most))
    }

    /// Whether two times, the second not before the first, are near enough.
    fn is_near(self, early: i64, late: i64) -> bool {
        // At the end of the time range the sum saturates, and everything is near enough.
        self.reach(early).is_none_or(|reach| late <= reach)
    }
}

impl AsOf {
    /// The details of a join by it.
    fn details(self) -> Details {
        let matches = match self.direction {
            Direction::Latest => "latest",
            Direction::Next => "next",
        };
        let tolerance = self.tolerance.map(|most| Duration::from_micros(most.unsigned_abs()));
        Details::of("match", matches).with_some("tolerance", tolerance)
    }
}

impl fmt::Display for AsOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.direction {
            Direction::Latest => "the latest",
            Direction::Next => "the next",
        })?;
        match self.tolerance {
            Some(most) => write!(f, " within {:?}", Duration::from_micros(most.unsigned_abs())),
            None => Ok(()),
        }
    }
}

impl<C: Chain, G, P> KeyedStream<C, G, P> {
    /// Joins each record with the record of the other stream that was in force at its time: of the same key,
    /// the [latest](AsOf::latest) at that time or before it, or the [next](AsOf::next). A record without a
    /// match has no result; see [`as_of_left_join`](Self::as_of_left_join).
    ///
    /// Examples are a trade with the quote of its time, or an order with the price that was valid. For all
    /// records within a distance, see [`interval_join`](Self::interval_join). The result has the greater
    /// timestamp of both records, and is emitted when the watermark shows that no other record can match: it is
    /// the same however the two streams are interleaved. Both streams may be unbounded.
    ///
    /// Every record goes to the task that owns its key, unless it is there already. A record takes one step of
    /// near-constant cost, and a few more when its result is emitted. The operator keeps the records of this
    /// stream that wait for the watermark, and the records of the other one that may still match.
    ///
    /// A record of this stream that arrives behind the watermark is late, since its match may be gone: it has
    /// no result, but is [counted, and reported in a warning at the end](crate::metrics::Stats::late_dropped).
    /// A late record of the other stream is counted too, as records may have been joined without it; it is not
    /// lost where it is the latest for later records.
    ///
    /// # Errors
    ///
    /// The job stops when the memory budget does not hold its records and keys. Streams of two environments are
    /// refused at the job's start.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::join::AsOf;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let timed = |records: Vec<(i64, char, u32)>| {
    ///     env.iter(records)
    ///         .assign_timestamps(|record| Timestamp::from_secs(record.0), Watermarks::monotonous())
    ///         .group_by(|record| record.1)
    /// };
    /// let trades = timed(vec![(3, 'a', 10), (5, 'b', 1), (9, 'a', 20)]);
    /// let prices = timed(vec![(1, 'a', 7), (3, 'a', 8), (6, 'b', 2), (8, 'a', 9), (10, 'a', 5)]);
    /// let worth = trades.as_of_join(prices, AsOf::latest(), |_, trade, price| trade.2 * price.2);
    /// let out = worth.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [('a', 80), ('a', 180)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias = "merge_asof")]
    #[doc(alias = "join_asof")]
    #[track_caller]
    pub fn as_of_join<R, O, F>(
        self,
        other: R,
        which: AsOf,
        f: F,
    ) -> KeyedStream<impl Chain<Item = (KeyOf<Self>, O), Time = TimeOf<Self>>, FirstOf, Partitioned>
    where
        Self: Joinable<Time: EventTime>,
        R: JoinableWith<Self>,
        O: 'static,
        F: Fn(&KeyOf<Self>, &ValueOf<Self>, &ValueOf<R>) -> O + Send + Sync + 'static,
    {
        let f = move |key: &KeyOf<Self>, left: &_, right: Option<&_>| {
            right.map(|right| f(key, left, right))
        };
        join_partitioned(
            self,
            other,
            Origin::here("as_of_join"),
            which.details(),
            InForce::new(which, f),
        )
    }

    /// Like [`as_of_join`](Self::as_of_join), with a result for each record of this stream that is not late:
    /// where there is no match, the closure gets `None`.
    ///
    /// The timestamp of a result without a match is the record's own; with [`AsOf::next`] it is the last time
    /// at which a match might have come, or, without a tolerance, the last timestamp there is.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::join::AsOf;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let timed = |seconds: Vec<i64>| {
    ///     env.iter(seconds)
    ///         .assign_timestamps(|second| Timestamp::from_secs(*second), Watermarks::monotonous())
    ///         .group_by(|_| ())
    /// };
    /// let (alarms, answers) = (timed(vec![1, 10, 20]), timed(vec![3, 17, 21]));
    /// let soon = AsOf::next().within(Duration::from_secs(5));
    /// let waited = alarms.as_of_left_join(answers, soon, |_, alarm, answer| answer.map(|a| a - alarm));
    /// let out = waited.unkey().map(|(_, seconds)| seconds).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [Some(2), None, Some(1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn as_of_left_join<R, O, F>(
        self,
        other: R,
        which: AsOf,
        f: F,
    ) -> KeyedStream<impl Chain<Item = (KeyOf<Self>, O), Time = TimeOf<Self>>, FirstOf, Partitioned>
    where
        Self: Joinable<Time: EventTime>,
        R: JoinableWith<Self>,
        O: 'static,
        F: Fn(&KeyOf<Self>, &ValueOf<Self>, Option<&ValueOf<R>>) -> O + Send + Sync + 'static,
    {
        let f = move |key: &KeyOf<Self>, left: &_, right: Option<&_>| Some(f(key, left, right));
        join_partitioned(
            self,
            other,
            Origin::here("as_of_left_join"),
            which.details(),
            InForce::new(which, f),
        )
    }
}

/// The [`Meet`] policy of an as-of join.
pub struct InForce<F, O> {
    which: AsOf,
    f: Arc<F>,
    out: PhantomData<fn() -> O>,
}

impl<F, O> InForce<F, O> {
    fn new(which: AsOf, f: F) -> Self {
        Self { which, f: Arc::new(f), out: PhantomData }
    }
}

impl<F, O> Clone for InForce<F, O> {
    fn clone(&self) -> Self {
        Self { f: Arc::clone(&self.f), ..*self }
    }
}

/// The state of a key.
#[derive(Data)]
pub struct Known<A, B> {
    /// Left records that wait for a match.
    lefts: Timeline<A>,
    /// Right records that may match, at most one per time.
    rights: Timeline<B>,
    which: AsOf,
}

impl<A: Data, B: Data> TimedState for Known<A, B> {
    type Clocks = EventClock;
    type Owned = ();

    fn due(&self, _: TimerClock) -> Option<i64> {
        let Self { lefts, rights, which } = self;
        let first = lefts.first();
        let dues = match which.direction {
            // A left record is joined when its time has passed. A right one is dropped when the next one is in
            // force, or when it is too old.
            Direction::Latest => {
                let too_old = rights.first().and_then(|at| which.reach(at));
                [first, rights.second(), too_old]
            }
            // A right record can match when its time has passed. Until then left ones wait.
            Direction::Next => {
                [rights.first(), first.map(|at| which.reach(at).unwrap_or(i64::MAX)), None]
            }
        };
        dues.into_iter().flatten().min()
    }

    fn is_spent(&self) -> bool {
        self.lefts.is_empty() && self.rights.is_empty()
    }

    fn heap(&self) -> usize {
        self.lefts.heap() + self.rights.heap()
    }
}

impl<A: Data, B: Data> Known<A, B> {
    /// Drops the right records that no waiting or future left record can need, where no future one is before
    /// `from`.
    fn prune(&mut self, from: i64) {
        let Self { lefts, rights, which } = self;
        let first = lefts.first().map_or(from, |first| first.min(from));
        match which.direction {
            Direction::Latest => {
                while let Some(at) = rights.first()
                    && (rights.second().is_some_and(|next| next <= first)
                        || !which.is_near(at, first))
                {
                    rights.pop(at);
                }
            }
            Direction::Next => {
                while let Some(at) = rights.first()
                    && at < first
                {
                    rights.pop(at);
                }
            }
        }
    }
}

/// A result has the greater timestamp of its two records, and is emitted at the first watermark that has passed
/// it, so it is not behind the previous watermark. That holds for records without a match too, with the time at
/// which it is known that there is none in place of the other record's.
impl<K, A, B, O, F> Meet<K, A, B> for InForce<F, O>
where
    A: Data,
    B: Data,
    O: 'static,
    F: Fn(&K, &A, Option<&B>) -> Option<O> + Send + Sync + 'static,
{
    type State = Known<A, B>;
    type Out = O;

    const KEEPS: &'static str = "records that wait for others or may be in force";

    fn start(&self) -> Known<A, B> {
        Known { lefts: Timeline::new(), rights: Timeline::new(), which: self.which }
    }

    fn drops_late(&self, value: &Either<A, B>) -> bool {
        matches!(value, Either::Left(_)) || self.which.direction == Direction::Next
    }

    #[inline]
    fn take(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Known<A, B>,
        (value, at): (Either<A, B>, i64),
        _: &mut Cursor,
        _: impl FnMut(O, i64) -> ControlFlow<()>,
    ) -> Option<Either<A, B>> {
        match (value, self.which.direction) {
            (Either::Left(left), _) => state.lefts.add(at, left),
            (Either::Right(right), Direction::Latest) => {
                state.rights.put(at, right);
                state.prune(cx.watermark);
            }
            (Either::Right(right), Direction::Next) => {
                if state.rights.latest(at).is_none_or(|(other, _)| other < at) {
                    state.rights.add(at, right);
                }
            }
        }
        None
    }

    fn wake(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Known<A, B>,
        until: i64,
        mut give: impl FnMut(O, i64) -> ControlFlow<()>,
    ) {
        let Self { which, f, .. } = self;
        while let Some(at) = state.lefts.first() {
            let (right, known_at) = match which.direction {
                Direction::Latest if at > until => break,
                Direction::Latest => {
                    let right = state.rights.latest(at);
                    (right.filter(|(other, _)| which.is_near(*other, at)), at)
                }
                Direction::Next => {
                    let right = state.rights.earliest(at);
                    let right = right.filter(|(other, _)| which.is_near(at, *other));
                    let known_at = match right {
                        Some((other, _)) => other,
                        None => which.reach(at).unwrap_or(i64::MAX),
                    };
                    if known_at > until {
                        break;
                    }
                    (right, known_at)
                }
            };
            let right = right.map(|(_, right)| right);
            let lefts = &mut state.lefts;
            let Some((_, left)) = lefts.pop(at) else { break };
            let out = guard(cx.op, || f(cx.key, &left, right));
            if let Some(out) = out
                && give(out, known_at).is_break()
            {
                return;
            }
        }
        state.prune(until.saturating_add(1));
        if until == i64::MAX {
            // The input has ended: no right record is needed any more.
            while state.rights.pop(until).is_some() {}
        }
    }
}
