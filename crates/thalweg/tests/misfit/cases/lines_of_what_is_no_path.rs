//! A file is named by its path.

//~ error[E0277]
//~ the trait `Paths` is not implemented for `{integer}`
//~ the following other types implement trait `Paths`
//~ &str

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.lines(1).count();
    env.run()?;
    println!("{}", out.take()?);
    Ok(())
}
