//! What is folded for each key is state, and so is data.

//~ error[E0277]: `Total` cannot cross an exchange or be kept as state
//~ this type does not implement `Data`
//~ for a type of your own, add `#[derive(thalweg::Data)]`

use thalweg::Environment;

#[derive(Clone)]
struct Total(u64);

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let keyed = env.iter(0..10_u64).group_by(|n| n % 3);
    let totals = keyed.fold(Total(0), |total, n| total.0 += n);
    let out = totals.unkey().map(|(key, total)| (key, total.0)).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
