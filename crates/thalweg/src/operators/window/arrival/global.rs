//! One window of all arrivals, at the end of the input.

use super::spanned::by_spans;
use super::spans::Spans;
use crate::data::Data;
use crate::operators::window::CountPane;
use crate::operators::window::early::Early;
use crate::operators::window::event_time::{AtEnd, Earliness};
use crate::operators::window::windowed::Window;
use crate::plan::Details;
use crate::time::Time;

/// All records of a key, for [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all).
///
/// The result is emitted when the input ends; a job whose input does not end is refused at its start, unless there are
/// [`early`](Self::early) results.
///
/// Prefer the methods of keyed streams, such as [`KeyedStream::sum`](crate::KeyedStream::sum), for aggregates
/// that combine: they send less and spill to disk if memory is short. This window is for code that is generic
/// over windows, and for results with the number of their records and, in a stream with timestamps, the greatest
/// of their timestamps. Records are sent to the tasks that own their keys, and added in the order of arrival,
/// which is that of their stream only if one task sends them all. Memory: an aggregate for each key.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::window::GlobalWindow;
///
/// let env = Environment::new();
/// let words = env.iter(["to", "be", "or", "not"]).map(str::to_owned).group_by(|word| word.len());
/// let out = words.window(GlobalWindow::new()).to_vec().collect::<Vec<_>>();
/// env.run()?;
/// let mut out = out.take()?;
/// out.sort();
/// assert_eq!(out[0].1.value, ["to", "be", "or"]);
/// assert_eq!((out[1].0, out[1].1.count), (3, 1));
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GlobalWindow<E = AtEnd> {
    early: E,
}

impl GlobalWindow {
    /// Creates one window of all records.
    pub fn new() -> Self {
        Self { early: AtEnd }
    }

    /// Emits results also before the input ends: after a number of records of a key, or at an interval. Their
    /// [`timing`](CountPane::timing) is [`Early`](crate::operators::window::Timing::Early), numbered for each key. The results at the end
    /// do not change. The input then need not end.
    ///
    /// In a stream with timestamps, the timestamp of an early result is the greatest of its records, or the watermark
    /// if that is later. The state of the aggregate is cloned for each early result.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::{Early, GlobalWindow, Timing};
    ///
    /// let env = Environment::new();
    /// let all = GlobalWindow::new().early(Early::every(2));
    /// let highest = env.iter([3, 7, 5, 9, 1]).window_all(all).max(|n| *n);
    /// let out = highest.map(|so_far| (so_far.timing, so_far.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(Timing::Early(1), 7), (Timing::Early(2), 9), (Timing::OnTime, 9)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn early(self, early: Early) -> GlobalWindow<Early> {
        GlobalWindow { early }
    }
}

impl Default for GlobalWindow {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Time, E: Earliness> Window<T> for GlobalWindow<E> {
    type Pane<V: Data> = CountPane<V>;

    fn details(&self) -> Details {
        self.early.details(Details::of("windows", "global"))
    }

    fn fault(&self) -> Option<String> {
        self.early.early().and_then(Early::fault)
    }

    fn needs_end(&self) -> Option<&'static str> {
        let is_early = self.early.early().is_some();
        (!is_early).then_some("a global window is complete only at the end, unless it has results before that by `early(…)`")
    }
}

by_spans!(GlobalWindow<E>);

impl<E> GlobalWindow<E> {
    fn spans(&self) -> Spans {
        Spans::new(u64::MAX, u64::MAX).partial(true)
    }

    fn earliness(&self) -> E
    where
        E: Copy,
    {
        self.early
    }
}
