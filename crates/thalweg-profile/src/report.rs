//! What is printed and written.

use crate::args::{Common, Workload};
use crate::collect::{Collected, PartSpans};
use crate::generate::{ClientSpans, Generation};
use crate::plot;
use crate::run::Point;
use crate::spans::{Percentile, Summary};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use thalweg::{Error, ErrorKind, Place, Result};

/// The share of its rate that a pipeline may be behind and still keeps up,
const BEHIND: f64 = 0.02;
/// besides so long, in milliseconds.
const GRACE: f64 = 200.0;

/// All that was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// The figure of the study, if it was for one.
    pub(crate) figure: Option<u8>,
    /// Whether it compares the study's two networks.
    pub(crate) compares_networks: bool,
    pub(crate) seconds: f64,
    pub(crate) warm_up_seconds: f64,
    pub(crate) partitions: i32,
    pub(crate) keys: u64,
    pub(crate) cores: usize,
    /// Those that are drawn.
    #[serde(skip)]
    pub(crate) percentiles: Vec<Percentile>,
    /// Options of clients: of all, of what makes the records, of the source and of the sink.
    pub(crate) options: [Vec<(String, String)>; 4],
    pub(crate) runs: Vec<Measured>,
}

/// What one engine did at one rate. Spans are in milliseconds.
#[derive(Debug, Serialize)]
pub(crate) struct Measured {
    pub(crate) engine: &'static str,
    pub(crate) workload: &'static str,
    pub(crate) rate: f64,
    pub(crate) size: usize,
    pub(crate) network: &'static str,
    /// The rate of the network, in bits a second, if it has a limit.
    pub(crate) network_bits: Option<f64>,
    /// Equal for all that have the same results. Windows depend on when they were measured, and have none.
    pub(crate) answer: Option<String>,
    pub(crate) window_ms: Option<f64>,
    /// Whether the last result came soon after the last record was due: what does not keep up has a queue that grows.
    pub(crate) kept_up: bool,
    pub(crate) generation: Generation,
    pub(crate) all: PartSummaries,
    /// The same of the records that were due in each second.
    pub(crate) seconds: Vec<PartSummaries>,
}

/// What is said of the parts; those that there are not are left out.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(crate) struct PartSummaries {
    pub(crate) whole: Option<Summary>,
    pub(crate) reading: Option<Summary>,
    pub(crate) to_log: Option<Summary>,
    pub(crate) from_log: Option<Summary>,
    pub(crate) decoding: Option<Summary>,
    pub(crate) processing: Option<Summary>,
    pub(crate) writing: Option<Summary>,
}

impl PartSummaries {
    fn of(spans: &PartSpans) -> Self {
        Self {
            whole: spans.whole.summary(),
            reading: spans.reading.summary(),
            to_log: spans.to_log.summary(),
            from_log: spans.from_log.summary(),
            decoding: spans.decoding.summary(),
            processing: spans.processing.summary(),
            writing: spans.writing.summary(),
        }
    }

    /// The parts that one after the other are the whole, and the whole.
    pub(crate) fn main(&self) -> [(&'static str, Option<Summary>); 4] {
        [
            ("reading", self.reading),
            ("processing", self.processing),
            ("writing", self.writing),
            ("whole", self.whole),
        ]
    }
}

impl Measured {
    pub(crate) fn new(
        point: &Point,
        common: &Common,
        generation: &Generation,
        collected: &Collected,
        end: u64,
    ) -> Self {
        let window = common.window.as_secs_f64() * 1e3;
        let is_window = point.workload == Workload::Fixwindow;
        let took = (common.warm_up + common.time).as_secs_f64() * 1e3;
        let late = collected.last.saturating_sub(end) as f64 / 1e6;
        Self {
            engine: point.engine.name(),
            workload: point.workload.name(),
            rate: point.rate,
            size: point.size,
            network: point.network.name(),
            network_bits: point.network.bits(common.network_scale),
            answer: (!is_window).then(|| format!("{:016x}", collected.answer)),
            window_ms: is_window.then_some(window),
            kept_up: late <= BEHIND * took + GRACE,
            generation: *generation,
            all: PartSummaries::of(&collected.all),
            seconds: collected.seconds.iter().map(PartSummaries::of).collect(),
        }
    }

