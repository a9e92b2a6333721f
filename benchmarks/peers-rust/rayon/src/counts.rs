//! Counting by a map for each piece of the input, and the maps merged. The maps are hashbrown's,
//! with its default hash, and are asked by borrowed key, so that only a new word allocates.

use bench_protocol::digest::Digest;
use bench_protocol::workload::read_keys;
use bench_protocol::{Answer, Request, Result};
use hashbrown::HashMap;
use rayon::prelude::*;

/// Pieces of text for each thread: enough to even out the threads, few enough that merging the
/// pieces' maps does not become the work.
const PIECES: usize = 2;

pub(crate) fn serve_wordcount(request: &Request) -> Result<()> {
    let pool = crate::pool(request)?;
    let path = request.data()?;
    bench_protocol::serve(request, |stopwatch| {
        let (counts, bytes) = stopwatch.time(|| -> Result<_> {
            let text =
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok((pool.install(|| words(&text)), text.len()))
        })?;
        let mut digest = Digest::default();
        counts.iter().for_each(|(word, count)| digest.add(word, *count));
        let records = counts.iter().map(|(_, count)| count).sum();
        Ok(Answer { digest, records, bytes: bytes as u64, ..Answer::default() })
    })
}

type Words = HashMap<Vec<u8>, u64>;

fn words(text: &[u8]) -> Vec<(Vec<u8>, u64)> {
    pieces(text, text.len() / (rayon::current_num_threads() * PIECES) + 1)
        .into_par_iter()
        .map(count_words)
        .reduce(Words::new, |mut all, mut other| {
            if other.len() > all.len() {
                std::mem::swap(&mut all, &mut other);
            }
            other.into_iter().for_each(|(word, count)| *all.entry(word).or_default() += count);
            all
        })
        .into_iter()
        .collect()
}

/// Cuts the text into pieces of about `size` bytes that end with a line.
fn pieces(mut text: &[u8], size: usize) -> Vec<&[u8]> {
    let mut pieces = Vec::new();
    while text.len() > size {
        let line = text[size..].iter().position(|byte| *byte == b'\n');
        let Some(line) = line else { break };
        let (piece, rest) = text.split_at(size + line + 1);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
}

fn count_words(text: &[u8]) -> Words {
    let mut counts = Words::new();
    let mut lower = Vec::new();
    for word in text.split(|byte| !byte.is_ascii_alphabetic()).filter(|word| !word.is_empty()) {
        lower.clear();
        lower.extend_from_slice(word);
        lower.make_ascii_lowercase();
        *counts.entry_ref(&lower[..]).or_default() += 1;
    }
    counts
}

pub(crate) fn serve_keyed_count(request: &Request) -> Result<()> {
    let pool = crate::pool(request)?;
    let keys = read_keys(request.data()?)?;
    bench_protocol::serve(request, |stopwatch| {
        let counts: Vec<(u64, u64)> = stopwatch.time(|| {
            let counts = pool.install(|| {
                keys.par_chunks(keys.len().div_ceil(pool.current_num_threads()).max(1))
                    .map(|keys| {
                        let mut counts = HashMap::<u64, u64>::new();
                        keys.iter().for_each(|key| *counts.entry(*key).or_default() += 1);
                        counts
                    })
                    .reduce(HashMap::new, |mut all, mut other| {
                        if other.len() > all.len() {
                            std::mem::swap(&mut all, &mut other);
                        }
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
