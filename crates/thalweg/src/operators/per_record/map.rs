//! The `map` operator: one output record for each input record.

use super::record_fn::{Exactly, PerRecord, RecordFn, Yielded};
use crate::data::Record;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use crate::time::Time;
use std::marker::PhantomData;

impl<C: Chain> Stream<C> {
    /// Makes one record of each record.
    ///
    /// The closure sees the record itself, or a reference where the stream's records are borrowed
    /// (`str`, `[T]`), and returns an owned value. For several records out of one there is
    /// [`flat_map`](Self::flat_map), for one or none [`filter_map`](Self::filter_map).
    ///
    /// Consecutive maps are compiled into one piece of code. Keeps order and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let lengths = env.iter(["a", "bc"]).map(|word| word.len()).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(lengths.take()?, [1, 2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("select", "MapFunction"))]
    #[track_caller]
    pub fn map<O, F>(self, f: F) -> Stream<Map<C, F, O>>
    where
        O: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        self.map_as(Origin::here("map"), f)
    }

    /// A map with another name in plans and messages.
    pub(crate) fn map_as<O, F>(self, origin: Origin, f: F) -> Stream<Map<C, F, O>>
    where
        O: 'static,
        F: for<'a> Fn(<C::Item as Record>::Of<'a>) -> O + Send + Sync + 'static,
    {
        self.per_record(origin, Mapping { f, output: PhantomData })
    }
}

/// The chain that ends in a map.
pub type Map<C, F, O> = PerRecord<C, Mapping<F, O>>;

/// A map, as a function of one record.
pub struct Mapping<F, O> {
    f: F,
    output: PhantomData<fn() -> O>,
}

impl<I, T, F, O> RecordFn<I, T> for Mapping<F, O>
where
    I: Record + ?Sized,
    T: Time,
    O: 'static,
    F: for<'a> Fn(I::Of<'a>) -> O + Send + Sync + 'static,
{
    type Out = O;
    type Yield = Exactly;

    #[inline(always)]
    fn call<'a>(&self, item: I::Of<'a>, _: T) -> Yielded<'a, Exactly, O> {
        (self.f)(item)
    }
}
