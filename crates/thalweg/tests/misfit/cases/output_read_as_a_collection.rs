//! What `collect` gives is there after the run, and must be taken.

//~ error[E0277]: `thalweg::Output<Vec<{integer}>>` is not an iterator

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).collect::<Vec<_>>();
    env.run()?;
    for n in out {
        println!("{n}");
    }
    Ok(())
}
