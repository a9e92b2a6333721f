//! The arguments of a search.

use crate::judge::LEAST_WINDOWS;
use crate::programs::Program;
use clap::{CommandFactory as _, FromArgMatches as _, Parser};
use std::path::PathBuf;
use std::time::Duration;
use thalweg::cli::EngineArgs;
use thalweg_examples::{Form, span};

/// Find the greatest rate of events that a program sustains.
///
/// The program runs at one rate after the other. Events are due on a schedule, and stamped with the time at
/// which they are due whether the program keeps up or not. The latency of a result is the time from the
/// newest event that can have contributed to it (of a window, the last due before its end) to the moment at
/// which the result is emitted.
///
/// A rate is sustainable when, over 30 windows, no window is without a result and latency has no upward
/// slope. A program that cannot keep up queues its input, and its latency grows as long as it runs; one that
/// can has a latency that stays, however high. The rate doubles until one is not sustainable, and the range
/// between is halved until it is narrow. Every job runs from its beginning: `--checkpoint` is refused.
#[derive(Parser)]
#[command(name = "sustain", after_long_help = HELP)]
pub struct Args {
    /// What is run
    #[arg(value_enum)]
    pub program: Program,

    /// How long a window is, as in 500ms or 10s; those of q5 slide by a fifth of it, all others stand side
    /// by side
    #[arg(long, default_value = "10s", value_parser = span)]
    pub window: Duration,

    /// How many windows a rate is judged by, after one that is not looked at; at least 6
    #[arg(long, default_value_t = 30, value_parser = windows)]
    pub windows: usize,

    /// What the events of ysb, ysb-star and swa are before they are read
    #[arg(long, value_enum, default_value_t = Form::Fixed)]
    pub form: Form,

    /// The first rate, in events a second, as in 800k or 2M
    #[arg(long, value_name = "RATE", default_value = "1M", value_parser = rate)]
    pub from: f64,

    /// The least rate that is tried
    #[arg(long, value_name = "RATE", default_value = "1k", value_parser = rate)]
    pub least: f64,

    /// The greatest rate that is tried
    #[arg(long, value_name = "RATE", default_value = "1G", value_parser = rate)]
    pub most: f64,

    /// How near to each other what is sustained and what is not must be at the end
    #[arg(long, value_name = "SHARE", default_value = "5%", value_parser = share)]
    pub precision: f64,

    /// How many events are made before the search, to be played round and round
    #[arg(long, value_name = "EVENTS", default_value_t = 500_000)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub recorded: u64,

    /// What the events are drawn from
    #[arg(long, default_value_t = 42)]
    pub seed: u64,

    /// Draw latency against rate
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Write all that was measured
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Print rows of rate, 50th and 99th percentile of latency in ms, slope in ms a second, windows without a
    /// result and verdict, then the rate found, and nothing else
    #[arg(long)]
    pub tsv: bool,

    /// How the engine runs
    #[command(flatten)]
    pub engine: EngineArgs,
}

impl Args {
    /// Takes them from the command line; the process ends where they are wrong, and after `--help`.
    ///
    /// Windows may be longer than the engine's patience with them, and warnings of that are not wanted
    /// between the rows: it is off by default.
    pub fn read() -> Self {
        let quiet = |arg: clap::Arg| arg.default_value("never").hide_default_value(true);
        let matches = Self::command().mut_arg("stall_after", quiet).get_matches();
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }
}

const HELP: &str = "\
How long a search takes: a rate takes the time of 31 windows, so 5 min 10 s with windows of 10 s as in the \
AIR paper (q5: 72 s), and a search tries about ten rates. One that fell five windows behind is given up at \
once. With `--window 1s` a search is over in five minutes, and its answer differs little where windows \
cost little.

The programs: q0 to q8 are Nexmark, `ysb`, `ysb-star` and `swa` the Yahoo benchmark in AIR's forms, \
`windowed_wordcount` counts words in windows of ten occurrences. Those without windows of time (q0 to q3, \
q6, windowed_wordcount) are judged by the mean latency of the results of each window's time. q4 is refused: \
its averages are given at the end of the stream, so that no result can be late.

Event time is the time at which events are due: a window of 10 s holds ten times the rate. Nexmark's \
auctions stay open for as many events as at its own rate. Events are due in fifths of a millisecond; that \
is what latencies are exact to.

Examples:
  sustain ysb --window 1s                      a first impression
  sustain ysb-star --form variable             as the AIR paper has it, in an hour
  sustain q5 --window 1s --plot q5.svg --json q5.json
  sustain swa --window 1s --from 20M --precision 2%
  sustain q8 --cores 1 --batch single          the engine's flags change what is measured";

/// Reads a rate: a number, and perhaps `k`, `M` or `G`.
fn rate(text: &str) -> Result<f64, String> {
    let wrong = || "allowed is a number of at least 1, as in 1000, 800k, 2.5M or 1G".to_owned();
    let (number, unit) = match text.chars().last() {
        Some('k') => (&text[..text.len() - 1], 1e3),
        Some('M') => (&text[..text.len() - 1], 1e6),
        Some('G') => (&text[..text.len() - 1], 1e9),
        _ => (text, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let rate = number * unit;
    if (1.0..=1e12).contains(&rate) { Ok(rate) } else { Err(wrong()) }
}

/// Reads a share, as in `5%` or `0.05`.
fn share(text: &str) -> Result<f64, String> {
    let wrong = || "allowed is a share between 0.1% and 100%, as in 5% or 0.05".to_owned();
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 0.01));
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let share = number * unit;
    if (0.001..=1.0).contains(&share) { Ok(share) } else { Err(wrong()) }
}

fn windows(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (LEAST_WINDOWS..=100_000).contains(number));
    number.ok_or_else(|| {
        format!("allowed is {LEAST_WINDOWS} to 100000: fewer cannot show whether latency rises")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(
            ["1000", "800k", "2.5M", "1G"].map(|text| rate(text).unwrap()),
            [1e3, 8e5, 2.5e6, 1e9]
        );
        for wrong in ["", "k", "0", "-1k", "1m", "nan", "inf", "2 M"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        assert_eq!(["5%", "0.05", "100%"].map(|text| share(text).unwrap()), [0.05, 0.05, 1.0]);
        for wrong in ["", "%", "0", "200%", "-5%"] {
            assert!(share(wrong).is_err(), "{wrong}");
        }
        assert_eq!((windows("6"), windows("5").is_err()), (Ok(6), true));
    }

    #[test]
    fn help_teaches() {
        let help = Args::command().render_long_help().to_string();
        for taught in
            ["upward slope", "How long a search takes", "q4 is refused", "Examples:", "--cores"]
        {
            assert!(help.contains(taught), "{taught}: {help}");
        }
    }
}
