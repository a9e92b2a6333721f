//! Rows of CSV become what serde can read.

//~ error[E0277]: the trait bound `Order: serde::Deserialize<'de>` is not satisfied
//~ adding `#[derive(serde::Deserialize)]`

use thalweg::{Data, Environment};

#[derive(Data, Debug)]
struct Order {
    amount: u64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.csv::<Order>("orders.csv").map(|order| order.amount).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
