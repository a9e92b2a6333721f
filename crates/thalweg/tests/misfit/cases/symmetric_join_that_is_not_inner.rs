//! A symmetric join that should give what has no partner.

//~ a symmetric join is an inner one
//~ note: where a stream ends, leave out `symmetric`
//~ note: on streams without an end, `window_join`, `co_group` and `interval_join`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1, 'a')]).keyed(), env.iter([(1, 'b')]).keyed());
    left.join_with(right).symmetric().left().unkey().for_each(drop);
}
