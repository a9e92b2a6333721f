//! A join of streams that have no keys.

//~ this operator works by key, and the stream has no keys
//~ note: say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1, 'a')]), env.iter([(1, 'b')]));
    left.join(right).for_each(drop);
}
