//! What the queries over streams of events share: a source whose timestamps are the starts of slides,
//! and stateful operators that are notified when a slide is complete.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::rc::Rc;

use bench_protocol::{Answer, Result, digest};
use rustc_hash::{FxBuildHasher, FxHashMap};
use thalweg_workloads::digest::{Digest, Row};
use timely::ExchangeData;
use timely::dataflow::channels::pact::{Exchange, ParallelizationContract, Pipeline};
use timely::dataflow::operators::generic::operator::{Operator, source};
use timely::dataflow::{Scope, Stream};

use crate::workers::Workers;

/// The seed of all events.
pub(crate) const SEED: u64 = 42;

/// Records a source makes before it lets the other operators of its worker run.
const PIECE: usize = 16 * 1024;

/// The digest of the rows that a worker has.
#[derive(Clone, Default)]
pub(crate) struct Rows(Rc<RefCell<Digest>>);

/// The start of a slide as timely's timestamp: all times here are after 1970.
pub(crate) fn timestamp(start: i64) -> u64 {
    start.unsigned_abs()
}

/// Runs a dataflow on workers: it gets its worker's number and how many there are.
pub(crate) fn digest_of(
    workers: &Workers,
    dataflow: impl Fn(Scope<'_, u64>, usize, usize, Rows) + Send + Sync + 'static,
) -> Result<Digest> {
    let digests = workers.run(move |worker| {
        let rows = Rows::default();
        let (index, peers, kept) = (worker.index(), worker.peers(), rows.clone());
        worker.dataflow::<u64, _, _>(|scope| dataflow(scope, index, peers, kept));
        while worker.step_or_park(None) {}
        *rows.0.borrow()
    })?;
    let mut all = Digest::default();
    digests.into_iter().for_each(|digest| all.merge(digest));
    Ok(all)
}

/// A round's report.
pub(crate) fn answer(digest: Digest, records: u64, bytes: u64) -> Answer {
    Answer { digest: hashed(digest), records, bytes, ..Answer::default() }
}

/// The digest as the protocol has it.
pub(crate) fn hashed(digest: Digest) -> digest::Digest {
    digest::Digest::of_hashes(digest.rows(), digest.sum())
}

/// A stream of records, each after its timestamp; those never decrease.
pub(crate) fn records<'s, D: Clone + 'static>(
    scope: Scope<'s, u64>,
    mut records: impl Iterator<Item = (u64, D)> + 'static,
) -> Stream<'s, u64, Vec<D>> {
    source(scope, "Source", |capability, info| {
        let activator = scope.activator_for(info.address);
        let mut capability = Some(capability);
        let mut next = records.next();
        move |output| {
            let Some(held) = capability.as_mut() else { return };
            let mut left = PIECE;
            while left > 0
                && let Some((now, record)) = next.take()
            {
                if now > *held.time() {
                    held.downgrade(&now);
                }
                let mut session = output.session(&*held);
                session.give(record);
                left -= 1;
                while left > 0 {
                    match records.next() {
                        Some((time, record)) if time == now => session.give(record),
                        other => {
                            next = other;
                            break;
                        }
                    }
                    left -= 1;
                }
                if left == 0 {
                    next = records.next();
                }
            }
            if next.is_some() {
                activator.activate();
            } else {
                capability = None;
            }
        }
    })
}

/// Digests every row where it is, made of a record and its timestamp.
pub(crate) fn digested<D: Clone + 'static, R: Row>(
    stream: Stream<'_, u64, Vec<D>>,
    rows: Rows,
    row: impl Fn(u64, D) -> R + 'static,
) {
    stream.sink(Pipeline, "Digest", move |(input, _)| {
        let mut digest = rows.0.borrow_mut();
        input.for_each(|time, batch| {
            let time = *time.time();
            batch.drain(..).for_each(|record| digest.add(&row(time, record)));
        });
    });
}

/// To the worker that owns the key.
pub(crate) fn by_key<K: Hash + 'static, V: 'static>()
-> Exchange<(K, V), impl FnMut(&(K, V)) -> u64 + 'static> {
    // The hash's low bits choose the worker, and are its weakest.
    Exchange::new(|record: &(K, V)| FxBuildHasher.hash_one(&record.0).rotate_right(32))
}

/// Aggregates the values of each key in each slide, and gives them when that is complete.
pub(crate) fn aggregated<'s, P, K, V, A>(
    stream: Stream<'s, u64, Vec<(K, V)>>,
    pact: P,
    add: impl Fn(&mut A, V) + 'static,
) -> Stream<'s, u64, Vec<(K, A)>>
where
    P: ParallelizationContract<u64, Vec<(K, V)>>,
    K: Clone + 'static + Hash + Eq,
    V: Clone + 'static,
    A: Clone + Default + 'static,
{
    aggregated_until(stream, pact, |slide| slide, add)
}

