//! Jobs on several hosts that are connected by TCP: environments on threads of this process, over loopback.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thalweg::check::free_port;
use thalweg::config::{BatchMode, Compression, Config, HostConfig, Scheduler, Secret};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Data, Environment, ErrorKind, Result};

const MINUTE: Duration = Duration::from_secs(60);

fn host(id: usize, count: usize, port: u16) -> HostConfig {
    let secret = Secret::new("the secret of these tests");
    let mut host = HostConfig::new(id, count, format!("127.0.0.1:{port}"), secret);
    host.connect_timeout = Duration::from_secs(30);
    host
}

fn config(cores: usize) -> Config {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).unwrap();
    config
}

/// Runs a program on hosts with these cores; returns what it returned on each.
fn on_hosts<T: Send>(
    cores: &[usize],
    set: impl Fn(&mut Config),
    program: impl Fn(usize, &Environment) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let (port, program) = (free_port(), &program);
    std::thread::scope(|scope| {
        let start = |(id, own): (usize, &usize)| {
            let (mut config, host) = (config(*own), host(id, cores.len(), port));
            set(&mut config);
            scope.spawn(move || program(id, &Environment::on_hosts(config, host)?))
        };
        let threads: Vec<_> = cores.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// As [`on_hosts`], for two hosts of one core that compress batches so.
fn on_compressing_hosts<T: Send>(
    compression: [Compression; 2],
    program: impl Fn(&Environment) -> Result<T> + Sync,
) -> [Result<T>; 2] {
    let (port, program) = (free_port(), &program);
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|id| {
            let mut host = host(id, 2, port);
            host.compression = compression[id];
            scope.spawn(move || program(&Environment::on_hosts(config(1), host)?))
        });
        threads.map(|thread| thread.join().unwrap())
    })
}

#[test]
fn compressed_batches_arrive_as_they_were_sent() {
    let program = |env: &Environment| {
        // Texts that shrink, and numbers that do not.
        let numbers = env.range(0..50_000u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let texts = numbers.shuffle().map(|n| (format!("the number {}", n % 1000), n)).shuffle();
        let counts =
            texts.group_by(|(text, _)| text.clone()).aggregate(|a| (a.count(), a.max(|(_, n)| *n)));
        let counts = counts.unkey().collect::<Vec<_>>();
        env.run()?;
        let mut counts = counts.take()?;
        counts.sort();
        Ok(counts)
    };
    let [plain, _] = on_compressing_hosts([Compression::None; 2], program).map(Result::unwrap);
    assert_eq!(plain.len(), 1000);
    for compressed in on_compressing_hosts([Compression::Lz4; 2], program) {
        assert_eq!(compressed.unwrap(), plain);
    }
}

#[test]
fn hosts_that_compress_differently_are_refused() {
    let expected = "hosts have to be configured with the same compression: host 0 has lz4, and host 1 has none";
    for refused in on_compressing_hosts([Compression::Lz4, Compression::None], |_| Ok(())) {
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Config, expected));
    }
}

/// As [`on_hosts`], for programs that succeed and return the same on each host, in any order.
fn agreed_with<T: Send + Ord + std::fmt::Debug>(
    cores: &[usize],
    set: impl Fn(&mut Config),
    program: impl Fn(&Environment) -> Result<Vec<T>> + Sync,
) -> Vec<T> {
    let results = on_hosts(cores, set, |_, env| program(env));
    let mut results = results.into_iter().map(|result| {
        let mut records = result.unwrap();
        records.sort();
        records
    });
    let first = results.next().unwrap();
    results.for_each(|other| assert_eq!(other, first));
    first
}

fn agreed<T: Send + Ord + std::fmt::Debug>(
    cores: &[usize],
    program: impl Fn(&Environment) -> Result<Vec<T>> + Sync,
) -> Vec<T> {
    agreed_with(cores, |_| (), program)
}

