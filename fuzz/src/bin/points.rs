//! Any bytes read as points, as the programs that learn from them do: the pairs that the csv crate finds, or an
//! error that says that the input is wrong.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;
use thalweg::config::{Config, Scheduler};
use thalweg::io::Csv;
use thalweg::{Environment, ErrorKind};

static CONFIG: LazyLock<Config> = LazyLock::new(|| {
    let mut config = Config::default();
    config.cores = std::num::NonZero::<usize>::MIN;
    config.scheduler = Scheduler::Deterministic { seed: 0 };
    config
});

fuzz_target!(|bytes: &[u8]| {
    // The first byte chooses how the file is divided, so that a seed is a file behind a letter.
    let Some((&split_bytes, bytes)) = bytes.split_first() else { return };
    let path = std::env::temp_dir().join(format!("thalweg-fuzz-points-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    let env = Environment::with_config(CONFIG.clone());
    let csv = Csv::new(&path).has_header(false).trim(true).one_line_rows(true);
    let points = env.csv::<(f64, f64)>(csv.split_bytes(u64::from(split_bytes) + 1));
    let points = points.map(|(x, y)| (x.to_bits(), y.to_bits())).collect::<Vec<_>>();
    let ran = env.run();
    std::fs::remove_file(&path).expect("the file can be removed");

    if let Err(error) = &ran {
        assert_eq!(error.kind(), ErrorKind::Input);
    }
    // A quote or a lone carriage return may divide rows in another place than line feeds do, and a byte order
    // mark is the reader's own business.
    if bytes.contains(&b'"') || bytes.contains(&b'\r') || bytes.starts_with(b"\xef\xbb\xbf") {
        return;
    }
    let mut reader = csv::ReaderBuilder::new();
    reader.has_headers(false).trim(csv::Trim::All);
    let all = reader.from_reader(bytes).into_deserialize::<(f64, f64)>();
    match all.collect::<Result<Vec<_>, _>>() {
        Ok(all) => {
            ran.expect("every row is a point");
            let expected: Vec<_> = all.iter().map(|(x, y)| (x.to_bits(), y.to_bits())).collect();
            assert_eq!(points.take().expect("it ran"), expected);
        }
        Err(_) => assert!(ran.is_err()),
    }
});
