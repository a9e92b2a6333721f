//! Joins of records whose times differ by no more than an interval.

use super::joinable::{Joinable, JoinableWith, KeyOf, TimeOf, ValueOf};
use super::meeting::{Meet, Meeting, join_partitioned};
use super::tagged::Either;
use super::timeline::{Cursor, Timeline};
use crate::data::Data;
use crate::error::{Error, ErrorKind};
use crate::flow::guard;
use crate::operators::keyed::{FirstOf, KeyedStream, Partitioned};
use crate::plan::{Details, Origin, Value};
use crate::stream::Chain;
use crate::support::keyed_timers::{EventClock, TimedState, TimerClock};
use crate::time::{EventTime, micros};
use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// How far the records of a second stream may be from a record of the first, in event time; for
/// [`KeyedStream::interval_join`]. Both ends are inclusive. Fractions of a microsecond are ignored.
///
/// ```
/// use std::time::Duration;
/// use thalweg::operators::join::Interval;
///
/// let second = Duration::from_secs(1);
/// // From three seconds before the first record to one after it.
/// assert_eq!(Interval::new(3 * second, second).to_string(), "-3s to +1s");
/// // One to three seconds after it.
/// assert_eq!(Interval::following(second, 3 * second).to_string(), "+1s to +3s");
/// // Three seconds to one before it.
/// assert_eq!(Interval::preceding(3 * second, second).to_string(), "-3s to -1s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Data)]
pub struct Interval {
    lower: i64,
    upper: i64,
}

impl Interval {
    /// From `before` before the first record to `after` after it.
    pub fn new(before: Duration, after: Duration) -> Self {
        Self { lower: -micros(before), upper: micros(after) }
    }

    /// At most `distance` before or after.
    pub fn within(distance: Duration) -> Self {
        Self::new(distance, distance)
    }

    /// After the first record, by `least` to `most`.
    ///
    /// If `most` is less than `least`, the job is refused at its start.
    pub fn following(least: Duration, most: Duration) -> Self {
        Self { lower: micros(least), upper: micros(most) }
    }

    /// Before the first record, by `least` to `most`.
    ///
    /// If `most` is less than `least`, the job is refused at its start.
    pub fn preceding(most: Duration, least: Duration) -> Self {
        Self { lower: -micros(most), upper: -micros(least) }
    }

    /// The details of a join by it.
    fn details(self) -> Details {
        Details::of("from", Value::Offset(self.lower)).with("to", Value::Offset(self.upper))
    }

    /// Refuses the job of a join by this interval if the interval is empty.
    fn checked<C: Chain, G, P>(self, joined: KeyedStream<C, G, P>) -> KeyedStream<C, G, P> {
        let (stream, keys) = joined.into_parts();
        if self.lower > self.upper {
            let what = format!("an interval from {self} holds nothing");
            stream.refuse(Error::new(ErrorKind::Plan, what));
        }
        KeyedStream::from_parts(stream, keys)
    }

    /// The times of the second stream that match a time of the first; `None` if they are beyond the range of
    /// time.
    fn rights_near(self, at: i64) -> Option<(i64, i64)> {
        span(at, self.lower, self.upper)
    }

    /// The times of the first stream that match a time of the second.
    fn lefts_near(self, at: i64) -> Option<(i64, i64)> {
        span(at, -self.upper, -self.lower)
    }

    /// The last time at which a record of the second stream matches a time of the first.
    fn left_until(self, at: i64) -> i64 {
        at.saturating_add(self.upper)
    }

    /// The last time at which a record of the first stream matches a time of the second.
    fn right_until(self, at: i64) -> i64 {
        at.saturating_sub(self.lower)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let offset = |micros: i64| {
            let sign = if micros < 0 { '-' } else { '+' };
            format!("{sign}{:?}", Duration::from_micros(micros.unsigned_abs()))
        };
        write!(f, "{} to {}", offset(self.lower), offset(self.upper))
    }
}

/// The part of a span that lies within the range of time.
fn span(at: i64, lower: i64, upper: i64) -> Option<(i64, i64)> {
    let clamp = |offset: i64| at.saturating_add(offset);
    let is_before = lower < 0 && upper < 0 && at.checked_add(upper).is_none();
    let is_after = lower > 0 && upper > 0 && at.checked_add(lower).is_none();
    (!is_before && !is_after).then(|| (clamp(lower), clamp(upper)))
}

