//! Windows of processing time over streams with event-time timestamps.
//!
//! One task handles both times: windows are cut by the clock, and the timestamps of the records are aggregated
//! with their values, since a result carries the greatest. Watermarks of event time wait beside the windows:
//!
//! ```text
//!   records ──> Timed: by the clock ──> windows ──> Redated ──> results
//!   watermarks ───────────────────────────────────> held back until the open windows have ended
//! ```
//!
//! A watermark means that no later record is older, and so holds for all results of windows that begin after it.
//! Windows that were open when it arrived may contain older records only; it is emitted after their results.

use super::{ByClock, ClockedPush};
use crate::data::{Portable, Record, Wire};
use crate::error::Result;
use crate::flow::{Event, Flow, Pipe, Push};
use crate::operators::aggregates::{Aggregate, Combine};
use crate::operators::keyed::{KeyBy, KeyedStream, Placed};
use crate::operators::window::early::Early;
use crate::operators::window::event_time::{AtEnd, Earliness, EventTimeWindow};
use crate::operators::window::firing::{FiringPush, Values};
use crate::operators::window::frames::Frames;
use crate::operators::window::pane::Pane;
use crate::operators::window::windowed::Described;
use crate::plan::TaskContext;
use crate::stream::{Chain, Stream};
use crate::support::passed_time::PassedTime;
use crate::time::Timestamp;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;

macro_rules! by_clock {
    ($early:ty, $is_early:literal) => {
        impl<C, G, P, A> ByClock<C, G, P, A, $early> for Timestamp
        where
            C: Chain<Item: Wire, Time = Timestamp>,
            G: KeyBy<C::Item>,
            P: Placed,
            A: Combine<G::Value, State: Clone>,
        {
            type Chain = Timed<P::PartitionedChain<C, G>, P::Keys<C, G>, A, $is_early>;

            fn windows(
                window: EventTimeWindow<$early>,
                keyed: KeyedStream<C, G, P>,
                plan: Described,
                aggregate: A,
            ) -> Stream<Self::Chain> {
                timed(window, keyed, plan, aggregate)
            }
        }
    };
}

by_clock!(AtEnd, false);
by_clock!(Early, true);

fn timed<C, G, P, A, E, const EARLY: bool>(
    window: EventTimeWindow<E>,
    keyed: KeyedStream<C, G, P>,
    plan: Described,
    aggregate: A,
) -> Stream<Timed<P::PartitionedChain<C, G>, P::Keys<C, G>, A, EARLY>>
where
    C: Chain<Item: Wire, Time = Timestamp>,
    G: KeyBy<C::Item>,
    P: Placed,
    A: Combine<G::Value, State: Clone>,
    E: Earliness,
{
    let (frames, early) = (window.any_frames(), window.earliness());
    let (stream, keys) = P::partitioned(keyed, plan.origin).into_parts();
    let feed = Values { aggregate: Arc::new(Greatest(aggregate)), keys: DatedKeys(keys) };
    stream.then_described(plan.origin, plan.details, |prev, op| Timed {
        prev,
        op,
        feed,
        frames,
        early,
    })
}

/// A record with its event-time timestamp, where windows are cut by another time.
pub struct Dated<I: ?Sized> {
    kind: PhantomData<fn(&I)>,
    // Makes the type unsized, so that it can be a record type of its own.
    _unsized: [()],
}

impl<I: Record + ?Sized> Record for Dated<I> {
    type Of<'a> = (Timestamp, I::Of<'a>);
}

/// The keys of the records within.
#[derive(Clone)]
pub struct DatedKeys<G>(G);

impl<I: Record + ?Sized, G: KeyBy<I>> KeyBy<Dated<I>> for DatedKeys<G> {
    type Key = G::Key;
    type Value = Dated<G::Value>;

    #[inline(always)]
    fn key<'k>(&self, item: &'k (Timestamp, I::Of<'_>)) -> &'k G::Key {
        self.0.key(&item.1)
    }

    #[inline(always)]
    fn hash(&self, item: &(Timestamp, I::Of<'_>)) -> u64 {
        self.0.hash(&item.1)
    }

    #[inline(always)]
    fn value<'a>(&self, item: (Timestamp, I::Of<'a>)) -> (Timestamp, <G::Value as Record>::Of<'a>) {
        (item.0, self.0.value(item.1))
    }
}

/// An aggregate with the greatest timestamp of its values. It has no inverse, since the previous greatest is not
/// kept.
pub struct Greatest<A>(A);

impl<V: Record + ?Sized, A: Aggregate<V>> Aggregate<Dated<V>> for Greatest<A> {
    type State = (A::State, Timestamp);
    type Output = (A::Output, Timestamp);

    #[inline(always)]
    fn start(&self) -> Self::State {
        (self.0.start(), Timestamp::MIN)
    }

