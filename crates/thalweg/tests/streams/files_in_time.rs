//! Event time over several files: where each file is in order, no record is late, however the files lie in time and
//! whatever the job runs on.

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use serde::Deserialize;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use thalweg::check::every;
use thalweg::config::{Config, Scheduler};
use thalweg::io::{Csv, JsonLines, ReadRow, Text};
use thalweg::operators::calls::Calls;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Boxed, Environment, Result, Stream};

/// How a file holds its seconds.
#[derive(Clone, Copy, Debug)]
enum Format {
    Lines,
    Bytes,
    Parsed,
    Json,
    Csv,
    /// Divided by ranges of bytes.
    CsvOneLine,
    CsvRows,
}

const FORMATS: [Format; 7] = [
    Format::Lines,
    Format::Bytes,
    Format::Parsed,
    Format::Json,
    Format::Csv,
    Format::CsvOneLine,
    Format::CsvRows,
];

#[derive(Deserialize)]
struct Reading {
    at: i64,
}

struct At;

impl ReadRow<1> for At {
    type Row = i64;

    fn columns(&self) -> [&str; 1] {
        ["at"]
    }

    fn read(&self, [at]: [&str; 1]) -> std::result::Result<i64, String> {
        at.parse().map_err(|error| format!("{error}"))
    }
}

fn write(path: &Path, format: Format, gzip: bool, seconds: &[i64]) {
    let mut text = String::new();
    if matches!(format, Format::Csv | Format::CsvOneLine | Format::CsvRows) {
        text += "what,at\n";
    }
    for at in seconds {
        let _ = match format {
            Format::Lines | Format::Bytes | Format::Parsed => writeln!(text, "{at}"),
            Format::Json => writeln!(text, "{{\"at\":{at}}}"),
            // A row of two lines, which only whole files may hold.
            Format::Csv => writeln!(text, "\"a\nb\",{at}"),
            Format::CsvOneLine | Format::CsvRows => writeln!(text, "ab,{at}"),
        };
    }
    let mut file = std::fs::File::create(path).unwrap();
    if gzip {
        let mut packed = GzEncoder::new(file, Compression::fast());
        packed.write_all(text.as_bytes()).unwrap();
        packed.finish().unwrap();
    } else {
        file.write_all(text.as_bytes()).unwrap();
    }
}

fn read(env: &Environment, format: Format, folder: &Path, split: u64) -> Stream<Boxed<i64>> {
    let text = Text::new(folder).split_bytes(split);
    let csv = Csv::new(folder).split_bytes(split);
    match format {
        Format::Lines => env.lines(text).try_map(|line| line.parse()).boxed(),
        Format::Bytes => {
            let parse = |line: &[u8]| std::str::from_utf8(line).unwrap().parse();
            env.byte_lines(text).try_map(parse).boxed()
        }
        Format::Parsed => {
            let parse = |line: &[u8]| std::str::from_utf8(line).unwrap().parse::<i64>().map(Some);
            env.parse_lines(text, move |line| parse(line).map_err(|error| error.to_string()))
                .boxed()
        }
        Format::Json => {
            let json = JsonLines::new(folder).split_bytes(split);
            env.json_lines::<Reading>(json).map(|reading| reading.at).boxed()
        }
        Format::Csv => env.csv::<Reading>(csv).map(|reading| reading.at).boxed(),
        Format::CsvOneLine => {
            env.csv::<Reading>(csv.one_line_rows(true)).map(|reading| reading.at).boxed()
        }
        Format::CsvRows => env.csv_rows(csv, At).boxed(),
    }
}

/// The records in windows of a minute, and those that were late.
fn counted(env: &Environment, seconds: Stream<Boxed<i64>>) -> Result<(u64, u64)> {
    let (records, late, _) = counted_and_read(env, seconds)?;
    Ok((records, late))
}

/// The same, and the bytes that were read.
fn counted_and_read(env: &Environment, seconds: Stream<Boxed<i64>>) -> Result<(u64, u64, u64)> {
    let minutes = seconds
        .assign_timestamps(|at| Timestamp::from_secs(*at), Watermarks::monotonous())
        .window_all(EventTimeWindow::tumbling(Duration::from_secs(60)))
        .count()
        .map(|pane| pane.value)
        .collect::<Vec<_>>();
    let stats = env.start()?.wait()?;
    let late = stats.operators.iter().map(|op| op.late_records).sum();
    let read = stats.operators.iter().map(|op| op.read_bytes).sum();
    Ok((minutes.take()?.iter().sum(), late, read))
}

