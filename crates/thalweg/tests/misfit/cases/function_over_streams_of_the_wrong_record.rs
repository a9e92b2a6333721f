//! A function over streams of numbers is given text.

//~ error[E0271]
//~ expected `u64`, found `str`

use thalweg::{Chain, Environment, Stream};

fn evens(numbers: Stream<impl Chain<Item = u64>>) -> Stream<impl Chain<Item = u64>> {
    numbers.filter(|n| n % 2 == 0)
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = evens(env.lines("numbers.txt")).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
