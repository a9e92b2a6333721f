//! The skew bench by hand: no partitions and no channels. A root depends on nothing but its item, so
//! threads take chunks of items from a shared counter, which no split of the ids can disturb.

use std::sync::atomic::{AtomicUsize, Ordering};

use bench_protocol::digest::Digest;
use bench_protocol::workload::{Item, newton_sqrt, read_items};
use bench_protocol::{Answer, Request, Result};

use crate::threads::on_each;

/// Items a thread takes at a time: few enough that the threads end together.
const CHUNK: usize = 256;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let iterations: u32 = request.value("iterations")?;
    let items = read_items(request.data()?)?;
    bench_protocol::serve(request, |stopwatch| {
        let digest = stopwatch.time(|| roots(&items, cores, iterations));
        let records = items.len() as u64;
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}

fn roots(items: &[Item], cores: usize, iterations: u32) -> Digest {
    let next = AtomicUsize::new(0);
    let digests = on_each(cores, |_| {
        let mut digest = Digest::default();
        while let Some(rest) = items.get(next.fetch_add(CHUNK, Ordering::Relaxed)..) {
            for item in rest.iter().take(CHUNK) {
                let root = newton_sqrt(item.number, iterations);
                digest.add_number(u64::from(item.id), root.to_bits());
            }
        }
        digest
    });
    let mut digest = Digest::default();
    digests.into_iter().for_each(|part| digest.merge(part));
    digest
}
