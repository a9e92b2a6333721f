//! What the work on streams of events shares.

use bench_protocol::{Answer, digest};
use thalweg_workloads::digest::Digest;

/// The seed of all events.
pub(crate) const SEED: u64 = 42;

/// All threads' rows.
pub(crate) fn merged(parts: Vec<Digest>) -> Digest {
    let mut all = Digest::default();
    parts.into_iter().for_each(|part| all.merge(part));
    all
}

/// A round's report.
pub(crate) fn answer(digest: Digest, records: u64, bytes: u64) -> Answer {
    let digest = digest::Digest::of_hashes(digest.rows(), digest.sum());
    Answer { digest, records, bytes, ..Answer::default() }
}
