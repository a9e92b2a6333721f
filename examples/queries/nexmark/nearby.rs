//! Sellers nearby: persons and auctions meet, whichever comes first.

use std::convert::Infallible;
use thalweg::Data;
use thalweg::operators::keyed::{Process, ProcessContext, Timer};
use thalweg::time::Timestamp;
use thalweg_workloads::nexmark::oracle::Row3;

/// A seller's name, city and state, or an auction.
#[derive(Clone, Data)]
pub enum Side {
    /// A person that lives nearby.
    Person([String; 3]),
    /// An auction of the wanted category.
    Auction(u64),
}

/// Joins persons with what they sell, for as long as the job runs.
pub struct Nearby;

impl Process<u64, Side> for Nearby {
    /// The person, and the auctions that came before.
    type State = (Option<[String; 3]>, Vec<u64>);
    type Out = Row3;
    type Side = Infallible;

    fn start(&self) -> Self::State {
        (None, Vec::new())
    }

    fn on_record(
        &self,
        _: &u64,
        (person, waiting): &mut Self::State,
        side: Side,
        _: Timestamp,
        cx: &mut ProcessContext<'_, Row3, Infallible>,
    ) {
        match side {
            Side::Person(known) => *person = Some(known),
            Side::Auction(auction) => waiting.push(auction),
        }
        if let Some([name, city, state]) = person {
            for auction in waiting.drain(..) {
                let (name, city, state) = (name.clone(), city.clone(), state.clone());
                cx.emit(Row3 { name, city, state, auction });
            }
        }
    }

    fn on_timer(
        &self,
        _: &u64,
        _: &mut Self::State,
        _: Timer,
        _: &mut ProcessContext<'_, Row3, Infallible>,
    ) {
    }
}
