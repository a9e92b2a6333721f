//! One count is expected, and there is one for each key.

//~ error[E0277]: this operator does not work by key, and the stream has keys
//~ needs a stream without keys
//~ or call it before `group_by`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let count = env.iter(0..10_u64).group_by(|n| n % 3).count().collect_one();
    env.run()?;
    println!("{:?}", count.take()?);
    Ok(())
}
