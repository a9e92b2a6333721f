//! Lateness allowed where Flink allows it: behind `window`.

//~ this is a setting of the window, and belongs inside `window(…)`
//~ called on the stream that is cut into windows
//~ as in `window(SessionWindow::new(…).early(…))`, `window(EventTimeWindow::tumbling(…).allowed_lateness(…))`

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
        .allowed_lateness(Duration::from_secs(60))
        .count()
        .unkey()
        .for_each(drop);
}
