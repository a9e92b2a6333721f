//! Latency from end to end: a source that keeps to a schedule on one worker, a map on every worker, one sink.
//!
//! `--interval-us N` sets the schedule (0: as fast as it can), `--records N` how many records, `--work-us N` how long
//! the map works on each.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bench_protocol::histogram::Histogram;
use bench_protocol::workload::{NumberCheck, number, work_for};
use bench_protocol::{Answer, Request, Result};
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::{Operator, source};
use timely::dataflow::operators::vec::Map;

/// Of the records made as fast as possible, one in this many has a stamp, as in the other contestants.
const STAMPED: u64 = 64;
/// The stamp of the others.
const UNSTAMPED: u64 = u64::MAX;
/// Records that the source makes, as fast as it can, before it lets the other operators of its worker run.
const PIECE: u64 = 16 * 1024;

#[derive(Clone, Default)]
struct Seen {
    check: NumberCheck,
    latencies: Histogram,
}

#[derive(Clone, Copy)]
struct Load {
    records: u64,
    interval: Duration,
    work: Duration,
}

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = request.cores()?;
    let records: u64 = request.value("records")?;
    let micros = |name: &str| request.value_or(name, 0).map(Duration::from_micros);
    let load = Load { records, interval: micros("interval-us")?, work: micros("work-us")? };
    bench_protocol::serve(request, |stopwatch| {
        let Seen { check, latencies } = stopwatch.time(|| run(load, cores))?;
        let (digest, extra) = (check.digest(), latencies.percentiles());
        Ok(Answer { digest, records, bytes: records * 8, extra, ..Answer::default() })
    })
}

fn run(load: Load, cores: usize) -> Result<Seen> {
    let Load { records, interval, work } = load;
    let start = Arc::new(OnceLock::<Instant>::new());
    let guards = timely::execute(timely::Config::process(cores), move |worker| {
        let seen = Rc::new(RefCell::new(Seen::default()));
        let (kept, start, first) = (Rc::clone(&seen), Arc::clone(&start), worker.index() == 0);
        let now = move || start.get_or_init(Instant::now).elapsed().as_nanos() as u64;
        let clock = now.clone();
        worker.dataflow::<u64, _, _>(move |scope| {
            source(scope, "Source", move |capability, info| {
                let activator = scope.activator_for(info.address);
                let mut capability = first.then_some(capability);
                let (nanos, mut next) = (interval.as_nanos() as u64, 0);
                move |output| {
                    let Some(held) = capability.as_ref() else { return };
                    let now = clock();
                    let due = match now.checked_div(nanos) {
                        Some(whole) => whole + 1,
                        None => next + PIECE,
                    };
                    let due = due.min(records);
                    output.session(held).give_iterator((next..due).map(|i| {
                        let stamped = nanos > 0 || i.is_multiple_of(STAMPED);
                        let stamp = if nanos > 0 { i * nanos } else { now };
                        (if stamped { stamp } else { UNSTAMPED }, number(i))
                    }));
                    next = due;
                    if next == records {
                        capability = None;
                    } else {
                        // Exactly when the next record is due, or at once.
                        let rest = (next * nanos).saturating_sub(clock());
                        activator.activate_after(Duration::from_nanos(rest));
                    }
                }
            })
            .container::<Vec<(u64, u64)>>()
            .unary(Exchange::new(|(_, number): &(u64, u64)| *number), "Shuffle", |_, _| {
                |input, output| {
                    input.for_each(|time, batch| output.session(&time).give_container(batch));
                }
            })
            .map(move |record| {
                work_for(work);
                record
            })
            .sink(Exchange::new(|_: &(u64, u64)| 0), "Sink", move |(input, _)| {
                let mut seen = kept.borrow_mut();
                input.for_each(|_, batch| {
                    for (stamp, number) in batch.drain(..) {
                        seen.check.add(number);
                        if stamp != UNSTAMPED {
                            seen.latencies.record_nanos(now().saturating_sub(stamp));
                        }
                    }
                });
            });
        });
        while worker.step_or_park(None) {}
        seen.take()
    })?;
    // The first worker's sink has them all.
    let mut parts = guards.join().into_iter();
    let first = parts.next().ok_or("no worker")??;
    parts.try_for_each(|part| part.map(drop))?;
    Ok(first)
}
