//! A job that has more keys and records than memory has room for, and whose processes are killed.

use super::{
    LINES, When, compute_or_sleep, environment, failures, input, interrupt_with, names, newest,
    objects, start_with, variables_of_run, write_input,
};
use std::fs;
use std::path::Path;
use thalweg::Result;
use thalweg::config::{Config, HostConfig};
use thalweg::io::Text;

/// As many as there are lines for two of each.
const LONG_KEYS: u64 = LINES / 2;

fn long(n: u64) -> String {
    format!("{n:0150}")
}

/// Numbers the lines of each key, counts those of others, and sorts all.
pub(super) fn job(folder: &Path, mut config: Config, host: Option<HostConfig>) -> Result<()> {
    (config.memory, config.spill_dir) = (1 << 18, folder.join("spill"));
    let env = environment(folder, config, host)?;
    let files = Text::new(folder.join("in")).block_bytes(2000).split_bytes(50_000);
    let number = |line: &str| {
        compute_or_sleep(8000);
        line.split_once(' ').expect("two words").1.parse::<u64>().expect("a number")
    };
    let [numbered, counted, sorted] = env.lines(files).map(number).split();
    let numbered = numbered.group_by(|n| long(n % LONG_KEYS)).stateful_map(0u64, |_, seen, n| {
        *seen += 1;
        (*seen, n)
    });
    numbered
        .unkey()
        .map(|(_, (seen, n))| format!("{n} {seen}"))
        .write_lines(folder.join("counts.txt"));
    let counts = counted.group_by(|n| long(n % LONG_KEYS)).count().unkey();
    counts.map(|(key, count)| format!("{key} {count}")).write_lines(folder.join("sum.txt"));
    sorted.map(long).sorted().write_lines(folder.join("sorted.txt"));
    env.run()
}

fn check_output(folder: &Path) {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    // Which of two lines of a key comes first depends on the tasks that read them.
    let mut seen = vec![[0, 0]; LONG_KEYS as usize];
    let mut lines = vec![0; LINES as usize];
    for line in read("counts.txt").lines() {
        let (n, number) = line.split_once(' ').unwrap();
        let (n, number): (usize, usize) = (n.parse().unwrap(), number.parse().unwrap());
        lines[n] += 1;
        seen[n % LONG_KEYS as usize][number - 1] += 1;
    }
    assert!(lines.iter().all(|&times| times == 1), "a line comes twice or never");
    assert!(seen.iter().all(|numbers| *numbers == [1, 1]), "a key has begun anew");
    let mut counts: Vec<_> = read("sum.txt").lines().map(str::to_owned).collect();
    counts.sort();
    let expected = (0..LONG_KEYS).map(|key| format!("{} 2", long(key)));
    assert!(counts.iter().map(String::as_str).eq(expected.collect::<Vec<_>>()), "{}", counts.len());
    assert_eq!(input().count() as u64, LINES);
    assert!(read("sorted.txt").lines().eq((0..LINES).map(long)));
    assert_eq!(newest(folder), 0, "a job that has ended well leaves no checkpoints");
    assert_eq!(files(folder), 0, "a job that has ended well leaves no files in its directory");
}

/// The files of spilled records in the directory of checkpoints.
pub(super) fn files(folder: &Path) -> usize {
    names(folder).iter().filter(|name| name.starts_with("spilled-")).count()
}

/// Kills the program at checkpoints, with other numbers of cores and hosts each time.
fn kill_at_checkpoints(hosts: impl Fn(usize) -> usize) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_input(folder);
    let (mut with_files, mut checkpoints) = (0, 0);
    for run in 0..4 {
        let when = When::Spilled(1 + (1 + run as u64) / objects::slowness());
        let variables = variables_of_run(run, &[("TEST_JOB", "spilled")]);
        if interrupt_with(folder, [2, 1, 3][run % 3], hosts(run), when, &variables) {
            break;
        }
        assert!(newest(folder) > checkpoints, "each run goes on where the one before was");
        checkpoints = newest(folder);
        with_files += usize::from(files(folder) > 0);
    }
    if newest(folder) > 0 {
        let last = start_with(folder, 2, hosts(4), |_| vec![("TEST_JOB", "spilled")]);
        assert_eq!(failures(last), [""; 0]);
    }
    check_output(folder);
    assert!(
        with_files >= 2,
        "it was killed {with_files} times when it had spilled, which tests little"
    );
}

#[test]
fn a_job_that_spills_goes_on_with_what_it_has_on_disk() {
    kill_at_checkpoints(|_| 1);
}

#[test]
fn hosts_go_on_with_what_each_of_them_has_on_disk() {
    kill_at_checkpoints(|run| [2, 3, 1][run % 3]);
}
