//! Counting by a map for each piece of the input, and the maps merged. Words are looked up by borrowed key, so that
//! only a new one is copied.

use bench_protocol::digest::Digest;
use bench_protocol::workload::read_keys;
use bench_protocol::{Answer, Request, Result};
use bench_words::{Counts, Split, WithSplit, answer, count, line_end, merge, with_split};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::str::Utf8Error;

/// Pieces of text for each thread: enough to even out the threads, few enough that merging the
/// pieces' maps does not become the work.
const PIECES: usize = 2;

/// Bytes of text that are split at a time, so that they and their copy stay in cache.
const BLOCK: usize = 64 * 1024;

pub(crate) fn serve_wordcount(request: &Request) -> Result<()> {
    with_split(request, Wordcount(request))
}

struct Wordcount<'a>(&'a Request);

impl WithSplit for Wordcount<'_> {
    fn run(self, split: impl Split) -> Result<()> {
        let Self(request) = self;
        let pool = crate::pool(request)?;
        let path = request.data()?;
        bench_protocol::serve(request, |stopwatch| {
            let (counts, bytes) = stopwatch.time(|| -> Result<_> {
                let text =
                    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                let counts = pool.install(|| words(split, &text))?;
                Ok((counts.into_iter().collect::<Vec<_>>(), text.len()))
            })?;
            let rows = counts.iter().map(|(word, count)| (word.as_str(), *count));
            Ok(answer(rows, bytes as u64))
        })
    }
}

fn words(split: impl Split, text: &[u8]) -> std::result::Result<Counts, Utf8Error> {
    pieces(text, text.len() / (rayon::current_num_threads() * PIECES) + 1)
        .into_par_iter()
        .map(|piece| {
            let (mut counts, mut scratch) = (Counts::default(), String::new());
            for block in pieces(piece, BLOCK) {
                let lines = std::str::from_utf8(block)?;
                split.each(lines, &mut scratch, &mut |word| count(&mut counts, word));
            }
            Ok(counts)
        })
        .try_reduce(Counts::default, |mut all, other| {
            merge(&mut all, other);
            Ok(all)
        })
}

/// Cuts the text into pieces of about `size` bytes that end with a line.
fn pieces(text: &[u8], size: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    let mut from = 0;
    while from < text.len() {
        let end = line_end(text, from, size);
        pieces.push(&text[from..end]);
        from = end;
    }
    pieces
}

pub(crate) fn serve_keyed_count(request: &Request) -> Result<()> {
    let pool = crate::pool(request)?;
    let keys = read_keys(request.data()?)?;
    bench_protocol::serve(request, |stopwatch| {
        let counts: Vec<(u64, u64)> = stopwatch.time(|| {
            let counts = pool.install(|| {
                keys.par_chunks(keys.len().div_ceil(pool.current_num_threads()).max(1))
                    .map(|keys| {
                        let mut counts = FxHashMap::<u64, u64>::default();
                        keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
                        counts
                    })
                    .reduce(FxHashMap::default, |mut all, mut other| {
                        if other.len() > all.len() {
                            std::mem::swap(&mut all, &mut other);
                        }
                        // Both maps hash alike: without room for all, the keys of one would crowd one end of
                        // the other.
                        all.reserve(other.len());
                        for (key, count) in other {
                            *all.entry(key).or_default() += count;
                        }
                        all
                    })
            });
            counts.into_iter().collect()
        });
        let mut digest = Digest::default();
        counts.iter().for_each(|(key, count)| digest.add_number(*key, *count));
        let records = keys.len() as u64;
        Ok(Answer { digest, records, bytes: records * 8, ..Answer::default() })
    })
}
