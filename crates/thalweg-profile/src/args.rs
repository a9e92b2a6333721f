//! The arguments.

use crate::figures::SIZES;
use crate::flink::FlinkPipeline;
use crate::record::LEAST;
use crate::spans::Percentile;
use clap::{Parser, Subcommand, ValueEnum};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;
use thalweg::config::{BatchMode, Config};
use thalweg::{Error, ErrorKind, Result};

/// Says where each millisecond of a pipeline between two topics of Kafka goes
///
/// Records are made on a schedule, whether the pipeline keeps up or not, and each carries the moment at which it was due. The
/// pipeline stamps it when it arrives in its source and when it leaves for its sink; a plain consumer of the second topic has
/// the last moment. So the whole latency of each record is taken apart: reading, processing, writing.
#[derive(Parser)]
#[command(name = "thalweg-profile", version, after_long_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// This process is in a network namespace of its own
    #[arg(long, hide = true)]
    pub(crate) inside: bool,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Measure one pipeline at one rate
    Run(RunArgs),
    /// Measure what a figure of the study of Flink and Kafka has: latency over rates, or over sizes
    Figure(FigureArgs),
    /// Compare a narrow and a wide network, as the study does: all parts of the latency over sizes of records
    ///
    /// For each size, each engine is measured on both, one after the other, and must give the same answer on both.
    Networks(NetworksArgs),
}

impl Command {
    /// The networks between the broker and all else; none for the machine's own.
    pub(crate) fn networks(&self) -> &[Network] {
        let one = match self {
            Self::Run(run) => &run.network,
            Self::Figure(figure) => &figure.network,
            Self::Networks(_) => return &Network::BOTH,
        };
        if *one == Network::None { &[] } else { std::slice::from_ref(one) }
    }

    /// Checks that a broker can be put behind a link, if it has to be.
    ///
    /// # Errors
    ///
    /// If the broker is not ours.
    pub(crate) fn check_networks(&self) -> Result<()> {
        let common = match self {
            Self::Run(run) => &run.common,
            Self::Figure(figure) => &figure.common,
            Self::Networks(networks) => &networks.common,
        };
        if self.networks().is_empty() || common.jars.is_some() {
            return Ok(());
        }
        let what = "the network is made for a broker that is started here: --jars names the folder with its jars, instead of --brokers";
        Err(Error::new(ErrorKind::Config, what))
    }
}

const HELP: &str = "\
The study is `Characterization of Big Data Stream Processing Pipeline: A Case Study using Flink and Kafka` (Javed, Lu and Panda, \
BDCAT 2017). Its pipelines are those of HiBench.

Examples:
  thalweg-profile run --brokers localhost:9092 --rate 80k
  thalweg-profile run --brokers localhost:9092 --workload wordcount --engines thalweg,consumer --json all.json --plot all.svg
  thalweg-profile figure 4 --brokers localhost:9092 --scale 0.1 --plot figure4.svg
  thalweg-profile networks --jars kafka --engines consumer,thalweg --plot networks.svg";

/// What both commands share.
#[derive(clap::Args, Clone)]
pub(crate) struct Common {
    /// Brokers of the cluster: HOST:PORT, several separated by commas
    #[arg(long, value_name = "LIST", required_unless_present = "jars", conflicts_with = "jars")]
    pub(crate) brokers: Option<String>,

    /// Start a broker on this machine from the jars of Kafka in this folder, and end it afterwards; needs `java`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) jars: Option<PathBuf>,

    /// What is measured: several are measured one after the other, on the same work, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "thalweg", value_name = "LIST")]
    pub(crate) engines: Vec<Engine>,

    /// A folder with all jars of the pipelines on Flink, for `--engines flink`
    #[arg(long, value_name = "FOLDER")]
    pub(crate) flink_jars: Option<PathBuf>,

    /// How long to measure
    #[arg(long, default_value = "10s", value_parser = span)]
    pub(crate) time: Duration,

    /// How long to run at the same rate before that, which does not count: Flink needs some 20s
    #[arg(long, default_value = "5s", value_parser = span)]
    pub(crate) warm_up: Duration,

    /// How long a broker that is started here is used before anything counts
    #[arg(long, default_value = "15s", value_parser = span, value_name = "TIME")]
    pub(crate) broker_warm_up: Duration,

