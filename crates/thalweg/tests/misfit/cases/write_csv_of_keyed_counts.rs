//! A sink for plain streams on a stream with keys.

//~ error[E0277]: this operator does not work by key, and the stream has keys
//~ needs a stream without keys
//~ make it a stream of pairs of key and value first: `unkey`

use thalweg::Environment;

fn main() -> thalweg::Result<()> {
    let env = Environment::new();
    env.iter(0..10_u64).group_by(|n| n % 3).count().write_csv("counts.csv");
    env.run()
}
