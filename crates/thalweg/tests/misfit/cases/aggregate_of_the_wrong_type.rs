//! An aggregate whose closure takes what the stream does not carry.

//~ error[E0631]: type mismatch in closure arguments
//~ found signature defined here
//~ expected closure signature `fn((&str, {float})) -> _`
//~ found closure signature `fn(f64) -> _`

use thalweg::Environment;
use thalweg::operators::aggregates::{average, count};

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let prices = env.iter([("ann", 3.0), ("bob", 5.0)]).group_by(|_| ());
    let out = prices.aggregate((count(), average(|price: f64| price))).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
