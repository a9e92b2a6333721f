//! What the queries over streams of events share.
//!
//! Renoir's windows of event time begin at the first record of a key, wherever that is, and not at
//! multiples of the slide. So that answers can be compared, a record gets as its timestamp the start of
//! the slide it is in: then every window begins at a multiple. Results come with their window's end.
//!
//! With several sources, a key's first record to arrive need not be its earliest, and earlier ones would
//! be lost: where keys have slides without records, each key's are put in order first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bench_protocol::{Answer, Result, digest};
use renoir::operator::{Data, DataKey, Operator, StreamElement, Timestamp};
use renoir::prelude::*;
use renoir::{KeyedStream, Stream};
use thalweg_workloads::digest::{Digest, Row};

/// The seed of all events.
pub(crate) const SEED: u64 = 42;

/// Where the rows of a job go: each replica digests its own, and adds that to the others' at its end.
pub(crate) struct Sink {
    own: Digest,
    all: Arc<Mutex<Digest>>,
}

impl Sink {
    /// Digests every field of a row.
    #[inline]
    pub(crate) fn add(&mut self, row: &impl Row) {
        self.own.add(row);
    }
}

impl Clone for Sink {
    fn clone(&self) -> Self {
        Self { own: Digest::default(), all: Arc::clone(&self.all) }
    }
}

impl Drop for Sink {
    fn drop(&mut self) {
        self.all.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).merge(self.own);
    }
}

/// Runs the job that ends in the sink.
pub(crate) fn digest_of(
    context: StreamContext,
    job: impl FnOnce(&StreamContext, Sink),
) -> Result<Digest> {
    let all = Arc::<Mutex<Digest>>::default();
    job(&context, Sink { own: Digest::default(), all: Arc::clone(&all) });
    context.execute_blocking();
    let digest = *all.lock().map_err(|_| "a sink panicked")?;
    Ok(digest)
}

/// A round's report.
pub(crate) fn answer(digest: Digest, records: u64, bytes: u64) -> Answer {
    Answer { digest: hashed(digest), records, bytes, ..Answer::default() }
}

/// The protocol's form of a digest.
pub(crate) fn hashed(digest: Digest) -> digest::Digest {
    digest::Digest::of_hashes(digest.rows(), digest.sum())
}

/// A watermark whenever records of a later slide begin, so far behind it.
pub(crate) fn slide_by_slide<T>(
    behind: i64,
) -> impl FnMut(&T, &Timestamp) -> Option<Timestamp> + Clone + Send + 'static {
    let mut latest = i64::MIN;
    move |_, &timestamp| {
        let later = timestamp > latest;
        later.then(|| {
            latest = timestamp;
            timestamp - behind - 1
        })
    }
}

/// The results of windows, each with its window's start.
pub(crate) fn with_start<K: DataKey, V: Data, Op: Operator<Out = (K, V)> + 'static>(
    results: KeyedStream<Op>,
    size: i64,
) -> Stream<impl Operator<Out = (i64, K, V)>> {
    results.unkey().rich_map_custom(move |mut results| match results.next() {
        StreamElement::Timestamped((key, value), end) => {
            StreamElement::Timestamped((end - size, key, value), end)
        }
        StreamElement::Item(_) => unreachable!("windows of event time give their results a time"),
        StreamElement::Watermark(watermark) => StreamElement::Watermark(watermark),
        StreamElement::FlushBatch => StreamElement::FlushBatch,
        StreamElement::Terminate => StreamElement::Terminate,
        StreamElement::FlushAndRestart => StreamElement::FlushAndRestart,
    })
}

/// An operator by hand, which keeps records until the watermark says that their slide is complete: `add` gets
/// each with its slide, `complete` the last slide that is. What that gives has a timestamp within it.
pub(crate) fn by_hand<T, R, S, Op>(
    records: Stream<Op>,
    state: S,
    add: impl Fn(&mut S, i64, T) + Clone + Send + 'static,
    complete: impl Fn(&mut S, i64, &mut VecDeque<(Timestamp, R)>) + Clone + Send + 'static,
) -> Stream<impl Operator<Out = R>>
where
    T: Send + 'static,
    R: Clone + Send + 'static,
    S: Clone + Send + 'static,
    Op: Operator<Out = T> + 'static,
{
    let (mut state, mut out, mut then) = (state, VecDeque::new(), None);
    records.rich_map_custom(move |mut records| {
        loop {
            if let Some((timestamp, row)) = out.pop_front() {
                return StreamElement::Timestamped(row, timestamp);
            }
            if let Some(then) = then.take() {
                return then;
            }
            match records.next() {
                StreamElement::Timestamped(record, slide) => add(&mut state, slide, record),
                StreamElement::Item(_) => unreachable!("all records have a timestamp"),
                StreamElement::Watermark(watermark) => {
                    complete(&mut state, watermark, &mut out);
                    then = Some(StreamElement::Watermark(watermark));
                }
                StreamElement::FlushAndRestart => {
                    complete(&mut state, Timestamp::MAX, &mut out);
                    then = Some(StreamElement::FlushAndRestart);
                }
                StreamElement::FlushBatch => return StreamElement::FlushBatch,
                StreamElement::Terminate => return StreamElement::Terminate,
            }
        }
    })
}
