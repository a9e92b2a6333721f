//! Floats cannot be told apart as keys: NaN is not even equal to itself.

//~ error[E0277]: records of `{float}` cannot be told apart as a whole
//~ the trait `Distinct` is not implemented for `{float}`
//~ floats are not compared, as NaN is not equal to itself: `map` them with `to_bits` first

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter([2.5, 0.5, 2.5]).unique().collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
