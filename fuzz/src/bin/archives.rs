//! Files that call themselves gzip or zstd and hold anything: they are read or refused, and never
//! panic, hang, or make the reader hold more than its buffer.

#![no_main]

use libfuzzer_sys::fuzz_target;
use thalweg::io::files::{Compression, FileReader};

/// Where reading stops: a few bytes may stand for gigabytes, which is no fault of the reader.
const ENOUGH: u64 = 1 << 20;

fuzz_target!(|input: (bool, &[u8])| {
    let (gzip, bytes) = input;
    let compression = if gzip { Compression::Gzip } else { Compression::Zstd };
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-archive-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    if let Ok(mut reader) = FileReader::open(&path, compression) {
        let mut buffer = [0; 4096];
        while reader.position() < ENOUGH {
            match reader.read(&mut buffer) {
                Ok(0) | Err(_) => break,
                Ok(length) => assert!(length <= buffer.len()),
            }
        }
        assert!(reader.consumed() <= bytes.len() as u64);
    }
    std::fs::remove_file(&path).expect("the file can be removed");
});
