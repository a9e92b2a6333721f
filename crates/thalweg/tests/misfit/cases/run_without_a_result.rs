//! A job can fail, so `main` says what it returns.

//~ error[E0277]: the `?` operator can only be used in a function that returns `Result`
//~ this function should return `Result`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    env.iter(0..10).for_each(|n| println!("{n}"));
    env.run()?;
}
