//! `cargo xtask fuzz`: coverage-guided fuzzing of all code that reads bytes from outside.
//!
//! The targets are the programs of the `fuzz` folder, a workspace of its own. LLVM's libFuzzer needs the engine
//! compiled with counters at every branch, which the stable compiler supports: no nightly toolchain and no extra
//! cargo command is needed, only a C++ compiler for libFuzzer itself.

use crate::metadata;
use crate::process::{add_rustflags, cargo, program, root, run};
use crate::setup;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Fuzz the parsers and formats
///
/// Each target runs on mutated bytes until its time is over, or until it panics, hangs or runs out of memory. Bytes
/// on which it fails are stored in fuzz/seeds, from which every later run starts: commit them with the fix, and
/// reduce them to a unit test. The corpus is kept in target/fuzz/corpus and used the next time.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask fuzz                        every target for ten seconds
  cargo xtask fuzz decode --seconds 3600  one target for an hour
  cargo xtask fuzz --executions 100000000 so many, divided over all targets
  cargo xtask fuzz decode --input FILE    one target, once, on the bytes of a file")]
pub(crate) struct Arguments {
    /// The target to run; by default all
    target: Option<String>,

    /// Seconds for each target
    #[arg(long, default_value_t = 10)]
    seconds: u32,

    /// Run this number of inputs, divided over the targets, however long that takes
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    executions: Option<u64>,

    /// Run the target on this file's bytes and stop
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,
}

/// The flags that `cargo-fuzz` would pass, except the sanitiser, which only nightly has. Debug assertions and
/// overflow checks turn silent mistakes into failures.
const FLAGS: &str = "-Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cdebug-assertions -Coverflow-checks --cfg fuzzing";

/// How long or on which inputs a target runs.
pub(crate) enum Amount<'a> {
    /// A few seconds each, compiled with little optimisation, which otherwise takes longer than they run.
    Smoke,
    Seconds(u32),
    /// The number of inputs over all targets.
    Executions(u64),
    /// Only the bytes of this file.
    Input(&'a Path),
}

/// The folder of what is built and found.
fn home() -> Result<PathBuf> {
    Ok(metadata::read()?.target.join("fuzz"))
}

/// What builds all targets.
fn build(amount: &Amount<'_>) -> Result<Command> {
    let mut build = cargo(["build", "--release", "--manifest-path", "fuzz/Cargo.toml"]);
    // With `--target`, the flags apply to the targets alone: a macro crate with counters would not link.
    build.args(["--bins", "--target", &host()?]).env("CARGO_TARGET_DIR", home()?);
    if matches!(amount, Amount::Smoke) {
        build.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1");
    }
    add_rustflags(&mut build, FLAGS);
    Ok(build)
}

/// Runs all selected targets, and fails if one of them has failed.
pub(crate) fn run_targets(only: Option<&str>, amount: &Amount<'_>) -> Result<()> {
    let targets = targets()?;
    let chosen = match only {
        None => targets,
        Some(name) if targets.iter().any(|target| target == name) => vec![name.to_owned()],
        Some(name) => bail!("no target `{name}`; there are: {}", targets.join(", ")),
    };
    setup::debian("c++", "g++")?;
    let (home, triple) = (home()?, host()?);
    run(&mut build(amount)?)?;
    let mut failed = Vec::new();
    for (at, target) in chosen.iter().enumerate() {
        println!("fuzz target `{target}`, {} of {}", at + 1, chosen.len());
        let mut command = program(home.join(&triple).join("release").join(target));
        // They may run at the lowest priority.
        command.args(["-timeout=60", "-rss_limit_mb=1024", "-print_final_stats=1"]);
        let seeds = root().join("fuzz/seeds").join(target);
        match *amount {
            // A path is relative to the caller's directory, not to the root.
            Amount::Input(file) => {
                run(command.arg(std::path::absolute(file)?))?;
                continue;
            }
            Amount::Smoke => command.arg("-max_total_time=4"),
            Amount::Seconds(seconds) => command.arg(format!("-max_total_time={seconds}")),
            Amount::Executions(all) => command.arg(format!("-runs={}", share(all, chosen.len()))),
        };
        let corpus = folder(&home, "corpus", target)?;
        let artifacts = folder(&home, "artifacts", target)?;
        command.arg(format!("-artifact_prefix={}/", artifacts.display())).arg(corpus);
        if seeds.is_dir() {
            command.arg(&seeds);
        }
        if let Err(error) = run(&mut command) {
            println!("fuzz target `{target}` found something: {error:#}");
            keep(&artifacts, &seeds)?;
            failed.push(target.as_str());
        }
    }
    if !failed.is_empty() {
        bail!("found something, see fuzz/seeds: {}", failed.join(", "));
    }
    Ok(())
}

