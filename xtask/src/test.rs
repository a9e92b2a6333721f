//! `cargo xtask test`: all checks that a change must pass, step by step.
//!
//! [`STEPS`] is the complete list, in the order in which mistakes are found soonest. A step fails when the program it
//! runs fails, and also when it should have run tests and ran none: a filter that matches nothing is a test that
//! cannot fail.

use crate::beside::{Beside, Ended, Niceness};
use crate::built::Build;
use crate::process::{Totals, cargo, program, root, run as execute, run_tests};
use crate::{
    examples, first_program, fuzz, hosts, inputs, kafka, killed, kubernetes, metadata, mpi,
    networks, objects, oracles, profile, reproduce, setup, temporary, tidy, unlinked,
};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Run everything: format, lints, docs, layers, tests of every kind, examples
///
/// Steps run in order and stop at the first that fails; a table at the end lists the results. The last line of output
/// is `N passed, N failed`, over the tests of all steps; a step that fails without a failing test, such as a lint,
/// counts as one failure.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask test                        everything, as before handing a change in
  cargo xtask test fast                   the daily loop: format, layers, unit tests
  cargo xtask test --step clippy          one step
  cargo xtask test --step unit --step docs --keep-going
  cargo xtask test --list                 what the steps are

One test alone is cargo's own business: cargo test -p thalweg NAME")]
pub(crate) struct Arguments {
    /// `fast` runs only the steps that belong in the daily loop
    #[arg(value_enum)]
    which: Option<Which>,

    /// The same as `fast`
    #[arg(long)]
    fast: bool,

    /// Run only this step; may be given several times
    #[arg(long, value_name = "NAME", value_parser = step_names(), conflicts_with_all = ["which", "fast"])]
    step: Vec<String>,

    /// Go on after a step that fails
    #[arg(long)]
    keep_going: bool,

    /// List the steps and run none
    #[arg(long)]
    list: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Format, layers and unit tests
    Fast,
    /// Every step; the default
    All,
}

/// Compile and run the Rust snippets of the README and the book
///
/// They are documentation tests of the engine crate: `crates/thalweg/src/snippets.rs` names each file, and `cargo
/// xtask tidy` reports missing ones.
#[derive(Args)]
pub(crate) struct SnippetArguments {}

/// One step of `cargo xtask test`.
struct Step {
    name: &'static str,
    /// What is true once it has passed.
    about: &'static str,
    /// Whether it is part of the daily loop.
    fast: bool,
    run: fn(&mut Totals) -> Result<Outcome>,
}

enum Outcome {
    Done,
    /// The machine cannot run this step, for this reason.
    NotRun(String),
}

