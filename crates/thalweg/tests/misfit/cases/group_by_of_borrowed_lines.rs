//! `group_by` keeps the record beside its key, which a borrowed line does not allow.

//~ error[E0277]: records of `str` are borrowed from their batch, and this operator would keep them
//~ needs records that are handed on by value
//~ for a key that is a part of the record, use `group_by_ref`, which copies nothing
//~ or own the records first: `map(str::to_owned)`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.lines("words.txt").group_by(|line| line.len() as u64).count().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
