//! Tests of loops on several hosts that go on from a checkpoint, or are suspended.

use super::*;
use crate::Output;
use crate::check::on_cluster;
use crate::config::Config;
use crate::runtime::Cluster;
use crate::stream::{Boxed, Environment, Stream};
use crate::sync::{AtomicU64, Ordering};

const NUMBERS: u64 = 60;
const ROUNDS: u64 = 20;
/// The rounds that have ended before there is a checkpoint.
const BEFORE: u64 = 5;

/// The cores of each host, before the loop is cut and after it.
const HOSTS: [[&[usize]; 2]; 2] = [[&[1, 2, 1], &[2, 1]], [&[1, 1], &[1, 1, 2]]];

fn next(n: u64, state: u64) -> u64 {
    n.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(state)
}

/// The numbers that are left after all rounds, and the state.
fn expected() -> Vec<u64> {
    let (mut numbers, mut state) = ((0..NUMBERS).collect::<Vec<_>>(), 1);
    for _ in 0..ROUNDS {
        numbers.iter_mut().for_each(|n| *n = next(*n, state) ^ state);
        state = numbers.iter().fold(0, |sum: u64, n| sum.wrapping_add(*n));
    }
    numbers.push(state);
    numbers.sort_unstable();
    numbers
}

/// A number with what takes some room.
type Padded = (u64, String);

/// In one task, which is on the first host, or in tasks of all hosts.
fn spread(numbers: Stream<Boxed<Padded>>, in_one: bool) -> Stream<Boxed<Padded>> {
    match in_one {
        true => numbers.parallelism(1).boxed(),
        false => numbers.shuffle().boxed(),
    }
}

/// A loop with one head or many, and one tail or many. Its state is read at both ends of the body. Counts the rounds. Each
/// record has so many bytes beside its number.
fn looped(
    env: &Environment,
    [one_head, one_tail]: [bool; 2],
    padding: usize,
    rounds: &Arc<AtomicU64>,
) -> Output<Vec<u64>> {
    let rounds = Arc::clone(rounds);
    let numbers = env.range(0..NUMBERS).map(move |n| (n, "x".repeat(padding))).boxed();
    let (outcome, left) = spread(numbers, one_head)
        .iterate(ROUNDS, 1u64, |numbers, state| {
            let changed = numbers.with(state).map(|((n, x), state)| (next(n, *state), x)).boxed();
            spread(changed, one_tail).with(state).map(|((n, x), state)| (n ^ *state, x))
        })
        .fold(
            |sum: &mut u64, record| *sum = sum.wrapping_add(record.0),
            |sum, part| *sum = sum.wrapping_add(part),
        )
        .all_rounds(move |state, sum| {
            rounds.fetch_add(1, Ordering::Relaxed);
            *state = sum;
        });
    left.map(|(n, _)| n).merge(outcome.map(|outcome| outcome.state)).collect()
}

/// Runs the loop on hosts of so many cores, with so much memory each; one that is cut is cancelled after a checkpoint. Returns
/// how it has ended on each host, and how many rounds have ended there.
fn run(
    dir: &Path,
    (seed, cores): (u64, &[usize]),
    (memory, padding): (usize, usize),
    ends: [bool; 2],
    is_cut: bool,
) -> Vec<(Result<Vec<u64>>, u64)> {
    let run = |env: &Environment| {
        let checkpoints = env.checkpoints_in(dir).unwrap();
        let rounds = Arc::new(AtomicU64::new(0));
        let out = looped(env, ends, padding, &rounds);
        let job = env.start_with(Some(&checkpoints.checkpoints)).unwrap();
        if is_cut && env.is_first_host() {
            while rounds.load(Ordering::Relaxed) < BEFORE && !job.is_over() {
                job.drive_for(2);
            }
            assert!(job.take_checkpoint(&checkpoints).unwrap(), "the loop is over");
            job.cancel();
        } else if is_cut {
            job.take_checkpoint(&checkpoints).unwrap();
        }
        let ended = job.wait().and_then(|_| out.take());
        Ok((ended, rounds.load(Ordering::Relaxed)))
    };
    let cluster = Cluster::looking_after(8, seed, 1, cores.len());
    let ended = on_cluster(&cluster, &Config { memory, ..Config::default() }, cores, &run);
    ended.into_iter().map(|host| host.unwrap()).collect()
}

