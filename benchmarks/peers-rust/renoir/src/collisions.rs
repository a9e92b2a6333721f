//! The questions about collisions: rows by Renoir's CSV source, which reads in parallel, into a type of what is
//! wanted; one stream of accidents split in three, and its combiners.

use bench_protocol::collisions::{self, Answers, monday, week};
use bench_protocol::{Answer, Request, Result};
use serde::{Deserialize, Serialize};

use crate::{batches, collected, context, cores};

/// What is passed over.
type Other = serde::de::IgnoredAny;

/// A row up to the last factor. The source takes columns by their order, not by their names.
type Row = (String, Other, String, [Other; 8], Option<u32>, [Other; 6], [String; 5]);

#[derive(Clone, Deserialize, Serialize)]
struct Accident {
    week: i32,
    lethal: bool,
    borough: String,
    factors: Vec<String>,
}

impl From<Row> for Accident {
    fn from(row: Row) -> Self {
        let (date, _, borough, _, killed, _, all) = row;
        let mut factors = Vec::new();
        for factor in all {
            if !factor.is_empty() && !factors.contains(&factor) {
                factors.push(factor);
            }
        }
        let week = week(date.as_bytes()).expect("a date");
        Self { week, lethal: killed.unwrap_or(0) > 0, borough, factors }
    }
}

/// Accidents, and the lethal ones of them.
type Tally = (u64, u64);

fn merge(all: &mut Tally, other: Tally) {
    *all = (all.0 + other.0, all.1 + other.1);
}

pub(crate) fn serve(request: &Request) -> Result<()> {
    let cores = cores(request)?;
    let path = request.data()?.to_owned();
    let bytes = path.metadata()?.len();
    let records = collisions::accidents(&path)?;
    bench_protocol::serve(request, |stopwatch| {
        let (weeks, factors, boroughs) = stopwatch.time(|| -> Result<_> {
            let context = context(cores)?;
            let mut three = context
                .stream_csv::<Row>(path.clone())
                .batch_mode(batches())
                .map(Accident::from)
                .split(3);
            let weeks = three
                .swap_remove(0)
                .filter(|accident| accident.lethal)
                .group_by_count(|accident: &Accident| accident.week)
                .collect_vec();
            let factors = three
                .swap_remove(0)
                .flat_map(|accident| {
                    let lethal = u64::from(accident.lethal);
                    accident.factors.into_iter().map(move |factor| (factor, lethal))
                })
                .group_by_fold(
                    |row: &(String, u64)| row.0.clone(),
                    (0, 0),
                    |tally: &mut Tally, (_, lethal)| merge(tally, (1, lethal)),
                    merge,
                )
                .collect_vec();
            let boroughs = three
                .swap_remove(0)
                .filter(|accident| !accident.borough.is_empty())
                .group_by_fold(
                    |accident: &Accident| (accident.borough.clone(), accident.week),
                    (0, 0),
                    |tally: &mut Tally, accident| merge(tally, (1, u64::from(accident.lethal))),
                    merge,
                )
                .unkey()
                .group_by(|((borough, _), _)| borough.clone())
                .fold(
                    (Vec::new(), 0),
                    |(weeks, lethal): &mut (Vec<(i32, u64)>, u64), ((_, week), tally)| {
                        weeks.push((week, tally.0));
                        *lethal += tally.1;
                    },
                )
                .collect_vec();
            context.execute_blocking();
            Ok((collected(weeks)?, collected(factors)?, collected(boroughs)?))
        })?;
        let mut answers = Answers::default();
        for (week, lethal) in weeks {
            answers.week(&monday(week), lethal as u64);
        }
        for (factor, (accidents, lethal)) in factors {
            answers.factor(&factor, accidents, lethal as f64 / accidents as f64);
        }
        for (borough, (weeks, lethal)) in boroughs {
            let mean = lethal as f64 / weeks.len() as f64;
            for (week, accidents) in weeks {
                answers.borough(&borough, &monday(week), accidents, mean);
            }
        }
        Ok(Answer { digest: answers.digest, records, bytes, ..Answer::default() })
    })
}
