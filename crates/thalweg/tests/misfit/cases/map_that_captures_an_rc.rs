//! A closure that captures what cannot go to another thread.

//~ error[E0277]: `Rc<String>` cannot be sent between threads safely
//~ required by a bound in

use std::rc::Rc;
use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let prefix = Rc::new("> ".to_owned());
    let out = env.iter(["a", "b"]).map(move |word| format!("{prefix}{word}")).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
