//! Jobs that are interrupted where some of their records are on disk, and go on from there with other numbers of tasks.

use super::*;
use crate::sync::AtomicU64;

/// Far less than the records take.
const MEMORY: usize = 1 << 16;
/// How often a task is resumed between two snapshots.
const STEPS: usize = 25;

/// A number with what takes some room.
fn padded(n: u64) -> (u64, String) {
    (n, "x".repeat(300))
}

/// An environment in which sources are not far ahead, so that many barriers pass a job.
fn slow(cores: usize, seed: u64, memory: usize) -> Environment {
    let mut config = environment_with(cores, seed, memory).config().clone();
    config.credit = 4096;
    Environment::with_config(config)
}

/// A job, and where what it has on disk is copied.
struct Spilling<F> {
    job: F,
    dir: tempfile::TempDir,
}

impl<F, T> Spilling<F>
where
    F: Fn(&Environment) -> Output<Vec<T>>,
    T: Ord,
{
    fn new(job: F) -> Self {
        Self { job, dir: tempfile::tempdir().unwrap() }
    }

    /// Runs it, with so many cores and so much memory, until a snapshot is one to go on from; `None` if it ends before.
    fn interrupted(
        &self,
        (cores, memory): (usize, usize),
        restored: Option<&Snapshot>,
        is_there: impl Fn(&Snapshot) -> bool,
    ) -> Option<Snapshot> {
        let env = slow(cores, 5, memory);
        let out = (self.job)(&env);
        let all = Checkpoints::with_files_in(self.dir.path(), restored.cloned());
        let running = env.start_with(Some(&all)).unwrap();
        loop {
            running.drive_for(STEPS);
            let Some(taken) = running.snapshot().expect("all of it is saved") else {
                running.wait().unwrap();
                return None;
            };
            if running.is_over() {
                running.wait().unwrap();
                return None;
            }
            let Taken { snapshot, syncs, .. } = taken;
            if is_there(&snapshot) {
                running.cancel();
                // It may have ended while the barrier went through it.
                let _ = running.wait();
                syncs.into_iter().try_for_each(|sync| sync()).unwrap();
                drop(out);
                return Some(snapshot);
            }
        }
    }

    #[track_caller]
    fn until(
        &self,
        with: (usize, usize),
        restored: Option<&Snapshot>,
        is_there: impl Fn(&Snapshot) -> bool,
    ) -> Snapshot {
        self.interrupted(with, restored, is_there).expect("it is interrupted before its end")
    }

    /// Runs it to its end; returns the records in order.
    fn finish(&self, (cores, memory): (usize, usize), restored: &Snapshot) -> Vec<T> {
        let env = slow(cores, 6, memory);
        let out = (self.job)(&env);
        let all = Checkpoints::with_files_in(self.dir.path(), Some(restored.clone()));
        env.start_with(Some(&all)).unwrap().wait().unwrap();
        let mut found = out.take().unwrap();
        found.sort();
        found
    }

    /// Goes on from a snapshot, with these numbers of cores, and once more from one that is taken then.
    fn goes_on_from(&self, snapshot: &Snapshot, cores: &[usize], expected: &[T]) {
        for &cores in cores {
            let again = self.interrupted((cores, MEMORY), Some(snapshot), |_| true);
            for last in [cores, 4] {
                let found = self.finish((last, MEMORY), again.as_ref().unwrap_or(snapshot));
                assert!(found == expected, "{} records, with {cores}, then {last}", found.len());
            }
        }
    }
}

/// How many files a state has in a snapshot.
fn files(snapshot: &Snapshot, state: &str) -> usize {
    snapshot.count_files(state)
}

fn sorted<T: Ord>(records: impl Iterator<Item = T>) -> Vec<T> {
    let mut records: Vec<T> = records.collect();
    records.sort();
    records
}

#[test]
fn runs_of_records_that_stay_in_their_tasks_are_restored() {
    let job = Spilling::new(|env: &Environment| {
        let left = env.range(0..6000).map(|n| (n % 500, padded(n))).keyed();
        let right = env.range(0..500).map(|n| (n, n)).keyed();
        let joined = left.join_with(right).broadcast_right().sort_merge().inner();
        joined.unkey().map(|(key, ((n, _), _))| (key, n)).collect::<Vec<_>>()
    });
    let snapshot = job.until((2, MEMORY), None, |snapshot| files(snapshot, "left rows") > 2);
    job.goes_on_from(&snapshot, &[1, 2, 3], &sorted((0..6000).map(|n| (n % 500, n))));
}

