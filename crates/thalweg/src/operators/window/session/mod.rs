//! Sessions: windows that last as long as records follow one another within a gap.
//!
//! Each task merges its own records into parts of sessions (`local`), and the task that owns the key merges the parts
//! (`merging`). Early results and late records need records one by one: then, and where the records of a key are in one
//! task already, the records themselves enter the sessions (`firing`).

mod early;
mod firing;
mod held;
mod late;
mod lenient;
mod local;
mod merging;
mod open;

use super::early::Early;
use super::event_time::{AtEnd, Earliness};
use super::pane::Pane;
use super::windowed::{Described, Window, Windowing};
use crate::data::{Data, Record, Wire};
use crate::operators::aggregates::{Aggregate, Combine};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed, Scattered, by_hash};
use crate::plan::{Details, Origin};
use crate::stream::{Chain, Received, Stream};
use crate::time::{EventTime, micros};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use early::EarlySessions;
pub use firing::Sessioning;
pub use late::Counted;
use late::{Latecomers, Sent};
pub use lenient::Lenient;
use local::{SessionPart, SessionParts};
use merging::Merging;

/// The chain that ends in sessions, and what it is made of.
pub mod chains {
    pub use super::early::{EarlySessions, Had};
    pub use super::firing::Sessioning;
    pub use super::late::{Counted, Latecomers, Sent};
    pub use super::lenient::Lenient;
    pub use super::merging::Merging;
    pub use super::{FixedGap, Gap, GapOf};
}

/// Sessions of each key in event time, for [`KeyedStream::window`](crate::KeyedStream::window): two records are
/// in the same session if they are no further apart than a gap.
///
/// A record at exactly the gap's distance is still in the session. A session begins with its first record, and
/// its end, the first timestamp after it, is its last record plus the gap plus a microsecond. With a gap of
/// zero, a session contains records with the same timestamp. The result is emitted when the watermark has
/// reached the end, in a [`Pane`](super::Pane) with those bounds; its timestamp is the last one of the session.
/// [`early`](Self::early) adds results of sessions that have not ended.
///
/// Records may arrive out of order, and one may join two sessions into one; that is why the aggregate must
/// [combine](crate::operators::aggregates::Combine). A record is late if it joins no open session, and the one
/// that it would begin has ended. Late records are not added to any session, but [counted, and reported at the
/// end](crate::metrics::Stats::late_dropped), or sent to a side output by
/// [`late_output`](crate::operators::window::Windowed::late_output).
/// [`allowed_lateness`](Self::allowed_lateness) keeps sessions for such records.
///
/// Each task merges its own records between two of its watermarks, so that few are sent where keys repeat soon. With many
/// keys, a watermark waits for more records, up to 5 ms in a task whose input does not run dry. With
/// [`early`](Self::early), [`allowed_lateness`](Self::allowed_lateness) or a `late_output`, every record is sent to the
/// task that owns its key. A record costs a look-up, however long the session. Memory: an aggregate for each open session.
/// The place of a key whose sessions have ended is kept for a while, in case it returns, unless memory is short.
///
/// # Errors
///
/// Open sessions beyond the memory budget go to disk. The job fails if those of a single key exceed it.
///
/// ```
/// use std::time::Duration;
/// use thalweg::Environment;
/// use thalweg::operators::time::Watermarks;
/// use thalweg::operators::window::SessionWindow;
/// use thalweg::time::Timestamp;
///
/// let env = Environment::new();
/// // The second of a click, and the user.
/// let clicks = env.iter([(1, 'a'), (2, 'b'), (4, 'a'), (30, 'a'), (33, 'a'), (36, 'a')]);
/// let visits = clicks
///     .assign_timestamps(|click| Timestamp::from_secs(click.0), Watermarks::monotonous())
///     .group_by(|click| click.1)
///     .window(SessionWindow::new(Duration::from_secs(3)))
///     .count();
/// let out = visits.unkey().map(|(who, visit)| (who, visit.start, visit.value));
/// let out = out.collect::<std::collections::BTreeSet<_>>();
/// env.run()?;
/// let at = Timestamp::from_secs;
/// assert!(out.take()?.into_iter().eq([('a', at(1), 2), ('a', at(30), 3), ('b', at(2), 1)]));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SessionWindow<F = FixedGap, L = Counted, E = AtEnd> {
    gap: F,
    /// The gap of all sessions, if there is one.
    fixed: Option<Duration>,
    late: L,
    early: E,
}

