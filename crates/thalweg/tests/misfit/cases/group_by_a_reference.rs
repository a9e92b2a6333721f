//! A key is computed as a reference into its record.

//~ records cannot be grouped by a key of `&String`
//~ note: for a part of the record, as in `|order| &order.customer`, use `group_by_ref`

use thalweg::Environment;

fn main() {
    let env = Environment::new();
    let pairs = env.iter([("ann".to_owned(), 3u64), ("bob".to_owned(), 4)]);
    pairs.group_by(|pair| &pair.0).count().unkey().for_each(drop);
}
