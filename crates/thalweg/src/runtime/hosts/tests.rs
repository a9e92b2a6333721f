//! Tests of jobs on several hosts.

mod trees;

use super::*;
use crate::check::{on_cluster, seeds};
use crate::config::{BatchMode, Config};
use crate::flow::{AtEnd, Publish};
use crate::memory::MemoryPool;
use crate::net::{Channel, Hosts, Network, Receiver};
use crate::runtime::{Cluster, LOST_AFTER, Outage};
use crate::sync::{AtomicBool, Ordering};
use std::collections::BTreeSet;

/// What a host sees of its jobs: the counts of the last one, or the error of one that lost a host.
type Seen = Result<Vec<(u64, u64)>, String>;

/// Runs two jobs on three hosts, of which one is dropped after so many steps; returns what each host saw.
fn with_a_loss(seed: u64, lost: HostId, after: u64) -> Vec<Seen> {
    with_an_outage(seed, after, Outage::Lost(vec![lost]))
}

/// Runs two jobs on three hosts, with an outage after so many steps; returns what each host saw.
fn with_an_outage(seed: u64, after: u64, outage: Outage) -> Vec<Seen> {
    let config = Config { batch: BatchMode::Fixed { size: 5 }, credit: 100, ..Config::default() };
    let cluster = Cluster::new(seed, 8, 3);
    cluster.begin_after(after, outage);
    on_cluster(&cluster, &config, &[1, 2, 1], &|env| {
        let once = |seed: u64| {
            let counts = env.iter(0..200).random(seed).group_by(|n| n % 7).count();
            let counts = counts.unkey().collect::<Vec<_>>();
            env.run()?;
            counts.take()
        };
        once(1).and_then(|_| once(2)).map_err(|error| {
            assert_eq!(error.kind(), ErrorKind::Lost, "{error}");
            error.to_string()
        })
    })
}

/// Whether both jobs have ended well. If not, one of these hosts must be named.
fn has_ended_well(seen: Seen, may_be_lost: &[usize]) -> bool {
    match seen {
        Ok(mut counts) => {
            counts.sort_unstable();
            let expected = (0..7).map(|key| (key, 28 + u64::from(key < 4)));
            assert_eq!(counts, expected.collect::<Vec<_>>());
            true
        }
        Err(error) => {
            let is_named = |host: &usize| error.contains(&format!("host {host} is lost"));
            assert!(may_be_lost.iter().any(is_named), "{error}, and not of {may_be_lost:?}");
            false
        }
    }
}

#[test]
fn times_between_hosts_are_converted_by_the_offset_of_their_clocks() {
    for seed in 0..6 {
        let cluster = Cluster::new(seed, 8, 3);
        let config = Config { batch: BatchMode::Fixed { size: 5 }, ..Config::default() };
        let stats = on_cluster(&cluster, &config, &[1, 2, 1], &|env| {
            let numbers = env.parallel_iter(|task, _| (0..3000u64).map(move |n| (task, n)));
            numbers.shuffle().for_each_parallel(drop);
            env.start().and_then(|job| job.wait()).map_err(|error| error.to_string())
        });
        for stats in stats.into_iter().map(Result::unwrap) {
            // The clocks of simulated hosts differ by hours.
            let hours = |host: usize| host as i64 * 3_600_000_000_000;
            let clocks = [1, 2].map(|at| ClockOffset::new(at, hours(at), Duration::ZERO));
            assert_eq!(stats.clocks, clocks);
            let received = &stats.stages[1];
            assert!(received.under_way_across_hosts >= 10, "{received:?}");
            assert!(received.under_way.count > received.under_way_across_hosts);
            assert!(received.under_way.max < Duration::from_secs(1), "{received:?}");
        }
    }
}

