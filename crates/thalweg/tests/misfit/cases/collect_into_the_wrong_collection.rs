//! Pairs are collected into a map, and these are none.

//~ error[E0277]: records of `{integer}` cannot be collected into `HashMap<u64, u64>`
//~ not a collection of such records
//~ a map is made of a stream of pairs

use std::collections::HashMap;
use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).collect::<HashMap<u64, u64>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
