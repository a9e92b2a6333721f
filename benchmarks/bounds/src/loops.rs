//! Loops over made-up numbers: `fused` (map, filter, sum) and `fusion` (additions, sum).

use std::hint::black_box;

use bench_protocol::workload::{fused_keep, fused_map, number, single_row};
use bench_protocol::{Answer, Request, Result, serve};

use crate::threads::{on_each, part};

pub(crate) fn serve_fused(request: &Request) -> Result<()> {
    sums(request, |range| range.map(fused_map).filter(|x| fused_keep(*x)).fold(0, wrapping))
}

/// `--maps N` additions of one are one addition of N: what instruction fusion must come to.
pub(crate) fn serve_fusion(request: &Request) -> Result<()> {
    let maps: u64 = request.value("maps")?;
    sums(request, |range| range.map(|i| number(i).wrapping_add(maps)).fold(0, wrapping))
}

fn wrapping(sum: u64, x: u64) -> u64 {
    sum.wrapping_add(x)
}

fn sums(request: &Request, sum: impl Fn(std::ops::Range<u64>) -> u64 + Sync) -> Result<()> {
    let cores = request.cores()?;
    let records: u64 = request.value("records")?;
    serve(request, |stopwatch| {
        let total = stopwatch.time(|| {
            let parts = on_each(cores, |index| sum(part(black_box(records), index, cores)));
            parts.into_iter().fold(0, wrapping)
        });
        Ok(Answer { digest: single_row(records, total), records, ..Answer::default() })
    })
}
