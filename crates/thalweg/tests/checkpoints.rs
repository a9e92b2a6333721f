//! Jobs that are interrupted at a barrier, and begin again with what was saved there: `check` runs every job so.

use std::io::Write as _;
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::Environment;
use thalweg::check::check;
use thalweg::io::{Csv, JsonLines, ReadRow, Text};

#[test]
fn what_is_saved_is_restored_in_every_operator_that_saves() {
    let folder = tempfile::tempdir().unwrap();
    for file in 0..3 {
        let lines: String = (0..2000).map(|n| format!("{} {}\n", n % 7, file * 2000 + n)).collect();
        std::fs::write(folder.path().join(format!("{file}.txt")), lines).unwrap();
    }
    let files = || Text::new(folder.path()).split_bytes(5000).block_bytes(100);
    let parsed = |line: &str| line.split_once(' ').unwrap().1.parse::<u64>().unwrap();
    check(|env| env.lines(files()).map(parsed)).any_tasks().equals(0..6000u64);
    check(|env| env.lines(files()).map(parsed).sum(|n| *n)).equals([5999u64 * 3000]);
    let shares = |task: usize, tasks: usize| (task as u64..3000).step_by(tasks);
    check(|env| env.parallel_iter(shares).shuffle()).any_tasks().equals(0..3000u64);
    let endless = |task: usize, _: usize| std::iter::repeat(task as u64);
    check(|env| env.parallel_iter(endless).limit(2000).count()).equals([2000u64]);
    check(|env| env.range(0..300_000).filter(|n| n % 1000 == 7))
        .equals((0..300u64).map(|n| n * 1000 + 7));
    check(|env| env.range(0..3000).shuffle().fold(0, |sum, n| *sum += n)).equals([2999u64 * 1500]);
    check(|env| env.range(0..3000).fold_assoc(0, |sum, n| *sum += n, |sum, n| *sum += n))
        .equals([2999u64 * 1500]);
    check(|env| env.range(0..3000).reduce(|a, b| a.max(b))).equals([2999u64]);
    check(|env| env.range(0..3000).top(7)).equals(2993..3000u64);
    check(|env| env.range(0..0).fold(7u64, |sum, n| *sum += n).merge(env.iter(0..500u64))).agrees();
    check(|env| env.iter(0..3000u64).map(|n| n % 300).unique()).any_tasks().equals(0..300u64);
    check(|env| env.iter(0..3000u64).shuffle().limit(700).count()).equals([700u64]);
    // Several tasks combine the records of the same keys.
    let dealt = |task: usize, tasks: usize| (task as u64..3000).step_by(tasks);
    check(|env| env.parallel_iter(dealt).group_by(|n| n % 100).count())
        .any_tasks()
        .seeds(24)
        .equals((0..100u64).map(|key| (key, 30u64)));
    check(|env| env.iter(0..3000u64).group_by(|n| n % 9).max(|n| *n).unkey().map(|(_, n)| n))
        .any_tasks()
        .equals(2991..3000u64);
    check(|env| {
        let running = env.iter(0..900u64).group_by(|n| n % 3);
        running
            .stateful_map(0, |_, seen: &mut u64, n| {
                *seen += 1;
                n / 3 + 1 - *seen
            })
            .unkey()
            .map(|(_, n)| n)
    })
    .equals(std::iter::repeat_n(0u64, 900));
}

/// Reads the column of numbers.
struct Numbers;

impl ReadRow<1> for Numbers {
    type Row = u64;

    fn columns(&self) -> [&str; 1] {
        ["number"]
    }

    fn read(&self, [number]: [&str; 1]) -> Result<u64, String> {
        number.parse().map_err(|_| "no number".to_owned())
    }
}

#[test]
fn files_of_every_kind_are_read_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let numbers = |ending: &str| (0..3000u64).map(|n| format!("{n}{ending}")).collect::<String>();
    // Empty files, lines that end otherwise, a byte order mark, and no line feed at the end.
    std::fs::write(path("a.txt"), format!("\u{feff}{}", numbers("\r\n"))).unwrap();
    std::fs::write(path("b.txt"), "").unwrap();
    std::fs::write(path("c.txt"), numbers("\n").trim_end()).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(numbers("\n").as_bytes()).unwrap();
    std::fs::write(path("d.txt.gz"), gzip.finish().unwrap()).unwrap();
    let all = || (0..9000u64).map(|n| n / 3);
    let lines = || {
        let text = Text::new(folder.path().join("*.txt*"));
        text.split_bytes(3000).block_bytes(200)
    };
    check(|env| env.lines(lines()).map(|line| line.parse::<u64>().unwrap()))
        .any_tasks()
        .equals(all());
    check(|env| env.byte_lines(lines()).map(|line| line.len() as u64).sum(|n| *n)).agrees();
    let json = || {
        let files = JsonLines::new(folder.path().join("[cd].txt*"));
        files.split_bytes(3000)
    };
    check(|env| env.json_lines::<u64>(json())).any_tasks().equals((0..6000u64).map(|n| n / 2));
    std::fs::write(path("e.csv"), format!("number\n{}", numbers("\n"))).unwrap();
    check(|env| env.csv_rows(Csv::new(path("e.csv")).split_bytes(3000), Numbers))
        .any_tasks()
        .equals(0..3000u64);
}

#[test]
fn what_a_closure_remembers_outside_of_any_state_is_found() {
    let job = |env: &Environment| {
        let seen = AtomicU64::new(0);
        env.iter(0..5000u64).map(move |_| seen.fetch_add(1, Ordering::Relaxed))
    };
    let checked = catch_unwind(|| check(job).seeds(16).equals(0..5000u64));
    let said = *checked.expect_err("the numbers begin anew").downcast::<String>().unwrap();
    assert!(said.contains("interrupted at a barrier"), "{said}");
}
