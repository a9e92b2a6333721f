//! Hostile bytes given to the decoder of every kind of value: it must refuse them or read a value
//! that survives being written and read again, and never panic or eat memory.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use thalweg::data::{Data, Wire};
use thalweg::operators::aggregates::Aggregate;
use thalweg::operators::aggregates::ApproxCountDistinct;

/// A type with every shape that the derive macro knows.
#[derive(Data)]
enum Shape {
    Unit,
    Tuple(u8, String),
    Named { at: i64, inner: Option<Box<Shape>>, rest: Vec<Shape> },
}

/// A sketch of distinct values, whose bytes are handed to a library.
type Sketch = <ApproxCountDistinct<fn(&u64) -> u64, u64> as Aggregate<u64>>::State;

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses the type, so that one corpus teaches all of them.
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 9 {
        0 => survives::<(u64, i32, bool, char)>(bytes),
        1 => survives::<(f32, f64, Option<u8>)>(bytes),
        2 => survives::<Vec<String>>(bytes),
        3 => survives::<BTreeMap<String, Vec<u8>>>(bytes),
        4 => survives::<Result<[u16; 3], Box<str>>>(bytes),
        5 => survives::<Vec<Vec<()>>>(bytes),
        6 => survives::<Shape>(bytes),
        7 => survives::<Sketch>(bytes),
        _ => borrows(bytes),
    }
});

/// What is read, written and read again is written the same way a second time.
fn survives<T: Data>(mut bytes: &[u8]) {
    let Ok(value) = T::decode(&mut bytes) else { return };
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    value.encode(&mut once);
    let mut rest = once.as_slice();
    let again = T::decode(&mut rest).expect("what was encoded can be decoded");
    assert!(rest.is_empty(), "{} bytes were written and not read", rest.len());
    again.encode(&mut twice);
    assert_eq!(once, twice);
    assert_eq!(value.key_hash(), again.key_hash());
}

/// Text that is borrowed is the text that is owned.
fn borrows(bytes: &[u8]) {
    let (mut borrowed_from, mut owned_from) = (bytes, bytes);
    let borrowed = <str as Wire>::decode(&mut borrowed_from);
    let owned = <String as Data>::decode(&mut owned_from);
    match (borrowed, owned) {
        (Ok(borrowed), Ok(owned)) => {
            assert_eq!(borrowed, owned);
            assert_eq!(borrowed_from, owned_from);
        }
        (borrowed, owned) => assert_eq!(borrowed.is_err(), owned.is_err()),
    }
}
