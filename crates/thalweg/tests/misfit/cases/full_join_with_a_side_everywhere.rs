//! A full outer join with one side in every task.

//~ this kind of join does not go with a side that is sent everywhere
//~ note: or leave both sides where their keys belong: no `broadcast_left` and no `broadcast_right`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1, 'a')]).keyed(), env.iter([(1, 'b')]).keyed());
    left.join_with(right).broadcast_right().full().unkey().for_each(drop);
}
