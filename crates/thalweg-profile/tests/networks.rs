//! Profiles over two networks, with a broker behind a link of a limited rate: reading takes as long as its link needs, answers are
//! the same, and nothing is left however a profile ends.
//!
//! `THALWEG_KAFKA_JARS` names the folder with the broker's jars. Without it there is nothing to test; `cargo xtask test --step
//! profile` gets them, and sets it where network namespaces can be made.

#[path = "../../thalweg-kafka/tests/broker/broker.rs"]
#[allow(dead_code)]
mod broker;

use broker::run_tests;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A test, with the folder of the broker's jars. It panics when it fails.
type Test = (&'static str, fn(&Path));

const TESTS: [Test; 3] = [
    ("large_records_take_as_long_as_the_links_need", large_records_take_as_long_as_the_links_need),
    ("nothing_is_left_of_an_interrupted_profile", nothing_is_left),
    ("networks_that_cannot_be_made_are_refused", networks_that_cannot_be_made),
];

fn main() -> ExitCode {
    let Some(jars) = std::env::var_os("THALWEG_KAFKA_JARS").map(PathBuf::from) else {
        println!("there is no broker: `cargo xtask test --step profile` gets one");
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    };
    run_tests(TESTS, |test| test(&jars))
}

/// The program with these arguments, separated by blanks.
fn program(arguments: &str) -> Command {
    let mut program = Command::new(env!("CARGO_BIN_EXE_thalweg-profile"));
    program.args(arguments.split_whitespace());
    program
}

/// Records of 400 kB, of which each is longer on its way than all else takes: at 200 Mbit/s 16 ms to the broker, and as long from it;
/// at 500 Mbit/s 6.4 ms.
fn large_records_take_as_long_as_the_links_need(jars: &Path) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (json, plot) = (folder.path().join("json"), folder.path().join("plot.svg"));
    let arguments = format!(
        "networks --jars {} --engines consumer,thalweg --network-scale 0.005 --scale 0.0001 --sizes 400000 --time 2s \
         --warm-up 1s --broker-warm-up 1s --json {} --plot {}",
        jars.display(),
        json.display(),
        plot.display()
    );
    let output = program(&arguments).output().expect("it can be started");
    let [out, err] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{out}{err}");
    let json: Value =
        serde_json::from_slice(&fs::read(json).expect("it was written")).expect("it is JSON");
    let runs = json["runs"].as_array().expect("there are some");
    assert_eq!(runs.len(), 4, "{json}");
    let median =
        |run: &Value, part: &str| run["all"][part]["p50"].as_f64().expect("it was measured");
    for pair in runs.chunks(2) {
        let [narrow, wide] = pair else { panic!("{pair:?} is no pair") };
        assert_eq!([&narrow["network"], &wide["network"]], ["narrow", "wide"]);
        assert_eq!([&narrow["network_bits"], &wide["network_bits"]], [2e8, 5e8]);
        // However busy the machine is, no record is faster than its links: one from the log to the reader, two in all. Nearly so,
        // as a link lets the first bytes pass at once.
        for (run, milliseconds) in [(narrow, 16.0), (wide, 6.4)] {
            for (part, links) in [("from_log", 1.0), ("reading", 2.0)] {
                let (took, least) = (median(run, part), 0.9 * links * milliseconds);
                assert!(took > least, "{}, {part}: {took}\n{out}", run["engine"]);
            }
        }
        let answers = [narrow, wide].map(|run| run["answer"].as_str().expect("there is one"));
        assert_eq!(answers[0], answers[1]);
    }
    assert_eq!(out.matches("ratio").count(), 2, "{out}");
    let plot = fs::read_to_string(plot).expect("it was written");
    assert!(plot.contains("thalweg, narrow, p98") && plot.contains("percentile"));
}

/// Numbers of network namespaces that processes are in.
fn namespaces(of: impl Fn(u32) -> bool) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir("/proc").expect("there is a list of processes").flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    // A process may have ended meanwhile.
    ids.filter(|id| of(*id))
        .filter_map(|id| fs::read_link(format!("/proc/{id}/ns/net")).ok())
        .collect()
}

/// The processes that a process has started.
fn children(process: u32) -> BTreeSet<u32> {
    let listed = fs::read_to_string(format!("/proc/{process}/task/{process}/children"));
    listed.unwrap_or_default().split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// What is in a folder; nothing if there is none.
fn paths(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < broker::PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A profile has two namespaces, which go with it when it is interrupted or killed, and so does all else but files of a killed one.
fn nothing_is_left(jars: &Path) {
    let before = namespaces(|_| true);
    for signal in ["-INT", "-KILL"] {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let mut profile =
            program(&format!("run --jars {} --network narrow --time 1min", jars.display()));
        profile.env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut profile = profile.spawn().expect("it can be started");
        let id = profile.id();
        let own = || namespaces(|process| process == id || children(id).contains(&process));
        until("there are two namespaces", || own().difference(&before).count() == 2);
        let own = own();
        // It has a broker then, and the topics of the warm-up.
        until("the broker starts", || {
            let logs = paths(folder.path()).into_iter().flat_map(|one| paths(&one.join("data")));
            logs.into_iter().any(|log| log.to_string_lossy().contains("-from-"))
        });
        let killed = Command::new("kill").args([signal, &id.to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let status = profile.wait().expect("it ends");
        assert!(!status.success());
        until(&format!("namespaces are left after {signal}"), || {
            namespaces(|_| true).is_disjoint(&(&own - &before))
        });
        let left = paths(folder.path()).len();
        assert_eq!(left, usize::from(signal == "-KILL"), "folders after {signal}");
    }
}

fn networks_that_cannot_be_made(jars: &Path) {
    let refused = |mut program: Command, said: &str| {
        let output = program.output().expect("it can be started");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(said), "{said}: {stderr}");
    };
    refused(program("run --brokers 127.0.0.1:1 --network wide"), "--jars names the folder");
    refused(program("networks --brokers 127.0.0.1:1"), "--jars names the folder");
    let run = format!("run --jars {} --network wide", jars.display());
    let mut without_programs = program(&run);
    without_programs.env("PATH", "/none");
    refused(without_programs, "cannot start `unshare`, which Debian's util-linux has");
    // Without the rights of root.
    let copy = tempfile::tempdir().expect("there is room for a folder");
    let path = copy.path().join("thalweg-profile");
    fs::copy(env!("CARGO_BIN_EXE_thalweg-profile"), &path).expect("it can be copied");
    let opened = Command::new("chmod").arg("-R").arg("a+rx").arg(copy.path()).status();
    assert!(opened.is_ok_and(|status| status.success()));
    let mut without_rights = Command::new("setpriv");
    without_rights.args(["--reuid", "65534", "--clear-groups"]).arg(path).args(run.split(' '));
    refused(without_rights, "the rights of root");
}
