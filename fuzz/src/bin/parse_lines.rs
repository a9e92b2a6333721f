//! Any bytes read as lines that a closure parses, divided anyhow: each line comes to it once, without its end,
//! and what it refuses comes out as a bad record with its number and its bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use thalweg::Environment;
use thalweg::config::{Config, Scheduler};
use thalweg::io::Text;

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let mut config = Config::default();
    config.cores = std::num::NonZero::<usize>::MIN;
    config.scheduler = Scheduler::Deterministic { seed: 0 };
    config
});

/// Lines that begin with a hash hold nothing, and those with an `x` are wrong.
fn parse(line: &[u8]) -> Result<Option<Vec<u8>>, &'static str> {
    match line.first() {
        Some(b'#') => Ok(None),
        Some(b'x') => Err("it begins with an x"),
        _ => Ok(Some(line.to_owned())),
    }
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses how the file is divided, so that a seed is a file behind a letter.
    let Some((&split_bytes, bytes)) = bytes.split_first() else { return };
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-parse-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    let env = Environment::with_config(CONFIG.clone());
    let files = Text::new(&path).split_bytes(u64::from(split_bytes) + 1);
    let (good, bad) = env.parse_lines(files, parse).dead_letters();
    let (good, bad) = (good.collect::<Vec<_>>(), bad.collect::<Vec<_>>());
    env.run().expect("bad lines go elsewhere");
    std::fs::remove_file(&path).expect("the file can be removed");
    let mut good = good.take().expect("it ran").into_iter();
    let mut bad = bad.take().expect("it ran").into_iter();

    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    for (at, line) in text.split_inclusive(|&byte| byte == b'\n').enumerate() {
        // As `str::lines` does: a carriage return belongs to the line feed behind it.
        let line =
            line.strip_suffix(b"\n").map_or(line, |line| line.strip_suffix(b"\r").unwrap_or(line));
        match parse(line) {
            Ok(None) => {}
            Ok(Some(line)) => assert_eq!(good.next(), Some(line)),
            Err(_) => {
                let bad = bad.next().expect("a line that is wrong");
                assert_eq!((bad.line, &*bad.bytes), (at as u64 + 1, line));
            }
        }
    }
    assert!(good.next().is_none() && bad.next().is_none());
});
