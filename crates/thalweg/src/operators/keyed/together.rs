//! Bringing the records of each key together, before what follows needs it.

use super::partition::Placement;
use super::{KeyBy, KeyedStream, Partitioned};
use crate::data::Wire;
use crate::plan::Origin;
use crate::stream::Chain;

/// A keyed stream whose records are in the tasks that own their keys.
type Together<C, G, P> =
    KeyedStream<<P as Placement<C, G>>::Chain, <P as Placement<C, G>>::Keys, Partitioned>;

impl<C: Chain<Item: Wire>, G: KeyBy<C::Item>, P: Placement<C, G>> KeyedStream<C, G, P> {
    /// Moves each record to the task that owns its key, if it is not there yet.
    ///
    /// What follows then runs in the tasks of the keys, of which there are several a core
    /// ([`keyed_tasks_per_core`](crate::config::Config::keyed_tasks_per_core)), so that idle cores
    /// take over from busy ones when some keys have more to do than others. Operators that need
    /// the records of a key in one place see to it by themselves: use this to place work that
    /// does not need it. Where no key matters, [`shuffle`](crate::Stream::shuffle) spreads records
    /// more evenly.
    ///
    /// Records of one task before and one key keep their order. Costs an exchange; a stream that
    /// is partitioned by this key already is left as it is.
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let roots = env.iter(0..100u64).group_by(|n| n % 7).repartition().map(|_, n| (n as f64).sqrt());
    /// let out = roots.collect::<Vec<_>>();
    /// env.run()?;
    /// assert_eq!(out.take()?.len(), 100);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    #[track_caller]
    pub fn repartition(self) -> Together<C, G, P> {
        P::together(self, Origin::here("repartition"))
    }
}

#[cfg(test)]
mod tests {
    use crate::check::every;
    use std::collections::BTreeSet;

    #[test]
    fn a_key_has_one_task_and_nothing_is_lost() {
        every(|env| {
            let firsts = env
                .range(0..5_000)
                .group_by(|n| n % 97)
                .repartition()
                .map(|_, n| n)
                .unkey()
                // A task says of each record whether its key is new to this task.
                .stateful_map(Vec::new(), |seen: &mut Vec<u64>, (key, n)| {
                    let new = !seen.contains(&key);
                    if new {
                        seen.push(key);
                    }
                    (n, new)
                })
                .collect::<Vec<_>>();
            env.run()?;
            let firsts = firsts.take()?;
            let records: BTreeSet<u64> = firsts.iter().map(|(n, _)| *n).collect();
            assert!(records.into_iter().eq(0..5_000));
            assert_eq!(firsts.len(), 5_000);
            assert_eq!(firsts.iter().filter(|(_, new)| *new).count(), 97);
            Ok(())
        });
    }

    #[test]
    fn what_is_together_is_not_moved_again() {
        let env = crate::Environment::new();
        let _out = env
            .iter(0..9)
            .group_by(|n| n % 3)
            .repartition()
            .repartition()
            .count()
            .collect::<Vec<_>>();
        let exchanges = env.plan().operators.iter().filter(|op| op.kind == "partition").count();
        assert_eq!(exchanges, 1);
    }
}