fn is_cut(ended: Vec<(Result<Vec<u64>>, u64)>) {
    for (ended, _) in ended {
        let error = ended.expect_err("it is cut");
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    }
}

/// On each host, the loop has its answer after the rounds that were left.
fn goes_on(ended: Vec<(Result<Vec<u64>>, u64)>) {
    let rounds = ended[0].1;
    assert!((1..=ROUNDS - BEFORE).contains(&rounds), "{rounds} rounds");
    for (ended, _) in ended {
        let mut numbers = ended.unwrap();
        numbers.sort_unstable();
        assert_eq!(numbers, expected());
    }
}

/// Hosts without a head have tails that feed heads of other hosts, and read the state.
#[test]
fn a_loop_goes_on_with_its_next_round_on_another_number_of_hosts() {
    let ends = [[false, false], [true, false], [false, true], [true, true]];
    let memory = (Config::default().memory, 0);
    for (seed, ends) in (0..).zip(ends) {
        for [first, second] in HOSTS {
            let dir = tempfile::tempdir().unwrap();
            is_cut(run(dir.path(), (seed, first), memory, ends, true));
            goes_on(run(dir.path(), (seed + 1, second), memory, ends, false));
        }
    }
}

/// What the second host feeds back in a round exceeds the memory of the first one, where the head is; its task writes it to
/// disk.
#[test]
fn a_loop_goes_on_with_batches_of_other_hosts_that_are_on_disk() {
    let [first, second] = HOSTS[1];
    let (memory, ends) = ((1 << 16, 10 << 10), [true, false]);
    let dir = tempfile::tempdir().unwrap();
    is_cut(run(dir.path(), (0, first), memory, ends, true));
    let store = Store::open(&make(dir.path(), dir.path()).unwrap()).unwrap();
    let snapshot = store.newest().unwrap().expect("there is a checkpoint").snapshot;
    drop(store);
    // One is of the tail on the first host.
    assert_eq!(snapshot.count_files("input"), 2);
    goes_on(run(dir.path(), (1, second), memory, ends, false));
}

/// Nothing of that comes to the first host, which waits for the barrier.
#[test]
fn a_last_barrier_that_comes_within_a_round_of_another_host_ends_the_job() {
    for seed in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        let begun = Arc::new(AtomicU64::new(0));
        let run = |env: &Environment| {
            let checkpoints = env.checkpoints_in(dir.path()).unwrap();
            // It does not end on the second host.
            let outside = env.parallel_iter(|task, _| 0..[0, 1u64 << 50][task]);
            let (outside, seen) = (outside.filter(|_| false), Arc::clone(&begun));
            let (outcome, left) = env
                .range(0..10)
                .iterate(5, (), move |numbers, _| {
                    let see = move |_: &u64| _ = seen.fetch_add(1, Ordering::Relaxed);
                    numbers.inspect(see).merge(outside)
                })
                .all_rounds();
            outcome.for_each(drop);
            left.for_each(drop);
            let job = env.start_with(Some(&checkpoints.checkpoints)).unwrap();
            if env.is_first_host() {
                while begun.load(Ordering::Relaxed) < 10 && !job.is_over() {
                    job.drive_for(2);
                }
                // Until the end of the round has come to where the streams meet.
                job.drive_for(100);
            }
            job.suspend_now(&checkpoints);
            Ok(job.wait().map(drop))
        };
        let cluster = Cluster::looking_after(8, seed, 1, 2);
        for ended in on_cluster(&cluster, &Config::default(), &[1, 1], &run) {
            let error = ended.unwrap().expect_err("it has no result");
            assert_eq!(error.kind(), ErrorKind::Cancelled, "seed {seed}: {error}");
            assert!(error.to_string().contains("from outside the loop"), "seed {seed}: {error}");
        }
    }
}