#[test]
fn records_cross_hosts() {
    for cores in [&[1, 1][..], &[2, 1, 1], &[1, 3, 1, 2, 1]] {
        let doubled = agreed(cores, |env| {
            let doubled =
                env.iter(0..10_000u64).shuffle().map(|n| n * 2).shuffle().collect::<Vec<_>>();
            env.run()?;
            doubled.take()
        });
        assert_eq!(doubled, (0..10_000u64).map(|n| n * 2).collect::<Vec<_>>());
    }
}

#[test]
fn latencies_between_hosts_come_with_the_offset_of_their_clocks() {
    for result in on_hosts(
        &[1, 1, 1],
        |config| {
            config.batch = BatchMode::Fixed { size: 5 };
            // The hosts start one after the other, so that their clocks would differ if they counted from there.
            std::thread::sleep(Duration::from_millis(200));
        },
        |_, env| {
            // The first jobs may be over before clocks are compared.
            let began = Instant::now();
            loop {
                env.iter(0..1000u64).shuffle().shuffle().for_each_parallel(drop);
                let stats = env.start()?.wait()?;
                let [_, first, second] = &stats.stages[..] else { panic!("{stats}") };
                // The same on all hosts, which run as many jobs.
                if stats.clocks.len() == 2
                    && first.under_way_across_hosts > 0
                    && second.under_way_across_hosts > 0
                {
                    return Ok(stats);
                }
                assert!(began.elapsed() < MINUTE, "no offsets are known: {stats}");
            }
        },
    ) {
        let stats = result.unwrap();
        for (clock, host) in stats.clocks.iter().zip([1, 2]) {
            // Both hosts count from the time of day, on one clock. Reading it takes microseconds, or the time that a thread is
            // interrupted for; if they counted from their start, they would be much further apart.
            let off = Duration::from_nanos(clock.nanos.unsigned_abs());
            assert_eq!(clock.host, host);
            assert!(off <= clock.uncertainty + Duration::from_millis(100), "{stats}");
            assert!(clock.uncertainty > Duration::ZERO && clock.uncertainty < MINUTE, "{stats}");
            let line = format!("\nclock offset to host {host}: ");
            assert!(stats.to_string().contains(&line), "{stats}");
        }
        for stage in &stats.stages[1..] {
            assert!(stage.under_way_across_hosts <= stage.under_way.count, "{stage:?}");
            assert!(stage.under_way_uncertainty > Duration::ZERO, "{stage:?}");
            assert!(stage.under_way.max < MINUTE, "{stage:?}");
        }
        let shown = stats.to_string();
        assert!(shown.contains(" measured between hosts, ± "), "{shown}");
    }
}

#[test]
fn words_are_counted_the_same_as_on_one_host() {
    let words = |env: &Environment| {
        let text = env.iter((0..3000).map(|n| format!("w{} w{} w{}", n % 7, n % 3, n % 500)));
        let words =
            text.shuffle().flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let counts = words.group_by(|word| word.clone()).count().unkey().collect::<Vec<_>>();
        env.run()?;
        counts.take()
    };
    let mut expected = words(&Environment::new()).unwrap();
    expected.sort();
    for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
        let set = |config: &mut Config| config.scheduler = scheduler;
        assert_eq!(agreed_with(&[2, 1, 1], set, words), expected);
    }
    // So little credit that senders wait for hosts all the time.
    assert_eq!(agreed_with(&[1, 2], |config| config.credit = 100, words), expected);
}