#[test]
fn what_is_in_flight_between_simulated_hosts_is_counted_and_bounded() {
    for seed in 0..4 {
        let cluster = Cluster::new(seed, 8, 2);
        let config = Config { memory: 1 << 20, ..Config::default() };
        let pools = on_cluster(&cluster, &config, &[2, 1], &|env| {
            let texts = env.range(0..20u64).flat_map(|_| (0..100).map(|n| format!("{n:01000}")));
            let lengths = texts.shuffle().map(|text: String| text.len() as u64);
            let total = lengths.reduce(|a, b| a + b).collect_one();
            env.run().map_err(|error| error.to_string())?;
            assert_eq!(total.take().unwrap(), Some(2_000_000));
            Ok(env.memory().clone())
        });
        drop(cluster);
        let pools: Vec<_> = pools.into_iter().map(Result::unwrap).collect();
        assert!(pools.iter().all(|pool| pool.in_flight() == 0), "seed {seed}: {pools:?}");
        // Shares of lanes are less than a quarter, and frames wait in the network beside them.
        assert!(pools.iter().all(|pool| pool.peak() < 1 << 19), "seed {seed}: {pools:?}");
        assert!(pools.iter().any(|pool| pool.peak() > 1 << 14), "seed {seed}: {pools:?}");
    }
}

#[test]
fn a_host_that_is_lost_ends_the_job_on_all_hosts_by_its_name() {
    let (mut well, mut ill) = (0, 0);
    for lost in [0, 1, 2] {
        for step in (0..60).step_by(3) {
            for seen in with_a_loss(step, HostId(lost), 40 * step) {
                match has_ended_well(seen, &[lost]) {
                    true => well += 1,
                    false => ill += 1,
                }
            }
        }
    }
    assert!(well > 6 && ill > 33, "{well} ended well, {ill} ill");
}

#[test]
fn hosts_that_are_lost_at_once_end_the_job_by_the_name_of_one_of_them() {
    let mut ill = 0;
    for lost in [&[0, 1][..], &[0, 2], &[1, 2], &[0, 1, 2]] {
        for step in 0..6 {
            let hosts = lost.iter().map(|host| HostId(*host)).collect();
            for seen in with_an_outage(step, 150 * step, Outage::Lost(hosts)) {
                ill += usize::from(!has_ended_well(seen, lost));
            }
        }
    }
    assert!(ill > 30, "{ill} ended ill");
}

#[test]
fn a_connection_that_is_cut_ends_the_job_on_all_hosts_by_the_name_of_one_of_its_ends() {
    let mut ill = 0;
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let ways = [(HostId(one), HostId(other)), (HostId(other), HostId(one))];
        for cut in [&ways[..1], &ways[1..], &ways] {
            for step in 0..6 {
                let short = Outage::Cut(cut.to_vec(), LOST_AFTER / 2);
                for seen in with_an_outage(step, 150 * step, short) {
                    assert!(has_ended_well(seen, &[]));
                }
                let long = Outage::Cut(cut.to_vec(), u64::MAX);
                for seen in with_an_outage(step, 150 * step, long) {
                    ill += usize::from(!has_ended_well(seen, &[one, other]));
                }
            }
        }
    }
    assert!(ill > 60, "{ill} ended ill");
}

#[test]
fn a_host_that_is_stopped_goes_on_unless_the_others_have_given_it_up() {
    let mut ill = 0;
    for stopped in 0..3 {
        for step in 0..6 {
            let short = Outage::Stopped(HostId(stopped), LOST_AFTER / 2);
            for seen in with_an_outage(step, 150 * step, short) {
                assert!(has_ended_well(seen, &[]));
            }
            let long = Outage::Stopped(HostId(stopped), 5 * LOST_AFTER);
            for (host, seen) in with_an_outage(step, 150 * step, long).into_iter().enumerate() {
                // It finds that others have closed their connections.
                let (all, own) = ([0, 1, 2], [stopped]);
                let may_be_lost = if host == stopped { &all[..] } else { &own };
                ill += usize::from(!has_ended_well(seen, may_be_lost));
            }
        }
    }
    assert!(ill > 20, "{ill} ended ill");
}

