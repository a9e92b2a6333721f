//! One window of all arrivals, at the end of the input.

use super::spanned::by_spans;
use super::spans::Spans;
use crate::data::Data;
use crate::operators::window::CountPane;
use crate::operators::window::windowed::Window;
use crate::time::Time;

/// All records of a key, for [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all).
///
/// The result is emitted when the input ends; a job whose input does not end is refused at its start.
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
#[derive(Clone, Copy, Debug, Default)]
pub struct GlobalWindow(());

impl GlobalWindow {
    /// Creates one window of all records.
    pub fn new() -> Self {
        Self(())
    }
}

impl<T: Time> Window<T> for GlobalWindow {
    type Pane<V: Data> = CountPane<V>;

    fn describe(&self) -> String {
        "global".to_owned()
    }

    fn needs_end(&self) -> Option<&'static str> {
        Some("a global window is complete only at the end")
    }
}

by_spans!(GlobalWindow);

impl GlobalWindow {
    fn spans(self) -> Spans {
        Spans::new(u64::MAX, u64::MAX).partial(true)
    }
}
