//! Files appear complete or not at all.

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
fn written_files_are_read_again() {
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

    // If one sink cannot begin, the others leave no files.
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
fn a_value_without_a_form_in_the_format_stops_the_job() {
    let temp = tempfile::tempdir().unwrap();
    let env = Environment::new();
    env.iter([vec![(1, 2)]])
        .map(|v| (v.len(), std::collections::BTreeMap::from_iter(v)))
        .write_csv(temp.path().join("a.csv"));
    let error = env.run().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("a record cannot be written as CSV"), "{error}");
    // Without the library's request to report a bug.
    assert!(error.message().ends_with("or write it by `write_json_lines`"), "{error}");
    assert!(!error.to_string().contains("://"), "{error}");
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

/// Runs in a child process whose files may not grow beyond a few blocks, which simulates a full disk.
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

/// Whether the records come from one task or from several, each of which knows only its own.
#[test]
fn rows_of_one_file_have_the_same_columns() {
    #[derive(Clone, Serialize, Data)]
    struct Sparse {
        id: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        note: Option<u64>,
    }
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.csv");
    crate::check::every(|env| {
        env.iter([vec![1_u64; 2], vec![1; 3]]).shuffle().write_csv(&path);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Input, "{error}");
        assert!(error.operator().unwrap().starts_with("write_csv ("), "{error}");
        let sparse = env.iter([Some(1), None, Some(2)]).shuffle();
        sparse.map(|note| Sparse { id: 1, note }).write_csv(&path);
        assert_eq!(env.run().unwrap_err().kind(), ErrorKind::Input);
        Ok(())
    });
    assert!(names(temp.path()).is_empty());
}

/// The variable that tells a child process which folder it writes to, and how.
#[cfg(unix)]
const KILLED: &str = "THALWEG_TEST_KILLED";

/// Runs this test in a child process, which writes until it is killed.
#[cfg(unix)]
fn child(how: &str, folder: &Path) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "io::write::tests::files_left_by_a_killed_process_are_removed",
            "--nocapture",
        ])
        .env(KILLED, format!("{how}:{}", folder.display()))
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Writes to a folder for ever, or spills there.
#[cfg(unix)]
fn write_for_ever(how: &str, folder: &Path) {
    // When the parent is interrupted, its end of the pipe closes; this process would not end otherwise.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(1);
    });
    let mut config = Config { cores: 3.try_into().unwrap(), ..Config::default() };
    config.spill_dir = folder.to_owned();
    if how == "spill" {
        config.memory = 1 << 20;
    }
    let env = Environment::with_config(config);
    let numbers = env.parallel_iter(|task, tasks| (task as u64..).step_by(tasks));
    match how {
        "file" => numbers.write_lines(folder.join("out.txt")),
        "parts" => numbers.write_lines_parallel(folder.join("parts")),
        _ => numbers.filter(|&n| n < 1 << 40).unique().write_csv(folder.join("out.txt")),
    }
    env.run().unwrap();
}