/// Files of unlike lengths, none of them short. Each goes on where the one before it ends, as rotated logs do, or
/// all cover the same span.
fn files(follow: bool) -> Vec<Vec<i64>> {
    let lengths = [900, 3000, 1500, 7000, 2000, 5000];
    let mut next = 0;
    let mut file = |length: i64| {
        let from = next;
        next += length;
        match follow {
            true => (from..next).collect(),
            false => (0..length).map(|n| n * 7000 / length).collect(),
        }
    };
    lengths.map(&mut file).into()
}

fn folder(format: Format, gzip: bool, files: &[Vec<i64>]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (number, seconds) in files.iter().enumerate() {
        let name = format!("{number:02}.log{}", if gzip { ".gz" } else { "" });
        write(&folder.path().join(name), format, gzip, seconds);
    }
    folder
}

#[test]
fn no_record_of_files_in_order_is_late() {
    for format in FORMATS {
        for (follow, gzip) in [(true, false), (false, false), (true, true), (false, true)] {
            let files = files(follow);
            let folder = folder(format, gzip, &files);
            let records = files.iter().map(Vec::len).sum::<usize>() as u64;
            let listed = std::fs::read_dir(folder.path()).unwrap();
            let bytes = listed.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>();
            every(|env| {
                let seconds = read(env, format, folder.path(), 20_000);
                let counted = counted_and_read(env, seconds)?;
                let expected = (records, 0, bytes);
                assert_eq!(counted, expected, "{format:?}, following {follow}, gzip {gzip}");
                Ok(())
            });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Files in any order of time, of any length, some of them empty.
    #[test]
    fn no_record_is_late_wherever_the_files_begin(
        files in prop::collection::vec((0..10_000i64, 0..3i64, 0..4000usize), 1..7),
        format in prop::sample::select(&FORMATS[..]),
        (gzip, split, cores) in (any::<bool>(), 500..40_000u64, 1..5usize),
        seed in any::<u64>(),
    ) {
        let files: Vec<Vec<i64>> = files
            .iter()
            .map(|&(from, step, length)| (0..length as i64).map(|n| from + n * step).collect())
            .collect();
        let folder = folder(format, gzip, &files);
        let mut config = Config::default();
        config.scheduler = Scheduler::Deterministic { seed };
        config.cores = cores.try_into().unwrap();
        let env = Environment::with_config(config);
        let seconds = read(&env, format, folder.path(), split);
        let records = files.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assert_eq!(counted(&env, seconds).unwrap(), (records, 0));
    }
}

/// What stands between a source and its timestamps may hold records back: chunks, and calls under way.
#[test]
fn records_held_back_stay_with_their_file() {
    let files = files(true);
    let folder = folder(Format::Lines, false, &files);
    let records = files.iter().map(Vec::len).sum::<usize>() as u64;
    every(|env| {
        let lines = || env.lines(Text::new(folder.path()).split_bytes(20_000));
        let seconds = |line: &str| line.parse::<i64>().unwrap();
        let chunked = lines().map(seconds).chunks(100).flatten().boxed();
        assert_eq!(counted(env, chunked)?, (records, 0));
        let called =
            lines().map(seconds).map_async(Calls::in_flight(8), |at| async move { at }).boxed();
        assert_eq!(counted(env, called)?, (records, 0));
        Ok(())
    });
}

/// Windows end while files are read, where the files follow one another.
#[test]
fn event_time_advances_from_file_to_file() -> Result<()> {
    let files: Vec<Vec<i64>> =
        (0..6).map(|file| (file * 30_000..(file + 1) * 30_000).collect()).collect();
    let folder = folder(Format::Lines, false, &files);
    for seed in 0..6 {
        let mut config = Config::default();
        config.scheduler = Scheduler::Deterministic { seed };
        config.cores = (1 + seed as usize % 3).try_into().unwrap();
        config.credit = 1000;
        let env = Environment::with_config(config);
        let read = Arc::new(AtomicI64::new(0));
        let (now, first) = (Arc::clone(&read), Arc::new(AtomicI64::new(i64::MAX)));
        let at_first = Arc::clone(&first);
        env.lines(Text::new(folder.path()).split_bytes(20_000).block_bytes(1000))
            .map(|line| line.parse::<i64>().unwrap())
            .inspect(move |_| _ = read.fetch_add(1, Ordering::Relaxed))
            .assign_timestamps(|at| Timestamp::from_secs(*at), Watermarks::monotonous())
            .window_all(EventTimeWindow::tumbling(Duration::from_secs(60)))
            .count()
            .for_each(move |_| _ = first.fetch_min(now.load(Ordering::Relaxed), Ordering::Relaxed));
        env.run()?;
        // The beginnings of all files, of some 3000 records each, have been read by then.
        let at_first = at_first.load(Ordering::Relaxed);
        assert!(at_first < 150_000, "the first window ended after {at_first} of 180 000 records");
    }
    Ok(())
}
