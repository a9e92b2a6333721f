//! Tests of reports and orders that pass through other hosts.

use super::*;
use crate::data::splitmix64;
use crate::net::TestNetwork;
use crate::runtime::TaskTimes;
use crate::sync::AtomicUsize;

/// Seven hosts with a task each, in a binary tree: 1 and 4 report to the first, 2 and 3 to 1, 5 and 6 to 4.
struct Seven {
    network: Arc<TestNetwork>,
    jobs: Vec<Arc<Job>>,
    random: u64,
}

/// The host that each reports to.
const PARENTS: [usize; 7] = [0, 0, 1, 1, 0, 4, 4];

impl Seven {
    fn new(seed: u64) -> Self {
        let network = Arc::new(TestNetwork::by_tree_of(2));
        let job = |host: usize| {
            let signals = Arc::new(Signals::default());
            Job::new(Arc::clone(&signals), 1, network.links(HostId(host), 7, &signals))
        };
        let jobs = (0..7).map(job).collect();
        Self { network, jobs, random: seed }
    }

    fn draw(&mut self) -> usize {
        splitmix64(&mut self.random) as usize
    }

    /// Delivers a frame, if there is any.
    fn deliver(&mut self) -> bool {
        let drawn = self.draw();
        self.network.deliver(drawn)
    }

    /// Calls `act` for each of these hosts, in a random order, and delivers frames in between; after each step calls `look`
    /// with the number of hosts that have acted.
    fn each(
        &mut self,
        mut hosts: Vec<usize>,
        act: impl Fn(usize, &Job),
        mut look: impl FnMut(&Self, usize),
    ) {
        let count = hosts.len();
        while !hosts.is_empty() {
            if !self.draw().is_multiple_of(3) && self.deliver() {
                look(self, count - hosts.len());
                continue;
            }
            let next = self.draw() % hosts.len();
            let host = hosts.swap_remove(next);
            let job: &Job = &self.jobs[host];
            act(host, job);
            look(self, count - hosts.len());
        }
    }

    /// Delivers all frames.
    fn settle(&mut self) {
        while self.deliver() {}
    }

    /// Describes the same job on all hosts, and starts their tasks.
    fn begin(&mut self) {
        let begun = Arc::new(AtomicUsize::new(0));
        let describe = |_: usize, job: &Job| {
            let begun = Arc::clone(&begun);
            let start = move || _ = begun.fetch_add(1, Ordering::Relaxed);
            job.start(Description::of(7, Vec::new), Box::new(start));
        };
        self.each((0..7).collect(), describe, |_, described| {
            assert!(described == 7 || begun.load(Ordering::Relaxed) == 0);
        });
        self.settle();
        assert_eq!(begun.load(Ordering::Relaxed), 7);
    }

    /// Whether all frames are between hosts of which one reports to the other.
    fn is_by_the_tree(&self) -> bool {
        let reports = |(from, to): (HostId, HostId)| from.0 > 0 && PARENTS[from.0] == to.0;
        self.network.ways().into_iter().all(|(from, to)| reports((from, to)) || reports((to, from)))
    }
}

/// The counts of a host's task.
fn counts(host: usize) -> TaskCounts {
    let times = TaskTimes { turns: host as u64, ..TaskTimes::default() };
    TaskCounts { times, ..TaskCounts::default() }
}

#[test]
fn a_barrier_is_past_on_all_hosts_once_it_has_left_the_tasks_of_all() {
    for seed in 0..50 {
        let mut hosts = Seven::new(seed);
        let barrier = Requested::default();
        barrier.number(Epoch(1));
        let pass = |_: usize, job: &Job| job.passed(0, Epoch(1));
        hosts.each((0..7).collect(), pass, |hosts, passed| {
            let is_past = hosts.jobs.iter().any(|job| job.is_past(&barrier));
            assert!(passed == 7 || !is_past, "{passed} of 7");
            assert!(hosts.is_by_the_tree());
        });
        hosts.settle();
        assert!(hosts.jobs.iter().all(|job| job.is_past(&barrier)), "seed {seed}");
        assert!(hosts.jobs[0].hosts_behind(&barrier).is_empty());
    }
}

