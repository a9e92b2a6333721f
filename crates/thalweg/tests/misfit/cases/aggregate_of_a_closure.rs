//! The closure of `aggregate` is given what can be computed, and chooses from it.

//~ is no aggregate of values of `(&str, {float})` of which parts can be put together
//~ the closure must give an aggregate
//~ those that there are, are methods of its parameter: `aggregate(|a| a.count())`
//~ with closures of your own, use `a.fold_assoc(…)` or `a.reduce(…)`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let prices = env.iter([("ann", 3.0), ("bob", 5.0)]).group_by(|_| ());
    let out = prices.aggregate(|price| price).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