#[cfg(unix)]
#[test]
fn files_left_by_a_killed_process_are_removed() {
    if let Some(arguments) = std::env::var_os(KILLED) {
        let arguments = arguments.into_string().unwrap();
        let (how, folder) = arguments.split_once(':').unwrap();
        return write_for_ever(how, Path::new(folder));
    }
    for how in ["file", "parts", "spill"] {
        let temp = tempfile::tempdir().unwrap();
        let folder = temp.path();
        let written = if how == "parts" { folder.join("parts") } else { folder.to_owned() };
        let hidden = || {
            let entries = fs::read_dir(&written).into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        let is_busy = |expected: usize| {
            let (files, dirs): (Vec<_>, Vec<_>) = hidden().into_iter().partition(|p| p.is_file());
            let bytes = |path: &Path| fs::metadata(path).map_or(0, |found| found.len());
            match how {
                "spill" => dirs.iter().any(|dir| fs::read_dir(dir).unwrap().count() > 1),
                // A file that is larger than the user's files below was written by a sink, under its lock.
                _ => files.iter().filter(|file| bytes(file) > 4).count() >= expected,
            }
        };
        let parts = if how == "parts" { 3 } else { 1 };
        let mut killed = child(how, folder);
        while !is_busy(parts) {
            assert!(killed.try_wait().unwrap().is_none(), "{how}: the child has ended");
            std::thread::yield_now();
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
        let left = hidden();
        assert!(is_busy(parts), "{how}: the child has left nothing: {left:?}");
        // A user's file with such a name is not a left-over, nor is a file with a similar one.
        let others = [".out.txt.mine.thalweg-part", ".out.txt.abcdefghijkl", ".out.txt.old"];
        for name in others {
            fs::write(written.join(name), "mine").unwrap();
        }

        // Concurrent jobs that write the same file: one in this process, and one in its child.
        if how == "file" {
            let mut living = child(how, folder);
            while hidden().iter().any(|path| left.contains(path)) || !is_busy(1) {
                assert!(living.try_wait().unwrap().is_none(), "{how}: the child has ended");
                std::thread::yield_now();
            }
            let of_child = hidden();
            let env = Environment::new();
            let (_sender, stream) = env.channel::<u64>(10);
            stream.write_lines(folder.join("out.txt"));
            let job = env.start().unwrap();
            assert_eq!(hidden().len(), of_child.len() + 1);
            let env = Environment::new();
            env.iter(0..3).write_lines(folder.join("out.txt"));
            env.run().unwrap();
            assert!(of_child.iter().all(|path| path.exists()), "the child's file is gone");
            job.cancel();
            let _ = job.wait();
            living.kill().unwrap();
            living.wait().unwrap();
        }
        let mut config =
            Config { cores: 2.try_into().unwrap(), memory: 1 << 20, ..Config::default() };
        config.spill_dir = folder.to_owned();
        let env = Environment::with_config(config);
        if how == "parts" {
            let numbers = env.parallel_iter(|task, _| 0..task as u64);
            numbers.write_lines_parallel(&written);
        } else {
            env.range(0..400_000).unique().write_lines(written.join("out.txt"));
        }
        // The directory of the job itself is removed with its handle.
        env.start().unwrap().wait().unwrap();
        let mut expected: Vec<_> = others.map(str::to_owned).into();
        let results: &[&str] =
            if how == "parts" { &["part-00000.txt", "part-00001.txt"] } else { &["out.txt"] };
        expected.extend(results.iter().map(|&name| name.to_owned()));
        expected.sort();
        assert_eq!(names(&written), expected, "{how}");
    }
}

#[test]
fn a_file_that_is_swept_before_it_is_locked_is_made_anew() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("out.txt");
    let over = AtomicBool::new(false);
    // Sinks of many jobs, each of which removes left-overs while the others create files.
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let env = environment(1, Scheduler::ThreadPerTask);
                    env.iter(0..100).write_lines(&path);
                    env.run().unwrap();
                }
                over.store(true, Ordering::Relaxed);
            });
        }
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                super::file::sweep(temp.path(), super::Owner(None), |_| true);
            }
        });
    });
    assert_eq!(names(temp.path()), ["out.txt"]);
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 100);
}

