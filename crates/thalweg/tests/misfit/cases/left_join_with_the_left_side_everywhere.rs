//! A left join that broadcasts the side whose records without a partner it wants.

//~ this kind of join does not go with a side that is sent everywhere
//~ note: broadcast the other side, if it is small

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1, 'a')]).keyed(), env.iter([(1, 'b')]).keyed());
    left.join_with(right).broadcast_left().left().unkey().for_each(drop);
}
