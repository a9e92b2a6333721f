//! `unkey` on a stream whose values are beside a borrowed state.

//~ are borrowed, and cannot be owned as they are
//~ needs values that can be owned
//~ beside a state: `map(|_, (value, state)| …)`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let factors = env.iter([2u64]);
    let numbers = env.range(0..10).group_by(|n| n % 3);
    let scaled = numbers.connect(factors, 1, |factor, to| *factor = to);
    scaled.unkey().for_each(drop);
}
