//! A closure that borrows from the function that describes the job.

//~ error[E0373]: closure may outlive the current function, but it borrows `prefix`
//~ use the `move` keyword

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let prefix = "> ".to_owned();
    let out = env.iter(["a", "b"]).map(|word| format!("{prefix}{word}")).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
