//! Custom windows: kinds of windows that a program defines itself.
//!
//! A handler assigns each value to windows, and declares windows complete. It knows windows only by their
//! bounds, whose type it defines. What is computed for them is chosen afterwards, as for every other kind, and
//! independent of the handler. The handler's requests are queued (`context`) and executed after it has returned
//! (`running`).

mod context;
mod running;
mod small_map;

use super::Inspected;
use super::in_order::WindowingInOrder;
use super::windowed::{Described, Window, Windowing};
use crate::data::{Data, Record, Wire};
use crate::operators::aggregates::{AggregateRef, Combine};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
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
/// The job fails if its keys and windows exceed the memory budget.
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
pub struct CustomWindow<V: ?Sized, H> {
    handler: Arc<H>,
    value: PhantomData<fn(&V)>,
}

impl<V: ?Sized, H> CustomWindow<V, H> {
    /// Creates windows from a handler, which is shared by all keys and tasks.
    pub fn new(handler: H) -> Self {
        Self { handler: Arc::new(handler), value: PhantomData }
    }
}

impl<V: ?Sized, H> Clone for CustomWindow<V, H> {
    fn clone(&self) -> Self {
        Self { handler: Arc::clone(&self.handler), value: PhantomData }
    }
}

impl<V: ?Sized, H> fmt::Debug for CustomWindow<V, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CustomWindow").finish_non_exhaustive()
    }
}

/// The result of a custom window.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Data)]
pub struct CustomPane<B, T> {
    /// The bounds of the window.
    pub bounds: B,
    /// The result.
    pub value: T,
}

impl<T, V, H> Window<T> for CustomWindow<V, H>
where
    T: Time,
    V: ?Sized + 'static,
    H: MakeWindows<V, T>,
{
    type Pane<O: Data> = CustomPane<H::Bounds, O>;

    fn describe(&self) -> String {
        let name = std::any::type_name::<H>();
        // Without its path and type parameters.
        let name = name.split('<').next().unwrap_or(name);
        name.rsplit("::").next().unwrap_or(name).to_owned()
    }
}

impl<C, G, P, A, V, H> Windowing<C, G, P, A> for CustomWindow<V, H>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: Combine<V> + AggregateRef<V>,
    V: Inspected + ?Sized,
    for<'a> <V as Record>::Of<'a>: Clone,
    H: MakeWindows<V, C::Time>,
{
    type Chain = RunningWindows<P::Together<C, G>, P::Keys<C, G>, H, A, A::State>;

    fn windows(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        running::run_windows(keyed, plan, self.handler, aggregate, Some(A::combine))
    }
}

impl<C, G, P, A, V, H> WindowingInOrder<C, G, P, A> for CustomWindow<V, H>
where
    C: Chain<Item: Wire>,
    G: KeyBy<C::Item, Value = V>,
    P: Placed,
    A: AggregateRef<V>,
    V: Inspected + ?Sized,
    for<'a> <V as Record>::Of<'a>: Clone,
    H: MakeWindows<V, C::Time>,
{
    type Chain = RunningWindows<P::Together<C, G>, P::Keys<C, G>, H, A, A::State>;

    fn windows_in_order(
        self,
        keyed: KeyedStream<C, G, P>,
        plan: Described,
        aggregate: A,
    ) -> Stream<Self::Chain> {
        running::run_windows(keyed, plan, self.handler, aggregate, None)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
