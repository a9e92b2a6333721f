//! Files appear whole or not at all.

use crate::config::{Config, Scheduler};
use crate::{Data, Environment, ErrorKind, Place};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize, Data)]
struct Row {
    id: u64,
    text: String,
    half: Option<f64>,
}

fn row(id: u64) -> Row {
    let half = id.is_multiple_of(2).then_some(id as f64 / 2.0);
    Row { id, text: format!("\"{id}\",\nü"), half }
}

fn environment(cores: usize, scheduler: Scheduler) -> Environment {
    let config = Config { cores: cores.try_into().unwrap(), scheduler, ..Config::default() };
    Environment::with_config(config)
}

/// Everything in a directory, hidden or not.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_written_is_read_again() {
    let expected: Vec<_> = (0..20_000).map(row).collect();
    for scheduler in
        [Scheduler::WorkStealing, Scheduler::ThreadPerTask, Scheduler::Deterministic { seed: 9 }]
    {
        for cores in [1, 3] {
            let temp = tempfile::tempdir().unwrap();
            let path = |name: &str| temp.path().join(name);
            let env = environment(cores, scheduler);
            env.range(0..20_000).map(row).write_csv(path("one.csv"));
            env.range(0..20_000).map(row).write_csv_parallel(path("csv"));
            env.range(0..20_000).map(row).write_json_lines(path("one.jsonl"));
            env.range(0..20_000).map(row).write_json_lines_parallel(path("jsonl"));
            env.range(0..20_000).write_lines(path("one.txt"));
            env.range(0..20_000).write_lines_parallel(path("txt"));
            env.run().unwrap();
            assert_eq!(
                names(temp.path()),
                ["csv", "jsonl", "one.csv", "one.jsonl", "one.txt", "txt"]
            );
            let parts: Vec<_> = (0..cores).map(|n| format!("part-{n:05}.csv")).collect();
            assert_eq!(names(&path("csv")), parts);

            for input in ["one.csv", "csv"] {
                let rows = env.csv::<Row>(path(input)).collect::<Vec<_>>();
                env.run().unwrap();
                let mut rows = rows.take().unwrap();
                rows.sort_by_key(|row| row.id);
                assert!(rows == expected, "{input}");
            }
            for input in ["one.jsonl", "jsonl"] {
                let rows = env.json_lines::<Row>(path(input)).collect::<Vec<_>>();
                env.run().unwrap();
                let mut rows = rows.take().unwrap();
                rows.sort_by_key(|row| row.id);
                assert!(rows == expected, "{input}");
            }
            for input in ["one.txt", "txt"] {
                let lines = env.lines(path(input)).map(|line| line.parse::<u64>().unwrap());
                let lines = lines.collect::<Vec<_>>();
                env.run().unwrap();
                let mut lines = lines.take().unwrap();
                lines.sort();
                assert!(lines.into_iter().eq(0..20_000), "{input}");
            }
        }
    }
}

#[test]
fn borrowed_lines_are_copied_from_file_to_file_in_order() {
    let temp = tempfile::tempdir().unwrap();
    let text: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    fs::write(temp.path().join("in"), &text).unwrap();
    let env = environment(1, Scheduler::WorkStealing);
    env.lines(temp.path().join("in")).write_lines(temp.path().join("out"));
    env.run().unwrap();
    assert_eq!(fs::read_to_string(temp.path().join("out")).unwrap(), text);
}

#[test]
fn a_job_that_fails_or_is_cancelled_leaves_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let old = temp.path().join("old.txt");
    fs::write(&old, "from before").unwrap();
    let env = Environment::new();
    let numbers = || env.range(0..1_000_000).map(|n| if n == 777_777 { panic!("no") } else { n });
    numbers().write_lines(&old);
    numbers().write_csv(temp.path().join("new.csv"));
    numbers().write_json_lines_parallel(temp.path().join("new"));
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Panic);
    assert_eq!(names(temp.path()), ["old.txt"]);
    assert_eq!(fs::read_to_string(&old).unwrap(), "from before");

    let (sender, stream) = env.channel(10);
    stream.write_lines(&old);
    let job = env.start().unwrap();
    sender.send(1).unwrap();
    assert_eq!(names(temp.path()).len(), 2, "the file is being written under a hidden name");
    job.cancel();
    assert_eq!(job.wait().unwrap_err().kind(), ErrorKind::Cancelled);
    assert_eq!(names(temp.path()), ["old.txt"]);

    // One sink that cannot begin keeps the others from leaving anything.
    env.iter(0..3).write_lines(temp.path().join("fine.txt"));
    env.iter(0..3).write_lines(temp.path().join("missing/fine.txt"));
    assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(names(temp.path()), ["old.txt"]);
}

