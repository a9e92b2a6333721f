//! Moving numbers between tasks, and computing with them in one.

use crate::environment;
use bench_protocol::workload::{self, NumberCheck};
use bench_protocol::{Answer, Request, Result, serve};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) fn serve_exchange(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let records: u64 = request.value("records")?;
    serve(request, |stopwatch| {
        let all = stopwatch.time(|| -> thalweg::Result<NumberCheck> {
            let all = Arc::new(Mutex::new(NumberCheck::default()));
            let merged = Arc::clone(&all);
            let seen = env
                .range(0..records)
                .map(workload::number)
                .partition_by(|number, tasks| {
                    ((u128::from(*number) * tasks as u128) >> 64) as usize
                })
                .map_volatile({
                    let mut mine = Mine { check: NumberCheck::default(), merged };
                    move |number| {
                        // The closure takes all of it, and so its destructor too.
                        let mine = &mut mine;
                        mine.check.add(number);
                    }
                })
                .count();
            env.run()?;
            seen.take()?;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            Ok(std::mem::take(&mut *all))
        })?;
        Ok(Answer { digest: all.digest(), records, bytes: records * 8, extra: Vec::new() })
    })
}

/// What one task has seen, merged with the others' when the task is gone.
struct Mine {
    check: NumberCheck,
    merged: Arc<Mutex<NumberCheck>>,
}

impl Clone for Mine {
    fn clone(&self) -> Self {
        Self { check: NumberCheck::default(), merged: Arc::clone(&self.merged) }
    }
}

impl Drop for Mine {
    fn drop(&mut self) {
        let seen = std::mem::take(&mut self.check);
        self.merged.lock().unwrap_or_else(PoisonError::into_inner).merge(seen);
    }
}

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
        Ok(Answer { digest, records, bytes: records * 8, extra: Vec::new() })
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
        Ok(Answer { digest, records: limit - 1, bytes: 0, extra: Vec::new() })
    })
}
