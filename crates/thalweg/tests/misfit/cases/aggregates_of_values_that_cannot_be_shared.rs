//! An aggregate that keeps values beside another that needs them too.

//~ error[E0277]: the trait bound `Trade: Clone` is not satisfied
//~ required for `ToVec` to implement `AggregateRef<Trade>`
//~ help: consider annotating `Trade` with `#[derive(Clone)]`

use thalweg::Environment;

#[derive(thalweg::Data)]
struct Trade {
    share: String,
    price: f64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let trades = env.iter([Trade { share: "ann".into(), price: 3.0 }]);
    let out = trades
        .group_by(|trade| trade.share.clone())
        .aggregate(|a| (a.to_vec(), a.max(|trade| trade.price)))
        .collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?.len());
    Ok(())
}