#[test]
fn the_first_host_knows_one_host_behind_a_barrier_of_those_that_report_through_another() {
    for seed in 0..50 {
        let mut hosts = Seven::new(seed);
        let barrier = Requested::default();
        barrier.number(Epoch(1));
        let pass = |_: usize, job: &Job| job.passed(0, Epoch(1));
        hosts.each(vec![0, 1, 4, 6], pass, |_, _| {});
        hosts.settle();
        assert_eq!(hosts.jobs[0].hosts_behind(&barrier), [HostId(2), HostId(5)]);
        hosts.jobs[2].passed(0, Epoch(1));
        hosts.settle();
        assert_eq!(hosts.jobs[0].hosts_behind(&barrier), [HostId(3), HostId(5)]);
    }
}

#[test]
fn barriers_are_requested_by_any_host_and_ordered_through_others() {
    for seed in 0..20 {
        let mut hosts = Seven::new(seed);
        let by = 1 + seed as usize % 6;
        let barrier = hosts.jobs[by].ask_barrier(false);
        assert_eq!(hosts.network.ways(), BTreeSet::from([(HostId(by), HostId(0))]));
        hosts.deliver();
        let ordered = [(HostId(0), HostId(1)), (HostId(0), HostId(4))];
        assert_eq!(hosts.network.ways(), BTreeSet::from(ordered));
        hosts.settle();
        assert_eq!(barrier.epoch(), Some(Epoch(1)));
        assert!(hosts.jobs.iter().all(|job| job.signals().epoch() == Epoch(1)));
    }
}

#[test]
fn a_barrier_that_is_torn_on_any_host_is_known_to_be_torn_on_all() {
    for seed in 0..20 {
        let mut hosts = Seven::new(seed);
        let by = 1 + seed as usize % 6;
        hosts.jobs[by].signals().tear(Epoch(2), "merge".into());
        assert_eq!(hosts.network.ways(), BTreeSet::from([(HostId(by), HostId(0))]));
        hosts.deliver();
        let ordered = [(HostId(0), HostId(1)), (HostId(0), HostId(4))];
        assert_eq!(hosts.network.ways(), BTreeSet::from(ordered));
        hosts.settle();
        for job in &hosts.jobs {
            let are_torn = [1, 2].map(|epoch| job.signals().is_torn(Epoch(epoch)));
            assert_eq!(are_torn, [false, true], "seed {seed}");
        }
        // As each task does that the barrier reaches. It is passed on once.
        hosts.jobs[3].signals().tear(Epoch(2), "merge".into());
        hosts.deliver();
        assert!(hosts.network.ways().is_empty());
        // An earlier barrier that has reached another host is passed on, too.
        hosts.jobs[6].signals().tear(Epoch(1), "zip".into());
        hosts.settle();
        assert!(hosts.jobs.iter().all(|job| job.signals().is_torn(Epoch(1))), "seed {seed}");
    }
}

#[test]
fn a_job_that_any_host_drains_is_drained_on_all_and_ordered_once() {
    for seed in 0..20 {
        let mut hosts = Seven::new(seed);
        hosts.jobs[3].drain();
        hosts.settle();
        assert!(hosts.jobs.iter().all(|job| job.signals().draining()));
        hosts.jobs[0].drain();
        hosts.jobs[6].drain();
        assert_eq!(hosts.network.ways(), BTreeSet::from([(HostId(6), HostId(0))]));
        hosts.deliver();
        assert!(hosts.network.ways().is_empty());
    }
}