    #[inline(always)]
    fn update(&self, state: &mut Self::State, (at, value): (Timestamp, V::Of<'_>)) {
        self.0.update(&mut state.0, value);
        state.1 = state.1.max(at);
    }

    fn finish(&self, (state, at): Self::State) -> Self::Output {
        (self.0.finish(state), at)
    }
}

impl<V: Record + ?Sized, A: Combine<V>> Combine<Dated<V>> for Greatest<A> {
    #[inline(always)]
    fn combine(&self, state: &mut Self::State, other: Self::State) {
        self.0.combine(&mut state.0, other.0);
        state.1 = state.1.max(other.1);
    }
}

/// The chain that ends with windows of processing time over records with timestamps. All records of a key must
/// be in one task.
pub struct Timed<C, G, A, const EARLY: bool> {
    prev: C,
    op: usize,
    feed: Values<Greatest<A>, DatedKeys<G>>,
    frames: Frames,
    early: Option<Early>,
}

/// The windows in a task.
type Windows<I, G, A, N, const EARLY: bool> =
    FiringPush<Dated<I>, Timestamp, Values<Greatest<A>, DatedKeys<G>>, Redated<N>, EARLY>;

impl<C, G, A, const EARLY: bool> Chain for Timed<C, G, A, EARLY>
where
    C: Chain<Time = Timestamp>,
    G: KeyBy<C::Item>,
    A: Combine<G::Value, State: Clone>,
{
    type Item = (<G::Key as Portable>::Owned, Pane<A::Output>);
    type Time = Timestamp;
    type Task<N: Push<Self::Item, Timestamp> + 'static> =
        C::Task<TimedPush<C::Item, G, A, N, EARLY>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<Self::Item, Timestamp> + 'static,
    {
        let redated = Redated {
            held: VecDeque::new(),
            passed: PassedTime::default(),
            watermark: None,
            idle: false,
            next,
        };
        let windows =
            FiringPush::new(cx, self.op, self.feed.clone(), self.frames, self.early, redated)?;
        let clocked = ClockedPush::new(cx, self.frames, windows);
        self.prev.attach(cx, TimedPush { frames: self.frames, clocked })
    }
}

/// Windows of processing time in a running task.
pub struct TimedPush<I, G, A, N, const EARLY: bool>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    A: Combine<G::Value, State: Clone>,
{
    frames: Frames,
    clocked: ClockedPush<Windows<I, G, A, N, EARLY>>,
}

impl<I, G, A, N, const EARLY: bool> Push<I, Timestamp> for TimedPush<I, G, A, N, EARLY>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    A: Combine<G::Value, State: Clone>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), Timestamp>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: Timestamp) {
        self.clocked.next.push((time, item), self.clocked.now);
    }
}

impl<I, G, A, N, const EARLY: bool> Pipe for TimedPush<I, G, A, N, EARLY>
where
    I: Record + ?Sized,
    G: KeyBy<I>,
    A: Combine<G::Value, State: Clone>,
    N: Push<(<G::Key as Portable>::Owned, Pane<A::Output>), Timestamp>,
{
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.clocked)
    }

    fn event(&mut self, event: Event) {
        let (watermark, idle) = match event {
            Event::Watermark(at) => (Some(at), false),
            Event::Idle => (None, true),
            Event::Partition(_) | Event::Barrier(_) | Event::Round(_) | Event::End => {
                return self.clocked.event(event);
            }
        };
        // Records that have arrived so far are in windows that end by `until`.
        let (_, last) = self.frames.windows(self.frames.slice(self.clocked.now));
        let until = self.frames.window(last).1;
        self.clocked.next.following().hold(event, Held { until, watermark, idle });
    }
}

/// A watermark or idle event that is held back until the windows that were open when it arrived have ended.
struct Held {
    until: Timestamp,
    watermark: Option<Timestamp>,
    idle: bool,
}

/// Assigns the greatest timestamp of their records to results, and emits the events that were held back.
pub struct Redated<N> {
    held: VecDeque<Held>,
    passed: PassedTime,
    /// The event to be emitted next.
    watermark: Option<Timestamp>,
    idle: bool,
    next: N,
}

impl<N: Pipe> Redated<N> {
    /// Holds an event back. Of several that wait for the same windows, the last counts.
    fn hold(&mut self, event: Event, held: Held) {
        if let Some(resumes) = self.passed.hold(event) {
            self.next.event(resumes);
        }
        match self.held.back_mut() {
            Some(last) if last.until == held.until => {
                last.watermark = held.watermark.or(last.watermark);
                last.idle = held.idle;
            }
            _ => self.held.push_back(held),
        }
    }
}

impl<N: Pipe> Pipe for Redated<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        match event {
            // This watermark is of the clock: the windows that end by then have emitted their results.
            Event::Watermark(now) => {
                while let Some(held) = self.held.pop_front_if(|held| held.until <= now) {
                    self.watermark = held.watermark.or(self.watermark);
                    self.idle = held.idle;
                }
                // What is held back says that the stream has resumed since.
                self.idle &= self.held.is_empty();
            }
            other => {
                if matches!(other, Event::Round(_)) {
                    self.held.clear();
                }
                self.passed.pass(other);
                self.next.event(other);
            }
        }
    }

    fn resume(&mut self) -> Flow {
        loop {
            match self.next.resume() {
                Flow::Ready => {}
                other => return other,
            }
            let event = match self.watermark.take() {
                Some(at) => Event::Watermark(at),
                None if std::mem::take(&mut self.idle) => Event::Idle,
                None => return Flow::Ready,
            };
            self.passed.pass(event);
            self.next.event(event);
        }
    }
}

impl<K, V, N> Push<(K, Pane<(V, Timestamp)>), Timestamp> for Redated<N>
where
    K: 'static,
    V: 'static,
    N: Push<(K, Pane<V>), Timestamp>,
{
    #[inline(always)]
    fn push(&mut self, (key, pane): (K, Pane<(V, Timestamp)>), _: Timestamp) {
        let Pane { start, end, timing, value: (value, at) } = pane;
        self.next.push((key, Pane { start, end, timing, value }), at);
    }
}
