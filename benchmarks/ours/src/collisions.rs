//! The questions about collisions, as the example program has them, whose records borrow from the file's blocks; and
//! with `--form serde` as most would write them, with a type that serde reads and records with strings of their own.

use crate::environment;
use bench_protocol::collisions::{self, Answers, monday, week};
use bench_protocol::{Answer, Request, Result, serve};
use serde::Deserialize;
use std::path::Path;
use thalweg::io::Csv;
use thalweg::{Data, Environment};
use thalweg_queries::collisions::{accidents, three_questions};

pub(crate) fn serve_collisions(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let path = request.data()?.to_owned();
    let bytes = std::fs::metadata(&path)?.len();
    let records = collisions::accidents(&path)?;
    match request.get("form") {
        None => {}
        Some("serde") => {
            return serve(request, |stopwatch| {
                let answers = stopwatch.time(|| by_serde(&env, &path))?.answers();
                Ok(Answer { digest: answers.digest, records, bytes, ..Answer::default() })
            });
        }
        Some(form) => return Err(format!("there is no form {form:?}: serde").into()),
    }
    serve(request, |stopwatch| {
        let (weeks, factors, boroughs) = stopwatch.time(|| -> thalweg::Result<_> {
            let (weeks, factors, boroughs) = three_questions(accidents(&env, Csv::new(&path)));
            let (weeks, factors) = (weeks.collect::<Vec<_>>(), factors.collect::<Vec<_>>());
            let boroughs = boroughs.collect::<Vec<_>>();
            env.run()?;
            Ok((weeks.take()?, factors.take()?, boroughs.take()?))
        })?;
        let mut answers = Answers::default();
        for (week, lethal) in weeks {
            answers.week(&week.to_string(), lethal);
        }
        for (factor, tally) in factors {
            answers.factor(&factor, tally.accidents, tally.lethal as f64 / tally.accidents as f64);
        }
        for row in boroughs {
            answers.borough(&row.borough, &row.week.to_string(), row.accidents, row.mean_lethal);
        }
        Ok(Answer { digest: answers.digest, records, bytes, ..Answer::default() })
    })
}

/// The columns that are wanted.
#[derive(Deserialize)]
struct Row {
    #[serde(rename = "CRASH DATE")]
    date: String,
    #[serde(rename = "BOROUGH")]
    borough: String,
    #[serde(rename = "NUMBER OF PERSONS KILLED")]
    killed: Option<u32>,
    #[serde(rename = "CONTRIBUTING FACTOR VEHICLE 1")]
    factor_1: String,
    #[serde(rename = "CONTRIBUTING FACTOR VEHICLE 2")]
    factor_2: String,
    #[serde(rename = "CONTRIBUTING FACTOR VEHICLE 3")]
    factor_3: String,
    #[serde(rename = "CONTRIBUTING FACTOR VEHICLE 4")]
    factor_4: String,
    #[serde(rename = "CONTRIBUTING FACTOR VEHICLE 5")]
    factor_5: String,
}

#[derive(Clone, Data)]
struct Accident {
    week: i32,
    lethal: bool,
    borough: String,
    factors: Vec<String>,
}

impl Accident {
    fn of(row: Row) -> std::result::Result<Self, String> {
        let week = week(row.date.as_bytes()).ok_or_else(|| format!("no date: {:?}", row.date))?;
        let mut factors = Vec::new();
        for factor in [row.factor_1, row.factor_2, row.factor_3, row.factor_4, row.factor_5] {
            if !factor.is_empty() && !factors.contains(&factor) {
                factors.push(factor);
            }
        }
        Ok(Self { week, lethal: row.killed.unwrap_or(0) > 0, borough: row.borough, factors })
    }
}

/// Accidents, and the lethal ones of them.
type Tally = (u64, u64);

fn add(tally: &mut Tally, lethal: bool) {
    *tally = (tally.0 + 1, tally.1 + u64::from(lethal));
}

fn merge(tally: &mut Tally, other: Tally) {
    *tally = (tally.0 + other.0, tally.1 + other.1);
}

/// A borough's accidents of each week, and its lethal ones.
type Borough = (Vec<(i32, u64)>, u64);

/// The answers to the three questions.
struct Found {
    weeks: Vec<(i32, u64)>,
    factors: Vec<(String, Tally)>,
    boroughs: Vec<(String, Borough)>,
}

fn by_serde(env: &Environment, path: &Path) -> thalweg::Result<Found> {
    let accidents = env.csv::<Row>(Csv::new(path).one_line_rows(true)).try_map(Accident::of);
    let (accidents, weeks) = accidents.side_output(|accident, weeks| {
        if accident.lethal {
            weeks.push(accident.week);
        }
        Some(accident)
    });
    let (factors, boroughs) = accidents.side_output(|accident, boroughs| {
        let Accident { week, lethal, borough, factors } = accident;
        if !borough.is_empty() {
            boroughs.push(((borough, week), lethal));
        }
        Some(factors.into_iter().map(move |factor| (factor, lethal)))
    });
    let weeks = weeks.group_by(|week| *week).count().collect::<Vec<_>>();
    let factors = factors.flatten().keyed().fold_assoc((0, 0), add, merge).collect::<Vec<_>>();
    let boroughs = boroughs
        .keyed()
        .fold_assoc((0, 0), add, merge)
        .unkey()
        .map(|((borough, week), tally)| (borough, (week, tally)))
        .keyed()
        .fold((Vec::new(), 0), |(weeks, all), (week, (accidents, lethal))| {
            weeks.push((week, accidents));
            *all += lethal;
        })
        .collect::<Vec<_>>();
    env.run()?;
    Ok(Found { weeks: weeks.take()?, factors: factors.take()?, boroughs: boroughs.take()? })
}

impl Found {
    fn answers(self) -> Answers {
        let mut answers = Answers::default();
        for (week, lethal) in self.weeks {
            answers.week(&monday(week), lethal);
        }
        for (factor, (accidents, lethal)) in self.factors {
            answers.factor(&factor, accidents, lethal as f64 / accidents as f64);
        }
        for (borough, (weeks, lethal)) in self.boroughs {
            let mean = lethal as f64 / weeks.len() as f64;
            for (week, accidents) in weeks {
                answers.borough(&borough, &monday(week), accidents, mean);
            }
        }
        answers
    }
}
