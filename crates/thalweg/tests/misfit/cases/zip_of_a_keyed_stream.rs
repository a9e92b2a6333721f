//! Pairs of the records of a stream with keys.

//~ this operator does not work by key, and the stream has keys
//~ note: make it a stream of pairs of key and value first: `unkey`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let keyed = env.range(0..10).group_by(|n| n % 3);
    keyed.zip(env.range(0..10)).for_each(drop);
}
