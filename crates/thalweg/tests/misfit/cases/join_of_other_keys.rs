//! A join of two streams whose keys are of different types.

//~ error[E0277]: a stream with keys of `u32` cannot be joined with one with keys of `u64`
//~ the keys of both streams must be of the same type
//~ convert the keys of one of them: `group_by(|record| u64::from(record.id))`, or `map` before `keyed`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1u32, 'a')]).keyed(), env.iter([(1u64, 'b')]).keyed());
    left.join(right).unkey().for_each(drop);
}
