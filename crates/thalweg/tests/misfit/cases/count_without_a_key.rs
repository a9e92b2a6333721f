//! Counts of each word, but nobody said that words are the key.

//~ error[E0277]: no operator follows a sink, and the stream ended in one here
//~ this is the result of a sink, and not a stream
//~ to count by key, say what the key is first: `group_by`, `group_by_ref` or `keyed`, then `count`

use std::collections::HashMap;
use thalweg::{Environment, text};

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let words = env.lines("words.txt").flat_each(text::Words);
    let counts = words.count().collect::<HashMap<_, _>>();
    env.run()?;
    println!("{:?}", counts.take()?);
    Ok(())
}
