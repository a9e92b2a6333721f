//! The closure of a keyed sum gives numbers.

//~ error[E0277]: values of `String` cannot be summed up
//~ needs a closure that gives numbers
//~ make a number of each value in the closure of `sum`; values of other types are added with `reduce` or `fold_assoc`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10_u64).group_by(|n| n % 3).sum(|n| n.to_string()).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
