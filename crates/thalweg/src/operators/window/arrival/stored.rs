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
use crate::operators::window::early::{Counts, Early, EarlyStates, Tick};
use crate::operators::window::{CountPane, Timing};
use crate::support::keyed_timers::{Firing, NoClock, TimedState, TimerClock};
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
pub trait StoredValue: Portable {
    /// The record, in its original form.
    #[doc(hidden)]
    fn show(kept: &Self::Owned) -> Self::Of<'_>;
}

#[diagnostic::do_not_recommend]
impl<T: Data + Clone> StoredValue for T {
    #[inline(always)]
    fn show(kept: &T) -> T {
        kept.clone()
    }
}

#[diagnostic::do_not_recommend]
impl StoredValue for str {
    #[inline(always)]
    fn show(kept: &String) -> &str {
        kept
    }
}

#[diagnostic::do_not_recommend]
impl StoredValue for [u8] {
    #[inline(always)]
    fn show(kept: &Vec<u8>) -> &[u8] {
        kept
    }
}

/// Windows of a number of values, for an aggregate that adds them in order.
pub struct Stored<A, E> {
    pub(super) spans: Spans,
    pub(super) aggregate: Arc<A>,
    pub(super) early: E,
}

impl<A, E: Copy> Clone for Stored<A, E> {
    fn clone(&self) -> Self {
        let Self { spans, ref aggregate, early } = *self;
        Self { spans, aggregate: Arc::clone(aggregate), early }
    }
}

/// The state of a key.
#[derive(Data)]
pub struct Values<O, S, T, C: Counts> {
    /// The number of values that have arrived.
    arrived: u64,
    /// The number of the first value of the next window to be complete.
    first: u64,
    /// The open window, if windows do not overlap.
    open: Option<Running<S, T>>,
    /// For early results: the counts of the open window, if windows do not overlap, and when they are due.
    counts: C,
    tick: C::Tick,
    /// The values from `first` on, or fewer, with their times, if windows overlap.
    kept: Option<Box<Queue<O, T, C>>>,
    /// The bytes that the open window owns on the heap, as last estimated.
    heap: usize,
}

impl<O: Data, S: Data, T: Time, C: Counts> TimedState for Values<O, S, T, C> {
    type Clocks = C::Clocks<NoClock>;
    type Owned = ();

