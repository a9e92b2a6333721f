//! What is folded is state, and so is data.

//~ error[E0277]: `Total` cannot cross an exchange or be kept as state
//~ this type does not implement `Data`
//~ for a type of your own, add `#[derive(thalweg::Data)]`

use thalweg::Environment;

#[derive(Clone)]
struct Total(u64);

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let totals = env.iter(0..10_u64).fold(Total(0), |total, n| total.0 += n);
    let out = totals.map(|total| total.0).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