#[test]
fn what_hosts_save_and_commit_is_gathered_through_others() {
    for seed in 0..50 {
        let mut hosts = Seven::new(seed);
        for epoch in [Epoch(1), Epoch(3)] {
            let first = Arc::clone(&hosts.jobs[0]);
            first.ask_to_save(epoch, BTreeSet::new());
            hosts.settle();
            let save = |host: usize, job: &Job| {
                let Some(SaveOrder::Save(to_save)) = job.next_order() else {
                    panic!("host {host} is to save");
                };
                assert_eq!(to_save.epoch, epoch);
                let saved = match host {
                    5 => Err(Error::new(ErrorKind::Io, "the disk is full")),
                    _ => Ok(Some(vec![host as u8])),
                };
                job.has_saved(epoch, saved);
            };
            hosts.each((1..7).collect(), save, |hosts, saved| {
                assert!(saved == 6 || hosts.jobs[0].saved().is_none());
                assert!(hosts.is_by_the_tree());
            });
            hosts.settle();
            let saved = first.saved().unwrap();
            let saved: Vec<_> = saved.into_iter().map(|saved| saved.ok().flatten()).collect();
            let expected = (1..7).map(|host| Some(vec![host]).filter(|_| host != 5));
            assert_eq!(saved, expected.collect::<Vec<_>>());

            first.counts(epoch, true, Counted { number: 1, bytes: 2, took: 3 });
            hosts.settle();
            let commit = |_: usize, job: &Job| {
                assert!(matches!(job.next_order(), Some(SaveOrder::Counts { .. })));
                job.has_committed(epoch);
            };
            hosts.each((1..7).collect(), commit, |hosts, committed| {
                assert!(committed == 6 || !hosts.jobs[0].have_committed(epoch));
                assert!(hosts.is_by_the_tree());
            });
            hosts.settle();
            assert!(first.have_committed(epoch));
        }
    }
}

#[test]
fn a_job_that_a_host_describes_differently_fails_on_all() {
    for seed in 0..20 {
        let mut hosts = Seven::new(seed);
        let describe = |host: usize, job: &Job| {
            let fingerprint = if host == 3 || host == 5 { 8 } else { 7 };
            job.start(Description::of(fingerprint, Vec::new), Box::new(|| ()));
        };
        hosts.each((0..7).collect(), describe, |hosts, described| {
            assert!(described == 7 || hosts.is_by_the_tree());
        });
        hosts.settle();
        for job in &hosts.jobs {
            let error = job.signals().failure().unwrap();
            let expected = "hosts 0 and 3 have described different jobs";
            assert!(error.message().starts_with(expected), "{error}");
        }
    }
}

/// Ends of hosts whose tasks end well. Some have a file to publish, which succeeds or fails on host 5.
fn ends(seed: u64, publishes: Option<bool>, mut look: impl FnMut(&Seven, usize)) -> Seven {
    let mut hosts = Seven::new(seed);
    for host in [2, 5].into_iter().filter(|_| publishes.is_some()) {
        let can = host == 2 || publishes == Some(true);
        let rename = move || match can {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::Io, "the disk is full").in_operator("sink")),
        };
        let file = Publish::File { name: "a".to_owned(), rename: Box::new(rename) };
        hosts.jobs[host].signals().on_success(move || Ok(file));
    }
    hosts.begin();
    let end = |host: usize, job: &Job| job.one_ended(0, counts(host));
    hosts.each((0..7).collect(), end, &mut look);
    while hosts.deliver() {
        look(&hosts, 7);
    }
    hosts
}

#[test]
fn a_job_ends_well_on_all_hosts_when_the_tasks_of_all_have_and_each_knows_what_all_have_counted() {
    for seed in 0..60 {
        let publishes = [None, Some(true), Some(false)][seed as usize % 3];
        let hosts = ends(seed, publishes, |hosts, ended| {
            let is_over = hosts.jobs.iter().any(|job| job.is_over());
            assert!(ended == 7 || !is_over, "{ended} of 7");
            // The decision comes to each host from the first.
            assert!(ended == 7 || hosts.is_by_the_tree());
        });
        for job in &hosts.jobs {
            assert!(job.is_over());
            let counted = job.counted_on_hosts().unwrap();
            let turns: Vec<_> = counted.iter().flatten().map(|task| task.times.turns).collect();
            assert_eq!((counted.len(), turns), (7, (0..7).collect()));
            match (job.outcome(), publishes) {
                (Err(error), Some(false)) => {
                    assert_eq!((error.host(), error.operator()), (Some(5), Some("sink")));
                }
                (outcome, _) => assert!(outcome.is_ok() && publishes != Some(false)),
            }
        }
    }
}

