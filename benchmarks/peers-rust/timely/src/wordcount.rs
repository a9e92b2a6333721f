//! Word count: each worker reads its part of the file's lines and counts its words in a map; when the part is at its
//! end, the counts are exchanged by their words' hash, and added up where they arrive.

use std::cell::RefCell;
use std::hash::BuildHasher;
use std::rc::Rc;
use std::sync::Arc;

use bench_protocol::{Request, Result, Stopwatch, serve_parts};
use bench_words::{Counts, Split, WithSplit, answer, line_end, with_split};
use rustc_hash::FxBuildHasher;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::{Operator, source};

use crate::workers::Workers;

/// Bytes of text a source goes through before it lets the other operators of its worker run. They and their copy
/// stay in cache.
const PIECE: usize = 64 * 1024;

pub(crate) fn serve(request: &Request) -> Result<()> {
    with_split(request, Serve(request))
}

struct Serve<'a>(&'a Request);

impl WithSplit for Serve<'_> {
    fn run(self, split: impl Split) -> Result<()> {
        let Self(request) = self;
        let workers = Workers::start(request)?;
        let path = request.data()?;
        let round = |stopwatch: &mut Stopwatch| {
            let (rows, bytes) = stopwatch.time(|| -> Result<_> {
                let text =
                    std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
                let bytes = text.len() as u64;
                Ok((count(split, Arc::new(text), &workers)?, bytes))
            })?;
            Ok(answer(rows.iter().map(|(word, count)| (word.as_str(), *count)), bytes))
        };
        serve_parts(request, round, |answer| answer)
    }
}

/// The first line's begin at or after the `index`-th of `count` parts of a text.
fn begin(text: &[u8], index: usize, count: usize) -> usize {
    match text.len() * index / count {
        0 => 0,
        at => line_end(text, at - 1, 0),
    }
}

fn count(split: impl Split, text: Arc<Vec<u8>>, workers: &Workers) -> Result<Vec<(String, u64)>> {
    let parts = workers.run(move |worker| {
        let counts = Rc::new(RefCell::new(Counts::default()));
        let failure = Rc::new(RefCell::new(None));
        let (kept, failed) = (Rc::clone(&counts), Rc::clone(&failure));
        let (index, peers) = (worker.index(), worker.peers());
        let mut next = begin(&text, index, peers);
        let end = begin(&text, index + 1, peers);
        let text = Arc::clone(&text);
        worker.dataflow::<u64, _, _>(move |scope| {
            source(scope, "Source", |capability, info| {
                let activator = scope.activator_for(info.address);
                let mut capability = Some(capability);
                let (mut own, mut scratch) = (Counts::default(), String::new());
                move |output| {
                    let Some(time) = capability.as_ref() else { return };
                    let stop = line_end(&text, next, PIECE).min(end);
                    match std::str::from_utf8(&text[next..stop]) {
                        Ok(lines) => split.each(lines, &mut scratch, &mut |word| {
                            bench_words::count(&mut own, word);
                        }),
                        Err(error) => *failed.borrow_mut() = Some(error),
                    }
                    next = stop;
                    if next == end {
                        output.session(time).give_iterator(std::mem::take(&mut own).into_iter());
                        capability = None;
                    } else {
                        activator.activate();
                    }
                }
            })
            .container::<Vec<(String, u64)>>()
            .sink(
                // The hash's low bits choose the worker, and are its weakest.
                Exchange::new(|row: &(String, u64)| {
                    FxBuildHasher.hash_one(&row.0).rotate_right(32)
                }),
                "Count",
                move |(input, _)| {
                    let mut counts = kept.borrow_mut();
                    input.for_each(|_, batch| {
                        for (word, count) in batch.drain(..) {
                            *counts.entry(word).or_default() += count;
                        }
                    });
                },
            );
        });
        while worker.step_or_park(None) {}
        match failure.take() {
            Some(error) => Err(error),
            None => Ok(counts.take()),
        }
    })?;
    let mut rows = Vec::new();
    for counts in parts {
        rows.extend(counts?);
    }
    Ok(rows)
}
