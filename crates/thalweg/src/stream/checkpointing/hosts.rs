//! Tests of what several hosts do before they go on from a checkpoint: none commits or throws anything away before all have read
//! the one that the first host has decided on. And of what they commit before a job ends.
#![expect(clippy::disallowed_methods, reason = "another run of the job writes beside it")]

use super::*;
use crate::check::on_cluster;
use crate::checkpoint::Faulty;
use crate::config::Config;
use crate::connector::{Prepared, Sink, SinkContext, SinkWriter};
use crate::runtime::Cluster;
use crate::stream::{Environment, JobHandle};
use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::channel;

/// What the sinks of each host have committed, and whether writers were made, which throw away what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Done {
    committed: BTreeSet<u64>,
    opened: bool,
}

/// Notes what it does on a host.
struct Noted {
    done: Arc<Mutex<Done>>,
    /// Whether its commits fail.
    fails: bool,
}

impl Noted {
    fn new(done: &Arc<Mutex<Done>>) -> Self {
        Self { done: Arc::clone(done), fails: false }
    }
}

#[derive(Default)]
struct Batch(Vec<u64>);

impl Sink for Noted {
    type Item = u64;
    type Commit = Vec<u64>;
    type Writer = Batch;

    fn describe(&self) -> String {
        "noted".to_owned()
    }

    fn open(&self, _: &SinkContext) -> Result<Batch> {
        lock(&self.done).opened = true;
        Ok(Batch::default())
    }

    fn commit(&self, numbers: &Vec<u64>) -> Result<()> {
        if self.fails {
            return Err(Error::new(ErrorKind::Io, "the table is locked"));
        }
        lock(&self.done).committed.extend(numbers);
        Ok(())
    }
}

impl SinkWriter for Batch {
    type Item = u64;
    type Commit = Vec<u64>;

    fn write(&mut self, number: u64) -> Result<()> {
        self.0.push(number);
        Ok(())
    }

    fn prepare(&mut self) -> Result<Option<Prepared<Vec<u64>>>> {
        Ok(Some(Prepared::new(std::mem::take(&mut self.0))))
    }
}

/// A host of two that runs the job.
struct Host<'a> {
    env: &'a Environment,
    done: Arc<Mutex<Done>>,
}

impl Host<'_> {
    fn is_first(&self) -> bool {
        self.env.is_first_host()
    }

    fn open(&self, folder: &Arc<dyn Folder>) -> Checkpointing {
        self.env.checkpoints_of(folder).unwrap()
    }

    /// Few numbers of each run of the source, as sinks keep them in sets.
    fn describe(&self, sink: Noted) {
        self.env.range(0..1 << 40).filter(|n| n % 64 == 0).write(sink);
    }

    /// Runs the job, which is cancelled when the first host has taken so many checkpoints.
    fn run(&self, checkpoints: Option<&Checkpointing>, taken: usize) -> Result<()> {
        self.describe(Noted::new(&self.done));
        let job = self.env.start_with(checkpoints.map(|all| &all.checkpoints))?;
        let takes = checkpoints.filter(|_| taken > 0);
        if self.is_first() {
            for checkpoints in takes.iter().cycle().take(taken) {
                job.drive_for(2);
                assert!(job.take_checkpoint(checkpoints)?);
            }
            // Until the others have described it, where it does not wait for them.
            job.drive_for(20);
            job.cancel();
        } else if let Some(checkpoints) = takes {
            job.take_checkpoint(checkpoints)?;
        }
        wait_cancelled(job)
    }
}

/// Waits for a job that is cancelled.
fn wait_cancelled(job: JobHandle) -> Result<()> {
    match job.wait() {
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
        ended => ended.map(drop),
    }
}

/// Runs programs on two hosts; returns how they have ended and what their sinks have done, of the first host first.
fn on_two_hosts(
    cluster: &Arc<Cluster>,
    program: impl Fn(&Host<'_>) -> Result<()> + Sync,
) -> [(Result<()>, Done); 2] {
    let run = |env: &Environment| {
        let host = Host { env, done: Arc::default() };
        let ended = program(&host);
        let done = lock(&host.done).clone();
        Ok((ended, done))
    };
    let ended = on_cluster(cluster, &Config::default(), &[1, 1], &run);
    let ended = ended.into_iter().map(|host| host.unwrap()).collect::<Vec<_>>();
    ended.try_into().map_err(|_| "two hosts").unwrap()
}

fn cluster(seed: u64) -> Arc<Cluster> {
    Cluster::looking_after(8, seed, 1, 2)
}

/// A directory, and one whose lock does not work.
fn folders(dir: &Path) -> [Arc<dyn Folder>; 2] {
    let folder = || make(dir, dir).unwrap();
    [folder(), Arc::new(Faulty::around(folder(), 0, 0, 0))]
}

/// The files of checkpoints in a directory.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let is_file = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        ["checkpoint-", "part-"].iter().any(|prefix| name.starts_with(prefix))
    };
    paths.filter(is_file).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// The files after a run that was interrupted; its last checkpoint is removed. Returns what that consists of.
