//! A type without an order.

//~ error[E0277]: records of `Order` have no order
//~ for a type of your own, derive `PartialEq`, `Eq`, `PartialOrd` and `Ord`

use thalweg::{Data, Environment};

#[derive(Data, Debug)]
struct Order {
    amount: u64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).map(|amount| Order { amount }).top(1).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
