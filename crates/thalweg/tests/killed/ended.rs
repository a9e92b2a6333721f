//! Jobs that are killed when all of their tasks have ended, while their files get their names.

use super::{NEVER, environment, failures, further, newest, start_with};
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thalweg::Result;
use thalweg::config::{Config, HostConfig};

/// How many files the job writes, and as many directories with files of each task.
const FILES: u64 = 60;
const LINES: u64 = 20;

/// Writes many files, so that the names take a while, and notes each record that it has read.
pub(super) fn job(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    let id = host.as_ref().map_or(0, |host| host.id);
    let noted =
        OpenOptions::new().create(true).append(true).open(folder.join(format!("noted-{id}")));
    let noted = Arc::new(noted.expect("it can be opened"));
    let env = environment(folder, config, host)?;
    for file in 0..FILES {
        let noted = Arc::clone(&noted);
        let note = move |n: u64| {
            // In one piece, as several tasks write to the file.
            let line = format!("{file} {n}\n");
            (&*noted).write_all(line.as_bytes()).expect("it is written");
            line.trim_end().to_owned()
        };
        let [one, each] = env.range(0..LINES).shuffle().map(note).split();
        one.write_lines(folder.join(format!("out/one-{file}")));
        each.write_lines_parallel(folder.join(format!("out/each-{file}")));
    }
    env.run()
}

/// The files of the job that have their names, and those that have not.
fn files(folder: &Path) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let paths = |dir: PathBuf| {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<_>>()
    };
    let all = paths(folder.join("out"))
        .into_iter()
        .flat_map(|path| if path.is_dir() { paths(path) } else { vec![path] });
    all.partition(|path| !path.file_name().unwrap().to_string_lossy().starts_with('.'))
}

/// Kills a host when the first file has its name; returns whether other files had not.
fn kill_between_names(folder: &Path, hosts: usize, victim: usize) -> bool {
    let variables = |_| vec![("TEST_JOB", "ended"), ("TEST_INTERVAL", NEVER)];
    let mut program = start_with(folder, 1, hosts, variables);
    let began = Instant::now();
    while files(folder).0.is_empty() {
        assert!(began.elapsed() < Duration::from_secs(120), "no file has its name");
    }
    program[victim].kill().expect("it is our child");
    for said in failures(program) {
        assert!(said.is_empty() || said.contains("is lost"), "{said}");
    }
    !files(folder).1.is_empty()
}

/// Another run has nothing to read, and gives names to the files that have none.
fn ends_without_reading_again(victim: usize, hosts_then: usize) {
    for attempt in 0.. {
        assert!(attempt < 40, "a host is never killed between two names");
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::create_dir(folder.join("out")).unwrap();
        if !kill_between_names(folder, 2, victim) {
            continue;
        }
        assert_eq!(further(0, newest(folder)), 1, "there is a last checkpoint, and no other");
        let variables = |_| vec![("TEST_JOB", "ended"), ("TEST_INTERVAL", NEVER)];
        assert_eq!(failures(start_with(folder, 1, hosts_then, variables)), [""; 0]);
        let noted = (0..2).map(|host| fs::read_to_string(folder.join(format!("noted-{host}"))));
        let noted: String = noted.map(Result::unwrap).collect();
        let all = || (0..FILES).flat_map(|file| (0..LINES).map(move |n| format!("{file} {n}")));
        let sorted = |text: &str, times: usize| {
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            let mut expected: Vec<_> = all().flat_map(|line| vec![line; times]).collect();
            lines.sort_unstable();
            expected.sort_unstable();
            assert!(lines == expected, "{} lines of {}", lines.len(), expected.len());
        };
        sorted(&noted, 1);
        let (named, hidden) = files(folder);
        assert!(hidden.is_empty(), "{hidden:?}");
        let text: String = named.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        sorted(&text, 2);
        assert_eq!(newest(folder), 0, "a job that has ended well leaves no checkpoints");
        return;
    }
}

#[test]
fn the_first_host_may_be_killed_between_the_names_of_two_files() {
    ends_without_reading_again(0, 1);
}

#[test]
fn another_host_may_be_killed_between_the_names_of_two_files() {
    ends_without_reading_again(1, 2);
}
