//! A keyed stream is routed as it is.

//~ this operator does not work by key, and the stream has keys
//~ note: make it a stream of pairs of key and value first: `unkey`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    env.range(0..10).group_by(|n| n % 3).route();
}