impl<C: Chain, G, P> KeyedStream<C, G, P> {
    /// Makes a record of every two records of a key whose times match the interval: one of this stream at `t`,
    /// and one of the other from `t` plus the interval's lower end to `t` plus its upper end.
    ///
    /// Unlike with windows, no border lies between two records that are close. The result has the greater
    /// timestamp of both and is emitted with the record that arrives second; so it is neither late nor delayed.
    /// Both streams may be unbounded. For the last record before another one, whenever that was, see
    /// [`as_of_join`](Self::as_of_join); for records without a partner, see
    /// [`interval_left_join`](Self::interval_left_join).
    ///
    /// Every record goes to the task that owns its key, unless it is there already, and is kept until the
    /// watermark shows that no partner can come; a key without such records uses no memory. A record takes two
    /// steps of near-constant cost, and one for each of its results. Where one stream is far ahead of the
    /// other, its records are kept until the other has caught up.
    ///
    /// A record that arrives behind the watermark is late, since its partners may be gone: it is not joined,
    /// but [counted, and reported in a warning at the end](crate::metrics::Stats::late_dropped).
    ///
    /// # Errors
    ///
    /// The job stops when the memory budget does not hold the records that may still be joined. Streams of two
    /// environments, and an empty interval, are refused at the job's start.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::join::Interval;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let timed = |records: Vec<(i64, char)>| {
    ///     env.iter(records)
    ///         .assign_timestamps(|record| Timestamp::from_secs(record.0), Watermarks::monotonous())
    ///         .group_by(|record| record.1)
    /// };
    /// let shown = timed(vec![(10, 'a'), (12, 'b'), (30, 'a')]);
    /// let clicks = timed(vec![(11, 'a'), (15, 'a'), (16, 'a'), (40, 'b')]);
    /// // A click within five seconds.
    /// let soon = Interval::following(Duration::ZERO, Duration::from_secs(5));
    /// let reactions = shown.interval_join(clicks, soon, |_, shown, click| click.0 - shown.0);
    /// let out = reactions.collect::<Vec<_>>();
    /// env.run()?;
    /// let mut reactions = out.take()?;
    /// reactions.sort();
    /// assert_eq!(reactions, [('a', 1), ('a', 5)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn interval_join<R, O, F>(
        self,
        other: R,
        interval: Interval,
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
        let near = Near::new(interval, false, f);
        interval.checked(join_partitioned(
            self,
            other,
            Origin::here("interval_join"),
            interval.details(),
            near,
        ))
    }

    /// Like [`interval_join`](Self::interval_join), with a result for each record of this stream that has no
    /// partner too, for which the closure gets `None`.
    ///
    /// That result is emitted when the watermark shows that no partner can come. Its timestamp is the last time
    /// of a possible partner, or the record's own if that is later. Late records have no results.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::join::Interval;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let timed = |records: Vec<(i64, u32)>| {
    ///     env.iter(records)
    ///         .assign_timestamps(|record| Timestamp::from_secs(record.0), Watermarks::monotonous())
    ///         .group_by(|record| record.1)
    /// };
    /// let (orders, payments) = (timed(vec![(1, 100), (2, 101)]), timed(vec![(9, 100), (90, 101)]));
    /// let minute = Interval::following(Duration::ZERO, Duration::from_secs(60));
    /// let paid = orders.interval_left_join(payments, minute, |_, _, payment| payment.is_some());
    /// let out = paid.collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(100, true), (101, false)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn interval_left_join<R, O, F>(
        self,
        other: R,
        interval: Interval,
        f: F,
    ) -> KeyedStream<impl Chain<Item = (KeyOf<Self>, O), Time = TimeOf<Self>>, FirstOf, Partitioned>
    where
        Self: Joinable<Time: EventTime>,
        R: JoinableWith<Self>,
        O: 'static,
        F: Fn(&KeyOf<Self>, &ValueOf<Self>, Option<&ValueOf<R>>) -> O + Send + Sync + 'static,
    {
        let f = move |key: &KeyOf<Self>, left: &_, right: Option<&_>| Some(f(key, left, right));
        let near = Near::new(interval, true, f);
        interval.checked(join_partitioned(
            self,
            other,
            Origin::here("interval_left_join"),
            interval.details(),
            near,
        ))
    }
}

/// The [`Meet`] policy of an interval join.
pub struct Near<F, O> {
    interval: Interval,
    /// Whether records of the first stream without a partner have results.
    outer: bool,
    f: Arc<F>,
    out: PhantomData<fn() -> O>,
}

impl<F, O> Near<F, O> {
    fn new(interval: Interval, outer: bool, f: F) -> Self {
        Self { interval, outer, f: Arc::new(f), out: PhantomData }
    }
}

