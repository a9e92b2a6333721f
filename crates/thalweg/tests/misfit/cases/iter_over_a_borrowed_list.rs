//! The records of a job outlive the function that describes it.

//~ error[E0597]: `words` does not live long enough
//~ argument requires that `words` is borrowed for `'static`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let words = vec!["a".to_owned(), "b".to_owned()];
    let out = env.iter(&words).map(|word| word.len()).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
