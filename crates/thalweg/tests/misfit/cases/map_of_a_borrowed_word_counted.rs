//! A part of a line that is handed on from `map` would outlive the line, even if it is only counted.

//~ error: lifetime may not live long enough
//~ returning this value requires that

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let words = env.lines("words.txt").map(|line| line.split(' ').next().unwrap_or_default());
    let out = words.count().collect_one();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
