//! Alternating rounds: every round runs each case once, and begins with another one than the round before.

use super::lab::{Arrangement, Lab, Sample};
use crate::bench::{self, Spread};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// One thing to measure.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// In messages and reports.
    pub(super) name: String,
    pub(super) on: Arrangement,
    pub(super) arguments: Vec<String>,
    /// What a job has of records, bytes or rounds.
    pub(super) amount: f64,
    /// Cases with the same name here must have the same answer.
    pub(super) question: String,
    /// The answer, where it is known.
    pub(super) known: Option<String>,
}

/// The samples of a case, by round.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) case: Case,
    pub(super) samples: Vec<Sample>,
}

impl Measured {
    pub(super) fn seconds(&self) -> Result<Spread> {
        self.spread(|sample| sample.seconds)
    }

    /// The amount in a second.
    pub(super) fn rate(&self) -> Result<Spread> {
        self.spread(|sample| self.case.amount / sample.seconds)
    }

    pub(super) fn network_seconds(&self) -> Result<Spread> {
        self.spread(|sample| sample.network_seconds)
    }

    fn spread(&self, of: impl Fn(&Sample) -> f64) -> Result<Spread> {
        Spread::of(self.samples.iter().map(of)).context("a case has no rounds")
    }

    pub(super) fn json(&self) -> Value {
        let Arrangement { hosts, processes, cores, threads } = self.case.on;
        let all = |of: fn(&Sample) -> f64| self.samples.iter().map(of).collect::<Vec<_>>();
        json!({
            "case": self.case.name,
            "hosts": hosts,
            "processes_a_host": processes,
            "cores_a_process": cores,
            "threads_a_process": threads,
            "arguments": self.case.arguments,
            "amount": self.case.amount,
            "seconds": all(|sample| sample.seconds),
            "network_seconds": all(|sample| sample.network_seconds),
            "answer": self.samples.first().map(|sample| &sample.answer),
        })
    }
}

/// Runs all cases for some rounds.
pub(super) fn measure(lab: &Lab, cases: Vec<Case>, rounds: u32) -> Result<Vec<Measured>> {
    let mut all: Vec<_> =
        cases.into_iter().map(|case| Measured { case, samples: Vec::new() }).collect();
    let count = all.len();
    for round in 0..rounds as usize {
        for place in 0..count {
            let measured = &mut all[(place + round) % count];
            let case = &measured.case;
            bench::progress(&format!(
                "round {}/{rounds}, {}/{count}: {}",
                round + 1,
                place + 1,
                case.name
            ));
            let sample = lab.run(case.on, &case.arguments);
            measured.samples.push(sample.with_context(|| measured.case.name.clone())?);
        }
        // The first round may already show that the others are not worth their time.
        agree(&all)?;
    }
    bench::progress("");
    Ok(all)
}

/// Fails if two answers to one question differ.
fn agree(all: &[Measured]) -> Result<()> {
    for (at, measured) in all.iter().enumerate() {
        let question = &measured.case.question;
        let Some(first) = all[..=at].iter().find(|other| other.case.question == *question) else {
            continue;
        };
        let Some(of_first) = first.samples.first() else { continue };
        let (by, known) = match &measured.case.known {
            Some(known) => ("the right answer is", known),
            None => (first.case.name.as_str(), &of_first.answer),
        };
        if let Some(other) = measured.samples.iter().find(|other| other.answer != *known) {
            bail!("{} answers {}; {by}: {known}", measured.case.name, other.answer);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A case of so many hosts, with samples of these seconds and an answer.
    pub(in super::super) fn measured(hosts: usize, seconds: &[f64], answer: &str) -> Measured {
        let case = Case {
            name: format!("{hosts} hosts"),
            on: Arrangement::hosts(hosts),
            arguments: Vec::new(),
            amount: 12.0,
            question: "words".to_owned(),
            known: None,
        };
        let sample = |&seconds: &f64| Sample {
            seconds,
            network_seconds: seconds / 2.0,
            answer: answer.to_owned(),
        };
        Measured { case, samples: seconds.iter().map(sample).collect() }
    }

    #[test]
    fn rates_are_medians_with_their_range() {
        let rate = measured(1, &[2.0, 4.0, 3.0], "a").rate().unwrap();
        assert_eq!((rate.median, rate.min, rate.max), (4.0, 3.0, 6.0));
        assert!(measured(1, &[], "a").rate().is_err());
    }

    #[test]
    fn different_answers_to_one_question_are_an_error() {
        let (one, two) = (measured(1, &[1.0], "a"), measured(2, &[1.0], "b"));
        agree(&[one.clone(), one.clone()]).unwrap();
        let error = agree(&[one.clone(), two.clone()]).unwrap_err().to_string();
        assert_eq!(error, "2 hosts answers b; 1 hosts: a");
        let mut known = one.clone();
        known.case.known = Some("c".to_owned());
        let error = agree(&[known]).unwrap_err().to_string();
        assert_eq!(error, "1 hosts answers a; the right answer is: c");
        let mut another = two;
        another.case.question = "views".to_owned();
        agree(&[one, another]).unwrap();
    }
}
