//! Watermarks from records of a type that the stream does not have.

//~ error[E0277]: `thalweg::operators::time::Punctuated<

use thalweg::Environment;
use thalweg::operators::time::Watermarks;
use thalweg::time::Timestamp;

fn main() {
    let env = Environment::new();
    let marks = Watermarks::punctuated(|second: &i64| Some(Timestamp::from_secs(*second)));
    let events = env.iter([(1, "a"), (2, "b")]);
    events.assign_timestamps(|event| Timestamp::from_secs(event.0), marks).for_each(drop);
}
