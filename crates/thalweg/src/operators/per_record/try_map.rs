//! The `try_map` operator: one output record for each input record, where an error stops the job.

use super::record_fn::{OrError, PerRecord, RecordFn, Yielded};
use crate::data::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::any::Any;
use std::fmt::Display;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record, or stops the job when the closure returns an error.
    ///
    /// To skip bad records instead, use [`filter_map`](Self::filter_map).
    ///
    /// Keeps order and tasks.
    ///
    /// # Errors
    ///
    /// The job ends with the closure's error as text, of kind [`Input`](ErrorKind::Input), under this
    /// operator's name. An error that is a [`thalweg::Error`](Error) already keeps its kind, its place and its
    /// cause.
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
        self.per_record(Origin::here("try_map"), TryMapping { f, output: PhantomData })
    }
}

/// Turns a closure's error into the job's error.
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
pub type TryMap<C, F, O, E> = PerRecord<C, TryMapping<F, O, E>>;

/// A map that may fail, as a function of one record.
pub struct TryMapping<F, O, E> {
    f: F,
    output: PhantomData<fn() -> (O, E)>,
}

impl<I, T, F, O, E> RecordFn<I, T> for TryMapping<F, O, E>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    E: Display + Send + 'static,
    F: for<'a> Fn(I::Of<'a>) -> Result<O, E> + Send + Sync + 'static,
{
    type Out = O;
    type Yield = OrError;

    #[inline(always)]
    fn call<'a>(&self, item: I::Of<'a>, _: T) -> Yielded<'a, OrError, O> {
        (self.f)(item).map_err(bad_record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;
    use crate::sync::{AtomicU64, Ordering};
    use crate::{Environment, Place};
    use std::sync::Arc;

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
    fn results_and_errors_are_those_of_any_run() {
        let below = |limit: u64| move |n: u64| if n < limit { Ok(3 * n) } else { Err("too large") };
        check(|env| env.range(0..300).shuffle().try_map(below(300)))
            .seeds(2)
            .equals((0..300u64).map(|n| 3 * n));
        check(|env| env.range(0..300).shuffle().try_map(below(299)))
            .seeds(2)
            .fails_with("too large");
    }

    #[test]
    fn nothing_follows_a_bad_record() {
        let env = Environment::new();
        let (called, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (calls, counter) = (Arc::clone(&called), Arc::clone(&seen));
        let _out = env
            .iter(0..100_000)
            .try_map(move |n| {
                calls.fetch_add(1, Ordering::Relaxed);
                if n == 5 { Err("five") } else { Ok(n) }
            })
            .inspect(move |_| _ = counter.fetch_add(1, Ordering::Relaxed))
            .count()
            .collect_one();
        assert_eq!(env.run().unwrap_err().message(), "five");
        assert_eq!((called.load(Ordering::Relaxed), seen.load(Ordering::Relaxed)), (6, 5));
    }
}
