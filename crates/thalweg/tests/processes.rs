//! Jobs on several processes: this program starts itself as hosts, and does to them what happens to processes.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use thalweg::check::free_port;
use thalweg::config::{Config, HostConfig, Secret};
use thalweg::{Environment, Result};

const MINUTE: Duration = Duration::from_secs(60);
const SECRET: &str = "the secret of these processes";
/// Marks what a host says to the test.
const MARK: &str = "host says: ";

/// Not a test: what a host does that a test has started.
#[test]
fn host_of_a_test() {
    let Ok(program) = std::env::var("TEST_PROGRAM") else { return };
    let said = match run_host(&program) {
        Ok(result) => result,
        Err(error) => format!("{:?}: {error}", error.kind()),
    };
    println!("{MARK}{said}");
}

fn run_host(program: &str) -> Result<String> {
    let given = |name: &str| std::env::var(name).expect("the test sets it");
    let number = |name: &str| given(name).parse::<usize>().expect("it is a number");
    let secret = Secret::new(given("TEST_SECRET"));
    let mut host =
        HostConfig::new(number("TEST_ID"), number("TEST_COUNT"), given("TEST_FIRST"), secret);
    host.connect_timeout = Duration::from_millis(number("TEST_TIMEOUT") as u64);
    host.lost_after = Duration::from_millis(number("TEST_LOST_AFTER") as u64);
    let mut config = Config::default();
    config.cores = NonZeroUsize::MIN;
    match program {
        "counts" => counts(&Environment::on_hosts(config, host)?, 10_000),
        "endless" => {
            let env = Environment::on_hosts(config, host)?;
            env.iter(0u64..).shuffle().for_each(drop);
            let job = env.start()?;
            println!("{MARK}running");
            job.wait().map(|_| "ended well".to_owned())
        }
        // The first host cancels the job, when a line comes and much waits for the others.
        "cancelled" => {
            let is_first = host.id == 0;
            config.credit = 128 << 20;
            let env = Environment::on_hosts(config, host)?;
            let sent = Arc::new(AtomicU64::new(0));
            let count = Arc::clone(&sent);
            let blocks = env.iter(0u64..).map(move |n| {
                count.fetch_add(1, Ordering::Relaxed);
                vec![n; 8 << 10]
            });
            blocks.shuffle().for_each(drop);
            let job = env.start()?;
            println!("{MARK}running");
            if is_first {
                std::io::stdin().read_line(&mut String::new()).expect("the test writes a line");
                let (before, began) = (sent.load(Ordering::Relaxed), Instant::now());
                while sent.load(Ordering::Relaxed) < before + 1200 && began.elapsed() < MINUTE {
                    std::thread::sleep(Duration::from_millis(1));
                }
                job.cancel();
            }
            let ended = job.wait().map_err(|error| error.to_string());
            // Before the connections are closed, as in a program that ends its process here.
            println!("{MARK}{:?}", ended.map(drop));
            std::io::stdin().read_line(&mut String::new()).expect("the test writes a line");
            Ok("over".to_owned())
        }
        // While the first host waits for others, it has no descriptor left, for some seconds.
        "without descriptors" => {
            let first = host.first.clone();
            let exhaust = move || {
                while TcpStream::connect(&first).is_err() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                let (mut files, mut began) = (Vec::new(), None::<Instant>);
                while began.is_none_or(|began| began.elapsed() < Duration::from_secs(5)) {
                    match File::open("/dev/null") {
                        Ok(file) => files.push(file),
                        Err(_) if began.is_none() => {
                            println!("{MARK}no descriptor is left");
                            began = Some(Instant::now());
                        }
                        Err(_) => std::thread::sleep(Duration::from_millis(1)),
                    }
                }
            };
            if host.id == 0 {
                std::thread::spawn(exhaust);
            }
            counts(&Environment::on_hosts(config, host)?, 10_000)
        }
        "leaks" => {
            let before = (entries("fd"), entries("task"));
            for _ in 0..10 {
                let env = Environment::on_hosts(config.clone(), host.clone())?;
                counts(&env, 100)?;
            }
            // The last thread of a job may be about to end.
            let began = Instant::now();
            while (entries("fd"), entries("task")) != before && began.elapsed() < MINUTE / 2 {
                std::thread::sleep(Duration::from_millis(10));
            }
            let after = (entries("fd"), entries("task"));
            Ok(format!(
                "{} descriptors and {} threads more",
                after.0 - before.0,
                after.1 - before.1
            ))
        }
        other => panic!("there is no program {other}"),
    }
}