#[cfg(unix)]
#[test]
fn only_regular_files_are_left_overs() {
    let temp = tempfile::tempdir().unwrap();
    let hidden = |random: &str| temp.path().join(format!(".out.txt.{random}.thalweg-part"));
    fs::create_dir(hidden("abcdefghijkl")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(hidden("bcdefghijklm")).status().unwrap();
    assert!(made.success());
    std::os::unix::fs::symlink("elsewhere", hidden("cdefghijklmn")).unwrap();
    fs::write(temp.path().join("elsewhere"), "mine").unwrap();
    fs::write(hidden("defghijklmno"), "a left-over").unwrap();
    let env = Environment::new();
    env.iter(0..3).write_lines(temp.path().join("out.txt"));
    env.run().unwrap();
    assert_eq!(names(temp.path()).len(), 5);
    assert!(!hidden("defghijklmno").exists());
}

#[cfg(unix)]
#[test]
fn one_file_under_two_names_is_refused() {
    use std::os::unix::fs::symlink;
    let temp = tempfile::tempdir().unwrap();
    // Relative paths start from the working directory, which is not changed, since tests share it.
    let here = std::env::current_dir().unwrap();
    let up = here.ancestors().skip(1).map(|_| "..").collect::<Vec<_>>().join("/");
    let dir = fs::canonicalize(temp.path()).unwrap();
    let relative = Path::new(&up).join(dir.strip_prefix("/").unwrap());
    fs::create_dir(dir.join("real")).unwrap();
    symlink("real", dir.join("link")).unwrap();
    fs::write(dir.join("real/there.txt"), "old").unwrap();
    symlink("real/there.txt", dir.join("there.txt")).unwrap();
    let refused = |first: &Path, second: &Path| {
        let env = Environment::new();
        env.iter(0..3).write_lines(first);
        env.iter(0..3).write_csv(second);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        assert!(error.operator().unwrap().starts_with("write_csv ("), "{error}");
        assert!(error.message().contains("and so does write_lines ("), "{error}");
    };
    let out = dir.join("real/out.txt");
    refused(&out, &out);
    refused(&out, &relative.join("real/out.txt"));
    refused(&out, &dir.join("real/.//out.txt"));
    refused(&out, &dir.join("real/../link/out.txt"));
    refused(&dir.join("there.txt"), &dir.join("link/there.txt"));

    let env = Environment::new();
    env.iter(0..3).write_lines_parallel(dir.join("real/parts"));
    env.iter(0..3).write_csv_parallel(dir.join("link/parts"));
    let error = env.run().unwrap_err();
    assert!(error.message().contains("and so does write_lines_parallel ("), "{error}");

    // A file of one directory under its own name.
    fs::create_dir(dir.join("parts")).unwrap();
    let env = Environment::new();
    env.iter(0..3).write_lines_parallel(dir.join("parts"));
    env.iter(0..3).write_lines(dir.join("parts/part-00000.txt"));
    let error = env.run().unwrap_err();
    assert!(error.message().contains("and so does write_lines_parallel ("), "{error}");

    // The refused jobs leave no files. The same file is free for the next job.
    assert_eq!(names(&dir), ["link", "parts", "real", "there.txt"]);
    assert_eq!(names(&dir.join("real")), ["there.txt"]);
    for _ in 0..2 {
        let env = Environment::new();
        env.iter(0..3).write_lines(&out);
        env.run().unwrap();
    }
    // Two hard links are two names, and each gets a file of its own.
    fs::hard_link(&out, dir.join("hard.txt")).unwrap();
    let env = Environment::new();
    env.iter(0..1).write_lines(&out);
    env.iter(1..2).write_lines(dir.join("hard.txt"));
    env.run().unwrap();
    assert_eq!(fs::read_to_string(&out).unwrap(), "0\n");
    assert_eq!(fs::read_to_string(dir.join("hard.txt")).unwrap(), "1\n");
}

#[cfg(unix)]
#[test]
fn names_of_any_bytes_and_length_are_written() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let temp = tempfile::tempdir().unwrap();
    let longest = "ü".repeat(127) + "x";
    let names: [&[u8]; 5] =
        [b"a\xff", b"a\xfe", b"line\nbreak \\ ", longest.as_bytes(), b".hidden"];
    // Names that differ in bytes that are not UTF-8 are two files.
    let env = Environment::new();
    for name in names {
        env.iter(0..3).write_lines(temp.path().join(OsStr::from_bytes(name)));
    }
    env.run().unwrap();
    for name in names {
        let path = temp.path().join(OsStr::from_bytes(name));
        assert_eq!(fs::read_to_string(path).unwrap(), "0\n1\n2\n");
    }
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), names.len());

    let refused = |path: &Path| {
        let env = Environment::new();
        env.iter(0..3).write_lines(path);
        let error = env.run().unwrap_err();
        assert!(error.operator().unwrap().starts_with("write_lines ("), "{error}");
        error.to_string()
    };
    assert!(refused(&temp.path().join("a\0b")).contains("cannot create the file"));
    assert!(refused(&temp.path().join("x".repeat(256))).contains("cannot create the file"));
    assert!(refused(&temp.path().join("none/")).contains("this path names no file"));
    assert!(refused(Path::new("")).contains("this path names no file"));
    std::os::unix::fs::symlink("nowhere", temp.path().join("dangling")).unwrap();
    assert!(refused(&temp.path().join("dangling")).contains("leads nowhere"));
    std::os::unix::fs::symlink("loop", temp.path().join("loop")).unwrap();
    assert!(refused(&temp.path().join("loop")).contains("leads nowhere"));
}

#[test]
fn a_directory_that_vanishes_fails_the_job() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("dir");
    fs::create_dir(&dir).unwrap();
    let env = Environment::new();
    let (sender, stream) = env.channel(10);
    stream.write_lines(dir.join("out.txt"));
    let job = env.start().unwrap();
    sender.send(1).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    drop(sender);
    let error = job.wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.message(), "cannot find the finished file");
    assert_eq!(error.place(), Some(&Place::File(dir.join("out.txt"))));
}
