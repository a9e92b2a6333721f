//! A stream is used once.

//~ error[E0382]: use of moved value: `numbers`
//~ `numbers` moved due to this method call
//~ value used here after move

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let numbers = env.iter(0..10);
    let even = numbers.filter(|n| n % 2 == 0).collect::<Vec<_>>();
    let odd = numbers.filter(|n| n % 2 == 1).collect::<Vec<_>>();
    env.run()?;
    println!("{:?} {:?}", even.take()?, odd.take()?);
    Ok(())
}