    /// A table of all parts.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{:<14}", "ms");
        let cells = |text: &mut String, numbers: [String; 8]| {
            numbers.iter().for_each(|number| *text += &format!("{number:>10}"));
            text.push('\n');
        };
        cells(&mut text, Summary::SHOWN.map(str::to_owned));
        let mut row = |name: &str, part: Option<Summary>| {
            let Some(part) = part else { return };
            text += &format!("{name:<14}");
            cells(&mut text, part.shown().map(millis));
        };
        row("reading", self.all.reading);
        row("  to the log", self.all.to_log);
        row("  from the log", self.all.from_log);
        row("  decoding", self.all.decoding);
        row("processing", self.all.processing);
        row("writing", self.all.writing);
        row("whole", self.all.whole);
        row("behind", Some(self.generation.behind));
        row("acknowledged", self.generation.acknowledged);
        for (name, spans) in
            [("  linger", self.generation.linger), ("  broker", self.generation.answer)]
        {
            let Some(ClientSpans { mean, p50, p90, p95, p99, max }) = spans else { continue };
            text += &format!("{name:<14}");
            let [mean, p50, p90, p95, p99, max] = [mean, p50, p90, p95, p99, max].map(millis);
            let unknown = || "-".to_owned();
            cells(&mut text, [p50, p90, p95, unknown(), p99, unknown(), max, mean]);
        }
        if !self.kept_up {
            text += "the pipeline did not keep up: what it has is a queue that grows\n";
        }
        text
    }

    /// A table of the main parts of each second.
    pub(crate) fn table_of_seconds(&self) -> String {
        let mut text = format!("{:>6}  {:<10}", "second", "ms");
        Summary::SHOWN.iter().for_each(|name| text += &format!("{name:>10}"));
        for (second, parts) in self.seconds.iter().enumerate() {
            for (name, part) in parts.main() {
                let Some(part) = part else { continue };
                text += &format!("\n{:>6}  {name:<10}", second + 1);
                part.shown().map(millis).iter().for_each(|number| text += &format!("{number:>10}"));
            }
        }
        text + "\n"
    }
}

fn millis(millis: f64) -> String {
    match millis {
        ..100.0 => format!("{millis:.3}"),
        _ => format!("{millis:.0}"),
    }
}

impl Report {
    /// A report of nothing yet. The files are written, so that it is known that they can be.
    pub(crate) fn begin(figure: Option<u8>, common: &Common) -> Result<Self> {
        let report = Self {
            figure,
            compares_networks: false,
            seconds: common.time.as_secs_f64(),
            warm_up_seconds: common.warm_up.as_secs_f64(),
            partitions: common.partitions,
            keys: common.keys,
            cores: common.config().cores.get(),
            percentiles: common.percentiles.clone(),
            options: [
                &common.client_options,
                &common.producer_options,
                &common.source_options,
                &common.sink_options,
            ]
            .map(|options| options.iter().map(shown).collect()),
            runs: Vec::new(),
        };
        report.write(common)?;
        Ok(report)
    }

    /// Adds a measurement, and writes the requested files with it.
    pub(crate) fn add(&mut self, measured: Measured, common: &Common) -> Result<()> {
        self.runs.push(measured);
        self.write(common)
    }

    fn write(&self, common: &Common) -> Result<()> {
        if let Some(path) = &common.json {
            let text = serde_json::to_string_pretty(self).map_err(|cause| {
                Error::new(ErrorKind::Internal, "what was measured has no form in JSON")
                    .caused_by(cause)
            })?;
            write(path, &(text + "\n"))?;
        }
        match &common.plot {
            Some(path) => write(path, &plot::draw(self)?),
            None => Ok(()),
        }
    }
}

/// An option without what is secret in it.
fn shown((name, value): &(String, String)) -> (String, String) {
    let secret = ["password", "secret", "pem", "jaas", "token", "oauthbearer.config"];
    let is_secret = secret.iter().any(|word| name.contains(word));
    (name.clone(), if is_secret { "***".to_owned() } else { value.clone() })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|cause| {
        let error = Error::new(ErrorKind::Io, "cannot be written");
        error.at(Place::File(path.to_owned())).caused_by(cause)
    })
}

const STEPS: u64 = 1000;

/// What is seen of a measurement.
pub(crate) struct Progress {
    title: String,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(crate) fn new(point: &Point, common: &Common) -> Self {
        let Point { engine, workload, rate, size, network } = point;
        let over = network.bits(common.network_scale).map_or_else(String::new, |bits| {
            format!(", over a {} link of {:.0} Mbit/s", network.name(), bits / 1e6)
        });
        let title = format!(
            "{} on {}: {rate:.0} records/s of {size} bytes for {} s, {} partitions{over}",
            workload.name(),
            engine.name(),
            common.time.as_secs_f64(),
            common.partitions,
        );
        Self::titled(title)
    }

    /// The same of a broker that is used before anything counts.
    pub(crate) fn warming_up() -> Self {
        Self::titled("the broker warms up".to_owned())
    }

