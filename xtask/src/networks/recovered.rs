//! Jobs with checkpoints on hosts that are cut off, stopped or killed, and whose disk is full for a while: the job goes on, or
//! ends on every host with an error. After another start its output is that of an undisturbed job.

use super::Case;
use super::faults::{CUT, SILENCE, all_have_lost};
use super::job::{Ended, Job, Program};
use super::lab::{Lab, Link};
use super::programs::{sessions_are_in, sessions_at_rate};
use crate::process::{program, run};
use crate::recovery::{newest, resumed_from};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

pub(super) const CASES: &[Case] = &[
    Case { name: "with checkpoints: a short cut", run: short_cut },
    Case { name: "with checkpoints: a link that is cut", run: cut },
    Case { name: "with checkpoints: a host that is cut off", run: cut_off },
    Case { name: "with checkpoints: a stopped process", run: stopped },
    Case { name: "with checkpoints: a killed process", run: killed },
    Case { name: "with checkpoints: a full disk", run: full_disk },
];

/// Longer than anything here takes, so that a hang ends with a message.
const LONG: Duration = Duration::from_secs(60);

/// The folder of the checkpoints of a case.
fn saved(lab: &Lab) -> PathBuf {
    lab.path("disk").join("saved")
}

/// Sessions with checkpoints, which are written to the folder `sessions` and take four seconds. A job that goes on has to wait
/// only for readings that are not due yet.
fn job(lab: &Lab, hosts: usize) -> Program<'_> {
    sessions_at_rate(lab, "sessions", "3000").hosts(hosts).checkpoints(saved(lab))
}

