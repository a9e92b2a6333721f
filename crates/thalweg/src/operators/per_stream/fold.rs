//! The `fold` operators: one value made of all records.

use super::absorb::{AtBarrier, Folding};
use crate::data::{Data, Portable, Record};
use crate::plan::{Details, Origin, Scope};
use crate::stream::{Chain, Stream};
use std::sync::Arc;

impl<C: Chain> Stream<C> {
    /// Folds every record into one value, in one task, and emits that value at the end.
    ///
    /// All records go to that task: prefer [`fold_assoc`](Self::fold_assoc) where partial results can be
    /// computed in parallel and then combined. The order of the records is that of arrival: that of the source
    /// where the stream has one task, and otherwise only the records of each task keep their order. The result
    /// of an empty stream is `init`.
    ///
    /// Memory: one state, with what it owns on the heap. For a state that grows with the
    /// input, such as a list of all records, use [`collect`](Self::collect) or [`sorted`](Self::sorted).
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start. The job stops when the memory budget does not hold the state.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let line = env.iter(["a", "b", "c"]).map(str::to_owned).fold(String::new(), |line, part| {
    ///     line.push_str(&part);
    /// });
    /// let out = line.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, ["abc"]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fold<S, F>(self, init: S, f: F) -> Stream<impl Chain<Item = S, Time = C::Time>>
    where
        C::Item: Portable,
        S: Data + Clone,
        F: for<'a> Fn(&mut S, <C::Item as Record>::Of<'a>) + Send + Sync + 'static,
    {
        let origin = Origin::here("fold");
        let f = Arc::new(move |value: &mut S, item: <C::Item as Record>::Of<'_>| {
            f(value, item);
            Ok(())
        });
        let init = Init::new(init);
        self.gather(origin)
            .absorb(origin, Details::none(), WHY, move |cx, op| {
                Folding::new((cx, op), init.get(), &f, AtBarrier::Saved)
            })
            .with_state::<S>(Scope::Task)
    }

    /// Folds the records of each task separately, then combines the tasks' values in one task, and emits the
    /// result at the end.
    ///
    /// `local` folds a record into a task's value, `global` merges one such value into another. Every task
    /// begins with `init`, and so does the one that combines them: it must be neutral, as 0 is for a sum.
    /// `global` must be associative and commutative: which task has which records, and which one ends first, is
    /// unspecified. Almost nothing crosses the exchange.
    ///
    /// Memory: one state per task, with what it owns on the heap.
    ///
    /// # Errors
    ///
    /// If the stream does not end, the job is refused at its start. The job stops when the memory budget does not hold the states.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// // The sums of the even and of the odd numbers.
    /// let sums = env.range(0..1000).fold_assoc(
    ///     [0_u64; 2],
    ///     |sums, n| sums[n as usize % 2] += n,
    ///     |sums, other| (0..2).for_each(|at| sums[at] += other[at]),
    /// );
    /// let out = sums.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?, [[249_500, 250_000]]);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn fold_assoc<S, L, G>(
        self,
        init: S,
        local: L,
        global: G,
    ) -> Stream<impl Chain<Item = S, Time = C::Time>>
    where
        S: Data + Clone,
        L: for<'a> Fn(&mut S, <C::Item as Record>::Of<'a>) + Send + Sync + 'static,
        G: Fn(&mut S, S) + Send + Sync + 'static,
    {
        let local = move |value: &mut S, item: <C::Item as Record>::Of<'_>| {
            local(value, item);
            Ok(())
        };
        let global = move |value: &mut S, other: S| {
            global(value, other);
            Ok(())
        };
        let origin = Origin::here("fold_assoc");
        let (local, global) = (Arc::new(local), Arc::new(global));
        let init = Init::new(init);
        let first = init.clone();
        self.absorb(origin, Details::of("phase", "local"), WHY, move |cx, op| {
            Folding::new((cx, op), first.get(), &local, AtBarrier::Given)
        })
        .with_state::<S>(Scope::Task)
        .gather(origin)
        .absorb(origin, Details::of("phase", "global"), WHY, move |cx, op| {
            Folding::new((cx, op), init.get(), &global, AtBarrier::Saved)
        })
        .with_state::<S>(Scope::Task)
    }
}

const WHY: &str = "its result would never be known; `window_all(…)` has results before the end";

/// The initial value of folds: cloned once per task, and behind a lock as it may not be `Sync`.
#[derive(Clone)]
struct Init<S>(Arc<crate::sync::Mutex<S>>);

impl<S: Clone> Init<S> {
    fn new(value: S) -> Self {
        Self(Arc::new(crate::sync::Mutex::new(value)))
    }

    fn get(&self) -> S {
        crate::sync::lock(&self.0).clone()
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;

    #[test]
    fn folds_agree_with_iterators() {
        every(|env| {
            let whole = env.iter(0..1000_u64).fold(Vec::new(), |all, n| all.push(n));
            let whole = whole.collect::<Vec<_>>();
            let parts = env
                .iter(0..1000_u64)
                .shuffle()
                .flat_map_str(|n, out| out.push(&n.to_string()))
                .fold_assoc(
                    (0, 0),
                    |s, text| s.0 += text.len(),
                    |s, other| {
                        s.0 += other.0;
                        s.1 += 1;
                    },
                )
                .collect::<Vec<_>>();
            let tasks = env.default_tasks();
            env.run()?;
            assert_eq!(whole.take()?, [(0..1000).collect::<Vec<u64>>()]);
            assert_eq!(parts.take()?, [(10 + 90 * 2 + 900 * 3, tasks)]);
            Ok(())
        });
    }

    #[test]
    fn an_empty_stream_gives_the_first_value() {
        every(|env| {
            let out = env.iter(0..0_u64).fold(7, |_, _| panic!("nothing to fold"));
            let out = out.collect::<Vec<u8>>();
            env.run()?;
            assert_eq!(out.take()?, [7]);
            Ok(())
        });
    }

    /// The end must not overtake the results of a fold before it, nor the records made of them.
    #[test]
    fn a_long_list_comes_out_whole() {
        every(|env| {
            let out = env
                .iter(0..50_000_u64)
                .fold(Vec::new(), |all, n| all.push(n))
                .flatten()
                .shuffle()
                .count()
                .collect_one();
            env.run()?;
            assert_eq!(out.take()?, Some(50_000));
            Ok(())
        });
    }
}
