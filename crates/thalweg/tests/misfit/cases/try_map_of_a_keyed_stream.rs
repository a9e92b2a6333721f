//! An operator that may fail, on a stream with keys.

//~ error[E0277]: this operator does not work by key, and the stream has keys
//~ needs a stream without keys
//~ make it a stream of pairs of key and value first: `unkey`
//~ or call it before `group_by`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let texts = env.iter(["1", "x"]).group_by(|text| text.len());
    texts.try_map(|text| text.parse::<u32>()).count().unkey().for_each(drop);
}
