//! A closure where an aggregate is asked for.

//~ is no aggregate of values of `(&str, {float})` of which parts can be put together
//~ needs an aggregate
//~ are in `thalweg::operators::aggregates`
//~ with closures of your own, use `fold_assoc` or `reduce`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let prices = env.iter([("ann", 3.0), ("bob", 5.0)]).group_by(|_| ());
    let out = prices.aggregate(|(_, price): (&str, f64)| price).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
