//! `barrier`: rounds of a loop in which nothing happens, on all cores.

use crate::environment;
use bench_protocol::{Answer, Request, Result, serve, workload};

pub(crate) fn serve_barrier(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let count: u64 = request.value("count")?;
    let tasks = request.cores()? as u64;
    serve(request, |stopwatch| {
        let rounds = stopwatch.time(|| -> thalweg::Result<u64> {
            let outcome = env
                .range(0..tasks)
                .replay(count, 0, |numbers, _| numbers.map(|number| *number))
                .fold(|_: &mut (), _| {}, |_, _| {})
                .all_rounds(|rounds: &mut u64, ()| *rounds += 1)
                .collect::<Vec<_>>();
            env.run()?;
            Ok(outcome.take()?.into_iter().map(|outcome| outcome.state).sum())
        })?;
        let digest = workload::single_row(count, rounds);
        Ok(Answer { digest, records: count, bytes: 0, ..Answer::default() })
    })
}
