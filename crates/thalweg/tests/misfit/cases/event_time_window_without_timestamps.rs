//! A window of event time on a stream that has no timestamps.

//~ this operator needs event time, and the stream has no timestamps
//~ needs a stream with timestamps
//~ note: say when each record happened first: `assign_timestamps(

use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::window::EventTimeWindow;

fn main() {
    let env = Environment::new();
    let windows = EventTimeWindow::tumbling(Duration::from_secs(1));
    env.iter(0..9u64).group_by(|n| n % 3).window(windows).count().unkey().for_each(drop);
}
