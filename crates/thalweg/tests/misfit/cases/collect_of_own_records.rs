//! What is collected leaves its task, and so is data.

//~ error[E0277]: `Order` cannot cross an exchange or be kept as state
//~ this type does not implement `Data`
//~ for a type of your own, add `#[derive(thalweg::Data)]`

use thalweg::Environment;

#[derive(Debug)]
struct Order {
    amount: u64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).map(|amount| Order { amount }).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?[0].amount);
    Ok(())
}