    fn titled(title: String) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
                bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
            }
            bar
        });
        Self { title, bar }
    }

    /// Nothing has come out of the pipeline yet.
    pub(crate) fn waits(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}; starts", self.title));
        }
    }

    /// A share of the time has passed.
    pub(crate) fn show(&self, done: f64) {
        if let Some(bar) = &self.bar {
            bar.set_position((done * STEPS as f64) as u64);
            bar.set_message(self.title.clone());
        }
    }

    /// Prints what was measured.
    pub(crate) fn table(&self, measured: &Measured, common: &Common) -> Result<()> {
        let mut text = format!("{}\n{}", self.title, measured.table());
        if common.each_second {
            text += &measured.table_of_seconds();
        }
        self.say(&text)
    }

    /// Nothing but a way to print.
    pub(crate) fn hidden() -> Self {
        Self { title: String::new(), bar: None }
    }

    /// Takes the progress away.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// The same, and prints a line.
    pub(crate) fn say(&self, text: &str) -> Result<()> {
        self.clear();
        let mut out = io::stdout().lock();
        let printed = writeln!(out, "{text}").and_then(|()| out.flush());
        printed.map_err(|cause| {
            Error::new(ErrorKind::Io, "standard output cannot be written").caused_by(cause)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::args::Engine;

    /// What would have been measured if each part of each record took as long.
    pub(crate) fn measured(engine: Engine, rate: f64, micros: u64, kept_up: bool) -> Measured {
        let mut spans = crate::spans::Spans::default();
        (1..=100).for_each(|n| spans.add(n * micros * 10));
        let summary = spans.summary();
        let rest = summary.filter(|_| engine != Engine::Consumer);
        let parts = PartSummaries {
            whole: summary,
            reading: summary,
            to_log: summary,
            from_log: summary,
            decoding: summary,
            processing: rest,
            writing: rest,
        };
        let generation = Generation {
            behind: summary.unwrap_or_default(),
            acknowledged: None,
            linger: Some(ClientSpans { p50: 0.5, max: 1.5, ..ClientSpans::default() }),
            answer: None,
        };
        Measured {
            engine: engine.name(),
            workload: "rebalance",
            rate,
            size: 200,
            network: "none",
            network_bits: None,
            answer: None,
            window_ms: None,
            kept_up,
            generation,
            all: parts,
            seconds: vec![parts; 3],
        }
    }

    /// A report of these.
    pub(crate) fn report(figure: Option<u8>, runs: Vec<Measured>) -> Report {
        Report {
            figure,
            compares_networks: false,
            seconds: 3.0,
            warm_up_seconds: 1.0,
            partitions: 4,
            keys: 10,
            cores: 2,
            percentiles: vec![Percentile::P50, Percentile::P98],
            options: Default::default(),
            runs,
        }
    }

    #[test]
    fn the_table_has_the_parts_that_there_are() {
        let text = measured(Engine::Thalweg, 1e4, 50, true).table();
        let parts = ["reading", "processing", "writing", "whole"];
        let of_parts = ["  to the log", "  from the log", "  decoding", "  linger"];
        for name in parts.iter().chain(&of_parts) {
            assert!(text.contains(&format!("\n{name}")), "{name}: {text}");
        }
        for absent in ["acknowledged", "  broker", "keep up"] {
            assert!(!text.contains(absent), "{absent}: {text}");
        }
        let text = measured(Engine::Consumer, 1e4, 50, false).table();
        assert!(!text.contains("processing") && text.contains("did not keep up"), "{text}");
        let widths: Vec<_> = text.lines().take(5).map(str::len).collect();
        assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
    }

    #[test]
    fn secrets_are_not_written() {
        let shown = |name: &str| shown(&(name.to_owned(), "value".to_owned())).1;
        assert_eq!(shown("linger.ms"), "value");
        for name in
            ["sasl.password", "ssl.key.password", "ssl.key.pem", "sasl.oauthbearer.client.secret"]
        {
            assert_eq!(shown(name), "***", "{name}");
        }
    }

    #[test]
    fn a_report_has_a_form_in_json() {
        let runs = vec![measured(Engine::Consumer, 2e4, 1_000, true)];
        let report = report(Some(5), runs);
        let json: serde_json::Value = serde_json::to_value(&report).unwrap();
        assert_eq!(json["runs"][0]["seconds"].as_array().unwrap().len(), 3);
        assert_eq!(json["runs"][0]["all"]["processing"], serde_json::Value::Null);
        assert!(json["runs"][0]["all"]["reading"]["p98"].as_f64().unwrap() > 0.9);
    }
}
