//! What the examples share: arguments, printing, and the queries of the programs and the benchmarks.

pub use thalweg_first::*;
pub use thalweg_queries as queries;

use clap::{Args, ValueEnum};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thalweg::config::Config;
use thalweg::data::Record;
use thalweg::{Chain, Environment, Error, ErrorKind, Result, Stream};
use thalweg_queries::graphs::{Nodes, edges};
use thalweg_workloads::digest::{Digest, Row};

/// The argument of programs whose result is rows: where these are written, so that each is there once.
#[derive(Args)]
pub struct OutputArgs {
    /// Write every row into files of this directory, in no order and with a tab between columns, and print nothing. With
    /// `--checkpoint`, a program that is killed goes on when it is run again.
    #[arg(long, value_name = "DIR", conflicts_with = "tsv")]
    output: Option<PathBuf>,
}

impl OutputArgs {
    /// The directory, if rows are to be written and not printed.
    pub fn dir(&self) -> Option<&Path> {
        self.output.as_deref()
    }
}

/// The arguments of the programs of the streaming benchmarks.
#[derive(Args)]
pub struct Generated {
    /// How many events, made from the seed before the job begins.
    #[arg(long, default_value_t = 1_000_000)]
    pub events: u64,
    /// What the events are drawn from.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
    /// Print every row, and nothing else; otherwise how many there are, and their digest.
    #[arg(long)]
    pub tsv: bool,
    /// Where rows are written.
    #[command(flatten)]
    pub sink: OutputArgs,
    /// How the engine runs.
    #[command(flatten)]
    pub engine: thalweg::cli::EngineArgs,
}

impl Generated {
    /// Runs a query: writes or prints its rows, in no order, or prints how many they are and their digest.
    ///
    /// # Errors
    ///
    /// When the job fails.
    pub fn run<C>(&self, env: &Environment, rows: Stream<C>) -> Result<()>
    where
        C: Chain,
        for<'a> <C::Item as Record>::Of<'a>: Row + Display,
    {
        if let Some(dir) = self.sink.dir() {
            rows.write_lines_parallel(dir);
            return env.run();
        }
        if self.tsv {
            let line = |row: <C::Item as Record>::Of<'_>| row.to_string();
            rows.map(line).print();
            return env.run();
        }
        let all = rows.fold_assoc(Digest::default(), |all, row| all.add(&row), Digest::merge);
        let all = all.collect::<Vec<_>>();
        env.run()?;
        for digest in all.take()? {
            println!("{} rows, digest {digest}", digest.rows());
        }
        Ok(())
    }
}

/// The two forms of the Yahoo benchmark's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// 64 bytes each, where every field has its place
    Fixed,
    /// Text of 136 bytes on average, as in the AIR paper, which has to be parsed
    Variable,
}

/// The arguments of the programs of the Yahoo benchmark.
#[derive(Args)]
pub struct Seen {
    /// What the events are before they are read: the answers are the same.
    #[arg(long, value_enum, default_value_t = Form::Fixed)]
    pub form: Form,
    /// The rest.
    #[command(flatten)]
    pub given: Generated,
}

/// The arguments of the programs on graphs.
#[derive(Args)]
pub struct GraphArgs {
    /// The edges, one a line: `src dst`, two whole numbers with whitespace between them. What follows a `#` is a
    /// comment. Directories and globs are welcome, and so are files that end in .gz and .zst.
    #[arg(required = true)]
    pub edges: Vec<PathBuf>,
    /// Print the rows, with a tab between columns, and nothing else.
    #[arg(long)]
    pub tsv: bool,
    /// Where rows are written.
    #[command(flatten)]
    pub sink: OutputArgs,
    /// How the engine runs.
    #[command(flatten)]
    pub engine: thalweg::cli::EngineArgs,
}

impl GraphArgs {
    /// The edges as they stand in the files.
    pub fn read(
        &self,
        env: &Environment,
    ) -> Stream<impl Chain<Item = (u64, u64), Time = ()> + use<>> {
        edges(env, self.edges.clone())
    }