fn interrupted(folder: &Arc<dyn Folder>) -> BTreeMap<PathBuf, Vec<u8>> {
    let ended = on_two_hosts(&cluster(1), |host| host.run(Some(&host.open(folder)), 3));
    ended.into_iter().for_each(|(ended, _)| ended.unwrap());
    let files = files(folder.path());
    let is_checkpoint = |path: &&PathBuf| path.extension().is_some() && !is_part(path);
    let last = files.keys().filter(is_checkpoint).max().unwrap();
    fs::remove_file(last).unwrap();
    files
}

fn is_part(path: &Path) -> bool {
    path.file_name().unwrap().to_str().unwrap().starts_with("part-")
}

fn put_back(files: &BTreeMap<PathBuf, Vec<u8>>) {
    files.iter().for_each(|(path, bytes)| fs::write(path, bytes).unwrap());
}

/// An earlier run of the job that is still alive writes another checkpoint when one of the hosts has opened them.
#[test]
fn all_hosts_go_on_from_the_checkpoint_of_the_first_one() {
    for kind in 0..2 {
        let from = [true, false].map(|is_first_before| {
            let known = Mutex::new(Vec::new());
            let dir = tempfile::tempdir().unwrap();
            let folder = &folders(dir.path())[kind];
            let late = interrupted(folder);
            let (sender, gone) = channel();
            let gone = Mutex::new(gone);
            let ended = on_two_hosts(&cluster(2), |host| {
                let is_before = host.is_first() == is_first_before;
                if !is_before {
                    lock(&gone).recv().unwrap();
                }
                let checkpoints = host.open(folder);
                if is_before {
                    put_back(&late);
                    sender.send(()).unwrap();
                }
                let ended = host.run(Some(&checkpoints), 0);
                lock(&known).extend(checkpoints.checkpoints.stats(0));
                ended
            });
            let known = lock(&known);
            assert_eq!(known[0], known[1], "of where both begin");
            assert!(known[0].newest.as_ref().is_some_and(|newest| newest.bytes > 0), "{known:?}");
            let [(first, done), (second, other)] = ended;
            first.unwrap();
            second.unwrap();
            assert!(done.opened && !done.committed.is_empty());
            assert_eq!(other, done, "kind {kind}, {is_first_before}");
            done.committed
        });
        assert_ne!(from[0], from[1], "of the older checkpoint, and of the late one");
    }
}

/// Runs the job on two hosts that must refuse it: before any sink has done anything.
fn refused(
    expected: &str,
    kind: ErrorKind,
    program: impl Fn(&Host<'_>) -> Result<()> + Sync,
) -> [Done; 2] {
    let ended = on_two_hosts(&cluster(3), program);
    ended.map(|(ended, done)| {
        let error = ended.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        done
    })
}

const NOTHING: [Done; 2] = [NONE, NONE];
const NONE: Done = Done { committed: BTreeSet::new(), opened: false };

#[test]
fn hosts_without_the_checkpoint_refuse_the_job_before_anything_is_committed() {
    let [dir, other] = [0, 1].map(|_| tempfile::tempdir().unwrap());
    let [folder, elsewhere] = [&dir, &other].map(|dir| folders(dir.path())[0].clone());
    let files = interrupted(&folder);
    let (sender, gone) = channel();
    let gone = Mutex::new(gone);
    // What there is in the other directory when the first host has begun.
    let run = |host: &Host<'_>, content: &(dyn Fn() + Sync)| {
        let checkpoints = match host.is_first() {
            true => host.open(&folder),
            false => {
                lock(&gone).recv().unwrap();
                content();
                host.open(&elsewhere)
            }
        };
        if host.is_first() {
            sender.send(()).unwrap();
        }
        host.run(Some(&checkpoints), 0)
    };
    let expected = "not that of the first host: all hosts must share it";
    let done = refused(expected, ErrorKind::Config, |host| run(host, &|| ()));
    assert_eq!(done, NOTHING);
    // As if new names were shown late.
    let copy = |is_copied: &dyn Fn(&Path) -> bool| {
        for path in fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()) {
            if is_copied(&path) {
                fs::copy(&path, other.path().join(path.file_name().unwrap())).unwrap();
            }
        }
    };
    let is_checkpoint = |path: &Path| files.contains_key(path);
    let all_but_checkpoints = || copy(&|path| !is_checkpoint(path));
    let expected = "is not there on this one: all hosts must share the directory";
    let done = refused(expected, ErrorKind::Config, |host| run(host, &all_but_checkpoints));
    assert_eq!(done, NOTHING);
    // The late one in its place.
    let mut checkpoints = files.iter().rev().filter(|(path, _)| !is_part(path));
    let [late, newest] = [0, 1].map(|_| checkpoints.next().unwrap());
    let another = || {
        all_but_checkpoints();
        for (path, bytes) in &files {
            let bytes = if path == newest.0 { late.1 } else { bytes };
            fs::write(other.path().join(path.file_name().unwrap()), bytes).unwrap();
        }
    };
    let expected = "another checkpoint than the one with this number";
    let done = refused(expected, ErrorKind::Input, |host| run(host, &another));
    assert_eq!(done, NOTHING);
    // Nothing was harmed.
    let ended = on_two_hosts(&cluster(4), |host| host.run(Some(&host.open(&folder)), 0));
    let [(first, done), (second, _)] = ended;
    assert!(first.is_ok() && second.is_ok() && !done.committed.is_empty());
}

