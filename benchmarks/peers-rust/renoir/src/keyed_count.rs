//! Keyed count with Renoir's combiner (`group_by_count` counts in each partition first), or with
//! `--form plain` without it.

use std::sync::Arc;

use bench_protocol::digest::Digest;
use bench_protocol::workload::read_keys;
use bench_protocol::{Answer, Request, Result};

use crate::{batches, collected, context, cores, part};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let combine = match request.get("form").unwrap_or("combined") {
        "combined" => true,
        "plain" => false,
        other => return Err(format!("there is no form {other:?}: combined, plain").into()),
    };
    let keys = Arc::new(read_keys(request.data()?)?);
    bench_protocol::serve(request, |stopwatch| {
        let rows = stopwatch.time(|| count(&keys, combine, cores))?;
        let mut digest = Digest::default();
        rows.iter().for_each(|(key, count)| digest.add_number(*key, *count));
        let records = keys.len() as u64;
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}

fn count(keys: &Arc<Vec<u64>>, combine: bool, cores: u64) -> Result<Vec<(u64, u64)>> {
    let context = context(cores)?;
    let keys = Arc::clone(keys);
    let source = context
        .stream_par_iter(move |index, count| {
            let range = part(keys.len() as u64, index, count);
            let keys = Arc::clone(&keys);
            (range.start as usize..range.end as usize).map(move |at| keys[at])
        })
        .batch_mode(batches());
    let counts = if combine {
        let counts = source.group_by_count(|key: &u64| *key).unkey();
        counts.map(|(key, count)| (key, count as u64)).collect_vec()
    } else {
        source.group_by(|key| *key).fold(0u64, |count, _key| *count += 1).collect_vec()
    };
    context.execute_blocking();
    collected(counts)
}