#[test]
fn barriers_that_several_hosts_request_at_once_cover_all_that_was_read_before() {
    const TASKS: usize = 4;
    /// The records that sources have read and sinks have got, by the task of the source.
    #[derive(Default)]
    struct Seen([Mutex<BTreeSet<(usize, u64)>>; 2]);

    for seed in 0..seeds(60) {
        let hosts = 3 + seed as usize % 2;
        let cores: Vec<_> =
            (0..hosts).map(|host| if host == 0 { 1 + TASKS - hosts } else { 1 }).collect();
        let batch = [BatchMode::Single, BatchMode::Fixed { size: 5 }][seed as usize / 2 % 2];
        let config = Config { batch, credit: 100, ..Config::default() };
        let seen = Arc::new(Seen::default());
        let cluster = Cluster::new(seed, 4, hosts);
        let ended = on_cluster(&cluster, &config, &cores, &|env| {
            let (sources, sinks) = (Arc::clone(&seen), Arc::clone(&seen));
            let numbers = env.parallel_iter(|task, _| (0u64..).map(move |n| (task, n)));
            let read = numbers.inspect(move |record| _ = lock(&sources.0[0]).insert(*record));
            read.shuffle().for_each_parallel(move |record| _ = lock(&sinks.0[1]).insert(record));
            let barriers = || {
                let job = env.start()?;
                for _ in 0..5 {
                    let read = lock(&seen.0[0]).clone();
                    job.barrier()?;
                    let missing = read.difference(&lock(&seen.0[1])).count();
                    assert_eq!(missing, 0, "of {} records, seed {seed}", read.len());
                }
                job.drain();
                job.wait()
            };
            barriers().map_err(|error: Error| error.to_string())
        });
        for host in ended {
            host.unwrap();
        }
    }
}

#[test]
fn a_host_whose_program_ends_before_the_job_of_the_others_is_lost_to_them() {
    let once = |env: &crate::Environment| {
        let count = env.iter(0..10u8).shuffle().count().collect_one();
        env.run()?;
        count.take()
    };
    for seed in 0..6 {
        let (ended, jobs) = (HostId(seed as usize % 3), seed / 3);
        let cluster = Cluster::new(seed, 8, 3);
        let outcomes = on_cluster(&cluster, &Config::default(), &[1, 2, 1], &|env| {
            let mut outcome = (0..jobs).try_for_each(|_| once(env).map(drop));
            if env.host() != ended {
                outcome = outcome.and_then(|()| once(env).map(drop));
            }
            outcome.map_err(|error| format!("{:?}: {error}", error.kind()))
        });
        for (host, outcome) in outcomes.into_iter().enumerate() {
            if host == ended.0 {
                outcome.unwrap();
                continue;
            }
            let error = outcome.unwrap_err();
            let expected = format!("Lost: host {} is lost", ended.0);
            assert!(error.starts_with(&expected) && error.contains(" has ended"), "{error}");
        }
    }
}

#[test]
fn a_job_that_hosts_describe_differently_fails_on_all_before_it_runs() {
    for seed in 0..20 {
        let differing = HostId(seed as usize % 3);
        let cluster = Cluster::new(seed, 8, 3);
        let ran = Arc::new(AtomicBool::new(false));
        let ended = on_cluster(&cluster, &Config::default(), &[1, 2, 1], &|env| {
            let ran = Arc::clone(&ran);
            let numbers = env.iter(0..100u64).inspect(move |_| ran.store(true, Ordering::Relaxed));
            let count = match env.host() == differing {
                true => numbers.filter(|n| n % 2 == 0).count().collect_one(),
                false => numbers.shuffle().count().collect_one(),
            };
            env.run().map_err(|error| format!("{:?}: {error}", error.kind()))?;
            count.take().map_err(|error| error.to_string())
        });
        let errors: Vec<_> = ended.into_iter().map(Result::unwrap_err).collect();
        let other = differing.0.max(1);
        let expected = format!("Plan: hosts 0 and {other} have described different jobs: ");
        assert!(errors[0].starts_with(&expected), "{}", errors[0]);
        assert!(errors[0].contains("filter (") && errors[0].contains("shuffle ("), "{}", errors[0]);
        assert!(errors.iter().all(|error| *error == errors[0]), "{errors:?}");
        assert!(!ran.load(Ordering::Relaxed), "a task has run");
    }
}

