//! Nothing to flatten.

//~ error[E0277]: `{integer}` is not an iterator

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).flatten().collect::<Vec<u64>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
