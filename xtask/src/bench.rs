//! `cargo xtask bench`: measures our programs, their rivals, and bounds written by hand, in alternation.
//!
//! Every contestant of a case is a process that stays alive and runs one round on request. After a warm-up, the
//! rounds of the contestants alternate, one at a time, and the order moves on by one each round, so that changes of
//! the machine affect all of them alike. The result is the ratio within a round. `suite` lists the contestants,
//! `process` communicates with one of them, `report` computes the ratios; `benchmarks/README.md` explains what is
//! measured and how answers are compared.

mod certificates;
mod distance;
mod kafka;
mod latency;
mod markdown;
mod peers;
mod process;
mod report;
mod suite;
mod usage;

use crate::data;
use crate::process::{cargo, program, root, run as run_program};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum, builder::PossibleValuesParser};
use markdown::Setting;
pub(crate) use markdown::origin;
use process::{Round, Running};
pub(crate) use report::Spread;
use report::{Average, Outcome, Rounds};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;
pub(crate) use suite::Build;
use suite::{BENCHES, Case, Contestant, Program};
use tempfile::TempDir;

/// Measure our programs beside their peers
///
/// Builds only what takes part: without `renoir` among the peers, Renoir is not compiled. Peers in Python are
/// installed into a virtual environment of the benchmarks' own. The large ones, `flink`, those like
/// `flink-sql`, and `spark`, take part only if `--peers` names them, or is `all`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  cargo xtask bench wordcount
  cargo xtask bench keyed-count --peers duckdb,bound --case 1M
  cargo xtask bench all --json report.json --table report.md
  cargo xtask bench pagerank kmeans --size full   two benches
  cargo xtask bench nexmark --peers flink,renoir  Flink takes part when it is named
  cargo xtask bench exchange --subject bound      how far the peers are from the bound
  cargo xtask bench kafka-read kafka-exactly-once kafka-latency --peers all
                                                  with a broker of Kafka, and Flink; `all` leaves them out")]
pub(crate) struct Arguments {
    /// The benches to run; `benchmarks/README.md` says what each measures
    #[arg(required = true, value_name = "BENCH", value_parser = bench_names())]
    names: Vec<String>,

    /// Only these peers; by default all except the large ones. A name includes its variants: `renoir` includes
    /// `renoir-folded`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    peers: Option<Vec<String>>,

    /// Only these cases
    #[arg(long = "case", value_name = "NAMES", value_delimiter = ',')]
    cases: Option<Vec<String>>,

    /// Write the results here
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write every round of every contestant here
    #[arg(long, value_name = "FILE")]
    raw: Option<PathBuf>,

    /// Write the results here as a table in Markdown, with the commit, the day and the processor
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,

    /// Draw the latency of every second into this folder, one picture a case, where it was measured
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,

    /// How much data: `small` takes minutes, `full` hours
    #[arg(long, value_enum, default_value_t)]
    size: Size,

    /// Rounds that count, after the warm-up. One is enough to see that everything runs, but says nothing about speed
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,

    /// Cores that each contestant may use; by default all
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    cores: Option<u64>,

    /// The contestant whose throughput is divided by the others'
    #[arg(long, value_name = "NAME", default_value = suite::SUBJECT)]
    subject: String,
}

/// The amount of data of a bench.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Size {
    /// Minutes for a bench
    #[default]
    Small,
    /// Hours
    Full,
}

