//! Two tables of keys joined, and all pairs added up.

use crate::environment;
use bench_protocol::workload::{Pairs, read_keys};
use bench_protocol::{Answer, Request, Result, serve};
use std::sync::Arc;
use thalweg::{Chain, Environment, Stream};

pub(crate) fn serve_join(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let left = Arc::new(read_keys(request.data()?)?);
    let right = Arc::new(read_keys(request.value::<std::path::PathBuf>("table")?.as_path())?);
    let records = (left.len() + right.len()) as u64;
    serve(request, |stopwatch| {
        let pairs = stopwatch.time(|| -> thalweg::Result<_> {
            let (left, right) = (rows(&env, &left).keyed(), rows(&env, &right).keyed());
            let pairs = left.join(right).unkey().fold_assoc(
                (0, 0),
                |all, (_, (left, right))| {
                    let mut pairs = Pairs { count: all.0, sum: all.1 };
                    pairs.add(left, right);
                    *all = (pairs.count, pairs.sum);
                },
                |all: &mut (u64, u64), other| *all = (all.0 + other.0, all.1.wrapping_add(other.1)),
            );
            let pairs = pairs.collect::<Vec<_>>();
            env.run()?;
            pairs.take()
        })?;
        let (count, sum) = pairs.first().copied().unwrap_or_default();
        Ok(Answer {
            digest: Pairs { count, sum }.digest(),
            records,
            bytes: records * 8,
            ..Answer::default()
        })
    })
}

/// Each key with its place.
fn rows(
    env: &Environment,
    keys: &Arc<Vec<u64>>,
) -> Stream<impl Chain<Item = (u64, u64), Time = ()> + use<>> {
    let keys = Arc::clone(keys);
    env.parallel_iter(move |task: usize, tasks: usize| {
        let (from, to) = (keys.len() * task / tasks, keys.len() * (task + 1) / tasks);
        let keys = Arc::clone(&keys);
        (from..to).map(move |at| (keys[at], at as u64))
    })
}