/// Every step: first those that are run one after the other, then those that run beside them.
const STEPS: &[Step] = &[
    Step { name: "fmt", about: "the code is formatted", fast: true, run: fmt },
    Step {
        name: "tidy",
        about: "layers point one way, files are short, licences fit, links lead somewhere",
        fast: true,
        run: |_| tidy::check().map(|()| Outcome::Done),
    },
    Step { name: "unit", about: "unit tests pass", fast: true, run: unit },
    Step {
        name: "integration",
        about: "tests of the public API pass, broken programs and misfits give their message",
        fast: false,
        run: integration,
    },
    Step {
        name: "profile",
        about: "a pipeline of Kafka reads large records later over a narrow link, with the same answer",
        fast: false,
        run: |totals| match profile::check(totals)? {
            Some(networks::Unable(why)) => Ok(Outcome::NotRun(why)),
            None => some_ran(totals),
        },
    },
    Step {
        name: "programs",
        about: "example programs compile",
        fast: false,
        run: |_| examples::build().map(|_| Outcome::Done),
    },
    Step {
        name: "examples",
        about: "example programs build, run and give the known answer",
        fast: false,
        run: |_| examples::check().map(|()| Outcome::Done),
    },
    Step {
        name: "hosts",
        about: "examples agree on several processes, ssh, MPI and SLURM start them",
        fast: false,
        run: |totals| {
            hosts::check(totals)?;
            some_ran(totals)
        },
    },
    Step {
        name: "killed",
        about: "examples with checkpoints whose processes are killed go on, and give the same answer",
        fast: false,
        run: |totals| {
            killed::check(Build::Tested, killed::USUAL, inputs::seed(), totals)?;
            some_ran(totals)
        },
    },
    Step {
        name: "mpi",
        about: "jobs whose data travels by MPI give the right answer under `mpirun`, or end by name",
        fast: false,
        run: |totals| {
            mpi::check(totals)?;
            some_ran(totals)
        },
    },
    Step {
        name: "networks",
        about: "jobs on bad networks and with faults give the right answer, or end by name on every host",
        fast: false,
        run: |totals| match networks::check(totals, &[])? {
            Some(networks::Unable(why)) => Ok(Outcome::NotRun(why)),
            None => some_ran(totals),
        },
    },
    Step {
        name: "reproduce",
        about: "the papers' scaling experiments run, and give the same answer in every arrangement",
        fast: false,
        run: |totals| match reproduce::check(totals)? {
            Some(networks::Unable(why)) => Ok(Outcome::NotRun(why)),
            None => some_ran(totals),
        },
    },
    Step {
        name: "kubernetes",
        about: "manifests fit the schemas, and processes with their variables are hosts of one job",
        fast: false,
        run: |totals| {
            kubernetes::check(totals)?;
            some_ran(totals)
        },
    },
    Step {
        name: "oracles",
        about: "example programs agree with networkx and scikit-learn on random inputs",
        fast: false,
        run: |totals| {
            oracles::check(totals)?;
            some_ran(totals)
        },
    },
    Step {
        name: "kafka",
        about: "jobs between topics of a real broker count each record once, whatever is killed",
        fast: false,
        run: |totals| {
            kafka::check(totals)?;
            some_ran(totals)
        },
    },
    Step {
        name: "objects",
        about: "jobs with checkpoints in an object store count each record once, whatever is killed or fails",
        fast: false,
        run: |totals| {
            objects::check(totals)?;
            some_ran(totals)
        },
    },
    Step { name: "clippy", about: "no lint warns, in any target", fast: false, run: clippy },
    Step {
        name: "docs",
        about: "every public item is documented, every link resolves, every type of a signature has a page",
        fast: false,
        run: docs,
    },
    Step {
        name: "doctests",
        about: "examples in documentation and snippets of the README and the book run",
        fast: false,
        run: doctests,
    },
    Step {
        name: "first",
        about: "the README's first command runs, and its first program in a crate of its own",
        fast: false,
        run: |_| first_program::check().map(|()| Outcome::Done),
    },
    Step {
        name: "benchmarks",
        about: "no lint warns in the benchmarks but for two peers, and the tests there pass",
        fast: false,
        run: benchmarks,
    },
    Step {
        name: "loom",
        about: "queues and wake-ups hold in every interleaving of small models",
        fast: false,
        run: loom,
    },
    Step {
        name: "miri",
        about: "unsafe modules are free of undefined behaviour",
        fast: false,
        run: miri,
    },
    Step {
        name: "fuzz",
        about: "parsers and formats survive a few seconds of hostile bytes each",
        fast: false,
        run: |_| fuzz::smoke().map(|()| Outcome::Done),
    },
];

fn step_names() -> PossibleValuesParser {
    PossibleValuesParser::new(STEPS.iter().map(|step| step.name))
}

/// Runs the selected steps.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.list {
        for step in STEPS {
            let mark = if step.fast { "fast" } else { "" };
            println!("{:<12} {:<4}  {}", step.name, mark, step.about);
        }
        return Ok(());
    }
    let fast = arguments.fast || arguments.which == Some(Which::Fast);
    let chosen = STEPS.iter().filter(|step| {
        let named = arguments.step.iter().any(|name| name == step.name);
        named || (arguments.step.is_empty() && (!fast || step.fast))
    });
    let report = run_steps(chosen, arguments.keep_going, must_run());
    print!("{}", report.failures());
    println!("\n{}", report.table());
    let (passed, failed) = report.counts();
    println!("{passed} passed, {failed} failed");
    match report.failed().as_slice() {
        [] => Ok(()),
        names => bail!("failed: {}", names.join(", ")),
    }
}

/// Runs the snippets alone.
pub(crate) fn run_snippets(_: &SnippetArguments) -> Result<()> {
    snippets(&mut Totals::default()).map(drop)
}

/// The results of the steps.
#[derive(Default)]
struct Report {
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    totals: Totals,
    time: Duration,
    /// Whether it ran beside other steps.
    is_beside: bool,
    result: Result<Outcome>,
}

