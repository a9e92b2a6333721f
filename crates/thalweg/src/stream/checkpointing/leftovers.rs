//! Tests of what checkpoints leave in their folder that could not be taken.

use super::*;
use crate::check::on_cluster;
use crate::checkpoint::Faulty;
use crate::config::Config;
use crate::metrics::CheckpointStats;
use crate::operators::time::Watermarks;
use crate::operators::window::EventTimeWindow;
use crate::runtime::Cluster;
use crate::stream::Environment;
use crate::time::Timestamp;

/// Of the checkpoints of a run: how many were taken and how many were not, and how many copies of spill files there were.
#[derive(Debug, Default)]
struct Seen {
    taken: usize,
    failed: usize,
    copies: usize,
    /// What statistics of the host said at the end.
    known: Option<CheckpointStats>,
}

/// Windows that do not fit into memory, and are gone when they are over.
fn describe(env: &Environment) {
    let at = |n: &u64| Timestamp::from_micros(n.cast_signed());
    let micros = Duration::from_micros;
    let disorder = Watermarks::bounded_disorder(micros(5000));
    let numbers = env.generate(1e9, Some).assign_timestamps(at, disorder);
    let windows = EventTimeWindow::tumbling(micros(5000));
    let greatest = numbers.group_by(|n| format!("{:0150}", n % 4000)).window(windows);
    greatest.aggregate(|a| a.max(|n: &u64| *n)).unkey().for_each(drop);
}

/// Takes checkpoints on a host until they do not fail any more.
fn run_on_a_host(env: &Environment, faulty: &Arc<Faulty>) -> Result<(Seen, Vec<String>)> {
    let folder = Arc::clone(faulty) as Arc<dyn Folder>;
    let checkpoints = env.checkpoints_of(&folder)?;
    describe(env);
    let job = env.start_with(Some(&checkpoints.checkpoints))?;
    let mut seen = Seen::default();
    if !env.is_first_host() {
        job.take_checkpoint(&checkpoints)?;
        let _ = job.wait();
        seen.known = checkpoints.checkpoints.stats(0);
        return Ok((seen, Vec::new()));
    }
    faulty.may_fail(12);
    // As many without a failure as it takes to forget those that may be there all the same.
    let mut in_a_row = 0;
    while in_a_row < 4 {
        job.drive_for(40);
        in_a_row += 1;
        match job.take_checkpoint(&checkpoints) {
            Ok(goes_on) => seen.taken += usize::from(goes_on),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                (in_a_row, seen.failed) = (0, seen.failed + 1);
            }
        }
        let known = checkpoints.checkpoints.stats(0).expect("they are stored");
        assert_eq!((known.taken, known.failed), (seen.taken as u64, seen.failed as u64));
        assert_eq!(known.failure.is_some(), in_a_row == 0, "{known}");
        let names = folder.names().unwrap_or_default();
        let copies = names.iter().filter(|name| name.starts_with("spilled-")).count();
        seen.copies = seen.copies.max(copies);
    }
    // Until the other hosts have removed theirs.
    job.drive_for(200);
    let left = checkpoints.writer.store.unneeded();
    seen.known = checkpoints.checkpoints.stats(0);
    job.cancel();
    let _ = job.wait();
    Ok((seen, left))
}

/// Runs the job on so many hosts, with a folder that fails as drawn from a seed until it works again. Returns what was seen, and
/// which files are left that no checkpoint has.
fn run(hosts: usize, seed: u64) -> (Seen, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let folder = make(dir.path(), dir.path()).unwrap();
    let faulty = Arc::new(Faulty::around(folder, seed, 96, 0).but_removals());
    let config = Config { memory: 1 << 18, ..Config::default() };
    let run = |env: &Environment| Ok(run_on_a_host(env, &faulty).unwrap());
    let cluster = Cluster::looking_after(8, seed, 1, hosts);
    let ended = on_cluster(&cluster, &config, &vec![1; hosts], &run);
    let mut ended: Vec<_> = ended.into_iter().map(|host| host.unwrap()).collect();
    let newest = |(seen, _): &(Seen, Vec<String>)| {
        seen.known.as_ref().map(|known| (known.taken, known.newest.clone()))
    };
    assert!(ended.iter().all(|host| newest(host) == newest(&ended[0])), "{ended:?}");
    ended.swap_remove(0)
}

#[test]
fn checkpoints_that_could_not_be_taken_leave_nothing_once_there_are_newer_ones() {
    let mut all = Seen::default();
    for (hosts, seed) in [(1, 0), (2, 1)] {
        let (seen, left) = run(hosts, seed);
        assert_eq!(left, [""; 0], "{hosts} hosts, seed {seed}: {seen:?}");
        assert!(seen.failed > 0 && seen.copies > 0, "{hosts} hosts, seed {seed}: {seen:?}");
        all.taken += seen.taken;
        all.failed += seen.failed;
        all.copies = all.copies.max(seen.copies);
    }
    assert!(all.failed > 3 && all.taken >= 8 && all.copies > 2, "{all:?}");
}
