//! Counting words and numbers.

use crate::environment;
use bench_protocol::digest::Digest;
use bench_protocol::{Answer, Request, Result, serve, workload};
use std::path::PathBuf;
use thalweg::dynamic::{Column, Graph};
use thalweg::text::LowercaseWords;
use thalweg::{Chain, Environment, Stream};

pub(crate) fn serve_wordcount(request: &Request) -> Result<()> {
    match request.get("words").unwrap_or("letters") {
        "letters" => serve_words(request, |env, text| env.lines(text).flat_each(LowercaseWords)),
        // As a user writes what the library does not have: by a closure.
        "whitespace" => serve_words(request, |env, text| {
            env.lines(text).flat_map_str(|line, words| {
                line.split_ascii_whitespace().for_each(|word| words.push(word));
            })
        }),
        "alphanumeric" => serve_words(request, |env, text| {
            env.lines(text).flat_map_str(|line, words| {
                let parts = line.split(|c: char| !c.is_alphanumeric());
                parts.filter(|word| !word.is_empty()).for_each(|word| words.push(word));
            })
        }),
        other => {
            Err(format!("there are no words {other:?}: letters, whitespace, alphanumeric").into())
        }
    }
}

fn serve_words<C: Chain<Item = str>>(
    request: &Request,
    words: impl Fn(&Environment, PathBuf) -> Stream<C>,
) -> Result<()> {
    let env = environment(request)?;
    let path = request.data()?.to_owned();
    let bytes = std::fs::metadata(&path)?.len();
    let assoc = request.get("form") == Some("assoc");
    serve(request, |stopwatch| {
        let rows = stopwatch.time(|| -> thalweg::Result<Vec<(String, u64)>> {
            let words = words(&env, path.clone()).group_by_ref(|word| *word);
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
        Ok(Answer { digest, records, bytes, ..Answer::default() })
    })
}

/// The word count that no compiler has seen: from a graph that is built at run time.
pub(crate) fn serve_graph(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let path = request.data()?.to_owned();
    let bytes = std::fs::metadata(&path)?.len();
    serve(request, |stopwatch| {
        let rows = stopwatch.time(|| {
            let graph = Graph::new().lines(path.clone()).explode_words("line");
            let graph = graph.group_by(["word"]).count().collect();
            // By way of its form as data, as one that another program has made.
            Graph::from_json(&graph.to_json()?)?.run(&env)?.only()
        })?;
        let mut digest = Digest::default();
        let mut records = 0;
        for block in rows.blocks() {
            let [words, counts] = block.columns() else { return Err("not two columns".into()) };
            let (Column::Utf8(words), Column::U64(counts)) = (&**words, &**counts) else {
                return Err("not words and counts".into());
            };
            for (word, &count) in words.iter().zip(counts) {
                digest.add(word.as_bytes(), count);
                records += count;
            }
        }
        Ok(Answer { digest, records, bytes, ..Answer::default() })
    })
}

pub(crate) fn serve_keyed_count(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let keys: &[u64] = workload::read_keys(request.data()?)?.leak();
    let records = keys.len() as u64;
    serve(request, |stopwatch| {
        let rows = stopwatch.time(|| -> thalweg::Result<Vec<(u64, u64)>> {
            let share = move |task: usize, tasks: usize| {
                let (from, to) = (keys.len() * task / tasks, keys.len() * (task + 1) / tasks);
                keys[from..to].iter().copied()
            };
            let rows = env.parallel_iter(share).group_by_ref(|key| key).count().collect();
            env.run()?;
            rows.take()
        })?;
        let mut digest = Digest::default();
        for (key, count) in rows {
            digest.add_number(key, count);
        }
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}