/// The share of one target in this number of inputs.
fn share(all: u64, targets: usize) -> u64 {
    all.div_ceil(targets.max(1) as u64).max(1)
}

/// Moves the inputs on which a target has failed to its seeds.
fn keep(artifacts: &Path, seeds: &Path) -> Result<()> {
    std::fs::create_dir_all(seeds).with_context(|| format!("cannot make {}", seeds.display()))?;
    for found in std::fs::read_dir(artifacts)? {
        let found = found?;
        let to = seeds.join(found.file_name());
        // The target folder may be on another disk, to which a rename is not possible.
        std::fs::copy(found.path(), &to)
            .with_context(|| format!("cannot write {}", to.display()))?;
        std::fs::remove_file(found.path())?;
        println!("kept {}", to.display());
    }
    Ok(())
}

/// Runs the command.
pub(crate) fn run_command(arguments: &Arguments) -> Result<()> {
    let amount = match (&arguments.input, arguments.executions) {
        (Some(file), _) => Amount::Input(file),
        (None, Some(executions)) => Amount::Executions(executions),
        (None, None) => Amount::Seconds(arguments.seconds),
    };
    run_targets(arguments.target.as_deref(), &amount)
}

/// A few seconds of every target: enough to find a failure at the first malformed byte.
pub(crate) fn smoke() -> Result<()> {
    run_targets(None, &Amount::Smoke)
}

/// The names of all targets: the files of `fuzz/src/bin`.
fn targets() -> Result<Vec<String>> {
    let folder = root().join("fuzz/src/bin");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("no {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    if names.is_empty() {
        bail!("{} holds no target", folder.display());
    }
    Ok(names)
}

fn folder(home: &Path, kind: &str, target: &str) -> Result<PathBuf> {
    let path = home.join(kind).join(target);
    std::fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
    Ok(path)
}

/// The target triple of this machine.
fn host() -> Result<String> {
    let output = program("rustc").arg("-vV").output().context("cannot start rustc")?;
    let said = String::from_utf8_lossy(&output.stdout);
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` does not name its host")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_refused_with_the_known_ones() {
        let error = run_targets(Some("nonsense"), &Amount::Seconds(1)).unwrap_err().to_string();
        assert!(error.starts_with("no target `nonsense`; there are: "), "{error}");
    }

    #[test]
    fn executions_are_divided_and_none_gets_nothing() {
        assert_eq!((share(100, 8), share(3, 8), share(0, 8)), (13, 1, 1));
    }

    #[test]
    fn what_is_found_is_kept() {
        let home = root().join("target").join(format!("kept-{}", std::process::id()));
        let (artifacts, seeds) = (home.join("artifacts"), home.join("seeds"));
        std::fs::create_dir_all(&artifacts).unwrap();
        std::fs::write(artifacts.join("crash-1"), "bytes").unwrap();
        keep(&artifacts, &seeds).unwrap();
        assert_eq!(std::fs::read(seeds.join("crash-1")).unwrap(), b"bytes");
        assert!(!artifacts.join("crash-1").exists());
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn the_host_is_known() {
        assert!(host().unwrap().contains('-'));
    }
}
