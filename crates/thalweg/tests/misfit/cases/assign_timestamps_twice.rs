//! Timestamps are assigned to a stream that has some.

//~ the records of this stream have timestamps already
//~ needs a stream without timestamps
//~ note: assign them once

use thalweg::prelude::*;

fn main() {
    let env = Environment::new();
    let at = |n: &i64| Timestamp::from_secs(*n);
    let timed = env.iter(0..9i64).assign_timestamps(at, Watermarks::monotonous());
    timed.assign_timestamps(at, Watermarks::monotonous()).for_each(drop);
}
