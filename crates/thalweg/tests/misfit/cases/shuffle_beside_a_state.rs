//! Records beside a borrowed state are to be sent to other tasks.

//~ records of `Beside<u64, u64>` cannot cross an exchange or be collected
//~ this operator needs records that can leave their task
//~ note: of records beside a state (`Beside`), make records of their own by `map` first

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let scaled = env.range(0..10).connect(env.iter([2u64]), 1, |factor, to| *factor = to);
    scaled.shuffle().map(|(n, factor)| n * factor).for_each(drop);
}
