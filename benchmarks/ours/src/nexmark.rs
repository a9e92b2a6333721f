//! The queries of Nexmark, as the example program has them.

use crate::environment;
use crate::streams::{SEED, answer, digest_of};
use bench_protocol::{Request, Result, serve};
use thalweg_queries::nexmark::{events, q0, q1, q2, q3, q4, q5, q6, q7, q8};
use thalweg_workloads::nexmark::{Segments, recipe};

pub(crate) fn serve_nexmark(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let query: u8 = request.value("query")?;
    let segments = Segments::generate(recipe(SEED), request.value("events")?);
    let (records, bytes) = (segments.count(), segments.size());
    serve(request, |stopwatch| {
        let digest = stopwatch.time(|| -> Result<_> {
            let events = events(&env, &segments);
            match query {
                0 => Ok(digest_of(&env, q0(events))?),
                1 => Ok(digest_of(&env, q1(events))?),
                2 => Ok(digest_of(&env, q2(events))?),
                3 => Ok(digest_of(&env, q3(events))?),
                4 => Ok(digest_of(&env, q4(events))?),
                5 => Ok(digest_of(&env, q5(events))?),
                6 => Ok(digest_of(&env, q6(events))?),
                7 => Ok(digest_of(&env, q7(events))?),
                8 => Ok(digest_of(&env, q8(events))?),
                _ => Err(format!("there is no query {query} here").into()),
            }
        })?;
        Ok(answer(digest, records, bytes))
    })
}
