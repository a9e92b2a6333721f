//! Events that come on a schedule, and how late the results are: the window-latency bench, and latency over
//! time of queries of Nexmark.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bench_by_hand::sliding::Sliding;
use bench_protocol::open_loop::{Idle, Schedule, Trace};
use bench_protocol::workload::reading;
use bench_protocol::{Answer, Request, Result};
use thalweg_workloads::digest::{Digest, Row};
use thalweg_workloads::nexmark::again::{BLOCK, Tape, opening};
use thalweg_workloads::nexmark::oracle::{HOT_ITEMS, Row2, Row3, Row5, SKIP};
use thalweg_workloads::nexmark::{EventRef, recipe};
use thalweg_workloads::windows::Windows;
use timely::dataflow::channels::pact::Pipeline;
use timely::dataflow::operators::generic::operator::{Operator, source};
use timely::dataflow::{Scope, Stream};

use crate::nexmark::{best_windows, joined, side};
use crate::streams::{SEED, aggregated, answer, by_key, timestamp};

/// How long a source that has nothing to give waits.
const NAP: Duration = Duration::from_micros(50);

/// What a worker has seen.
#[derive(Clone, Default)]
struct Seen {
    rows: Digest,
    latencies: Trace,
}

type Kept = Rc<RefCell<Seen>>;

/// Runs a dataflow on so many workers, and puts together what they have seen.
fn seen(
    cores: usize,
    dataflow: impl Fn(Scope<'_, u64>, usize, usize, Kept) + Send + Sync + 'static,
) -> Result<Seen> {
    let guards = timely::execute(timely::Config::process(cores), move |worker| {
        let kept = Kept::default();
        let (index, peers, own) = (worker.index(), worker.peers(), Rc::clone(&kept));
        worker.dataflow::<u64, _, _>(|scope| dataflow(scope, index, peers, own));
        while worker.step_or_park(None) {}
        kept.take()
    })?;
    let mut all = Seen::default();
    for part in guards.join() {
        let part = part?;
        all.rows.merge(part.rows);
        all.latencies.merge(&part.latencies);
    }
    Ok(all)
}

/// A worker's share of pieces of work as they come due: `piece` makes the records of the `n`-th, each with
/// its timestamp, of which none is below that of the piece, `at`.
fn live<'s, D, I>(
    scope: Scope<'s, u64>,
    schedule: Arc<Schedule>,
    pieces: u64,
    share: (usize, usize),
    at: impl Fn(u64) -> u64 + 'static,
    mut piece: impl FnMut(u64) -> I + 'static,
) -> Stream<'s, u64, Vec<D>>
where
    D: Clone + 'static,
    I: Iterator<Item = (u64, D)>,
{
    let (index, of) = (share.0 as u64, share.1 as u64);
    source(scope, "Live", move |capability, info| {
        let activator = scope.activator_for(info.address);
        let mut capability = Some(capability);
        let mut next = index;
        move |output| {
            let Some(held) = capability.as_mut() else { return };
            schedule.begin();
            // What is due now; what comes due meanwhile must wait until the others have run.
            let due = schedule.due_by_now().min(pieces);
            while next < due {
                let mut records = piece(next).peekable();
                while let Some((now, _)) = records.peek() {
                    let now = *now;
                    if now > *held.time() {
                        held.downgrade(&now);
                    }
                    let mut session = output.session(&*held);
                    while let Some((_, record)) = records.next_if(|(time, _)| *time == now) {
                        session.give(record);
                    }
                }
                next += of;
            }
            if next >= pieces {
                capability = None;
                return;
            }
            // The other workers' windows must not wait for this one's next record.
            let now = at(next);
            if now > *held.time() {
                held.downgrade(&now);
            }
            activator.activate_after(NAP);
        }
    })
}

/// Digests every row, and keeps how late it is: `follows` gives it with the moment at which it was due, in
/// nanoseconds, or without one that it has.
fn kept<D: Clone + 'static, R: Row>(
    stream: Stream<'_, u64, Vec<D>>,
    schedule: Arc<Schedule>,
    kept: Kept,
    follows: impl Fn(u64, D) -> Option<(R, Option<u64>)> + 'static,
) {
    stream.sink(Pipeline, "Keep", move |(input, _)| {
        let mut kept = kept.borrow_mut();
        input.for_each(|time, batch| {
            let time = *time.time();
            for (row, due) in batch.drain(..).filter_map(|record| follows(time, record)) {
                kept.rows.add(&row);
                if let Some(due) = due {
                    kept.latencies.record(due, schedule.now());
                }
            }
        });
    });
}

/// Readings on a schedule are made together, in pieces of so many.
const PIECE: u64 = 10;

