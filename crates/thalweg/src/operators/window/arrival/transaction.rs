//! Transactions: windows that are opened and closed by their values.

use super::arriving::{ByArrival, arriving};
use super::key_windows::{Due, Given, KeyWindows, Now, Running};
use crate::clock::nanos;
use crate::data::{Data, Record, Wire};
use crate::operators::aggregates::{Aggregate, Combine};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::operators::window::early::{Counts, Early, EarlyStates, Tick};
use crate::operators::window::event_time::{AtEnd, Earliness};
use crate::operators::window::windowed::{Described, Window, Windowing};
use crate::operators::window::{CountPane, WindowingInOrder};
use crate::plan::Details;
use crate::stream::{Chain, Stream};
use crate::support::keyed_timers::{Clocks, Firing, OwnClock, TimedState, TimerClock, processing};
use crate::time::{Time, Timestamp};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

/// The effect of a value on its window; for [`TransactionWindow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// The window does not change: it stays open, or continues to wait for its commit time.
    Continue,
    /// The window is committed with this value.
    Commit,
    /// The window is committed when this much time has passed; every such value restarts the time. Values that
    /// arrive meanwhile are in the window, and may commit it at once or discard it.
    CommitAfter(Duration),
    /// The window is discarded with this value: it has no result.
    Discard,
}

/// Windows that are opened and closed by their values, for
/// [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all).
///
/// The first value of a key opens a window, and so does the first one after a window was closed. Each value is
/// in the window, and a closure decides its effect: a [`Transaction`]. A window that is not committed when the
/// input ends has no result; one that waits for its commit time is committed then.
///
/// The time of [`CommitAfter`](Transaction::CommitAfter) is event time in a stream with timestamps: the window
/// is committed when the watermark, or a value of the key, is this far beyond the value's timestamp. If
/// timestamps do not decrease, results therefore do not depend on how fast the job runs. In a stream without
/// timestamps, it is the time of the engine's clock. In both cases a value at that time or later opens the next
/// window.
///
/// In a stream with timestamps, the result of a window that a value has committed has the greatest timestamp of
/// its values. A window that time has committed has the last timestamp before the commit time, if that is
/// greater.
///
/// [`early`](Self::early) adds results of windows that are open.
///
/// Records are sent to the tasks that own their keys, and added in the order of arrival, which is that of their
/// stream only if one task sends them all. Memory: an aggregate for each key, and a timer for each window that
/// waits for its commit time. Keys are kept as long as the job runs.
///
/// The closure's parameter needs a type annotation.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::window::{Transaction, TransactionWindow};
///
/// const BUY: i32 = 0;
/// const UNDO: i32 = -1;
///
/// let env = Environment::new();
/// let log = [('a', 3), ('b', 4), ('a', 5), ('b', UNDO), ('a', BUY), ('b', 2)];
/// let carts = TransactionWindow::new(|(_, what): &(char, i32)| match *what {
///     BUY => Transaction::Commit,
///     UNDO => Transaction::Discard,
///     _ => Transaction::Continue,
/// });
/// let bought = env.iter(log).group_by(|(who, _)| *who).window(carts).sum(|(_, what)| *what);
/// let out = bought.collect::<Vec<_>>();
/// env.run()?;
/// let (who, window) = &out.take()?[0];
/// assert_eq!((*who, window.first, window.count, window.value), ('a', 0, 3, 8));
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct TransactionWindow<V: ?Sized, F, E = AtEnd> {
    says: Arc<F>,
    early: E,
    value: PhantomData<fn(&V)>,
}

impl<V: ?Sized, F: Fn(&V) -> Transaction> TransactionWindow<V, F> {
    /// Creates windows from a closure that returns the effect of each value.
    pub fn new(says: F) -> Self {
        Self { says: Arc::new(says), early: AtEnd, value: PhantomData }
    }
}

impl<V: ?Sized, F> TransactionWindow<V, F> {
    /// Emits results also before windows are committed: after a number of records of the window, or at an interval.
    /// Their [`timing`](CountPane::timing) is [`Early`](crate::operators::window::Timing::Early), numbered for each window. The
    /// results of committed windows do not change. A record that commits or discards its window has no early result.
    ///
    /// A window that is discarded, or not committed when the input ends, has no result after its early ones.
    ///
    /// In a stream with timestamps, the timestamp of an early result is the greatest of its records, or the watermark
    /// if that is later. The state of the aggregate is cloned for each early result.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::{Early, Timing, Transaction, TransactionWindow};
    ///
    /// let env = Environment::new();
    /// let orders = TransactionWindow::new(|price: &u32| match *price {
    ///     0 => Transaction::Commit,
    ///     _ => Transaction::Continue,
    /// });
    /// let totals = env.iter([5, 2, 9, 1, 0]).window_all(orders.early(Early::every(2))).sum(|price| *price);
    /// let out = totals.map(|order| (order.timing, order.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timing::Early(1), 7), (Timing::Early(2), 17), (Timing::OnTime, 17)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn early(self, early: Early) -> TransactionWindow<V, F, Early> {
        let Self { says, early: AtEnd, value } = self;
        TransactionWindow { says, early, value }
    }
}

