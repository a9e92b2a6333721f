//! The usual end of a word count, without the step from keys to pairs.

//~ error[E0277]: the greatest or least of all records is taken without keys, and the stream has keys
//~ needs a stream without keys
//~ of all: make it a stream of pairs of key and value first, as in `unkey().top_by_key(n, …)`
//~ of each key: `aggregate(|a| a.top_by_key(n, …))`

use thalweg::{Environment, text};

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let words = env.lines("words.txt").flat_each(text::Words);
    let counts = words.group_by_ref(|word| *word).count();
    let most = counts.top_by(3, |a, b| a.1.cmp(&b.1)).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", most.take()?);
    Ok(())
}