/// Whether a step that the machine cannot run counts as failed: in continuous integration, where it would go
/// unnoticed otherwise.
fn must_run() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// The steps that only compute, in the order in which they run beside the others, from the first on whose tests wait much of their
/// time: first those with target folders of their own, for which no other build has to wait.
const COMPUTING: [&str; 9] =
    ["miri", "loom", "fuzz", "benchmarks", "programs", "clippy", "docs", "doctests", "first"];

/// Long steps whose tests wait for other processes nearly all of their time, in the order in which they run beside those that wait less.
const WAITING: [&str; 2] = ["kafka", "objects"];

/// The steps that run beside others once this step begins, if the longest of all is among them.
fn begins_with(step: &str) -> Option<(&'static [&'static str], Niceness)> {
    match step {
        "unit" => Some((&COMPUTING, Niceness::MOST)),
        LONGEST => Some((&WAITING, Niceness::NONE)),
        _ => None,
    }
}

/// What is worth running others beside it.
const LONGEST: &str = "integration";

/// This program, which runs a step and nothing else.
fn alone(program: &Path, step: &str) -> Vec<String> {
    let program = program.display().to_string();
    vec![program, "test".to_owned(), "--step".to_owned(), step.to_owned()]
}

fn run_steps<'a>(
    steps: impl Iterator<Item = &'a Step>,
    keep_going: bool,
    must_run: bool,
) -> Report {
    let steps: Vec<&Step> = steps.collect();
    let mut report = Report::default();
    // Known before builds can take its place.
    let program = std::env::current_exe();
    let is_worth_it = steps.iter().any(|step| step.name == LONGEST);
    let mut beside = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        println!("\n=== {}: {}", step.name, step.about);
        if let (Ok(program), Some((others, niceness))) = (&program, begins_with(step.name))
            && is_worth_it
        {
            let is_later = |name: &&str| steps[at + 1..].iter().any(|later| later.name == *name);
            let (later, program) = (others.iter().copied().filter(is_later), program.clone());
            beside.push(Beside::begin(later, niceness, move |step| alone(&program, step)));
        }
        let (mut start, mut totals) = (Instant::now(), Totals::default());
        let ended = beside.iter().find_map(|beside: &Beside| beside.take(step.name));
        let is_beside = ended.is_some();
        let outcome = match ended {
            None => (step.run)(&mut totals),
            Some(ended) => ended.and_then(|ended| {
                start = Instant::now() - ended.time;
                outcome_of(step.name, &ended, &mut totals)
            }),
        };
        let result = match outcome {
            Ok(Outcome::NotRun(why)) if must_run => Err(anyhow::anyhow!("not run: {why}")),
            other => other,
        };
        let time = start.elapsed();
        let verdict = match &result {
            Ok(Outcome::Done) => "ok".to_owned(),
            Ok(Outcome::NotRun(why)) => format!("NOT RUN: {why}"),
            Err(error) => {
                // The last line alone must show that a step has failed.
                totals.failed = totals.failed.max(1);
                format!("FAILED: {error:#}")
            }
        };
        println!("--- {}: {verdict} ({:.1} s)", step.name, time.as_secs_f64());
        let stop = result.is_err() && !keep_going;
        report.lines.push(Line { name: step.name, totals, time, is_beside, result });
        if stop {
            break;
        }
    }
    report
}

/// What became of a step that has run by itself: its output is shown as far as it is the step's own.
fn outcome_of(step: &str, ended: &Ended, totals: &mut Totals) -> Result<Outcome> {
    let verdict = format!("--- {step}: ");
    let lines = ended.output.lines().skip_while(|line| line.is_empty() || line.starts_with("=== "));
    let lines: Vec<_> = lines.collect();
    let at = lines.iter().position(|line| line.starts_with(&verdict));
    for line in &lines[..at.unwrap_or(lines.len())] {
        println!("{line}");
        totals.read(&format!("{line}\n"));
    }
    let said = at.and_then(|at| lines[at].strip_prefix(&verdict)).unwrap_or_default();
    let said = said.rsplit_once(" (").map_or(said, |(said, _)| said);
    match (ended.has_passed, said.strip_prefix("NOT RUN: "), said.strip_prefix("FAILED: ")) {
        (true, None, _) => Ok(Outcome::Done),
        (true, Some(why), _) => Ok(Outcome::NotRun(why.to_owned())),
        (false, _, Some(why)) => bail!("{why}"),
        (false, _, None) => bail!("it ended before its verdict"),
    }
}