    /// How wide the networks are: a share of the study's 40 and 100 Gbit/s
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = network_share)]
    pub(crate) network_scale: f64,

    /// Partitions of both topics
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(i32).range(1..=1000))]
    pub(crate) partitions: i32,

    /// How many different keys records have
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub(crate) keys: u64,

    /// How long the windows of `fixwindow` are
    #[arg(long, default_value = "1s", value_parser = span)]
    pub(crate) window: Duration,

    /// A property of librdkafka for all clients, such as `security.protocol=ssl`
    #[arg(long = "client-option", value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) client_options: Vec<(String, String)>,

    /// The same for what makes the records alone, such as `linger.ms=5`: 0 unless it is set
    #[arg(long = "producer-option", value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) producer_options: Vec<(String, String)>,

    /// The same for the source of the engine, and for the plain consumer that is measured
    #[arg(long = "source-option", value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) source_options: Vec<(String, String)>,

    /// The same for the sink of the engine
    #[arg(long = "sink-option", value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) sink_options: Vec<(String, String)>,

    /// Cores for the engine, and the parallelism of Flink [default: all]
    #[arg(long, value_name = "N")]
    pub(crate) cores: Option<NonZeroUsize>,

    /// When the engine's exchanges send what they collect: adaptive, adaptive:1024, fixed:1024, timed:1024:2ms or single
    #[arg(long, value_name = "MODE")]
    pub(crate) batch: Option<BatchMode>,

    /// Show the percentiles of each second too, and not only of all of them
    #[arg(long)]
    pub(crate) each_second: bool,

    /// Which percentiles the plot has: 50, 90, 95, 98, 99 and 99.9, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["50", "98"], hide_possible_values = true, value_name = "LIST")]
    pub(crate) percentiles: Vec<Percentile>,

    /// Write all that was measured
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,

    /// Draw it
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// The most records of which it is kept whether each has come.
const MOST_RECORDS: f64 = 1e9;

impl Common {
    /// How the engine runs.
    pub(crate) fn config(&self) -> Config {
        let mut config = Config::default();
        config.cores = self.cores.unwrap_or(config.cores);
        config.batch = self.batch.unwrap_or(config.batch);
        config
    }

    /// The options of a client, behind those of all clients.
    pub(crate) fn options_with(&self, own: &[(String, String)]) -> Vec<(String, String)> {
        self.client_options.iter().chain(own).cloned().collect()
    }

    /// Checks what can be checked before anything is started.
    ///
    /// # Errors
    ///
    /// If the arguments do not fit together.
    pub(crate) fn check(&self, workload: Workload, rate: f64) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        let records = rate * (self.warm_up + self.time).as_secs_f64();
        if records > MOST_RECORDS {
            return wrong(format!(
                "these are {records:.0} records, and {MOST_RECORDS:.0} are the most"
            ));
        }
        if workload == Workload::Fixwindow {
            if !self.window.as_nanos().is_multiple_of(1_000_000) {
                return wrong("--window is a whole number of milliseconds".to_owned());
            }
            if self.engines.contains(&Engine::ByHand) {
                return wrong("fixwindow is not written by hand".to_owned());
            }
            if self.window > self.time {
                return wrong(
                    "--time must be at least as long as --window, for a window to end in it"
                        .to_owned(),
                );
            }
        }
        if self.engines.iter().any(|engine| matches!(engine, Engine::Flink | Engine::FlinkTuned)) {
            FlinkPipeline::jars(self)?;
            let options = [&self.client_options, &self.source_options, &self.sink_options];
            if options.iter().any(|options| !options.is_empty()) || self.batch.is_some() {
                return wrong(
                    "Flink has clients of its own: --client-option, --source-option, --sink-option and --batch do not reach it, \
                     and a comparison would be of different work"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

/// The arguments of one measurement.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// What the pipeline does between the topics
    #[arg(long, value_enum, default_value_t = Workload::Rebalance)]
    pub(crate) workload: Workload,

    /// Records a second, as in 800 or 80k
    #[arg(long, value_name = "RATE", default_value = "20k", value_parser = rate)]
    pub(crate) rate: f64,

    /// Bytes of a record
    #[arg(long, value_name = "BYTES", default_value_t = 200, value_parser = size)]
    pub(crate) size: usize,

    /// What lies between the broker and all else; not `none` needs Linux and the rights of root
    #[arg(long, value_enum, default_value_t = Network::None)]
    pub(crate) network: Network,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// The arguments of a figure.
#[derive(clap::Args)]
pub(crate) struct FigureArgs {
    /// 3: the whole latency of rebalance over rates. 4: the same over sizes of records. 5: reading over sizes. 6: processing of
    /// wordcount over sizes. 7: processing of rebalance over sizes. What a plain consumer has of the whole is reading, and it
    /// has no processing
    #[arg(value_parser = clap::value_parser!(u8).range(3..=7))]
    pub(crate) number: u8,

    /// Share of the study's rates: 20 to 320 thousand records a second in figure 3, 160 thousand in the others, whose largest
    /// records make a GB a second of it
    #[arg(long, value_name = "SHARE", default_value_t = 0.1, value_parser = share)]
    pub(crate) scale: f64,

    /// What lies between the broker and all else; not `none` needs Linux and the rights of root
    #[arg(long, value_enum, default_value_t = Network::None)]
    pub(crate) network: Network,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// The arguments of a comparison of networks.
#[derive(clap::Args)]
pub(crate) struct NetworksArgs {
    /// What the pipeline does between the topics
    #[arg(long, value_enum, default_value_t = Workload::Rebalance)]
    pub(crate) workload: Workload,

    /// Share of the study's 160 thousand records a second
    #[arg(long, value_name = "SHARE", default_value_t = 0.01, value_parser = share)]
    pub(crate) scale: f64,

    /// Bytes of a record, several separated by commas: by default those of the study
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = SIZES, value_parser = size)]
    pub(crate) sizes: Vec<usize>,

    #[command(flatten)]
    pub(crate) common: Common,
}

/// What lies between the broker and all else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Network {
    /// Nothing but the machine itself
    None,
    /// A link like the study's Ethernet, of 40 Gbit/s, smaller by --network-scale
    Narrow,
    /// A link like its InfiniBand, of 100 Gbit/s, smaller by the same
    Wide,
}

impl Network {
    /// Those that the study compares.
    pub(crate) const BOTH: [Self; 2] = [Self::Narrow, Self::Wide];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Narrow => "narrow",
            Self::Wide => "wide",
        }
    }