/// A full join in which some records of each side have no partner. A task's table is larger than what is always allowed.
fn full_join(env: &Environment) -> Stream<impl Chain<Item = (u64, Option<u64>, bool)> + use<>> {
    let left = env.iter(0..6000_u64).map(|n| (n % 3200 + 1600, padded(n))).keyed();
    let right = env.iter(0..4000_u64).map(padded).keyed();
    let joined = left.full_join(right).unkey();
    joined.map(|(key, (left, right))| (key, left.map(|(n, _)| n), right.is_some()))
}

fn fully_joined() -> Vec<(u64, Option<u64>, bool)> {
    let left = (0..6000).map(|n| (n % 3200 + 1600, Some(n), n % 3200 < 2400));
    sorted(left.chain((0..1600).map(|key| (key, None, true))))
}

#[test]
fn both_sides_of_joins_by_tables_are_restored() {
    let job = Spilling::new(|env: &Environment| full_join(env).collect::<Vec<_>>());
    let building = |snapshot: &Snapshot| files(snapshot, "rows") > 0;
    let snapshot = job.until((3, MEMORY), None, building);
    job.goes_on_from(&snapshot, &[1, 3], &fully_joined());
    // More than wait for the table: they are in parts.
    let looking = |snapshot: &Snapshot| files(snapshot, "waiting") > 16;
    let snapshot = job.until((2, MEMORY), Some(&snapshot), looking);
    assert!(building(&snapshot));
    job.goes_on_from(&snapshot, &[1, 2, 5], &fully_joined());
}

/// In memory, and then on disk.
#[test]
fn rows_that_have_met_a_partner_are_known_on_disk() {
    let paired = Arc::new(AtomicU64::new(0));
    let job = Spilling::new(|env: &Environment| {
        let paired = Arc::clone(&paired);
        let counted = full_join(env).inspect(move |_| {
            paired.fetch_add(1, Ordering::Relaxed);
        });
        counted.collect::<Vec<_>>()
    });
    let looking = |_: &Snapshot| paired.load(Ordering::Relaxed) > 300;
    let snapshot = job.until((2, Config::default().memory), None, looking);
    assert_eq!(files(&snapshot, "rows"), 0);
    let on_disk = |snapshot: &Snapshot| files(snapshot, "rows") > 0;
    let snapshot = job.until((3, MEMORY), Some(&snapshot), on_disk);
    job.goes_on_from(&snapshot, &[1, 3, 5], &fully_joined());
}

#[test]
fn records_that_wait_for_a_table_are_restored() {
    let job = Spilling::new(|env: &Environment| {
        let [left, right] = env.range(0..2000).split();
        let left = left.filter(|n| *n % 33 == 0).map(|n| (n, "x".repeat(1000)));
        let right = right.filter(|n| *n % 10 == 0).map(|n| (n, "x".repeat(500)));
        let pairs = left.cross(right);
        pairs.map(|((n, _), (m, _))| (n, m)).collect::<Vec<_>>()
    });
    let snapshot = job.until((2, MEMORY), None, |snapshot| files(snapshot, "waiting") > 0);
    let pairs = (0..2000).step_by(33).flat_map(|n| (0..2000).step_by(10).map(move |m| (n, m)));
    job.goes_on_from(&snapshot, &[1, 2, 3], &sorted(pairs));
}

#[test]
fn records_that_wait_for_a_control_stream_are_restored() {
    let held = |snapshot: &Snapshot| files(snapshot, "held") > 0;
    let expected: Vec<_> = (0..6000u64).map(|n| (n, 15_000u64)).collect();
    let job = Spilling::new(|env: &Environment| {
        let [records, control] = env.iter(0..6000u64).split();
        let control = control.filter(|n| *n % 1000 == 0);
        let records = records.map(padded);
        let paired = records.connect_after(control, 0, |all: &mut u64, n| *all += n);
        paired.map(|((n, _), all)| (n, *all)).collect::<Vec<_>>()
    });
    let snapshot = job.until((2, MEMORY), None, held);
    job.goes_on_from(&snapshot, &[1, 2, 3], &expected);
}

