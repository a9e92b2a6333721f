//! A join in windows of streams that have no keys.

//~ this operator works by key, and the stream has no keys
//~ note: say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs

use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;

fn main() {
    let env = Environment::new();
    let timed = || {
        let pairs = env.iter([(1, 'a'), (2, 'b')]);
        pairs.assign_timestamps(|pair| Timestamp::from_secs(pair.0), Watermarks::monotonous())
    };
    let tens = EventTimeWindow::tumbling(Duration::from_secs(10));
    timed().window_join(timed(), tens, |_, a, b| (a.0, b.1)).unkey().for_each(drop);
}