#[test]
fn a_host_that_is_lost_while_files_are_published_stalls_no_other() {
    let temp = tempfile::tempdir().unwrap();
    let (mut well, mut ill) = (0, 0);
    for step in 0..90 {
        let (lost, dir) = (HostId(step as usize % 3), temp.path().join(step.to_string()));
        let cluster = Cluster::new(step, 8, 3);
        cluster.drop_after(4 * step, lost);
        let ended = on_cluster(&cluster, &Config::default(), &[1, 2, 1], &|env| {
            env.iter(0..30).shuffle().write_lines_parallel(&dir);
            env.run().map_err(|error| error.to_string())
        });
        for result in ended {
            match result {
                Ok(()) => well += 1,
                Err(error) => {
                    assert!(error.contains(&format!("host {} is lost", lost.0)), "{error}");
                    ill += 1;
                }
            }
        }
    }
    assert!(well > 20 && ill > 20, "{well} ended well, {ill} ill");
}

#[test]
fn a_host_that_is_lost_leaves_the_others_with_one_outcome() {
    let (mut well, mut ill) = (0, 0);
    for step in 0..200 {
        // Not the first host, which decides.
        let lost = 1 + step as usize % 2;
        let cluster = Cluster::new(step, 8, 3);
        cluster.drop_after(2 * step, HostId(lost));
        let mut ended = on_cluster(&cluster, &Config::default(), &[1, 2, 1], &|env| {
            env.iter(0..30).shuffle().for_each(drop);
            env.run().map_err(|error| error.to_string())
        });
        drop(ended.remove(lost));
        assert_eq!(ended[0], ended[1], "host {lost} was lost at step {}", 2 * step);
        match ended[0] {
            Ok(()) => well += 1,
            Err(_) => ill += 1,
        }
    }
    assert!(well > 20 && ill > 20, "{well} ended well, {ill} ill");
}

/// The network of the first of two hosts: it loses the other one while the first one decides how the job ends.
#[derive(Default)]
struct Losing(Mutex<Option<Receiver>>);

impl Network for Losing {
    fn send(&self, to: HostId, _: Channel, frame: Vec<u8>) {
        let receiver = lock(&self.0).clone();
        if let Ok(JobMessage::Decided(_)) = decode_whole(&frame, JobMessage::decode) {
            receiver.expect("the job is there").lost(to, "it was dropped");
        }
    }

    fn open(&self, _: Channel, receiver: Receiver) {
        *lock(&self.0) = Some(receiver);
    }

    fn count_in(&self, _: &MemoryPool) {}

    fn close(&self, _: u64) {}
}

/// The network of one of two hosts, which keeps what that is to send.
#[derive(Default)]
struct Kept {
    receiver: Mutex<Option<Receiver>>,
    sent: Mutex<Vec<Vec<u8>>>,
}

impl Network for Kept {
    fn send(&self, _: HostId, _: Channel, frame: Vec<u8>) {
        lock(&self.sent).push(frame);
    }

    fn open(&self, _: Channel, receiver: Receiver) {
        *lock(&self.receiver) = Some(receiver);
    }

    fn count_in(&self, _: &MemoryPool) {}

    fn close(&self, _: u64) {}
}

impl Kept {
    /// The messages that were sent since the last call.
    fn sent(&self) -> Vec<JobMessage> {
        let frames = std::mem::take(&mut *lock(&self.sent));
        frames.iter().map(|frame| decode_whole(frame, JobMessage::decode).unwrap()).collect()
    }
}

/// Saves the end of a job, and notes what the other hosts have saved.
#[derive(Default)]
struct Saves {
    reports: Mutex<Vec<Vec<Vec<u8>>>>,
    /// How often a host has stored its end.
    stored: Mutex<u8>,
    is_away: AtomicBool,
}

impl AtEnd for Saves {
    fn ended_here(&self, _: &Signals) -> Result<Option<Vec<u8>>> {
        let mut stored = lock(&self.stored);
        *stored += 1;
        Ok(Some(vec![*stored]))
    }

