//! The type of a stream names a chain, and not what flows.

//~ error[E0277]: `u64` is not a chain of operators
//~ a stream's type is written `Stream<impl Chain<Item = T>>`

use thalweg::{Environment, Stream};

fn evens(numbers: Stream<u64>) -> Stream<u64> {
    numbers.filter(|n| n % 2 == 0)
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = evens(env.iter(0..10)).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
