//! Records that a job prints, which is killed.

use super::{SLOW_RUNS, environment, failures, newest, sleep_if_slow, variables_of_run};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use thalweg::Result;
use thalweg::config::{Config, HostConfig};

const RECORDS: u64 = 20_000;

pub(super) fn job(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    let env = environment(folder, config, host)?;
    let slowly = |n: u64| {
        if n.is_multiple_of(64) && !sleep_if_slow(Duration::from_millis(10)) {
            std::thread::sleep(Duration::from_millis(1));
        }
        format!("record {n}")
    };
    env.iter(0..RECORDS).map(slowly).print();
    env.run()
}

/// Starts the program, whose output is appended to a file.
fn start(folder: &Path, run: usize) -> Child {
    let out = OpenOptions::new().create(true).append(true).open(folder.join("printed"));
    let out: File = out.unwrap();
    super::start_to(
        folder,
        1,
        1,
        |_| variables_of_run(run, &[("TEST_JOB", "print")]),
        || out.try_clone().unwrap().into(),
    )
    .remove(0)
}

#[test]
fn records_are_printed_at_least_once() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut kills = 0;
    loop {
        let mut program = start(folder, kills);
        let (before, began) = (newest(folder), Instant::now());
        while newest(folder) < before + 4 && program.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_secs(60), "there are no more checkpoints");
        }
        if program.try_wait().unwrap().is_some() {
            assert_eq!(failures(vec![program]), [""; 0]);
            break;
        }
        program.kill().unwrap();
        program.wait().unwrap();
        kills += 1;
    }
    assert!(kills >= SLOW_RUNS, "it was killed {kills} times, which tests little");
    let text = fs::read_to_string(folder.join("printed")).unwrap();
    let numbers = text.lines().filter_map(|line| line.strip_prefix("record ")?.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    let printed: BTreeSet<_> = numbers.iter().copied().collect();
    // One that was torn when the program was killed comes again.
    assert!(printed.into_iter().eq(0..RECORDS), "each is printed");
    let again = numbers.len() as u64 - RECORDS;
    assert!(again < RECORDS, "a job goes on where it was: {again} are printed again");
}
