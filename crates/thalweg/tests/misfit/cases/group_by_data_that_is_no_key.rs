//! A key of one's own that is data, and nothing more.

//~ error[E0277]: records cannot be grouped by a key of `Customer`
//~ for a type of your own, add `#[derive(thalweg::Data, PartialEq, Eq, Clone, Debug)]`
//~ aborting due to 2 previous errors

use thalweg::{Data, Environment};

#[derive(Data)]
struct Customer {
    name: String,
}

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    let names = env.iter(["ann", "bob"]);
    let keyed = names.group_by(|name| Customer { name: (*name).to_owned() });
    let out = keyed.count().unkey().map(|(who, n)| (who.name, n)).collect::<Vec<_>>();
    env.run()?;
    println!("{:?}", out.take()?);
    Ok(())
}
