//! What a search shows on the way, and what it leaves.

use crate::args::Args;
use crate::judge::Verdict;
use crate::plot;
use crate::probe::{Plan, Probe};
use crate::search::Left;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;
use thalweg::{Error, ErrorKind, Place, Result};
use thalweg_examples::{Form, output};

/// All that was found.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) program: String,
    /// What the events were, where there is a choice.
    pub(crate) form: Option<&'static str>,
    pub(crate) window_seconds: f64,
    pub(crate) windows: usize,
    pub(crate) seed: u64,
    /// In the order in which rates were tried.
    pub(crate) probes: Vec<Probe>,
    /// The greatest rate that was sustained, in events a second.
    pub(crate) sustainable: Option<f64>,
    /// Whether no rate was tried that was not: it may be greater still.
    pub(crate) at_least: bool,
}

impl Report {
    pub(crate) fn new(args: &Args, plan: &Plan) -> Self {
        let form = match args.form {
            Form::Fixed => "fixed",
            Form::Variable => "variable",
        };
        Self {
            program: args.program.name(),
            form: args.program.has_forms().then_some(form),
            window_seconds: args.window.as_secs_f64(),
            windows: plan.watched.windows,
            seed: args.seed,
            probes: Vec::new(),
            sustainable: None,
            at_least: false,
        }
    }

    /// Writes the requested files.
    pub(crate) fn write(&self, args: &Args) -> Result<()> {
        if let Some(path) = &args.json {
            let text = serde_json::to_string_pretty(self).map_err(|cause| {
                Error::new(ErrorKind::Internal, "what was found has no form in JSON")
                    .caused_by(cause)
            })?;
            write(path, &(text + "\n"))?;
        }
        if let Some(path) = &args.plot {
            write(path, &plot::draw(self)?)?;
        }
        Ok(())
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|cause| {
        let error = Error::new(ErrorKind::Io, "cannot be written");
        error.at(Place::File(path.to_owned())).caused_by(cause)
    })
}

/// What is seen on the way.
pub(crate) struct Shown {
    tsv: bool,
    bar: Option<ProgressBar>,
    program: String,
    windows: usize,
    window: Duration,
    length: Duration,
}

const STEPS: u64 = 1000;

impl Shown {
    pub(crate) fn new(args: &Args, plan: &Plan) -> Self {
        let bar = io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr());
            if let Ok(style) = ProgressStyle::with_template("{bar:30} {msg}") {
                bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
            }
            bar
        });
        Self {
            tsv: args.tsv,
            bar,
            program: args.program.name(),
            windows: args.windows,
            window: args.window,
            length: plan.length(),
        }
    }

    pub(crate) fn begin(&self) -> Result<()> {
        if self.tsv {
            return Ok(());
        }
        self.say(&format!(
            "{}: {} windows of {} at each rate, which takes {}; about ten rates, {}\n\n{}",
            self.program,
            self.windows,
            span(self.window),
            span(self.length),
            span(self.length * 10),
            line(["events/s", "p50", "p99", "slope", "sustainable"])
        ))
    }

    /// A share of a rate's time has passed.
    pub(crate) fn progress(&self, rate: f64, done: f64, left: Left) {
        let Some(bar) = &self.bar else { return };
        bar.set_position((done * STEPS as f64) as u64);
        let (more, rates) = match left {
            Left::AtMost(rates) => ("at most ", rates),
            Left::AtLeast(rates) => ("at least ", rates),
        };
        let time = self.length.mul_f64((f64::from(rates) - done).max(0.0));
        bar.set_message(format!("{} events/s; {more}{} left", count(rate), span(time)));
    }

    /// A rate has been judged.
    pub(crate) fn row(&self, probe: &Probe) -> Result<()> {
        let cells = if self.tsv { bare(probe) } else { cells(probe) };
        let cells: [&str; 5] = std::array::from_fn(|n| cells[n].as_str());
        if self.tsv {
            let missing = probe.judgement.missing.to_string();
            let [rate, p50, p99, slope, verdict] = cells;
            return self.say(&[rate, p50, p99, slope, &missing, verdict].join("\t"));
        }
        self.say(&line(cells))
    }

    pub(crate) fn end(&self, report: &Report) -> Result<()> {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        if self.tsv {
            let rate = report.sustainable.map(|rate| format!("{rate:.0}"));
            return self.say(&rate.unwrap_or_else(|| "none".to_owned()));
        }
        self.say(&match report.sustainable {
            Some(rate) if report.at_least => {
                format!("\nsustainable: at least {} events/s, the greatest rate tried", count(rate))
            }
            Some(rate) => format!("\nsustainable: {} events/s", count(rate)),
            None => "\nsustainable: no rate that was tried".to_owned(),
        })
    }

    fn say(&self, text: &str) -> Result<()> {
        let print = || {
            let mut out = io::stdout().lock();
            writeln!(out, "{text}").and_then(|()| out.flush())
        };
        let printed = match &self.bar {
            Some(bar) => bar.suspend(print),
            None => print(),
        };
        printed.map_err(output)
    }
}

