//! A count of distinct values by key, as a method like `count` and `sum`.

//~ this aggregate is computed by `aggregate`, and has no method of its own here
//~ needs `aggregate(|a| …)`
//~ one: `aggregate(|a| a.count_distinct(…))`

use thalweg::prelude::*;

fn main() {
    let env = Environment::new();
    let visits = env.iter([("ann", 3u64), ("bob", 5)]).map(|(who, page)| (who.to_owned(), page));
    visits.keyed().count_distinct(|page| *page).unkey().for_each(drop);
}