impl Report {
    fn table(&self) -> String {
        let mut table = format!("{:<12} {:<8} {:>7} {:>9}\n", "step", "result", "tests", "time");
        for Line { name, totals, time, is_beside, result } in &self.lines {
            let (word, why) = match result {
                Ok(Outcome::Done) => ("ok", None),
                Ok(Outcome::NotRun(why)) => ("not run", Some(why.clone())),
                Err(error) => ("FAILED", Some(format!("{error:#}"))),
            };
            let count = if totals.ran() > 0 { totals.ran().to_string() } else { String::new() };
            table += &format!("{name:<12} {word:<8} {count:>7} {:>7.1} s", time.as_secs_f64());
            if *is_beside {
                table += "  beside others";
            }
            if let Some(why) = why {
                // The full text was printed where the step ended; the table has room for its first line.
                table += &format!("  {}", why.lines().next().unwrap_or_default());
            }
            table.push('\n');
        }
        table
    }

    /// What test programs said of the tests that failed, once more: between them and the end may lie thousands of lines.
    fn failures(&self) -> String {
        let failed = self.lines.iter().filter(|line| !line.totals.failures.is_empty());
        failed
            .map(|line| format!("\n=== {}: what has failed\n{}", line.name, line.totals.failures))
            .collect()
    }

    /// How many tests, and steps without tests, have passed and failed.
    fn counts(&self) -> (u64, u64) {
        let sum = |of: fn(&Totals) -> u64| self.lines.iter().map(|line| of(&line.totals)).sum();
        (sum(|totals| totals.passed), sum(|totals| totals.failed))
    }

    fn failed(&self) -> Vec<&'static str> {
        self.lines.iter().filter(|line| line.result.is_err()).map(|line| line.name).collect()
    }
}

fn fmt(_: &mut Totals) -> Result<Outcome> {
    execute(&mut cargo(["fmt", "--all", "--check"])).context("`cargo fmt --all` mends this")?;
    // Packages outside the product's workspace are checked as well.
    for manifest in ["fuzz/Cargo.toml", "benchmarks/Cargo.toml"] {
        if root().join(manifest).is_file() {
            execute(&mut cargo(["fmt", "--all", "--manifest-path", manifest, "--check"]))
                .with_context(|| {
                    format!("`cargo fmt --all --manifest-path {manifest}` mends this")
                })?;
        }
    }
    Ok(Outcome::Done)
}

/// The features that are off by default, and on in all steps that lint, document or test the whole workspace, so that it is built once.
pub(crate) const FEATURES: &str =
    "--features=thalweg/tls,thalweg/object-store,thalweg-kafka/avro-tls,thalweg-kafka/tls";

/// What compiles librdkafka, for TLS, too.
pub(crate) fn compilers() -> Result<()> {
    setup::debian("cc", "gcc")?;
    setup::debian("c++", "g++")?;
    setup::debian("make", "make")?;
    // It finds OpenSSL's headers.
    setup::debian("pkg-config", "pkg-config")?;
    setup::debian_where("OpenSSL's headers", "libssl-dev", || {
        let mut found = program("pkg-config");
        found.args(["--exists", "openssl"]).status().is_ok_and(|status| status.success())
    })
}

fn clippy(_: &mut Totals) -> Result<Outcome> {
    compilers()?;
    let arguments = ["clippy", "--workspace", FEATURES, "--all-targets", "--", "-D", "warnings"];
    execute(&mut cargo(arguments))?;
    // And as most programs have the engine.
    execute(&mut cargo(["clippy", "--package", "thalweg", "--lib", "--", "-D", "warnings"]))?;
    Ok(Outcome::Done)
}

fn docs(_: &mut Totals) -> Result<Outcome> {
    compilers()?;
    let mut command = cargo(["doc", "--workspace", FEATURES, "--no-deps"]);
    execute(command.env("RUSTDOCFLAGS", "-D warnings -D missing_docs"))?;
    unlinked::check()?;
    Ok(Outcome::Done)
}

fn unit(totals: &mut Totals) -> Result<Outcome> {
    compilers()?;
    let folder = temporary::folder();
    let mut command = cargo(["test", "--workspace", FEATURES, "--no-fail-fast", "--lib", "--bins"]);
    tests_of(with_files_in(folder.as_ref(), &mut command), totals)
}