/// Waits for a condition while a job runs.
fn until(job: &mut Job, what: &str, mut so: impl FnMut(&Job) -> Result<bool>) -> Result<()> {
    let end = Instant::now() + LONG;
    while !so(job)? {
        for process in &mut job.0 {
            ensure!(process.is_running()?, "the job has ended, and {what}");
        }
        ensure!(Instant::now() < end, "{what} within {} s", LONG.as_secs());
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits until there are this many more checkpoints.
fn until_saved(lab: &Lab, job: &mut Job, more: u64) -> Result<()> {
    let (folder, before) = (saved(lab), newest(&saved(lab))?);
    until(job, "no more checkpoints are taken", |_| Ok(newest(&folder)? >= before + more))
}

/// Starts the job on three hosts, and waits until it has checkpoints to go on from.
fn in_the_middle(lab: &Lab) -> Result<Job> {
    lab.reset()?;
    let mut job = job(lab, 3).start()?;
    until_saved(lab, &mut job, 3)?;
    Ok(job)
}

/// Starts the job again, on this many hosts: it goes on from its newest checkpoint, and its output is complete.
fn goes_on(lab: &Lab, hosts: usize) -> Result<()> {
    let before = newest(&saved(lab))?;
    ensure!(before > 0, "the job has left no checkpoint");
    for ended in job(lab, hosts).start()?.end()? {
        let Ended { host, stderr, .. } = ended.succeeded()?;
        let resumed = resumed_from(&stderr);
        let expected = (host == 0).then_some(before);
        ensure!(resumed == expected, "host {host} goes on from {resumed:?}, not {expected:?}");
    }
    ensure!(newest(&saved(lab))? == 0, "a job that has ended well leaves checkpoints");
    sessions_are_in(&lab.path("sessions"))
}

/// The link between two hosts is cut for a third of the limit: the job goes on, and takes checkpoints again.
fn short_cut(lab: &Lab) -> Result<()> {
    let mut running = job(lab, 3).lost_after("3s").start()?;
    until_saved(lab, &mut running, 3)?;
    let before = lab.counts()?;
    lab.links_between(0, 1, CUT)?;
    std::thread::sleep(Duration::from_millis(1000));
    lab.all_links(Link::default())?;
    let counts = lab.counts()?.since(before);
    ensure!(counts.cut > 0, "no packet was cut off: {counts:?}");
    until_saved(lab, &mut running, 1)?;
    running.answer()?;
    sessions_are_in(&lab.path("sessions"))
}

/// In one direction, and in both.
fn cut(lab: &Lab) -> Result<()> {
    let job = in_the_middle(lab)?;
    lab.link(0, 2, CUT)?;
    let ended = job.end()?;
    lab.all_links(Link::default())?;
    all_have_lost(lab, ended, &[0, 2], SILENCE).context("in one direction")?;
    goes_on(lab, 3).context("in one direction")?;

    let job = in_the_middle(lab)?;
    lab.links_between(1, 2, CUT)?;
    let ended = job.end()?;
    lab.all_links(Link::default())?;
    all_have_lost(lab, ended, &[1, 2], SILENCE).context("in both directions")?;
    goes_on(lab, 2).context("in both directions")
}

fn cut_off(lab: &Lab) -> Result<()> {
    for host in [0, 1] {
        let mut job = in_the_middle(lab)?;
        lab.links_of(host, CUT)?;
        let alone = job.remove(host);
        let (ended, alone) = (job.end()?, alone.end()?);
        lab.all_links(Link::default())?;
        all_have_lost(lab, ended, &[host], SILENCE).with_context(|| format!("host {host}"))?;
        all_have_lost(lab, vec![alone], &others(host), SILENCE)?;
        goes_on(lab, 3 - host).with_context(|| format!("host {host}"))?;
    }
    Ok(())
}

/// The process is stopped for longer than the limit. It must have ended, too, before the job is started again.
fn stopped(lab: &Lab) -> Result<()> {
    for host in [0, 1] {
        let mut job = in_the_middle(lab)?;
        let stopped = job.remove(host);
        stopped.signal("STOP")?;
        let ended = job.end()?;
        stopped.is_still_stopped()?;
        stopped.signal("CONT")?;
        all_have_lost(lab, ended, &[host], SILENCE).with_context(|| format!("host {host}"))?;
        all_have_lost(lab, vec![stopped.end()?], &others(host), "")?;
        goes_on(lab, 2 + host).with_context(|| format!("host {host}"))?;
    }
    Ok(())
}

fn killed(lab: &Lab) -> Result<()> {
    for host in 0..3 {
        let job = in_the_middle(lab)?;
        kill(lab, job, host)?;
        goes_on(lab, [3, 2, 3][host]).with_context(|| format!("host {host}"))?;
    }
    Ok(())
}

/// Kills a host; the others must report it as lost.
fn kill(lab: &Lab, mut job: Job, host: usize) -> Result<()> {
    job.remove(host).signal("KILL")?;
    let how = "its connection ";
    all_have_lost(lab, job.end()?, &[host], how).with_context(|| format!("host {host}"))
}

/// Checkpoints fail with a warning as long as there is no room for them, and the job goes on; when there is room, they are
/// taken again.
fn full_disk(lab: &Lab) -> Result<()> {
    let disk = lab.path("disk");
    let _small = Small::mount(&disk)?;
    let mut running = job(lab, 2).start()?;
    until_saved(lab, &mut running, 2)?;
    let filler = disk.join("filler");
    // Older checkpoints are removed meanwhile, and leave room for others.
    until(&mut running, "no checkpoint fails", |job| {
        fill(&filler)?;
        job.0[0].has_said("; the job goes on, and tries again")
    })?;
    ensure!(running.0[0].has_said("No space left")?, "it does not say why");
    fs::remove_file(&filler).context("cannot make room")?;
    until(&mut running, "they are not taken again", |job| {
        job.0[0].has_said("checkpoints are taken again")
    })?;
    until_saved(lab, &mut running, 2)?;
    kill(lab, running, 1)?;
    goes_on(lab, 3)
}

/// The other hosts of three.
fn others(host: usize) -> Vec<usize> {
    (0..3).filter(|other| *other != host).collect()
}

/// Adds to a file until the disk is full.
fn fill(file: &Path) -> Result<()> {
    let mut file = File::options().create(true).append(true).open(file)?;
    while file.write_all(&[0; 4096]).is_ok() {}
    Ok(())
}

/// A small file system in memory, which is gone when this is dropped.
struct Small(PathBuf);

impl Small {
    fn mount(folder: &Path) -> Result<Self> {
        fs::create_dir(folder).context("cannot make a folder")?;
        run(program("mount").args(["-t", "tmpfs", "-o", "size=1m", "none"]).arg(folder))?;
        Ok(Self(folder.to_owned()))
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Hosts that still run have mounted it, too.
        let _ = program("umount").arg("--lazy").arg(&self.0).status();
    }
}
