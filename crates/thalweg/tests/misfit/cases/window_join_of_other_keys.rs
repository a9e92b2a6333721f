//! A join in windows of two streams whose keys are of different types.

//~ error[E0277]: a stream with keys of `u32` cannot be joined with one with keys of `u64`
//~ the keys of both streams must be of the same type
//~ convert the keys of one of them: `group_by(|record| u64::from(record.id))`, or `map` before `keyed`

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
