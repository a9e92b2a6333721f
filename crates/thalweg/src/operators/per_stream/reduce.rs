//! One record made of all records.

use super::absorb::Absorb;
use crate::data::{Data, Ordered, Record};
use crate::error::Result;
use crate::flow::{Op, guard};
use crate::plan::Origin;
use crate::stream::{Chain, Stream};
use std::cmp::Ordering;
use std::sync::Arc;

impl<C, T> Stream<C>
where
    C: Chain<Item = T>,
    T: ?Sized + 'static,
{
    /// Makes one record of two, again and again, until one is left: in each task, and then of what
    /// the tasks have left. An empty stream gives an empty stream.
    ///
    /// The closure must be associative and commutative: which records meet is not said. Where the
    /// result is of another type than the records, see [`fold_assoc`](Self::fold_assoc).
    ///
    /// # Errors
    ///
    /// On a stream that does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let longest = env.iter(["one", "three", "two"]).map(str::to_owned).shuffle().reduce(|a, b| {
    ///     if b.len() > a.len() { b } else { a }
    /// });
    /// let out = longest.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["three"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn reduce<F>(self, f: F) -> Stream<impl Chain<Item = T, Time = C::Time>>
    where
        T: Data,
        F: Fn(T, T) -> T + Send + Sync + 'static,
    {
        self.reduce_as(Origin::here("reduce"), f)
    }

    /// The greatest record; of several such, any. An empty stream gives an empty stream.
    ///
    /// For the greatest few see [`top`](Self::top). Floats have no total order: compare them by
    /// [`max_by`](Self::max_by) with `f64::total_cmp`.
    ///
    /// # Errors
    ///
    /// On a stream that does not end, the job is refused at its start.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 2]).max().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [3]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn max(self) -> Stream<impl Chain<Item = T, Time = C::Time>>
    where
        T: Data + Ordered,
    {
        self.reduce_as(Origin::here("max"), T::max)
    }

    /// The least record; of several such, any. See [`max`](Self::max).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([3, 1, 2]).min().collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [1]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min(self) -> Stream<impl Chain<Item = T, Time = C::Time>>
    where
        T: Data + Ordered,
    {
        self.reduce_as(Origin::here("min"), T::min)
    }

    /// The greatest record by this order; of several such, any. See [`max`](Self::max).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([0.5, 2.5, 1.5]).max_by(f64::total_cmp).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [2.5]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn max_by<F>(self, compare: F) -> Stream<impl Chain<Item = T, Time = C::Time>>
    where
        T: Data,
        F: Fn(&T, &T) -> Ordering + Send + Sync + 'static,
    {
        let greater = move |a: T, b: T| if compare(&b, &a).is_gt() { b } else { a };
        self.reduce_as(Origin::here("max_by"), greater)
    }

    /// The least record by this order; of several such, any. See [`max`](Self::max).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter([-3_i32, 2]).min_by(|a, b| a.abs().cmp(&b.abs())).collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [2]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn min_by<F>(self, compare: F) -> Stream<impl Chain<Item = T, Time = C::Time>>
    where
        T: Data,
        F: Fn(&T, &T) -> Ordering + Send + Sync + 'static,
    {
        let lesser = move |a: T, b: T| if compare(&b, &a).is_lt() { b } else { a };
        self.reduce_as(Origin::here("min_by"), lesser)
    }

    fn reduce_as<F>(self, origin: Origin, f: F) -> Stream<impl Chain<Item = T, Time = C::Time>>
    where
        T: Data,
        F: Fn(T, T) -> T + Send + Sync + 'static,
    {
        const WHY: &str = "its result would never be known";
        let local = Arc::new(f);
        let global = Arc::clone(&local);
        let reducing = |f: &Arc<F>| Reducing { value: None, f: Arc::clone(f) };
        self.absorb(origin, "local".to_owned(), WHY, move |_, _| reducing(&local))
            .with_state(false, T::schema())
            .gather(origin)
            .absorb(origin, "global".to_owned(), WHY, move |_, _| reducing(&global))
            .with_state(false, T::schema())
    }
}

struct Reducing<T, F> {
    value: Option<T>,
    f: Arc<F>,
}

impl<T, F> Absorb<T> for Reducing<T, F>
where
    T: Data,
    F: Fn(T, T) -> T + Send + Sync + 'static,
{
    type Out = T;

    #[inline(always)]
    fn take(&mut self, item: T) -> Result<()> {
        self.value = Some(match self.value.take() {
            Some(value) => (self.f)(value, item),
            None => item,
        });
        Ok(())
    }

    #[inline(always)]
    fn take_run<'a>(
        &mut self,
        op: &Op,
        mut items: impl Iterator<Item = <T as Record>::Of<'a>>,
    ) -> Result<()> {
        if let Some(first) = self.value.take().or_else(|| items.next()) {
            self.value = Some(items.fold(first, |a, b| guard(op, || (self.f)(a, b))));
        }
        Ok(())
    }

    fn give(&mut self) -> Result<Option<T>> {
        Ok(self.value.take())
    }

    /// Giving has left nothing.
    fn restart(&mut self) {}
}

#[cfg(test)]
mod tests {
    use crate::check::every;

    #[test]
    fn one_record_is_left_of_many_and_none_of_none() {
        every(|env| {
            let numbers = |n| env.iter((0..n).map(|n| (n * 7919) % 1009)).shuffle();
            let sum = numbers(1009_u64).reduce(|a, b| a + b).collect::<Vec<_>>();
            let max = numbers(1009).max().collect::<Vec<_>>();
            let min = numbers(1009).map(|n| n + 5).min().collect::<Vec<_>>();
            let one = numbers(1).max_by(|_, _| panic!("one has no other")).collect::<Vec<_>>();
            let none = numbers(0).min_by(|a, b| a.cmp(b)).collect::<Vec<_>>();
            env.run()?;
            assert_eq!(sum.take()?, [1008 * 1009 / 2]);
            assert_eq!((max.take()?, min.take()?), (vec![1008], vec![5]));
            assert_eq!((one.take()?, none.take()?), (vec![0], vec![]));
            Ok(())
        });
    }
}
