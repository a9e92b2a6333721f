//! Every pair, of a stream with keys.

//~ this operator does not work by key, and the stream has keys
//~ note: make it a stream of pairs of key and value first: `unkey`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let left = env.iter([(1, 'a')]).keyed();
    left.cross(env.iter([(1, 'b')])).for_each(drop);
}
