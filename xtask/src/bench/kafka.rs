//! The benches with a broker of Kafka, which are programs of their own: `rates` of `thalweg-kafka` for throughputs, and
//! `thalweg-profile` for latencies.

use super::report::Spread;
use crate::process::{cargo, run};
use crate::{kafka, profile, setup};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// Their names. `all` leaves them out, as they need Java.
pub(super) const BENCHES: [&str; 3] = ["kafka-read", "kafka-exactly-once", "kafka-latency"];

/// What takes part, and for how long.
pub(super) struct Setting {
    pub(super) rounds: u32,
    pub(super) has_flink: bool,
    /// Whether there is ten times as much data.
    pub(super) is_full: bool,
}

/// Runs a bench; returns its entries of the report.
pub(super) fn measure(bench: &str, setting: &Setting) -> Result<Vec<Value>> {
    setup::debian("setpriv", "util-linux")?;
    setup::debian("java", "default-jdk-headless")?;
    match bench {
        "kafka-latency" => latencies(setting),
        "kafka-read" => rates("read", setting),
        _ => rates("write", setting),
    }
}

fn read(file: &Path) -> Result<Value> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Throughputs: all that they print is shown.
fn rates(of: &str, setting: &Setting) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("ratios.json");
    let mut bench = cargo(["bench", "--quiet", "--package", "thalweg-kafka", "--bench", "rates"]);
    bench.args(["--", of]).env("JSON", &json).env("THALWEG_KAFKA_JARS", kafka::jars()?);
    bench.env("ROUNDS", setting.rounds.to_string());
    bench.env("RECORDS", if setting.is_full { "30000000" } else { "3000000" });
    bench.env_remove("THALWEG_FLINK_JARS");
    if setting.has_flink {
        bench.env("THALWEG_FLINK_JARS", profile::flink()?);
    }
    run(&mut bench)?;
    let Value::Array(entries) = read(&json)? else { bail!("the bench has written no list") };
    Ok(entries)
}

/// The least rate that is tried, in records a second, and how often it is doubled.
const LEAST: u32 = 20_000;
const DOUBLED: u32 = 6;

/// Latencies of pipelines, of the same by hand, and of a plain consumer, at half the rate that the broker carries: the greatest at which a pipeline between
/// two of its topics keeps up, on this machine.
fn latencies(setting: &Setting) -> Result<Vec<Value>> {
    let folder = tempfile::tempdir()?;
    let (json, jars) = (folder.path().join("runs.json"), kafka::jars()?);
    let flink = setting.has_flink.then(profile::flink).transpose()?;
    let profile = |workload: &str, rate: u32, engines: &[&str], times: [&str; 3]| {
        let mut command = program();
        command.args(["run", "--workload", workload, "--rate", &rate.to_string(), "--jars"]);
        command.arg(&jars).arg("--json").arg(&json).args(["--engines", &engines.join(",")]);
        for (option, time) in ["--time", "--warm-up", "--broker-warm-up"].into_iter().zip(times) {
            command.args([option, time]);
        }
        if let Some(flink) = &flink {
            command.arg("--flink-jars").arg(flink);
        }
        run(&mut command)?;
        Ok::<_, anyhow::Error>(read(&json)?["runs"].take())
    };
    let mut most = None;
    for rate in (0..=DOUBLED).map(|doubled| LEAST << doubled) {
        let runs = profile("rebalance", rate, &["thalweg"], ["5s", "3s", "10s"])?;
        if runs[0]["kept_up"] != true {
            break;
        }
        most = Some(rate);
    }
    let most = most.with_context(|| format!("the broker carries no {LEAST} records a second"))?;
    let rate = most / 2;
    println!("the broker carries {most} records a second; all are measured at {rate}");
    let mut entries = Vec::new();
    for workload in ["rebalance", "wordcount"] {
        let mut engines = vec!["thalweg", "by-hand"];
        // What it reads is the same for all workloads.
        engines.extend((workload == "rebalance").then_some("consumer"));
        engines.extend(flink.iter().flat_map(|_| ["flink", "flink-tuned"]));
        let mut rounds = Vec::new();
        for _ in 0..setting.rounds {
            let time = if setting.is_full { "40s" } else { "4s" };
            let runs = profile(workload, rate, &engines, [time, "10s", "10s"])?;
            rounds.push(Latencies::of(&runs)?);
            engines.rotate_left(1);
        }
        entries.extend(entries_of(workload, rate, &rounds));
    }
    Ok(entries)
}

/// The program, which is compiled if need be.
fn program() -> Command {
    let mut command = cargo(["run", "--quiet", "--release", "--package", "thalweg-profile", "--"]);
    command.env_remove("RUSTFLAGS");
    command
}

