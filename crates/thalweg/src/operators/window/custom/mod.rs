//! Custom windows: kinds of windows that a program defines itself.
//!
//! A handler assigns each value to windows, and declares windows complete. It knows windows only by their
//! bounds, whose type it defines. What is computed for them is chosen afterwards, as for every other kind, and
//! independent of the handler. The handler's requests are queued (`context`) and executed after it has returned
//! (`running`).

mod context;
mod running;
mod small_map;

use super::early::{Early, EarlyStates};
use super::event_time::{AtEnd, Earliness};
use super::in_order::WindowingInOrder;
use super::windowed::{Described, Window, Windowing};
use super::{Inspected, Timing};
use crate::data::{Data, Record, Wire};
use crate::operators::aggregates::{AggregateRef, Combine, short_type_name};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::plan::Details;
use crate::stream::{Chain, Stream};
use crate::time::{Time, Timestamp};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

pub use context::WindowContext;
pub use running::RunningWindows;

/// Defines a custom kind of window; for [`CustomWindow`].
///
/// `V` is the type of the values, and `T` the type of their time, by default [`Timestamp`]. A handler that does
/// not read values can be implemented for every `V`. One that does not read the time can be implemented for
/// every `T: Time`, and then also works on streams without timestamps.
///
/// State must be kept in [`State`](Self::State), of which there is one for each key, and nowhere else.
///
/// # Examples
///
/// Windows that open when a reading exceeds a limit, and close when one no longer does:
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::window::{CustomWindow, MakeWindows, WindowContext};
/// use thalweg::time::Time;
///
/// struct Above(f64);
///
/// impl<T: Time> MakeWindows<f64, T> for Above {
///     /// The number of windows before this one.
///     type Bounds = u32;
///     type State = u32;
///
///     fn start(&self) -> u32 {
///         0
///     }
///
///     fn on_value(&self, number: &mut u32, reading: &f64, _: T, cx: &mut WindowContext<'_, u32>) {
///         if *reading > self.0 {
///             cx.add(*number);
///         } else {
///             // Has no effect if no window is open.
///             cx.fire(*number);
///             *number += 1;
///         }
///     }
/// }
///
/// let env = Environment::new();
/// let readings = env.iter([1.0, 9.0, 8.0, 2.0, 1.0, 7.0]);
/// let peaks = readings.window_all(CustomWindow::new(Above(5.0))).max(|reading| *reading);
/// let out = peaks.map(|peak| peak.value).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [9.0, 7.0]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not make windows of values of `{V}` that carry `{T}` as their time",
    label = "needs `impl MakeWindows<{V}, {T}>`",
    note = "implement `thalweg::operators::window::MakeWindows` for these values",
    note = "where the time is `()`, the stream has no timestamps: `assign_timestamps` gives it some, and an \
            `impl<T: Time> MakeWindows<…, T>` needs none"
)]
pub trait MakeWindows<V: ?Sized, T: Time = Timestamp>: Send + Sync + 'static {
    /// Identifies a window among those of its key, and is part of its result: a beginning and an end, a number,
    /// a name. The windows of a key are kept in this order.
    type Bounds: Data + Ord + Clone;
    /// The state of a key beside its windows; `()` for windows that follow from a value's time.
    type State: Data;

    /// Returns the state of a new key.
    fn start(&self) -> Self::State;

    /// Called for each value, with its time. The value is added to no window unless requested here.
    fn on_value(
        &self,
        state: &mut Self::State,
        value: &V,
        at: T,
        cx: &mut WindowContext<'_, Self::Bounds>,
    );

    /// Called when a timer that was [set](WindowContext::set_timer) for this key fires. It is then no longer
    /// set.
    fn on_timer(
        &self,
        state: &mut Self::State,
        at: Timestamp,
        cx: &mut WindowContext<'_, Self::Bounds>,
    ) {
        let _ = (state, at, cx);
    }

    /// Called when the input has ended and all timers have fired. By default, emits the windows that are still
    /// open.
    fn on_end(&self, state: &mut Self::State, cx: &mut WindowContext<'_, Self::Bounds>) {
        let _ = state;
        cx.fire_all();
    }
}