impl Size {
    fn pick<T>(self, small: T, full: T) -> T {
        match self {
            Size::Small => small,
            Size::Full => full,
        }
    }
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let cores = match arguments.cores {
        Some(cores) => usize::try_from(cores)?,
        None => std::thread::available_parallelism()?.get(),
    };
    if arguments.names.iter().any(|name| kafka::BENCHES.contains(&name.as_str())) {
        return with_a_broker(arguments);
    }
    let cases = chosen(arguments, cores)?;
    let setting = Setting::new(arguments.size, arguments.rounds, cores);
    let prepared = prepare(&cases)?;
    let mut outcomes = Vec::new();
    for case in cases {
        let outcome = measure(case, &prepared, arguments.rounds, cores)?;
        print!("{}", outcome.table());
        if let Some(folder) = &arguments.plots {
            draw(folder, &outcome)?;
        }
        outcomes.push(outcome);
        // Written after each case, so that results survive an interruption.
        let means = averages(&outcomes);
        let all = outcomes.iter().flat_map(Outcome::json);
        let all = all.chain(means.iter().flat_map(Average::json));
        write_json(arguments.json.as_deref(), all)?;
        write_json(arguments.raw.as_deref(), outcomes.iter().flat_map(Outcome::raw))?;
        if let Some(file) = &arguments.table {
            write(file, &markdown::table(&outcomes, &means, &setting))?;
        }
    }
    averages(&outcomes).iter().for_each(|average| print!("{}", average.table()));
    let void: Vec<String> = outcomes
        .iter()
        .flat_map(|outcome| {
            let case = &outcome.case;
            let void = outcome.void().into_iter();
            void.map(move |peer| format!("{}/{}/{peer}", case.bench, case.name))
        })
        .collect();
    if !void.is_empty() {
        bail!("void, for another answer or none: {}", void.join(", "));
    }
    Ok(())
}

/// Runs benches of Kafka.
fn with_a_broker(arguments: &Arguments) -> Result<()> {
    let Arguments { names, peers, cases, json, raw, table, plots, .. } = arguments;
    if let Some(other) = names.iter().find(|name| !kafka::BENCHES.contains(&name.as_str())) {
        bail!("`{other}` has no broker of Kafka: run it in a command of its own");
    }
    let has_others = cases.is_some() || raw.is_some() || table.is_some() || plots.is_some();
    if has_others || arguments.cores.is_some() || arguments.subject != suite::SUBJECT {
        bail!("benches of Kafka have no --case, --raw, --table, --plots, --cores and --subject");
    }
    let has_flink = match peers.as_deref() {
        None => false,
        Some(peers) => {
            let known = ["consumer", "flink", EVERYONE];
            refuse_unknown("peer", peers, &known.into(), |wanted, known| wanted == known)?;
            peers.iter().any(|peer| peer != "consumer")
        }
    };
    let is_full = arguments.size == Size::Full;
    let setting = kafka::Setting { rounds: arguments.rounds, has_flink, is_full };
    let mut entries = Vec::new();
    for bench in names {
        entries.extend(kafka::measure(bench, &setting)?);
        write_json(json.as_deref(), entries.iter().cloned())?;
    }
    Ok(())
}

/// The averages of the benches that have them, over the cases measured so far.
fn averages(outcomes: &[Outcome]) -> Vec<Average> {
    let of = |bench: &&str| {
        let all = outcomes.iter().filter(|outcome| outcome.case.bench == *bench);
        Average::of(&all.collect::<Vec<_>>())
    };
    suite::AVERAGED.iter().filter_map(of).collect()
}

fn bench_names() -> PossibleValuesParser {
    PossibleValuesParser::new(BENCHES.into_iter().chain(kafka::BENCHES).chain(["all"]))
}

/// The cases and contestants that the command line selects.
fn chosen(arguments: &Arguments, cores: usize) -> Result<Vec<Case>> {
    let mut benches: Vec<&str> = Vec::new();
    for name in &arguments.names {
        match name.as_str() {
            "all" => benches.extend(BENCHES),
            name => benches.push(name),
        }
    }
    let mut cases = Vec::new();
    for (at, bench) in benches.iter().enumerate() {
        if benches[..at].contains(bench) {
            continue;
        }
        let of_bench = suite::cases(bench, arguments.size, cores);
        cases.extend(of_bench.with_context(|| format!("the bench `{bench}` has no cases"))?);
    }
    if let Some(wanted) = &arguments.cases {
        let known = names(cases.iter().map(|case| case.name.as_str()));
        refuse_unknown("case", wanted, &known, |wanted, known| wanted == known)?;
        cases.retain(|case| wanted.contains(&case.name));
    }
    if arguments.subject != suite::SUBJECT {
        for case in &mut cases {
            let at = case.rivals.iter().position(|rival| rival.peer == arguments.subject);
            let at = at.with_context(|| {
                format!("{}/{} has no peer `{}`", case.bench, case.name, arguments.subject)
            })?;
            // Our own variants are left out as well: this run is about the peers.
            let ours = case.ours.program;
            case.ours = case.rivals.remove(at);
            case.rivals.retain(|rival| !rival.program.same_source(ours));
        }
    }
    let wanted = arguments.peers.as_deref();
    if let Some(wanted) = wanted {
        let all = cases.iter().flat_map(|case| &case.rivals).map(|rival| rival.peer);
        let all = all.chain(std::iter::once(EVERYONE));
        refuse_unknown("peer", wanted, &names(all), stands_for)?;
    }
    for case in &mut cases {
        case.rivals.retain(|rival| takes_part(rival, wanted));
    }
    if wanted.is_some() {
        cases.retain(|case| !case.rivals.is_empty());
    }
    if cases.is_empty() {
        bail!("no case is left to measure");
    }
    Ok(cases)
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    names.collect()
}

