//! Words of a line that are handed on from `flat_map` would outlive the line.

//~ error[E0277]: `&str` cannot cross an exchange or be kept as state
//~ this type does not implement `Data`
//~ of borrowed text make a `String` with `to_owned`, or hand it on with `flat_map_str` or `flat_each`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.lines("words.txt").flat_map(|line| line.split_whitespace()).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