/// Windows that a handler of the program defines, for [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all): see [`MakeWindows`].
///
/// Prefer a built-in kind if one fits: [`EventTimeWindow`](super::EventTimeWindow) shares slices between
/// overlapping windows and aggregates before records are sent, and
/// [`TransactionWindow`](super::TransactionWindow) needs only a closure.
///
/// Records are sent to the tasks that own their keys, and added in the order of arrival, which is that of their
/// stream only if one task sends them all. So all aggregates of other windows of arrivals are available: those
/// that combine, and those that fold values in order. A record costs a look-up of its key, and a look-up and a
/// clone for each window that it is added to; the clone is free for values that are `Copy` or borrowed. Memory:
/// for each key its state, its timers, and its open windows with an aggregate each. A key without windows and
/// timers is dropped if its state has no size, such as `()`, or if the handler [requests
/// it](WindowContext::forget); otherwise it is kept as long as the job runs.
///
/// The results are [`CustomPane`]s. In a stream with timestamps, the timestamp of a result is the greatest of
/// the window's values. If an end or a timer has completed the window, it is at least the last timestamp before
/// that time. It is never behind the watermark.
///
/// # Errors
///
/// Keys and windows beyond the memory budget go to disk. The job fails if those of a single key exceed it.
///
/// # Examples
///
/// Accounting periods, which are of uneven lengths:
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::time::Watermarks;
/// use thalweg::operators::window::{CustomWindow, MakeWindows, WindowContext};
/// use thalweg::time::Timestamp;
///
/// /// The days on which periods begin, in order.
/// struct Periods(Vec<i64>);
///
/// fn day(number: i64) -> Timestamp {
///     Timestamp::from_secs(number * 86_400)
/// }
///
/// impl<V: ?Sized> MakeWindows<V> for Periods {
///     /// The number of the period.
///     type Bounds = usize;
///     type State = ();
///
///     fn start(&self) {}
///
///     fn on_value(&self, _: &mut (), _: &V, at: Timestamp, cx: &mut WindowContext<'_, usize>) {
///         // The first period that begins later.
///         let next = self.0.partition_point(|begins| day(*begins) <= at);
///         match (next.checked_sub(1), self.0.get(next)) {
///             (Some(period), Some(end)) => cx.add_until(period, day(*end)),
///             // Before the first period or after the last: in no window.
///             _ => {}
///         }
///     }
/// }
///
/// let env = Environment::new();
/// let sales = env.iter([(1, 10), (29, 5), (33, 7), (34, 1), (65, 2)]);
/// let periods = CustomWindow::new(Periods(vec![0, 28, 35, 63, 91]));
/// let totals = sales
///     .assign_timestamps(|sale| day(sale.0), Watermarks::monotonous())
///     .window_all(periods)
///     .sum(|sale| sale.1);
/// let out = totals.map(|total| (total.bounds, total.value)).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [(0, 10), (1, 13), (3, 2)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
pub struct CustomWindow<V: ?Sized, H, E = AtEnd> {
    handler: Arc<H>,
    early: E,
    value: PhantomData<fn(&V)>,
}

impl<V: ?Sized, H> CustomWindow<V, H> {
    /// Creates windows from a handler, which is shared by all keys and tasks.
    pub fn new(handler: H) -> Self {
        Self { handler: Arc::new(handler), early: AtEnd, value: PhantomData }
    }

