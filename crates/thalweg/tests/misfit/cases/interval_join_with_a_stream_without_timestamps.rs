//! A join in event time with a stream that has no timestamps.

//~ type mismatch resolving
//~ expected `Timestamp`, found `()`

use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::join::Interval;
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;

fn main() {
    let env = Environment::new();
    let timed = env.range(0..9).assign_timestamps(|_| Timestamp::MIN, Watermarks::monotonous());
    let (left, right) = (timed.group_by(|n| n % 3), env.range(0..9).group_by(|n| n % 3));
    let near = Interval::within(Duration::from_secs(1));
    left.interval_join(right, near, |_, a, b| a + b).unkey().for_each(drop);
}
