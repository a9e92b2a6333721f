//! Windows of a number of arrivals.

use super::spanned::by_spans;
use super::spans::Spans;
use crate::data::Data;
use crate::operators::window::CountPane;
use crate::operators::window::windowed::Window;
use crate::time::Time;

/// Windows of a number of records of a key, for [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all).
///
/// With the records of a key numbered from 0 as they arrive, window `k` contains those from `k * slide` to `k *
/// slide + size - 1`. Its result is emitted with its last record. Windows that are not full when the input ends
/// have no result, unless [`keep_partial`](Self::keep_partial) is set.
///
/// Records are sent to the tasks that own their keys. Their order of arrival is that of their stream if one task
/// sends them all. If several tasks do, only the order of each task is preserved.
///
/// For aggregates that combine (`count`, `sum`, `max`, …), the cost of a record does not depend on how much
/// windows overlap. Others (`fold`, `to_vec`) add each value once for every window that it is in. Memory: for
/// each key an aggregate. If windows overlap, one for every slice of the longest, which is two per slide, or all
/// its values if the aggregate does not combine. Keys are kept as long as the job runs; the job fails if they
/// exceed the memory budget.
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
pub struct CountWindow {
    size: u64,
    slide: u64,
    partial: bool,
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
        Self { size, slide, partial: false }
    }

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
    /// let pane = |first, count, value: &str| CountPane { first, count, value: value.to_owned() };
    /// assert_eq!(out.take()?, [pane(0, 2, "ab"), pane(2, 2, "cd"), pane(4, 1, "e")]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn keep_partial(mut self) -> Self {
        self.partial = true;
        self
    }
}

impl<T: Time> Window<T> for CountWindow {
    type Pane<V: Data> = CountPane<V>;

    fn describe(&self) -> String {
        let partial = if self.partial { ", partial ones kept" } else { "" };
        if self.size == self.slide {
            format!("tumbling, {} records{partial}", self.size)
        } else {
            format!("sliding, {} records every {}{partial}", self.size, self.slide)
        }
    }

    fn fault(&self) -> Option<String> {
        let zero = [("size", self.size), ("slide", self.slide)].into_iter().find(|(_, n)| *n == 0);
        zero.map(|(what, _)| format!("a {what} of 0 records makes no windows"))
    }
}

by_spans!(CountWindow);

impl CountWindow {
    fn spans(self) -> Spans {
        Spans::new(self.size, self.slide).partial(self.partial)
    }
}