/// One round's 98th percentiles, in milliseconds: of reading, processing and the whole, by engine.
struct Latencies(Vec<(String, [Option<f64>; 3])>);

impl Latencies {
    fn of(runs: &Value) -> Result<Self> {
        let runs = runs.as_array().context("the profile has written no runs")?;
        let all = runs.iter().map(|run| {
            let engine = run["engine"].as_str().context("a run of no engine")?;
            if run["kept_up"] != true {
                println!("{engine} did not keep up with {} records a second", run["rate"]);
            }
            let part = |name: &str| run["all"][name]["p98"].as_f64();
            Ok((engine.to_owned(), ["reading", "processing", "whole"].map(part)))
        });
        Ok(Self(all.collect::<Result<_>>()?))
    }

    fn get(&self, engine: &str, part: usize) -> Option<f64> {
        let found = self.0.iter().find(|(of, _)| of == engine);
        found.and_then(|(_, parts)| parts[part])
    }
}

/// What rounds show, printed too.
fn entries_of(workload: &str, rate: u32, rounds: &[Latencies]) -> Vec<Value> {
    let mut entries = Vec::new();
    let mut add = |peer: &str, what: &str, unit: &str, of: &dyn Fn(&Latencies) -> Option<f64>| {
        let Some(Spread { median, min, max }) = Spread::of(rounds.iter().filter_map(of)) else {
            return;
        };
        println!("{workload}, 98th percentile, {what}: {median:.2}{unit} ({min:.2} .. {max:.2})");
        let name = if unit.is_empty() { "ratio" } else { "milliseconds" };
        entries.push(json!({
            "bench": "kafka-latency", "case": workload, "peer": peer, "of": what, "records_per_second": rate,
            name: {"median": median, "min": min, "max": max}, "rounds": rounds.len(),
        }));
    };
    let (reading, processing, whole) = (0, 1, 2);
    add("consumer", "reading, ours less the plain consumer's", " ms", &|round| {
        Some(round.get("thalweg", reading)? - round.get("consumer", reading)?)
    });
    add("by-hand", "reading, ours less that of a pipeline by hand", " ms", &|round| {
        Some(round.get("thalweg", reading)? - round.get("by-hand", reading)?)
    });
    add("none", "processing", " ms", &|round| round.get("thalweg", processing));
    add("by-hand", "processing, ours less that by hand", " ms", &|round| {
        Some(round.get("thalweg", processing)? - round.get("by-hand", processing)?)
    });
    add("by-hand", "the whole by hand over ours", "", &|round| {
        Some(round.get("by-hand", whole)? / round.get("thalweg", whole)?)
    });
    for flink in ["flink", "flink-tuned"] {
        add(flink, &format!("the whole of {flink} over ours"), "", &|round| {
            Some(round.get(flink, whole)? / round.get("thalweg", whole)?)
        });
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_compared_within_themselves() {
        let run = |engine: &str, reading: f64, processing: Value, whole: f64| {
            json!({"engine": engine, "rate": 1e4, "kept_up": true, "all": {
                "reading": {"p98": reading}, "processing": processing, "whole": {"p98": whole},
            }})
        };
        let round = |slower: f64| {
            let runs = json!([
                run("thalweg", 2.0 * slower, json!({"p98": 0.5}), 4.0 * slower),
                run("consumer", 1.5 * slower, Value::Null, 1.5 * slower),
                run("by-hand", 1.75 * slower, json!({"p98": 0.25}), 3.0 * slower),
                run("flink", 3.0 * slower, json!({"p98": 9.0}), 20.0 * slower),
            ]);
            Latencies::of(&runs).unwrap()
        };
        let entries = entries_of("rebalance", 10_000, &[1.0, 4.0, 2.0].map(round));
        let median = |at: usize, of: &str| entries[at][of]["median"].as_f64();
        assert_eq!(entries.len(), 6, "there is no tuned Flink");
        assert_eq!(median(0, "milliseconds"), Some(1.0));
        assert_eq!(entries[0]["milliseconds"]["max"], 2.0);
        assert_eq!(median(1, "milliseconds"), Some(0.5));
        assert_eq!([2, 3].map(|at| median(at, "milliseconds")), [Some(0.5), Some(0.25)]);
        assert_eq!(
            (entries[4]["peer"].as_str(), median(4, "ratio")),
            (Some("by-hand"), Some(0.75))
        );
        assert_eq!((entries[5]["peer"].as_str(), median(5, "ratio")), (Some("flink"), Some(5.0)));
        assert!(Latencies::of(&json!({})).is_err());
    }
}
