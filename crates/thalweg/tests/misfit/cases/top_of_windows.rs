//! The greatest values of each window, as they are taken of a whole stream.

//~ this aggregate is computed by `aggregate`, and has no method of its own here
//~ needs `aggregate(|a| …)`
//~ `aggregate(|a| a.top_by_key(n, …))`

use std::time::Duration;
use thalweg::prelude::*;

fn main() {
    let env = Environment::new();
    let visits = env
        .iter([(1, 'a'), (2, 'b')])
        .assign_timestamps(|visit| Timestamp::from_secs(visit.0), Watermarks::monotonous())
        .group_by(|visit| visit.1);
    visits
        .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
        .top_by_key(3, |visit| visit.0)
        .unkey()
        .for_each(drop);
}
