//! Sources whose tasks are on several hosts, and event time that is kept together across them.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use thalweg::Environment;
use thalweg::check::check;
use thalweg::io::{Csv, JsonLines, ReadRow, Text};
use thalweg::operators::time::{WatermarkGenerator, Watermarks};
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;

/// A folder with these files; names that end in `.gz` are compressed.
fn folder<C: AsRef<[u8]>>(files: impl IntoIterator<Item = (String, C)>) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = dir.path().join(&name);
        if name.ends_with(".gz") {
            let file = fs::File::create(path).unwrap();
            let mut out = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
            out.write_all(content.as_ref()).unwrap();
            out.finish().unwrap();
        } else {
            fs::write(path, content).unwrap();
        }
    }
    dir
}

fn one_file(name: &str, content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let dir = folder([(name.to_owned(), content)]);
    let path = dir.path().join(name);
    (dir, path)
}

#[test]
fn each_number_of_a_range_is_read_once() {
    let end = u64::MAX;
    #[expect(clippy::reversed_empty_ranges, reason = "it is tested")]
    let ranges = [0..0, end..end, 7..3, 0..1, 5..4102, end - 9000..end, 0..20_000];
    for range in ranges {
        let numbers = range.clone();
        check(move |env| env.range(numbers.clone())).seeds(6).equals(range);
    }
    check(|env| env.range(0..3_000_000).sum(|n| *n)).equals([4_499_998_500_000u64]);
}

#[test]
fn a_range_without_end_can_be_left() {
    check(|env| env.range(7..u64::MAX).shuffle().limit(5)).satisfies(|found| {
        let distinct = BTreeSet::from_iter(&found);
        let right = found.len() == 5 && distinct.len() == 5 && found.iter().all(|n| *n >= 7);
        if right { Ok(()) } else { Err(format!("{found:?}")) }
    });
}

#[test]
fn all_hosts_read_a_part() {
    let lines: String = (0..2000).fold(String::new(), |mut text, n| {
        let _ = writeln!(text, "{n}");
        text
    });
    let (_dir, path) = one_file("f", lines);
    let counts = Mutex::new(Vec::<(&str, Arc<AtomicU64>)>::new());
    let counter = |of| {
        let counter = Arc::new(AtomicU64::new(0));
        counts.lock().unwrap().push((of, Arc::clone(&counter)));
        counter
    };
    check(|env| {
        let read = counter("range");
        let numbers = env.range(0..2_000_000);
        numbers.inspect(move |_| _ = read.fetch_add(1, Ordering::Relaxed)).count()
    })
    .equals([2_000_000u64]);
    check(|env| {
        let read = counter("lines");
        let lines = env.lines(Text::new(&path).split_bytes(40));
        lines.inspect(move |_| _ = read.fetch_add(1, Ordering::Relaxed)).count()
    })
    .equals([2000u64]);
    for (of, all) in [("range", 2_000_000), ("lines", 2000)] {
        let counts = counts.lock().unwrap();
        let counts = counts.iter().filter(|(source, _)| *source == of);
        let counts: Vec<_> = counts.map(|(_, count)| count.load(Ordering::Relaxed)).collect();
        assert!(counts.contains(&all), "{of}: on one host, it reads all");
        let nothing = counts.iter().filter(|count| **count == 0).count();
        let in_part = counts.iter().filter(|count| (1..all).contains(*count)).count();
        // Where the machine is busy, a host may come when all has been read. If one host read all, there would be none in part.
        assert!(in_part >= 8 && nothing <= in_part / 2, "{of}: {counts:?}");
    }
}

#[test]
fn every_line_of_many_files_is_read_once() {
    let files = (0..40).map(|n| {
        let lines: String = (0..n % 7).map(|line| format!("{n} {line}\r\n")).collect();
        let end = if n % 5 == 0 { ".gz" } else { "" };
        (format!("{n:02}{end}"), lines)
    });
    let dir = folder(files);
    let expected: Vec<String> =
        (0..40).flat_map(|n| (0..n % 7).map(move |line| format!("{n} {line}"))).collect();
    let owned = |line: &str| line.to_owned();
    check(|env| env.lines(dir.path()).map(owned)).equals(expected.clone());
    check(|env| env.lines(Text::new(dir.path()).split_bytes(5)).map(owned)).equals(expected);
}

#[test]
fn every_line_of_a_large_file_is_read_once() {
    let text: String = (0..3000).map(|n| format!("line {n}\n")).collect();
    for name in ["large", "large.gz"] {
        let (_dir, path) = one_file(name, &text);
        check(|env| env.byte_lines(Text::new(&path).split_bytes(100)).map(<[u8]>::to_vec))
            .equals(text.lines().map(|line| line.as_bytes().to_vec()));
    }
}

