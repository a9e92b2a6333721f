//! Any bytes read as CSV in several dialects, whole or divided: the rows are those that the csv crate
//! finds in the whole, in order, and what is not UTF-8 comes out as a bad record at a line that is there.

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
    // The first two bytes choose the dialect, so that a seed is a file behind two letters.
    let Some((&[choice, split_bytes], bytes)) = bytes.split_first_chunk() else { return };
    let delimiter = [b',', b';', b'\t', b'|'][usize::from(choice % 4)];
    let escape = (choice & 4 != 0).then_some(b'\\');
    let quote = (choice & 8 == 0).then_some(b'"');
    let divided = choice & 16 != 0;

    let path = std::env::temp_dir().join(format!("thalweg-fuzz-csv-{}", std::process::id()));
    std::fs::write(&path, bytes).expect("the folder for temporary files can be written to");
    let mut csv = Csv::new(&path).delimiter(delimiter).escape(escape).quote(quote);
    csv = csv.has_header(false).flexible(true).split_bytes(u64::from(split_bytes) + 1);
    let env = Environment::with_config(CONFIG.clone());
    let (rows, bad) = env.csv::<Vec<String>>(csv.one_line_rows(divided)).dead_letters();
    let (rows, bad) = (rows.collect::<Vec<_>>(), bad.collect::<Vec<_>>());
    let ran = env.run();
    std::fs::remove_file(&path).expect("the file can be removed");

    let mut reader = csv::ReaderBuilder::new();
    reader.delimiter(delimiter).escape(escape).has_headers(false).flexible(true);
    reader.quoting(quote.is_some());
    let all: Vec<_> = reader.from_reader(bytes).into_byte_records().map(Result::unwrap).collect();
    if let Err(error) = ran {
        // A first row that is not text stops the job, and so does a row of several lines where it was
        // promised that there are none.
        let broken = all.iter().flatten().any(|field| field.contains(&b'\n'));
        let first_is_text = all.first().is_none_or(|row| row.iter().all(is_text));
        assert!(!first_is_text || (divided && (broken || quote.is_some())), "{error}");
        assert_eq!(error.kind(), ErrorKind::Input);
        return;
    }
    let (mut rows, bad) = (rows.take().expect("it ran"), bad.take().expect("it ran"));
    assert_eq!(rows.len() + bad.len(), all.len());
    let mut text = all.iter().filter(|row| row.iter().all(is_text));
    // A quote that is never closed makes the last row a bad one.
    let open = all.last().is_some_and(|last| last.iter().all(is_text));
    if open && bad.last().is_some_and(|bad| bad.error == "a quote is never closed") {
        text.next_back();
    }
    for row in text.rev() {
        let fields: Vec<_> = row.iter().map(String::from_utf8_lossy).collect();
        assert_eq!(rows.pop().expect("as many rows"), fields);
    }
    assert!(rows.is_empty());
    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
    for bad in bad {
        assert!((1..=lines).contains(&bad.line), "line {} of {lines}", bad.line);
        assert!(bytes.windows(bad.bytes.len().max(1)).any(|part| part == bad.bytes), "{bad}");
    }
});

fn is_text(field: &[u8]) -> bool {
    std::str::from_utf8(field).is_ok()
}
