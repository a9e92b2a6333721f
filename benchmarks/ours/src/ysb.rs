//! The Yahoo benchmark and the simple aggregation over its events, as the example programs have them.

use crate::environment;
use crate::streams::{SEED, answer, digest_of};
use bench_protocol::{Request, Result, serve};
use thalweg_queries::ysb::{events, swa, ysb, ysb_star};
use thalweg_workloads::ysb::oracle::STAR;
use thalweg_workloads::ysb::{Campaigns, FixedSegments, recipe};

pub(crate) fn serve_ysb(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let campaigns = Campaigns::new(SEED);
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    serve(request, |stopwatch| {
        let digest =
            stopwatch.time(|| digest_of(&env, ysb(events(&env, &segments), &campaigns)))?;
        Ok(answer(digest, segments.count(), segments.size()))
    })
}

pub(crate) fn serve_star(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let campaigns = Campaigns::new(SEED);
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    serve(request, |stopwatch| {
        let digest = stopwatch
            .time(|| digest_of(&env, ysb_star(events(&env, &segments), &campaigns, STAR)))?;
        Ok(answer(digest, segments.count(), segments.size()))
    })
}

pub(crate) fn serve_swa(request: &Request) -> Result<()> {
    let env = environment(request)?;
    let segments = FixedSegments::generate(recipe(SEED), request.value("events")?);
    serve(request, |stopwatch| {
        let digest = stopwatch.time(|| digest_of(&env, swa(events(&env, &segments))))?;
        Ok(answer(digest, segments.count(), segments.size()))
    })
}
