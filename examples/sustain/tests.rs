//! The search as a person runs it, so short that nothing can be said of the figures: what is looked at is
//! their shape.

#[path = "../../crates/thalweg/tests/build/mod.rs"]
mod build;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The program.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| build::examples(&["-p", "thalweg-sustain"], &["sustain"]).join("sustain"))
}

/// A search in windows of 20 ms, among two rates at most.
fn sustain(arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).args(["--recorded", "5000", "--windows", "6", "--precision", "100%"]);
    command.args(["--from", "5k", "--least", "5k", "--most", "10k"]);
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn every_program_has_rates_with_their_latencies() {
    let programs = [
        "q0",
        "q1",
        "q2",
        "q3",
        "q5",
        "q6",
        "q7",
        "q8",
        "ysb",
        "ysb-star",
        "swa",
        "windowed_wordcount",
    ];
    let forms = [("ysb", "variable"), ("ysb-star", "variable"), ("swa", "variable")];
    let all = programs.map(|program| (program, "fixed")).into_iter().chain(forms);
    for (program, form) in all {
        let window = if program == "q5" { "100ms" } else { "60ms" };
        let output = sustain(&[program, "--form", form, "--window", window, "--tsv"]);
        let text = out(&output);
        let rows: Vec<Vec<&str>> = text.lines().map(|row| row.split('\t').collect()).collect();
        let (last, rows) = rows.split_last().unwrap();
        assert!((1..=2).contains(&rows.len()), "{program}: {text}");
        let mut results = false;
        for row in rows {
            let [rate, p50, p99, _, missing, verdict] = row[..] else {
                panic!("{program}: {text}")
            };
            assert!(["5000", "10000"].contains(&rate), "{program}: {text}");
            assert!(["sustainable", "rising", "missing"].contains(&verdict), "{program}: {text}");
            assert_eq!(verdict == "missing", missing != "0", "{program}: {text}");
            if let (Ok(p50), Ok(p99)) = (p50.parse::<f64>(), p99.parse::<f64>()) {
                assert!(p50 >= 0.0 && p99 >= p50, "{program}: {text}");
                results = true;
            }
        }
        assert!(results, "{program} {form} has no results at all: {text}");
        let found = rows.iter().rfind(|row| row[5] == "sustainable").map_or("none", |row| row[0]);
        assert_eq!(last[..], [found], "{program}: {text}");
    }
}

#[test]
fn a_search_leaves_a_table_a_plot_and_all_that_was_measured() {
    let folder = tempfile::tempdir().unwrap();
    let (plot, json) = (folder.path().join("plot.svg"), folder.path().join("found.json"));
    let (plot_path, json_path) = (plot.to_str().unwrap(), json.to_str().unwrap());
    let output = sustain(&["swa", "--window", "20ms", "--plot", plot_path, "--json", json_path]);
    let text = out(&output);
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    assert!(
        first.starts_with("swa: 6 windows of 20 ms at each rate, which takes 142 ms;"),
        "{text}"
    );
    assert!(
        text.contains("events/s         p50         p99         slope  sustainable\n"),
        "{text}"
    );
    assert!(text.lines().last().unwrap().starts_with("sustainable: "), "{text}");

    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("events a second"), "{svg}");
    let json = std::fs::read_to_string(json).unwrap();
    let found: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(found["program"], "swa");
    assert_eq!((&found["windows"], &found["window_seconds"]), (&6.into(), &0.02.into()));
    let probes = found["probes"].as_array().unwrap();
    assert!((1..=2).contains(&probes.len()), "{json}");
    for probe in probes {
        assert_eq!(probe["windows_ms"].as_array().unwrap().len(), 6, "{json}");
        assert!(probe["verdict"].is_string() && probe["rate"].is_number(), "{json}");
    }
}

#[test]
fn invalid_arguments_are_refused() {
    for (arguments, message) in [
        (&["q4"][..], "error: q4 has no sustainable rate"),
        (&["q5", "--window", "20ms"], "error: --window is too short"),
        (&["swa", "--window", "soon"], "allowed is a number above 0 and a unit"),
        (
            &["swa", "--json", "/no/such/folder/file", "--window", "10ms"],
            "/no/such/folder/file: cannot be written",
        ),
    ] {
        let output = sustain(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && error.contains(message), "{error}");
    }
    let output = Command::new(program()).args(["swa", "--windows", "5"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.contains("fewer cannot show whether latency rises"), "{error}");
}
