//! Snapshots at barriers that overtake batches, of jobs in which one task falls behind.

use super::*;
use crate::sync::AtomicU64;

const RECORDS: u64 = 20_000;

/// A job in which a task for each core sends to one task, which is slower than all of them together. Counts the records that
/// are sent and processed.
fn slow(env: &Environment, counts: &[Arc<AtomicU64>; 2]) -> Output<Vec<(u64, u64)>> {
    let [sent, processed] = counts.clone();
    let numbers = env.range(0..RECORDS).inspect(move |_| {
        sent.fetch_add(1, Ordering::Relaxed);
    });
    let slow = numbers.parallelism(1).inspect(move |_| {
        processed.fetch_add(1, Ordering::Relaxed);
    });
    slow.group_by(|n| n % 50).count().unkey().collect::<Vec<_>>()
}

fn environment_of(cores: usize, seed: u64) -> Environment {
    let config = Config { credit: 4096, ..environment(cores, seed).config().clone() };
    Environment::with_config(config)
}

/// A snapshot of the job with its lanes full; how many records were sent when the barrier was requested, and how many were
/// processed when it had passed.
fn taken(seed: u64, overtakes: bool) -> (Snapshot, u64, u64) {
    let env = environment_of(3, seed);
    let counts = [Arc::default(), Arc::default()];
    let _counted = slow(&env, &counts);
    let [sent, processed] = counts;
    let job = env.start_with(Some(&Checkpoints::new(None, None))).unwrap();
    job.drive_for(150);
    let sent = sent.load(Ordering::Relaxed);
    let taken = if overtakes { job.snapshot_overtaking() } else { job.snapshot() };
    let snapshot = taken.unwrap().expect("the job goes on").snapshot;
    let processed = processed.load(Ordering::Relaxed);
    job.cancel();
    job.wait().expect_err("it is cancelled");
    (snapshot, sent, processed)
}

fn counts_of(snapshot: Snapshot, cores: usize, seed: u64) -> Vec<(u64, u64)> {
    let env = environment_of(cores, seed);
    let counted = slow(&env, &Default::default());
    let begun = Checkpoints::new(Some(snapshot), None);
    env.start_with(Some(&begun)).unwrap().wait().unwrap();
    let mut counted = counted.take().unwrap();
    counted.sort_unstable();
    counted
}

#[test]
fn what_a_barrier_overtakes_is_processed_by_the_next_run_at_any_number_of_tasks() {
    for seed in 0..6 {
        let (aligned, sent, processed) = taken(seed, false);
        assert!(
            processed >= sent,
            "all in front of the barrier is processed: {processed} of {sent}"
        );
        assert_eq!(aligned.count_entries("overtaken"), 0);
        assert!(aligned.ids().all(|id| id.name != "overtaken"), "nothing to be saved is no state");
        let (snapshot, sent, processed) = taken(seed, true);
        assert!(processed < sent, "it passes in front of some of it: {processed} of {sent}");
        assert!(snapshot.count_entries("overtaken") > 0);
        for cores in 1..4 {
            let expected: Vec<_> = (0..50).map(|key| (key, RECORDS / 50)).collect();
            assert_eq!(counts_of(snapshot.clone(), cores, seed), expected, "{cores} cores");
        }
    }
}

#[test]
fn a_program_with_other_exchanges_is_refused_what_was_in_flight() {
    let (snapshot, ..) = taken(0, true);
    let refused = refusal(
        |env| {
            // The records in flight have passed what is now behind another exchange.
            let numbers = env.range(0..RECORDS).shuffle().inspect(|_| {});
            let slow = numbers.parallelism(1).inspect(|_| {});
            drop(slow.group_by(|n| n % 50).count().unkey().collect::<Vec<_>>());
        },
        snapshot,
    );
    assert!(refused.to_string().contains("overtaken"), "{refused}");
}

#[test]
fn what_was_in_flight_is_not_dropped_with_its_exchange() {
    let (snapshot, ..) = taken(0, true);
    let env = dropping();
    // Without the exchange, and all that was behind it but for the sink.
    drop(env.range(0..RECORDS).map(|n| (n % 50, n)).collect::<Vec<_>>());
    let begun = Checkpoints::new(Some(snapshot), None);
    let refused = env.start_with(Some(&begun)).err().expect("it is refused").to_string();
    assert!(refused.contains("records on their way"), "{refused}");
}
