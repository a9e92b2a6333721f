//! Windows of arrivals for aggregates that do not combine: computed from the stored values for every window.
//!
//! Such an aggregate cannot be combined from slices. If windows overlap, the values of the longest open window
//! are stored, and each window is computed from its values when it is complete, at a cost proportional to their
//! number. If windows do not overlap, a value is added at once and not stored.

use super::greatest::Greatest;
use super::key_windows::{Given, KeyWindows, Now, Running};
use super::spans::Spans;
use crate::data::{Data, Portable, Record};
use crate::operators::aggregates::Aggregate;
use crate::operators::window::CountPane;
use crate::support::keyed_timers::{NoClock, TimedState, TimerClock};
use crate::time::Time;
use std::collections::VecDeque;
use std::sync::Arc;

/// A kind of record that can be stored and added more than once: every [`Data`] type that is [`Clone`], and
/// `str` and `[u8]`.
#[diagnostic::on_unimplemented(
    message = "values of `{Self}` cannot be in several windows at once",
    label = "windows that overlap take a value in several times, and this type lacks `Data` or `Clone`",
    note = "for a type of your own, add `#[derive(thalweg::Data, Clone)]`",
    note = "or compute what combines, which takes each value in once: `fold_assoc`, `reduce`"
)]
pub trait Kept: Portable {
    /// The record, in its original form.
    #[doc(hidden)]
    fn show(kept: &Self::Owned) -> Self::Of<'_>;
}

#[diagnostic::do_not_recommend]
impl<T: Data + Clone> Kept for T {
    #[inline(always)]
    fn show(kept: &T) -> T {
        kept.clone()
    }
}

#[diagnostic::do_not_recommend]
impl Kept for str {
    #[inline(always)]
    fn show(kept: &String) -> &str {
        kept
    }
}

#[diagnostic::do_not_recommend]
impl Kept for [u8] {
    #[inline(always)]
    fn show(kept: &Vec<u8>) -> &[u8] {
        kept
    }
}

/// Windows of a number of values, for an aggregate that adds them in order.
pub struct Stored<A> {
    pub(super) spans: Spans,
    pub(super) aggregate: Arc<A>,
}

impl<A> Clone for Stored<A> {
    fn clone(&self) -> Self {
        Self { spans: self.spans, aggregate: Arc::clone(&self.aggregate) }
    }
}

/// The state of a key.
pub struct Values<O, S, T> {
    /// The number of values that have arrived.
    arrived: u64,
    /// The number of the first value of the next window to be complete.
    first: u64,
    /// The open window, if windows do not overlap.
    open: Option<Running<S, T>>,
    /// The values from `first` on, or fewer, with their times, if windows overlap.
    kept: Option<Box<Queue<O, T>>>,
    /// The bytes that the open window owns on the heap, as of when it was weighed.
    heap: usize,
}

impl<O: Data, S: Data, T: Time> TimedState for Values<O, S, T> {
    type Clocks = NoClock;
    type Owned = ();

    fn due(&self, _: TimerClock) -> Option<i64> {
        None
    }

    // The count of arrivals is kept as long as the job runs.
    #[inline(always)]
    fn is_spent(&self) -> bool {
        false
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        let kept = self.kept.as_ref().map_or(0, |queue| queue.bytes());
        kept + self.heap
    }
}

struct Queue<O, T> {
    values: VecDeque<O>,
    times: Greatest<T>,
    /// Heap memory of the values.
    heap: usize,
}

impl<O: Data, T: Time> Queue<O, T> {
    fn bytes(&self) -> usize {
        let queue = self.values.capacity() * size_of::<O>() + self.times.bytes();
        size_of::<Self>() + queue + self.heap
    }

    fn push(&mut self, number: u64, value: O, time: T) {
        self.heap += value.heap_size();
        self.values.push_back(value);
        self.times.add(signed(number), time);
    }

    /// Drops the first values until `left` remain.
    fn keep(&mut self, left: u64) {
        while self.values.len() as u64 > left {
            if let Some(value) = self.values.pop_front() {
                self.heap = self.heap.saturating_sub(value.heap_size());
            }
        }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl<A> Stored<A> {
    /// Computes the window that begins with the stored value `first`.
    fn make<V, T>(
        &self,
        queue: &mut Queue<V::Owned, T>,
        first: u64,
        arrived: u64,
    ) -> Given<A::Output, T>
    where
        V: Kept + ?Sized,
        T: Time,
        A: Aggregate<V>,
    {
        queue.keep(arrived - first);
        let mut state = self.aggregate.start();
        for value in &queue.values {
            self.aggregate.update(&mut state, V::show(value));
        }
        let value = self.aggregate.finish(state);
        (CountPane { first, count: arrived - first, value }, queue.times.since(signed(first)))
    }

    /// The result of the open window, if windows do not overlap.
    fn finish<V, T>(&self, open: Running<A::State, T>, arrived: u64) -> Given<A::Output, T>
    where
        V: Record + ?Sized,
        T: Time,
        A: Aggregate<V>,
    {
        let count = open.values();
        let (state, time) = open.into_parts();
        let value = self.aggregate.finish(state);
        (CountPane { first: arrived - count, count, value }, time)
    }
}

impl<V, T, A> KeyWindows<V, T> for Stored<A>
where
    V: Kept + ?Sized,
    T: Time,
    A: Aggregate<V>,
{
    type State = Values<V::Owned, A::State, T>;
    type Output = A::Output;

    fn start(&self) -> Self::State {
        Values { arrived: 0, first: 0, open: None, kept: None, heap: 0 }
    }

    #[inline(always)]
    fn take(
        &self,
        known: &mut Self::State,
        value: V::Of<'_>,
        time: T,
        _: &Now<'_>,
    ) -> Option<Given<A::Output, T>> {
        let number = known.arrived;
        known.arrived += 1;
        let within = known.arrived - known.first.min(known.arrived);
        if self.spans.is_apart() {
            if number < known.first {
                // Between two windows.
                return None;
            }
            let open = known.open.get_or_insert_with(|| Running::new(self.aggregate.start(), time));
            self.aggregate.update(&mut open.state, value);
            known.heap = open.took(time).unwrap_or(known.heap);
            if within < self.spans.size() {
                return None;
            }
            known.first += self.spans.slide();
            let open = known.open.take()?;
            known.heap = 0;
            return Some(self.finish::<V, T>(open, known.arrived));
        }
        let queue = known.kept.get_or_insert_with(|| {
            let (values, times) = (VecDeque::new(), Greatest::new());
            Box::new(Queue { values, times, heap: 0 })
        });
        queue.push(number, V::to_owned(value), time);
        let complete = within == self.spans.size();
        if !complete && !self.spans.early {
            return None;
        }
        let given = self.make::<V, T>(queue, known.first, known.arrived);
        if complete {
            known.first += self.spans.slide();
            queue.keep(known.arrived.saturating_sub(known.first));
        }
        Some(given)
    }

    fn at_end(&self, known: &mut Self::State) -> Option<Given<A::Output, T>> {
        if !self.spans.partial || known.first >= known.arrived {
            return None;
        }
        if self.spans.is_apart() {
            let open = known.open.take()?;
            known.heap = 0;
            return Some(self.finish::<V, T>(open, known.arrived));
        }
        let queue = known.kept.as_mut()?;
        let given = self.make::<V, T>(queue, known.first, known.arrived);
        known.first += self.spans.slide();
        Some(given)
    }
}
