//! What the examples share: arguments, printing, and the queries of the programs and the benchmarks.

pub use thalweg_first::*;
pub use thalweg_queries as queries;

use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use thalweg::{Chain, Environment, Result, Stream};
use thalweg_queries::graphs::{Nodes, edges};

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
    /// How the engine runs.
    #[command(flatten)]
    pub engine: thalweg::cli::EngineArgs,
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
    /// alone.
    ///
    /// # Errors
    ///
    /// When the files cannot be read.
    #[allow(clippy::type_complexity, reason = "an alias would hide what the edges are")]
    pub fn numbered(
        &self,
        env: &Environment,
    ) -> Result<(Nodes, Stream<impl Chain<Item = (u32, u32), Time = ()> + use<>>)> {
        // The job that is explained, and whose statistics are shown, is the other one.
        let before = Environment::with_config(env.config().clone());
        let nodes = Nodes::of(&before, self.read(&before))?;
        let edges = nodes.numbered(self.read(env));
        Ok((nodes, edges))
    }
}

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
