//! The `reduce` operator: one record made of all records.

use super::absorb::{AGGREGATE, Absorb, AtBarrier};
use crate::checkpoint::{Saving, StateHandle};
use crate::data::{Data, Record};
use crate::error::Result;
use crate::flow::{Op, guard};
use crate::plan::{Details, Origin, Scope, TaskContext};
use crate::stream::{Chain, Stream};
use crate::support::owned_heap::OwnedHeap;
use std::sync::Arc;

impl<C, T> Stream<C>
where
    C: Chain<Item = T>,
    T: ?Sized + 'static,
{
    /// Combines two records into one, repeatedly, until one is left: in each task, and then over the results of
    /// the tasks. An empty stream has an empty result.
    ///
    /// The closure must be associative and commutative: the order in which records are combined is unspecified.
    /// Where the result has another type than the records, see [`fold_assoc`](Self::fold_assoc).
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start. The job stops when the memory budget does not hold the record that
    /// is left in each task.
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
        const WHY: &str =
            "its result would never be known; `window_all(…)` has results before the end";
        let origin = Origin::here("reduce");
        let local = Arc::new(f);
        let global = Arc::clone(&local);
        self.absorb(origin, Details::of("phase", "local"), WHY, move |cx, op| {
            Reducing::new((cx, op), &local, AtBarrier::Given)
        })
        .with_state::<T>(Scope::Task)
        .gather(origin)
        .absorb(origin, Details::of("phase", "global"), WHY, move |cx, op| {
            Reducing::new((cx, op), &global, AtBarrier::Saved)
        })
        .with_state::<T>(Scope::Task)
    }
}

struct Reducing<T, F> {
    value: Option<T>,
    f: Arc<F>,
    at_barrier: AtBarrier,
    heap: OwnedHeap<T>,
}

impl<T: Data, F> Reducing<T, F> {
    fn new((cx, op): (&TaskContext<'_>, usize), f: &Arc<F>, at_barrier: AtBarrier) -> Self {
        let heap = OwnedHeap::new(cx, op, AGGREGATE);
        Self { value: None, f: Arc::clone(f), at_barrier, heap }
    }
}

impl<T, F> Absorb<T> for Reducing<T, F>
where
    T: Data,
    F: Fn(T, T) -> T + Send + Sync + 'static,
{
    type Out = T;
    type Saved = T;
    const IS_FOLD: bool = true;

    #[inline(always)]
    fn take(&mut self, item: T) -> Result<()> {
        self.heap.changed();
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
            let mut times = 1;
            self.value = Some(items.fold(first, |a, b| {
                times += 1;
                guard(op, || (self.f)(a, b))
            }));
            self.heap.changed_times(times);
        }
        Ok(())
    }

    fn give(&mut self) -> Result<Option<T>> {
        self.heap.release();
        Ok(self.value.take())
    }

    fn give_way(&mut self) -> Result<()> {
        self.heap.fit(self.value.as_ref())
    }

    /// Nothing to reset: `give` has taken the value.
    fn restart(&mut self) {}

    fn at_barrier(&self) -> AtBarrier {
        self.at_barrier
    }

    fn save(&self, out: &mut Saving) {
        if let Some(value) = &self.value {
            out.add(value);
        }
    }

    fn restore(&mut self, state: &StateHandle) -> Result<()> {
        self.heap.changed();
        state.restore(|value| {
            self.value = Some(value);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;

    #[test]
    fn one_record_is_left_of_many_and_none_of_none() {
        every(|env| {
            let numbers = |n| env.iter((0..n).map(|n| (n * 7919) % 1009)).shuffle();
            let sum = numbers(1009_u64).reduce(|a, b| a + b).collect::<Vec<_>>();
            let one = numbers(1).reduce(|_, _| panic!("one has no other")).collect::<Vec<_>>();
            let none = numbers(0).reduce(|a, b| a + b).collect::<Vec<_>>();
            env.run()?;
            assert_eq!(sum.take()?, [1008 * 1009 / 2]);
            assert_eq!((one.take()?, none.take()?), (vec![0], vec![]));
            Ok(())
        });
    }
}
