//! The results of a case: ratios with their spread, a table, JSON.

use super::process::Round;
use super::suite::{Case, Contestant, Metric};
use serde_json::{Value, json};

/// All rounds of one contestant without the warm-up, or the reason why it could not finish them.
pub(super) type Rounds = Result<Vec<Round>, String>;

/// A median and the extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// The spread of some numbers; `None` if there are none.
    pub(crate) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            (sorted[middle - 1] + sorted[middle]) / 2.0
        };
        Some(Self { median, min, max })
    }
}

/// The result of one rival.
#[derive(Clone, Debug)]
pub(super) struct Verdict {
    pub(super) peer: &'static str,
    pub(super) ratio: Option<Spread>,
    pub(super) rounds: usize,
    /// Whether the answers are right: `None` if no independent program's answer was compared.
    pub(super) digest_match: Option<bool>,
}

/// The outcome of a case.
pub(super) struct Outcome {
    pub(super) case: Case,
    pub(super) ours: Rounds,
    pub(super) rivals: Vec<(Contestant, Rounds)>,
    /// The time in which a cache line went from one core to another and back, in nanoseconds, before each round.
    pub(super) round_trip: Option<Spread>,
}

/// The geometric means of a bench's cases.
pub(super) struct Average {
    pub(super) bench: &'static str,
    subject: &'static str,
    pub(super) verdicts: Vec<Verdict>,
    fraction_of_bound: Option<f64>,
}

impl Average {
    /// For each rival that takes part in all cases of one bench: round by round, the geometric mean of its ratios. A
    /// rival with a void case is void. `None` if there are no cases.
    pub(super) fn of(outcomes: &[&Outcome]) -> Option<Self> {
        let first = outcomes.first()?;
        let judge = |(rival, _): &(Contestant, Rounds)| {
            let verdicts: Option<Vec<(Vec<f64>, Verdict)>> = outcomes
                .iter()
                .map(|outcome| {
                    let at =
                        outcome.rivals.iter().position(|(other, _)| other.peer == rival.peer)?;
                    let verdict = outcome.verdicts().into_iter().nth(at)?;
                    Some((
                        outcome.ratios(outcome.rivals[at].1.as_deref().unwrap_or_default()),
                        verdict,
                    ))
                })
                .collect();
            let verdicts = verdicts?;
            let valid = verdicts.iter().all(|(_, verdict)| verdict.ratio.is_some());
            let rounds = verdicts.iter().map(|(ratios, _)| ratios.len()).min().unwrap_or(0);
            let mean = |round: usize| {
                let logarithms = verdicts.iter().map(|(ratios, _)| ratios[round].ln());
                (logarithms.sum::<f64>() / verdicts.len() as f64).exp()
            };
            Some(Verdict {
                peer: rival.peer,
                ratio: Spread::of((0..rounds).map(mean)).filter(|_| valid),
                rounds,
                digest_match: all(verdicts.iter().map(|(_, verdict)| verdict.digest_match)),
            })
        };
        let verdicts: Vec<Verdict> = first.rivals.iter().filter_map(judge).collect();
        let bound = verdicts.iter().find(|verdict| verdict.peer == "bound");
        let fraction_of_bound = bound.and_then(|bound| bound.ratio).map(|ratio| ratio.median);
        let (bench, subject) = (first.case.bench, first.case.ours.peer);
        Some(Self { bench, subject, verdicts, fraction_of_bound })
    }

    /// Entries of the report's list, like those of a case with the name `geomean`.
    pub(super) fn json(&self) -> Vec<Value> {
        let entry = |verdict| entry(self.bench, "geomean", verdict, self.fraction_of_bound);
        self.verdicts.iter().map(entry).collect()
    }

    /// The table for the terminal.
    pub(super) fn table(&self) -> String {
        let mut table =
            format!("\n{} / geomean: {} over theirs (min .. max)\n", self.bench, self.subject);
        for Verdict { peer, ratio, .. } in &self.verdicts {
            let said = match ratio {
                Some(Spread { median, min, max }) => format!("{median:.2} ({min:.2} .. {max:.2})"),
                None => "VOID: not all cases are valid".to_owned(),
            };
            table += &format!("  {peer:<20} {said}\n");
        }
        table
    }
}

/// Whether all are right: wrong if one is wrong, and else unknown if one is unknown.
fn all(mut known: impl Iterator<Item = Option<bool>> + Clone) -> Option<bool> {
    let wrong = known.clone().any(|one| one == Some(false));
    if wrong { Some(false) } else { known.all(|one| one == Some(true)).then_some(true) }
}

