//! Merges two keyed streams into one.

use super::{FirstOf, KeyedStream, Pairs, Placed};
use crate::data::Data;
use crate::stream::{Chain, Received};

/// Two keyed streams merged into one of pairs.
type Merged<C, G, P, Q> = KeyedStream<
    Received<(<G as Pairs<C>>::OwnedKey, <G as Pairs<C>>::OwnedValue), <C as Chain>::Time>,
    FirstOf,
    <P as Placed>::Merged<Q>,
>;

impl<C: Chain, G: Pairs<C>, P: Placed> KeyedStream<C, G, P>
where
    G::OwnedKey: Data,
    G::OwnedValue: Data,
{
    /// Merges two keyed streams: emits the records of both as they arrive, under their keys.
    ///
    /// If both streams are partitioned by key, so is the result, and the operators after it need no exchange. If only
    /// one is, [`repartition`](Self::repartition) the other too, or leave the exchange to the operator that follows.
    /// The streams may find their keys in different ways; after [`group_by_ref`](crate::Stream::group_by_ref) each
    /// record's key is copied. For order, time and end see [`Stream::merge`](crate::Stream::merge).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (old, new) = (env.iter([(1, 5), (2, 6)]).keyed(), env.iter([(1, 7)]).keyed());
    /// let sums = old.merge(new).sum(|n| n * 10).collect::<std::collections::BTreeMap<_, _>>();
    /// env.run()?;
    /// assert_eq!(sums.take()?, [(1, 120), (2, 60)].into());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Streams of two environments are refused when the job starts.
    #[doc(alias("union", "concat"))]
    #[track_caller]
    pub fn merge<D, H, Q>(self, other: KeyedStream<D, H, Q>) -> Merged<C, G, P, Q>
    where
        D: Chain<Time = C::Time>,
        H: Pairs<D, OwnedKey = G::OwnedKey, OwnedValue = G::OwnedValue>,
        Q: Placed,
    {
        // All partitioned streams of an environment have the same number of tasks, so each task sends to the one that
        // owns the same keys. Where it is set, it is set for both.
        let merged = self.unkey().merge(other.unkey());
        if <P as Placed>::Merged::<Q>::IS_PARTITIONED {
            merged.builder().set_merged(merged.stage, false);
        }
        KeyedStream::new(merged, FirstOf)
    }
}

#[cfg(test)]
mod tests {
    use crate::check::check;
    use crate::{Environment, ErrorKind};

    fn exchanges(env: &Environment) -> usize {
        env.plan().operators.iter().filter(|op| op.kind == "repartition").count()
    }

    #[test]
    fn all_records_of_both_come_under_their_keys() {
        let expected = || (0..10u64).map(|key| (key, 150));
        check(|env| {
            let left = env.range(0..1000).group_by(|n| n % 10);
            left.merge(env.range(0..500).group_by(|n| n % 10)).count()
        })
        .equals(expected());
        check(|env| {
            let left = env.range(0..1000).group_by(|n| n % 10).repartition();
            let right = env.range(0..500).map(|n| (n % 10, n)).keyed().repartition();
            let merged = left.merge(right).stateful_map(0, |_, seen: &mut u64, _| {
                *seen += 1;
                *seen
            });
            let counts = merged.fold(0, |most: &mut u64, seen| *most = seen.max(*most));
            assert_eq!(exchanges(env), 2);
            counts
        })
        .equals(expected());
        check(|env| {
            let left = env.range(0..1000).group_by(|n| n % 10).repartition();
            let right = env.range(0..500).group_by(|n| n % 10);
            let counts = left.merge(right).count();
            assert_eq!(exchanges(env), 2);
            counts
        })
        .equals(expected());
    }

    #[test]
    fn a_stream_of_another_job_is_refused() {
        let (env, other) = (Environment::new(), Environment::new());
        let keyed = |env: &Environment| env.range(0..9).group_by(|n| n % 3);
        keyed(&env).merge(keyed(&other)).unkey().for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.operator().unwrap_or_default().starts_with("merge ("), "{error}");
    }
}
