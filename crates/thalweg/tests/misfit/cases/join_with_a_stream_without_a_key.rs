//! A join of a keyed stream with one that has no keys.

//~ is no keyed stream that can be joined
//~ needs a keyed stream
//~ note: say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1, 'a')]).keyed(), env.iter([(1, 'b')]));
    left.join(right).unkey().for_each(drop);
}
