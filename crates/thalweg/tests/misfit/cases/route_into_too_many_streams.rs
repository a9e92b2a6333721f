//! More streams are taken than there are predicates.

//~ pattern requires 2 elements but array has 1
//~ expected 1 element

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let ([small, even], rest) = env.range(0..10).route().to(|n| *n < 5).split();
    small.for_each(drop);
    even.for_each(drop);
    rest.for_each(drop);
}
