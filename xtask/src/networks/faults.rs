//! Hosts that are cut off, stopped, killed or never started, ports that are taken, and full disks: the job ends on every
//! host, with an error that says which host it was and how it is known, and without output.

use super::Case;
use super::job::{Ended, Job};
use super::lab::{Lab, Link, address, on_host};
use super::programs::{
    nothing_is_in, sessions, sessions_are_in, sessions_at_rate, sessions_in_are_whole,
};
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::process::{Child, Stdio};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case { name: "a cut in one direction", run: cut_one_way },
    Case { name: "a cut in both directions", run: cut_both_ways },
    Case { name: "a host that is cut off", run: cut_off },
    Case { name: "a stopped process", run: stopped },
    Case { name: "a process killed in the middle", run: killed_in_the_middle },
    Case { name: "a process killed within a loop", run: killed_within_a_loop },
    Case { name: "a process stopped within a loop", run: stopped_within_a_loop },
    Case { name: "a process killed near the end", run: killed_near_the_end },
    Case { name: "a process killed while hosts connect", run: killed_while_connecting },
    Case { name: "a process that is started again", run: started_again },
    Case { name: "a host that is never started", run: never_started },
    Case { name: "a port that is taken", run: port_taken },
    Case { name: "a full disk", run: full_disk },
];

pub(super) const CUT: Link = Link { delay: 0.0, jitter: 0.0, loss: 0.0, rate: 0.0, cut: true };

/// Starts sessions on three hosts that write to the folder `sessions`, and waits until they are in the middle.
fn in_the_middle(lab: &Lab) -> Result<Job> {
    let mut job = sessions(lab, "sessions").hosts(3).start()?;
    job.until_running(700)?;
    Ok(job)
}

/// Fails unless all have failed because one of these hosts is lost, one of them after a silence, and there is no output.
pub(super) fn all_have_lost(lab: &Lab, ended: Vec<Ended>, lost: &[usize], how: &str) -> Result<()> {
    let mut first_hand = false;
    for ended in ended {
        let Ended { host, stderr, .. } = ended.failed_with(&[])?;
        let named = lost.iter().any(|lost| stderr.contains(&format!("host {lost} is lost")));
        ensure!(named, "host {host} names none of {lost:?} as lost: {stderr}");
        first_hand |= stderr.contains(how);
    }
    ensure!(first_hand, "no host says \"{how}\"");
    nothing_is_in(&lab.path("sessions"))
}

pub(super) const SILENCE: &str = "nothing arrived from it for";

fn cut_one_way(lab: &Lab) -> Result<()> {
    for (from, to) in [(0, 1), (1, 0), (2, 1)] {
        let job = in_the_middle(lab)?;
        lab.link(from, to, CUT)?;
        let ended = job.end()?;
        lab.all_links(Link::default())?;
        all_have_lost(lab, ended, &[from, to], SILENCE)
            .with_context(|| format!("{from} to {to}"))?;
    }
    Ok(())
}

fn cut_both_ways(lab: &Lab) -> Result<()> {
    for (a, b) in [(0, 1), (1, 2)] {
        let job = in_the_middle(lab)?;
        lab.links_between(a, b, CUT)?;
        let ended = job.end()?;
        lab.all_links(Link::default())?;
        all_have_lost(lab, ended, &[a, b], SILENCE).with_context(|| format!("{a} and {b}"))?;
    }
    Ok(())
}

fn cut_off(lab: &Lab) -> Result<()> {
    for host in [0, 2] {
        let mut job = in_the_middle(lab)?;
        lab.links_of(host, CUT)?;
        let alone = job.remove(host);
        let others: Vec<_> = (0..3).filter(|other| *other != host).collect();
        let (ended, alone) = (job.end()?, alone.end()?);
        lab.all_links(Link::default())?;
        all_have_lost(lab, vec![alone], &others, SILENCE)?;
        all_have_lost(lab, ended, &[host], SILENCE).with_context(|| format!("host {host}"))?;
    }
    Ok(())
}