fn counts(env: &Environment, numbers: u64) -> Result<String> {
    let counts = env.iter(0..numbers).shuffle().group_by(|n| n % 3).count();
    let counts = counts.unkey().collect::<Vec<_>>();
    env.run()?;
    let mut counts = counts.take()?;
    counts.sort_unstable();
    Ok(format!("{counts:?}"))
}

/// The number of open files, or of threads.
fn entries(of: &str) -> i64 {
    std::fs::read_dir(format!("/proc/self/{of}")).unwrap().count() as i64
}

/// A process that is a host.
struct Host {
    process: Child,
    said: Receiver<String>,
}

impl Host {
    /// The next that it says.
    fn says(&self) -> String {
        self.said.recv_timeout(MINUTE).expect("the host says something")
    }

    fn signal(&self, name: &str) {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &process]).status().unwrap().success());
    }
}

impl Host {
    /// Writes a line to it.
    fn send_line(&mut self) {
        self.process.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Hosts that belong together.
struct Cluster {
    port: u16,
    count: usize,
    program: &'static str,
    timeout: Duration,
    lost_after: Duration,
}

impl Cluster {
    fn new(count: usize, program: &'static str) -> Self {
        let lost_after = Duration::from_secs(2);
        Self { port: free_port(), count, program, timeout: MINUTE, lost_after }
    }

    fn start(&self, id: usize) -> Host {
        self.start_as(id, &std::env::current_exe().unwrap(), SECRET)
    }

    fn start_as(&self, id: usize, executable: &Path, secret: &str) -> Host {
        self.start_by(Command::new(executable), id, secret)
    }

    /// Starts a host that may open so many files.
    fn start_with_files(&self, id: usize, files: usize) -> Host {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
        shell.arg(std::env::current_exe().unwrap());
        self.start_by(shell, id, SECRET)
    }

    fn start_by(&self, mut command: Command, id: usize, secret: &str) -> Host {
        let mut process = command
            .args(["--exact", "host_of_a_test", "--nocapture"])
            .env("TEST_PROGRAM", self.program)
            .env("TEST_ID", id.to_string())
            .env("TEST_COUNT", self.count.to_string())
            .env("TEST_FIRST", format!("127.0.0.1:{}", self.port))
            .env("TEST_SECRET", secret)
            .env("TEST_TIMEOUT", self.timeout.as_millis().to_string())
            .env("TEST_LOST_AFTER", self.lost_after.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (say, said) = channel();
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if let Some((_, said)) = line.split_once(MARK)
                    && say.send(said.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Host { process, said }
    }

    fn start_all(&self) -> Vec<Host> {
        (0..self.count).map(|id| self.start(id)).collect()
    }
}

/// A copy of this program that differs from it, and runs the same.
fn other_executable(dir: &Path) -> PathBuf {
    let path = dir.join("other");
    std::fs::copy(std::env::current_exe().unwrap(), &path).unwrap();
    let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"another build").unwrap();
    path
}

const CANCELLED: &str = "Err(\"the job was cancelled\")";
const COUNTS: &str = "[(0, 3334), (1, 3333), (2, 3333)]";

#[test]
fn processes_run_a_job_together() {
    for count in [2, 3, 5] {
        for host in Cluster::new(count, "counts").start_all() {
            assert_eq!(host.says(), COUNTS);
        }
    }
}

#[test]
fn a_host_may_be_started_late_whichever_it_is() {
    for late in [0, 1] {
        let cluster = Cluster::new(2, "counts");
        let first = cluster.start(1 - late);
        std::thread::sleep(Duration::from_secs(2));
        let second = cluster.start(late);
        assert_eq!([first.says(), second.says()], [COUNTS, COUNTS]);
    }
}

#[test]
fn two_jobs_run_side_by_side() {
    let (one, other) = (Cluster::new(2, "counts"), Cluster::new(3, "counts"));
    let mut hosts = one.start_all();
    hosts.extend(other.start_all());
    hosts.iter().for_each(|host| assert_eq!(host.says(), COUNTS));
}

#[test]
fn a_host_that_is_killed_ends_the_job_on_all_by_its_number() {
    for killed in 0..3 {
        let hosts = Cluster::new(3, "endless").start_all();
        hosts.iter().for_each(|host| assert_eq!(host.says(), "running"));
        hosts[killed].signal("-KILL");
        for host in hosts.iter().enumerate().filter(|(id, _)| *id != killed).map(|(_, host)| host) {
            let said = host.says();
            let expected =
                format!("Lost: host {killed} is lost, and with it the tasks that ran there: ");
            assert!(said.starts_with(&expected), "{said}");
        }
    }
}

#[test]
fn a_host_that_is_stopped_ends_the_job_on_all_by_its_number() {
    for stopped in 0..3 {
        let hosts = Cluster::new(3, "endless").start_all();
        hosts.iter().for_each(|host| assert_eq!(host.says(), "running"));
        hosts[stopped].signal("-STOP");
        for host in hosts.iter().enumerate().filter(|(id, _)| *id != stopped).map(|(_, host)| host)
        {
            let said = host.says();
            let expected = format!(
                "Lost: host {stopped} is lost, and with it the tasks that ran there: nothing arrived from it for "
            );
            assert!(said.starts_with(&expected), "{said}");
        }
        // When it goes on, it has lost them.
        hosts[stopped].signal("-CONT");
        let said = hosts[stopped].says();
        assert!(said.starts_with("Lost: host "), "{said}");
    }
}

#[test]
fn a_host_ends_when_the_others_can_learn_how_the_job_ended() {
    let lost_after = MINUTE;
    let mut hosts = Cluster { lost_after, ..Cluster::new(2, "cancelled") }.start_all();
    hosts.iter().for_each(|host| assert_eq!(host.says(), "running"));
    hosts[1].signal("-STOP");
    hosts[0].send_line();
    let early = hosts[0].said.recv_timeout(Duration::from_secs(3));
    assert!(early.is_err(), "the other host is not notified, and this one says {early:?}");
    hosts[1].signal("-CONT");
    for host in &hosts {
        assert_eq!(host.says(), CANCELLED);
    }
}

#[test]
fn hosts_that_are_all_stopped_go_on() {
    let mut hosts = Cluster::new(3, "cancelled").start_all();
    hosts.iter().for_each(|host| assert_eq!(host.says(), "running"));
    hosts.iter().for_each(|host| host.signal("-STOP"));
    // For longer than a host may be silent.
    std::thread::sleep(Duration::from_secs(4));
    for host in &hosts {
        host.signal("-CONT");
        std::thread::sleep(Duration::from_millis(200));
    }
    std::thread::sleep(Duration::from_secs(1));
    hosts[0].send_line();
    for host in &hosts {
        assert_eq!(host.says(), CANCELLED);
    }
}

#[test]
fn a_host_without_descriptors_accepts_others_later() {
    let cluster = Cluster::new(2, "without descriptors");
    let first = cluster.start_with_files(0, 100);
    assert_eq!(first.says(), "no descriptor is left");
    let second = cluster.start(1);
    assert_eq!([first.says(), second.says()], [COUNTS, COUNTS]);
}

#[test]
fn a_signal_while_hosts_connect_changes_nothing() {
    for late in [0, 1] {
        let cluster = Cluster::new(2, "counts");
        let early = cluster.start(1 - late);
        // A wait of a process that is stopped and goes on is interrupted.
        for _ in 0..10 {
            std::thread::sleep(Duration::from_millis(100));
            early.signal("-STOP");
            early.signal("-CONT");
        }
        let other = cluster.start(late);
        assert_eq!([early.says(), other.says()], [COUNTS, COUNTS]);
    }
}

#[test]
fn another_executable_is_refused_on_all_hosts() {
    let dir = tempfile::tempdir().unwrap();
    let other = other_executable(dir.path());
    let cluster = Cluster::new(3, "counts");
    let hosts = [cluster.start(0), cluster.start_as(1, &other, SECRET), cluster.start(2)];
    for host in &hosts {
        let said = host.says();
        assert!(
            said.starts_with("Config: hosts ") && said.contains("run different executables"),
            "{said}"
        );
    }
}

#[test]
fn another_secret_is_refused_and_the_host_named() {
    let cluster = Cluster { timeout: Duration::from_secs(5), ..Cluster::new(2, "counts") };
    let executable = std::env::current_exe().unwrap();
    let hosts =
        [cluster.start(0), cluster.start_as(1, &executable, "the secret of other processes")];
    let said = hosts[0].says();
    assert!(said.starts_with("TimedOut: host 1 has not connected within 5s"), "{said}");
    assert!(said.contains("it does not know the secret"), "{said}");
    let said = hosts[1].says();
    assert!(said.contains("has refused this host, which has another secret"), "{said}");
}

#[test]
fn environments_leave_no_descriptor_and_no_thread() {
    for host in Cluster::new(2, "leaks").start_all() {
        assert_eq!(host.says(), "0 descriptors and 0 threads more");
    }
}
