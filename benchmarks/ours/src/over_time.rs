//! Latency over time of queries of Nexmark: events come on a schedule, `--rate` a second, and a result is as
//! late as it comes after the event that it follows from was due.

use crate::environment;
use crate::kept::{Kept, Part, Seen};
use crate::streams::{SEED, answer};
use bench_protocol::open_loop::Schedule;
use bench_protocol::{Answer, Request, Result, serve};
use std::sync::Arc;
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Stream, Visit};
use thalweg_queries::nexmark::{Events, q3, q5};
use thalweg_workloads::digest::Row;
use thalweg_workloads::nexmark::again::{BLOCK, Tape, opening};
use thalweg_workloads::nexmark::oracle::{HOT_ITEMS, Row2, Row3, Row5, SKIP};
use thalweg_workloads::nexmark::{EventRef, recipe};

pub(crate) fn serve_over_time(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let query: u8 = request.value("query")?;
    let rate: f64 = request.value("rate")?;
    let blocks = request.value::<u64>("events")? / BLOCK;
    let tape = Arc::new(Tape::record(recipe(SEED), request.value("tape")?));
    serve(request, |stopwatch| {
        let live =
            Live { tape: Arc::clone(&tape), schedule: Arc::new(Schedule::new(rate)), blocks };
        let seen = stopwatch.time(|| run(&env, query, &live))?;
        let (extra, series) = (seen.latencies.percentiles(), seen.latencies.series());
        let events = blocks * BLOCK;
        Ok(Answer { extra, series, ..answer(seen.rows, events, 0) })
    })
}

/// Events that come on a schedule, a block when the last of it is due.
#[derive(Clone)]
struct Live {
    tape: Arc<Tape>,
    schedule: Arc<Schedule>,
    blocks: u64,
}

fn run(env: &Environment, query: u8, live: &Live) -> Result<Seen> {
    let kept = Kept::<Seen>::new();
    let (events, part) = (live.events(env), kept.part());
    match query {
        2 => live.follow(with_time(events), part, |live, (row, time)| {
            (row, Some(live.tape.number(time)))
        }),
        // Of a seller and an auction, the seller is known first but for a few events.
        3 => live.follow(q3(events), part, |_, row: Row3| {
            let number = opening(row.auction);
            (row, Some(number))
        }),
        5 => live.follow(q5(events), part, |live, row: Row5| {
            let end = live.tape.number(row.start + HOT_ITEMS.size());
            // A window that no event ends has no moment from which to count.
            (row, Some(end).filter(|end| *end < live.blocks * BLOCK))
        }),
        other => return Err(format!("there is no query {other} here: 2, 3, 5").into()),
    }
    env.run()?;
    Ok(kept.take())
}

/// Query 2, whose rows are given the time of their bid, from which their latency counts.
fn with_time<C: Chain<Item = Events, Time = Timestamp>>(
    events: Stream<C>,
) -> Stream<impl Chain<Item = (Row2, i64), Time = Timestamp>> {
    events.filter_map(|event: EventRef<'_>| match event {
        EventRef::Bid(bid) if bid.auction % SKIP == 0 => {
            Some((Row2 { auction: bid.auction, price: bid.price }, bid.date_time))
        }
        _ => None,
    })
}

impl Live {
    fn events(
        &self,
        env: &Environment,
    ) -> Stream<impl Chain<Item = Events, Time = Timestamp> + use<>> {
        let Self { schedule, blocks, .. } = self.clone();
        env.generate(self.schedule.rate() / BLOCK as f64, move |block| {
            schedule.begin();
            (block < blocks).then_some(block)
        })
        .shuffle()
        .flat_each(Play { tape: Arc::clone(&self.tape) })
        .assign_timestamps(|event| Timestamp::from_micros(event.time()), Watermarks::monotonous())
    }

    /// Keeps the rows, and how late they are after the event with the number that `follows` gives.
    fn follow<C, T, R>(
        &self,
        rows: Stream<C>,
        mut part: Part<Seen>,
        follows: impl Fn(&Self, T) -> (R, Option<u64>) + Clone + Send + 'static,
    ) where
        C: Chain<Item = T>,
        T: thalweg::Data,
        R: Row,
    {
        let live = self.clone();
        rows.map_volatile(move |row: T| {
            let part = &mut part;
            let (row, number) = follows(&live, row);
            part.own.rows.add(&row);
            if let Some(number) = number {
                // The first block is due at the beginning, and its last event with it.
                let due = live.schedule.due((number + 1).saturating_sub(BLOCK));
                part.own.latencies.record(due, live.schedule.now());
            }
        })
        .for_each(|()| ());
    }
}

/// Reads the events of a block.
struct Play {
    tape: Arc<Tape>,
}

impl Visit<u64> for Play {
    type Out = Events;
    type Scratch = ();

    #[inline(always)]
    fn visit(&self, block: u64, (): &mut (), emit: &mut impl FnMut(EventRef<'_>)) {
        for event in self.tape.block(block) {
            emit(event);
        }
    }
}
