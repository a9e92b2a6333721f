//! Windows that overlap, of values that cannot be copied.

//~ values of `Order` cannot be in several windows at once
//~ this type lacks `Data` or `Clone`
//~ for a type of your own, add `#[derive(thalweg::Data, Clone)]`

use thalweg::operators::window::CountWindow;
use thalweg::{Data, Environment};

#[derive(Data)]
struct Order(u64);

fn main() {
    let env = Environment::new();
    let orders = env.iter(0..9u64).map(Order).window_all(CountWindow::sliding(3, 1));
    orders.fold(0, |sum, order| *sum += order.0).for_each(drop);
}