    /// Its rate at a share of the study's, in bits a second; `None` without a limit.
    pub(crate) fn bits(self, scale: f64) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Narrow => Some(40e9 * scale),
            Self::Wide => Some(100e9 * scale),
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    /// A job of this engine
    Thalweg,
    /// Nothing but a plain consumer of librdkafka: what reading costs without an engine
    Consumer,
    /// The same work by a consumer and a producer of librdkafka, written by hand on one thread; not fixwindow
    ByHand,
    /// A job of Flink with the settings that it has by default
    Flink,
    /// The same with a buffer timeout, watermarks and a sink's linger of a millisecond, and objects that are used again
    FlinkTuned,
}

/// What a pipeline does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// Writes each record as it is
    Identity,
    /// Deals records out to all tasks, then writes them
    Rebalance,
    /// Counts the records of each key, and writes each new count
    Wordcount,
    /// Counts the records of each key in windows of event time, and writes the counts when a window ends
    Fixwindow,
}

impl Workload {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Rebalance => "rebalance",
            Self::Wordcount => "wordcount",
            Self::Fixwindow => "fixwindow",
        }
    }
}

impl Engine {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Thalweg => "thalweg",
            Self::Consumer => "consumer",
            Self::ByHand => "by-hand",
            Self::Flink => "flink",
            Self::FlinkTuned => "flink-tuned",
        }
    }
}

/// Reads a span of time: a number, and `ms`, `s` or `min`.
fn span(text: &str) -> std::result::Result<Duration, String> {
    let wrong = || {
        "allowed is a span of at least 1ms and at most an hour, as in 500ms, 10s or 2min".to_owned()
    };
    let units = [("ms", 1e-3), ("min", 60.0), ("s", 1.0)];
    let found =
        units.into_iter().find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, seconds)));
    let (number, unit) = found.ok_or_else(wrong)?;
    let seconds = number.parse::<f64>().map_err(|_| wrong())? * unit;
    let is_allowed = (1e-3..=3_600.0).contains(&seconds);
    is_allowed.then(|| Duration::from_secs_f64(seconds)).ok_or_else(wrong)
}

/// Reads a rate: a number, and perhaps `k` or `M`.
fn rate(text: &str) -> std::result::Result<f64, String> {
    let wrong = || "allowed is a number from 1 to 100M, as in 800, 20k or 1.5M".to_owned();
    let units = [("k", 1e3), ("M", 1e6)];
    let found = units.into_iter().find_map(|(unit, of)| Some((text.strip_suffix(unit)?, of)));
    let (number, unit) = found.unwrap_or((text, 1.0));
    let rate = number.parse::<f64>().map_err(|_| wrong())? * unit;
    (1.0..=1e8).contains(&rate).then_some(rate).ok_or_else(wrong)
}

fn share(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0001..=100.0).contains(share));
    share.ok_or_else(|| "allowed is a number from 0.0001 to 100".to_owned())
}

fn network_share(text: &str) -> std::result::Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0001..=1.0).contains(share));
    share.ok_or_else(|| "allowed is a number from 0.0001 to 1".to_owned())
}

