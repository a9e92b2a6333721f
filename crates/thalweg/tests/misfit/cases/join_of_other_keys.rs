//! A join of two streams whose keys are of different types.

//~ type mismatch resolving
//~ expected `u32`, found `u64`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1u32, 'a')]).keyed(), env.iter([(1u64, 'b')]).keyed());
    left.join(right).unkey().for_each(drop);
}
