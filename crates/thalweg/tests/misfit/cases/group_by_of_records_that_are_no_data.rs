//! A fold sends the records to the task of their key, so they are data.

//~ error[E0599]: the method `fold` exists
//~ doesn't satisfy `Order: Data`
//~ the trait `Data` must be implemented

use thalweg::Environment;

struct Order {
    customer: u64,
    amount: u64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let orders = env.iter(0..10).map(|n| Order { customer: n % 3, amount: n });
    let totals = orders.group_by(|order| order.customer);
    let out = totals.fold(0_u64, |sum, order| *sum += order.amount).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
