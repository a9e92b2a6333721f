//! Exchange: parallel iterators, a repartition by key, and a fold in each receiver.

use bench_protocol::workload::{self, NumberCheck, Record, RecordCheck};
use bench_protocol::{Answer, Part, Request, Result, Stopwatch, serve_parts};
use renoir::prelude::*;
use serde::{Deserialize, Serialize};

use crate::{batches, context_on, part, runtime};

use std::sync::{Arc, Mutex};

pub(crate) fn serve_numbers(request: &Request) -> Result<()> {
    let runtime = runtime(request)?;
    let records: u64 = request.value("records")?;
    let shuffle = shuffled(request)?;
    let round = |stopwatch: &mut Stopwatch| stopwatch.time(|| numbers(records, shuffle, &runtime));
    serve_parts(request, round, |all| Answer {
        digest: all.digest(),
        records,
        bytes: records * 8,
        ..Answer::default()
    })
}

pub(crate) fn serve_records(request: &Request) -> Result<()> {
    let runtime = runtime(request)?;
    let records: u64 = request.value("records")?;
    let shuffle = shuffled(request)?;
    let round = |stopwatch: &mut Stopwatch| stopwatch.time(|| strings(records, shuffle, &runtime));
    serve_parts(request, round, |all| Answer {
        digest: all.digest(),
        records,
        bytes: all.bytes(),
        ..Answer::default()
    })
}

/// Whether records go to a receiver of Renoir's choice or to that of their key.
fn shuffled(request: &Request) -> Result<bool> {
    match request.get("by").unwrap_or("shuffle") {
        "shuffle" => Ok(true),
        "key" => Ok(false),
        other => Err(format!("there is no way {other:?}: shuffle, key").into()),
    }
}

/// What a receiver has seen, added to the others' when the receiver is dropped. Clones begin anew:
/// Renoir clones a sink's closure for each receiver.
struct Receiver<C: Check> {
    seen: C,
    all: Arc<Mutex<C>>,
}

trait Check: Part + Default + Clone + Send + 'static {}

impl Check for NumberCheck {}

impl Check for RecordCheck {}

impl<C: Check> Clone for Receiver<C> {
    fn clone(&self) -> Self {
        Self { seen: C::default(), all: Arc::clone(&self.all) }
    }
}

impl<C: Check> Drop for Receiver<C> {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        all.merge(std::mem::take(&mut self.seen));
    }
}

fn run<C: Check>(context: StreamContext, all: &Arc<Mutex<C>>) -> Result<C> {
    context.execute_blocking();
    Ok(all.lock().map_err(|_| "a receiver panicked")?.clone())
}

fn numbers(records: u64, shuffle: bool, runtime: &Arc<RuntimeConfig>) -> Result<NumberCheck> {
    let context = context_on(runtime);
    let source = context
        .stream_par_iter(move |index, count| part(records, index, count).map(workload::number))
        .batch_mode(batches());
    let all = Arc::new(Mutex::new(NumberCheck::default()));
    let mut receiver = Receiver { seen: NumberCheck::default(), all: Arc::clone(&all) };
    let sink = move |number| {
        // Names the whole receiver, so that it is captured whole.
        let receiver = &mut receiver;
        receiver.seen.add(number);
    };
    if shuffle {
        source.shuffle().for_each(sink);
    } else {
        source.repartition_by(Replication::Unlimited, |number: &u64| *number).for_each(sink);
    }
    run(context, &all)
}

/// Renoir's natural record: a structure with strings of its own.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Owned {
    id: u64,
    name: String,
    url: String,
    body: String,
}

impl Owned {
    fn of(record: Record<'_>) -> Self {
        let Record { id, name, url, body } = record;
        Self { id, name: name.to_owned(), url: url.to_owned(), body: body.to_owned() }
    }

    fn borrow(&self) -> Record<'_> {
        Record { id: self.id, name: &self.name, url: &self.url, body: &self.body }
    }
}

fn strings(records: u64, shuffle: bool, runtime: &Arc<RuntimeConfig>) -> Result<RecordCheck> {
    let context = context_on(runtime);
    let source = context
        .stream_par_iter(move |index, count| {
            part(records, index, count).map(|i| Owned::of(workload::record(i)))
        })
        .batch_mode(batches());
    let all = Arc::new(Mutex::new(RecordCheck::default()));
    let mut receiver = Receiver { seen: RecordCheck::default(), all: Arc::clone(&all) };
    let sink = move |record: Owned| {
        let receiver = &mut receiver;
        receiver.seen.add(record.borrow());
    };
    if shuffle {
        source.shuffle().for_each(sink);
    } else {
        source.repartition_by(Replication::Unlimited, |record: &Owned| record.id).for_each(sink);
    }
    run(context, &all)
}
