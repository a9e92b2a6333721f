//! A side output of the records that arrive too late for their sessions.

use super::SessionWindow;
use crate::data::{Data, Portable, Record, Wire};
use crate::exchange::{Edge, Outlet, RoundRobin};
use crate::flow::{Pipe, Push};
use crate::operators::keyed::{KeyBy, KeyedStream, Partitioned, Placed};
use crate::operators::window::windowed::Windowed;
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Received, Stream};
use crate::time::EventTime;

/// The destination of records that arrive too late for their sessions.
pub trait Latecomers<I, G, T>: Send + 'static
where
    I: Record + ?Sized,
    G: KeyBy<I>,
{
    /// The destination in a running task.
    #[doc(hidden)]
    type Exit: Exit<I, G, T>;

    /// Creates the destination in a task.
    #[doc(hidden)]
    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> Self::Exit;
}

/// The destination of late records in a running task.
pub trait Exit<I, G, T>: Pipe + 'static
where
    I: Record + ?Sized,
    G: KeyBy<I>,
{
    /// Whether late records leave the task; otherwise they are only counted.
    const OPEN: bool;

    /// Sends a late record.
    fn push_late(
        &mut self,
        key: <G::Key as Portable>::Owned,
        value: <G::Value as Record>::Of<'_>,
        time: T,
    );
}

/// Late records are counted and dropped.
#[derive(Clone, Copy, Debug)]
pub struct Counted;

impl<I: Record + ?Sized, G: KeyBy<I>, T> Latecomers<I, G, T> for Counted {
    type Exit = Self;

    fn exit(&self, _: &TaskContext<'_>, _: usize) -> Self {
        Self
    }
}

impl Pipe for Counted {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        None
    }

    fn is_full(&mut self) -> bool {
        true
    }

    fn is_closed(&mut self) -> bool {
        true
    }
}

impl<I: Record + ?Sized, G: KeyBy<I>, T> Exit<I, G, T> for Counted {
    const OPEN: bool = false;

    fn push_late(&mut self, _: <G::Key as Portable>::Owned, _: <G::Value as Record>::Of<'_>, _: T) {
    }
}

/// Late records are sent to a side output.
pub struct Sent<K: Data, V: Data, T: EventTime>(Edge<(K, V), T>);

impl<K: Data, V: Data, T: EventTime> Clone for Sent<K, V, T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<I, G, K, V, T> Latecomers<I, G, T> for Sent<K, V, T>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key: Portable<Owned = K>, Value: Portable<Owned = V>>,
    K: Data,
    V: Data,
    T: EventTime,
{
    type Exit = Leaving<K, V, T>;

    fn exit(&self, cx: &TaskContext<'_>, op: usize) -> Leaving<K, V, T> {
        Leaving(self.0.outlet(cx.task, cx.op(op), RoundRobin::starting_at(cx.task)))
    }
}

/// Sends late records to a side output in a running task.
pub struct Leaving<K: Data, V: Data, T: EventTime>(Outlet<(K, V), T, RoundRobin>);

impl<K: Data, V: Data, T: EventTime> Pipe for Leaving<K, V, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.0)
    }
}

impl<I, G, K, V, T> Exit<I, G, T> for Leaving<K, V, T>
where
    I: Record + ?Sized,
    G: KeyBy<I, Key: Portable<Owned = K>, Value: Portable<Owned = V>>,
    K: Data,
    V: Data,
    T: EventTime,
{
    const OPEN: bool = true;

    fn push_late(&mut self, key: K, value: <G::Value as Record>::Of<'_>, time: T) {
        self.0.push((key, <G::Value as Portable>::to_owned(value)), time);
    }
}

/// The owned forms of the keys and values of a stream.
type KeyOf<C, G> = <<G as KeyBy<<C as Chain>::Item>>::Key as Portable>::Owned;
type ValueOf<C, G> = <<G as KeyBy<<C as Chain>::Item>>::Value as Portable>::Owned;
/// Sessions whose late records are sent to a side output.
type Divided<C, G, F, W> =
    SessionWindow<F, Sent<KeyOf<C, G>, ValueOf<C, G>, <C as Chain>::Time>, W>;

impl<C, G, P, F, W, E> Windowed<C, G, P, SessionWindow<F, Counted, W>, E>
where
    C: Chain<Item: Wire, Time: EventTime>,
    G: KeyBy<C::Item, Value: Portable>,
    P: Placed,
{
    /// Sends records that arrive too late for a session to a side output, each as its key and value and with
    /// its timestamp, instead of counting and dropping them.
    ///
    /// A record is late if it joins no open session of its key, and the session that it would begin has ended, by
    /// the watermark of the task that owns the key. Every record is either in a session or in the side output, and
    /// never in both. A record behind the watermark costs a copy of its key; others cost nothing.
    ///
    /// Call it directly after `window`. The side output must end in a sink, like any other.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::SessionWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// // A record a millisecond, one of them twenty seconds late.
    /// let millis = env.generate(f64::INFINITY, |n| (n < 60_000).then_some(n)).map(|n| {
    ///     let at = n as i64;
    ///     if at == 50_000 { at - 20_000 } else { at }
    /// });
    /// let (sessions, late) = millis
    ///     .filter(|at| *at < 10_000 || *at >= 30_000 && *at < 30_001 || *at >= 49_000)
    ///     .assign_timestamps(|at| Timestamp::from_millis(*at), Watermarks::monotonous())
    ///     .group_by(|_| ())
    ///     .window(SessionWindow::new(Duration::from_secs(1)))
    ///     .late_output();
    /// let counts = sessions.count().unkey().map(|(_, session)| session.value).to_channel();
    /// let late = late.to_channel();
    /// let job = env.start()?;
    /// assert_eq!(late.map(|late| late.unwrap()).collect::<Vec<_>>(), [((), 30_000)]);
    /// assert_eq!(counts.map(|count| count.unwrap()).collect::<Vec<_>>(), [10_000, 1, 10_999]);
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn late_output(
        self,
    ) -> (
        Windowed<P::PartitionedChain<C, G>, P::Keys<C, G>, Partitioned, Divided<C, G, F, W>, E>,
        Stream<Received<(KeyOf<C, G>, ValueOf<C, G>), C::Time>>,
    ) {
        let origin = Origin::here("late_output");
        let Self { keyed, window, ending } = self;
        let (stream, keys) = P::partitioned(keyed, origin).into_parts();
        let (edge, late) = stream.begin_side_output(origin);
        let SessionWindow { gap, fixed, early, .. } = window;
        let window = SessionWindow { gap, fixed, late: Sent(edge), early };
        (Windowed { keyed: KeyedStream::from_parts(stream, keys), window, ending }, late)
    }
}