/// What was read back from disk before is not in the way of later checkpoints.
#[test]
fn a_job_whose_records_have_waited_has_checkpoints() {
    let job = Spilling::new(|env: &Environment| {
        let [records, control] = env.range(0..3000).split();
        let records = records.map(padded);
        let paired = records.connect_after(control, 0, |all: &mut u64, n| *all += n);
        let few = paired.map(|((n, _), _)| n);
        few.merge(env.range(0..20_000)).collect::<Vec<_>>()
    });
    let (held, given) = (std::cell::Cell::new(false), std::cell::Cell::new(false));
    let was_given = |snapshot: &Snapshot| {
        let holds = files(snapshot, "held") > 0;
        given.set(held.get() && !holds);
        held.set(holds);
        given.get()
    };
    let snapshot = job.until((2, MEMORY), None, was_given);
    job.goes_on_from(&snapshot, &[2], &sorted((0..3000).chain(0..20_000)));
}

#[test]
fn records_that_wait_for_their_partners_are_restored_in_order() {
    let job = Spilling::new(|env: &Environment| {
        let [one, other] = env.iter(0..3000u64).split();
        let pairs = one.map(padded).zip(other.filter(|n| *n % 4 == 0));
        pairs.map(|((n, _), m)| (n, m)).collect::<Vec<_>>()
    });
    // One of them is read, and the other one is written.
    let snapshot = job.until((2, MEMORY), None, |snapshot| files(snapshot, "first") > 1);
    let expected: Vec<_> = (0..750).map(|n| (n, 4 * n)).collect();
    job.goes_on_from(&snapshot, &[1, 2, 3], &expected);
}

/// How many rounds of the loop of a job have ended.
fn rounds(snapshot: &Snapshot) -> u64 {
    let id = snapshot.ids().find(|id| id.name == "rounds").expect("a loop");
    let first = snapshot.entries(id).next().unwrap().expect("the first head saves it");
    u64::decode(&mut { first.bytes }).unwrap()
}

fn add(sum: &mut u64, n: u64) {
    *sum += n;
}

#[test]
fn records_that_are_fed_back_are_restored() {
    let job = Spilling::new(|env: &Environment| {
        let records = env.range(0..450).map(|n| (n, "x".repeat(2000)));
        let (outcome, left) =
            records.iterate(12, (), |all, _| all.map(|(n, text)| (n + 1, text))).all_rounds();
        outcome.for_each(drop);
        left.map(|(n, _)| n).collect::<Vec<_>>()
    });
    let expected: Vec<_> = (12..462).collect();
    let is_on_disk = |snapshot: &Snapshot| files(snapshot, "input") > 0;
    let snapshot = job.until((2, MEMORY), None, is_on_disk);
    job.goes_on_from(&snapshot, &[1, 3], &expected);
    let in_rounds = |snapshot: &Snapshot| rounds(snapshot) > 0 && is_on_disk(snapshot);
    let snapshot = job.until((3, MEMORY), Some(&snapshot), in_rounds);
    job.goes_on_from(&snapshot, &[1, 2, 3, 5], &expected);
}

#[test]
fn records_that_are_replayed_are_restored() {
    let job = Spilling::new(|env: &Environment| {
        let records = env.range(0..2000).map(padded);
        let sums = records.replay(12, 0, |all, _| all.map(|record| record.0 + 1));
        let sums = sums.fold(add, add).all_rounds(add);
        sums.map(|outcome| outcome.state).collect::<Vec<_>>()
    });
    let expected = [12 * 2001 * 1000];
    let is_on_disk = |snapshot: &Snapshot| files(snapshot, "input") > 0;
    let snapshot = job.until((2, MEMORY), None, is_on_disk);
    job.goes_on_from(&snapshot, &[1, 3], &expected);
    let in_rounds = |snapshot: &Snapshot| rounds(snapshot) > 0 && is_on_disk(snapshot);
    let snapshot = job.until((3, MEMORY), Some(&snapshot), in_rounds);
    job.goes_on_from(&snapshot, &[1, 2, 3, 5], &expected);
}
