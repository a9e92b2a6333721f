//! The command `thalweg checkpoint`, on checkpoints of a job that was cancelled.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use thalweg::Environment;
use thalweg::checkpoint::CheckpointDir;
use thalweg::config::{CheckpointConfig, Config};

fn thalweg(arguments: &[&str], dir: &Path, more: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .arg("checkpoint")
        .args(arguments)
        .arg(dir)
        .args(more)
        .output()
        .expect("the command is built")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a job without an end until it has two checkpoints.
fn make_checkpoints(dir: &Path) {
    let mut checkpoints = CheckpointConfig::new(dir);
    checkpoints.interval = Duration::from_millis(1);
    let mut config = Config::default();
    config.checkpoints = Some(checkpoints);
    let env = Environment::with_config(config);
    let counts = env.range(0..u64::MAX).name("numbers").group_by(|n| n % 10).count();
    let _ = counts.unkey().collect::<Vec<_>>();
    let job = env.start().expect("it can have checkpoints");
    let began = Instant::now();
    while CheckpointDir::open(dir).and_then(|dir| dir.list()).expect("it is there").len() < 2 {
        assert!(began.elapsed() < Duration::from_secs(60), "there are no checkpoints");
        std::thread::sleep(Duration::from_millis(1));
    }
    job.cancel();
    job.wait().expect_err("it is cancelled");
}

#[test]
fn checkpoints_are_listed_shown_verified_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("saved");
    std::fs::create_dir(&dir).unwrap();
    let none = thalweg(&["ls"], &dir, &[]);
    assert_eq!(none.status.code(), Some(2));
    assert!(text(&none.stderr).contains("has no checkpoints"), "{}", text(&none.stderr));
    make_checkpoints(&dir);
    let files = CheckpointDir::open(&dir).unwrap().list().unwrap();
    let [older, newer] = [files[0].number.to_string(), files[1].number.to_string()];

    let listed = text(&thalweg(&["ls"], &dir, &[]).stdout);
    let numbers: Vec<_> =
        listed.lines().skip(1).map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(numbers, [&older, &newer], "{listed}");

    let shown = text(&thalweg(&["show"], &dir, &[]).stdout);
    assert!(shown.starts_with(&format!("checkpoint {newer}\n")), "{shown}");
    let of_table = shown.lines().find(|line| line.contains("table")).expect("a table of keys");
    assert!(of_table.starts_with("count"), "{shown}");
    assert!(of_table.contains(" u64"), "{shown}");
    assert!(
        shown.lines().any(|line| line.starts_with("numbers") && line.contains("read")),
        "{shown}"
    );
    let other = text(&thalweg(&["show"], &dir, &["--number", &older]).stdout);
    assert!(other.starts_with(&format!("checkpoint {older}\n")), "{other}");
    assert_eq!(thalweg(&["show"], &dir, &["--number", "0"]).status.code(), Some(2));

    // Each of ten keys is in the tables of the tasks that read, or in those that own it.
    let entry =
        |key: &str, more: &[&str]| thalweg(&["show"], &dir, &[&["--key", key], more].concat());
    let found = text(&entry("7", &[]).stdout);
    assert!(!found.is_empty());
    for line in found.lines() {
        let of_key = r#""key":7,"value":"#;
        assert!(line.starts_with(r#"{"operator":"co"#) && line.contains(of_key), "{found}");
    }
    let none = entry("10", &[]);
    assert_eq!(none.status.code(), Some(1));
    assert!(text(&none.stdout).contains("no such entry; it has entries of"), "{none:?}");
    assert_eq!(entry("7", &["--state", "numbers"]).status.code(), Some(1));
    let of_source = text(&thalweg(&["show"], &dir, &["--state", "numbers/read"]).stdout);
    assert!(
        of_source.starts_with(r#"{"operator":"numbers","state":"read","value":"#),
        "{of_source}"
    );
    let few = text(&thalweg(&["show"], &dir, &["--state", "numbers", "--limit", "0"]).stdout);
    assert_eq!(few, "… and more: `--limit` shows them\n");

    let verified = thalweg(&["verify"], &dir, &[]);
    assert!(verified.status.success());
    assert_eq!(text(&verified.stdout).matches("whole").count(), 2);
    let mut bytes = std::fs::read(&files[1].path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&files[1].path, bytes).unwrap();
    let listed = text(&thalweg(&["ls"], &dir, &[]).stdout);
    let ends: Vec<_> =
        listed.lines().skip(1).map(|line| line.rsplit(' ').next().unwrap()).collect();
    assert_eq!(ends, ["yes", "no"], "{listed}");
    assert!(!listed.contains("0ns"), "{listed}");
    let verified = thalweg(&["verify"], &dir, &[]);
    assert_eq!(verified.status.code(), Some(1));
    let said = text(&verified.stdout);
    assert!(said.contains(&format!("checkpoint {older}: whole")), "{said}");
    assert!(said.contains(&format!("checkpoint {newer}: ")) && said.contains("altered"), "{said}");

    assert!(thalweg(&["rm"], &dir, &["--number", &newer]).status.success());
    assert_eq!(CheckpointDir::open(&dir).unwrap().list().unwrap(), files[..1]);
    let which = thalweg(&["rm"], &dir, &[]);
    assert_eq!(which.status.code(), Some(2));
    assert!(text(&which.stderr).contains("--all"), "{}", text(&which.stderr));
    assert!(thalweg(&["rm"], &dir, &["--all"]).status.success());
    assert_eq!(CheckpointDir::open(&dir).unwrap().list().unwrap(), []);
    let gone = thalweg(&["ls"], &folder.path().join("nowhere"), &[]);
    assert_eq!(gone.status.code(), Some(2));
    assert!(text(&gone.stderr).contains("nowhere"), "{}", text(&gone.stderr));
}

#[test]
fn a_copy_stays_and_a_job_goes_on_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let [dir, kept] = ["saved", "kept"].map(|name| folder.path().join(name));
    make_checkpoints(&dir);
    let newest = CheckpointDir::open(&dir).unwrap().list().unwrap().pop().unwrap();
    let copied = thalweg(&["cp"], &dir, &[kept.to_str().unwrap()]);
    assert!(copied.status.success(), "{}", text(&copied.stderr));
    let said = text(&copied.stdout);
    assert!(said.starts_with(&format!("copied checkpoint {}, ", newest.number)), "{said}");
    assert!(thalweg(&["rm"], &dir, &["--all"]).status.success());
    let copy = CheckpointDir::open(&kept).unwrap().list().unwrap();
    assert_eq!(copy.len(), 1);
    assert_eq!((copy[0].number, copy[0].bytes), (newest.number, newest.bytes));
    assert!(thalweg(&["verify"], &kept, &[]).status.success());
    let twice = thalweg(&["cp"], &kept, &[kept.to_str().unwrap()]);
    assert_eq!(twice.status.code(), Some(2));
    assert!(text(&twice.stderr).contains("needs one of its own"), "{}", text(&twice.stderr));
    // A job that is run with the copy goes on from there: its first checkpoint has a higher number.
    make_checkpoints(&kept);
    let later = CheckpointDir::open(&kept).unwrap().list().unwrap();
    assert!(later[0].number >= newest.number && later[1].number > newest.number, "{later:?}");
    let missing = thalweg(&["cp"], &kept, &["nowhere", "--number", "0"]);
    assert!(text(&missing.stderr).contains("no such checkpoint"), "{}", text(&missing.stderr));
}