/// The same, given at the end of the stream.
pub(crate) fn aggregated_in_all<'s, P, K, V, A>(
    stream: Stream<'s, u64, Vec<(K, V)>>,
    pact: P,
    add: impl Fn(&mut A, V) + 'static,
) -> Stream<'s, u64, Vec<(K, A)>>
where
    P: ParallelizationContract<u64, Vec<(K, V)>>,
    K: Clone + 'static + Hash + Eq,
    V: Clone + 'static,
    A: Clone + Default + 'static,
{
    aggregated_until(stream, pact, |_| u64::MAX, add)
}

/// Aggregates the values of each key, from slides that have the same `until`.
fn aggregated_until<'s, P, K, V, A>(
    stream: Stream<'s, u64, Vec<(K, V)>>,
    pact: P,
    until: impl Fn(u64) -> u64 + 'static,
    add: impl Fn(&mut A, V) + 'static,
) -> Stream<'s, u64, Vec<(K, A)>>
where
    P: ParallelizationContract<u64, Vec<(K, V)>>,
    K: Clone + 'static + Hash + Eq,
    V: Clone + 'static,
    A: Clone + Default + 'static,
{
    let mut slides = HashMap::<u64, FxHashMap<K, A>>::new();
    stream.unary_notify(pact, "Aggregate", None, move |input, output, notificator| {
        input.for_each(|time, batch| {
            let until = until(*time.time());
            let slide = slides.entry(until).or_insert_with(|| {
                notificator.notify_at(time.delayed(&until, output.output_index()));
                FxHashMap::default()
            });
            batch.drain(..).for_each(|(key, value)| add(slide.entry(key).or_default(), value));
        });
        notificator.for_each(|time, _, _| {
            if let Some(slide) = slides.remove(time.time()) {
                output.session(&time).give_iterator(slide.into_iter());
            }
        });
    })
}

/// The keys with the highest counts of each window of several slides, from counts of slides: a running
/// count for each key, to which a slide is added when it is complete and subtracted when it has left.
/// They have the timestamp of the window's last slide.
pub(crate) fn hottest<'s, K: ExchangeData + Clone + Hash + Eq>(
    counts: Stream<'s, u64, Vec<(K, u64)>>,
    slide: u64,
    slides: u64,
) -> Stream<'s, u64, Vec<(K, u64)>> {
    let mut arriving = HashMap::<u64, Vec<(K, u64)>>::new();
    let mut within = VecDeque::<(u64, FxHashMap<K, u64>)>::new();
    let mut running = FxHashMap::<K, u64>::default();
    counts.unary_notify(by_key(), "Windows", None, move |input, output, notificator| {
        input.for_each(|time, batch| {
            let arrived = arriving.entry(*time.time()).or_insert_with(|| {
                let time = time.retain(output.output_index());
                for later in 1..slides {
                    notificator.notify_at(time.delayed(&(time.time() + later * slide)));
                }
                notificator.notify_at(time);
                Vec::new()
            });
            arrived.append(batch);
        });
        notificator.for_each(|time, _, _| {
            let now = *time.time();
            while within.front().is_some_and(|(left, _)| left + slides * slide <= now) {
                let (_, left) = within.pop_front().unwrap_or_default();
                for (key, count) in left {
                    if let Some(all) = running.get_mut(&key) {
                        *all -= count;
                        if *all == 0 {
                            running.remove(&key);
                        }
                    }
                }
            }
            if let Some(arrived) = arriving.remove(&now) {
                let mut counts = FxHashMap::<K, u64>::default();
                for (key, count) in arrived {
                    *running.entry(key.clone()).or_default() += count;
                    *counts.entry(key).or_default() += count;
                }
                within.push_back((now, counts));
            }
            let most = running.values().copied().max();
            let hot = running.iter().filter(|(_, count)| Some(**count) == most);
            output.session(&time).give_iterator(hot.map(|(key, count)| (key.clone(), *count)));
        });
    })
}

/// Keeps the rows that are greatest.
pub(crate) fn keep_best<T>(best: &mut Vec<T>, row: T, by: impl Fn(&T) -> u64) {
    match best.first().map(|first| by(first).cmp(&by(&row))) {
        Some(std::cmp::Ordering::Greater) => return,
        Some(std::cmp::Ordering::Less) => best.clear(),
        _ => {}
    }
    best.push(row);
}
