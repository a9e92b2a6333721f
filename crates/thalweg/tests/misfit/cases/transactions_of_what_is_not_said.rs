//! Transactions whose closure does not say what it looks at.

//~ type annotations needed
//~ help: consider giving this closure parameter an explicit type

use thalweg::Environment;
use thalweg::operators::window::{Transaction, TransactionWindow};

fn main() {
    let env = Environment::new();
    let carts = TransactionWindow::new(|order| match order.bought {
        true => Transaction::Commit,
        false => Transaction::Continue,
    });
    env.iter([(1, true)]).window_all(carts).count().for_each(drop);
}
