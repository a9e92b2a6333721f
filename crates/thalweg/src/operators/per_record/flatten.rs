//! The `flatten` operator: emits the elements of each record.

use super::flat_map::FlatMap;
use crate::plan::Origin;
use crate::stream::{Chain, Stream};

impl<C, O> Stream<C>
where
    C: Chain<Item = O>,
    O: 'static,
{
    /// Emits the elements that each record iterates over: a stream of lists becomes a stream of their elements,
    /// a stream of `Option`s a stream of the values in `Some`.
    ///
    /// Infinite iterators are suspended and continued later, as in [`flat_map`](Self::flat_map). Keeps order
    /// and tasks.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([vec![1, 2], vec![], vec![3]]).flatten().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1, 2, 3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[doc(alias("explode"))]
    #[track_caller]
    pub fn flatten(self) -> Stream<impl Chain<Item = O::Item, Time = C::Time>>
    where
        O: IntoIterator<IntoIter: Send + 'static, Item: 'static>,
    {
        self.then(Origin::here("flatten"), |prev, op| FlatMap::new(prev, op, |items: O| items))
    }
}