#[test]
fn windows_joins_and_loops_span_hosts() {
    let panes = agreed(&[1, 1, 1], |env| {
        let timed = env
            .iter(0..5000i64)
            .assign_timestamps(|n| Timestamp::from_millis(*n), Watermarks::monotonous());
        let counts = timed
            .shuffle()
            .group_by(|n| n % 5)
            .window(EventTimeWindow::tumbling(Duration::from_millis(100)))
            .count()
            .unkey()
            .map(|(key, pane)| (key, pane.value))
            .collect::<Vec<_>>();
        env.run()?;
        counts.take()
    });
    let expected: Vec<_> = (0..5).flat_map(|key| (0..50).map(move |_| (key, 20u64))).collect();
    assert_eq!(panes, expected);

    let joined = agreed(&[1, 2], |env| {
        let left = env.iter((0..200u32).map(|n| (n % 20, n)));
        let right = env.iter((0..30u32).map(|n| (n, n * n)));
        let joined = left
            .group_by(|pair| pair.0)
            .join(right.group_by(|pair| pair.0))
            .map(|_, (l, r)| (l.1, r.1))
            .unkey()
            .map(|(_, pair)| pair)
            .collect::<Vec<_>>();
        env.run()?;
        joined.take()
    });
    assert_eq!(joined, (0..200u32).map(|n| (n, (n % 20) * (n % 20))).collect::<Vec<_>>());

    let rounds = agreed(&[1, 1, 2], |env| {
        let (outcome, left) = env
            .iter(0..100u64)
            .shuffle()
            .iterate(20, 0, |numbers, _| numbers.map(|n| n + 1).shuffle())
            .fold(|count: &mut u64, _| *count += 1, |count, other| *count += other)
            .all_rounds(|all, count| *all += count);
        let (outcome, left) = (outcome.collect::<Vec<_>>(), left.collect::<Vec<_>>());
        env.run()?;
        assert_eq!(outcome.take()?[0].state, 2000);
        left.take()
    });
    assert_eq!(rounds, (20..120).collect::<Vec<_>>());
}

#[test]
fn files_are_written_once_by_all_hosts_and_read_in_parts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("numbers");
    let lines = agreed(&[1, 2], |env| {
        env.iter(0..5000u32).shuffle().map(|n| n.to_string()).write_lines_parallel(&path);
        env.run()?;
        let lines = env.lines(&path).map(str::to_owned).collect::<Vec<_>>();
        env.run()?;
        lines.take()
    });
    let mut expected: Vec<_> = (0..5000u32).map(|n| n.to_string()).collect();
    expected.sort();
    assert_eq!(lines, expected);
}

#[test]
fn a_failure_on_one_host_is_the_outcome_on_all() {
    for result in on_hosts(
        &[1, 1, 1],
        |_| (),
        |_, env| {
            env.iter(0..900i32).shuffle().map(|n| 10 / (n - 500)).for_each(drop);
            env.run()
        },
    ) {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("attempt to divide by zero"), "{error}");
    }
}

/// Panics once, when it is dropped while that is armed.
#[derive(Debug, Data)]
struct Armed(u64);

static ARMED: AtomicBool = AtomicBool::new(false);

impl Drop for Armed {
    fn drop(&mut self) {
        if !std::thread::panicking() && ARMED.swap(false, Ordering::SeqCst) {
            panic!("it went off");
        }
    }
}

#[test]
fn records_that_panic_when_they_are_dropped_do_not_keep_a_job_from_ending() {
    let went_off = AtomicUsize::new(0);
    for _ in 0..5 {
        let ended = on_hosts(
            &[1, 1],
            |_| (),
            |id, env| {
                let slow = env.iter(0u64..).map(Armed).shuffle().map(|armed| {
                    std::thread::sleep(Duration::from_millis(1));
                    std::mem::ManuallyDrop::new(armed).0
                });
                slow.for_each(drop);
                let job = env.start()?;
                if id == 0 {
                    std::thread::sleep(Duration::from_millis(30));
                    ARMED.store(true, Ordering::SeqCst);
                    job.cancel();
                }
                let ended = job.wait().map(drop);
                if id == 0 && !ARMED.swap(false, Ordering::SeqCst) {
                    went_off.fetch_add(1, Ordering::SeqCst);
                }
                // The threads that were there are still there.
                let after = env.range(0..1000).shuffle().count().collect_one();
                env.run()?;
                assert_eq!(after.take()?, Some(1000));
                ended
            },
        );
        for result in ended {
            assert!(matches!(result.unwrap_err().kind(), ErrorKind::Cancelled | ErrorKind::Panic));
        }
    }
    assert!(went_off.into_inner() > 0, "no record was dropped after the job was cancelled");
}

