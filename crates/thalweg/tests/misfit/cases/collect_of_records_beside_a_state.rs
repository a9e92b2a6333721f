//! Pairs of a record and a state are collected, and nothing was made of them.

//~ cannot cross an exchange or be kept as state
//~ note: of records by reference (`ByRef`) or beside a state (`Beside`), make records of their own by `map` first

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let factors = env.iter([2u64]);
    let scaled = env.range(0..10).connect(factors, 1, |factor, to| *factor = to);
    let _out = scaled.collect::<Vec<_>>();
}
