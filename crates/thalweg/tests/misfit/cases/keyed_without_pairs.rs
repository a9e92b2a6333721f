//! The records of a keyed stream are pairs, and these are none.

//~ error[E0271]
//~ expected `(_, _)`, found `&str`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let counts = env.iter(["a", "b", "a"]).keyed().count().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", counts.take()?);
    Ok(())
}