    #[inline(always)]
    fn due(&self, clock: TimerClock) -> Option<i64> {
        self.tick.due(clock)
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

#[derive(Data)]
struct Queue<O, T, C> {
    values: VecDeque<O>,
    times: Greatest<T>,
    /// For early results: the counts of each open window.
    counts: VecDeque<C>,
    /// Heap memory of the values.
    heap: usize,
}

impl<O: Data, T: Time, C> Queue<O, T, C> {
    fn bytes(&self) -> usize {
        let queue = self.values.capacity() * size_of::<O>() + self.times.bytes();
        let counts = if size_of::<C>() == 0 { 0 } else { self.counts.capacity() * size_of::<C>() };
        size_of::<Self>() + queue + counts + self.heap
    }

    fn push(&mut self, number: u64, value: O, time: T) {
        self.heap += value.heap_size();
        self.values.push_back(value);
        self.times.add(signed(number), time);
    }

    /// Drops the values before number `first`, of `arrived` values.
    fn keep(&mut self, first: u64, arrived: u64) {
        let left = arrived.saturating_sub(first);
        while self.values.len() as u64 > left {
            if let Some(value) = self.values.pop_front() {
                self.heap = self.heap.saturating_sub(value.heap_size());
            }
        }
        self.times.drop_before(signed(first));
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl<A, E> Stored<A, E> {
    /// Computes the window that begins with the stored value `first`, from the values that have arrived.
    fn make<V, T>(
        &self,
        queue: &Queue<V::Owned, T, E::Counts>,
        (first, arrived): (u64, u64),
        timing: Timing,
    ) -> Given<A::Output, T>
    where
        V: StoredValue + ?Sized,
        T: Time,
        A: Aggregate<V>,
        E: EarlyStates<A::State>,
    {
        let count = arrived - first;
        // At most the number of values that are stored.
        let before =
            queue.values.len().saturating_sub(usize::try_from(count).unwrap_or(usize::MAX));
        let mut state = self.aggregate.start();
        for value in queue.values.range(before..) {
            self.aggregate.update(&mut state, V::show(value));
        }
        let value = self.aggregate.finish(state);
        let time = queue.times.from(signed(first)).unwrap_or(T::LAST);
        (CountPane { first, count, timing, value }, time)
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
        (CountPane::on_time(arrived - count, count, value), time)
    }

    /// Calls a closure with the results so far of the open windows that have `enough` records that were in none.
    fn so_far<V, T>(
        &self,
        known: &mut Values<V::Owned, A::State, T, E::Counts>,
        enough: u64,
        now: &Now<'_>,
        mut give: impl FnMut(Given<A::Output, T>),
    ) where
        V: StoredValue + ?Sized,
        T: Time,
        A: Aggregate<V>,
        E: EarlyStates<A::State>,
    {
        let Values { arrived, first, open, counts, kept, .. } = known;
        if self.spans.is_apart() {
            let Some(open) = open.as_ref().filter(|_| counts.fresh() >= enough) else { return };
            let first = *arrived - open.values();
            let so_far = open.so_far::<V, A, E>(&self.aggregate, first, counts.give(), now);
            return so_far.into_iter().for_each(give);
        }
        let Some(queue) = kept else { return };
        for place in 0..queue.counts.len() {
            let counts = &mut queue.counts[place];
            if counts.fresh() >= enough {
                let timing = Timing::Early(counts.give());
                let first = *first + place as u64 * self.spans.slide();
                let (pane, time) = self.make::<V, T>(queue, (first, *arrived), timing);
                give((pane, now.at_least(time)));
            }
        }
    }
}

impl<V, T, A, E> KeyWindows<V, T> for Stored<A, E>
where
    V: StoredValue + ?Sized,
    T: Time,
    A: Aggregate<V>,
    E: EarlyStates<A::State>,
{
    type State = Values<V::Owned, A::State, T, E::Counts>;
    type Output = A::Output;

    const EARLY: bool = E::ANY;

    fn early(&self) -> Option<Early> {
        self.early.early()
    }

    fn start(&self) -> Self::State {
        let (counts, tick) = (self.early.start(), Default::default());
        Values { arrived: 0, first: 0, open: None, counts, tick, kept: None, heap: 0 }
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
            known.counts = self.early.start();
            known.tick.set(i64::MAX);
            return Some(self.finish::<V, T>(open, known.arrived));
        }
        let queue = known.kept.get_or_insert_with(|| {
            let (values, times) = (VecDeque::new(), Greatest::new());
            Box::new(Queue { values, times, counts: VecDeque::new(), heap: 0 })
        });
        queue.push(number, V::to_owned(value), time);
        if E::ANY && number.is_multiple_of(self.spans.slide()) {
            queue.counts.push_back(self.early.start());
        }
        let complete = within == self.spans.size();
        if !complete && !self.spans.leading {
            return None;
        }
        let given = self.make::<V, T>(queue, (known.first, known.arrived), Timing::OnTime);
        if complete {
            known.first += self.spans.slide();
            queue.keep(known.first, known.arrived);
            queue.counts.pop_front();
        }
        Some(given)
    }

    fn after(&self, state: &mut Self::State, now: &Now<'_>, give: impl FnMut(Given<A::Output, T>)) {
        let Values { open, counts, tick, kept, .. } = state;
        let Some(records) = now.pace.records() else {
            if open.is_some() || kept.is_some() {
                tick.set(tick.get().min(now.pace.next_tick()));
            }
            return;
        };
        let took = |counts: &mut E::Counts| {
            counts.took();
            counts.fresh() >= records
        };
        let is_due = match kept {
            Some(queue) => queue.counts.iter_mut().fold(false, |due, counts| took(counts) | due),
            None => open.is_some() && took(counts),
        };
        if is_due {
            self.so_far::<V, T>(state, records, now, give);
        }
    }

    fn wake(
        &self,
        state: &mut Self::State,
        firing: Firing,
        now: &Now<'_>,
        give: impl FnMut(Given<A::Output, T>),
    ) {
        state.tick.set(i64::MAX);
        // At the end the tick has not come, and the last results follow.
        if !firing.ended {
            self.so_far::<V, T>(state, 0, now, give);
        }
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
        let given = self.make::<V, T>(queue, (known.first, known.arrived), Timing::OnTime);
        known.first += self.spans.slide();
        queue.keep(known.first, known.arrived);
        Some(given)
    }
}