impl<F, O> Clone for Near<F, O> {
    fn clone(&self) -> Self {
        Self { f: Arc::clone(&self.f), ..*self }
    }
}

/// A record of the first stream that may still have partners.
#[derive(Data)]
struct Waiting<A> {
    value: A,
    matched: bool,
}

/// The records of a key that may still have partners.
#[derive(Data)]
pub struct Partners<A, B> {
    lefts: Timeline<Waiting<A>>,
    rights: Timeline<B>,
    interval: Interval,
}

impl<A: Data, B: Data> TimedState for Partners<A, B> {
    type Clocks = EventClock;
    type Owned = ();

    fn due(&self, _: TimerClock) -> Option<i64> {
        let left = self.lefts.first().map(|at| self.interval.left_until(at));
        let right = self.rights.first().map(|at| self.interval.right_until(at));
        left.into_iter().chain(right).min()
    }

    fn is_spent(&self) -> bool {
        self.lefts.is_empty() && self.rights.is_empty()
    }

    fn heap(&self) -> usize {
        self.lefts.heap() + self.rights.heap()
    }
}

/// A result has the greater timestamp of its two records. It is made when the second of them arrives, and that
/// one is not behind the watermark, or it would be late; so the result is not either. A record of the first
/// stream is emitted without a partner at the first watermark behind the last time of a possible partner; so
/// that time is not behind the previous watermark.
impl<K, A, B, O, F> Meet<K, A, B> for Near<F, O>
where
    A: Data,
    B: Data,
    O: 'static,
    F: Fn(&K, &A, Option<&B>) -> Option<O> + Send + Sync + 'static,
{
    type State = Partners<A, B>;
    type Out = O;

    const KEEPS: &'static str = "records that may still be joined";

    fn start(&self) -> Partners<A, B> {
        Partners { lefts: Timeline::new(), rights: Timeline::new(), interval: self.interval }
    }

    fn drops_late(&self, _: &Either<A, B>) -> bool {
        true
    }

    #[inline]
    fn take(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Partners<A, B>,
        (value, at): (Either<A, B>, i64),
        cursor: &mut Cursor,
        mut give: impl FnMut(O, i64) -> ControlFlow<()>,
    ) -> Option<Either<A, B>> {
        let Self { interval, outer, f, .. } = self;
        let Partners { lefts, rights, .. } = state;
        let mut pair = |left: &A, right: &B, later: i64| {
            let out = guard(cx.op, || f(cx.key, left, Some(right)));
            out.map_or(ControlFlow::Continue(()), |out| give(out, later))
        };
        match value {
            Either::Left(left) => {
                // A record that was interrupted had partners.
                let mut matched = cursor.has_moved();
                if let Some(span) = interval.rights_near(at)
                    && !rights.visit(span, cursor, |other, right| {
                        matched = true;
                        pair(&left, right, at.max(other))
                    })
                {
                    return Some(Either::Left(left));
                }
                if interval.left_until(at) >= cx.watermark {
                    lefts.add(at, Waiting { value: left, matched });
                } else if *outer && !matched {
                    let alone = guard(cx.op, || f(cx.key, &left, None));
                    alone.map(|out| give(out, at));
                }
            }
            Either::Right(right) => {
                if let Some(span) = interval.lefts_near(at)
                    && !lefts.visit(span, cursor, |other, left| {
                        left.matched = true;
                        pair(&left.value, &right, at.max(other))
                    })
                {
                    return Some(Either::Right(right));
                }
                if interval.right_until(at) >= cx.watermark {
                    rights.add(at, right);
                }
            }
        }
        None
    }

    fn wake(
        &self,
        cx: &Meeting<'_, K>,
        state: &mut Partners<A, B>,
        until: i64,
        mut give: impl FnMut(O, i64) -> ControlFlow<()>,
    ) {
        let Self { interval, outer, f, .. } = self;
        let Partners { lefts, rights, .. } = state;
        while let Some(at) = lefts.first()
            && interval.left_until(at) <= until
        {
            let Some((_, left)) = lefts.pop(at) else { break };
            if !*outer || left.matched {
                continue;
            }
            let alone = guard(cx.op, || f(cx.key, &left.value, None));
            if let Some(out) = alone
                && give(out, at.max(interval.left_until(at))).is_break()
            {
                return;
            }
        }
        while let Some(at) = rights.first()
            && interval.right_until(at) <= until
        {
            rights.pop(at);
        }
    }
}
