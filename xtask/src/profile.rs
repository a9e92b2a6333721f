//! `cargo xtask profile`: `thalweg-profile` with a broker of its own, and the pipelines on Flink if they are measured.

use crate::networks::{self, Unable};
use crate::process::{Totals, cargo, program, root, run};
use crate::{kafka, metadata, setup};
use anyhow::{Result, bail};
use clap::Args;
use std::path::PathBuf;

/// Take the latency of a pipeline between two topics of Kafka apart, with a broker that is started for it
///
/// Gets Kafka by Maven, and Flink if an engine is named that needs it. Whatever follows goes to `thalweg-profile`, whose help
/// is `cargo xtask profile -- --help`.
#[derive(Args)]
#[command(after_help = "Examples:
  cargo xtask profile run --workload wordcount --engines thalweg,consumer,flink,flink-tuned
  cargo xtask profile figure 5 --engines thalweg,consumer,flink --plot figure5.svg
  cargo xtask profile run --size 6400 --rate 1600 --network narrow
  cargo xtask profile networks --engines consumer,thalweg --json networks.json --plot networks.svg")]
pub(crate) struct Arguments {
    /// `run`, `figure` or `networks`, and the arguments of that
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
    if !asks && needs_links(arguments) {
        // Before a program is built, so that it is known at once.
        if let Some(Unable(why)) = unable()? {
            bail!("the narrow and the wide network need Linux and the rights of root: {why}");
        }
    }
    if !asks && !has("--brokers") && !has("--jars") {
        setup::debian("java", "default-jdk-headless")?;
        profile.arg("--jars").arg(kafka::jars()?);
    }
    if !asks && !has("--flink-jars") && names_flink(arguments) {
        profile.arg("--flink-jars").arg(flink()?);
    }
    run(&mut profile)
}

/// Tests the profile over two networks; returns why they cannot be made here.
pub(crate) fn check(totals: &mut Totals) -> Result<Option<Unable>> {
    if let Some(unable) = unable()? {
        return Ok(Some(unable));
    }
    kafka::run_programs(&["networks"], totals)?;
    Ok(None)
}

/// Tries what the networks need of the system.
fn unable() -> Result<Option<Unable>> {
    for (name, package) in [
        ("ip", "iproute2"),
        ("tc", "iproute2"),
        ("nsenter", "util-linux"),
        ("setpriv", "util-linux"),
        ("unshare", "util-linux"),
    ] {
        setup::debian(name, package)?;
    }
    networks::unable_to(
        "ip link add veth0 type veth peer name veth1 && tc qdisc add dev veth0 root tbf rate 1mbit burst 70000 limit 70000",
    )
}

/// What an option has, wherever it is.
fn values<'a>(arguments: &'a [String], option: &'a str) -> impl Iterator<Item = &'a str> {
    arguments.iter().enumerate().filter_map(move |(at, word)| match word.strip_prefix(option)? {
        "" => arguments.get(at + 1).map(String::as_str),
        word => word.strip_prefix('='),
    })
}

/// Whether an engine is named that is Flink.
fn names_flink(arguments: &[String]) -> bool {
    let mut engines = values(arguments, "--engines").flat_map(|engines| engines.split(','));
    engines.any(|engine| engine.starts_with("flink"))
}

/// Whether the broker is behind a link.
fn needs_links(arguments: &[String]) -> bool {
    let compares = arguments.first().is_some_and(|word| word == "networks");
    compares || values(arguments, "--network").any(|network| network != "none")
}

/// Builds the pipelines on Flink; returns the folder with all jars. Maven fetches what their project pins, once.
pub(crate) fn flink() -> Result<PathBuf> {
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

    #[test]
    fn links_are_made_only_if_they_are_needed() {
        let needs =
            |line: &str| needs_links(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert!(needs("networks --engines thalweg") && needs("run --network narrow"));
        assert!(needs("figure 5 --network=wide --scale 0.01"));
        assert!(!needs("run --rate 1k") && !needs("run --network none"));
        assert!(!needs("run --json networks --network-scale 0.1"));
    }
}
