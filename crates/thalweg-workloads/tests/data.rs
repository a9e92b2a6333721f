//! With the feature `thalweg`, events and rows are the engine's data.
#![cfg(feature = "thalweg")]

use thalweg::Data;
use thalweg_workloads::nexmark::oracle::{q3, q8};
use thalweg_workloads::{nexmark, ysb};

fn come_back<T: Data + PartialEq + std::fmt::Debug>(values: Vec<T>) {
    assert!(!values.is_empty());
    let mut bytes = Vec::new();
    values.encode(&mut bytes);
    assert_eq!(Vec::<T>::decode(&mut bytes.as_slice()).unwrap(), values);
}

#[test]
fn events_and_rows_come_back() {
    let events: Vec<_> = nexmark::Generator::new(nexmark::recipe(1)).events(0..10_000).collect();
    come_back(q3(events.iter().map(nexmark::Event::view)));
    come_back(q8(events.iter().map(nexmark::Event::view)));
    come_back(events);
    come_back(ysb::Generator::new(ysb::recipe(1)).events(0..100).collect());
}
