//! A symmetric join that sends one side to every task.

//~ a symmetric join keeps tables of both sides, where their keys belong
//~ note: if one of the streams ends, broadcast that one, and leave out `symmetric`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let (left, right) = (env.iter([(1, 'a')]).keyed(), env.iter([(1, 'b')]).keyed());
    left.join_with(right).symmetric().broadcast_left().inner().unkey().for_each(drop);
}
