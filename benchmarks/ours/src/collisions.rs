//! The questions about collisions, as the example program has them.

use crate::environment;
use bench_protocol::collisions::{self, Answers};
use bench_protocol::{Answer, Request, Result, serve};
use thalweg::io::Csv;
use thalweg_queries::collisions::{accidents, three_questions};

pub(crate) fn serve_collisions(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let path = request.data()?.to_owned();
    let bytes = std::fs::metadata(&path)?.len();
    let records = collisions::accidents(&path)?;
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
