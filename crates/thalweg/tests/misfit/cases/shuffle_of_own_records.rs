//! Records that cross an exchange are data.

//~ error[E0277]: records of `Order` cannot cross an exchange or be collected
//~ this operator needs records that can leave their task
//~ for a type of your own, add `#[derive(thalweg::Data)]`

use thalweg::Environment;

struct Order {
    amount: u64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let orders = env.iter(0..10).map(|amount| Order { amount });
    let out = orders.shuffle().map(|order| order.amount).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
