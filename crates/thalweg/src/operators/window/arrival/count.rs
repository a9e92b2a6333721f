//! Windows of a number of arrivals.

use super::spanned::by_spans;
use super::spans::Spans;
use crate::data::Data;
use crate::operators::window::CountPane;
use crate::operators::window::early::Early;
use crate::operators::window::event_time::{AtEnd, Earliness};
use crate::operators::window::windowed::Window;
use crate::plan::Details;
use crate::time::Time;

/// Windows of a number of records of a key, for [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all).
///
/// With the records of a key numbered from 0 as they arrive, window `k` contains those from `k * slide` to `k *
/// slide + size - 1`. Its result is emitted with its last record. Windows that are not full when the input ends
/// have no result, unless [`keep_partial`](Self::keep_partial) is set. [`early`](Self::early) adds results of windows
/// that are not full.
///
/// Records are sent to the tasks that own their keys. Their order of arrival is that of their stream if one task
/// sends them all. If several tasks do, only the order of each task is preserved.
///
/// For aggregates that combine (`count`, `sum`, `max`, …), the cost of a record does not depend on how much
/// windows overlap. Others (`fold`, `to_vec`) add each value once for every window that it is in. Memory: for
/// each key an aggregate. If windows overlap, one for every slice of the longest, which is two per slide, or all
/// its values if the aggregate does not combine. Keys are kept as long as the job runs, on disk where they
/// exceed the memory budget; the job fails if what is kept of a single key does.
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::window::CountWindow;
///
/// let env = Environment::new();
/// let prices = env.iter([('a', 3), ('b', 9), ('a', 5), ('a', 4), ('a', 8)]);
/// let windows = prices.group_by(|price| price.0).window(CountWindow::sliding(3, 1));
/// let out = windows.max(|price| price.1).collect::<Vec<_>>();
/// env.run()?;
/// let found: Vec<_> = out.take()?.into_iter().map(|(key, w)| (key, w.first, w.value)).collect();
/// assert_eq!(found, [('a', 0, 5), ('a', 1, 8)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CountWindow<E = AtEnd> {
    size: u64,
    slide: u64,
    partial: bool,
    early: E,
}

impl CountWindow {
    /// Windows of `size` records that follow one another without overlap.
    ///
    /// A size of zero is refused at the job's start.
    pub fn tumbling(size: u64) -> Self {
        Self::sliding(size, size)
    }

    /// Windows of `size` records, one of which begins every `slide`. With a slide greater than the size, the
    /// records between two windows are in no window.
    ///
    /// A size or a slide of zero is refused at the job's start.
    pub fn sliding(size: u64, slide: u64) -> Self {
        Self { size, slide, partial: false, early: AtEnd }
    }

    /// Emits results also before windows are full: after a number of records of the window, or at an interval. Their
    /// [`timing`](CountPane::timing) is [`Early`](crate::operators::window::Timing::Early), numbered for each key and
    /// window. The results of full windows do not change, and the record that fills a window has no early result in it.
    ///
    /// A window that is not full when the input ends has no result after its early ones, unless
    /// [`keep_partial`](Self::keep_partial) is set.
    ///
    /// In a stream with timestamps, the timestamp of an early result is the greatest of its records, or the watermark
    /// if that is later.
    ///
    /// With [`Early::every`], a record costs a step for each window of its key that is open. Where windows overlap, a
    /// record or tick with early results costs one combination for each slice of the open windows, which are kept
    /// a second time; or, if the aggregate does not combine, one addition for each value of each result. A size of
    /// more than 1,048,576 slides is refused at the job's start.
    ///
    /// Slices are combined in an order of their own, so a sum that fits its type may fail the job because a part of it
    /// does not.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::{CountWindow, Early, Timing};
    ///
    /// let env = Environment::new();
    /// let fives = CountWindow::tumbling(5).early(Early::every(2));
    /// let sums = env.iter(1..=8).window_all(fives).sum(|n| *n);
    /// let out = sums.map(|five| (five.first, five.timing, five.value)).collect::<Vec<_>>();
    /// env.run()?;
    /// let (one, two) = (Timing::Early(1), Timing::Early(2));
    /// assert_eq!(out.take()?, [(0, one, 3), (0, two, 10), (0, Timing::OnTime, 15), (5, one, 13)]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn early(self, early: Early) -> CountWindow<Early> {
        let Self { size, slide, partial, early: AtEnd } = self;
        CountWindow { size, slide, partial, early }
    }
}

impl<E> CountWindow<E> {
    /// Emits results also for windows that are not full when the input ends, from the records that they contain.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::window::{CountPane, CountWindow};
    ///
    /// let env = Environment::new();
    /// let letters = env.iter(["a", "b", "c", "d", "e"]).map(str::to_owned);
    /// let pairs = letters.window_all(CountWindow::tumbling(2).keep_partial());
    /// let out = pairs.fold(String::new(), |text, more| text.push_str(&more)).collect::<Vec<_>>();
    /// env.run()?;
    /// let pane = |first, count, value: &str| CountPane::on_time(first, count, value.to_owned());
    /// assert_eq!(out.take()?, [pane(0, 2, "ab"), pane(2, 2, "cd"), pane(4, 1, "e")]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn keep_partial(mut self) -> Self {
        self.partial = true;
        self
    }
}

impl<T: Time, E: Earliness> Window<T> for CountWindow<E> {
    type Pane<V: Data> = CountPane<V>;

    fn details(&self) -> Details {
        let windows = if self.size == self.slide {
            Details::of("windows", "tumbling").with("size", self.size)
        } else {
            Details::of("windows", "sliding").with("size", self.size).with("slide", self.slide)
        };
        self.early.details(windows.with_some("partial", self.partial.then_some(true)))
    }

    fn fault(&self) -> Option<String> {
        let zero = [("size", self.size), ("slide", self.slide)].into_iter().find(|(_, n)| *n == 0);
        if let Some((what, _)) = zero {
            return Some(format!("a {what} of 0 records makes no windows"));
        }
        self.early.early().and_then(|early| early.fault().or_else(|| self.spans().too_many()))
    }
}

by_spans!(CountWindow<E>);

impl<E> CountWindow<E> {
    fn spans(&self) -> Spans {
        Spans::new(self.size, self.slide).partial(self.partial)
    }

    fn earliness(&self) -> E
    where
        E: Copy,
    {
        self.early
    }
}