#[test]
fn a_job_is_cancelled_and_drained_from_any_host() {
    for from in 0..3 {
        let ended = on_hosts(
            &[1, 1, 1],
            |_| (),
            |id, env| {
                env.iter(0u64..).shuffle().for_each(drop);
                let job = env.start()?;
                if id == from {
                    job.cancel();
                }
                job.wait().map(drop)
            },
        );
        for result in ended {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::Cancelled);
        }
        let ended = on_hosts(
            &[1, 1, 1],
            |_| (),
            |id, env| {
                let count = env.iter(0u64..).shuffle().count().collect_one();
                let job = env.start()?;
                if id == from {
                    job.drain();
                }
                job.wait()?;
                count.take()
            },
        );
        let counts: Vec<_> = ended.into_iter().map(Result::unwrap).collect();
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
    }
}

#[test]
fn many_jobs_share_the_connections() {
    let sums = agreed(&[1, 1], |env| {
        let mut sums = Vec::new();
        for round in 0..30u64 {
            // Two side by side.
            let other = env.sharing();
            let start = |env: &Environment, step: u64| {
                let sum = env.iter(0..100u64).shuffle().map(move |n| n * step).sum(|n| *n);
                let sum = sum.collect_one();
                Ok::<_, thalweg::Error>((env.start()?, sum))
            };
            let (one, two) = (start(env, round)?, start(&other, round + 1)?);
            two.0.wait()?;
            one.0.wait()?;
            sums.extend([one.1.take()?, two.1.take()?].into_iter().flatten());
        }
        Ok(sums)
    });
    let mut expected: Vec<u64> = (0..30).flat_map(|n| [n * 4950, (n + 1) * 4950]).collect();
    expected.sort();
    assert_eq!(sums, expected);
}

#[test]
fn a_round_that_ends_slowly_holds_up_no_other_job() {
    let sums = on_hosts(
        &[1, 1],
        |_| (),
        |id, env| {
            let other = env.sharing();
            let (begun, has_begun) = channel();
            let (go, gone) = channel();
            let gone = Mutex::new(gone);
            // Each host has a head, which waits for the end of the round.
            let numbers = env.parallel_iter(|task, tasks| (task as u64..10).step_by(tasks));
            let sum = numbers
                .replay(3, 0, |numbers, _| numbers.map(|n| *n).shuffle())
                .fold(|part: &mut u64, n| *part += n, |part, other| *part += other)
                .until(move |sum, part| {
                    *sum += part;
                    // The second host hears of the round from the first.
                    if id == 1 {
                        let _ = begun.send(());
                        let gone = gone.lock().unwrap_or_else(PoisonError::into_inner);
                        gone.recv_timeout(MINUTE).expect("the other job ends before");
                    }
                    true
                })
                .map(|outcome| outcome.state)
                .collect_one();
            let job = env.start()?;
            if id == 1 {
                has_begun.recv_timeout(MINUTE).expect("the round ends");
            }
            let others = other.iter(0..100u64).shuffle().sum(|n| *n).collect_one();
            other.run()?;
            let _ = go.send(());
            job.wait()?;
            Ok((sum.take()?, others.take()?))
        },
    );
    sums.into_iter().for_each(|sums| assert_eq!(sums.unwrap(), (Some(45), Some(4950))));
}

