//! A closure where a visitor is wanted.

//~ does not take apart records of `str`
//~ not a visitor of these records
//~ for records of another type, or with a closure, use `flat_map` or `flat_map_str`; or implement `thalweg::Visit`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let out = env.lines("words.txt").flat_each(|line: &str| line.len()).collect::<Vec<usize>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
