//! Jobs that are interrupted where some of their records are on disk, and go on from there with other numbers of tasks.

use super::*;

/// Far less than the records take.
const MEMORY: usize = 1 << 16;
/// How often a task is resumed between two snapshots.
const STEPS: usize = 25;

/// A number that takes some room.
fn long(n: u64) -> String {
    format!("{n:0300}")
}

fn short(text: &str) -> u64 {
    text.parse().expect("a number")
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

    /// Runs it, with so many cores and so much memory, until a snapshot is one to go on from.
    fn until(
        &self,
        (cores, memory): (usize, usize),
        restored: Option<&Snapshot>,
        is_there: impl Fn(&Snapshot) -> bool,
    ) -> Snapshot {
        let env = environment_with(cores, 5, memory);
        let out = (self.job)(&env);
        let all = Checkpoints::with_files_in(self.dir.path(), restored.cloned());
        let running = env.start_with(Some(&all)).unwrap();
        loop {
            running.drive_for(STEPS);
            let taken = running.snapshot().expect("all of it is saved");
            let Taken { snapshot, syncs, .. } = taken.expect("it goes on");
            if is_there(&snapshot) {
                running.cancel();
                // It may have ended while the barrier went through it.
                let _ = running.wait();
                syncs.into_iter().try_for_each(|sync| sync()).unwrap();
                drop(out);
                return snapshot;
            }
        }
    }

    /// Runs it to its end; returns the records in order.
    fn finish(&self, (cores, memory): (usize, usize), restored: &Snapshot) -> Vec<T> {
        let env = environment_with(cores, 6, memory);
        let out = (self.job)(&env);
        let all = Checkpoints::with_files_in(self.dir.path(), Some(restored.clone()));
        env.start_with(Some(&all)).unwrap().wait().unwrap();
        let mut found = out.take().unwrap();
        found.sort();
        found
    }

    /// Goes on from a snapshot twice, with these numbers of cores.
    fn goes_on_from(&self, snapshot: &Snapshot, cores: &[usize], expected: &[T]) {
        for &cores in cores {
            let again = self.until((cores, MEMORY), Some(snapshot), |_| true);
            for last in [cores, 4] {
                let found = self.finish((last, MEMORY), &again);
                assert!(found == expected, "{} records, with {cores}, then {last}", found.len());
            }
        }
    }
}

/// How many files a state has in a snapshot.
fn files(snapshot: &Snapshot, state: &str) -> usize {
    let ids = snapshot.ids().filter(|id| id.name == state);
    ids.map(|id| snapshot.files(id).count()).sum()
}

fn sorted<T: Ord>(records: impl Iterator<Item = T>) -> Vec<T> {
    let mut records: Vec<T> = records.collect();
    records.sort();
    records
}

#[test]
fn runs_of_records_that_stay_in_their_tasks_are_restored() {
    let job = Spilling::new(|env: &Environment| {
        let left = env.range(0..6000).map(|n| (n % 500, long(n))).keyed();
        let right = env.range(0..500).map(|n| (n, n)).keyed();
        let joined = left.join_with(right).broadcast_right().sort_merge().inner();
        joined.unkey().map(|(key, (text, _))| (key, short(&text))).collect::<Vec<_>>()
    });
    let snapshot = job.until((2, MEMORY), None, |snapshot| files(snapshot, "left rows") > 2);
    job.goes_on_from(&snapshot, &[1, 2, 3], &sorted((0..6000).map(|n| (n % 500, n))));
}
