//! Exchange: a source operator that yields after each piece, and a sink that exchanges its input
//! and folds whole batches. Worker threads of one process hand over owned records without encoding them;
//! between processes timely encodes them by serde.

use std::cell::RefCell;
use std::rc::Rc;

use bench_protocol::workload::{self, NumberCheck, Record, RecordCheck};
use bench_protocol::{Answer, Request, Result, Stopwatch, serve_parts};
use serde::{Deserialize, Serialize};
use timely::ExchangeData;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::{Operator, source};

use crate::workers::Workers;

/// Records a source makes before it lets the other operators of its worker run.
const PIECE: u64 = 16 * 1024;

pub(crate) fn serve_numbers(request: &Request) -> Result<()> {
    let workers = Workers::start(request)?;
    let records: u64 = request.value("records")?;
    let round = |stopwatch: &mut Stopwatch| {
        let checks = stopwatch.time(|| {
            run(records, &workers, workload::number, |number| *number, NumberCheck::add)
        })?;
        let mut all = NumberCheck::default();
        checks.into_iter().for_each(|check| all.merge(check));
        Ok(all)
    };
    serve_parts(request, round, |all| Answer {
        digest: all.digest(),
        records,
        bytes: records * 8,
        ..Answer::default()
    })
}

pub(crate) fn serve_records(request: &Request) -> Result<()> {
    let workers = Workers::start(request)?;
    let records: u64 = request.value("records")?;
    let round = |stopwatch: &mut Stopwatch| {
        let checks = stopwatch.time(|| {
            run(
                records,
                &workers,
                |i| Owned::of(workload::record(i)),
                |record| record.id,
                |check: &mut RecordCheck, record: Owned| check.add(record.borrow()),
            )
        })?;
        let mut all = RecordCheck::default();
        checks.into_iter().for_each(|check| all.merge(check));
        Ok(all)
    };
    serve_parts(request, round, |all| Answer {
        digest: all.digest(),
        records,
        bytes: all.bytes(),
        ..Answer::default()
    })
}

/// Timely's natural record in one process: a structure with strings of its own, which is moved.
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

/// Runs the job and returns what each worker's sink has kept.
fn run<D, C>(
    records: u64,
    workers: &Workers,
    make: impl Fn(u64) -> D + Copy + Send + Sync + 'static,
    route: impl Fn(&D) -> u64 + Copy + Send + Sync + 'static,
    take: impl Fn(&mut C, D) + Copy + Send + Sync + 'static,
) -> Result<Vec<C>>
where
    D: ExchangeData,
    C: Default + Clone + Send + 'static,
{
    workers.run(move |worker| {
        let check = Rc::new(RefCell::new(C::default()));
        let kept = Rc::clone(&check);
        let (index, peers) = (worker.index() as u64, worker.peers() as u64);
        let (mut next, end) = (records * index / peers, records * (index + 1) / peers);
        worker.dataflow::<u64, _, _>(move |scope| {
            source(scope, "Source", |capability, info| {
                let activator = scope.activator_for(info.address);
                let mut capability = Some(capability);
                move |output| {
                    let Some(time) = capability.as_ref() else { return };
                    let stop = end.min(next + PIECE);
                    output.session(time).give_iterator((next..stop).map(make));
                    next = stop;
                    if next == end {
                        capability = None;
                    } else {
                        activator.activate();
                    }
                }
            })
            .container::<Vec<D>>()
            .sink(
                Exchange::new(move |record: &D| route(record)),
                "Sink",
                move |(input, _)| {
                    let mut check = kept.borrow_mut();
                    input.for_each(|_, batch| {
                        batch.drain(..).for_each(|record| take(&mut check, record));
                    });
                },
            );
        });
        while worker.step_or_park(None) {}
        check.take()
    })
}