fn integration(totals: &mut Totals) -> Result<Outcome> {
    compilers()?;
    // For certificates.
    setup::debian("openssl", "openssl")?;
    let mut command = cargo(["test", "--workspace", FEATURES, "--no-fail-fast", "--test", "*"]);
    // They build example programs, and do so with what is compiled already.
    command.env("THALWEG_TEST_PACKAGES", format!("--workspace {FEATURES}"));
    let folder = temporary::folder();
    tests_of(with_files_in(folder.as_ref(), &mut command), totals)
}

/// The command, with this folder for its temporary files, if there is one.
fn with_files_in<'a>(folder: Option<&TempDir>, command: &'a mut Command) -> &'a mut Command {
    match folder {
        Some(folder) => command.env("TMPDIR", folder.path()),
        None => command,
    }
}

fn doctests(totals: &mut Totals) -> Result<Outcome> {
    compilers()?;
    tests(&["test", "--workspace", FEATURES, "--no-fail-fast", "--doc"], totals)
}

fn snippets(totals: &mut Totals) -> Result<Outcome> {
    compilers()?;
    tests(&["test", "--package", "thalweg", FEATURES, "--doc", "--", "snippets"], totals)
}

/// Lints and tests the benchmarks' workspace, apart from the peers whose dependencies take minutes to compile; of our own
/// program, which has no tests, only the lints.
fn benchmarks(totals: &mut Totals) -> Result<Outcome> {
    execute(&mut benchmark_lints())?;
    tests_of(benchmark_tests().arg("--no-fail-fast"), totals)
}

fn benchmark_lints() -> Command {
    let mut lints = of_benchmarks(&["clippy", "--all-targets"], &PEERS);
    lints.args(["--", "-D", "warnings"]);
    lints
}

fn benchmark_tests() -> Command {
    let [renoir, timely] = PEERS;
    of_benchmarks(&["test"], &[renoir, timely, "bench-ours"])
}

/// The peers whose dependencies take long to compile.
const PEERS: [&str; 2] = ["bench-renoir", "bench-timely"];

/// A command of cargo for all packages of the benchmarks but some.
fn of_benchmarks(arguments: &[&str], but: &[&str]) -> Command {
    let mut command = cargo(arguments);
    // In its folder, so that its `.cargo/config.toml` applies: kernels are tested with this machine's instructions.
    command.current_dir(root().join("benchmarks")).arg("--workspace");
    but.iter().for_each(|package| _ = command.args(["--exclude", package]));
    command
}

/// The toolchain with miri.
const NIGHTLY: &str = "nightly";

/// Runs the models under loom, which executes every interleaving. A target folder of its own, since the flag requires
/// another build of everything; loom is optimised, since there are many interleavings, and the engine is not, since that takes
/// longer than the models.
fn loom(totals: &mut Totals) -> Result<Outcome> {
    tests_of(&mut loom_models()?, totals)
}

fn loom_models() -> Result<Command> {
    let mut command = cargo(["test", "-p", "thalweg", "--test", "models"]);
    command.arg("--no-default-features");
    for package in ["loom", "generator", "scoped-tls", "tracing-core", "tracing"] {
        command.args(["--config", &format!("profile.dev.package.{package}.opt-level=3")]);
    }
    command.env("RUSTFLAGS", "--cfg loom");
    command.env("CARGO_TARGET_DIR", metadata::read()?.target.join("loom"));
    Ok(command)
}

/// Modules without unsafe code whose tests exercise the unsafe code of others most.
const CALLERS_OF_UNSAFE: [&str; 2] =
    ["state::table", "operators::per_record::text::runs::tests::both_ways"];

fn miri(totals: &mut Totals) -> Result<Outcome> {
    let modules = tidy::unsafe_modules("crates/thalweg/src")?;
    if modules.is_empty() {
        println!("no module of the engine allows unsafe code");
        return Ok(Outcome::Done);
    }
    for component in ["miri", "rust-src"] {
        if let Err(error) = setup::component(NIGHTLY, component) {
            return Ok(Outcome::NotRun(format!("miri cannot be had here: {error:#}")));
        }
    }
    let mut command = program("rustup");
    command.args(["run", NIGHTLY, "cargo", "miri", "test", "-p", "thalweg", "--lib", "--"]);
    command.args(&modules).args(CALLERS_OF_UNSAFE);
    command.env("CARGO_TARGET_DIR", metadata::read()?.target.join("miri"));
    // A hundred times slower than the machine: a few random cases each, which may access the folder of failing cases.
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation").env("PROPTEST_CASES", "4");
    tests_of(&mut command, totals)
}

