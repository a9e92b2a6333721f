//! An exchange that is not by key, on a stream with keys.

//~ error[E0277]: this operator does not work by key, and the stream has keys
//~ needs a stream without keys
//~ make it a stream of pairs of key and value first: `unkey`
//~ or call it before `group_by`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    env.range(0..9).group_by(|n| n % 3).shuffle().count().unkey().for_each(drop);
}
