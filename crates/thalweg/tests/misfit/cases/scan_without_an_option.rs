//! The closure of `scan` says whether there is a record.

//~ error[E0308]: mismatched types
//~ expected `Option<_>`, found `u64`
//~ Some(*sum)

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let sums = env.iter(0..10_u64).scan(0_u64, |sum, n| {
        *sum += n;
        *sum
    });
    let out = sums.collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