    fn ended_before(&self, job: &Signals) -> Option<Vec<u8>> {
        match self.is_away.load(Ordering::Relaxed) {
            true => None,
            false => self.ended_here(job).unwrap(),
        }
    }

    fn before_publishing(&self, reports: Result<Vec<Vec<u8>>>, _: &Signals) -> Result<()> {
        lock(&self.reports).push(reports?);
        Ok(())
    }

    fn may_publish(&self) -> Result<()> {
        Ok(())
    }
}

/// A job with one task, on one of two hosts.
fn on_host(me: HostId) -> (Arc<Job>, Arc<Kept>, Arc<Saves>) {
    let (network, saves) = (Arc::new(Kept::default()), Arc::new(Saves::default()));
    let hosts = Hosts::several(me, vec![1; 2], Arc::clone(&network) as _);
    let signals = Arc::new(Signals::default());
    signals.at_end(Arc::clone(&saves) as _);
    let links = Links::new(Arc::new(hosts), 0, Arc::clone(&signals));
    (Job::new(signals, 1, links), network, saves)
}

/// What host 1 sends when its tasks have ended, with files to publish.
fn ended(saved: Answer) -> JobMessage {
    let prepared = Prepared { files: true, counted: Vec::new() };
    JobMessage::Prepared(vec![Ended { host: HostId(1), prepared, saved }])
}

#[test]
fn what_a_host_has_saved_at_its_end_is_given_back_when_it_is_replaced_and_not_when_it_counts() {
    let (job, network, saves) = on_host(HostId::FIRST);
    let receiver = lock(&network.receiver).clone().expect("the job is there");
    // What is given back when the other host reports this.
    let replaced_by = |saved: Answer| {
        receiver.take(HostId(1), &ended(saved).encoded());
        let replaced = network.sent().into_iter().filter_map(|message| match message {
            JobMessage::Order(SaveOrder::Replaced(saved)) => Some(saved),
            _ => None,
        });
        replaced.collect::<Vec<_>>()
    };
    let (saved, none) = (|number: u8| Ok(Some(vec![number])), Vec::<Vec<u8>>::new());
    assert_eq!(replaced_by(Err(Error::new(ErrorKind::Io, "the disk is full"))), none);
    assert_eq!(replaced_by(saved(1)), none);
    assert_eq!(replaced_by(saved(2)), [[1]]);
    job.one_ended(0, TaskCounts::default());
    assert_eq!(*lock(&saves.reports), [[[2]]]);
    // The last checkpoint has the second one.
    assert_eq!(replaced_by(saved(3)), none);
    assert_eq!(replaced_by(saved(4)), [[3]]);
    assert_eq!(*lock(&saves.reports), [[[2]]]);
}

/// So they have a thread of their own, and a storage that fails for long keeps the network's thread from nothing, over TCP and MPI
/// alike: not from reading, and not from signs of life.
#[test]
fn the_last_checkpoint_is_stored_where_messages_of_the_job_are_taken_which_may_block() {
    let (job, network, saves) = on_host(HostId::FIRST);
    let receiver = lock(&network.receiver).clone().expect("the job is there");
    assert!(receiver.may_block());
    job.one_ended(0, TaskCounts::default());
    assert!(lock(&saves.reports).is_empty());
    receiver.take(HostId(1), &ended(Ok(Some(vec![1]))).encoded());
    assert_eq!(*lock(&saves.reports), [[[1]]]);
}

#[test]
fn a_host_reports_its_end_again_once_it_has_ended_and_has_stored_it_again() {
    let (job, network, saves) = on_host(HostId(1));
    let reported = || {
        let reported = network.sent().into_iter().filter_map(|message| match message {
            JobMessage::Prepared(mut ended) => ended.pop()?.saved.unwrap(),
            _ => None,
        });
        reported.collect::<Vec<_>>()
    };
    let none = Vec::<Vec<u8>>::new();
    job.store_end_again();
    assert_eq!(reported(), none);
    job.one_ended(0, TaskCounts::default());
    assert_eq!(reported(), [[1]]);
    job.store_end_again();
    assert_eq!(reported(), [[2]]);
    saves.is_away.store(true, Ordering::Relaxed);
    job.store_end_again();
    assert_eq!(reported(), none, "what was stored before counts yet");
    saves.is_away.store(false, Ordering::Relaxed);
    job.stop();
    job.store_end_again();
    assert_eq!(reported(), none, "the job is over");
}

