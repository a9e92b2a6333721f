//! Lines of text cannot be summed up, even if numbers stand in them.

//~ error[E0277]: `str` is not a number that can be summed up
//~ this stream's records are not numbers
//~ make numbers of the records first, with `map`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.lines("numbers.txt").sum().collect::<Vec<u64>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
