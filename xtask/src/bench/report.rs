//! The results of a case: ratios with their spread, a table, JSON.

use super::process::Round;
use super::suite::{Case, Contestant, Metric};
use serde_json::{Value, json};

/// All rounds of one contestant without the warm-up, or the reason why it could not finish them.
pub(super) type Rounds = Result<Vec<Round>, String>;

/// A median and the extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// The spread of some numbers; `None` if there are none.
    fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Self> {
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
    pub(super) digest_match: bool,
}

/// The outcome of a case.
pub(super) struct Outcome {
    pub(super) case: Case,
    pub(super) ours: Vec<Round>,
    pub(super) rivals: Vec<(Contestant, Rounds)>,
}

/// The geometric means of a bench's cases.
pub(super) struct Average {
    bench: &'static str,
    subject: &'static str,
    verdicts: Vec<Verdict>,
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
                digest_match: verdicts.iter().all(|(_, verdict)| verdict.digest_match),
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
    }
}

impl Outcome {
    /// The verdict on each rival. Round by round, our score is divided by the rival's.
    pub(super) fn verdicts(&self) -> Vec<Verdict> {
        let judge = |(rival, rounds): &(Contestant, Rounds)| {
            let theirs = rounds.as_deref().unwrap_or_default();
            let digest_match = rounds.is_ok() && self.same_answers(rival, theirs);
            let ratio = Spread::of(self.ratios(theirs))
                .filter(|ratio| digest_match && ratio.median.is_finite());
            Verdict { peer: rival.peer, ratio, rounds: theirs.len(), digest_match }
        };
        self.rivals.iter().map(judge).collect()
    }

    /// Our score divided by theirs, round by round.
    fn ratios(&self, theirs: &[Round]) -> Vec<f64> {
        let metric = self.case.metric;
        let pairs = self.ours.iter().zip(theirs);
        pairs.map(|(ours, theirs)| score(ours, metric) / score(theirs, metric)).collect()
    }

    fn same_answers(&self, rival: &Contestant, theirs: &[Round]) -> bool {
        let expected = if rival.own_answer { theirs.first() } else { self.ours.first() };
        let Some(expected) = expected else { return false };
        let same = |round: &Round| round.digest == expected.digest;
        let steady = self.ours.iter().all(|round| round.digest == self.ours[0].digest);
        steady && theirs.iter().all(same)
    }

    /// The entries of the report's list, one for each rival, in the documented form.
    pub(super) fn json(&self) -> Vec<Value> {
        let verdicts = self.verdicts();
        let bound = verdicts.iter().find(|verdict| verdict.peer == "bound");
        let fraction = bound.and_then(|bound| bound.ratio).map(|ratio| ratio.median);
        let (bench, case) = (self.case.bench, &self.case.name);
        verdicts.iter().map(|verdict| entry(bench, case, verdict, fraction)).collect()
    }

    /// All contestants' rounds, ours first.
    pub(super) fn everyone(&self) -> impl Iterator<Item = (&'static str, &[Round])> {
        let rivals = self.rivals.iter();
        let rivals =
            rivals.map(|(rival, rounds)| (rival.peer, rounds.as_deref().unwrap_or_default()));
        std::iter::once((self.case.ours.peer, self.ours.as_slice())).chain(rivals)
    }

    /// Every round as it was reported.
    pub(super) fn raw(&self) -> Vec<Value> {
        let lines = |peer: &str, rounds: &[Round]| {
            let rounds: Vec<&Value> = rounds.iter().map(|round| &round.line).collect();
            json!({"bench": self.case.bench, "case": self.case.name, "peer": peer, "rounds": rounds})
        };
        let rivals = self
            .rivals
            .iter()
            .map(|(rival, rounds)| lines(rival.peer, rounds.as_deref().unwrap_or_default()));
        std::iter::once(lines(self.case.ours.peer, &self.ours)).chain(rivals).collect()
    }

    /// The table for the terminal.
    pub(super) fn table(&self) -> String {
        let latency = self.case.metric == Metric::P99;
        let speed =
            if latency { "p50 us    p99 us   p999 us  p9999 us" } else { "M records/s      MB/s" };
        let mut table = format!(
            "\n{} / {}\n  {:<20} {speed}   peak MB   {} over theirs (min .. max)\n",
            self.case.bench, self.case.name, "", self.case.ours.peer,
        );
        let line = |peer: &str, rounds: &[Round], verdict: &str| {
            let peak = rounds.iter().filter_map(|round| round.peak).fold(0.0, f64::max) / 1e6;
            format!("  {peer:<20} {} {peak:>9.0}   {verdict}\n", speeds(rounds, latency))
        };
        table += &line(self.case.ours.peer, &self.ours, "");
        for ((_, rounds), verdict) in self.rivals.iter().zip(self.verdicts()) {
            let said = match (rounds, verdict.ratio) {
                (Err(error), _) => format!("FAILED: {error}"),
                (_, Some(ratio)) => {
                    format!("{:.2} ({:.2} .. {:.2})", ratio.median, ratio.min, ratio.max)
                }
                (_, None) if !verdict.digest_match => "VOID: another answer".to_owned(),
                (_, None) => "VOID: no such measure".to_owned(),
            };
            table += &line(verdict.peer, rounds.as_deref().unwrap_or_default(), &said);
        }
        for (peer, rounds) in self.everyone() {
            table += &super::latency::noise_floor(peer, rounds);
            table += &super::latency::by_second(peer, rounds);
        }
        table
    }
}

/// The columns with the speed of some rounds: the median of each.
fn speeds(rounds: &[Round], latency: bool) -> String {
    let middle = |of: &dyn Fn(&Round) -> Option<f64>| {
        Spread::of(rounds.iter().filter_map(of)).map_or("-".to_owned(), |spread| {
            let median = spread.median;
            if median < 100.0 { format!("{median:.1}") } else { format!("{median:.0}") }
        })
    };
    if latency {
        let quantile = |name: &'static str| {
            middle(&|round| round.line.get(name).and_then(Value::as_f64).map(|s| s * 1e6))
        };
        let [p50, p99, p999, p9999] = ["p50", "p99", "p999", "p9999"].map(quantile);
        format!("{p50:>6} {p99:>9} {p999:>9} {p9999:>9}")
    } else {
        let records = middle(&|round| Some(round.records / round.seconds / 1e6));
        let bytes =
            middle(&|round| (round.bytes > 0.0).then_some(round.bytes / round.seconds / 1e6));
        format!("{records:>11} {bytes:>9}")
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Size, suite};
    use super::*;

    fn round(seconds: f64, digest: &str) -> Round {
        let line = json!({});
        let digest = digest.to_owned();
        Round { seconds, digest, records: 10.0, bytes: 80.0, peak: None, p99: None, line }
    }

    /// A case with rivals `rayon`, `renoir` and `bound`.
    fn outcome(rounds: [Rounds; 3]) -> Outcome {
        let case = suite::cases("collatz", Size::Small, 2).unwrap().remove(0);
        let ours = vec![round(1.0, "a"), round(2.0, "a"), round(4.0, "a")];
        let rivals = case.rivals.clone().into_iter().zip(rounds).collect();
        Outcome { case, ours, rivals }
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