/// Whether a name given to `--peers` selects a contestant: its own name or a prefix of it that stands for its
/// variants.
fn stands_for(name: &str, peer: &str) -> bool {
    let rest = peer.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
}

/// The value of `--peers` that selects all peers, including the large ones.
const EVERYONE: &str = "all";

/// Whether a rival takes part; a large one only if it is named.
fn takes_part(rival: &Contestant, wanted: Option<&[String]>) -> bool {
    let Some(wanted) = wanted else { return !rival.by_name };
    wanted.iter().any(|name| match name.as_str() {
        EVERYONE => true,
        name if rival.by_name => name == rival.peer,
        name => stands_for(name, rival.peer),
    })
}

fn refuse_unknown(
    what: &str,
    wanted: &[String],
    known: &BTreeSet<&str>,
    means: impl Fn(&str, &str) -> bool,
) -> Result<()> {
    for name in wanted {
        if !known.iter().any(|known| means(name, known)) {
            let known: Vec<&str> = known.iter().copied().collect();
            bail!("there is no {what} `{name}` here; there are: {}", known.join(", "));
        }
    }
    Ok(())
}

/// All datasets of a size, each once.
pub(crate) fn datasets(size: Size) -> Vec<String> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let cases: Vec<Case> =
        BENCHES.iter().filter_map(|bench| suite::cases(bench, size, cores)).flatten().collect();
    needed(&cases)
}

fn needed(cases: &[Case]) -> Vec<String> {
    let everyone = cases.iter().flat_map(Case::contestants);
    let sets: BTreeSet<&String> =
        everyone.flat_map(|one| one.files().map(|(_, set)| set)).collect();
    sets.into_iter().cloned().collect()
}

/// The path of each dataset's file.
type Files = BTreeMap<String, PathBuf>;

/// What the cases need: input files, and programs unless something prevents them.
struct Prepared {
    files: Files,
    /// Programs that cannot take part, and why.
    missing: Vec<(Program, String)>,
    /// The folder of certificates, if a contestant needs them, or why there are none.
    certificates: Option<Result<TempDir, String>>,
}

/// Builds, installs and generates what the cases need. A contestant that cannot be built does not take part; the others
/// do.
fn prepare(cases: &[Case]) -> Result<Prepared> {
    let mut programs: Vec<Program> = Vec::new();
    for one in cases.iter().flat_map(Case::contestants) {
        if !programs.contains(&one.program) {
            programs.push(one.program);
        }
    }
    let mut missing = Vec::new();
    for program in programs {
        if let Err(error) = install(program) {
            eprintln!("{error:#}");
            missing.push((program, format!("{error:#}")));
        }
    }
    let encrypted = cases.iter().flat_map(Case::contestants).any(|one| one.certificates);
    let certificates =
        encrypted.then(|| certificates::make().map_err(|error| format!("{error:#}")));
    let datasets = needed(cases);
    let files = data::ensure(&datasets)?;
    Ok(Prepared { files: datasets.into_iter().zip(files).collect(), missing, certificates })
}

/// Builds or installs a contestant's program, unless that has been done.
fn install(program: Program) -> Result<()> {
    match program {
        Program::Package(name, processor) => build(name, processor),
        Program::Script(_, pins) => pins.install(),
        Program::OnJava(_, pins) => peers::java().and_then(|()| pins.install()),
        Program::Flink => peers::java().and_then(|()| peers::build_flink()),
        Program::Mpi => peers::build_mpi(),
        Program::OpenMp => peers::build_openmp(),
    }
}

