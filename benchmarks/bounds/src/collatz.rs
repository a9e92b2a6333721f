//! The longest Collatz sequence: threads take chunks of numbers from a shared counter.

use std::sync::atomic::{AtomicU64, Ordering};

use bench_protocol::workload::{collatz_better, collatz_steps, single_row};
use bench_protocol::{Answer, Request, Result};

use crate::threads::on_each;

/// Numbers a thread takes at a time: enough to make the counter free, few enough that the threads
/// end together.
const CHUNK: u64 = 4096;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let limit: u64 = request.value("limit")?;
    bench_protocol::serve(request, |stopwatch| {
        let (number, steps) = stopwatch.time(|| longest(limit, cores));
        let digest = single_row(number, u64::from(steps));
        Ok(Answer { digest, records: limit.saturating_sub(1), ..Answer::default() })
    })
}

fn longest(limit: u64, cores: usize) -> (u64, u32) {
    let next = AtomicU64::new(1);
    let bests = on_each(cores, |_| {
        let mut best = (1, 0);
        loop {
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= limit {
                return best;
            }
            for n in start..limit.min(start + CHUNK) {
                best = collatz_better(best, (n, collatz_steps(n)));
            }
        }
    });
    bests.into_iter().fold((1, 0), collatz_better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_below_ten_thousand() {
        assert_eq!(longest(10_000, 3), (6171, 261));
        assert_eq!(longest(2, 1), (1, 0));
    }
}
