//! Several aggregates at once over values of which each would need its own.

//~ error[E0277]: the trait bound `Trade: Clone` is not satisfied
//~ consider annotating `Trade` with `#[derive(Clone)]`

use thalweg::Environment;
use thalweg::operators::aggregates::{average, max};

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
        .aggregate((average(|trade: Trade| trade.price), max(|trade: Trade| trade.price)))
        .collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
