//! Jobs on hosts that encrypt their connections: environments on threads of this process, over loopback.

mod certificates;

use certificates::Authority;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use thalweg::check::free_port;
use thalweg::config::{Config, HostConfig, Secret, Tls};
use thalweg::{Environment, ErrorKind, Result};

fn host(id: usize, count: usize, port: u16, tls: Option<Tls>) -> HostConfig {
    let secret = Secret::new("the secret of these tests");
    let mut host = HostConfig::new(id, count, format!("127.0.0.1:{port}"), secret);
    host.connect_timeout = Duration::from_secs(30);
    host.tls = tls;
    host
}

fn config(cores: usize) -> Config {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(cores).unwrap();
    config
}

/// Runs a program on hosts with these cores, each with a certificate of its own; returns what it returned on each.
fn on_hosts<T: Send>(
    cores: &[usize],
    program: impl Fn(usize, &Environment) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let (port, program, authority) = (free_port(), &program, Authority::new("tests"));
    std::thread::scope(|scope| {
        let start = |(id, own): (usize, &usize)| {
            let (config, host) =
                (config(*own), host(id, cores.len(), port, Some(authority.host())));
            scope.spawn(move || program(id, &Environment::on_hosts(config, host)?))
        };
        let threads: Vec<_> = cores.iter().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn words_are_counted_the_same_as_on_one_host() {
    let words = |env: &Environment| {
        // Some 20 MB in all, each record in two exchanges.
        let text = env.range(0..60_000u64).map(|n| format!("word-number-{n} {} {:0300}", n % 7, n));
        let words = text
            .shuffle()
            .flat_map(|line| line.split(' ').map(str::to_owned).collect::<Vec<_>>())
            .shuffle();
        let counts = words.group_by(|word| word.clone()).count().unkey();
        let often = counts.filter(|(_, count)| *count > 1).collect::<Vec<_>>();
        let bytes = env.range(0..20_000u64).map(|n| format!("{n:0500}")).shuffle();
        let bytes = bytes.map(|text| text.len() as u64).sum(|n| *n).collect_one();
        env.run()?;
        let mut often = often.take()?;
        often.sort();
        Ok((often, bytes.take()?))
    };
    let expected = words(&Environment::new()).unwrap();
    assert_eq!((expected.0.len(), expected.1), (7, Some(10_000_000)));
    for result in on_hosts(&[2, 1, 1], |_, env| words(env)) {
        assert_eq!(result.unwrap(), expected);
    }
}

#[test]
fn loops_span_hosts() {
    let left = on_hosts(&[1, 2], |_, env| {
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
    for left in left {
        let mut left = left.unwrap();
        left.sort();
        assert_eq!(left, (20..120).collect::<Vec<_>>());
    }
}

#[test]
fn a_failure_on_one_host_is_the_outcome_on_all() {
    for result in on_hosts(&[1, 1, 1], |_, env| {
        env.iter(0..900i32).shuffle().map(|n| 10 / (n - 500)).for_each(drop);
        env.run()
    }) {
        let error = result.unwrap_err();
        assert!(error.to_string().contains("attempt to divide by zero"), "{error}");
    }
}

#[test]
fn a_host_that_has_left_is_lost_to_the_others() {
    let ended = on_hosts(&[1, 1, 1], |id, env| {
        let run = || {
            env.iter(0..100u32).shuffle().for_each(drop);
            env.run()
        };
        run()?;
        // Its environment is dropped while the others describe another job.
        if id == 1 { Ok(()) } else { run() }
    });
    assert!(ended[1].is_ok());
    for id in [0, 2] {
        let error = ended[id].as_ref().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Lost);
        let expected = "host 1 is lost, and with it the tasks that ran there: it has left";
        assert!(error.to_string().starts_with(expected), "{error}");
    }
}

/// What two hosts send each other, and what is done with it on the way.
#[derive(Default)]
struct Relay {
    seen: Mutex<Vec<u8>>,
    /// Whether it takes bytes and drops them.
    cuts: AtomicBool,
    /// Whether it changes a byte.
    changes: AtomicBool,
}

impl Relay {
    /// Begins to forward what comes to a port, which it returns, to another one.
    fn start(self: &Arc<Self>, to: u16) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let relay = Arc::clone(self);
        std::thread::spawn(move || {
            for from in listener.incoming().map_while(Result::ok) {
                // It closes what it cannot forward yet, and the host tries again.
                let Ok(to) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                let (Ok(from_too), Ok(to_too)) = (from.try_clone(), to.try_clone()) else { return };
                relay.forward(from, to);
                relay.forward(to_too, from_too);
            }
        });
        port
    }

    fn forward(self: &Arc<Self>, mut from: TcpStream, mut to: TcpStream) {
        let relay = Arc::clone(self);
        std::thread::spawn(move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                let bytes = &mut bytes[..read];
                relay.seen.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
                if relay.changes.swap(false, Ordering::Relaxed) {
                    bytes[read / 2] ^= 1;
                }
                if !relay.cuts.load(Ordering::Relaxed) && to.write_all(bytes).is_err() {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Both);
        });
    }

    /// Runs a program on two hosts that are connected by this.
    fn run<T: Send>(
        self: &Arc<Self>,
        tls: bool,
        program: impl Fn(usize, &Environment) -> Result<T> + Sync,
    ) -> [Result<T>; 2] {
        let (first, program) = (free_port(), &program);
        let (relayed, authority) = (self.start(first), Authority::new("tests"));
        let host = |id: usize| {
            let mut host = host(id, 2, relayed, tls.then(|| authority.host()));
            host.lost_after = Duration::from_millis(1500);
            host.listen = (id == 0).then(|| format!("127.0.0.1:{first}"));
            move || program(id, &Environment::on_hosts(config(1), host)?)
        };
        std::thread::scope(|scope| {
            let threads = [0, 1].map(|id| scope.spawn(host(id)));
            threads.map(|thread| thread.join().unwrap())
        })
    }
}

#[test]
fn nothing_that_hosts_send_can_be_read_on_the_way() {
    for tls in [false, true] {
        let relay = Arc::new(Relay::default());
        let results = relay.run(tls, |_, env| {
            let names = env.range(0..2000u64).map(|n| format!("a patient's name {n}")).shuffle();
            let count = names.count().collect_one();
            env.run()?;
            count.take()
        });
        for result in results {
            assert_eq!(result.unwrap(), Some(2000));
        }
        let seen = relay.seen.lock().unwrap();
        let contains = |text: &[u8]| seen.windows(text.len()).any(|found| found == text);
        assert!(seen.len() > 20_000, "the hosts were connected by the relay");
        assert_eq!(contains(b"a patient's name 17"), !tls);
        // Nor what hosts are.
        assert_eq!(contains(b"thalweg\n"), !tls);
    }
}

#[test]
fn what_is_changed_on_the_way_ends_the_job() {
    let relay = Arc::new(Relay::default());
    let ended = relay.run(true, |id, env| {
        env.iter(0u64..).shuffle().for_each(drop);
        let job = env.start()?;
        if id == 0 {
            std::thread::sleep(Duration::from_millis(200));
            relay.changes.store(true, Ordering::Relaxed);
        }
        job.wait().map(drop)
    });
    let errors = ended.map(|ended| ended.unwrap_err());
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Lost), "{errors:?}");
    let failed = "its connection is broken: TLS failed: ";
    assert!(errors.iter().any(|error| error.to_string().contains(failed)), "{errors:?}");
}

#[test]
fn a_network_that_is_cut_ends_the_job_on_both_sides() {
    let relay = Arc::new(Relay::default());
    let ended = relay.run(true, |id, env| {
        env.iter(0u64..).shuffle().for_each(drop);
        let job = env.start()?;
        if id == 0 {
            std::thread::sleep(Duration::from_millis(200));
            relay.cuts.store(true, Ordering::Relaxed);
        }
        job.wait().map(drop)
    });
    let errors = ended.map(|ended| ended.unwrap_err());
    assert!(errors.iter().all(|error| error.kind() == ErrorKind::Lost), "{errors:?}");
    // Which of them finds it first closes the connection.
    let silent = "nothing arrived from it for";
    assert!(errors.iter().any(|error| error.to_string().contains(silent)), "{errors:?}");
}
