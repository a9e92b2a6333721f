//! Windows of the last arrivals, after every arrival.

use super::spanned::by_spans;
use super::spans::Spans;
use crate::data::Data;
use crate::operators::window::CountPane;
use crate::operators::window::event_time::AtEnd;
use crate::operators::window::windowed::Window;
use crate::plan::Details;
use crate::time::Time;

/// The last records of a key, after every record, for
/// [`KeyedStream::window`](crate::KeyedStream::window) and
/// [`Stream::window_all`](crate::Stream::window_all).
///
/// Every record has a result, computed from itself and the records of its key before it, up to the window's
/// size. [`CountWindow::sliding`](super::CountWindow::sliding) with a slide of 1 waits for the first window to
/// be full, and is the same from there on.
///
/// There are no early results, and therefore no method `early`: a window is complete with its record, and has emitted
/// its result.
///
/// Order, cost and memory are those of [`CountWindow`](super::CountWindow).
///
/// ```
/// use thalweg::Environment;
/// use thalweg::operators::window::LastWindow;
///
/// let env = Environment::new();
/// let averages = env.iter([1.0, 3.0, 8.0]).window_all(LastWindow::new(2)).average(|value| *value);
/// let out = averages.map(|window| (window.count, window.value)).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(out.take()?, [(1, 1.0), (2, 2.0), (2, 5.5)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct LastWindow {
    size: u64,
}

impl LastWindow {
    /// The last `size` records of a key.
    ///
    /// A size of zero is refused at the job's start.
    pub fn new(size: u64) -> Self {
        Self { size }
    }
}

impl<T: Time> Window<T> for LastWindow {
    type Pane<V: Data> = CountPane<V>;

    fn details(&self) -> Details {
        Details::of("windows", "last").with("size", self.size)
    }

    fn fault(&self) -> Option<String> {
        (self.size == 0).then(|| "a size of 0 records makes no windows".to_owned())
    }
}

by_spans!(LastWindow);

impl LastWindow {
    fn spans(self) -> Spans {
        Spans::new(self.size, 1).leading()
    }

    fn earliness(self) -> AtEnd {
        AtEnd
    }
}
