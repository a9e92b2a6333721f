//! A join whose values cannot be copied, though a record may have several partners.

//~ the trait bound `Order: Clone` is not satisfied
//~ help: consider annotating `Order` with `#[derive(Clone)]`

use thalweg::{Data, Environment};

#[derive(Data)]
struct Order {
    amount: u64,
}

fn main() {
    let env = Environment::new();
    let left = env.iter([(1, 2)]).map(|(key, amount)| (key, Order { amount })).keyed();
    left.join(env.iter([(1, 'b')]).keyed()).unkey().for_each(drop);
}
