//! Every field of data is data.

//~ error[E0277]: `Money` cannot cross an exchange or be kept as state
//~ this type does not implement `Data`
//~ for a type of your own, add `#[derive(thalweg::Data)]`

use thalweg::{Data, Environment};

struct Money(u64);

#[derive(Data)]
struct Order {
    amount: Money,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let orders = env.iter(0..10).map(|amount| Order { amount: Money(amount) });
    let out = orders.shuffle().map(|order| order.amount.0).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