#[test]
fn a_host_through_which_others_report_may_be_lost_whenever_and_the_others_have_one_outcome() {
    let (mut well, mut ill, mut without) = (0, 0, 0);
    for seed in 0..400 {
        let (lost, mut left) = ([1, 4][seed as usize % 2], seed / 2 % 60);
        let mut hosts = ends(seed, None, |hosts, _| {
            if left == 1 {
                hosts.network.lose(HostId(lost));
            }
            left = left.saturating_sub(1);
        });
        drop(hosts.jobs.remove(lost));
        let others = || hosts.jobs.iter();
        assert!(others().all(|job| job.is_over()), "seed {seed}");
        let outcomes: BTreeSet<_> =
            others().map(|job| job.outcome().map_err(|error| error.to_string())).collect();
        assert_eq!(outcomes.len(), 1, "seed {seed}: {outcomes:?}");
        match outcomes.first() {
            Some(Ok(())) => {
                well += 1;
                without += others().filter(|job| job.counted_on_hosts().is_none()).count();
            }
            _ => ill += 1,
        }
    }
    assert!(well > 20 && ill > 20, "{well} ended well, {ill} ill");
    assert!(without > 0, "the totals never came too late");
}

#[test]
fn hosts_that_lose_each_other_while_files_are_published_stall_no_other() {
    let (mut well, mut ill) = (0, 0);
    for seed in 0..240 {
        // The first host has lost none.
        let (one, other) = [(1, 2), (1, 3), (4, 5), (5, 6)][seed as usize % 4];
        let mut left = seed / 4 % 60;
        let hosts = ends(seed, Some(true), |hosts, _| {
            if left == 1 {
                hosts.network.cut(HostId(one), HostId(other));
            }
            left = left.saturating_sub(1);
        });
        let jobs = || hosts.jobs.iter();
        assert!(jobs().all(|job| job.is_over()), "seed {seed}");
        let outcomes: BTreeSet<_> =
            jobs().map(|job| job.outcome().map_err(|error| error.to_string())).collect();
        assert_eq!(outcomes.len(), 1, "seed {seed}: {outcomes:?}");
        match outcomes.first() {
            Some(Ok(())) => well += 1,
            _ => ill += 1,
        }
    }
    assert!(well > 20 && ill > 20, "{well} ended well, {ill} ill");
}

#[test]
fn hosts_that_have_not_lost_the_one_between_wait_for_no_totals_either() {
    let (job, network, _) = on_host(HostId(1));
    let receiver = lock(&network.receiver).clone().expect("the job is there");
    let from_first = |message: JobMessage| receiver.take(HostId::FIRST, &message.encoded());
    job.one_ended(0, TaskCounts::default());
    from_first(JobMessage::Decided(Ok(false)));
    assert!(!job.is_over(), "the totals are to come");
    from_first(JobMessage::WithoutTotals);
    assert!(job.is_over() && job.outcome().is_ok());
    assert!(job.counted_on_hosts().is_none());
}

#[test]
fn a_message_that_comes_the_wrong_way_fails_the_job() {
    let (job, network, _) = on_host(HostId(1));
    let receiver = lock(&network.receiver).clone().expect("the job is there");
    drop(network.sent());
    receiver.take(HostId::FIRST, &JobMessage::Committed(Epoch(1)).encoded());
    assert!(job.signals().stopped());
    let sent = network.sent();
    let [JobMessage::Failed(error)] = &sent[..] else { panic!("{} messages", sent.len()) };
    assert!(error.message().contains("the wrong way"), "{error}");
}

