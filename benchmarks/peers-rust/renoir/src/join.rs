//! Two tables of keys joined by Renoir's `join`, and all pairs added up.

use std::path::PathBuf;
use std::sync::Arc;

use bench_protocol::workload::{Pairs, read_keys};
use bench_protocol::{Answer, Request, Result};
use renoir::Stream;
use renoir::operator::Operator;
use renoir::prelude::*;

use crate::{batches, collected, context, cores, part};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let left = Arc::new(read_keys(request.data()?)?);
    let right = Arc::new(read_keys(request.value::<PathBuf>("table")?.as_path())?);
    let records = (left.len() + right.len()) as u64;
    bench_protocol::serve(request, |stopwatch| {
        let pairs = stopwatch.time(|| -> Result<_> {
            let context = context(cores)?;
            let (left, right) = (rows(&context, &left), rows(&context, &right));
            let pairs = left
                .join(right, |row| row.0, |row| row.0)
                .unkey()
                .fold_assoc(
                    (0u64, 0u64),
                    |(count, sum), (_, (left, right))| {
                        let mut pairs = Pairs { count: *count, sum: *sum };
                        pairs.add(left.1, right.1);
                        (*count, *sum) = (pairs.count, pairs.sum);
                    },
                    |(count, sum), (others, other)| {
                        *count += others;
                        *sum = sum.wrapping_add(other);
                    },
                )
                .collect_vec();
            context.execute_blocking();
            collected(pairs)
        })?;
        let (count, sum) = pairs.first().copied().unwrap_or_default();
        let digest = Pairs { count, sum }.digest();
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}

/// Each key with its place.
fn rows(
    context: &StreamContext,
    keys: &Arc<Vec<u64>>,
) -> Stream<impl Operator<Out = (u64, u64)> + use<>> {
    let keys = Arc::clone(keys);
    context
        .stream_par_iter(move |index, count| {
            let range = part(keys.len() as u64, index, count);
            let keys = Arc::clone(&keys);
            range.map(move |at| (keys[at as usize], at))
        })
        .batch_mode(batches())
}
