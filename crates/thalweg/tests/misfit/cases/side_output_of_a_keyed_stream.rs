//! A side output of a stream with keys.

//~ error[E0277]: this operator does not work by key, and the stream has keys
//~ needs a stream without keys
//~ make it a stream of pairs of key and value first: `unkey`
//~ or call it before `group_by`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let texts = env.iter(["1", "x"]).group_by(|text| text.len());
    let (numbers, wrong) = texts.side_output(|text, wrong| {
        let number = text.parse::<u32>();
        number.map_err(|_| wrong.push(text.to_owned())).ok()
    });
    numbers.for_each(drop);
    wrong.for_each(drop);
}