#[test]
fn each_refusal_has_its_message() {
    let temp = tempfile::tempdir().unwrap();
    let refused = |path: &Path| {
        let env = Environment::new();
        env.iter(0..3).write_lines(path);
        let error = env.run().unwrap_err();
        assert!(error.operator().unwrap().starts_with("write_lines ("), "{error}");
        assert_eq!(error.place(), Some(&Place::File(path.to_owned())));
        error.message().to_owned()
    };
    let missing = temp.path().join("missing");
    assert_eq!(
        refused(&missing.join("out.txt")),
        format!("cannot write the file: {} is no directory", missing.display())
    );
    assert_eq!(refused(temp.path()), "cannot write the file: a directory has this name");
    assert!(refused(&temp.path().join("out.txt.gz")).contains("uncompressed"));
    #[cfg(unix)]
    assert_eq!(refused("/dev/null".as_ref()), "cannot write the file: not a regular file");

    fs::write(temp.path().join("there"), "").unwrap();
    let env = Environment::new();
    env.iter(0..3).write_lines_parallel(temp.path());
    let error = env.run().unwrap_err();
    assert!(error.to_string().contains("the directory is not empty"), "{error}");
    assert!(error.operator().unwrap().starts_with("write_lines_parallel ("), "{error}");

    let path = temp.path().join("twice");
    env.iter(0..3).write_lines(&path);
    env.iter(0..3).write_csv(&path);
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Plan);
    assert!(error.operator().unwrap().starts_with("write_csv ("), "{error}");
    assert!(error.message().contains("and so does write_lines ("), "{error}");
}

#[test]
fn what_the_format_has_no_form_for_stops_the_job() {
    let temp = tempfile::tempdir().unwrap();
    let env = Environment::new();
    env.iter([vec![(1, 2)]])
        .map(|v| (v.len(), std::collections::BTreeMap::from_iter(v)))
        .write_csv(temp.path().join("a.csv"));
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("a record cannot be written as CSV"), "{error}");
    assert!(names(temp.path()).is_empty());
}

#[cfg(unix)]
#[test]
fn links_are_followed_and_replaced_files_are_whole() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("real")).unwrap();
    fs::write(temp.path().join("real/out.txt"), "old").unwrap();
    std::os::unix::fs::symlink("real/out.txt", temp.path().join("link.txt")).unwrap();
    let env = Environment::new();
    env.iter(0..2).write_lines(temp.path().join("link.txt"));
    env.run().unwrap();
    assert_eq!(fs::read_to_string(temp.path().join("real/out.txt")).unwrap(), "0\n1\n");
    assert!(temp.path().join("link.txt").is_symlink());
    assert_eq!(names(&temp.path().join("real")), ["out.txt"]);
}

/// Runs in a child process whose files may not grow beyond a few blocks, which is how a full disk
/// can be had without one.
#[cfg(unix)]
#[test]
fn a_disk_that_takes_no_more_is_an_error() {
    const DIR: &str = "THALWEG_TEST_FULL_DISK";
    if let Some(dir) = std::env::var_os(DIR) {
        let path = Path::new(&dir).join("out.txt");
        let env = Environment::new();
        env.range(0..1_000_000).write_lines(&path);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.place(), Some(&Place::File(path)));
        assert!(error.operator().unwrap().starts_with("write_lines ("), "{error}");
        assert_eq!(error.message(), "cannot write the file");
        assert!(names(Path::new(&dir)).is_empty());
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let name = "io::write::tests::a_disk_that_takes_no_more_is_an_error";
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" --exact \"$1\" --nocapture";
    let child = std::process::Command::new("sh")
        .arg("-c")
        .arg(script)
        .arg(std::env::current_exe().unwrap())
        .arg(name)
        .env(DIR, temp.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}{child:?}");
}
