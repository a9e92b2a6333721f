//! Word count: the two forms of Renoir's documentation and a fold by hand.

use std::path::Path;
use std::sync::Arc;

use bench_protocol::{Request, Result, Stopwatch, serve_parts};
use bench_words::{Counts, Split, WithSplit, answer, count, merge, owned, with_split};
use renoir::RuntimeConfig;

use crate::{batches, context_on, rows_of, runtime};

/// The words of a job.
type Rows = Vec<(String, u64)>;

pub(crate) fn serve(request: &Request) -> Result<()> {
    with_split(request, Serve(request))
}

struct Serve<'a>(&'a Request);

impl WithSplit for Serve<'_> {
    fn run(self, split: impl Split) -> Result<()> {
        let Self(request) = self;
        let runtime = runtime(request)?;
        let path = request.data()?;
        let form = match request.get("form").unwrap_or("idiomatic") {
            "idiomatic" => idiomatic,
            "assoc" => assoc,
            "folded" => folded,
            other => {
                return Err(format!("there is no form {other:?}: idiomatic, assoc, folded").into());
            }
        };
        let round = |stopwatch: &mut Stopwatch| {
            let rows = stopwatch.time(|| form(split, path, &runtime))?;
            let rows = rows.iter().map(|(word, count)| (word.as_str(), *count));
            Ok(answer(rows, path.metadata()?.len()))
        };
        serve_parts(request, round, |answer| answer)
    }
}

/// Group, then fold each group.
fn idiomatic<S: Split>(split: S, path: &Path, runtime: &Arc<RuntimeConfig>) -> Result<Rows> {
    let context = context_on(runtime);
    let counts = context
        .stream_file(path)
        .batch_mode(batches())
        .flat_map(move |line| owned(split, line))
        .group_by(|word| word.clone())
        .fold(0u64, |count, _word| *count += 1)
        .collect_vec();
    context.execute_blocking();
    rows_of(runtime, counts)
}

/// The associative operator: counts in each partition first.
fn assoc<S: Split>(split: S, path: &Path, runtime: &Arc<RuntimeConfig>) -> Result<Rows> {
    let context = context_on(runtime);
    let counts = context
        .stream_file(path)
        .batch_mode(batches())
        .flat_map(move |line| owned(split, line))
        .group_by_count(|word: &String| word.clone())
        .unkey()
        .map(|(word, count)| (word, count as u64))
        .collect_vec();
    context.execute_blocking();
    rows_of(runtime, counts)
}

/// A map in each partition, filled by hand from lines, so that a known word is not copied, and the maps merged.
fn folded<S: Split>(split: S, path: &Path, runtime: &Arc<RuntimeConfig>) -> Result<Rows> {
    let context = context_on(runtime);
    let counts = context
        .stream_file(path)
        .batch_mode(batches())
        .fold_assoc(
            Counts::default(),
            move |counts, line: String| {
                split.each_in_place(line, &mut |word| count(counts, word));
            },
            merge,
        )
        .collect_vec();
    context.execute_blocking();
    Ok(rows_of(runtime, counts)?.into_iter().flatten().collect())
}
