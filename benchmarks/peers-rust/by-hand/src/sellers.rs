//! The last prices of each seller, for query 6 of Nexmark.

use crate::auctions::Winner;
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use thalweg_workloads::nexmark::oracle::{LAST, Row6};

/// The sellers of a worker.
#[derive(Clone, Default)]
pub struct Sellers {
    waiting: BTreeMap<i64, Vec<Winner>>,
    last: FxHashMap<u64, Prices>,
}

#[derive(Clone, Default)]
struct Prices {
    last: VecDeque<u64>,
    sum: u64,
}

impl Sellers {
    /// Takes in what was sold in the slide that starts there.
    #[inline]
    pub fn add(&mut self, slide: i64, winner: Winner) {
        self.waiting.entry(slide).or_default().push(winner);
    }

    /// All of a slide, and of those before, has been added: gives their averages.
    pub fn complete(&mut self, slide: i64, mut give: impl FnMut(Row6)) {
        while let Some(first) = self.waiting.first_entry()
            && *first.key() <= slide
        {
            let mut sold = first.remove();
            sold.sort_unstable_by_key(|winner| (winner.closed, winner.auction));
            for Winner { auction, seller, closed, price, .. } in sold {
                let Prices { last, sum } = self.last.entry(seller).or_default();
                if last.len() == LAST {
                    *sum -= last.pop_front().unwrap_or_default();
                }
                last.push_back(price);
                *sum += price;
                give(Row6 { seller, auction, closed, average: *sum / last.len() as u64 });
            }
        }
    }
}
