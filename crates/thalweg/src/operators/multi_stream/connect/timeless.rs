//! Removes timestamps and watermarks from control records, which are sent to records with another kind of time.
//!
//! The stream marks itself as idle in each round, so that the merge of watermarks does not wait for it.
//! Barriers, rounds and the end pass.

use crate::data::Record;
use crate::error::Result;
use crate::flow::{Event, Flow, Pipe, Push};
use crate::plan::TaskContext;
use crate::stream::Chain;
use crate::time::Time;
use std::marker::PhantomData;

/// The chain that removes the time of its records.
pub struct Timeless<C, T> {
    prev: C,
    time: PhantomData<fn() -> T>,
}

impl<C, T> Timeless<C, T> {
    pub(super) fn new(prev: C) -> Self {
        Self { prev, time: PhantomData }
    }
}

impl<C: Chain, T: Time> Chain for Timeless<C, T> {
    type Item = C::Item;
    type Time = T;
    type Task<N: Push<C::Item, T> + 'static> = C::Task<TimelessPush<T, N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<C::Item, T> + 'static,
    {
        self.prev.attach(cx, TimelessPush { said: false, next, time: PhantomData })
    }
}

/// Removes the time in a running task.
pub struct TimelessPush<T, N> {
    /// Whether `Event::Idle` was sent in this round.
    said: bool,
    next: N,
    time: PhantomData<fn() -> T>,
}

impl<T: Time, N: Pipe> Pipe for TimelessPush<T, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Watermark(_) | Event::Idle | Event::Partition(_) => {}
            Event::Round(_) => {
                self.next.event(event);
                self.said = false;
            }
            Event::Barrier(_) | Event::End => self.next.event(event),
        }
    }

    fn resume(&mut self) -> Flow {
        match self.next.resume() {
            Flow::Ready if !self.said => {
                self.said = true;
                self.next.event(Event::Idle);
                Flow::Busy
            }
            other => other,
        }
    }
}

impl<I: Record + ?Sized, U: Time, T: Time, N: Push<I, T>> Push<I, U> for TimelessPush<T, N> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, _: U) {
        self.next.push(item, T::LAST);
    }
}
