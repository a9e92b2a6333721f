//! A list of the values of each key, as windows have it.

//~ error[E0277]: a stream has no `to_vec`
//~ all records, when the job has run: `collect::<Vec<_>>()`
//~ the values of each key, as an aggregate: `aggregate(|a| a.to_vec())`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let lists = env.iter(0..10_u64).group_by(|n| n % 3).to_vec().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", lists.take()?);
    Ok(())
}
