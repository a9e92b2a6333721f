//! The table of a run as Markdown, so that no figure is copied by hand: a row for each case, and below them what the run
//! was made of.

use super::Size;
use super::report::{Average, Outcome, Spread, Verdict, cpu, peak};
use super::suite::{Metric, PORTABLE};
use crate::process::program;
use std::fmt::Write as _;

/// What the figures depend on beside the code.
pub(super) struct Setting {
    pub(super) size: Size,
    pub(super) rounds: u32,
    pub(super) cores: usize,
    /// The commit, the day and the processor, in words.
    pub(super) origin: String,
}

impl Setting {
    /// Asks git and the system.
    pub(super) fn new(size: Size, rounds: u32, cores: usize) -> Self {
        Self { size, rounds, cores, origin: origin() }
    }
}

/// The commit, the day and the processor, in words.
pub(crate) fn origin() -> String {
    let commit = output("git", &["describe", "--always", "--dirty=, with changes"]);
    let day = output("date", &["--utc", "+%Y-%m-%d"]);
    format!("commit {commit}, {day}, {}", processor())
}

/// What a program prints, or that it is unknown.
fn output(name: &str, arguments: &[&str]) -> String {
    let output =
        program(name).args(arguments).output().ok().filter(|output| output.status.success());
    let text = output.and_then(|output| String::from_utf8(output.stdout).ok());
    text.map_or("unknown".to_owned(), |text| text.trim().to_owned())
}

/// The processor's model, and whether it has AVX-512.
fn processor() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or(std::env::consts::ARCH, |(_, model)| model);
    #[cfg(target_arch = "x86_64")]
    let wide =
        if is_x86_feature_detected!("avx512f") { " with AVX-512" } else { " without AVX-512" };
    #[cfg(not(target_arch = "x86_64"))]
    let wide = "";
    format!("{model}{wide}")
}

/// The whole table.
pub(super) fn table(outcomes: &[Outcome], averages: &[Average], setting: &Setting) -> String {
    let mut table = String::from(
        "| bench | ours | peers | bound | portable build | peak MB | CPU s |\n|---|---|---|---|---|---|---|\n",
    );
    for (at, outcome) in outcomes.iter().enumerate() {
        table += &row(outcome);
        let bench = outcome.case.bench;
        let ends = outcomes.get(at + 1).is_none_or(|next| next.case.bench != bench);
        for average in averages.iter().filter(|average| ends && average.bench == bench) {
            let [peers, bound, portable] = ratios(&average.verdicts);
            let _ = writeln!(
                table,
                "| `{bench}`, geometric mean | | {peers} | {bound} | {portable} | | |"
            );
        }
    }
    let Setting { size, rounds, cores, origin } = setting;
    let size = match size {
        Size::Small => "small",
        Size::Full => "full",
    };
    let _ = write!(
        table,
        "\nOur throughput over theirs, of latencies their 99th percentile over ours, of durations theirs over ours: median (least .. greatest) of {rounds} \
         rounds on {cores} cores, `--size {size}`; {origin}. Beside ours: millions of records a second, of as many in a round. \
         Peak memory and processor time of a round: ours, then theirs.\n"
    );
    let trips = outcomes.iter().filter_map(|outcome| Some(outcome.round_trip?.median));
    if let Some(Spread { min, max, .. }) = Spread::of(trips) {
        let _ = writeln!(
            table,
            "A cache line took {min:.0} to {max:.0} ns from one core to another and back (median of each case)."
        );
    }
    table
}

fn row(outcome: &Outcome) -> String {
    let case = &outcome.case;
    let [peers, bound, portable] = ratios(&outcome.verdicts());
    let unconfirmed = outcome.confirmed_by().is_empty();
    let note = if unconfirmed { " (answer not confirmed)" } else { "" };
    let memory = costs(outcome, |rounds| peak(rounds).map(|bytes| bytes / 1e6));
    let time = costs(outcome, cpu);
    let ours = ours(outcome);
    format!(
        "| `{}`, `{}`{note} | {ours} | {peers} | {bound} | {portable} | {memory} | {time} |\n",
        case.bench, case.name
    )
}