/// An entry of the report's list, in the documented form.
fn entry(bench: &str, case: &str, verdict: &Verdict, fraction_of_bound: Option<f64>) -> Value {
    let ratio = verdict
        .ratio
        .map(|ratio| json!({"median": ratio.median, "min": ratio.min, "max": ratio.max}));
    json!({
        "bench": bench,
        "case": case,
        "peer": verdict.peer,
        "ratio": ratio,
        "rounds": verdict.rounds,
        "fraction_of_bound": fraction_of_bound,
        "digest_match": verdict.digest_match,
    })
}

/// The score of a round; greater is better.
fn score(round: &Round, metric: Metric) -> f64 {
    match metric {
        Metric::Throughput => round.records / round.seconds,
        // A contestant that reports no latency has no score, and all comparisons with it are void.
        Metric::P99 => round.p99.map_or(f64::NAN, |p99| 1.0 / p99),
        Metric::Cpu => round.cpu.map_or(f64::NAN, |cpu| round.records / cpu),
        Metric::Seconds => 1.0 / round.seconds,
    }
}

impl Outcome {
    /// The verdict on each rival. Round by round, our score is divided by the rival's.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let confirmed = !self.confirmed_by().is_empty();
        let judge = |(rival, rounds): &(Contestant, Rounds)| {
            let theirs = rounds.as_deref().unwrap_or_default();
            let digest_match = match rounds {
                Ok(rounds) => self.right(rival, rounds, confirmed),
                Err(_) => Some(false),
            };
            let ratio = Spread::of(self.ratios(theirs))
                .filter(|ratio| digest_match != Some(false) && ratio.median.is_finite());
            Verdict { peer: rival.peer, ratio, rounds: theirs.len(), digest_match }
        };
        self.rivals.iter().map(judge).collect()
    }

    /// The contestants whose result does not count.
    pub(super) fn void(&self) -> Vec<&'static str> {
        let ours = self.ours.is_err().then_some(self.case.ours.peer);
        let verdicts = self.verdicts().into_iter();
        let rivals = verdicts.filter(|verdict| verdict.digest_match == Some(false));
        ours.into_iter().chain(rivals.map(|verdict| verdict.peer)).collect()
    }

    /// Our rounds; none if our program failed.
    pub(super) fn our_rounds(&self) -> &[Round] {
        self.ours.as_deref().unwrap_or_default()
    }

    /// Our score divided by theirs, round by round.
    fn ratios(&self, theirs: &[Round]) -> Vec<f64> {
        let metric = self.case.metric;
        let pairs = self.our_rounds().iter().zip(theirs);
        pairs.map(|(ours, theirs)| score(ours, metric) / score(theirs, metric)).collect()
    }

    /// The independent programs that came to our answer, by their own code, in every round.
    pub(super) fn confirmed_by(&self) -> Vec<&'static str> {
        let ours = self.case.ours.program;
        let independent = self
            .rivals
            .iter()
            .filter(|(rival, _)| !rival.own_answer && !rival.program.same_source(ours));
        let agrees =
            |rounds: &Rounds| rounds.as_ref().is_ok_and(|rounds| self.same_as_ours(rounds));
        independent.filter(|(_, rounds)| agrees(rounds)).map(|(rival, _)| rival.peer).collect()
    }

    /// Whether a rival's answers are right; `None` if nothing independent of them was compared.
    fn right(&self, rival: &Contestant, theirs: &[Round], confirmed: bool) -> Option<bool> {
        if rival.own_answer {
            // Its data is its own: the only thing known is whether it always says the same.
            return if steady(theirs) { None } else { Some(false) };
        }
        self.ours.as_ref().ok()?;
        if self.same_as_ours(theirs) { confirmed.then_some(true) } else { Some(false) }
    }

    /// Whether all rounds, ours and theirs, have the same answer.
    fn same_as_ours(&self, theirs: &[Round]) -> bool {
        let ours = self.our_rounds();
        let Some(first) = ours.first() else { return false };
        steady(ours) && theirs.iter().all(|round| round.digest == first.digest)
    }

    /// The entries of the report's list, one for each rival, in the documented form.
    pub(super) fn json(&self) -> Vec<Value> {
        let verdicts = self.verdicts();
        let bound = verdicts.iter().find(|verdict| verdict.peer == "bound");
        let fraction = bound.and_then(|bound| bound.ratio).map(|ratio| ratio.median);
        let (bench, case) = (self.case.bench, &self.case.name);
        let confirmed = self.confirmed_by();
        let rivals = verdicts.iter().zip(&self.rivals);
        rivals
            .map(|(verdict, (_, theirs))| {
                let mut entry = entry(bench, case, verdict, fraction);
                entry["confirmed_by"] = json!(confirmed);
                entry["core_round_trip_ns"] = json!(self.round_trip.map(|trip| trip.median));
                entry["ours"] = figures(self.our_rounds());
                entry["theirs"] = figures(theirs.as_deref().unwrap_or_default());
                entry
            })
            .collect()
    }

    /// All contestants' rounds, ours first.
    pub(super) fn everyone(&self) -> impl Iterator<Item = (&'static str, &[Round])> {
        let rivals = self.rivals.iter();
        let rivals =
            rivals.map(|(rival, rounds)| (rival.peer, rounds.as_deref().unwrap_or_default()));
        std::iter::once((self.case.ours.peer, self.our_rounds())).chain(rivals)
    }

    /// Every round as it was reported.
    pub(super) fn raw(&self) -> Vec<Value> {
        let lines = |(peer, rounds): (&str, &[Round])| {
            let rounds: Vec<&Value> = rounds.iter().map(|round| &round.line).collect();
            json!({"bench": self.case.bench, "case": self.case.name, "peer": peer, "rounds": rounds})
        };
        self.everyone().map(lines).collect()
    }

    /// The table for the terminal.
    pub(super) fn table(&self) -> String {
        let metric = self.case.metric;
        let speed = match metric {
            Metric::P99 => "p50 us    p99 us   p999 us  p9999 us",
            Metric::Seconds => "    seconds          ",
            Metric::Throughput | Metric::Cpu => "M records/s      MB/s",
        };
        let mut table = format!(
            "\n{} / {}\n  {:<20} {speed}   peak MB     CPU s   {} over theirs (min .. max)\n",
            self.case.bench, self.case.name, "", self.case.ours.peer,
        );
        let line = |peer: &str, rounds: &[Round], verdict: &str| {
            let peak = shown(peak(rounds).map(|bytes| bytes / 1e6), 0);
            let cpu = shown(cpu(rounds), 2);
            format!("  {peer:<20} {} {peak:>9} {cpu:>9}   {verdict}\n", speeds(rounds, metric))
        };
        let failed = self.ours.as_ref().err();
        let said = failed.map_or(String::new(), |error| format!("FAILED: {error}"));
        table += &line(self.case.ours.peer, self.our_rounds(), &said);
        for ((_, rounds), verdict) in self.rivals.iter().zip(self.verdicts()) {
            let said = match (rounds, verdict.ratio) {
                (Err(error), _) => format!("FAILED: {error}"),
                (_, Some(ratio)) => {
                    format!("{:.2} ({:.2} .. {:.2})", ratio.median, ratio.min, ratio.max)
                }
                (_, None) if failed.is_some() => "nothing to compare with".to_owned(),
                (_, None) if verdict.digest_match == Some(false) => {
                    "VOID: another answer".to_owned()
                }
                (_, None) => "VOID: no such measure".to_owned(),
            };
            table += &line(verdict.peer, rounds.as_deref().unwrap_or_default(), &said);
        }
        table += &match self.confirmed_by().join(", ") {
            none if none.is_empty() => "  no independent program confirms the answer\n".to_owned(),
            peers => format!("  the same answer from {peers}\n"),
        };
        if let Some(Spread { median, min, max }) = self.round_trip {
            table +=
                &format!("  from core to core and back {median:.0} ns ({min:.0} .. {max:.0})\n");
        }
        for (peer, rounds) in self.everyone() {
            table += &super::latency::noise_floor(peer, rounds);
            table += &super::latency::by_second(peer, rounds);
        }
        table
    }
}