impl SessionWindow {
    /// Sessions that end when no record follows within the gap. Fractions of a microsecond in the gap are
    /// ignored.
    pub fn new(gap: Duration) -> Self {
        let fixed = Some(gap);
        let gap = FixedGap { micros: micros(gap) };
        Self { gap, fixed, late: Counted, early: AtEnd }
    }
}

impl<F> SessionWindow<GapOf<F>> {
    /// Sessions with a gap for every record, computed by a closure: the session lasts until the latest of its
    /// records' times plus their gaps.
    ///
    /// The closure's parameter needs a type annotation.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::SessionWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// // The second of a record of a call, and how many seconds of silence may follow.
    /// let calls = env.iter([(0, 10), (8, 1), (10, 1), (12, 5)]);
    /// let sessions = calls
    ///     .assign_timestamps(|call| Timestamp::from_secs(call.0), Watermarks::monotonous())
    ///     .group_by(|_| ())
    ///     .window(SessionWindow::with_gap(|call: &(i64, u64)| Duration::from_secs(call.1)))
    ///     .count();
    /// let out = sessions.unkey().map(|(_, session)| (session.start, session.value));
    /// let out = out.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timestamp::from_secs(0), 3), (Timestamp::from_secs(12), 1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn with_gap(gap: F) -> Self {
        Self { gap: GapOf(Arc::new(gap)), fixed: None, late: Counted, early: AtEnd }
    }
}

impl<F, L> SessionWindow<F, L> {
    /// Emits results also before sessions end: after a number of records, or at an interval. Their
    /// [`timing`](super::Pane::timing) is [`Early`](super::Timing::Early), numbered for each session; their
    /// bounds are those of the session so far. The results at the end do not change.
    ///
    /// A session that joins two sessions replaces the results of both, and its results continue from the higher
    /// number. [`Early::every`] emits a result when the session contains that many records that were in no
    /// result of it, or of the sessions that it was merged from.
    ///
    /// The timestamp of an early result is the last one of the session so far, which no watermark has passed.
    /// The state of the aggregate is cloned for each early result.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::{Early, SessionWindow, Timing};
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let visits = env
    ///     .iter([1, 2, 4, 5, 6])
    ///     .assign_timestamps(|at| Timestamp::from_secs(*at), Watermarks::monotonous())
    ///     .window_all(SessionWindow::new(Duration::from_secs(3)).early(Early::every(2)))
    ///     .count();
    /// let out = visits.map(|visit| (visit.timing, visit.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timing::Early(1), 2), (Timing::Early(2), 4), (Timing::OnTime, 5)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn early(self, early: Early) -> SessionWindow<F, L, Early> {
        let Self { gap, fixed, late, early: AtEnd } = self;
        SessionWindow { gap, fixed, late, early }
    }
}

impl<F, L> SessionWindow<F, L, Lenient<AtEnd>> {
    /// Emits results also before sessions end, as [`early`](SessionWindow::early) before
    /// [`allowed_lateness`](Self::allowed_lateness) does: the order of the two does not matter.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::{Early, SessionWindow, Timing};
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let window = SessionWindow::new(Duration::from_secs(3));
    /// let visits = env
    ///     .iter([1, 2, 4])
    ///     .assign_timestamps(|at| Timestamp::from_secs(*at), Watermarks::monotonous())
    ///     .window_all(window.allowed_lateness(Duration::from_secs(60)).early(Early::every(2)))
    ///     .count();
    /// let out = visits.map(|visit| (visit.timing, visit.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timing::Early(1), 2), (Timing::OnTime, 3)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn early(self, early: Early) -> SessionWindow<F, L, Lenient<Early>> {
        let Self { gap, fixed, late, early: Lenient { early: AtEnd, lateness } } = self;
        SessionWindow { gap, fixed, late, early: Lenient { early, lateness } }
    }
}

