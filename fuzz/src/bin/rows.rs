//! Any bytes below a header read as columns of CSV, divided anyhow: without quotes, the fields are those that
//! lie between the delimiters; with them, the job ends well or says that the input is wrong.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use thalweg::config::{Config, Scheduler};
use thalweg::io::{Csv, ReadRow};
use thalweg::{Environment, ErrorKind};

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let mut config = Config::default();
    config.cores = std::num::NonZero::<usize>::MIN;
    config.scheduler = Scheduler::Deterministic { seed: 0 };
    config
});

/// The third and the first of three columns.
struct Outer;

impl ReadRow<2> for Outer {
    type Row = (String, String);

    fn columns(&self) -> [&str; 2] {
        ["c", "a"]
    }

    fn read<'a>(&self, [c, a]: [&'a str; 2]) -> Result<(String, String), String> {
        Ok((c.to_owned(), a.to_owned()))
    }
}

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses how the file is divided, so that a seed is a file behind a letter.
    let Some((&split_bytes, bytes)) = bytes.split_first() else { return };
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-rows-{}", std::process::id()));
    let file = [b"a,b,c\n", bytes].concat();
    std::fs::write(&path, file).expect("the folder for temporary files can be written to");
    let env = Environment::with_config(CONFIG.clone());
    let csv = Csv::new(&path).flexible(true).split_bytes(u64::from(split_bytes) + 1);
    let rows = env.csv_rows(csv, Outer).collect::<Vec<_>>();
    let ran = env.run();
    std::fs::remove_file(&path).expect("the file can be removed");

    let text = std::str::from_utf8(bytes);
    let is_plain = !bytes.contains(&b'"') && !bytes.contains(&b'\r');
    match (ran, text) {
        (Err(error), text) => {
            assert_eq!(error.kind(), ErrorKind::Input);
            assert!(text.is_err() || !is_plain, "{error}");
        }
        (Ok(()), Ok(text)) if is_plain => {
            let row = |line: &str| {
                let mut fields = line.split(',').map(str::to_owned);
                let a = fields.next().unwrap_or_default();
                (fields.nth(1).unwrap_or_default(), a)
            };
            let lines = text.lines().filter(|line| !line.is_empty());
            assert_eq!(rows.take().expect("it ran"), lines.map(row).collect::<Vec<_>>());
        }
        _ => {}
    }
});