#[test]
fn another_run_that_begins_before_all_hosts_have_read_the_checkpoint_ends_the_job() {
    let dir = tempfile::tempdir().unwrap();
    let folder = &folders(dir.path())[1];
    interrupted(folder);
    let expected = "another run of this job has begun";
    let done = refused(expected, ErrorKind::Config, |host| {
        let checkpoints = host.open(folder);
        if host.is_first() {
            drop(Store::open_run(folder).unwrap());
        }
        host.run(Some(&checkpoints), 0)
    });
    assert_eq!(done, NOTHING);
}

#[test]
fn all_hosts_have_checkpoints_or_none() {
    for host_without in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let folder = &folders(dir.path())[0];
        let expected = [
            "checkpoints: a directory is not set on host 0, and set on host 1",
            "checkpoints: a directory is set on host 0, and not set on host 1",
        ];
        let done = refused(expected[host_without], ErrorKind::Plan, |host| {
            let has_some = host.is_first() == (host_without == 1);
            let checkpoints = has_some.then(|| host.open(folder));
            host.run(checkpoints.as_ref(), 0)
        });
        assert_eq!(done[1 - host_without], NONE, "{host_without}");
    }
}

#[test]
fn hosts_that_wait_for_a_host_to_begin_end_when_it_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let folder = &folders(dir.path())[1];
    interrupted(folder);
    for is_first in [true, false] {
        // Its program ends before it starts the job.
        let ended = on_two_hosts(&cluster(5), |host| {
            let checkpoints = host.open(folder);
            match host.is_first() == is_first {
                true => Ok(()),
                false => host.run(Some(&checkpoints), 0),
            }
        });
        let (error, done) = &ended[usize::from(is_first)];
        assert_eq!(error.as_ref().unwrap_err().kind(), ErrorKind::Lost, "{error:?}");
        assert_eq!(*done, NONE);
    }
    let mut were_lost = 0;
    for after in 0..40 {
        let cluster = cluster(after);
        cluster.drop_after(after / 2, HostId(after as usize % 2));
        let ended = on_two_hosts(&cluster, |host| host.run(Some(&host.open(folder)), 0));
        for (ended, _) in ended {
            if let Err(error) = ended {
                assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
                were_lost += 1;
            }
        }
    }
    assert!(were_lost > 10, "{were_lost}");
}

#[test]
fn what_tasks_of_any_host_have_committed_at_their_end_is_in_no_later_checkpoint() {
    // A part that ends, and one that goes on.
    let describe = |env: &Environment, done: &Arc<Mutex<Done>>| {
        env.range(0..100).write(Noted::new(done));
        env.range(0..1 << 40).for_each(drop);
    };
    for seed in 0..6 {
        let dir = tempfile::tempdir().unwrap();
        let folder = &folders(dir.path())[0];
        let of_both = Arc::new(Mutex::new(Done::default()));
        let ended = on_two_hosts(&cluster(seed), |host| {
            let checkpoints = host.open(folder);
            describe(host.env, &of_both);
            let job = host.env.start_with(Some(&checkpoints.checkpoints))?;
            if !host.is_first() {
                job.take_checkpoint(&checkpoints)?;
                return wait_cancelled(job);
            }
            let (mut later, mut all) = (0, 0);
            // The first of the three may be the one with which the end of a task counts.
            while later < 3 {
                all += 1;
                assert!(all < 2000, "seed {seed}: the parts never end");
                job.drive_for(2);
                later += usize::from(lock(&of_both).committed.len() == 100);
                assert!(job.take_checkpoint(&checkpoints)?);
            }
            job.cancel();
            wait_cancelled(job)
        });
        ended.into_iter().for_each(|(ended, _)| ended.unwrap());
        let ended = on_two_hosts(&cluster(seed), |host| {
            let checkpoints = host.open(folder);
            describe(host.env, &host.done);
            let job = host.env.start_with(Some(&checkpoints.checkpoints))?;
            if host.is_first() {
                job.drive_for(20);
                job.cancel();
            }
            wait_cancelled(job)
        });
        for (ended, done) in ended {
            ended.unwrap();
            assert_eq!(done, Done { committed: BTreeSet::new(), opened: true }, "seed {seed}");
        }
    }
}