/// Builds a package of the benchmarks' workspace with its own release profile.
///
/// One package at a time: cargo unites the features of shared dependencies over the packages that its command names, so that
/// two of them together would compile what each of them has compiled alone, and their dependencies would have other
/// features than users get.
pub(crate) fn build(package: &str, processor: Build) -> Result<()> {
    let mut command = cargo(["build", "--release", "--quiet", "--package", package]);
    // In its folder, so that its `.cargo/config.toml` applies, which compiles for this machine. A variable overrides it.
    command.current_dir(root().join("benchmarks")).env_remove("CARGO_ENCODED_RUSTFLAGS");
    match processor {
        Build::Native => command.env_remove("RUSTFLAGS"),
        Build::Portable => command.env("RUSTFLAGS", ""),
    };
    command.arg("--target-dir").arg(folder(processor));
    run_program(&mut command)
}

/// The target folder of the benchmarks' workspace.
fn target() -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        // A relative path is relative to the folder in which `cargo` runs, the benchmarks' folder.
        Some(target) => root().join("benchmarks").join(target),
        None => root().join("benchmarks/target"),
    }
}

/// The target folder of a kind of build: two, or each would compile anew what the other has compiled.
fn folder(processor: Build) -> PathBuf {
    match processor {
        Build::Native => target(),
        Build::Portable => target().join("portable"),
    }
}

/// The path of a package's program after [`build`].
pub(crate) fn binary(package: &str, processor: Build) -> PathBuf {
    folder(processor).join("release").join(package)
}

/// The command that starts a contestant.
fn command(contestant: &Contestant, prepared: &Prepared, cores: usize) -> Result<Command> {
    let missing = prepared.missing.iter().find(|(program, _)| *program == contestant.program);
    if let Some((_, reason)) = missing {
        bail!("{reason}");
    }
    let cores = contestant.cores.unwrap_or(cores);
    let mut command = match contestant.program {
        Program::Package(name, processor) => program(binary(name, processor)),
        Program::Script(name, pins) | Program::OnJava(name, pins) => peers::script(name, pins),
        Program::Flink => peers::flink(cores),
        Program::Mpi => peers::mpi(cores),
        Program::OpenMp => peers::openmp(),
    };
    command.args(&contestant.arguments).args(["--cores", &cores.to_string()]);
    for (option, dataset) in contestant.files() {
        let file = prepared.files.get(dataset);
        let file = file.with_context(|| format!("no file was made of {dataset}"))?;
        command.arg(option).arg(file);
    }
    if contestant.certificates {
        match &prepared.certificates {
            Some(Ok(folder)) => command.arg("--tls-dir").arg(folder.path()),
            Some(Err(reason)) => bail!("{reason}"),
            None => bail!("no certificates were made"),
        };
    }
    Ok(command)
}

/// A contestant in the rotation, until it fails.
struct Seat {
    contestant: Contestant,
    state: Result<(Running, Vec<Round>), String>,
}

impl Seat {
    fn take(contestant: &Contestant, prepared: &Prepared, cores: usize) -> Self {
        let started = command(contestant, prepared, cores)
            .and_then(|command| Running::start(contestant, command))
            .map(|running| (running, Vec::new()));
        let state = started.map_err(|error| format!("{error:#}"));
        Self { contestant: contestant.clone(), state }
    }

    /// Runs one round, and keeps its result if it counts.
    fn round(&mut self, counts: bool) {
        let Ok((running, rounds)) = &mut self.state else { return };
        match running.round() {
            Ok(round) if counts => rounds.push(round),
            Ok(_) => {}
            Err(error) => self.state = Err(format!("{error:#}")),
        }
    }

    fn rounds(self) -> (Contestant, Rounds) {
        (self.contestant, self.state.map(|(_, rounds)| rounds))
    }
}