    /// Emits results also before windows fire: after a number of records of the window, or at an interval. Their
    /// [`timing`](CustomPane::timing) is [`Early`](super::Timing::Early), numbered for each window. The handler is not
    /// called for them, and the results of windows that fire do not change. A call of the handler that adds a value
    /// to a window and fires it has no early result of that window.
    ///
    /// A window into which another one is [merged](WindowContext::merge) replaces the results of both, and its results
    /// continue from the higher number. [`Early::every`] emits a result when the window contains that many records
    /// that were in no result of it, or of those that were merged into it. A window that is discarded has no result
    /// after its early ones.
    ///
    /// In a stream with timestamps, the timestamp of an early result is the greatest of its records, or the watermark
    /// if that is later. The state of the aggregate is cloned for each early result.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::{CustomWindow, Early, MakeWindows, Timing, WindowContext};
    /// use thalweg::time::Time;
    ///
    /// /// Windows of readings of the same hundred.
    /// struct Hundreds;
    ///
    /// impl<T: Time> MakeWindows<u32, T> for Hundreds {
    ///     type Bounds = u32;
    ///     type State = ();
    ///
    ///     fn start(&self) {}
    ///
    ///     fn on_value(&self, _: &mut (), reading: &u32, _: T, cx: &mut WindowContext<'_, u32>) {
    ///         cx.add(reading / 100);
    ///     }
    /// }
    ///
    /// let env = Environment::new();
    /// let hundreds = CustomWindow::new(Hundreds).early(Early::every(2));
    /// let counts = env.iter([101, 202, 103, 104]).window_all(hundreds).count();
    /// let out = counts.map(|pane| (pane.bounds, pane.timing, pane.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// let last = Timing::OnTime;
    /// assert_eq!(out.take()?, [(1, Timing::Early(1), 2), (1, last, 3), (2, last, 1)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn early(self, early: Early) -> CustomWindow<V, H, Early> {
        let Self { handler, early: AtEnd, value } = self;
        CustomWindow { handler, early, value }
    }
}

impl<V: ?Sized, H, E: Copy> Clone for CustomWindow<V, H, E> {
    fn clone(&self) -> Self {
        Self { handler: Arc::clone(&self.handler), early: self.early, value: PhantomData }
    }
}

impl<V: ?Sized, H, E> fmt::Debug for CustomWindow<V, H, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomWindow").finish_non_exhaustive()
    }
}

/// The result of a custom window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct CustomPane<B, T> {
    /// The bounds of the window.
    pub bounds: B,
    /// Whether the window has fired, or the result is an early one.
    pub timing: Timing,
    /// The result.
    pub value: T,
}

impl<B, T> CustomPane<B, T> {
    /// Creates the result of a window that has fired.
    pub fn on_time(bounds: B, value: T) -> Self {
        Self { bounds, timing: Timing::OnTime, value }
    }
}

impl<T, V, H, E> Window<T> for CustomWindow<V, H, E>
where
    T: Time,
    V: ?Sized + 'static,
    H: MakeWindows<V, T>,
    E: Earliness,
{
    type Pane<O: Data> = CustomPane<H::Bounds, O>;

    fn details(&self) -> Details {
        self.early.details(Details::of("windows", short_type_name::<H>()))
    }

    fn fault(&self) -> Option<String> {
        self.early.early().and_then(Early::fault)
    }
}

impl<C, G, P, A, V, H, E> Windowing<C, G, P, A> for CustomWindow<V, H, E>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: Combine<V> + AggregateRef<V>,
    V: Inspected + ?Sized,
    for<'a> <V as Record>::Of<'a>: Clone,
    H: MakeWindows<V, C::Time>,
    E: EarlyStates<A::State>,
{
    type Chain = RunningWindows<P::PartitionedChain<C, G>, P::Keys<C, G>, H, A, A::State, E>;

    fn windows(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        running::run_windows(keyed, plan, self, aggregate, Some(A::combine))
    }
}

impl<C, G, P, A, V, H, E> WindowingInOrder<C, G, P, A> for CustomWindow<V, H, E>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: AggregateRef<V>,
    V: Inspected + ?Sized,
    for<'a> <V as Record>::Of<'a>: Clone,
    H: MakeWindows<V, C::Time>,
    E: EarlyStates<A::State>,
{
    type Chain = RunningWindows<P::PartitionedChain<C, G>, P::Keys<C, G>, H, A, A::State, E>;

    fn windows_in_order(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        running::run_windows(keyed, plan, self, aggregate, None)
    }
}

#[cfg(test)]
mod tests;
