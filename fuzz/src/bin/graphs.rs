//! Graphs and blocks from outside: refused with a reason or understood, and then written as they
//! were read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg::Data;
use thalweg::dynamic::{Block, Graph};

fuzz_target!(|input: (bool, &[u8])| {
    let (block, bytes) = input;
    if block {
        let mut rest = bytes;
        if let Ok(block) = Block::decode(&mut rest) {
            let mut again = Vec::new();
            block.encode(&mut again);
            assert_eq!(again, bytes[..bytes.len() - rest.len()]);
        }
    } else if let Ok(json) = str::from_utf8(bytes)
        && let Ok(graph) = Graph::from_json(json)
        && graph.check().is_ok()
    {
        let json = graph.to_json().expect("what was read from JSON has a form in it");
        let again = Graph::from_json(&json).expect("what was written can be read");
        assert_eq!(again.to_json().expect("as before"), json);
    }
});
