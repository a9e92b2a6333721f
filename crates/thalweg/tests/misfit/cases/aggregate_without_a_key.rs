//! An aggregate by key on a stream that has no keys.

//~ error[E0277]: `(&str, {integer})` is not a number that can be summed up
//~ this stream's records are not numbers
//~ to sum up by key, call `group_by` first

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let totals = env.iter([("ann", 3), ("bob", 5)]).sum(|(_, n)| n).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", totals.take()?);
    Ok(())
}
