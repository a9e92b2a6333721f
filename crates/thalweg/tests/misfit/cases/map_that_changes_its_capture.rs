//! A closure that counts in a variable of its own, though every task calls it.

//~ error[E0594]: cannot assign to `seen`, as it is a captured variable in a `Fn` closure

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let mut seen = 0;
    let numbered = env.iter(["a", "b"]).map(move |word| {
        seen += 1;
        (seen, word)
    });
    let out = numbered.map(|(n, _)| n).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
