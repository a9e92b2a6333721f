//! `cargo xtask profile`: `thalweg-profile` with a broker of its own, and the pipelines on Flink if they are measured.

use crate::process::{cargo, program, root, run};
use crate::{kafka, metadata, setup};
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Take the latency of a pipeline between two topics of Kafka apart, with a broker that is started for it
///
/// Gets Kafka by Maven, and Flink if an engine is named that needs it. Whatever follows goes to `thalweg-profile`, whose help
/// is `cargo xtask profile -- --help`.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask profile run --workload wordcount --engines thalweg,consumer,flink,flink-tuned
  cargo xtask profile figure 5 --engines thalweg,consumer,flink --plot figure5.svg")]
pub(crate) struct Arguments {
    /// `run` or `figure`, and the arguments of that
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    arguments: Vec<String>,
}

/// Runs the program.
pub(crate) fn command(Arguments { arguments }: &Arguments) -> Result<()> {
    let mut profile = cargo(["run", "--quiet", "--release", "--package", "thalweg-profile", "--"]);
    profile.args(arguments);
    let has = |option: &str| {
        arguments.iter().any(|word| word == option || word.starts_with(&format!("{option}=")))
    };
    let asks = ["--help", "-h", "help", "--version"].iter().any(|option| has(option));
    if !asks && !has("--brokers") && !has("--jars") {
        setup::debian("java", "default-jdk-headless")?;
        profile.arg("--jars").arg(kafka::jars()?);
    }
    if !asks && !has("--flink-jars") && names_flink(arguments) {
        profile.arg("--flink-jars").arg(flink()?);
    }
    run(&mut profile)
}

/// Whether an engine is named that is Flink.
fn names_flink(arguments: &[String]) -> bool {
    let values = arguments.iter().enumerate().filter_map(|(at, word)| match word.as_str() {
        "--engines" => arguments.get(at + 1).map(String::as_str),
        word => word.strip_prefix("--engines="),
    });
    values.flat_map(|engines| engines.split(',')).any(|engine| engine.starts_with("flink"))
}

/// Builds the pipelines on Flink; returns the folder with all jars. Maven fetches what their project pins, once.
fn flink() -> Result<PathBuf> {
    setup::debian("javac", "default-jdk-headless")?;
    setup::debian("mvn", "maven")?;
    let target = metadata::read()?.target.join("pipeline-flink");
    let mut maven = program("mvn");
    maven.args(["--quiet", "--batch-mode", "-Dstyle.color=never", "--file"]);
    maven.arg(root().join("benchmarks/pipeline-flink/pom.xml"));
    maven.arg(format!("-Dbench.target={}", target.display())).arg("package");
    run(&mut maven)?;
    Ok(target.join("jars"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flink_is_built_only_if_it_is_measured() {
        let names =
            |line: &str| names_flink(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(names("run --engines thalweg,flink-tuned --rate 1k"));
        assert!(names("figure 3 --engines=flink"));
        assert!(!names("run --json flink.json --engines thalweg,consumer"));
        assert!(!names("run --engines"));
    }
}
