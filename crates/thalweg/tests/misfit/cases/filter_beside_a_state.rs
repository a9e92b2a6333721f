//! A filter is put where values are beside a borrowed state.

//~ the values of this stream are pairs of a value and a borrowed state
//~ note: use `filter_map` in place of `filter`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let numbers = env.range(0..10).group_by(|n| n % 3);
    let beside = numbers.connect(env.iter([2u64]), 1, |least, to| *least = to);
    beside.filter(|_, (n, least)| n >= *least).map(|_, (n, _)| n).unkey().for_each(drop);
}
