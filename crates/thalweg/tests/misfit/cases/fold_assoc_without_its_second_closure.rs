//! What the tasks have folded must be put together.

//~ error[E0061]: this method takes 3 arguments but 2 arguments were supplied
//~ /* global */

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10_u64).fold_assoc(0_u64, |sum, n| *sum += n).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
