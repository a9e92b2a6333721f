//! Counting words and numbers.

use crate::environment;
use bench_protocol::digest::Digest;
use bench_protocol::{Answer, Request, Result, serve, workload};
use std::sync::Arc;
use thalweg::text::LowercaseWords;

pub(crate) fn serve_wordcount(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let path = request.data()?.to_owned();
    let bytes = std::fs::metadata(&path)?.len();
    let assoc = request.get("form") == Some("assoc");
    serve(request, |stopwatch| {
        let rows = stopwatch.time(|| -> thalweg::Result<Vec<(String, u64)>> {
            let words =
                env.lines(path.clone()).flat_each(LowercaseWords).group_by_ref(|word| *word);
            let rows = if assoc {
                words.fold_assoc(0, |n, _| *n += 1, |n, m| *n += m).collect()
            } else {
                words.count().collect()
            };
            env.run()?;
            rows.take()
        })?;
        let mut digest = Digest::default();
        let mut records = 0;
        for (word, count) in rows {
            digest.add(word.as_bytes(), count);
            records += count;
        }
        Ok(Answer { digest, records, bytes, extra: Vec::new() })
    })
}

pub(crate) fn serve_keyed_count(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let keys = Arc::new(workload::read_keys(request.data()?)?);
    let records = keys.len() as u64;
    serve(request, |stopwatch| {
        let rows = stopwatch.time(|| -> thalweg::Result<Vec<(u64, u64)>> {
            let keys = Arc::clone(&keys);
            let share = move |task: usize, tasks: usize| {
                let (from, to) = (keys.len() * task / tasks, keys.len() * (task + 1) / tasks);
                let keys = Arc::clone(&keys);
                (from..to).map(move |at| keys[at])
            };
            let rows = env.parallel_iter(share).group_by_ref(|key| key).count().collect();
            env.run()?;
            rows.take()
        })?;
        let mut digest = Digest::default();
        for (key, count) in rows {
            digest.add_number(key, count);
        }
        Ok(Answer { digest, records, bytes: records * 8, extra: Vec::new() })
    })
}