impl<V: ?Sized, F, E: Copy> Clone for TransactionWindow<V, F, E> {
    fn clone(&self) -> Self {
        Self { says: Arc::clone(&self.says), early: self.early, value: PhantomData }
    }
}

impl<V: ?Sized, F, E> fmt::Debug for TransactionWindow<V, F, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TransactionWindow").finish_non_exhaustive()
    }
}

/// A kind of record that a closure can take by reference: every type that is passed by value, and `str` and
/// `[T]`.
pub trait Inspected: Record {
    /// The record, by reference.
    #[doc(hidden)]
    fn inspect<'k>(item: &'k Self::Of<'_>) -> &'k Self;
}

impl<T: 'static> Inspected for T {
    #[inline(always)]
    fn inspect(item: &T) -> &T {
        item
    }
}

impl Inspected for str {
    #[inline(always)]
    fn inspect<'k>(item: &'k &str) -> &'k str {
        item
    }
}

impl<T: 'static> Inspected for [T] {
    #[inline(always)]
    fn inspect<'k>(item: &'k &[T]) -> &'k [T] {
        item
    }
}

impl<T, V, F, E> Window<T> for TransactionWindow<V, F, E>
where
    T: Time,
    V: ?Sized + 'static,
    F: Send + Sync + 'static,
    E: Earliness,
{
    type Pane<O: Data> = CountPane<O>;

    fn details(&self) -> Details {
        self.early.details(Details::of("windows", "transactions"))
    }

    fn fault(&self) -> Option<String> {
        self.early.early().and_then(Early::fault)
    }
}

impl<C, G, P, A, V, F, E> Windowing<C, G, P, A> for TransactionWindow<V, F, E>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: Combine<V>,
    V: Inspected + ?Sized,
    F: Fn(&V) -> Transaction + Send + Sync + 'static,
    E: EarlyStates<A::State>,
{
    type Chain = ByArrival<C, G, P, Transacted<V, A, F, E>>;

    fn windows(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        arriving(keyed, plan, Transacted { window: self, aggregate: Arc::new(aggregate) })
    }
}

impl<C, G, P, A, V, F, E> WindowingInOrder<C, G, P, A> for TransactionWindow<V, F, E>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: Aggregate<V>,
    V: Inspected + ?Sized,
    F: Fn(&V) -> Transaction + Send + Sync + 'static,
    E: EarlyStates<A::State>,
{
    type Chain = ByArrival<C, G, P, Transacted<V, A, F, E>>;

    fn windows_in_order(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        arriving(keyed, plan, Transacted { window: self, aggregate: Arc::new(aggregate) })
    }
}

/// Transactions with any aggregate.
pub struct Transacted<V: ?Sized, A, F, E> {
    window: TransactionWindow<V, F, E>,
    aggregate: Arc<A>,
}

impl<V: ?Sized, A, F, E: Copy> Clone for Transacted<V, A, F, E> {
    fn clone(&self) -> Self {
        Self { window: self.window.clone(), aggregate: Arc::clone(&self.aggregate) }
    }
}

/// The state of a key.
#[derive(Data)]
pub struct Open<S, T, C: Counts> {
    /// The number of values that have arrived.
    arrived: u64,
    open: Option<Running<S, T>>,
    /// The commit time of the open window.
    commit: Option<Due>,
    /// For early results: the counts of the open window, and when they are due.
    counts: C,
    tick: C::Tick,
    /// The bytes that the open window owns on the heap, as last estimated.
    heap: usize,
}

impl<S: Data, T: Time, C: Counts> TimedState for Open<S, T, C> {
    type Clocks = C::Clocks<OwnClock<T>>;
    type Owned = ();

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<Due> {
        // With early results there are two clocks.
        let commit = self.commit.filter(|_| clock == own_clock::<T>());
        match (commit, self.tick.due(clock)) {
            (Some(commit), Some(tick)) => Some(commit.min(tick)),
            (commit, tick) => commit.or(tick),
        }
    }

    // The count of arrivals is kept as long as the job runs.
    #[inline(always)]
    fn is_spent(&self) -> bool {
        false
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        self.heap
    }
}

/// The clock of commit times.
#[inline(always)]
fn own_clock<T: Time>() -> TimerClock {
    <OwnClock<T> as Clocks>::clock(0)
}

impl<V: ?Sized, A, F, E> Transacted<V, A, F, E> {
    /// Commits the window at its commit time.
    fn commit_at<T>(
        &self,
        known: &mut Open<A::State, T, E::Counts>,
        at: Due,
    ) -> Option<Given<A::Output, T>>
    where
        V: Record,
        T: Time,
        A: Aggregate<V>,
        E: EarlyStates<A::State>,
    {
        let (pane, time) = self.commit(known)?;
        // Results after the watermark must not be older than it.
        let last = T::happened(Timestamp::from_micros(at.saturating_sub(1)));
        Some((pane, time.max(last)))
    }

