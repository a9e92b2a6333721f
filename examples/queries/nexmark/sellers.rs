//! What each seller gets: the average of the last prices, as of every auction that closes.

use super::winners::Winner;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Duration;
use thalweg::Data;
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::time::Timestamp;
use thalweg_workloads::nexmark::oracle::{LAST, Row6};

/// Averages over the last prices of a seller, in the order in which the auctions closed.
pub struct LastPrices;

/// The last prices, and the auctions that have closed while others may have closed before.
#[derive(Default, Data)]
pub struct Known {
    last: VecDeque<u64>,
    closed: Vec<Winner>,
}

impl Process<u64, Winner> for LastPrices {
    type State = Known;
    type Out = Row6;
    type Side = Infallible;

    fn start(&self) -> Known {
        Known::default()
    }

    fn on_record(
        &self,
        _: &u64,
        known: &mut Known,
        winner: Winner,
        at: Timestamp,
        cx: &mut ProcessContext<'_, Row6, Infallible>,
    ) {
        known.closed.push(winner);
        cx.set_timer(Timer::EventTime(at.saturating_add(Duration::from_micros(1))));
    }

    fn on_timer(
        &self,
        seller: &u64,
        known: &mut Known,
        due: Timer,
        cx: &mut ProcessContext<'_, Row6, Infallible>,
    ) {
        let past = |winner: &Winner| due > Timer::EventTime(Timestamp::from_micros(winner.closed));
        known.closed.sort_by_key(|winner| (winner.closed, winner.auction));
        let settled = known.closed.partition_point(past);
        for winner in known.closed.drain(..settled) {
            known.last.truncate(LAST - 1);
            known.last.push_front(winner.price);
            let sum: u128 = known.last.iter().map(|&price| u128::from(price)).sum();
            let average = (sum / known.last.len() as u128) as u64;
            let Winner { auction, closed, .. } = winner;
            cx.emit(Row6 { seller: *seller, auction, closed, average });
        }
    }
}
