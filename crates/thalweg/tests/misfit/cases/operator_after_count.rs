//! `count` of a whole stream is a sink.

//~ error[E0277]: no operator follows a sink, and the stream ended in one here
//~ this is the result of a sink, and not a stream
//~ the result itself is read by `take`, once the environment has run

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(0..10).count().map(|n| n + 1).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
