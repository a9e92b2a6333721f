//! A sink ends its stream.

//~ error[E0599]: `()` is not an iterator

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).for_each(|n| println!("{n}")).map(|n| n + 1).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
