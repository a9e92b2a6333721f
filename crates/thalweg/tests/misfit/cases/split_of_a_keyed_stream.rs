//! A stream with keys that is to be used twice.

//~ error[E0277]: this operator does not work by key, and the stream has keys
//~ needs a stream without keys
//~ make it a stream of pairs of key and value first: `unkey`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let [first, second] = env.iter(0..10_u64).group_by(|n| n % 3).count().split();
    let (all, most) = (first.collect::<Vec<_>>(), second.collect::<Vec<_>>());
    env.run()?;
    println!("{:?} {:?}", all.take()?, most.take()?);
    Ok(())
}
