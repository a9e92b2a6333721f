//! What is printed can be shown.

//~ error[E0277]: `Order` doesn't implement `std::fmt::Display`

use thalweg::{Data, Environment};

#[derive(Data)]
struct Order {
    amount: u64,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    env.iter(0..10).map(|amount| Order { amount }).print();
    env.run()
}
