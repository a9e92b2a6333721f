//! An aggregate whose closure does not say of what it is.

//~ error[E0282]: type annotations needed
//~ consider giving this closure parameter an explicit type

use thalweg::Environment;
use thalweg::operators::aggregates::average;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let prices = env.iter([("ann", 3.0), ("bob", 5.0)]).group_by(|_| ());
    let out = prices.aggregate(average(|trade| trade.1)).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
