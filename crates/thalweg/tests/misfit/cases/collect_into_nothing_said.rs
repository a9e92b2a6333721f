//! Nobody said what to collect into.

//~ error[E0277]: records of `i32` cannot be collected into `!`
//~ say what to collect into, as in `collect::<Vec<_>>()`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).collect();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
