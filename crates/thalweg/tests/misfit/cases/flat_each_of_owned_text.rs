//! The visitors of text take borrowed text.

//~ error[E0277]: `thalweg::text::Words` does not take apart records of `String`
//~ not a visitor of these records
//~ the visitors in `thalweg::text` take streams of `str`, such as lines read from files
//~ for records of another type, or with a closure, use `flat_map` or `flat_map_str`

use thalweg::{Environment, text};

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.iter(["a b".to_owned()]).flat_each(text::Words).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
