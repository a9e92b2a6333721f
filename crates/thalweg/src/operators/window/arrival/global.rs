//! All arrivals, at the end.

use super::spanned::by_spans;
use super::spans::Spans;
use crate::data::Data;
use crate::operators::window::CountPane;
use crate::operators::window::windowed::Window;
use crate::time::Time;

/// All records of a key, for [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all).
///
/// The result is given when the input ends; without an end, the job is refused at its start.
///
/// What combines is computed in parts by the methods of keyed streams, such as
/// [`KeyedStream::sum`](crate::KeyedStream::sum), which send less and go to disk where memory is short. These
/// windows are for code that takes any window, and for results that say of how many records they are and,
/// in a stream with timestamps, carry the greatest of theirs. Records go to the tasks of their keys,
/// and are taken in in the order in which they come: that of their stream only where one task sends them all.
/// Memory: an aggregate a key.
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
    /// One window of everything.
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
