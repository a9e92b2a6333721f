//! Calls for each record of a stream with keys.

//~ this operator does not work by key, and the stream has keys
//~ note: make it a stream of pairs of key and value first: `unkey`

use thalweg::{Environment, operators::calls::Calls};

fn main() {
    let env = Environment::new();
    let orders = env.iter([(1, 20)]).keyed();
    orders.map_async(Calls::in_flight(8), async |(_, order)| order + 1).for_each(drop);
}
