//! Flink's and Renoir's name for `group_by`.

//~ error[E0277]: `key_by` is called `group_by`
//~ use `group_by`
//~ `group_by_ref(|order| &order.customer)` points to one

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    env.range(0..10).key_by(|n| n % 3).count().unkey().for_each(drop);
}
