//! Text cannot be summed up.

//~ error[E0277]: `String` is not a number that can be summed up
//~ this stream's records are not numbers
//~ make numbers of the records first, with `map`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(["1".to_owned(), "2".to_owned()]).sum().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
