//! Any bytes read as JSON lines, divided anyhow: each line comes out once, as a value or as a bad
//! record with its number and its bytes, as serde_json finds it by itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use thalweg::config::{Config, Scheduler};
use thalweg::io::JsonLines;
use thalweg::{Data, Environment};

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let mut config = Config::default();
    config.cores = std::num::NonZero::<usize>::MIN;
    config.scheduler = Scheduler::Deterministic { seed: 0 };
    config
});

/// A value of every shape.
#[derive(Data, Debug, Deserialize, PartialEq)]
#[serde(untagged)]
enum Value {
    Nothing(()),
    Truth(bool),
    Whole(i64),
    Number(f64),
    Text(String),
    Many(Vec<Value>),
    Named(BTreeMap<String, Value>),
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses how the file is divided, so that a seed is a file behind a letter.
    let Some((&split_bytes, bytes)) = bytes.split_first() else { return };
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-json-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    let env = Environment::with_config(CONFIG.clone());
    let files = JsonLines::new(&path).split_bytes(u64::from(split_bytes) + 1);
    let (values, bad) = env.json_lines::<Value>(files).dead_letters();
    let (values, bad) = (values.collect::<Vec<_>>(), bad.collect::<Vec<_>>());
    env.run().expect("bad lines go elsewhere");
    std::fs::remove_file(&path).expect("the file can be removed");
    let mut values = values.take().expect("it ran").into_iter();
    let mut bad = bad.take().expect("it ran").into_iter();

    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (at, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        // As `str::lines` does: a carriage return belongs to the line feed behind it.
        let line =
            line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
        if line.trim_ascii().is_empty() {
            continue;
        }
        match serde_json::from_slice::<Value>(line) {
            Ok(value) => assert_eq!(values.next(), Some(value)),
            Err(_) => {
                let bad = bad.next().expect("a line that does not parse");
                assert_eq!((bad.line, &*bad.bytes), (at as u64 + 1, line));
            }
        }
    }
    assert_eq!((values.next(), bad.next()), (None, None));
});
