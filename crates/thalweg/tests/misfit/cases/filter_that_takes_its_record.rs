//! `filter` sees its record by reference.

//~ error[E0308]: mismatched types
//~ expected `bool`, found `u64`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10_u64).filter(|n| n % 2).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
