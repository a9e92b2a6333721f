//! Parallel iterators over ranges.

use bench_protocol::workload::{collatz_better, collatz_steps, fused_keep, fused_map, single_row};
use bench_protocol::{Answer, Request, Result};
use rayon::prelude::*;

pub(crate) fn serve_fused(request: &Request) -> Result<()> {
    let pool = crate::pool(request)?;
    let records: u64 = request.value("records")?;
    bench_protocol::serve(request, |stopwatch| {
        let sum = stopwatch.time(|| {
            pool.install(|| {
                (0..records)
                    .into_par_iter()
                    .map(fused_map)
                    .filter(|x| fused_keep(*x))
                    .reduce(|| 0, u64::wrapping_add)
            })
        });
        Ok(Answer { digest: single_row(records, sum), records, ..Answer::default() })
    })
}

pub(crate) fn serve_collatz(request: &Request) -> Result<()> {
    let pool = crate::pool(request)?;
    let limit: u64 = request.value("limit")?;
    bench_protocol::serve(request, |stopwatch| {
        let (number, steps) = stopwatch.time(|| {
            pool.install(|| {
                (1..limit)
                    .into_par_iter()
                    .map(|n| (n, collatz_steps(n)))
                    .reduce(|| (1, 0), collatz_better)
            })
        });
        let digest = single_row(number, u64::from(steps));
        Ok(Answer { digest, records: limit.saturating_sub(1), ..Answer::default() })
    })
}