/// A row of the table.
fn line([rate, p50, p99, slope, verdict]: [&str; 5]) -> String {
    format!("{rate:>14}  {p50:>10}  {p99:>10}  {slope:>12}  {verdict}")
}

fn cells(probe: &Probe) -> [String; 5] {
    let [p50, p99] = match probe.percentiles_ms {
        Some([p50, p99, _]) => [p50, p99].map(millis),
        None => ["-".to_owned(), "-".to_owned()],
    };
    let slope = probe.judgement.slope.map_or("-".to_owned(), |slope| format!("{slope:+.2} ms/s"));
    let missing = probe.judgement.missing;
    let verdict = match probe.judgement.verdict {
        Verdict::Sustainable => "yes".to_owned(),
        Verdict::Rising => "no: latency rises".to_owned(),
        Verdict::Missing if probe.given_up => {
            format!(
                "no: fell behind, {missing} of {} windows without a result",
                probe.windows_ms.len()
            )
        }
        Verdict::Missing => {
            format!("no: {missing} of {} windows without a result", probe.windows_ms.len())
        }
    };
    [count(probe.rate), p50, p99, slope, verdict]
}

/// The same as plain numbers.
fn bare(probe: &Probe) -> [String; 5] {
    let number =
        |number: Option<f64>| number.map_or(String::new(), |number| format!("{number:.3}"));
    let verdict = match probe.judgement.verdict {
        Verdict::Sustainable => "sustainable",
        Verdict::Rising => "rising",
        Verdict::Missing => "missing",
    };
    [
        format!("{:.0}", probe.rate),
        number(probe.percentiles_ms.map(|all| all[0])),
        number(probe.percentiles_ms.map(|all| all[1])),
        number(probe.judgement.slope),
        verdict.to_owned(),
    ]
}

fn millis(millis: f64) -> String {
    if millis < 100.0 { format!("{millis:.2} ms") } else { format!("{} ms", count(millis)) }
}

/// A whole number with its thousands apart.
pub(crate) fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A span of time, for people.
fn span(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    if seconds < 1.0 {
        return format!("{:.0} ms", seconds * 1e3);
    }
    let whole = seconds.round() as u64;
    match (whole / 3600, whole / 60 % 60, whole % 60) {
        (0, 0, _) if seconds < 10.0 && seconds.fract() > 0.05 => format!("{seconds:.1} s"),
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, 0) => format!("{minutes} min"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::judge;

    fn probe(rate: f64, latency: impl Fn(u32) -> Option<f64>) -> Probe {
        let windows_ms: Vec<_> = (0..10).map(latency).collect();
        let judgement = judge(&windows_ms, 1.0);
        let given_up = judgement.missing > 2;
        let percentiles_ms = (judgement.missing < 10).then_some([1.234, 56_789.4, 60_000.0]);
        Probe { rate, timed_results: 10, percentiles_ms, windows_ms, given_up, judgement }
    }

    #[test]
    fn rows() {
        assert_eq!(
            line(["events/s", "p50", "p99", "slope", "sustainable"]),
            "      events/s         p50         p99         slope  sustainable"
        );
        let steady = probe(1_234_567.0, |_| Some(3.0));
        let rising = probe(2e6, |n| Some(7.5 * f64::from(n)));
        let missing = probe(999.0, |n| (n != 4).then_some(1.0));
        let nothing = probe(1e9, |_| None);
        let shown = |probe: &Probe| {
            let cells = cells(probe);
            line(std::array::from_fn(|n| cells[n].as_str()))
        };
        assert_eq!(
            [&steady, &rising, &missing, &nothing].map(shown),
            [
                "     1,234,567     1.23 ms   56,789 ms    +0.00 ms/s  yes",
                "     2,000,000     1.23 ms   56,789 ms    +7.50 ms/s  no: latency rises",
                "           999     1.23 ms   56,789 ms    +0.00 ms/s  no: 1 of 10 windows without a result",
                " 1,000,000,000           -           -             -  no: fell behind, 10 of 10 windows \
                 without a result",
            ]
        );
        assert_eq!(bare(&rising), ["2000000", "1.234", "56789.400", "7.500", "rising"]);
        assert_eq!(bare(&nothing), ["1000000000", "", "", "", "missing"]);
    }

    #[test]
    fn spans() {
        let spans =
            [0.25, 1.0, 3.1, 59.6, 60.0, 311.0, 3110.0, 4000.0].map(Duration::from_secs_f64);
        let texts =
            ["250 ms", "1 s", "3.1 s", "1 min", "1 min", "5 min 11 s", "51 min 50 s", "1 h 6 min"];
        assert_eq!(spans.map(span), texts);
    }

    #[test]
    fn numbers_can_be_read() {
        assert_eq!([0.0, 999.4, 1000.0, 123_456.7].map(count), ["0", "999", "1,000", "123,457"]);
    }
}