/// Our own speed, and the number of records in a round.
fn ours(outcome: &Outcome) -> String {
    let rounds = outcome.our_rounds();
    let middle = |of: fn(&super::Round) -> Option<f64>| {
        Spread::of(rounds.iter().filter_map(of)).map(|spread| spread.median)
    };
    let speed = match outcome.case.metric {
        Metric::Throughput => {
            middle(|round| Some(round.records / round.seconds / 1e6)).map(rounded)
        }
        Metric::Cpu => middle(|round| Some(round.records / round.cpu? / 1e6))
            .map(|speed| format!("{} a second of CPU", rounded(speed))),
        Metric::P99 => {
            middle(|round| round.p99).map(|p99| format!("p99 {} ms", rounded(p99 * 1e3)))
        }
        Metric::Seconds => {
            middle(|round| Some(round.seconds)).map(|seconds| format!("{} s", rounded(seconds)))
        }
    };
    let records = middle(|round| Some(round.records / 1e6)).map(rounded);
    match (speed, records) {
        (Some(speed), Some(records)) => format!("{speed} of {records} M"),
        _ => "void".to_owned(),
    }
}

/// The ratios to the peers, to the bounds, and to the portable build.
fn ratios(verdicts: &[Verdict]) -> [String; 3] {
    let mut cells = [const { Vec::new() }; 3];
    for Verdict { peer, ratio, .. } in verdicts {
        let ratio = ratio.map_or("void".to_owned(), |Spread { median, min, max }| {
            format!("{} ({} .. {})", rounded(median), rounded(min), rounded(max))
        });
        match *peer {
            "bound" => cells[1].push(ratio),
            PORTABLE => cells[2].push(ratio),
            peer => cells[usize::from(peer.starts_with("bound-"))].push(format!("{peer} {ratio}")),
        }
    }
    cells.map(|cell| cell.join(", "))
}

/// What a round costs us, then the others.
fn costs(outcome: &Outcome, of: impl Fn(&[super::Round]) -> Option<f64>) -> String {
    let told = |(peer, rounds)| of(rounds).map(|cost| (peer, rounded(cost)));
    let all = outcome.everyone().filter(|(peer, _)| *peer != PORTABLE).filter_map(told);
    let cost = |(at, (peer, cost)): (usize, (&str, String))| match at {
        0 if peer == outcome.case.ours.peer => cost,
        _ => format!("{peer} {cost}"),
    };
    all.enumerate().map(cost).collect::<Vec<_>>().join(", ")
}

/// Two digits that count, or as many as stand before the point.
fn rounded(number: f64) -> String {
    match number {
        small if small < 0.095 => format!("{small:.3}"),
        small if small < 1.995 => format!("{small:.2}"),
        middle if middle < 9.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{outcome, round};

    #[test]
    fn a_case_is_a_row() {
        let rounds = |seconds: f64| {
            Ok(vec![round(seconds, "a"), round(2.0 * seconds, "a"), round(4.0 * seconds, "a")])
        };
        let outcome = outcome([rounds(18.0), Err("ended".to_owned()), rounds(0.63)]);
        let row = row(&outcome);
        assert_eq!(
            row,
            "| `collatz`, `longest` | 0.000 of 0.000 M | rayon 18 (18 .. 18), renoir void | 0.63 (0.63 .. 0.63) |  | \
             2.0, rayon 2.0, bound 2.0 | 0.50, rayon 0.50, bound 0.50 |\n"
        );
    }

    #[test]
    fn what_the_figures_depend_on_is_said() {
        let setting = Setting::new(Size::Full, 7, 2);
        let table = table(&[], &[], &setting);
        assert!(table.contains("of 7 rounds on 2 cores, `--size full`; commit "), "{table}");
    }

    #[test]
    fn numbers_have_two_digits_that_count() {
        let numbers = [0.049, 0.63, 1.154, 7.32, 17.8, 257.0].map(rounded);
        assert_eq!(numbers, ["0.049", "0.63", "1.15", "7.3", "18", "257"]);
    }
}
