//! Right answers: on networks that are slow, lossy and narrow, with hosts that start late, with two jobs at once, and with
//! interruptions shorter than the limit. And the same for long: what a process has does not grow.

use super::Case;
use super::job::Job;
use super::lab::{Lab, Link};
use super::programs::{Known, components, sessions, sessions_are_in, windows, word_count};
use anyhow::{Context, Result, ensure};
use std::time::Duration;

pub(super) const CASES: &[Case] = &[
    Case { name: "a perfect network", run: |lab| all_jobs(lab, 3) },
    Case { name: "delay and reordering", run: delay },
    Case { name: "two packets of a hundred are lost", run: loss },
    Case { name: "a narrow link", run: narrow },
    Case { name: "hosts that start seconds apart", run: late },
    Case { name: "two jobs at once", run: at_once },
    Case { name: "a short cut", run: short_cut },
    Case { name: "a short stop", run: short_stop },
    Case { name: "jobs one after another", run: repeat },
];

/// Runs jobs with bounded input, and sessions.
fn all_jobs(lab: &Lab, hosts: usize) -> Result<()> {
    bounded_jobs(lab, hosts)?;
    sessions(lab, "sessions").hosts(hosts).answer().context("sessions")?;
    sessions_are_in(&lab.path("sessions")).context("sessions")
}

/// Runs a word count, sliding windows, and two kinds of loop.
fn bounded_jobs(lab: &Lab, hosts: usize) -> Result<()> {
    let check = |what, known: Known<'_>| known.hosts(hosts).check().context(what);
    check("word count", word_count(lab, 6000)?)?;
    check("windows", windows(lab, 1000)?)?;
    check("loop with labels", components(lab, "labels")?)?;
    check("loop with changes", components(lab, "delta")?)
}

fn delay(lab: &Lab) -> Result<()> {
    let before = lab.counts()?;
    lab.all_links(Link { delay: 0.02, jitter: 0.01, ..Link::default() })?;
    all_jobs(lab, 3)?;
    let counts = lab.counts()?.since(before);
    ensure!(counts.overtaken > 100, "few packets were reordered: {counts:?}");
    Ok(())
}

fn loss(lab: &Lab) -> Result<()> {
    let before = lab.counts()?;
    lab.all_links(Link { loss: 0.02, delay: 0.001, ..Link::default() })?;
    all_jobs(lab, 3)?;
    let counts = lab.counts()?.since(before);
    ensure!(counts.lost > 50, "few packets were lost: {counts:?}");
    Ok(())
}

/// Two megabits a second between hosts.
fn narrow(lab: &Lab) -> Result<()> {
    let before = lab.counts()?;
    lab.all_links(Link { rate: 2e6, delay: 0.005, ..Link::default() })?;
    all_jobs(lab, 2)?;
    let counts = lab.counts()?.since(before);
    ensure!(counts.dropped > 0, "the queues of narrow links were never full: {counts:?}");
    Ok(())
}

fn late(lab: &Lab) -> Result<()> {
    for order in [[0, 1, 2], [2, 1, 0]] {
        let known = word_count(lab, 4000)?.hosts(3);
        let mut processes = Vec::new();
        for host in order {
            processes.push(known.job.start_host(host)?);
            std::thread::sleep(Duration::from_millis(1500));
        }
        processes.sort_by_key(|process| process.host);
        known.is(&Job(processes).answer()?)?;
    }
    Ok(())
}

fn at_once(lab: &Lab) -> Result<()> {
    let programs = ["one", "other"].map(|folder| sessions(lab, folder).hosts(3));
    let jobs: Vec<_> = programs.iter().map(|program| program.start()).collect::<Result<_>>()?;
    // While they run.
    components(lab, "delta")?.hosts(3).check()?;
    jobs.into_iter().try_for_each(|job| job.answer().map(drop))?;
    sessions_are_in(&lab.path("one"))?;
    sessions_are_in(&lab.path("other"))
}

/// The link between two hosts is cut in one direction, in the other, and in both, for a third of the limit.
fn short_cut(lab: &Lab) -> Result<()> {
    let job = sessions(lab, "sessions").hosts(3).lost_after("3s");
    let mut job = job.start()?;
    job.until_running(300)?;
    let before = lab.counts()?;
    let cut = Link { cut: true, ..Link::default() };
    lab.link(0, 1, cut)?;
    lab.link(2, 0, cut)?;
    lab.links_between(1, 2, cut)?;
    std::thread::sleep(Duration::from_millis(1000));
    lab.all_links(Link::default())?;
    job.answer()?;
    let counts = lab.counts()?.since(before);
    ensure!(counts.cut > 0, "no packet was cut off: {counts:?}");
    sessions_are_in(&lab.path("sessions"))
}

/// Each process in turn is stopped for a part of the limit.
fn short_stop(lab: &Lab) -> Result<()> {
    let mut job = sessions(lab, "sessions").hosts(3).start()?;
    job.until_running(200)?;
    for process in &job.0 {
        process.signal("STOP")?;
        std::thread::sleep(Duration::from_millis(700));
        process.signal("CONT")?;
    }
    job.answer()?;
    sessions_are_in(&lab.path("sessions"))
}

/// For twenty seconds, one job after another in each of two processes: what they have after the first third, by when
/// allocators have got to know what is needed, is what they have at the end.
fn repeat(lab: &Lab) -> Result<()> {
    lab.set_packet_size(60_000)?;
    let before = lab.counts()?;
    let result = lab.job("network_jobs", &["repeat", "--seconds", "20"]).start()?.end();
    lab.set_packet_size(1500)?;
    for ended in result? {
        let ended = ended.succeeded()?;
        let used: Vec<Vec<u64>> = ended
            .stderr
            .lines()
            .filter_map(|line| line.strip_prefix("used "))
            .map(|line| line.split(' ').map(str::parse).collect::<Result<_, _>>())
            .collect::<Result<_, _>>()
            .context("a line of what is used")?;
        let (rounds, host) = (used.len(), ended.host);
        let most = |of: usize, rounds: &[Vec<u64>]| {
            rounds.iter().filter_map(|used| used.get(of)).max().copied().unwrap_or(0)
        };
        let (first, last) = (&used[..rounds.div_ceil(3)], &used[rounds - rounds.div_ceil(10)..]);
        let both = |of| (most(of, first), most(of, last));
        let [memory, files, threads] = [0, 1, 2].map(both);
        println!(
            "host {host}: {rounds} rounds; memory {} then {} KiB, {} then {} files, {} then {} threads",
            memory.0, memory.1, files.0, files.1, threads.0, threads.1
        );
        ensure!(rounds >= 10, "only {rounds} rounds");
        ensure!(memory.1 <= memory.0 + memory.0 / 5, "memory has grown: {used:?}");
        ensure!(files.1 <= files.0, "more files are open: {used:?}");
        // One that is about to end counts for a moment; those of hundreds of rounds would be many.
        ensure!(threads.1 <= threads.0 + 1, "there are more threads: {used:?}");
    }
    let left: Vec<_> = std::fs::read_dir(lab.path(""))?
        .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
        .filter(|name| !name.starts_with("job-"))
        .collect();
    ensure!(left.is_empty(), "files are left: {left:?}");
    println!("{:?}", lab.counts()?.since(before));
    Ok(())
}
