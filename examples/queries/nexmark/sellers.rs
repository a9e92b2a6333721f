//! What each seller gets: the average of the last prices, as of every auction that closes.

use super::winners::Winner;
use thalweg::Data;
use thalweg_workloads::nexmark::oracle::{LAST, Row6};

/// The last prices of a seller.
#[derive(Clone, Default, Data)]
pub struct LastPrices {
    /// The price of each of the last sales, in the place of its number modulo [`LAST`].
    prices: [u64; LAST],
    sales: u64,
}

impl LastPrices {
    /// Adds a sale, the last one so far.
    pub fn add(&mut self, &Winner { seller, auction, closed, price, .. }: &Winner) -> Row6 {
        let most = LAST as u64;
        self.prices[(self.sales % most) as usize] = price;
        self.sales += 1;
        let sum: u128 = self.prices.iter().map(|&price| u128::from(price)).sum();
        let average = (sum / u128::from(self.sales.min(most))) as u64;
        Row6 { seller, auction, closed, average }
    }
}
