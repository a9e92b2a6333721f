//! A part of a record that is no key.

//~ error[E0277]: records cannot be grouped by a key of `f64`
//~ floats are no keys, as NaN is not equal to itself: round them to an integer, or use `to_bits`

use thalweg::{Data, Environment};

#[derive(Data)]
struct Order {
    price: f64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let orders = env.iter([1.5, 2.5]).map(|price| Order { price });
    let out = orders.group_by_ref(|order| &order.price).count().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