pub(crate) fn serve_window_latency(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let rate: f64 = request.value("rate")?;
    let millis = |name| request.value::<i64>(name).map(|millis| millis * 1000);
    let (keys, events) = (request.value::<u64>("keys")?, request.value::<u64>("events")?);
    let windows = Windows::sliding(millis("size-ms")?, millis("slide-ms")?);
    bench_protocol::serve(request, |stopwatch| {
        let idle = Idle::start();
        let schedule = Arc::new(Schedule::new(rate / PIECE as f64));
        let time = move |number: u64| (number as f64 * 1e6 / rate) as i64;
        let slide = move |number: u64| timestamp(windows.last_start(time(number)));
        let last = time(events - 1);
        let found = stopwatch.time(|| {
            seen(cores, move |scope, index, peers, own| {
                let readings = live(
                    scope,
                    Arc::clone(&schedule),
                    events.div_ceil(PIECE),
                    (index, peers),
                    move |n| slide(n * PIECE),
                    move |n| {
                        let numbers = n * PIECE..((n + 1) * PIECE).min(events);
                        numbers.map(move |number| (slide(number), reading(number, keys)))
                    },
                );
                let own_sums =
                    aggregated(readings, Pipeline, |sum: &mut u64, value: u64| *sum += value);
                let mut sliding = Sliding::new(windows);
                let sums = own_sums
                    .unary_notify(by_key(), "Windows", None, move |input, output, notificator| {
                        input.for_each(|time, batch| {
                            let slide = *time.time() as i64;
                            batch.drain(..).for_each(|(key, sum)| sliding.add(slide, key, sum));
                            notificator.notify_at(time.retain(output.output_index()));
                        });
                        notificator.for_each(|time, _, _| {
                            let mut session = output.session(&time);
                            sliding.complete(*time.time() as i64, |row| session.give(row));
                        });
                    })
                    .container::<Vec<_>>();
                kept(sums, Arc::clone(&schedule), own, move |_, row| {
                    let end = row.start + windows.size();
                    let whole = row.start >= 0 && end <= last;
                    whole.then_some((row, Some(end.unsigned_abs() * 1000)))
                });
            })
        })?;
        let mut extra = found.latencies.percentiles();
        extra.extend(idle.stop()?);
        Ok(Answer { extra, ..answer(found.rows, events, events * 24) })
    })
}

pub(crate) fn serve_over_time(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let query: u8 = request.value("query")?;
    let rate: f64 = request.value("rate")?;
    let blocks = request.value::<u64>("events")? / BLOCK;
    let tape: &'static Tape =
        Box::leak(Box::new(Tape::record(recipe(SEED), request.value("tape")?)));
    let dataflow = match query {
        2 => q2,
        3 => q3,
        5 => q5,
        other => return Err(format!("there is no query {other} here: 2, 3, 5").into()),
    };
    bench_protocol::serve(request, |stopwatch| {
        // One block at a time: it comes when the last of its events is due.
        let schedule = Arc::new(Schedule::new(rate / BLOCK as f64));
        let found = stopwatch.time(|| {
            seen(cores, move |scope, index, peers, own| {
                let schedule = Arc::clone(&schedule);
                dataflow(scope, Load { tape, schedule, blocks, rate, share: (index, peers) }, own);
            })
        })?;
        let (extra, series) = (found.latencies.percentiles(), found.latencies.series());
        Ok(Answer { extra, series, ..answer(found.rows, blocks * BLOCK, 0) })
    })
}

/// The events that a worker gets, and when.
struct Load {
    tape: &'static Tape,
    schedule: Arc<Schedule>,
    blocks: u64,
    rate: f64,
    share: (usize, usize),
}

impl Load {
    /// The records made of events, with their timestamps; all records of a block are at or after the
    /// timestamp `at` of its first event.
    fn live<'s, D: Clone + 'static>(
        &self,
        scope: Scope<'s, u64>,
        at: impl Fn(i64) -> u64 + 'static,
        record: impl Fn(EventRef<'static>) -> Option<(u64, D)> + Clone + 'static,
    ) -> Stream<'s, u64, Vec<D>> {
        let tape = self.tape;
        let start = move |block| tape.block(block).next().map_or(0, |event| at(event.time()));
        live(scope, Arc::clone(&self.schedule), self.blocks, self.share, start, move |block| {
            tape.block(block).filter_map(record.clone())
        })
    }

    /// When an event is due: the first block at the beginning, and its last event with it.
    fn due(&self) -> impl Fn(u64) -> u64 + use<> {
        let schedule = Schedule::new(self.rate);
        move |number| schedule.due((number + 1).saturating_sub(BLOCK))
    }
}

fn q2(scope: Scope<'_, u64>, load: Load, own: Kept) {
    let bids = load.live(
        scope,
        |_| 0,
        |event| match event {
            EventRef::Bid(bid) if bid.auction % SKIP == 0 => {
                Some((0, (Row2 { auction: bid.auction, price: bid.price }, bid.date_time)))
            }
            _ => None,
        },
    );
    let (due, tape) = (load.due(), load.tape);
    kept(bids, load.schedule, own, move |_, (row, time)| Some((row, Some(due(tape.number(time))))));
}

fn q3(scope: Scope<'_, u64>, load: Load, own: Kept) {
    let sides = load.live(scope, |_| 0, |event| Some((0, side(event)?)));
    let due = load.due();
    kept(joined(sides), load.schedule, own, move |_, ([name, city, state], auction)| {
        // Of a seller and an auction, the seller is known first but for a few events.
        Some((Row3 { name, city, state, auction }, Some(due(opening(auction)))))
    });
}

fn q5(scope: Scope<'_, u64>, load: Load, own: Kept) {
    let slide = |time| timestamp(HOT_ITEMS.last_start(time));
    let bids = load.live(scope, slide, move |event| match event {
        EventRef::Bid(bid) => Some((slide(bid.date_time), (bid.auction, ()))),
        _ => None,
    });
    let (due, tape, events) = (load.due(), load.tape, load.blocks * BLOCK);
    kept(best_windows(bids), load.schedule, own, move |time, (auction, bids)| {
        let start = time as i64 - (HOT_ITEMS.size() - HOT_ITEMS.slide());
        let end = tape.number(start + HOT_ITEMS.size());
        // A window that no event ends has no moment from which to count.
        let due = (end < events).then(|| due(end));
        Some((Row5 { start, auction, bids }, due))
    });
}
