//! Timestamps for a stream that has keys already.

//~ error[E0277]: this operator does not work by key, and the stream has keys
//~ needs a stream without keys
//~ make it a stream of pairs of key and value first: `unkey`
//~ or call it before `group_by`

use thalweg::prelude::*;

fn main() {
    let env = Environment::new();
    let at = |record: &(i64, char)| Timestamp::from_secs(record.0);
    env.iter([(1, 'a'), (2, 'b')])
        .group_by(|record| record.1)
        .assign_timestamps(at, Watermarks::monotonous())
        .count()
        .unkey()
        .for_each(drop);
}
