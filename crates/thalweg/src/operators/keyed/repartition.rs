//! Repartitioning by key on request.

use super::partition::Placed;
use super::{KeyBy, KeyedStream, Partitioned};
use crate::data::Wire;
use crate::plan::Origin;
use crate::stream::Chain;

/// A keyed stream whose records are in the tasks that own their keys.
type PartitionedChain<C, G, P> =
    KeyedStream<<P as Placed>::PartitionedChain<C, G>, <P as Placed>::Keys<C, G>, Partitioned>;

impl<C: Chain<Item: Wire>, G: KeyBy<C::Item>, P: Placed> KeyedStream<C, G, P> {
    /// Moves each record to the task that owns its key, if it is not there yet.
    ///
    /// The operators after it run in the tasks that own the keys. There are several of these per core
    /// ([`keyed_tasks_per_core`](crate::config::Config::keyed_tasks_per_core)), so that idle cores take over tasks of
    /// busy ones when some keys need more work than others. Operators that need all records of a key in one task
    /// repartition by themselves; use this method to move the work of operators that do not. Where the key does not
    /// matter, [`shuffle`](crate::Stream::shuffle) spreads records more evenly.
    ///
    /// Records with the same key from the same sending task keep their order. Costs an exchange; a stream that is
    /// already partitioned by this key is returned as it is.
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
    pub fn repartition(self) -> PartitionedChain<C, G, P> {
        P::partitioned(self, Origin::here("repartition"))
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
                // Emits, with each record, whether its key is new in this task.
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
    fn partitioned_streams_are_not_sent_again() {
        let env = crate::Environment::new();
        let _out = env
            .iter(0..9)
            .group_by(|n| n % 3)
            .repartition()
            .repartition()
            .count()
            .collect::<Vec<_>>();
        let exchanges = env.plan().operators.iter().filter(|op| op.kind == "repartition").count();
        assert_eq!(exchanges, 1);
    }
}