#[test]
fn a_host_that_can_save_nothing_at_its_end_counts_before_one_whose_disk_is_full() {
    let full = || Err(Error::new(ErrorKind::Io, "the disk is full"));
    let saved = |host: u8| Ok(Some(vec![host]));
    assert!(all_saved(vec![saved(1), full(), Ok(None)]).is_none());
    let error = all_saved(vec![saved(1), full(), saved(3)]).unwrap().unwrap_err();
    assert_eq!(error.message(), "the disk is full");
    assert_eq!(all_saved(vec![saved(1), saved(2)]).unwrap().unwrap(), [[1], [2]]);
    assert!(all_saved(Vec::new()).unwrap().unwrap().is_empty());
}

#[test]
fn a_host_that_is_lost_while_the_end_is_decided_is_not_waited_for() {
    let network = Arc::new(Losing::default());
    let hosts = Hosts::several(HostId::FIRST, vec![1; 2], Arc::clone(&network) as _);
    let signals = Arc::new(Signals::default());
    let file = || Publish::File { name: "a".to_owned(), rename: Box::new(|| Ok(())) };
    signals.on_success(move || Ok(file()));
    let links = Links::new(Arc::new(hosts), 0, Arc::clone(&signals));
    let job = Job::new(signals, 0, links);
    job.begin();
    let receiver = lock(&network.0).clone().expect("the job is there");
    receiver.take(HostId(1), &ended(Ok(None)).encoded());
    assert!(job.is_over());
    let error = job.outcome().unwrap_err();
    assert!(error.message().starts_with("host 1 is lost"), "{error}");
}

#[cfg(not(miri))]
#[test]
fn a_slow_disk_holds_up_no_other_job() {
    use crate::config::{HostConfig, Secret};
    use crate::runtime::{JobNumbers, Runtime, World};
    use crate::sync::join_all;
    use std::sync::mpsc::channel;

    let minute = Duration::from_secs(60);
    let port = crate::net::free_port().unwrap();
    let host = |id: usize| {
        let secret = Secret::new("the secret of this test");
        let hosts = HostConfig::new(id, 2, format!("127.0.0.1:{port}"), secret);
        let config = Config::default();
        let world = World::on_hosts(&config, &hosts).unwrap();
        let runtime = Runtime::new(config, world);
        let numbers = JobNumbers::first();
        // Without tasks: it ends well at once.
        let job = |file: Option<Publish>| {
            let signals = Arc::new(Signals::default());
            if let Some(file) = file {
                signals.on_success(move || Ok(file));
            }
            let links = runtime.links(&numbers, &signals).unwrap();
            let job = Job::new(signals, 0, links);
            let description = Description::of(7, Vec::new);
            runtime.start_on_hosts(&job, Vec::new(), description);
            job
        };
        let (begun, has_begun) = channel();
        let (go, gone) = channel();
        let rename = move || {
            let _ = begun.send(());
            gone.recv_timeout(minute).map_err(|_| Error::new(ErrorKind::Io, "nothing goes on"))
        };
        let slow = job(Some(Publish::File { name: "a".to_owned(), rename: Box::new(rename) }));
        has_begun.recv_timeout(minute).unwrap();
        let other = job(None);
        runtime.wait(&other).unwrap();
        other.outcome().unwrap();
        assert!(!slow.is_over());
        go.send(()).unwrap();
        runtime.wait(&slow).unwrap();
        slow.outcome().map_err(|error| error.to_string())
    };
    let ended = join_all(
        [0, 1].map(|id| -> Box<dyn FnOnce() -> _ + Send> { Box::new(move || host(id)) }).into(),
    );
    ended.into_iter().for_each(|host| host.unwrap().unwrap());
}
