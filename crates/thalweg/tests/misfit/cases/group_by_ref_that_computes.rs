//! `group_by_ref` points to a part of the record, and this is a new value.

//~ error[E0308]: mismatched types
//~ expected `&_`, found `usize`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.lines("words.txt").group_by_ref(|line| line.len()).count().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
