//! What the first host does about checkpoints that another host, or it itself, keeps from being taken.

use super::{environment, start_with};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Child;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use thalweg::config::{Config, HostConfig};
use thalweg::io::Csv;
use thalweg::{Environment, Result};

/// Ends the hosts of a job that would not end by itself.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for host in &mut self.0 {
            let _ = host.kill();
            let _ = host.wait();
        }
    }
}

/// Has no checkpoint, because the task of a host that reads rows cannot say where it is.
pub(super) fn refused(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    let env = environment(folder, config, host)?;
    counted(&env);
    let rows = Csv::new(folder.join("rows.csv")).without_header().one_line_rows(true);
    let slowly = |row: (u64,)| {
        std::thread::sleep(Duration::from_micros(20));
        row.0
    };
    env.csv::<(u64,)>(rows).map(slowly).for_each(drop);
    env.run()
}

/// Waits in a task of the last host.
pub(super) fn late(folder: &Path, config: Config, host: Option<HostConfig>) -> Result<()> {
    log::set_logger(&Shown).expect("there is no other");
    log::set_max_level(log::LevelFilter::Warn);
    let env = environment(folder, config, host)?;
    counted(&env);
    let waits = |task: usize, tasks: usize| {
        (0..u64::MAX).inspect(move |n| {
            if task + 1 == tasks && *n == 1000 {
                std::thread::sleep(Duration::from_secs(1000));
            }
            std::thread::sleep(Duration::from_micros(100));
        })
    };
    env.parallel_iter(waits).for_each(drop);
    env.run()
}

/// Has a state on each host.
fn counted(env: &Environment) {
    let slowly = |n: u64| {
        std::thread::sleep(Duration::from_micros(100));
        n % 100
    };
    env.range(0..u64::MAX).map(slowly).group_by(|n| *n).count().unkey().for_each(drop);
}

struct Shown;

impl log::Log for Shown {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        eprintln!("it warns: {}", record.args());
    }

    fn flush(&self) {}
}

/// The parts of checkpoints that there are.
fn parts(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("checkpoints")).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("part-")).collect()
}

#[test]
fn parts_of_a_checkpoint_that_fails_do_not_stay() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let rows: String = (0..1_000_000).map(|n| format!("{n}\r")).collect();
    fs::write(folder.join("rows.csv"), rows).unwrap();
    // Whichever host reads the rows, another one than the first writes a part.
    let _running = Running(start_with(folder, 1, 3, |_| vec![("TEST_JOB", "refused")]));
    let (mut seen, began) = (BTreeSet::new(), Instant::now());
    while seen.len() < 20 {
        assert!(began.elapsed() < Duration::from_secs(60), "{seen:?}");
        let found = parts(folder);
        // Those of the one that is being taken, of the next, and of checkpoints from before the first row was read.
        assert!(found.len() <= 8, "{found:?}");
        seen.extend(found);
        std::thread::sleep(Duration::from_micros(200));
    }
}

#[test]
fn a_barrier_that_does_not_pass_on_another_host_is_reported_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut running = Running(start_with(folder.path(), 1, 2, |_| vec![("TEST_JOB", "late")]));
    let errors = running.0[0].stderr.take().unwrap();
    let (sender, lines) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let warned = loop {
        let line = lines.recv_timeout(Duration::from_secs(60)).expect("it warns");
        if line.contains("has not passed for") {
            break line;
        }
    };
    assert!(warned.starts_with("it warns: host 1; "), "{warned}");
}
