//! The `filter` operator: keeps some of the records.

use super::record_fn::{AtMost, PerRecord, RecordFn, Yielded};
use crate::data::Record;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::Time;

impl<C: Chain> Stream<C> {
    /// Keeps the records for which the closure returns `true`.
    ///
    /// Keeps order and tasks. To change the records as well, see
    /// [`filter_map`](Self::filter_map).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let even = env.iter(0..6).filter(|n| n % 2 == 0).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(even.take()?, [0, 2, 4]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("where", "FilterFunction"))]
    #[track_caller]
    pub fn filter<F>(self, keep: F) -> Stream<Filter<C, F>>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> bool + Send + Sync + 'static,
    {
        self.filter_as(Origin::here("filter"), keep)
    }

    /// A filter with another name in plans and messages.
    pub(crate) fn filter_as<F>(self, origin: Origin, keep: F) -> Stream<Filter<C, F>>
    where
        F: for<'a, 'b> Fn(&'b <C::Item as Record>::Of<'a>) -> bool + Send + Sync + 'static,
    {
        self.per_record(origin, Filtering { keep })
    }
}

/// The chain that ends in a filter.
pub type Filter<C, F> = PerRecord<C, Filtering<F>>;

/// A filter, as a function of one record.
pub struct Filtering<F> {
    keep: F,
}

impl<I, T, F> RecordFn<I, T> for Filtering<F>
where
    I: Record + ?Sized,
    T: Time,
    F: for<'a, 'b> Fn(&'b I::Of<'a>) -> bool + Send + Sync + 'static,
{
    type Out = I;
    type Yield = AtMost;

    #[inline(always)]
    fn call<'a>(&self, item: I::Of<'a>, _: T) -> Yielded<'a, AtMost, I> {
        (self.keep)(&item).then_some(item)
    }
}
