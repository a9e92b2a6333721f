//! What the queries over streams of events share: a job that ends in the digest of its rows.

use bench_protocol::{Answer, digest};
use thalweg::data::Record;
use thalweg::metrics::Stats;
use thalweg::{Chain, Environment, Result, Stream};
use thalweg_workloads::digest::{Digest, Row};

/// The seed of all events.
pub(crate) const SEED: u64 = 42;

/// Runs the job that makes these rows, and digests every field of each.
pub(crate) fn digest_of<C>(env: &Environment, rows: Stream<C>) -> Result<Digest>
where
    C: Chain,
    for<'a> <C::Item as Record>::Of<'a>: Row,
{
    digest_and_stats(env, rows).map(|(digest, _)| digest)
}

/// The same, and what the job has counted.
pub(crate) fn digest_and_stats<C>(env: &Environment, rows: Stream<C>) -> Result<(Digest, Stats)>
where
    C: Chain,
    for<'a> <C::Item as Record>::Of<'a>: Row,
{
    let all = rows.fold_assoc(Digest::default(), |all, row| all.add(&row), Digest::merge);
    let all = all.collect::<Vec<_>>();
    let stats = env.start()?.wait()?;
    let mut digest = Digest::default();
    all.take()?.into_iter().for_each(|part| digest.merge(part));
    Ok((digest, stats))
}

/// A round's report.
pub(crate) fn answer(digest: Digest, records: u64, bytes: u64) -> Answer {
    let digest = digest::Digest::of_hashes(digest.rows(), digest.sum());
    Answer { digest, records, bytes, ..Answer::default() }
}
