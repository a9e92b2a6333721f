//! Word count: each worker reads its part of the file's blocks, words are exchanged by their hash
//! and counted where they arrive.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::rc::Rc;
use std::sync::Arc;

use bench_protocol::digest::Digest;
use bench_protocol::{Answer, Request, Result};
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::{Operator, source};

/// Bytes of text a source goes through before it lets the other operators of its worker run.
const PIECE: usize = 64 * 1024;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let path = request.data()?;
    bench_protocol::serve(request, |stopwatch| {
        let (rows, bytes) = stopwatch.time(|| -> Result<_> {
            let text =
                std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            let bytes = text.len() as u64;
            Ok((count(Arc::new(text), cores)?, bytes))
        })?;
        let mut digest = Digest::default();
        rows.iter().for_each(|(word, count)| digest.add(word.as_bytes(), *count));
        let records = rows.iter().map(|(_, count)| count).sum();
        Ok(Answer { digest, records, bytes, ..Answer::default() })
    })
}

/// The first place at or after `at` where no word is cut.
fn boundary(text: &[u8], at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    at.min(text.len()) + rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
}

fn count(text: Arc<Vec<u8>>, cores: usize) -> Result<Vec<(String, u64)>> {
    let guards = timely::execute(timely::Config::process(cores), move |worker| {
        let counts = Rc::new(RefCell::new(HashMap::<String, u64>::new()));
        let kept = Rc::clone(&counts);
        let (index, peers) = (worker.index(), worker.peers());
        let mut next = boundary(&text, text.len() * index / peers);
        let end = boundary(&text, text.len() * (index + 1) / peers);
        if index == 0 {
            next = 0;
        }
        let text = Arc::clone(&text);
        worker.dataflow::<u64, _, _>(move |scope| {
            let hash = BuildHasherDefault::<DefaultHasher>::default();
            source(scope, "Source", |capability, info| {
                let activator = scope.activator_for(info.address);
                let mut capability = Some(capability);
                move |output| {
                    let Some(time) = capability.as_ref() else { return };
                    let stop = boundary(&text, next + PIECE).min(end);
                    let words = text[next..stop].split(|byte| !byte.is_ascii_alphabetic());
                    output.session(time).give_iterator(words.filter(|word| !word.is_empty()).map(
                        |word| {
                            word.iter()
                                .map(|b| char::from(b.to_ascii_lowercase()))
                                .collect::<String>()
                        },
                    ));
                    next = stop;
                    if next == end {
                        capability = None;
                    } else {
                        activator.activate();
                    }
                }
            })
            .container::<Vec<String>>()
            .sink(
                Exchange::new(move |word: &String| hash.hash_one(word)),
                "Count",
                move |(input, _)| {
                    let mut counts = kept.borrow_mut();
                    input.for_each(|_, batch| {
                        batch.drain(..).for_each(|word| *counts.entry(word).or_default() += 1);
                    });
                },
            );
        });
        while worker.step_or_park(None) {}
        counts.take()
    })?;
    let mut rows = Vec::new();
    for counts in guards.join() {
        rows.extend(counts?);
    }
    Ok(rows)
}
