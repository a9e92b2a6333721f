//! Transactions: windows that are opened and closed by their values.

use super::arriving::{ByArrival, arriving};
use super::key_windows::{Due, Given, KeyWindows, Now, Running};
use crate::clock::nanos;
use crate::data::{Data, Record, Wire};
use crate::operators::aggregates::{Aggregate, Combine};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::operators::window::windowed::{Described, Window, Windowing};
use crate::operators::window::{CountPane, WindowingInOrder};
use crate::stream::{Chain, Stream};
use crate::support::keyed_timers::{OwnClock, TimedState, TimerClock, processing};
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
pub struct TransactionWindow<V: ?Sized, F> {
    says: Arc<F>,
    value: PhantomData<fn(&V)>,
}

impl<V: ?Sized, F: Fn(&V) -> Transaction> TransactionWindow<V, F> {
    /// Creates windows from a closure that returns the effect of each value.
    pub fn new(says: F) -> Self {
        Self { says: Arc::new(says), value: PhantomData }
    }
}

impl<V: ?Sized, F> Clone for TransactionWindow<V, F> {
    fn clone(&self) -> Self {
        Self { says: Arc::clone(&self.says), value: PhantomData }
    }
}

impl<V: ?Sized, F> fmt::Debug for TransactionWindow<V, F> {
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

impl<T, V, F> Window<T> for TransactionWindow<V, F>
where
    T: Time,
    V: ?Sized + 'static,
    F: Send + Sync + 'static,
{
    type Pane<O: Data> = CountPane<O>;

    fn describe(&self) -> String {
        "transactions".to_owned()
    }
}

impl<C, G, P, A, V, F> Windowing<C, G, P, A> for TransactionWindow<V, F>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: Combine<V>,
    V: Inspected + ?Sized,
    F: Fn(&V) -> Transaction + Send + Sync + 'static,
{
    type Chain = ByArrival<C, G, P, Transacted<V, A, F>>;

    fn windows(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        arriving(keyed, plan, Transacted { window: self, aggregate: Arc::new(aggregate) })
    }
}

impl<C, G, P, A, V, F> WindowingInOrder<C, G, P, A> for TransactionWindow<V, F>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: Aggregate<V>,
    V: Inspected + ?Sized,
    F: Fn(&V) -> Transaction + Send + Sync + 'static,
{
    type Chain = ByArrival<C, G, P, Transacted<V, A, F>>;

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
pub struct Transacted<V: ?Sized, A, F> {
    window: TransactionWindow<V, F>,
    aggregate: Arc<A>,
}

impl<V: ?Sized, A, F> Clone for Transacted<V, A, F> {
    fn clone(&self) -> Self {
        Self { window: self.window.clone(), aggregate: Arc::clone(&self.aggregate) }
    }
}

/// The state of a key.
pub struct Open<S, T> {
    /// The number of values that have arrived.
    arrived: u64,
    open: Option<Running<S, T>>,
    /// The commit time of the open window.
    commit: Option<Due>,
    /// The bytes that the open window owns on the heap, as of when it was weighed.
    heap: usize,
}

impl<S: Data, T: Time> TimedState for Open<S, T> {
    type Clocks = OwnClock<T>;
    type Owned = ();

    #[inline(always)]
    fn due(&self, _: TimerClock) -> Option<Due> {
        self.commit
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

impl<V: ?Sized, A, F> Transacted<V, A, F> {
    /// Commits the window at its commit time.
    fn commit_at<T>(&self, known: &mut Open<A::State, T>, at: Due) -> Option<Given<A::Output, T>>
    where
        V: Record,
        T: Time,
        A: Aggregate<V>,
    {
        let (pane, time) = self.commit(known)?;
        // Results after the watermark must not be older than it.
        let last = T::happened(Timestamp::from_micros(at.saturating_sub(1)));
        Some((pane, time.max(last)))
    }

    /// Commits the open window.
    fn commit<T>(&self, known: &mut Open<A::State, T>) -> Option<Given<A::Output, T>>
    where
        V: Record,
        T: Time,
        A: Aggregate<V>,
    {
        (known.commit, known.heap) = (None, 0);
        let open = known.open.take()?;
        let (count, first) = (open.values(), known.arrived - open.values());
        let (state, time) = open.into_parts();
        Some((CountPane { first, count, value: self.aggregate.finish(state) }, time))
    }
}

/// The end of a span that begins with a record.
fn after<T: Time>(span: Duration, time: T, now: &Now<'_>) -> Due {
    match time.timestamp() {
        Some(at) => at.saturating_add(span).as_micros(),
        None => now.of::<T>().unwrap_or(0).saturating_add(processing(nanos(span))),
    }
}

impl<V, T, A, F> KeyWindows<V, T> for Transacted<V, A, F>
where
    V: Inspected + ?Sized,
    T: Time,
    A: Aggregate<V>,
    F: Fn(&V) -> Transaction + Send + Sync + 'static,
{
    type State = Open<A::State, T>;
    type Output = A::Output;

    fn start(&self) -> Self::State {
        Open { arrived: 0, open: None, commit: None, heap: 0 }
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
                (known.commit, known.open, known.heap) = (None, None, 0);
                None
            }
            Transaction::CommitAfter(span) => {
                known.commit = Some(after(span, time, now));
                None
            }
        }
    }

    fn wake(&self, known: &mut Self::State) -> Option<Given<A::Output, T>> {
        let at = known.commit?;
        self.commit_at(known, at)
    }

    fn at_end(&self, _: &mut Self::State) -> Option<Given<A::Output, T>> {
        None
    }
}