/// The largest record: somewhat less than what clients send by default.
const LARGEST: usize = 900_000;

fn size(text: &str) -> std::result::Result<usize, String> {
    let size = text.parse().ok().filter(|size| (LEAST..=LARGEST).contains(size));
    size.ok_or_else(|| {
        format!(
            "allowed is {LEAST} to {LARGEST}: a record has the moments of its way in it, and Kafka's clients send a megabyte at most"
        )
    })
}

fn option(text: &str) -> std::result::Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("expected NAME=VALUE, as in linger.ms=5".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn numbers_have_units_and_limits() {
        assert_eq!(["1", "20k", "1.5M"].map(|text| rate(text).unwrap()), [1.0, 2e4, 1.5e6]);
        let millis = ["1ms", "2.5s", "2min"].map(|text| span(text).unwrap().as_millis());
        assert_eq!(millis, [1, 2_500, 120_000]);
        assert_eq!((size("64"), size("900000")), (Ok(64), Ok(900_000)));
        assert_eq!(option("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        for wrong in ["", "0", "-1", "1G", "k", "nan", "inf"] {
            assert!(rate(wrong).is_err(), "{wrong}");
        }
        for wrong in ["", "1", "0s", "1h", "-1s", "nans", "infs", "s"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
        assert!(size("63").is_err() && size("900001").is_err());
        assert!(share("0").is_err() && share("nan").is_err() && share("0.1").is_ok());
        assert!(option("linger.ms").is_err() && option("=1").is_err());
    }

    #[test]
    fn arguments_fit_together() {
        Args::command().debug_assert();
        let read = |line: &str| Args::try_parse_from(line.split(' ')).map(drop);
        assert!(read("p run --brokers b:1 --engines thalweg,consumer").is_ok());
        assert!(read("p figure 3 --jars j --network wide").is_ok());
        assert!(read("p networks --jars j --sizes 200,6400").is_ok());
        for wrong in [
            "p run",
            "p run --brokers b:1 --jars j",
            "p figure 8 --jars j",
            "p figure --jars j",
            "p networks --jars j --network wide",
            "p networks --jars j --network-scale 2",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_have_the_study_s_proportion_and_a_broker_of_their_own() {
        assert_eq!(Network::BOTH.map(|network| network.bits(0.01)), [Some(4e8), Some(1e9)]);
        assert_eq!(Network::None.bits(1.0), None);
        let read = |line: &str| Args::try_parse_from(line.split(' ')).map(|args| args.command);
        let networks = |line| read(line).map(|command| command.networks().to_vec()).unwrap();
        assert_eq!(networks("p run --brokers b:1"), []);
        assert_eq!(networks("p figure 5 --jars j --network wide"), [Network::Wide]);
        assert_eq!(networks("p networks --jars j"), Network::BOTH);
        for (line, is_right) in [
            ("p run --brokers b:1", true),
            ("p run --jars j --network narrow", true),
            ("p run --brokers b:1 --network narrow", false),
            ("p networks --brokers b:1", false),
        ] {
            assert_eq!(read(line).unwrap().check_networks().is_ok(), is_right, "{line}");
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused_before_anything_is_started() {
        let check = |line: &str, rate: f64| {
            let line = format!("p run --brokers b:1 {line}");
            let args =
                Args::try_parse_from(line.split_whitespace()).map_err(|error| error.to_string());
            let Command::Run(args) = args.unwrap().command else { panic!("it is a run") };
            args.common.check(args.workload, rate).map_err(|error| error.to_string())
        };
        assert_eq!(check("--workload fixwindow --window 2s --time 2s", 1e6), Ok(()));
        for (line, rate, said) in [
            ("--time 60min", 1e6, "1000000000 are the most"),
            ("--workload fixwindow --window 1.5ms", 1.0, "whole number of milliseconds"),
            ("--workload fixwindow --window 20s", 1.0, "at least as long as --window"),
            ("--engines flink", 1.0, "--flink-jars names the folder"),
            ("--engines flink --flink-jars /none", 1.0, "/none"),
            ("--engines flink --flink-jars . --sink-option a=b", 1.0, "do not reach it"),
        ] {
            let refused = check(line, rate).unwrap_err();
            assert!(refused.contains(said), "{line}: {refused}");
        }
    }

    #[test]
    fn help_teaches() {
        let help = Args::command().render_long_help().to_string();
        for taught in ["on a schedule", "Examples:", "figure 4", "BDCAT 2017"] {
            assert!(help.contains(taught), "{taught}: {help}");
        }
    }
}
