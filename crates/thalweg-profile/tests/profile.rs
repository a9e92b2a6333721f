//! The profile of pipelines between topics of a real broker: every engine, workload and figure has all of its parts, and what
//! cannot be measured is said.
//!
//! `THALWEG_KAFKA_JARS` names the folder with the broker's jars. Without it there is nothing to test; `cargo xtask test --step
//! kafka` gets them, and sets it. So it does with `THALWEG_FLINK_JARS`, without which Flink is left out.

#[path = "../../thalweg-kafka/tests/broker/broker.rs"]
#[allow(dead_code)]
mod broker;

use broker::{Broker, run_tests};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

/// A test, with a broker and the folder of its jars. It panics when it fails.
type Test = (&'static str, fn(&Broker, &Path));

const TESTS: [Test; 8] = [
    ("every_workload_is_taken_apart", every_workload_is_taken_apart),
    ("a_plain_consumer_only_reads", a_plain_consumer_only_reads),
    ("by_hand_is_the_same_work", by_hand_is_the_same_work),
    ("flink_does_the_same_work", flink_does_the_same_work),
    ("a_figure_has_a_row_for_each_point", a_figure_has_a_row_for_each_point),
    ("what_cannot_be_measured_is_said", what_cannot_be_measured_is_said),
    ("an_interrupted_profile_removes_its_topics", an_interrupted_profile_removes_its_topics),
    ("a_broker_can_be_started_for_it", a_broker_can_be_started_for_it),
];

fn main() -> ExitCode {
    let Some(jars) = std::env::var_os("THALWEG_KAFKA_JARS").map(PathBuf::from) else {
        println!("there is no broker: `cargo xtask test --step kafka` gets one");
        println!("\ntest result: ok. 0 passed; 0 failed; 0 ignored");
        return ExitCode::SUCCESS;
    };
    let broker = Broker::start(&jars);
    run_tests(TESTS, |test| test(&broker, &jars))
}

/// Runs the program with these arguments, separated by blanks.
fn profile(arguments: &str) -> Output {
    let mut program = Command::new(env!("CARGO_BIN_EXE_thalweg-profile"));
    program.args(arguments.split_whitespace()).output().expect("it can be started")
}

/// What a run that succeeds prints, and what it has written.
fn measured(arguments: &str) -> (String, Value, String) {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (json, plot) = (folder.path().join("json"), folder.path().join("plot.svg"));
    let files = format!("{arguments} --json {} --plot {}", json.display(), plot.display());
    let Output { status, stdout, stderr } = profile(&files);
    let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert!(status.success(), "{arguments}: {out}{err}");
    let read = |path| std::fs::read_to_string(path).expect("it was written");
    (out.into_owned(), serde_json::from_str(&read(json)).expect("it is JSON"), read(plot))
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

fn every_workload_is_taken_apart(broker: &Broker, _: &Path) {
    let brokers = broker.address();
    for (workload, partitions) in
        [("identity", 4), ("rebalance", 4), ("wordcount", 4), ("fixwindow", 4), ("fixwindow", 1)]
    {
        let (text, json, plot) = measured(&format!(
            "run --brokers {brokers} --workload {workload} --rate 2k --time 2s --warm-up 1s \
             --window 200ms --keys 20 --cores 2 --partitions {partitions} --each-second --percentiles 90,99.9"
        ));
        let run = &json["runs"][0];
        let all = &run["all"];
        let is_window = workload == "fixwindow";
        // A window's result is not read: it is due when the window ends.
        let (parts, missing): (Vec<_>, Vec<_>) =
            ["reading", "to_log", "from_log", "decoding", "processing", "writing", "whole"]
                .into_iter()
                .partition(|part| !is_window || ["processing", "writing", "whole"].contains(part));
        assert!(missing.iter().all(|part| all[part] == Value::Null), "{workload}: {all}");
        let counts: Vec<_> = parts.iter().map(|part| number(&all[part]["count"])).collect();
        // Results of records that were due in two seconds, or of ten windows with twenty keys each.
        let expected = if is_window { 180.0..=220.0 } else { 4000.0..=4000.0 };
        assert!(expected.contains(&counts[0]), "{workload}: {counts:?}");
        assert!(counts.iter().all(|count| *count == counts[0]), "{workload}: {counts:?}");
        let mean = |part: &str| all[part]["mean"].as_f64().unwrap_or_default();
        let sums = [
            mean("reading") - mean("to_log") - mean("from_log") - mean("decoding"),
            mean("whole") - mean("reading") - mean("processing") - mean("writing"),
        ];
        let close = 0.01 + 0.01 * mean("whole");
        assert!(sums.iter().all(|sum| sum.abs() < close), "{workload}: {all}");
        let seconds = run["seconds"].as_array().expect("there are some");
        assert!(seconds.len() >= 2, "{run}");
        for second in seconds.iter().chain([all]) {
            let whole = ["p50", "p90", "p95", "p98", "p99", "p999", "max"]
                .map(|percentile| number(&second["whole"][percentile]));
            assert!(whole[0] > 0.0 && whole.is_sorted(), "{workload}: {whole:?}");
        }
        assert!(number(&run["generation"]["answer"]["p50"]) > 0.0, "{run}");
        assert!(number(&run["generation"]["acknowledged"]["p50"]) > 0.0, "{run}");
        assert!(text.contains(&format!("{workload} on thalweg: 2000 records/s of 200 bytes")));
        assert!(text.contains("\nprocessing ") && text.contains("\n     2  writing "), "{text}");
        assert!(plot.contains("writing, p99.9") && !plot.contains("writing, p98"));
    }
}

fn a_plain_consumer_only_reads(broker: &Broker, _: &Path) {
    let brokers = broker.address();
    let (text, json, plot) = measured(&format!(
        "run --brokers {brokers} --engines consumer,thalweg --rate 1k --size 64 --partitions 1 --time 1s --warm-up 1s"
    ));
    let all = |run: usize, part: &str| &json["runs"][run]["all"][part];
    assert_eq!(*all(0, "processing"), Value::Null);
    assert_eq!(number(&all(0, "reading")["count"]), 1000.0);
    assert_eq!(number(&all(1, "writing")["count"]), 1000.0);
    assert!(text.contains("on consumer") && text.contains("on thalweg"), "{text}");
    assert!(plot.contains("rebalance on consumer"));
}

fn by_hand_is_the_same_work(broker: &Broker, _: &Path) {
    let brokers = broker.address();
    for workload in ["identity", "rebalance", "wordcount"] {
        let (text, json, _) = measured(&format!(
            "run --brokers {brokers} --engines by-hand,thalweg --workload {workload} --rate 1k --keys 20 --time 1s --warm-up 1s"
        ));
        let answer = |run: usize| &json["runs"][run]["answer"];
        assert_eq!(answer(0), answer(1), "{workload}");
        for part in ["processing", "writing", "whole"] {
            let all = &json["runs"][0]["all"][part];
            assert_eq!(number(&all["count"]), 1000.0, "{workload}, {part}");
            assert!(number(&all["p50"]) > 0.0, "{workload}, {part}");
        }
        assert!(text.contains(&format!("{workload} on by-hand")), "{text}");
    }
}

/// The pipelines on Flink understand records as ours do, and their results are checked in the same way.
fn flink_does_the_same_work(broker: &Broker, _: &Path) {
    let Some(jars) = std::env::var_os("THALWEG_FLINK_JARS").map(PathBuf::from) else {
        return println!("Flink is not here");
    };
    let brokers = broker.address();
    for (workload, engine) in
        [("rebalance", "flink-tuned"), ("wordcount", "flink"), ("fixwindow", "flink-tuned")]
    {
        let (text, json, _) = measured(&format!(
            "run --brokers {brokers} --engines {engine} --flink-jars {} --workload {workload} --rate 1k --keys 20 \
             --time 2s --warm-up 1s --window 200ms",
            jars.display()
        ));
        let all = &json["runs"][0]["all"];
        let count = number(&all["whole"]["count"]);
        let expected = if workload == "fixwindow" { 180.0..=220.0 } else { 2000.0..=2000.0 };
        assert!(expected.contains(&count), "{workload}: {all}");
        assert!(number(&all["processing"]["p50"]) > 0.0, "{workload}: {all}");
        assert!(text.contains(&format!("{workload} on {engine}")), "{text}");
    }
}

fn a_figure_has_a_row_for_each_point(broker: &Broker, _: &Path) {
    let brokers = broker.address();
    let (text, json, plot) = measured(&format!(
        "figure 5 --brokers {brokers} --engines thalweg,consumer --scale 0.005 --time 300ms --warm-up 200ms"
    ));
    let runs = json["runs"].as_array().expect("there are some");
    let sizes: Vec<_> = runs.iter().map(|run| number(&run["size"])).collect();
    assert_eq!(sizes.len(), 12);
    assert_eq!(sizes[10..], [6400.0, 6400.0]);
    assert_eq!(number(&json["figure"]), 5.0);
    assert_eq!(text.lines().filter(|line| line.contains(" consumer ")).count(), 6, "{text}");
    assert!(plot.contains("consumer, p98") && plot.contains("bytes of a record"));
}

fn what_cannot_be_measured_is_said(broker: &Broker, _: &Path) {
    let brokers = broker.address();
    for (arguments, said) in [
        (format!("run --brokers {brokers} --engines flink"), "--flink-jars names the folder"),
        (format!("run --brokers {brokers} --engines flink --flink-jars /none"), "/none"),
        (format!("run --brokers {brokers} --json /none/json"), "/none/json"),
        (format!("run --brokers {brokers} --sink-option nonsense=1"), "nonsense"),
        (format!("run --brokers {brokers} --producer-option linger.ms=x"), "linger.ms"),
        (
            format!("run --brokers {brokers} --producer-option message.max.bytes=1000 --size 5000"),
            "MessageSizeTooLarge",
        ),
        (
            format!("run --brokers {brokers} --rate 1 --warm-up 1500ms --time 1ms"),
            "too short for this rate",
        ),
        (format!("figure 6 --brokers {brokers} --engines consumer"), "no part of figures 6 and 7"),
        (
            format!("run --brokers {brokers} --engines by-hand --workload fixwindow"),
            "fixwindow is not written by hand",
        ),
        (format!("run --brokers {brokers} --percentiles 97"), "99.9"),
        ("run --jars /none".to_owned(), "/none"),
        ("run --brokers 127.0.0.1:1".to_owned(), "cannot reach a broker at 127.0.0.1:1"),
    ] {
        let Output { status, stderr, .. } = profile(&arguments);
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stderr.contains(said), "{arguments}: {stderr}");
    }
}

/// A signal ends the measurement, and leaves no topic.
fn an_interrupted_profile_removes_its_topics(broker: &Broker, _: &Path) {
    for engine in ["thalweg", "consumer"] {
        let arguments =
            format!("run --brokers {} --engines {engine} --time 1min", broker.address());
        let mut program = Command::new(env!("CARGO_BIN_EXE_thalweg-profile"));
        program.args(arguments.split_whitespace()).stderr(Stdio::piped());
        let child = program.spawn().expect("it can be started");
        let begun = Instant::now();
        while broker.topics("thalweg-profile-").len() < 2 {
            assert!(begun.elapsed() < broker::PATIENCE, "it makes topics");
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_secs(2));
        let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        assert!(killed.is_ok_and(|status| status.success()));
        let Output { status, stderr, .. } = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&stderr);
        assert!(!status.success() && stderr.contains("interrupted"), "{engine}: {stderr}");
        assert_eq!(broker.topics("thalweg-profile-"), Vec::<String>::new(), "{engine}");
    }
}

fn a_broker_can_be_started_for_it(_: &Broker, jars: &Path) {
    let (text, ..) = measured(&format!(
        "run --jars {} --rate 500 --time 1s --warm-up 1s --broker-warm-up 2s",
        jars.display()
    ));
    assert!(text.contains("\nwhole "), "{text}");
}
