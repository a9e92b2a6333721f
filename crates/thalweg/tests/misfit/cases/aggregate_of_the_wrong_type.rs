//! An aggregate whose closure takes what the stream does not carry.

//~ error[E0631]: type mismatch in closure arguments
//~ found signature defined here
//~ fn(&'b (&str, {float})) -> _`
//~ found closure signature
//~ f64) -> _`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let prices = env.iter([("ann", 3.0), ("bob", 5.0)]).group_by(|_| ());
    let out = prices.aggregate(|a| (a.count(), a.average(|price: &f64| *price))).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
