//! The `map_with_timestamp` operator: one output record for each input record and its timestamp.

use super::record_fn::{Exactly, PerRecord, RecordFn, Yielded};
use crate::data::Record;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::{EventTime, Timestamp};
use std::marker::PhantomData;

impl<C: Chain<Time: EventTime>> Stream<C> {
    /// Makes one record of each record and its timestamp: for closures that need the event time of a record
    /// that does not contain it, such as to compute how late a result is.
    ///
    /// The timestamp does not change. Otherwise like [`map`](Self::map), whose closure does not get the
    /// timestamp. Keeps order and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::operators::time::Watermarks;
    /// use thalweg::operators::window::CountWindow;
    /// use thalweg::time::Timestamp;
    ///
    /// let env = Environment::new();
    /// let steps = env
    ///     .iter([1, 2, 9])
    ///     .assign_timestamps(|second| Timestamp::from_secs(*second), Watermarks::monotonous());
    /// let out = steps
    ///     .window_all(CountWindow::tumbling(3))
    ///     .sum(|second| *second)
    ///     .map_with_timestamp(|window, at| (window.value, at))
    ///     .collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [(12, Timestamp::from_secs(9))]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn map_with_timestamp<O, F>(self, f: F) -> Stream<MapWithTimestamp<C, F, O>>
    where
        O: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>, Timestamp) -> O + Send + Sync + 'static,
    {
        self.per_record(Origin::here("map_with_timestamp"), TimedMapping { f, output: PhantomData })
    }
}

/// The chain that ends in a map of records and timestamps.
pub type MapWithTimestamp<C, F, O> = PerRecord<C, TimedMapping<F, O>>;

/// A map of records and timestamps, as a function of one record.
pub struct TimedMapping<F, O> {
    f: F,
    output: PhantomData<fn() -> O>,
}

impl<I, T, F, O> RecordFn<I, T> for TimedMapping<F, O>
where
    I: Record + ?Sized,
    T: EventTime,
    O: 'static,
    F: for<'a> Fn(I::Of<'a>, Timestamp) -> O + Send + Sync + 'static,
{
    type Out = O;
    type Yield = Exactly;

    #[inline(always)]
    fn call<'a>(&self, item: I::Of<'a>, time: T) -> Yielded<'a, Exactly, O> {
        (self.f)(item, time.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::check::check;
    use crate::operators::time::Watermarks;
    use crate::time::Timestamp;
    use crate::{Environment, ErrorKind};

    #[test]
    fn each_record_has_its_own_timestamp() {
        let expected: Vec<(i64, i64)> = (0..5000).map(|n| (n, 3 * n - 7000)).collect();
        check(|env| {
            env.iter(0..5000i64)
                .assign_timestamps(
                    |n| Timestamp::from_micros(3 * n - 7000),
                    Watermarks::monotonous(),
                )
                .shuffle()
                .map_with_timestamp(|n, at| (n, at.as_micros()))
        })
        .equals(expected);
    }

    #[test]
    fn a_panic_names_the_operator() {
        let env = Environment::new();
        let ones = env.iter([1]).assign_timestamps(|_| Timestamp::MIN, Watermarks::monotonous());
        ones.map_with_timestamp(|_, _| -> u8 { panic!("no") }).for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Panic);
        assert!(error.to_string().starts_with("map_with_timestamp ("), "{error}");
    }
}
