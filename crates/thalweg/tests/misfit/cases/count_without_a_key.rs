//! Counts of each word, but nobody said that words are the key.

//~ error[E0277]: records of `u64` cannot be collected into `HashMap
//~ not a collection of such records
//~ a map is made of a stream of pairs

use std::collections::HashMap;
use thalweg::{Environment, text};

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let words = env.lines("words.txt").flat_each(text::Words);
    let counts = words.count().collect::<HashMap<String, u64>>();
    env.run()?;
    println!("{:?}", counts.take()?);
    Ok(())
}
