//! A join in windows of two streams whose keys are of different types.

//~ type mismatch resolving
//~ expected `u32`, found `u64`

use std::time::Duration;
use thalweg::Environment;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;

fn main() {
    let env = Environment::new();
    let numbers = || env.range(0..9).assign_timestamps(|_| Timestamp::MIN, Watermarks::monotonous());
    let (left, right) = (numbers().group_by(|n| *n as u32), numbers().group_by(|n| *n));
    let tens = EventTimeWindow::tumbling(Duration::from_secs(10));
    left.window_join(right, tens, |_, a, b| a + b).unkey().for_each(drop);
}