/// When it goes on, it ends too.
fn stopped(lab: &Lab) -> Result<()> {
    for host in [0, 1] {
        let mut job = in_the_middle(lab)?;
        let stopped = job.remove(host);
        stopped.signal("STOP")?;
        let ended = job.end()?;
        stopped.is_still_stopped()?;
        stopped.signal("CONT")?;
        let others: Vec<_> = (0..3).filter(|other| *other != host).collect();
        all_have_lost(lab, ended, &[host], SILENCE).with_context(|| format!("host {host}"))?;
        all_have_lost(lab, vec![stopped.end()?], &others, "")?;
    }
    Ok(())
}

fn killed_in_the_middle(lab: &Lab) -> Result<()> {
    for host in 0..3 {
        let mut job = in_the_middle(lab)?;
        job.remove(host).signal("KILL")?;
        let how = "its connection ";
        all_have_lost(lab, job.end()?, &[host], how).with_context(|| format!("host {host}"))?;
    }
    Ok(())
}

/// Starts a loop on three hosts whose output is the folder `sessions`, and waits until it has made rounds.
fn within_a_loop(lab: &Lab) -> Result<Job> {
    let folder = lab.path("sessions").display().to_string();
    let mut job = lab.job("network_jobs", &["loop", "--output", &folder]).hosts(3).start()?;
    job.until_running(500)?;
    Ok(job)
}

fn killed_within_a_loop(lab: &Lab) -> Result<()> {
    for host in 0..3 {
        let mut job = within_a_loop(lab)?;
        job.remove(host).signal("KILL")?;
        let how = "its connection ";
        all_have_lost(lab, job.end()?, &[host], how).with_context(|| format!("host {host}"))?;
    }
    Ok(())
}

fn stopped_within_a_loop(lab: &Lab) -> Result<()> {
    for host in 0..2 {
        let mut job = within_a_loop(lab)?;
        let stopped = job.remove(host);
        stopped.signal("STOP")?;
        let ended = job.end()?;
        stopped.is_still_stopped()?;
        all_have_lost(lab, ended, &[host], SILENCE).with_context(|| format!("host {host}"))?;
    }
    Ok(())
}

/// Whatever the moment: the others end, all alike. If they have succeeded, the output is whole; otherwise files are whole
/// or not there. A host that dies when the end is decided takes the files with it that it has not published.
fn killed_near_the_end(lab: &Lab) -> Result<()> {
    for (number, moment) in [0, 4, 8, 12, 16, 20, 30, 50].into_iter().enumerate() {
        let (host, name) = (number % 3, format!("sessions-{number}"));
        let folder = lab.path(&name);
        let mut job = sessions_at_rate(lab, &name, "12000").hosts(3).start()?;
        job.0[0].until_said("all is read")?;
        std::thread::sleep(Duration::from_millis(moment));
        // It may have ended.
        let _ = job.remove(host).signal("KILL");
        let ended = job.end()?;
        let good = ended.iter().filter(|ended| ended.status.success()).count();
        let checked =
            if good > 0 { sessions_are_in(&folder) } else { sessions_in_are_whole(&folder) };
        checked.with_context(|| format!("{good} hosts have succeeded, after {moment} ms"))?;
        for ended in ended.into_iter().filter(|ended| !ended.status.success()) {
            ended.failed_with(&[&format!("host {host} is lost")])?;
        }
    }
    Ok(())
}

fn killed_while_connecting(lab: &Lab) -> Result<()> {
    // A handshake takes seconds, so that each step of it is hit.
    lab.all_links(Link { delay: 0.1, ..Link::default() })?;
    for (number, moment) in [50, 300, 500, 700, 900, 1100].into_iter().enumerate() {
        let host = number % 3;
        let program = sessions(lab, "sessions").hosts(3).connect_timeout("3s");
        let mut job = program.start()?;
        std::thread::sleep(Duration::from_millis(moment));
        job.remove(host).signal("KILL")?;
        for ended in job.end()? {
            ended.failed_with(&[&format!("host {host} ")])?;
        }
        nothing_is_in(&lab.path("sessions"))?;
    }
    Ok(())
}