/// Runs a case: a warm-up and the given number of rounds of each contestant. One that fails is reported and left out from
/// then on. If our own program fails there is nothing to compare, and the case ends.
fn measure(case: Case, prepared: &Prepared, rounds: u32, cores: usize) -> Result<Outcome> {
    let title = format!("{}/{}", case.bench, case.name);
    let mut seats = Vec::new();
    for contestant in case.contestants() {
        progress(&format!("{title}: starting {}", contestant.peer));
        seats.push(Seat::take(contestant, prepared, cores));
    }
    let most = seats.iter().map(|seat| seat.contestant.warm_up).max().unwrap_or(0);
    for round in 1..=most {
        for seat in seats.iter_mut().filter(|seat| seat.contestant.warm_up >= round) {
            progress(&format!("{title}: warm-up {round} {}", seat.contestant.peer));
            seat.round(false);
        }
    }
    let mut round_trips = Vec::new();
    for round in 1..=rounds as usize {
        if seats[0].state.is_err() {
            break;
        }
        round_trips.extend(distance::round_trip());
        for place in 0..seats.len() {
            let place = (place + round) % seats.len();
            let seat = &mut seats[place];
            progress(&format!("{title}: {round}/{rounds} {}", seat.contestant.peer));
            seat.round(true);
        }
    }
    progress("");
    let mut results = seats.into_iter().map(Seat::rounds);
    let (_, ours) = results.next().context("our own program has the first seat")?;
    let rivals = results.collect();
    Ok(Outcome { ours, case, rivals, round_trip: Spread::of(round_trips) })
}

/// Draws the latency of every second, if the case measures it.
fn draw(folder: &Path, outcome: &Outcome) -> Result<()> {
    let Some(svg) = latency::plot(outcome) else { return Ok(()) };
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let file = folder.join(format!("{}-{}.svg", outcome.case.bench, outcome.case.name));
    write(&file, &svg)
}

/// Shows progress on a terminal; the line is overwritten by the next.
pub(crate) fn progress(line: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{line}");
    }
}

fn write_json(file: Option<&Path>, entries: impl Iterator<Item = Value>) -> Result<()> {
    let Some(file) = file else { return Ok(()) };
    let text = serde_json::to_string_pretty(&Value::Array(entries.collect()))?;
    write(file, &(text + "\n"))
}

pub(crate) fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn peers(line: &str) -> Result<Vec<Vec<&'static str>>> {
        let words = std::iter::once("bench").chain(line.split(' '));
        let cases = chosen(&Line::try_parse_from(words)?.arguments, 2)?;
        Ok(cases.iter().map(|case| case.rivals.iter().map(|rival| rival.peer).collect()).collect())
    }

    #[test]
    fn a_name_stands_for_its_variants() {
        let found = peers("wordcount --case assoc --peers renoir,bound").unwrap();
        assert_eq!(found, [["renoir", "renoir-folded", "bound"]]);
    }

    #[test]
    fn peers_can_be_compared_among_themselves() {
        let found = peers("fusion --subject bound --case instruction").unwrap();
        assert_eq!(found, [["renoir"]]);
    }

    #[test]
    fn large_peers_take_part_by_name_alone() {
        let nexmark = |peers: &str| peers_of_first(&format!("nexmark --case q5{peers}"));
        assert!(!nexmark("").contains(&"flink"));
        assert_eq!(nexmark(" --peers flink"), ["flink"]);
        assert_eq!(nexmark(" --peers flink-sql"), ["flink-sql"]);
        assert!(
            ["renoir", "flink", "flink-sql"].iter().all(|p| nexmark(" --peers all").contains(p))
        );
    }

    fn peers_of_first(line: &str) -> Vec<&'static str> {
        peers(line).unwrap().remove(0)
    }

    #[test]
    fn several_benches_run_once_each() {
        let cases = |line: &str| peers(line).unwrap().len();
        assert_eq!(cases("collatz fused collatz"), 2);
        assert_eq!(cases("collatz all"), cases("all"));
    }

    #[test]
    fn what_does_not_exist_is_refused_with_what_does() {
        for (line, expected) in [
            (
                "sorting",
                "error: invalid value 'sorting' for '<BENCH>...'\n  [possible values: wordcount",
            ),
            (
                "collatz --peers flink",
                "there is no peer `flink` here; there are: all, bound, rayon",
            ),
            ("collatz --case 1K", "there is no case `1K` here; there are: longest"),
        ] {
            let error = peers(line).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
        assert!(peers("collatz --rounds 0").is_err());
    }

    #[test]
    fn datasets_are_named_once() {
        let sets = datasets(Size::Small);
        assert!(sets.contains(&"text:128".to_owned()));
        assert!(sets.contains(&"campaigns".to_owned()));
        assert_eq!(sets.len(), sets.iter().collect::<BTreeSet<_>>().len());
    }
}
