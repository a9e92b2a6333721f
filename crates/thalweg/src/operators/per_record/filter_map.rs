//! The `filter_map` operator: one output record, or none, for each input record.

use super::record_fn::{AtMost, PerRecord, RecordFn, Yielded};
use crate::data::Record;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Makes a record of each record for which the closure returns one.
    ///
    /// Where a bad record should stop the job there is [`try_map`](Self::try_map). Keeps order and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let numbers = env.iter(["1", "two", "3"]).filter_map(|text| text.parse::<u32>().ok());
    /// let out = numbers.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn filter_map<O, F>(self, f: F) -> Stream<FilterMap<C, F, O>>
    where
        O: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> Option<O> + Send + Sync + 'static,
    {
        self.per_record(Origin::here("filter_map"), FilterMapping { f, output: PhantomData })
    }
}

/// The chain that ends in a filter map.
pub type FilterMap<C, F, O> = PerRecord<C, FilterMapping<F, O>>;

/// A filter map, as a function of one record.
pub struct FilterMapping<F, O> {
    f: F,
    output: PhantomData<fn() -> O>,
}

impl<I, T, F, O> RecordFn<I, T> for FilterMapping<F, O>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    F: for<'a> Fn(I::Of<'a>) -> Option<O> + Send + Sync + 'static,
{
    type Out = O;
    type Yield = AtMost;

    #[inline(always)]
    fn call<'a>(&self, item: I::Of<'a>, _: T) -> Yielded<'a, AtMost, O> {
        (self.f)(item)
    }
}