fn started_again(lab: &Lab) -> Result<()> {
    let program = sessions(lab, "sessions").hosts(3);
    let mut processes = vec![program.start_host(0)?];
    let early = program.start_host(1)?;
    std::thread::sleep(Duration::from_millis(500));
    early.signal("KILL")?;
    drop(early);
    std::thread::sleep(Duration::from_millis(500));
    for host in [1, 2] {
        processes.push(program.start_host(host)?);
    }
    Job(processes).answer()?;
    sessions_are_in(&lab.path("sessions"))
}

fn never_started(lab: &Lab) -> Result<()> {
    for missing in 0..3 {
        let program = sessions(lab, "sessions").hosts(3).connect_timeout("3s");
        let started = (0..3).filter(|host| *host != missing);
        let job = Job(started.map(|host| program.start_host(host)).collect::<Result<_>>()?);
        for ended in job.end()? {
            ended.failed_with(&[&format!("host {missing} "), "within 3s"])?;
        }
    }
    Ok(())
}

/// First by another job, which must still succeed; then by a program that is no host.
fn port_taken(lab: &Lab) -> Result<()> {
    const TAKEN: &str = "Address already in use";
    let first = sessions(lab, "sessions");
    let mut waiting = first.start_host(0)?;
    waiting.until_said("waiting for the other hosts")?;
    let second = sessions(lab, "other").port(first.first_port());
    second.start_host(0)?.end()?.failed_with(&["cannot listen at 10.77.0.1:", TAKEN])?;
    ensure!(waiting.is_running()?, "the job that has the port has ended");
    Job(vec![waiting, first.start_host(1)?]).answer()?;
    sessions_are_in(&lab.path("sessions"))?;

    let program = sessions(lab, "other").listed_ports().connect_timeout("3s");
    let server = Server::start(lab, 0, program.first_port())?;
    let (first, second) = (program.start_host(0)?.end()?, program.start_host(1)?.end()?);
    first.failed_with(&["cannot listen at 10.77.0.1:", TAKEN])?;
    second.failed_with(&["another program has this port"])?;
    drop(server);
    let _server = Server::start(lab, 1, program.first_port())?;
    let (first, second) = (program.start_host(0)?, program.start_host(1)?);
    second.end()?.failed_with(&["cannot listen at 10.77.0.2:", TAKEN])?;
    first.end()?.failed_with(&["host 1 "])?;
    nothing_is_in(&lab.path("other"))
}

fn full_disk(lab: &Lab) -> Result<()> {
    for full in [0, 1] {
        let folder = lab.path(&format!("output-{full}"));
        fs::create_dir(&folder).context("cannot make a folder")?;
        let small = folder.display().to_string();
        let program =
            lab.job("network_jobs", &["copy", "--readings", "100000", "--output", &small]);
        let mut processes = Vec::new();
        for host in 0..2 {
            let mut command = on_host(host);
            if host == full {
                let mount = "mount -t tmpfs -o size=256k none \"$0\" && exec \"$@\"";
                command.args(["sh", "-c", mount, &small]);
            }
            processes.push(program.start_host_by(host, command)?);
        }
        for ended in (Job(processes)).end()? {
            let file = format!("{small}/part-");
            let where_from = format!("on host {full}: {file}");
            ended.failed_with(&["write_lines_parallel", &where_from, "No space left"])?;
        }
        nothing_is_in(&folder)?;
    }
    Ok(())
}

/// A program that listens at a port, and is no host of a job.
struct Server(Child);

impl Server {
    fn start(lab: &Lab, host: usize, port: u16) -> Result<Self> {
        let mut command = on_host(host);
        command.args(["python3", "-u", "-m", "http.server", "--bind", &address(host)]);
        let said = lab.path(&format!("server-{host}"));
        let output = fs::File::create(&said).context("cannot write a file")?;
        command.arg(port.to_string()).stdout(output).stderr(Stdio::null());
        let server = Self(command.spawn()?);
        for _ in 0..1000 {
            if fs::read_to_string(&said)?.contains("Serving") {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("the server on host {host} does not start")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
