//! A keyed operator on a stream that has no keys.

//~ error[E0277]: this operator works by key, and the stream has no keys
//~ needs a keyed stream
//~ say what the key is first: `group_by`, `group_by_ref`, or `keyed` for a stream of pairs

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let mean = env.iter([("ann", 3), ("bob", 5)]).average(|(_, n)| n as f64).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", mean.take()?);
    Ok(())
}
