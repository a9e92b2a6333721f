//! A closure of `flat_map` gives something to go through.

//~ error[E0277]: `u64` is not an iterator

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10_u64).flat_map(|n| n + 1).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