impl<F, L, E: Earliness> SessionWindow<F, L, E> {
    /// Keeps sessions open to late records for this long after their ends. Such a record gives a session that
    /// has emitted its result another one, which replaces the one before and whose
    /// [`timing`](super::Pane::timing) is [`Late`](super::Timing::Late). Several late records in one batch give
    /// one result. A late record that joins no session begins one, whose result is `Late` too.
    ///
    /// A late record may also join two sessions, or extend one so that it ends after the watermark. Such a session is
    /// open again, and emits another [`OnTime`](super::Timing::OnTime) result at its end. A result replaces the earlier
    /// results of its session and those of the sessions that were merged into it, all of which have bounds within its
    /// own.
    ///
    /// A session is kept until the watermark is later than its last timestamp by more than `lateness`. Then no record
    /// joins it any more, and its last result stands. A session that begins or grows later does not contain its
    /// records, even if it has bounds that contain those of the former, or those of sessions that were merged into the
    /// former. This needs a record that is behind the watermark by more than `lateness`, and is accepted because the
    /// end of its session is not. With such records, bounds alone do not tell which results are replaced.
    ///
    /// A record that joins no session, and would begin one that is no longer kept, is late, as without this call. Costs
    /// memory, since sessions are kept for this much longer, and a clone of the aggregate's state for each result. As
    /// a result's timestamp is the last one of its session, windows over such results need at least the same lateness
    /// to include them.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::{SessionWindow, Timing};
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// // One second of records, a pause, and then a late record of that second.
    /// let millis = (0..20_000).chain([500]).map(|at| if at == 1_000 { 1_001 } else { at });
    /// let visits = env
    ///     .iter(millis.filter(|at| *at <= 1_000 || *at >= 15_000))
    ///     .assign_timestamps(|at| Timestamp::from_millis(*at), Watermarks::monotonous())
    ///     .window_all(SessionWindow::new(Duration::from_secs(3)).allowed_lateness(Duration::from_secs(60)))
    ///     .count();
    /// let out = visits.map(|visit| (visit.start, visit.timing, visit.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// let out = out.take()?;
    /// assert_eq!(out[0], (Timestamp::from_millis(0), Timing::OnTime, 1_000));
    /// assert_eq!(out[1], (Timestamp::from_millis(0), Timing::Late(1), 1_001));
    /// assert_eq!(out[2], (Timestamp::from_millis(15_000), Timing::OnTime, 5_000));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn allowed_lateness(self, lateness: Duration) -> SessionWindow<F, L, Lenient<E>> {
        let Self { gap, fixed, late, early } = self;
        SessionWindow { gap, fixed, late, early: Lenient { early, lateness: micros(lateness) } }
    }
}

impl<T, F, L, E> Window<T> for SessionWindow<F, L, E>
where
    T: EventTime,
    F: Send + 'static,
    L: Send + 'static,
    E: Earliness,
{
    type Pane<V: Data> = Pane<V>;

    fn details(&self) -> Details {
        let windows = Details::of("windows", "sessions");
        let windows = match self.fixed {
            Some(gap) => windows.with("gap", gap),
            None => windows.with("gap", "from the record"),
        };
        self.early.details(windows)
    }

    fn fault(&self) -> Option<String> {
        self.early.early().and_then(Early::fault)
    }
}

/// Adds sessions of records, which are brought into the tasks that own their keys.
fn of_records<C, G, P, F, L, E, A>(
    window: SessionWindow<F, L, E>,
    keyed: KeyedStream<C, G, P>,
    plan: Described,
    aggregate: A,
) -> Stream<Sessioning<P::PartitionedChain<C, G>, P::Keys<C, G>, F, L, E, A>>
where
    C: Chain<Item: Wire, Time: EventTime>,
    G: KeyBy<C::Item>,
    P: Placed,
    F: Gap<G::Value>,
    L: Latecomers<<P::PartitionedChain<C, G> as Chain>::Item, P::Keys<C, G>, C::Time>,
    E: EarlySessions<A::State>,
    A: Combine<G::Value>,
{
    let Described { origin, details } = plan;
    let (stream, keys) = P::partitioned(keyed, origin).into_parts();
    let SessionWindow { gap, late, early, .. } = window;
    let (aggregate, lateness) = (Arc::new(aggregate), early.lateness());
    stream.then_described(origin, details, |prev, op| Sessioning {
        prev,
        op,
        keys,
        gap,
        late,
        early,
        lateness,
        aggregate,
    })
}

/// The chain of sessions that are merged from the parts of several tasks.
type OfParts<C, G, A> = Merging<
    Received<
        SessionPart<
            <G as KeyBy<<C as Chain>::Item>>::Key,
            <A as Aggregate<<G as KeyBy<<C as Chain>::Item>>::Value>>::State,
        >,
        <C as Chain>::Time,
    >,
    <G as KeyBy<<C as Chain>::Item>>::Key,
    <G as KeyBy<<C as Chain>::Item>>::Value,
    A,
>;