#[test]
fn a_job_is_suspended_when_all_hosts_have_committed_and_fails_where_one_cannot() {
    for (seed, fails) in (0..6).flat_map(|seed| [(seed, false), (seed, true)]) {
        let dir = tempfile::tempdir().unwrap();
        let folder = &folders(dir.path())[0];
        let ended = on_two_hosts(&cluster(seed), |host| {
            let checkpoints = host.open(folder);
            let sink = Noted { fails: fails && !host.is_first(), ..Noted::new(&host.done) };
            host.describe(sink);
            let job = host.env.start_with(Some(&checkpoints.checkpoints))?;
            if host.is_first() {
                job.drive_for(6);
            }
            job.suspend_now(&checkpoints);
            job.wait().map(drop)
        });
        let mut committed = BTreeSet::new();
        for (ended, mut done) in ended {
            let error = ended.unwrap_err();
            let kind = if fails { ErrorKind::Io } else { ErrorKind::Suspended };
            assert_eq!(error.kind(), kind, "seed {seed}: {error}");
            assert_eq!(error.to_string().contains("the table is locked"), fails, "{error}");
            committed.append(&mut done.committed);
        }
        // The next run commits all that the checkpoint has.
        let ended = on_two_hosts(&cluster(seed), |host| host.run(Some(&host.open(folder)), 0));
        for (ended, done) in ended {
            ended.unwrap();
            assert!(!done.committed.is_empty(), "seed {seed}");
            match fails {
                true => assert!(done.committed.is_superset(&committed), "seed {seed}"),
                false => assert_eq!(done.committed, committed, "seed {seed}"),
            }
        }
    }
}

#[test]
fn a_savepoint_is_answered_when_all_hosts_have_committed_and_with_the_error_of_one_that_cannot() {
    let cases = (0..3).flat_map(|seed| [None, Some(0), Some(1)].map(|failing| (seed, failing)));
    for (seed, failing) in cases {
        let dir = tempfile::tempdir().unwrap();
        let [saved, kept] = ["saved", "kept"].map(|name| dir.path().join(name));
        let folder = &folders(&saved)[0];
        let (of_both, answered) = (Arc::new(Mutex::new(Done::default())), Mutex::new(None));
        let ended = on_two_hosts(&cluster(seed), |host| {
            let checkpoints = host.open(folder);
            let fails = failing == Some(usize::from(!host.is_first()));
            host.describe(Noted { fails, ..Noted::new(&of_both) });
            let job = host.env.start_with(Some(&checkpoints.checkpoints))?;
            if host.is_first() {
                job.drive_for(20);
                let answer = job.savepoint_now(&checkpoints, &kept);
                *lock(&answered) = Some((answer, lock(&of_both).committed.clone()));
                job.cancel();
            } else {
                job.take_checkpoint(&checkpoints)?;
            }
            wait_cancelled(job)
        });
        let (answer, committed) = lock(&answered).take().unwrap();
        if failing.is_some() {
            let errors = ended.into_iter().map(|(ended, _)| ended.unwrap_err());
            for error in errors.chain([answer.unwrap_err()]) {
                assert_eq!(error.kind(), ErrorKind::Io, "seed {seed}, {failing:?}: {error}");
                assert!(error.to_string().contains("the table is locked"), "{error}");
            }
            assert!(!kept.exists(), "seed {seed}, {failing:?}");
            continue;
        }
        answer.unwrap().expect("the job goes on");
        ended.into_iter().for_each(|(ended, _)| ended.unwrap());
        // All that a run has that goes on from it, and by then.
        let copy = &folders(&kept)[0];
        let ended = on_two_hosts(&cluster(seed), |host| host.run(Some(&host.open(copy)), 0));
        for (ended, done) in ended {
            ended.unwrap();
            assert!(!committed.is_empty(), "seed {seed}");
            assert_eq!(done.committed, committed, "seed {seed}");
        }
    }
}
