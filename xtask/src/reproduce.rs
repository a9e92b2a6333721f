//! `cargo xtask reproduce`: the scaling figures of the papers in small, and a model of larger clusters.
//!
//! Hosts are network namespaces of this machine. The measuring part runs in a process whose mounts, network and process numbers
//! are its own (as that of `networks`), so that nothing is left however it ends. `docs/scaling.md` says what the results mean.

mod air;
mod chart;
mod lab;
mod model;
mod rounds;
mod table;
mod words;

use crate::built::Build;
use crate::networks::Unable;
use crate::process::Totals;
use crate::{bench, networks, setup};
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use lab::Lab;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Reproduce the papers' scaling figures in small, and predict larger clusters
///
/// Hosts are network namespaces of this machine, joined by a bridge of the kernel: that needs root. Each run starts the
/// processes of a job anew; the first of its jobs is not counted. The runs of all arrangements alternate, and each result is a
/// median with its range. All arrangements must give the same answer.
///
/// docs/scaling.md says what the figures mean, what a machine with few cores cannot show, and the formulas of the model.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask reproduce air --plot air.svg        tasks a node, cores a task, nodes, exchanges
  cargo xtask reproduce renoir --hosts 3          word count: the same text for each host
  cargo xtask reproduce rstream --rounds 9        word count: the same text for all hosts
  cargo xtask reproduce model --cores 64 --bandwidth 25 --latency 20 --plot model.svg
  cargo xtask reproduce air --small --rounds 1    whether it runs, in seconds; says nothing of speed")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Air(air::Arguments),
    Renoir(words::Arguments),
    /// RStream's word count: the same text on more and more hosts (strong scaling)
    ///
    /// Processes of one core each, up to `--hosts`. Beyond as many hosts as the machine has processors they share them, so
    /// that time stays the same at best.
    Rstream(words::Arguments),
    Model(model::Arguments),
}

/// How much is measured, and where results are written.
#[derive(Args)]
struct Common {
    /// Rounds, each with a run of every arrangement
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// A hundredth of the data: whether everything runs, in seconds
    #[arg(long)]
    small: bool,

    /// Draw the results here, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Write the results here, with every round
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write the printed tables here, as Markdown
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,

    /// The folder of the build: this process is where namespaces can be made
    #[arg(long, hide = true)]
    inside: Option<PathBuf>,
}

/// What a command has found.
struct Report {
    /// Tables in Markdown.
    table: String,
    json: Value,
    plot: Plot,
}

/// Makes a plot, given the line below its title.
type Plot = Box<dyn FnOnce(&str) -> Result<String>>;

/// Runs a command line.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let common = match &arguments.what {
        What::Air(arguments) => &arguments.common,
        What::Renoir(arguments) | What::Rstream(arguments) => &arguments.common,
        What::Model(arguments) => &arguments.common,
    };
    let Some(build) = &common.inside else { return run_apart() };
    let report = |lab: &Lab| match &arguments.what {
        What::Air(arguments) => air::run(arguments, lab),
        What::Renoir(arguments) => words::run(arguments, words::Scaling::Weak, lab),
        What::Rstream(arguments) => words::run(arguments, words::Scaling::Strong, lab),
        What::Model(arguments) => model::run(arguments, lab),
    };
    // Before it is measured: nothing prevents commits meanwhile.
    let origin = format!(
        "Median (least .. greatest) of {} alternating rounds{} on {} processors; {}.",
        common.rounds,
        if common.small { " with a hundredth of the data" } else { "" },
        lab::processors()?,
        bench::origin()
    );
    let Report { mut table, json, plot } = report(&Lab::new(build)?)?;
    table += &format!("\n{origin}\n");
    print!("{table}");
    if let Some(file) = &common.table {
        bench::write(file, &table)?;
    }
    if let Some(file) = &common.json {
        let json = json!({ "origin": origin, "results": json });
        bench::write(file, &(serde_json::to_string_pretty(&json)? + "\n"))?;
    }
    if let Some(file) = &common.plot {
        bench::write(file, &plot(&origin)?)?;
    }
    Ok(())
}

/// Runs this command line where namespaces can be made.
fn run_apart() -> Result<()> {
    match prepare(Build::Optimised)? {
        Ok(build) => start(std::env::args_os().skip(1), &build),
        Err(Unable(why)) => bail!("{why}"),
    }
}

/// Runs every command with a hundredth of the data: whether they run, and whether all arrangements give the same answers.
pub(crate) fn check(totals: &mut Totals) -> Result<Option<Unable>> {
    let build = match prepare(Build::Tested)? {
        Ok(build) => build,
        Err(unable) => return Ok(Some(unable)),
    };
    for what in ["air", "renoir", "rstream", "model"] {
        let words = ["reproduce", what, "--small", "--rounds", "1"];
        if let Err(error) = start(words.map(OsString::from), &build) {
            totals.failed += 1;
            return Err(error.context(what));
        }
        totals.passed += 1;
    }
    Ok(None)
}

/// Builds what is measured; returns the folder of the build, or why nothing can be measured here.
fn prepare(how: Build) -> Result<Result<PathBuf, Unable>> {
    for (name, package) in [
        ("ip", "iproute2"),
        ("mount", "mount"),
        ("setpriv", "util-linux"),
        ("unshare", "util-linux"),
        ("taskset", "util-linux"),
    ] {
        setup::debian(name, package)?;
    }
    if let Some(why) = unable()? {
        return Ok(Err(why));
    }
    Ok(Ok(how.build(&["--example", lab::PROGRAM])?))
}

/// Runs a command line of this program where namespaces can be made.
fn start(arguments: impl IntoIterator<Item = OsString>, build: &Path) -> Result<()> {
    let this = std::env::current_exe().context("this program has no path")?;
    let mut command = networks::apart();
    command.arg(this).args(arguments).arg("--inside").arg(build);
    // Files of the command line are relative to where it was typed.
    command.current_dir(std::env::current_dir().context("there is no current folder")?);
    let status = command.status().context("cannot start setpriv")?;
    if status.success() { Ok(()) } else { bail!("the measuring process ended with {status}") }
}

/// Tries what the hosts need of the system; returns why they cannot be made.
fn unable() -> Result<Option<Unable>> {
    let script = "ip link add bridge0 type bridge && ip link add veth0 type veth peer name veth1 && mount -t tmpfs none /run";
    networks::unable_to(script)
}

/// How much is measured: with `--small` a hundredth, and at least as much as given.
fn scaled(common: &Common, number: u64, least: u64) -> u64 {
    if common.small { (number / 100).max(least) } else { number }
}

/// Writes a text for word count.
fn text_file(lab: &Lab, bytes: u64) -> Result<PathBuf> {
    let path = lab.path(&format!("words-{bytes}.txt"));
    words::write_text(&path, bytes)?;
    Ok(path)
}