/// Whether all rounds have one answer.
fn steady(rounds: &[Round]) -> bool {
    rounds.windows(2).all(|pair| pair[0].digest == pair[1].digest)
}

/// The peak memory of some rounds in bytes.
pub(super) fn peak(rounds: &[Round]) -> Option<f64> {
    rounds.iter().filter_map(|round| round.peak).reduce(f64::max)
}

/// The mean processor time of a round in seconds: a mean, because the system counts in hundredths of a second.
pub(super) fn cpu(rounds: &[Round]) -> Option<f64> {
    let all: Option<Vec<f64>> = rounds.iter().map(|round| round.cpu).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.iter().sum::<f64>() / all.len() as f64)
}

/// What a contestant achieved and what it cost, for the report.
fn figures(rounds: &[Round]) -> Value {
    let speed =
        |round: &Round| Some(round.records / round.seconds).filter(|speed| speed.is_finite());
    let middle = |of: &dyn Fn(&Round) -> Option<f64>| {
        Spread::of(rounds.iter().filter_map(of)).map(|spread| spread.median)
    };
    json!({
        "records_per_second": middle(&speed),
        "seconds": middle(&|round| Some(round.seconds)),
        "p99": middle(&|round| round.p99),
        "cpu_seconds": cpu(rounds),
        "peak_rss": peak(rounds),
    })
}

