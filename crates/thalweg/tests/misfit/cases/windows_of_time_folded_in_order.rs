//! A list of the values of each window of event time, by the method of windows that go by order.

//~ `fold` and `to_vec` need windows that see values in order, such as `CountWindow`
//~ `thalweg::prelude::EventTimeWindow` combines values in any order
//~ `aggregate(|a| a.to_vec())` for a list

use std::time::Duration;
use thalweg::prelude::*;

fn main() {
    let env = Environment::new();
    env.iter([(1, 'a'), (2, 'b')])
        .assign_timestamps(|record| Timestamp::from_secs(record.0), Watermarks::monotonous())
        .group_by(|record| record.1)
        .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
        .to_vec()
        .unkey()
        .for_each(drop);
}
