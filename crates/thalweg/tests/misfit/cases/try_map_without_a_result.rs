//! The closure of `try_map` says whether it went well.

//~ error[E0308]: mismatched types
//~ expected `Result<_, _>`, found `Option<u64>`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.lines("n.txt").try_map(|line| line.parse::<u64>().ok()).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
