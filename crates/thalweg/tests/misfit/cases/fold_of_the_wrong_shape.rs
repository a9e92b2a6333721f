//! `fold` changes its value in place, and is not given it to return another.

//~ error[E0369]: cannot add `u64` to `&mut u64`
//~ if you dereference the left-hand side

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10_u64).fold(0_u64, |sum, n| sum + n).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