#[test]
fn the_decision_waits_for_no_totals() {
    let (job, network, _) = on_host(HostId::FIRST);
    let receiver = lock(&network.receiver).clone().expect("the job is there");
    job.one_ended(0, TaskCounts::default());
    drop(network.sent());
    receiver.take(HostId(1), &ended(Ok(None)).encoded());
    let sent = network.sent();
    let is_in_order =
        matches!(&sent[..], [JobMessage::Decided(Ok(true)), JobMessage::Totals(_), ..]);
    assert!(is_in_order, "{} messages", sent.len());
}

#[test]
fn totals_of_many_hosts_are_sent_in_parts() {
    let counted: Vec<_> = (0..200).map(|host| vec![counts(host)]).collect();
    let clocks = vec![ClockOffset::new(1, 2, Duration::ZERO)];
    let (sent, mut arrived) = (Totals { counted, clocks }, Totals::default());
    let mut parts = 0;
    for message in sent.messages() {
        let frame = message.encoded();
        let Ok(JobMessage::Totals(part)) = decode_whole(&frame, JobMessage::decode) else {
            panic!("a part is what was sent");
        };
        parts += 1;
        arrived.add(part);
    }
    assert_eq!((parts, arrived.clocks), (4, sent.clocks));
    let turns = arrived.counted.iter().map(|host| host[0].times.turns);
    assert_eq!(turns.collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
}

#[test]
fn hosts_that_report_through_others_agree_on_rounds_and_know_the_same_of_clocks() {
    for seed in 0..10 {
        let count = 5 + seed as usize % 5;
        // With this seed modulo three, two hosts report to one.
        let cluster = Cluster::new(3 * seed + 2, 8, count);
        let config = Config { batch: BatchMode::Fixed { size: 5 }, ..Config::default() };
        let ended = on_cluster(&cluster, &config, &vec![1; count], &|env| {
            let states = env
                .range(0..60u64)
                .replay(4, 1u64, |numbers, state| {
                    numbers.with(state).map(|(n, state)| *n % 5 + *state)
                })
                .fold(|sum: &mut u64, n| *sum += n, |sum, other| *sum += other)
                .all_rounds(|state, sum| *state = sum % 1000);
            let states = states.collect::<Vec<_>>();
            let run = || -> Result<_> {
                let stats = env.start()?.wait()?;
                Ok((states.take()?, stats.clocks))
            };
            run().map_err(|error| error.to_string())
        });
        let rest: u64 = (0..60).map(|n| n % 5).sum();
        let expected = (0..4).fold(1, |state, _| (rest + 60 * state) % 1000);
        let hours = |host: usize| host as i64 * 3_600_000_000_000;
        let clocks: Vec<_> =
            (1..count).map(|at| ClockOffset::new(at, hours(at), Duration::ZERO)).collect();
        for host in ended {
            let (states, known) = host.unwrap();
            let states: Vec<_> = states.iter().map(|of| (of.state, of.rounds)).collect();
            assert_eq!((states, &known), (vec![(expected, 4)], &clocks), "{count} hosts");
        }
    }
}

#[test]
fn a_host_between_others_that_is_lost_leaves_them_with_one_outcome() {
    let (mut well, mut ill) = (0, 0);
    for step in 0..50 {
        // Of 7 hosts, 1 and 4 are between others; the first one decides.
        let lost = [1, 4, 2][step as usize % 3];
        let cluster = Cluster::new(3 * step + 2, 8, 7);
        cluster.drop_after(step * step, HostId(lost));
        let mut ended = on_cluster(&cluster, &Config::default(), &[1; 7], &|env| {
            env.iter(0..30).shuffle().for_each(drop);
            env.run().map_err(|error| error.to_string())
        });
        drop(ended.remove(lost));
        assert!(ended.iter().all(|host| *host == ended[0]), "{lost} at {}: {ended:?}", step * step);
        match ended[0] {
            Ok(()) => well += 1,
            Err(_) => ill += 1,
        }
    }
    assert!(well > 3 && ill > 3, "{well} ended well, {ill} ill");
}
