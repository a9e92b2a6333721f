//! Jobs on several hosts that are connected by TCP: environments on threads of this process, over loopback.

use std::collections::HashSet;
use std::net::TcpListener;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use thalweg::config::{Config, HostConfig, Scheduler, Secret};
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Environment, ErrorKind, Result};

/// A port that nobody listens on, below those that the system gives away.
fn free_port() -> u16 {
    static GIVEN: Mutex<Option<HashSet<u16>>> = Mutex::new(None);
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let given = given.get_or_insert_default();
    let begin = std::process::id().wrapping_mul(131);
    let mut ports = (0..20_000).map(|step| 10_240 + (begin.wrapping_add(step) % 20_000) as u16);
    let free =
        |port: &u16| !given.contains(port) && TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = ports.find(free).expect("a port is free");
    given.insert(port);
    port
}

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
    program: impl Fn(usize, &Environment) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let (port, program) = (free_port(), &program);
    std::thread::scope(|scope| {
        let threads: Vec<_> = cores
            .iter()
            .enumerate()
            .map(|(id, own)| {
                let (config, host) = (config(*own), host(id, cores.len(), port));
                scope.spawn(move || program(id, &Environment::on_hosts(config, host)?))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// As [`on_hosts`], for programs that succeed and return the same on each host, in any order.
fn agreed<T: Send + Ord + std::fmt::Debug>(
    cores: &[usize],
    program: impl Fn(&Environment) -> Result<Vec<T>> + Sync,
) -> Vec<T> {
    let results = on_hosts(cores, |_, env| program(env));
    let mut results = results.into_iter().map(|result| {
        let mut records = result.unwrap();
        records.sort();
        records
    });
    let first = results.next().unwrap();
    results.for_each(|other| assert_eq!(other, first));
    first
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
