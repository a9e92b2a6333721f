//! Early results of windows that have a result for each record.

//~ no method named `early` found for struct `LastWindow`

use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::window::{Early, LastWindow};

fn main() {
    let env = Environment::new();
    let last = LastWindow::new(10).early(Early::interval(Duration::from_secs(1)));
    env.iter(0..9u64).window_all(last).sum(|n| *n).for_each(drop);
}
