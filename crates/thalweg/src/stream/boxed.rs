//! Boxed streams: streams whose type can be named, and whose code is compiled separately.

use super::{Chain, Stream};
use crate::data::Portable;
use crate::error::Result;
use crate::exchange::RecordBatch;
use crate::flow::{CHUNK, Event, Flow, Pipe, Push, Task};
use crate::plan::TaskContext;
use crate::time::Time;

/// The chain of a boxed stream of `I`, whatever operators it is made of.
pub struct Boxed<I: Portable + ?Sized, T: Time = ()> {
    chain: Box<dyn Erased<I, T>>,
}

type Rest<I, T> = Box<dyn PushBatch<I, T>>;

trait Erased<I: Portable + ?Sized, T: Time>: Send {
    fn attach_rest(&self, cx: &TaskContext<'_>, rest: Rest<I, T>) -> Result<Box<dyn Task>>;
}

impl<I: Portable + ?Sized, T: Time, C: Chain<Item = I, Time = T>> Erased<I, T> for C {
    fn attach_rest(&self, cx: &TaskContext<'_>, rest: Rest<I, T>) -> Result<Box<dyn Task>> {
        Ok(Box::new(self.attach(cx, Collecting { batch: RecordBatch::default(), rest })?))
    }
}

impl<I: Portable + ?Sized, T: Time> Chain for Boxed<I, T> {
    type Item = I;
    type Time = T;
    type Task<N: Push<I, T> + 'static> = Box<dyn Task>;

    fn attach<N: Push<I, T> + 'static>(
        &self,
        cx: &TaskContext<'_>,
        next: N,
    ) -> Result<Self::Task<N>> {
        self.chain.attach_rest(cx, Box::new(Handing { next }))
    }
}

impl<C: Chain> Stream<C>
where
    C::Item: Portable,
{
    /// Hides the operators so far behind a type that can be written down, to store a stream in a struct, to return
    /// one of several, or to keep the compile time of a long job in bounds.
    ///
    /// The cost is one dynamic call a batch: records are collected up to a batch, then passed on together. The
    /// compiler no longer fuses the operators before with those after.
    ///
    /// ```
    /// use thalweg::{Boxed, Environment, Stream};
    ///
    /// fn numbers(env: &Environment, odd: bool) -> Stream<Boxed<u64>> {
    ///     let all = env.iter(0..6);
    ///     if odd { all.filter(|n| n % 2 == 1).boxed() } else { all.boxed() }
    /// }
    ///
    /// let env = Environment::new();
    /// let out = numbers(&env, true).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 3, 5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn boxed(self) -> Stream<Boxed<C::Item, C::Time>> {
        Stream { chain: Boxed { chain: Box::new(self.chain) }, env: self.env, stage: self.stage }
    }
}

trait PushBatch<I: Portable + ?Sized, T: Time>: Pipe {
    fn push_batch(&mut self, batch: &mut RecordBatch<I, T>);
}

/// Collects batches before the dynamic call.
struct Collecting<I: Portable + ?Sized, T: Time> {
    batch: RecordBatch<I, T>,
    rest: Rest<I, T>,
}

impl<I: Portable + ?Sized, T: Time> Collecting<I, T> {
    #[inline(never)]
    fn hand_over(&mut self) {
        self.rest.push_batch(&mut self.batch);
    }
}

impl<I: Portable + ?Sized, T: Time> Push<I, T> for Collecting<I, T> {
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        self.batch.push(item, time);
        if self.batch.len() >= CHUNK {
            self.hand_over();
        }
    }
}

impl<I: Portable + ?Sized, T: Time> Pipe for Collecting<I, T> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut *self.rest)
    }

    fn event(&mut self, event: Event) {
        self.hand_over();
        self.rest.event(event);
    }

    fn resume(&mut self) -> Flow {
        // Resumed before each batch, so that no records stay in the middle of a stage between two batches.
        match self.rest.resume() {
            Flow::Ready if !self.batch.is_empty() => {
                self.hand_over();
                self.rest.resume()
            }
            other => other,
        }
    }
}

/// Takes batches apart after the dynamic call.
struct Handing<N> {
    next: N,
}

impl<N: Pipe> Pipe for Handing<N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }
}

impl<I: Portable + ?Sized, T: Time, N: Push<I, T>> PushBatch<I, T> for Handing<N> {
    fn push_batch(&mut self, batch: &mut RecordBatch<I, T>) {
        batch.drain(|item, time| self.next.push(item, time));
    }
}
