//! A key that is not equal to itself could be NaN.

//~ error[E0277]: records cannot be grouped by a key of `{float}`
//~ floats are no keys, as NaN is not equal to itself: round them to an integer, or use `to_bits`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter([2.5, 0.5]).group_by(|n| n * 2.0).count().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
