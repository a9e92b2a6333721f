//! Rows of CSV are made of what serde can write.

//~ error[E0277]: the trait bound `Order: serde::Serialize` is not satisfied
//~ adding `#[derive(serde::Serialize)]`

use thalweg::{Data, Environment};

#[derive(Data)]
struct Order {
    amount: u64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    env.iter(0..10).map(|amount| Order { amount }).write_csv("orders.csv");
    env.run()
}
