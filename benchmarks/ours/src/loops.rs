//! Loops over made-up numbers: `fused` (map, filter, sum) and `collatz`.

use crate::environment;
use bench_protocol::{Answer, Request, Result, serve, workload};

pub(crate) fn serve_fused(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let records: u64 = request.value("records")?;
    serve(request, |stopwatch| {
        let sum = stopwatch.time(|| -> thalweg::Result<u64> {
            let sum = env
                .range(0..records)
                .map(workload::fused_map)
                .filter(|number| workload::fused_keep(*number))
                .fold_assoc(
                    0_u64,
                    |sum, n| *sum = sum.wrapping_add(n),
                    |sum, n| *sum = sum.wrapping_add(n),
                )
                .collect::<Vec<_>>();
            env.run()?;
            Ok(sum.take()?.into_iter().fold(0, u64::wrapping_add))
        })?;
        let digest = workload::single_row(records, sum);
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}

pub(crate) fn serve_collatz(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let limit: u64 = request.value("limit")?;
    serve(request, |stopwatch| {
        let best = stopwatch.time(|| -> thalweg::Result<(u64, u32)> {
            let best = env
                .range(1..limit)
                .map(|n| (n, workload::collatz_steps(n)))
                .reduce(workload::collatz_better)
                .collect::<Vec<_>>();
            env.run()?;
            Ok(best.take()?.into_iter().fold((1, 0), workload::collatz_better))
        })?;
        let digest = workload::single_row(best.0, best.1.into());
        Ok(Answer { digest, records: limit - 1, bytes: 0, ..Answer::default() })
    })
}