/// Adds sessions of records that are not partitioned by key.
fn of_parts<C, G, F, A>(
    gap: F,
    keyed: KeyedStream<C, G, Scattered>,
    plan: Described,
    aggregate: A,
) -> Stream<OfParts<C, G, A>>
where
    C: Chain<Time: EventTime>,
    G: KeyBy<C::Item>,
    F: Gap<G::Value>,
    A: Combine<G::Value>,
{
    let Described { origin, details } = plan;
    let (stream, keys) = keyed.into_parts();
    let aggregate = Arc::new(aggregate);
    let local = Arc::clone(&aggregate);
    let parts = stream.then(Origin { kind: "combine", ..origin }, |prev, op| SessionParts {
        prev,
        op,
        keys,
        gap,
        aggregate: local,
    });
    by_hash::<_, G::Key>(parts, Origin { kind: "repartition", ..origin }).then_described(
        origin,
        details,
        |prev, op| Merging { prev, op, aggregate, types: PhantomData },
    )
}

impl<C, G, P, F, A> Windowing<C, G, P, A> for SessionWindow<F>
where
    C: Chain<Item: Wire, Time: EventTime>,
    G: KeyBy<C::Item>,
    P: Placed,
    F: Gap<G::Value>,
    A: Combine<G::Value>,
{
    type Chain = P::Either<Sessioning<C, G, F, Counted, AtEnd, A>, OfParts<C, G, A>>;

    fn windows(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        P::either(
            keyed,
            (self, plan, aggregate),
            |keyed, (window, plan, aggregate)| of_records(window, keyed, plan, aggregate),
            |keyed, (window, plan, aggregate)| of_parts(window.gap, keyed, plan, aggregate),
        )
    }
}

/// Sessions that need records one by one. The brackets contain generic parameters.
macro_rules! windowing_of_records {
    ([$($generics:tt)*] $late:ty, $early:ty) => {
        impl<C, G, P, F, A, $($generics)*> Windowing<C, G, P, A> for SessionWindow<F, $late, $early>
        where
            C: Chain<Item: Wire, Time: EventTime>,
            G: KeyBy<C::Item>,
            P: Placed,
            F: Gap<G::Value>,
            $late: Latecomers<<P::PartitionedChain<C, G> as Chain>::Item, P::Keys<C, G>, C::Time>,
            $early: EarlySessions<A::State>,
            A: Combine<G::Value>,
        {
            type Chain = Sessioning<P::PartitionedChain<C, G>, P::Keys<C, G>, F, $late, $early, A>;

            fn windows(
                self,
                keyed: KeyedStream<C, G, P>,
                plan: Described,
                aggregate: A,
            ) -> Stream<Self::Chain> {
                of_records(self, keyed, plan, aggregate)
            }
        }
    };
}

windowing_of_records!([K: Data, V: Data, T: EventTime, E: Earliness] Sent<K, V, T>, E);
windowing_of_records!([] Counted, Early);
windowing_of_records!([E: Earliness] Counted, Lenient<E>);

/// How long after a record another one may arrive and still be in its session.
#[diagnostic::on_unimplemented(
    message = "the gap of these sessions cannot be found in values of `{V}`",
    label = "needs a closure from a reference to the value to a `Duration`",
    note = "give the type of its argument: `SessionWindow::with_gap(|value: &…| …)`"
)]
pub trait Gap<V: Record + ?Sized>: Clone + Send + 'static {
    /// The gap in microseconds.
    #[doc(hidden)]
    fn gap(&self, value: &V::Of<'_>) -> i64;
}

/// The same gap after every record.
#[derive(Clone, Copy, Debug)]
pub struct FixedGap {
    micros: i64,
}

impl<V: Record + ?Sized> Gap<V> for FixedGap {
    #[inline(always)]
    fn gap(&self, _: &V::Of<'_>) -> i64 {
        self.micros
    }
}

/// A gap that a closure computes from the record.
pub struct GapOf<F>(Arc<F>);

impl<F> Clone for GapOf<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F> fmt::Debug for GapOf<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GapOf(..)")
    }
}

impl<V, F> Gap<V> for GapOf<F>
where
    V: Record + ?Sized,
    F: for<'a, 'b> Fn(&'b V::Of<'a>) -> Duration + Send + Sync + 'static,
{
    #[inline(always)]
    fn gap(&self, value: &V::Of<'_>) -> i64 {
        micros((self.0)(value))
    }
}

#[cfg(test)]
mod tests;