#[test]
fn inputs_that_cannot_be_read_fail_the_job_by_name() {
    let (dir, bad) = one_file("bad", b"fine\nna\xefve\n");
    let missing = dir.path().join("missing");
    check(|env| env.lines(&missing).map(str::len)).fails_with("missing");
    check(|env| env.lines(&bad).map(str::len)).fails_with("bad at byte 7: not UTF-8");
    let (_dir, packed) = one_file("f.gz.txt", "no gzip at all");
    let torn = packed.with_extension("gz");
    fs::copy(&packed, &torn).unwrap();
    check(|env| env.lines(&torn).map(str::len)).fails_with("f.gz.gz");
}

#[derive(Clone, Debug, PartialEq, Deserialize, thalweg::Data)]
struct Item {
    id: u64,
    name: String,
}

#[test]
fn a_bad_line_has_its_number_on_all_hosts() {
    let good = |id: u64| format!("{{\"id\":{id},\"name\":\"n\"}}\n");
    let mut text: String = (0..1500).map(good).collect();
    text.push_str("{\"id\":true,\"name\":\"n\"}\n");
    text.push_str(&good(1500));
    let (_dir, path) = one_file("f.jsonl", &text);
    let files = || JsonLines::new(&path).split_bytes(300);
    check(|env| env.json_lines::<Item>(files()).map(|item| item.id))
        .fails_with("f.jsonl:1501: invalid type: boolean `true`, expected u64 at column 10");
    let number = |line: &[u8]| match line.starts_with(b"{\"id\":t") {
        true => Err("no number"),
        false => Ok(Some(line.len() as u64)),
    };
    let lines = || Text::new(&path).split_bytes(300);
    check(|env| env.parse_lines(lines(), number)).fails_with("f.jsonl:1501: no number, in");
    check(|env| {
        let (items, letters) = env.json_lines::<Item>(files()).dead_letters();
        items.map(|item| item.id).merge(letters.map(|letter| 1_000_000 + letter.line))
    })
    .equals((0..=1500u64).chain([1_001_501]));
}

/// Reads two columns by their names.
struct Amounts;

impl ReadRow<2> for Amounts {
    type Row = (u64, u64);

    fn columns(&self) -> [&str; 2] {
        ["id", "amount"]
    }

    fn read(&self, fields: [&str; 2]) -> Result<(u64, u64), String> {
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number"));
        Ok((number(fields[0])?, number(fields[1])?))
    }
}

#[derive(Clone, Debug, Deserialize, thalweg::Data)]
struct Amount {
    id: u64,
    amount: u64,
}

/// Files of rows `n, 2 n`, with the columns in another order in every other file.
fn amounts(files: u64, rows: u64) -> TempDir {
    folder((0..files).map(|file| {
        let mut text = if file % 2 == 0 { "id,amount\n" } else { "amount,id\n" }.to_owned();
        for n in file * rows..(file + 1) * rows {
            let (first, second) = if file % 2 == 0 { (n, 2 * n) } else { (2 * n, n) };
            let _ = writeln!(text, "{first},{second}");
        }
        (format!("{file}.csv{}", if file == 3 { ".gz" } else { "" }), text)
    }))
}

#[test]
fn headers_hold_for_the_splits_of_all_hosts() {
    let dir = amounts(5, 200);
    let expected = || (0..1000u64).map(|n| (n, 2 * n));
    for one_line in [false, true] {
        let csv = || Csv::new(dir.path()).one_line_rows(one_line).split_bytes(90);
        check(|env| env.csv::<Amount>(csv()).map(|row| (row.id, row.amount))).equals(expected());
        check(|env| env.csv::<(u64, u64)>(csv().has_header(true)))
            .fails_with("a tuple takes them in order");
    }
    // One file for each of two tasks, which may be on different hosts.
    let two = amounts(2, 5);
    check(|env| env.csv::<(u64, u64)>(Csv::new(two.path()).has_header(true)))
        .fails_with("1.csv:1: the columns are `amount`, `id`, and in");
    let csv = || Csv::new(dir.path()).split_bytes(90);
    check(|env| env.csv_rows(csv(), Amounts)).equals(expected());
    fs::write(
        dir.path().join("5.csv"),
        "amount,x,id\n".to_owned() + &"3,,4\n".repeat(301) + "3,,x\n",
    )
    .unwrap();
    check(|env| env.csv_rows(csv(), Amounts)).fails_with("5.csv:303: `x` is no number");
    let rows = || csv().one_line_rows(true);
    check(|env| env.csv::<Amount>(rows()).map(|row| row.id)).fails_with("5.csv:303: column `id`");
}