#[test]
fn programs_that_differ_fail_on_all_hosts() {
    for result in on_hosts(
        &[1, 1],
        |_| (),
        |id, env| {
            let numbers = env.range(0..10 + id as u64).shuffle();
            let count = numbers.count().collect_one();
            env.run()?;
            count.take()
        },
    ) {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plan);
        let expected = "hosts 0 and 1 have described different jobs: operator 0, range (";
        assert!(error.to_string().starts_with(expected), "{error}");
        let ends = "): to is 10 on host 0, and 11 on host 1; do all have the same arguments and \
                    settings?";
        assert!(error.to_string().ends_with(ends), "{error}");
    }
}

#[test]
fn a_program_that_has_ended_leaves_others_with_an_error() {
    let ended = on_hosts(
        &[1, 1, 1],
        |_| (),
        |id, env| {
            let run = || {
                env.iter(0..100u32).shuffle().for_each(drop);
                env.run()
            };
            run()?;
            // Its environment is dropped while the others describe another job.
            if id == 1 { Ok(()) } else { run() }
        },
    );
    assert!(ended[1].is_ok());
    for id in [0, 2] {
        let error = ended[id].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
        let expected = "host 1 is lost, and with it the tasks that ran there: it has left";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let port = free_port();
    let refused = |config: Config, host: HostConfig| {
        let error = Environment::on_hosts(config, host).err().expect("it is refused");
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let mut deterministic = config(1);
    deterministic.scheduler = Scheduler::Deterministic { seed: 1 };
    assert!(refused(deterministic, host(0, 2, port)).starts_with("the deterministic scheduler"));
    assert!(refused(config(1), host(2, 2, port)).starts_with("there is no host 2 of 2"));
}

/// Forwards what comes from one side to the other, until it is cut: then it takes bytes and drops them.
fn forward(mut from: TcpStream, mut to: TcpStream, cut: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut bytes = vec![0; 64 << 10];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            if !cut.load(Ordering::Relaxed) && to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}

#[test]
fn a_network_that_is_cut_in_a_direction_ends_the_job_on_both_sides() {
    for (to_first, to_second) in [(true, false), (false, true), (true, true)] {
        // The second host connects to the first one by a proxy.
        let (proxy, first) = (TcpListener::bind("127.0.0.1:0").unwrap(), free_port());
        let proxied = proxy.local_addr().unwrap().port();
        let cuts = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let of_proxy = cuts.clone();
        std::thread::spawn(move || {
            for from in proxy.incoming().map_while(Result::ok) {
                // It closes what it cannot forward yet, and the host tries again.
                let Ok(to) = TcpStream::connect(("127.0.0.1", first)) else { continue };
                let (Ok(from_too), Ok(to_too)) = (from.try_clone(), to.try_clone()) else { return };
                forward(from, to, Arc::clone(&of_proxy[0]));
                forward(to_too, from_too, Arc::clone(&of_proxy[1]));
            }
        });
        let (both, cuts) = (Barrier::new(2), &cuts);
        let run = |id: usize| {
            let mut host = host(id, 2, proxied);
            host.lost_after = Duration::from_millis(1500);
            host.listen = (id == 0).then(|| format!("127.0.0.1:{first}"));
            let env = Environment::on_hosts(config(1), host)?;
            env.iter(0u64..).shuffle().for_each(drop);
            let job = env.start()?;
            both.wait();
            std::thread::sleep(Duration::from_millis(200));
            cuts[0].store(to_first, Ordering::Relaxed);
            cuts[1].store(to_second, Ordering::Relaxed);
            job.wait().map(drop)
        };
        let ended = std::thread::scope(|scope| {
            let threads = [scope.spawn(|| run(0)), scope.spawn(|| run(1))];
            threads.map(|thread| thread.join().unwrap())
        });
        for (id, ended) in ended.into_iter().enumerate() {
            let error = ended.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Lost);
            // Which of them finds it first, the other may hear.
            let expected = format!("host {} is lost, and with it", 1 - id);
            let heard = format!("host {id} is lost, and with it");
            let error = error.to_string();
            assert!(error.contains(&expected) || error.contains(&heard), "{error}");
        }
    }
}
