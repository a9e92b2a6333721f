//! Any bytes read as the edges of a graph: those that the standard library finds in the same lines, or an error
//! with the number of the first line that is none.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use thalweg::config::{Config, Scheduler};
use thalweg::{Environment, ErrorKind, Place};
use thalweg_queries::graphs::edges;

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let mut config = Config::default();
    config.cores = std::num::NonZero::<usize>::MIN;
    config.scheduler = Scheduler::Deterministic { seed: 0 };
    config
});

/// A line's edge, `None` if it has none, or that it is wrong.
fn edge(line: &[u8]) -> Result<Option<(u64, u64)>, ()> {
    let line = String::from_utf8_lossy(line);
    let words: Vec<_> =
        line.split('#').next().unwrap_or_default().split_ascii_whitespace().collect();
    let number = |word: &str| match word.bytes().all(|byte| byte.is_ascii_digit()) {
        true => word.parse().map_err(|_| ()),
        false => Err(()),
    };
    match words[..] {
        [] => Ok(None),
        [from, to] => Ok(Some((number(from)?, number(to)?))),
        _ => Err(()),
    }
}

fuzz_target!(|bytes: &[u8]| {
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-edges-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    let env = Environment::with_config(CONFIG.clone());
    let found = edges(&env, vec![path.clone()]).collect::<Vec<_>>();
    let ran = env.run();
    std::fs::remove_file(&path).expect("the file can be removed");

    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let lines: Vec<_> = text.split(|&byte| byte == b'\n').map(edge).collect();
    match lines.iter().position(Result::is_err) {
        None => {
            ran.expect("every line is an edge or nothing");
            let expected: Vec<_> = lines.into_iter().filter_map(Result::unwrap).collect();
            assert_eq!(found.take().expect("it ran"), expected);
        }
        Some(at) => {
            let error = ran.expect_err("a line is wrong");
            assert_eq!(error.kind(), ErrorKind::Input);
            assert_eq!(error.place(), Some(&Place::Line(path, at as u64 + 1)));
        }
    }
});