    /// The edges between numbers, and the nodes that these stand for: the files are read twice, first for the nodes
    /// alone, also by a program that goes on from a checkpoint.
    ///
    /// # Errors
    ///
    /// When the files cannot be read.
    #[allow(clippy::type_complexity, reason = "an alias would hide what the edges are")]
    pub fn numbered(
        &self,
        env: &Environment,
    ) -> Result<(Nodes, Stream<impl Chain<Item = (u32, u32), Time = ()> + use<>>)> {
        // The job that is explained, that has checkpoints, and whose statistics are shown, is the other one.
        let mut config = env.config().clone();
        config.checkpoints = None;
        let before = Environment::with_config(config);
        let nodes = Nodes::of(&before, self.read(&before))?;
        let edges = nodes.numbered(self.read(env));
        Ok((nodes, edges))
    }
}

/// Refuses checkpoints in a program that measures several jobs.
///
/// # Errors
///
/// When the settings have a directory for checkpoints.
pub fn refuse_checkpoints(config: &Config) -> Result<()> {
    match &config.checkpoints {
        None => Ok(()),
        Some(_) => Err(Error::new(ErrorKind::Config, NO_CHECKPOINTS)),
    }
}

const NO_CHECKPOINTS: &str = "several jobs are measured, each from its beginning to its end, and one that went on in the \
                              middle would give wrong figures: leave out `--checkpoint` (or `THALWEG_CHECKPOINT`, or \
                              `checkpoint` in the file of settings)";

/// Reads a span of time: a number and a unit, `us`, `ms`, `s`, `min` or `h`.
///
/// # Errors
///
/// When it is none, or not above nothing.
///
/// ```
/// use std::time::Duration;
/// use thalweg_examples::span;
///
/// assert_eq!(span("1.5s"), Ok(Duration::from_millis(1500)));
/// assert_eq!(span("5 min"), Ok(Duration::from_secs(300)));
/// assert!(span("10").is_err() && span("0s").is_err() && span("-1s").is_err());
/// ```
pub fn span(text: &str) -> std::result::Result<Duration, String> {
    let wrong =
        || "allowed is a number above 0 and a unit: us, ms, s, min or h, as in 250ms".into();
    let unit = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let seconds = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.trim_end().parse().map_err(|_| wrong())?;
    let span = Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())?;
    if span < Duration::from_micros(1) { Err(wrong()) } else { Ok(span) }
}

/// Reads a number above 0.
///
/// # Errors
///
/// When it is none.
pub fn positive(text: &str) -> std::result::Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "allowed is a number above 0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::ffi::OsString;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        graph: GraphArgs,
    }

    /// The arguments of a program on the graph of this line, with checkpoints in the same folder.
    fn program(folder: &Path, edges: &str) -> GraphArgs {
        let path = |name: &str| folder.join(name).into_os_string();
        std::fs::write(path("edges.txt"), edges).unwrap();
        let checkpoint = [OsString::from("--checkpoint"), path("saved")];
        let line = [OsString::from("graph"), path("edges.txt")].into_iter().chain(checkpoint);
        Program::parse_from(line).graph
    }

    #[test]
    fn a_job_with_checkpoints_follows_the_one_that_numbers_nodes() {
        let folder = tempfile::tempdir().unwrap();
        let graph = program(folder.path(), "7 70\n70 9\n");
        let env = Environment::with_config(graph.engine.to_config().unwrap());
        assert!(env.config().checkpoints.is_some());
        let (nodes, edges) = graph.numbered(&env).unwrap();
        assert_eq!(nodes.ids(), [7, 9, 70]);
        let out = edges.sorted().collect::<Vec<_>>();
        env.run().unwrap();
        assert_eq!(out.take().unwrap(), [(0, 2), (2, 1)]);
    }

    #[test]
    fn programs_that_measure_say_why_they_have_no_checkpoints() {
        let mut config = Config::default();
        refuse_checkpoints(&config).unwrap();
        config.checkpoints = Some(thalweg::config::CheckpointConfig::new("saved"));
        let error = refuse_checkpoints(&config).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.to_string().contains("wrong figures: leave out `--checkpoint`"), "{error}");
    }

    #[test]
    fn rows_are_written_or_printed() {
        let parse = |flags: &[&str]| {
            let line = ["graph", "edges.txt"].iter().chain(flags);
            Program::try_parse_from(line).map(|program| program.graph)
        };
        assert_eq!(parse(&["--tsv"]).ok().unwrap().sink.dir(), None);
        assert_eq!(parse(&["--output", "rows"]).ok().unwrap().sink.dir(), Some(Path::new("rows")));
        let error = parse(&["--tsv", "--output", "rows"]).err().unwrap();
        assert_eq!(error.kind(), clap::error::ErrorKind::ArgumentConflict);
    }
}