    /// Commits the open window.
    fn commit<T>(&self, known: &mut Open<A::State, T, E::Counts>) -> Option<Given<A::Output, T>>
    where
        V: Record,
        T: Time,
        A: Aggregate<V>,
        E: EarlyStates<A::State>,
    {
        let open = self.close(known)?;
        let (count, first) = (open.values(), known.arrived - open.values());
        let (state, time) = open.into_parts();
        Some((CountPane::on_time(first, count, self.aggregate.finish(state)), time))
    }

    /// Closes the open window.
    fn close<S, T>(&self, known: &mut Open<S, T, E::Counts>) -> Option<Running<S, T>>
    where
        E: EarlyStates<S>,
    {
        (known.commit, known.heap) = (None, 0);
        known.counts = self.window.early.start();
        known.tick.set(i64::MAX);
        known.open.take()
    }

    /// The result so far of the open window, if it has `enough` records that were in none.
    fn so_far<T>(
        &self,
        known: &mut Open<A::State, T, E::Counts>,
        enough: u64,
        now: &Now<'_>,
    ) -> Option<Given<A::Output, T>>
    where
        V: Record,
        T: Time,
        A: Aggregate<V>,
        E: EarlyStates<A::State>,
    {
        let open = known.open.as_ref().filter(|_| known.counts.fresh() >= enough)?;
        let first = known.arrived - open.values();
        open.so_far::<V, A, E>(&self.aggregate, first, known.counts.give(), now)
    }
}

/// The end of a span that begins with a record.
fn after<T: Time>(span: Duration, time: T, now: &Now<'_>) -> Due {
    match time.timestamp() {
        Some(at) => at.saturating_add(span).as_micros(),
        None => now.of::<T>().unwrap_or(0).saturating_add(processing(nanos(span))),
    }
}

impl<V, T, A, F, E> KeyWindows<V, T> for Transacted<V, A, F, E>
where
    V: Inspected + ?Sized,
    T: Time,
    A: Aggregate<V>,
    F: Fn(&V) -> Transaction + Send + Sync + 'static,
    E: EarlyStates<A::State>,
{
    type State = Open<A::State, T, E::Counts>;
    type Output = A::Output;

    const EARLY: bool = E::ANY;

    fn early(&self) -> Option<Early> {
        self.window.early.early()
    }

    fn start(&self) -> Self::State {
        let (counts, tick) = (self.window.early.start(), Default::default());
        Open { arrived: 0, open: None, commit: None, counts, tick, heap: 0 }
    }

    fn before(
        &self,
        known: &mut Self::State,
        time: T,
        now: &Now<'_>,
    ) -> Option<Given<A::Output, T>> {
        // A commit time beyond the last timestamp waits for the end of the input.
        let at = known.commit.filter(|at| *at < Due::MAX)?;
        let now = time.timestamp().map(Timestamp::as_micros).or_else(|| now.of::<T>());
        now.is_some_and(|now| now >= at).then(|| self.commit_at(known, at)).flatten()
    }

    fn take(
        &self,
        known: &mut Self::State,
        value: V::Of<'_>,
        time: T,
        now: &Now<'_>,
    ) -> Option<Given<A::Output, T>> {
        let says = (self.window.says)(V::inspect(&value));
        known.arrived += 1;
        let open = known.open.get_or_insert_with(|| Running::new(self.aggregate.start(), time));
        self.aggregate.update(&mut open.state, value);
        known.heap = open.took(time).unwrap_or(known.heap);
        match says {
            Transaction::Continue => None,
            Transaction::Commit => self.commit(known),
            Transaction::Discard => {
                drop(self.close(known));
                None
            }
            Transaction::CommitAfter(span) => {
                known.commit = Some(after(span, time, now));
                None
            }
        }
    }

    fn after(&self, known: &mut Self::State, now: &Now<'_>, give: impl FnMut(Given<A::Output, T>)) {
        if known.open.is_none() {
            return;
        }
        let Some(records) = now.pace.records() else {
            return known.tick.set(known.tick.get().min(now.pace.next_tick()));
        };
        known.counts.took();
        self.so_far(known, records, now).into_iter().for_each(give);
    }

    fn wake(
        &self,
        known: &mut Self::State,
        firing: Firing,
        now: &Now<'_>,
        give: impl FnMut(Given<A::Output, T>),
    ) {
        let commit = known.commit.filter(|at| firing.clock == own_clock::<T>() && *at <= firing.at);
        if let Some(at) = commit {
            return self.commit_at(known, at).into_iter().for_each(give);
        }
        known.tick.set(i64::MAX);
        // At the end the tick has not come.
        if !firing.ended {
            self.so_far(known, 0, now).into_iter().for_each(give);
        }
    }

    fn at_end(&self, _: &mut Self::State) -> Option<Given<A::Output, T>> {
        None
    }
}
