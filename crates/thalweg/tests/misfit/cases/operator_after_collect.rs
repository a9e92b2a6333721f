//! `collect` is a sink: what it gives is a result, and not a stream.

//~ error[E0277]: no operator follows a sink, and the stream ended in one here
//~ this is the result of a sink, and not a stream
//~ the result itself is read by `take`, once the environment has run

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).collect::<Vec<_>>().map(|n| n).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