fn tests(arguments: &[&str], totals: &mut Totals) -> Result<Outcome> {
    tests_of(&mut cargo(arguments), totals)
}

fn tests_of(command: &mut Command, totals: &mut Totals) -> Result<Outcome> {
    let before = totals.ran();
    run_tests(command, totals)?;
    if totals.ran() == before {
        bail!("no test ran, although there should be some");
    }
    Ok(Outcome::Done)
}

fn some_ran(totals: &Totals) -> Result<Outcome> {
    if totals.ran() == 0 {
        bail!("no test ran, although there should be some");
    }
    Ok(Outcome::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn step(name: &'static str, run: fn(&mut Totals) -> Result<Outcome>) -> Step {
        Step { name, about: "", fast: false, run }
    }

    const SAMPLE: [Step; 3] = [
        step("good", |totals| {
            totals.passed += 3;
            Ok(Outcome::Done)
        }),
        step("bad", |_| bail!("a reason\nin two lines")),
        step("absent", |_| Ok(Outcome::NotRun("no such thing here".into()))),
    ];

    #[test]
    fn the_first_failure_stops_and_counts() {
        let report = run_steps(SAMPLE.iter(), false, false);
        assert_eq!(report.counts(), (3, 1));
        assert_eq!(report.failed(), ["bad"]);
        assert_eq!(report.lines.len(), 2);
    }

    #[test]
    fn keep_going_reaches_the_last_step() {
        let table = run_steps(SAMPLE.iter(), true, false).table();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 4);
        assert!(lines[1].starts_with("good         ok             3"), "{table}");
        assert!(lines[2].starts_with("bad          FAILED") && lines[2].ends_with("a reason"));
        assert!(lines[3].starts_with("absent       not run") && lines[3].ends_with("thing here"));
    }

    #[test]
    fn what_must_run_and_does_not_has_failed() {
        let report = run_steps(SAMPLE.iter(), true, true);
        assert_eq!(report.failed(), ["bad", "absent"]);
        assert!(report.table().ends_with("not run: no such thing here\n"), "{}", report.table());
    }

    #[test]
    fn a_failing_test_is_not_counted_twice() {
        let failing = step("failing", |totals| {
            totals.failed += 2;
            bail!("two tests failed")
        });
        assert_eq!(run_steps([&failing].into_iter(), false, false).counts(), (0, 2));
    }

    #[test]
    fn a_step_that_ran_by_itself_is_read() {
        let read = |has_passed, output: &str| {
            let ended = Ended { has_passed, output: output.to_owned(), time: Duration::ZERO };
            let mut totals = Totals::default();
            let outcome = outcome_of("loom", &ended, &mut totals);
            (outcome, totals.passed, totals.failed)
        };
        let head = "\n=== loom: about\n$ cargo test\ntest result: ok. 7 passed; 0 failed\n";
        let (outcome, passed, failed) =
            read(true, &format!("{head}--- loom: ok (3.1 s)\n\nstep\n"));
        assert!(matches!(outcome, Ok(Outcome::Done)) && (passed, failed) == (7, 0));
        let (outcome, ..) = read(true, "--- loom: NOT RUN: no such (thing) here (0.1 s)\n");
        assert!(matches!(outcome, Ok(Outcome::NotRun(why)) if why == "no such (thing) here"));
        let output = "test result: FAILED. 7 passed; 2 failed\n--- loom: FAILED: two (3.1 s)\n";
        let (outcome, passed, failed) = read(false, output);
        assert_eq!(outcome.err().unwrap().to_string(), "two");
        assert_eq!((passed, failed), (7, 2));
        let (outcome, ..) = read(false, "half of a li");
        assert!(outcome.err().unwrap().to_string().contains("before its verdict"));
    }

    #[test]
    fn a_run_without_tests_fails() {
        let mut silent = program("true");
        assert!(tests_of(&mut silent, &mut Totals::default()).is_err());
        let mut one = program("echo");
        one.arg("test result: ok. 1 passed; 0 failed; 0 ignored");
        let mut totals = Totals::default();
        tests_of(&mut one, &mut totals).unwrap();
        assert_eq!(totals.passed, 1);
    }
}
