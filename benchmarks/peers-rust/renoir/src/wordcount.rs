//! Word count: the two forms of Renoir's documentation and a fold by hand.

use std::collections::HashMap;
use std::path::Path;

use bench_protocol::digest::Digest;
use bench_protocol::{Answer, Request, Result};

use crate::{batches, collected, context, cores};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let path = request.data()?;
    let form = match request.get("form").unwrap_or("idiomatic") {
        "idiomatic" => idiomatic,
        "assoc" => assoc,
        "folded" => folded,
        other => return Err(format!("there is no form {other:?}: idiomatic, assoc, folded").into()),
    };
    bench_protocol::serve(request, |stopwatch| {
        let rows = stopwatch.time(|| form(path, cores))?;
        let mut digest = Digest::default();
        rows.iter().for_each(|(word, count)| digest.add(word.as_bytes(), *count));
        let records = rows.iter().map(|(_, count)| count).sum();
        Ok(Answer { digest, records, bytes: path.metadata()?.len(), ..Answer::default() })
    })
}

fn words(line: &str) -> Vec<String> {
    line.split(|c: char| !c.is_ascii_alphabetic())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect()
}

/// Group, then fold each group.
fn idiomatic(path: &Path, cores: u64) -> Result<Vec<(String, u64)>> {
    let context = context(cores)?;
    let counts = context
        .stream_file(path)
        .batch_mode(batches())
        .flat_map(|line| words(&line))
        .group_by(|word| word.clone())
        .fold(0u64, |count, _word| *count += 1)
        .collect_vec();
    context.execute_blocking();
    collected(counts)
}

/// The associative operator: counts in each partition first.
fn assoc(path: &Path, cores: u64) -> Result<Vec<(String, u64)>> {
    let context = context(cores)?;
    let counts = context
        .stream_file(path)
        .batch_mode(batches())
        .flat_map(|line| words(&line))
        .group_by_count(|word: &String| word.clone())
        .unkey()
        .map(|(word, count)| (word, count as u64))
        .collect_vec();
    context.execute_blocking();
    collected(counts)
}

/// A map in each partition, filled by hand, and the maps merged.
fn folded(path: &Path, cores: u64) -> Result<Vec<(String, u64)>> {
    let context = context(cores)?;
    let counts = context
        .stream_file(path)
        .batch_mode(batches())
        .flat_map(|line| words(&line))
        .fold_assoc(
            HashMap::<String, u64>::new(),
            |counts, word| *counts.entry(word).or_default() += 1,
            |counts, other| {
                for (word, count) in other {
                    *counts.entry(word).or_default() += count;
                }
            },
        )
        .collect_vec();
    context.execute_blocking();
    Ok(collected(counts)?.into_iter().flatten().collect())
}
