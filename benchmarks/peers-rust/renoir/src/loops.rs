//! Jobs without an exchange worth the name: `fused`, `fusion`, `collatz`.

use bench_protocol::workload::{
    collatz_better, collatz_steps, fused_keep, fused_map, number, single_row,
};
use bench_protocol::{Answer, Request, Result};
use renoir::prelude::*;

use crate::{batches, collected, context, cores, part};

/// A single value that a job reduced everything to.
fn single<T>(output: StreamOutput<Vec<T>>) -> Result<T> {
    collected(output)?.pop().ok_or_else(|| "the job gave no result".into())
}

pub(crate) fn serve_fused(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let records: u64 = request.value("records")?;
    bench_protocol::serve(request, |stopwatch| {
        let sum = stopwatch.time(|| -> Result<u64> {
            let context = context(cores)?;
            let sum = context
                .stream_par_iter(move |index, count| part(records, index, count))
                .batch_mode(batches())
                .map(fused_map)
                .filter(|x| fused_keep(*x))
                .fold_assoc(0u64, add, add)
                .collect_vec();
            context.execute_blocking();
            single(sum)
        })?;
        Ok(Answer { digest: single_row(records, sum), records, ..Answer::default() })
    })
}

fn add(sum: &mut u64, x: u64) {
    *sum = sum.wrapping_add(x);
}

/// Ten maps, each adding one.
macro_rules! ten_maps {
    ($stream:expr) => {
        $stream
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
            .map(|x| x + 1)
    };
}

pub(crate) fn serve_fusion(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let records: u64 = request.value("records")?;
    if request.value::<u32>("maps")? != 50 {
        return Err("Renoir's program has 50 maps; their number is part of its type".into());
    }
    bench_protocol::serve(request, |stopwatch| {
        let sum = stopwatch.time(|| -> Result<u64> {
            let context = context(cores)?;
            let source = context
                .stream_par_iter(move |index, count| part(records, index, count).map(number))
                .batch_mode(batches());
            let mapped = ten_maps!(ten_maps!(ten_maps!(ten_maps!(ten_maps!(source)))));
            let sum = mapped.fold_assoc(0u64, add, add).collect_vec();
            context.execute_blocking();
            single(sum)
        })?;
        Ok(Answer { digest: single_row(records, sum), records, ..Answer::default() })
    })
}

pub(crate) fn serve_collatz(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let limit: u64 = request.value("limit")?;
    bench_protocol::serve(request, |stopwatch| {
        let (number, steps) = stopwatch.time(|| -> Result<(u64, u32)> {
            let context = context(cores)?;
            let best = context
                .stream_par_iter(move |index, count| {
                    // Round robin: neighbours cost alike, the low and the high numbers do not.
                    (1 + index..limit).step_by(count as usize)
                })
                .batch_mode(batches())
                .map(|n| (n, collatz_steps(n)))
                .reduce_assoc(collatz_better)
                .collect_vec();
            context.execute_blocking();
            single(best)
        })?;
        let digest = single_row(number, u64::from(steps));
        Ok(Answer { digest, records: limit.saturating_sub(1), ..Answer::default() })
    })
}
