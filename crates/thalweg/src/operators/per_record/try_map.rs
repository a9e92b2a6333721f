//! One record out for each record in, where a bad one stops the job.

use crate::data::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Event, Flow, Op, Pipe, Push, guard};
use crate::plan::{Origin, TaskContext};
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::any::Any;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record, or stops the job when the closure returns an error.
    ///
    /// To pass over bad records instead, say so with [`filter_map`](Self::filter_map).
    ///
    /// Keeps order and tasks.
    ///
    /// # Errors
    ///
    /// The job ends with the closure's error in words, of kind [`Input`](ErrorKind::Input), under
    /// this operator's name. An error that is a [`thalweg::Error`](Error) already keeps its kind,
    /// its place and its cause.
    ///
    /// ```
    /// use thalweg::{Environment, ErrorKind};
    ///
    /// let env = Environment::new();
    /// let out = env.iter(["1", "two", "3"]).try_map(|text| text.parse::<u32>()).collect::<Vec<_>>();
    /// let error = env.run().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Input);
    /// assert_eq!(error.message(), "invalid digit found in string");
    /// assert!(error.operator().is_some_and(|name| name.starts_with("try_map (")));
    /// assert!(out.take().is_err());
    /// ```
    #[track_caller]
    pub fn try_map<O, E, F>(self, f: F) -> Stream<TryMap<C, F, O, E>>
    where
        O: 'static,
        E: Display + Send + 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> Result<O, E> + Send + Sync + 'static,
    {
        self.then(Origin::here("try_map"), |prev, op| TryMap {
            prev,
            op,
            f: Arc::new(f),
            output: PhantomData,
        })
    }
}

/// What a closure's error is to the job.
#[cold]
pub(crate) fn bad_record<E: Display + 'static>(error: E) -> Error {
    let message = error.to_string();
    let any: Box<dyn Any> = Box::new(error);
    match any.downcast::<Error>() {
        Ok(error) => *error,
        Err(_) => Error::new(ErrorKind::Input, message),
    }
}

/// The chain that ends in a map that may fail.
pub struct TryMap<C, F, O, E> {
    prev: C,
    op: usize,
    f: Arc<F>,
    output: PhantomData<fn() -> (O, E)>,
}

impl<C, F, O, E> Chain for TryMap<C, F, O, E>
where
    C: Chain,
    O: 'static,
    E: Display + Send + 'static,
    F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> Result<O, E> + Send + Sync + 'static,
{
    type Item = O;
    type Time = C::Time;
    type Task<N: Push<O, C::Time> + 'static> = C::Task<TryMapPush<C::Item, F, (O, E), N>>;

    fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> Result<Self::Task<N>>
    where
        N: Push<O, C::Time> + 'static,
    {
        let (op, f) = (cx.op(self.op), Arc::clone(&self.f));
        self.prev.attach(cx, TryMapPush { op, f, failed: false, next, types: PhantomData })
    }
}

/// A map that may fail, in a running task.
pub struct TryMapPush<I: ?Sized, F, R, N> {
    op: Op,
    f: Arc<F>,
    failed: bool,
    next: N,
    types: PhantomData<fn(&I) -> R>,
}

impl<I: Record + ?Sized, F: Send + Sync, R, N: Pipe> Pipe for TryMapPush<I, F, R, N> {
    fn next(&mut self) -> Option<&mut dyn Pipe> {
        Some(&mut self.next)
    }

    fn event(&mut self, event: Event) {
        if !self.failed {
            self.next.event(event);
        }
    }

    fn resume(&mut self) -> Flow {
        // The rest of the turn: the job stops after it.
        if self.failed { Flow::Ready } else { self.next.resume() }
    }

    fn is_closed(&mut self) -> bool {
        self.failed || self.next.is_closed()
    }
}

impl<I, T, F, O, E, N> Push<I, T> for TryMapPush<I, F, (O, E), N>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    E: Display + Send + 'static,
    F: for<'a> Fn(I::Of<'a>) -> Result<O, E> + Send + Sync,
    N: Push<O, T>,
{
    #[inline(always)]
    fn push(&mut self, item: I::Of<'_>, time: T) {
        if self.failed {
            return;
        }
        match guard(&self.op, || (self.f)(item)) {
            Ok(output) => self.next.push(output, time),
            Err(error) => {
                self.failed = true;
                self.op.fail(bad_record(error));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{AtomicU64, Ordering};
    use crate::{Environment, Place};

    #[test]
    fn an_error_with_a_place_keeps_it() {
        let env = Environment::new();
        let place = Place::Line("poem.txt".into(), 3);
        let at = place.clone();
        let _out = env
            .iter(0..10)
            .try_map(move |n| match n {
                7 => Err(Error::new(ErrorKind::Io, "torn").at(at.clone())),
                n => Ok(n),
            })
            .count()
            .collect_one();
        let error = env.run().unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Io, Some(&place)));
        let text = error.to_string();
        assert!(text.starts_with("try_map (") && text.ends_with("poem.txt:3: torn"), "{text}");
    }

    #[test]
    fn nothing_follows_a_bad_record() {
        let env = Environment::new();
        let seen = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&seen);
        let _out = env
            .iter(0..100_000)
            .try_map(|n| if n == 5 { Err("five") } else { Ok(n) })
            .inspect(move |_| _ = counter.fetch_add(1, Ordering::Relaxed))
            .count()
            .collect_one();
        assert_eq!(env.run().unwrap_err().message(), "five");
        assert_eq!(seen.load(Ordering::Relaxed), 5);
    }
}
