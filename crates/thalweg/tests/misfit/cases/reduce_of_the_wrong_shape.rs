//! `reduce` makes one record of two, and does not change the first in place.

//~ error[E0614]: type `{integer}` cannot be dereferenced
//~ expected integer, found `()`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).reduce(|sum, n| *sum += n).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
