//! The closure of an aggregate sees a reference, and gives a number.

//~ error[E0277]: values of `&{integer}` cannot be summed up
//~ needs a closure that gives numbers
//~ the closure sees a reference: `sum(|n| *n)` copies the number

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let total = env.iter([("ann", 3), ("bob", 5)]).sum(|(_, n)| n).collect_one();
    env.run()?;
    println!("{:?}", total.take()?);
    Ok(())
}