/// A number for a table.
fn shown(number: Option<f64>, digits: usize) -> String {
    number.map_or("-".to_owned(), |number| format!("{number:.digits$}"))
}

/// The columns with the speed of some rounds: the median of each.
fn speeds(rounds: &[Round], metric: Metric) -> String {
    let middle = |of: &dyn Fn(&Round) -> Option<f64>| {
        Spread::of(rounds.iter().filter_map(of)).map_or("-".to_owned(), |spread| {
            let median = spread.median;
            if median < 100.0 { format!("{median:.1}") } else { format!("{median:.0}") }
        })
    };
    if metric == Metric::P99 {
        let quantile = |name: &'static str| {
            middle(&|round| round.line.get(name).and_then(Value::as_f64).map(|s| s * 1e6))
        };
        let [p50, p99, p999, p9999] = ["p50", "p99", "p999", "p9999"].map(quantile);
        format!("{p50:>6} {p99:>9} {p999:>9} {p9999:>9}")
    } else if metric == Metric::Seconds {
        let seconds = Spread::of(rounds.iter().map(|round| round.seconds));
        format!("{:>11} {:>9}", shown(seconds.map(|spread| spread.median), 3), "")
    } else {
        let records = middle(&|round| Some(round.records / round.seconds / 1e6));
        let bytes =
            middle(&|round| (round.bytes > 0.0).then_some(round.bytes / round.seconds / 1e6));
        format!("{records:>11} {bytes:>9}")
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::{Size, suite};
    use super::*;

    pub(in crate::bench) fn round(seconds: f64, digest: &str) -> Round {
        let line = json!({});
        let digest = digest.to_owned();
        Round {
            seconds,
            digest,
            records: 10.0,
            bytes: 80.0,
            peak: Some(2e6),
            p99: None,
            cpu: Some(0.5),
            line,
        }
    }

    /// A case with rivals `rayon`, `renoir` and `bound`.
    pub(in crate::bench) fn outcome(rounds: [Rounds; 3]) -> Outcome {
        let mut case = suite::cases("collatz", Size::Small, 2).unwrap().remove(0);
        case.rivals.retain(|rival| rival.peer != suite::PORTABLE);
        let ours = Ok(vec![round(1.0, "a"), round(2.0, "a"), round(4.0, "a")]);
        let rivals = case.rivals.clone().into_iter().zip(rounds).collect();
        Outcome { case, ours, rivals, round_trip: None }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let twice = Ok(vec![round(2.0, "a"), round(4.0, "a"), round(12.0, "a")]);
        let half = Ok(vec![round(0.5, "a"), round(1.0, "a"), round(2.0, "a")]);
        let outcome = outcome([twice.clone(), twice, half]);
        let verdict = &outcome.verdicts()[0];
        assert_eq!(verdict.ratio, Some(Spread { median: 2.0, min: 2.0, max: 3.0 }));
        let json = outcome.json();
        assert_eq!(json[0]["ratio"]["median"], 2.0);
        assert_eq!(json[0]["fraction_of_bound"], 0.5);
        assert_eq!(json[0]["rounds"], 3);
        assert_eq!(json[0]["digest_match"], true);
    }

    #[test]
    fn durations_are_compared_whatever_the_records() {
        let mut slow = round(4.0, "a");
        slow.records = 1000.0;
        let rounds = Ok(vec![slow.clone(), slow.clone(), slow]);
        let mut outcome = outcome([rounds.clone(), rounds.clone(), rounds]);
        outcome.case.metric = Metric::Seconds;
        let spread = Spread { median: 2.0, min: 1.0, max: 4.0 };
        assert_eq!(outcome.verdicts()[0].ratio, Some(spread));
        assert!(outcome.table().contains("rayon                      4.000 "));
    }

    #[test]
    fn another_answer_voids_the_result() {
        let good = Ok(vec![round(1.0, "a"), round(2.0, "a"), round(4.0, "a")]);
        let bad = Ok(vec![round(1.0, "a"), round(2.0, "b"), round(4.0, "a")]);
        let outcome = outcome([bad, Err("ended".to_owned()), good]);
        let json = outcome.json();
        for void in &json[..2] {
            assert_eq!(void["ratio"], Value::Null);
            assert_eq!(void["digest_match"], false);
        }
        assert_eq!(json[2]["digest_match"], true);
        let table = outcome.table();
        assert!(table.contains("VOID: another answer") && table.contains("FAILED: ended"));
    }

    #[test]
    fn an_answer_compared_with_itself_is_not_right() {
        let rounds =
            |digest: &str| Ok(vec![round(1.0, digest), round(2.0, digest), round(4.0, digest)]);
        let with = |digests: [&str; 3]| outcome(digests.map(rounds));
        let known = |outcome: &Outcome| -> Vec<Option<bool>> {
            outcome.verdicts().iter().map(|verdict| verdict.digest_match).collect()
        };
        let mut all = with(["a", "a", "a"]);
        assert_eq!(known(&all), [Some(true); 3]);
        assert_eq!(all.json()[0]["confirmed_by"], json!(["rayon", "renoir", "bound"]));
        // The first two are programs of ours now: the third alone confirms the answer.
        for (rival, _) in &mut all.rivals[..2] {
            rival.program = all.case.ours.program;
        }
        assert_eq!((known(&all), all.confirmed_by()), (vec![Some(true); 3], vec!["bound"]));
        all.rivals[2].0.own_answer = true;
        assert_eq!(known(&all), [None; 3]);
        assert_eq!(all.json()[0]["digest_match"], Value::Null);
        assert_eq!(all.json()[0]["ratio"]["median"], 1.0);
        assert!(all.void().is_empty());
        assert!(all.table().contains("no independent program confirms"));
        // Another answer is wrong, whoever confirms ours.
        let mut other = with(["b", "a", "a"]);
        other.rivals[0].0.program = other.case.ours.program;
        assert_eq!(known(&other), [Some(false), Some(true), Some(true)]);
        assert_eq!(other.void(), ["rayon"]);
    }

    #[test]
    fn a_case_in_which_ours_fails_is_reported() {
        let good = Ok(vec![round(1.0, "a"), round(2.0, "a")]);
        let mut outcome = outcome([good.clone(), good, Err("ended".to_owned())]);
        outcome.ours = Err("thalweg: ended with signal 9".to_owned());
        assert_eq!(outcome.void(), ["thalweg", "bound"]);
        assert_eq!(outcome.json()[0]["ratio"], Value::Null);
        assert!(outcome.table().contains("FAILED: thalweg: ended with signal 9"));
    }

    #[test]
    fn memory_and_processor_time_are_reported() {
        let rounds = || Ok(vec![round(1.0, "a"), round(2.0, "a"), round(4.0, "a")]);
        let outcome = outcome([rounds(), rounds(), rounds()]);
        let theirs = &outcome.json()[0]["theirs"];
        assert_eq!((&theirs["peak_rss"], &theirs["cpu_seconds"]), (&json!(2e6), &json!(0.5)));
        assert!(outcome.table().contains("         2      0.50   1.00 (1.00 .. 1.00)"));
    }

    #[test]
    fn cases_are_averaged_round_by_round() {
        let rounds = |seconds: [f64; 3]| Ok(seconds.map(|seconds| round(seconds, "a")).to_vec());
        let one =
            outcome([rounds([4.0, 8.0, 16.0]), rounds([1.0, 2.0, 4.0]), rounds([1.0, 2.0, 4.0])]);
        let bad = Ok(vec![round(1.0, "b"), round(2.0, "b"), round(4.0, "b")]);
        let other = outcome([rounds([1.0, 4.0, 4.0]), bad, rounds([0.25, 0.5, 1.0])]);
        let json = Average::of(&[&one, &other]).unwrap().json();
        let spread = json!({"median": 2.0, "min": 2.0, "max": 8f64.sqrt()});
        assert_eq!((&json[0]["case"], &json[0]["rounds"]), (&json!("geomean"), &json!(3)));
        for at in ["median", "min", "max"] {
            let (found, expected) = (json[0]["ratio"][at].as_f64(), spread[at].as_f64());
            assert!((found.unwrap() - expected.unwrap()).abs() < 1e-9, "{at}: {found:?}");
        }
        assert_eq!((&json[1]["ratio"], &json[1]["digest_match"]), (&Value::Null, &json!(false)));
        assert!((json[2]["fraction_of_bound"].as_f64().unwrap() - 0.5).abs() < 1e-9);
        assert!(Average::of(&[]).is_none());
    }

    #[test]
    fn the_middle_of_an_even_number() {
        assert_eq!(Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap().median, 2.5);
        assert_eq!(Spread::of([]), None);
    }
}