/// Files of seconds in increasing order: they follow each other, overlap, or cover the same span.
fn timed_files(dir: &[(i64, i64, i64)]) -> TempDir {
    folder(dir.iter().enumerate().map(|(file, (from, to, step))| {
        let seconds = (*from..*to).step_by(*step as usize);
        let text = seconds.fold(String::new(), |mut text, second| {
            let _ = writeln!(text, "{second}");
            text
        });
        (format!("{file}{}", if file == 2 { ".gz" } else { "" }), text)
    }))
}

/// The number of records of each window of a minute.
fn minutes<G>(
    env: &Environment,
    path: &Path,
    watermarks: Watermarks<G>,
) -> impl thalweg::check::Checked<Record = (i64, u64)> + use<G>
where
    G: WatermarkGenerator<str>,
{
    env.lines(Text::new(path).split_bytes(4000))
        .assign_timestamps(
            |line: &&str| Timestamp::from_secs(line.parse().unwrap_or_default()),
            watermarks,
        )
        .map(str::len)
        .group_by(|_| ())
        .window(EventTimeWindow::tumbling(Duration::from_secs(60)))
        .count()
        .unkey()
        .map(|(_, pane)| (pane.start.as_micros() / 60_000_000, pane.value))
}

fn expected_minutes(files: &[(i64, i64, i64)]) -> BTreeMap<i64, u64> {
    let mut minutes = BTreeMap::new();
    for (from, to, step) in files {
        for second in (*from..*to).step_by(*step as usize) {
            *minutes.entry(second.div_euclid(60)).or_default() += 1;
        }
    }
    minutes
}

#[test]
fn no_record_of_ordered_files_is_late() {
    let rotated = [(0, 4000, 1), (4000, 9000, 1), (9000, 9100, 1), (9100, 15_000, 1)];
    let alike = [(0, 8000, 1), (7, 8000, 3), (-500, 8000, 7), (0, 60, 1), (7900, 8000, 1)];
    for files in [&rotated[..], &alike, &rotated[..1]] {
        let dir = timed_files(files);
        check(|env| minutes(env, dir.path(), Watermarks::monotonous()))
            .equals(expected_minutes(files));
    }
}

#[test]
fn hosts_that_wait_for_their_files_are_not_idle() {
    let files = [(0, 3000, 1), (1500, 4000, 2), (3500, 4200, 1)];
    let dir = timed_files(&files);
    let idle = || Watermarks::monotonous().idle_after(Duration::ZERO);
    check(|env| minutes(env, dir.path(), idle())).equals(expected_minutes(&files));
    check(|env| {
        env.range(0..100_000)
            .assign_timestamps(|n| Timestamp::from_millis(*n as i64), idle())
            .group_by(|_| ())
            .window(EventTimeWindow::tumbling(Duration::from_secs(10)))
            .count()
            .unkey()
            .map(|(_, pane)| pane.value)
    })
    .equals([10_000u64; 10]);
}

#[test]
fn tasks_of_all_hosts_are_kept_together() {
    let files = [(0, 3000, 1), (0, 9000, 2), (2900, 4200, 1), (8000, 9000, 5)];
    let dir = timed_files(&files);
    for most in [Duration::ZERO, Duration::from_secs(1), Duration::from_secs(1000)] {
        check(|env| minutes(env, dir.path(), Watermarks::monotonous().aligned(most)))
            .equals(expected_minutes(&files));
        numbers_are_kept_together(most);
        tasks_that_begin_apart_are_kept_together(most);
    }
}

fn numbers_are_kept_together(most: Duration) {
    check(|env| {
        env.range(0..30_000)
            .assign_timestamps(
                |n| Timestamp::from_secs(*n as i64),
                Watermarks::monotonous().aligned(most),
            )
            .shuffle()
            .count()
    })
    .equals([30_000u64]);
}

/// The last of several tasks has no record.
fn tasks_that_begin_apart_are_kept_together(most: Duration) {
    let numbers = |task: usize, tasks: usize| {
        let (from, end) =
            (1000 * task as i64, if task > 0 && task + 1 == tasks { 0 } else { 9000 });
        from..end
    };
    check(|env| {
        env.parallel_iter(numbers)
            .assign_timestamps(
                |at| Timestamp::from_secs(*at),
                Watermarks::monotonous().aligned(most),
            )
            .reduce(|a, b| a.max(b))
    })
    .equals([8999i64]);
}
