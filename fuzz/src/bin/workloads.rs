//! Bytes that call themselves events of a benchmark: they are refused, or are events that are encoded to
//! the same bytes again, and never cause a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg_workloads::nexmark;
use thalweg_workloads::ysb::{fixed, variable};

fuzz_target!(|bytes: &[u8]| {
    let (mut rest, mut again) = (bytes, Vec::new());
    while let Ok(event) = nexmark::decode(&mut rest) {
        nexmark::encode(&event, &mut again);
    }
    assert_eq!(again, bytes[..bytes.len() - rest.len()]);

    if let Some(bytes) = bytes.first_chunk()
        && let Ok(event) = fixed::decode(bytes)
    {
        assert_eq!(fixed::encode(&event), *bytes);
    }

    let mut rest = bytes;
    while let Ok(event) = variable::decode(&mut rest) {
        // What is text, and no more, need not be of the right form.
        if let Ok(event) = event.parse() {
            let mut again = Vec::new();
            variable::encode(&event, &mut again);
            assert!(bytes[..bytes.len() - rest.len()].ends_with(&again));
        }
    }
});
