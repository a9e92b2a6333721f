//! Windows that overlap, of values that cannot be copied.

//~ the method `fold` exists for struct `Windowed<
//~ `Order: Clone`
//~ which is required by `Order: Kept`
//~ help: consider annotating `Order` with `#[derive(Clone)]`

use thalweg::operators::window::CountWindow;
use thalweg::{Data, Environment};

#[derive(Data)]
struct Order(u64);

fn main() {
    let env = Environment::new();
    let orders = env.iter(0..9u64).map(Order).window_all(CountWindow::sliding(3, 1));
    orders.fold(0, |sum, order| *sum += order.0).for_each(drop);
}
