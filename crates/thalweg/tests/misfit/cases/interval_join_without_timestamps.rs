//! A join in event time of streams that have no timestamps.

//~ this operator needs event time, and the stream has no timestamps
//~ needs a stream with timestamps
//~ note: say when each record happened first: `assign_timestamps(

use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::join::Interval;

fn main() {
    let env = Environment::new();
    let numbers = || env.iter(0..9u64).group_by(|n| n % 3);
    let near = Interval::within(Duration::from_secs(1));
    numbers().interval_join(numbers(), near, |_, a, b| a + b).unkey().for_each(drop);
}
