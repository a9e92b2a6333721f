//! An aggregate that keeps values beside another that needs them too.

//~ error[E0277]: `ToVec` keeps values of `Trade`, and others of the tuple need them too
//~ needs values that can be cloned
//~ add `#[derive(Clone)]` to the type of the values, or put this aggregate last

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
