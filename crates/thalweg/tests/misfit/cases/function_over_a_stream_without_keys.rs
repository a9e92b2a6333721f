//! A function over keyed streams is called with one that has no keys.

//~ is not a keyed stream whose records can be sent to the tasks of their keys
//~ note: say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs

use thalweg::prelude::*;

fn counts<S: Keyed<Time = ()>>(stream: S) {
    stream.into_keyed().count().unkey().for_each(drop);
}

fn main() {
    let env = Environment::new();
    counts(env.range(0..10));
}
