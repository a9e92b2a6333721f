//! Runs of a job that are ended after a checkpoint, and others that begin with it.

use super::{Answer, ENDED, Job, Records, on_cluster, show};
use crate::checkpoint::{Checkpoints, Faulty, Folder, INJECTED, OTHER_TASKS, Snapshot, Taken};
use crate::config::{BatchMode, Config, Scheduler};
use crate::data::hash_u64;
use crate::net::HostId;
use crate::plan::CANNOT_HAVE;
use crate::runtime::{Cluster, LOST_AFTER, Outage, STEP};
use crate::stream::{Checkpointing, Environment, JobControl, JobHandle};
use crate::sync::{AtomicU64, Ordering};
use crate::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, OnceLock};

/// Draws other numbers for these runs than for those without checkpoints.
const INTERRUPTED: u64 = 1 << 33;
/// Draws others for runs on several hosts.
const RESTARTED: u64 = 1 << 34;
/// Draws others for what storages do, and for outages.
const STORAGE: u64 = 1 << 35;
const OUTAGES: u64 = 1 << 36;
/// Of how many runs one has a storage of checkpoints that fails.
const FAULTY: usize = 4;
/// Of how many runs one has a storage that is slow.
const SLOW: usize = 2;
/// Of 256 requests, how many fail of each host's storage; and how many failures there are.
const FAILURES: (u64, u64) = (24, 12);
/// Of how many places in which time passes while a checkpoint is written or read one has a barrier of the program meanwhile.
const BARRIERS: u64 = 5;
/// How a run ends that has to end well and does not.
const NOT_WELL: &str = "the last run has not ended well";

/// A run that is cancelled after a barrier, and another one that begins with what was saved at the barrier.
pub(super) struct Interrupted {
    first: Config,
    /// After how many steps of its scheduler there is a barrier in the first.
    steps: usize,
    /// Whether the barrier overtakes batches.
    overtakes: bool,
    second: Config,
}

/// Begins a job with checkpoints.
fn begin(
    job: &Job<'_>,
    env: &Environment,
    checkpoints: &Arc<Checkpoints>,
) -> Result<(JobHandle, Records)> {
    let records = job(env);
    let plan = env.plan();
    let begun = env.start_with(Some(checkpoints))?;
    if let Some(op) = plan.without_checkpoints().first() {
        let what = "the plan says that it has no checkpoints, and it has";
        return Err(Error::new(ErrorKind::Internal, what).in_operator(op.label()));
    }
    Ok((begun, records))
}

fn failed(error: Error) -> String {
    format!("failed: {error}")
}

/// Whether a job was refused that cannot have checkpoints.
fn has_none(error: &Error) -> bool {
    error.message().starts_with(CANNOT_HAVE)
}

/// Whether a job was refused that can be restored at as many tasks only.
fn needs_as_many_tasks(error: &Error) -> bool {
    error.message().starts_with(OTHER_TASKS)
}

/// A run that has begun with a checkpoint, and ended well.
pub(super) enum Second {
    Run(Answer),
    /// The one before it had ended when it was interrupted.
    AfterItsEnd(Answer),
    /// There is none, and why.
    None(String),
}

/// How often runs have gone on from a checkpoint, and why they have not.
#[derive(Default)]
pub(super) struct Restored {
    runs: usize,
    reasons: BTreeMap<String, usize>,
}

impl Restored {
    /// A run has gone on, unless there is a reason why not.
    pub(super) fn add(&mut self, why_not: Option<String>) {
        self.runs += 1;
        if let Some(why) = why_not {
            *self.reasons.entry(why).or_default() += 1;
        }
    }

    /// What to say if there were such runs, which are `what`, and none has gone on.
    pub(super) fn missing(&self, what: &str) -> Option<String> {
        let Self { runs, reasons } = self;
        if *runs == 0 || reasons.values().sum::<usize>() < *runs {
            return None;
        }
        let reasons: Vec<_> =
            reasons.iter().map(|(why, count)| format!("\n  in {count}: {why}")).collect();
        let reasons = reasons.concat();
        Some(format!("none of {runs} {what} has gone on from a checkpoint{reasons}"))
    }
}

impl Interrupted {
    pub(super) fn drawn_from(seed: u64, usual: &Config) -> Self {
        let drawn = hash_u64(seed + INTERRUPTED).to_le_bytes().map(usize::from);
        let config = |cores: usize| {
            let mut config = usual.clone();
            config.scheduler = Scheduler::Deterministic { seed };
            config.cores = NonZeroUsize::new(cores).unwrap_or(config.cores);
            config.turn = NonZeroUsize::MIN;
            config.batch = BatchMode::Fixed { size: 1 + drawn[0] % 40 };
            config
        };
        let steps = [1, 5, 20, 80][drawn[1] % 4] * (1 + drawn[2] % 5);
        let overtakes = drawn[5] % 2 == 0;
        Self { first: config(1 + drawn[3] % 3), steps, overtakes, second: config(1 + drawn[4] % 3) }
    }

    /// The second run, if the job can have checkpoints, and one at that barrier.
    pub(super) fn run(&self, job: &Job<'_>) -> Result<Second, String> {
        // Of what operators have on disk.
        let dir = tempfile::tempdir().map_err(|error| format!("no directory: {error}"))?;
        let begin = |config: &Config, restored| {
            let checkpoints = Checkpoints::with_files_in(dir.path(), restored);
            begin(job, &Environment::checked(config.clone()), &checkpoints)
        };
        let first = match begin(&self.first, None) {
            Err(error) if has_none(&error) => return Ok(Second::None(error.to_string())),
            begun => begun.map_err(failed)?.0,
        };
        first.drive_for(self.steps);
        let snapshot = if self.overtakes { first.snapshot_overtaking() } else { first.snapshot() };
        let taken = match snapshot {
            Err(error) if error.kind() == ErrorKind::Internal => return Err(failed(error)),
            taken => taken,
        };
        first.cancel();
        let ended = first.wait();
        let (snapshot, is_interrupted) = match (taken, ended) {
            (Ok(Some(Taken { snapshot, syncs, .. })), ended) => {
                syncs.into_iter().try_for_each(|sync| sync()).map_err(failed)?;
                (snapshot, ended.is_err())
            }
            // An operator could not save what it has on disk.
            (Err(why), Err(error)) if error.kind() == ErrorKind::Cancelled => {
                return Ok(Second::None(why.to_string()));
            }
            (_, ended) => return ended.map(|_| Second::None(ENDED.to_owned())).map_err(failed),
        };
        let snapshot = Snapshot::decode(&snapshot.encoded());
        let snapshot = snapshot.map_err(|error| format!("torn: {error}"))?;
        let (second, records) = match begin(&self.second, Some(snapshot)) {
            Err(error) if needs_as_many_tasks(&error) && self.first.cores != self.second.cores => {
                return Ok(Second::None(error.to_string()));
            }
            begun => begun.map_err(failed)?,
        };
        second.wait().map_err(failed)?;
        let ended = if is_interrupted { Second::Run } else { Second::AfterItsEnd };
        records().map(ended).map_err(failed)
    }

    pub(super) fn show(&self) -> String {
        let Self { first, steps, overtakes, second } = self;
        let how = if *overtakes { ", which overtakes batches" } else { "" };
        format!(
            "{}, interrupted at a barrier after {steps} steps{how}, and then {}",
            show(first),
            show(second)
        )
    }
}

/// Runs of a job on one host or several, each of which begins with the newest checkpoint of those before it, from files.
/// All but the last one are ended. The last one is made again as long as failures of the storage end it.
pub(super) struct Restarted {
    runs: Vec<Run>,
}

/// One of these runs.
struct Run {
    config: Config,
    /// Those of each host.
    cores: Vec<usize>,
    /// The seed of the order of steps.
    seed: u64,
    /// The most steps between two looks of the programs.
    steps: usize,
    /// Whether barriers of checkpoints overtake batches.
    overtakes: bool,
    storage: Storage,
    end: End,
}

/// The storage of a run's checkpoints.
struct Storage {
    /// Whether requests fail.
    is_faulty: bool,
    /// Whether simulated time passes between requests and their answers.
    is_slow: bool,
    /// Whether it is locked for a run, as a directory is and an object store is not.
    has_lock: bool,
    /// How many requests of each host have failed.
    failures: Vec<AtomicU64>,
    /// How often the run was made.
    attempts: AtomicU64,
}

/// How a run is ended.
struct End {
    /// How many checkpoints are taken.
    checkpoints: usize,
    /// How often the programs look at the job before each.
    looks: usize,
    /// What happens to hosts after so many steps, which may be before these checkpoints or later.
    outage: Option<(u64, Outage)>,
    /// Whether the job is cancelled after these checkpoints.
    is_cancelled: bool,
    /// Whether the job has to end well.
    is_last: bool,
}

/// What has become of a run on one host.
enum Ended {
    Well(Answer),
    Interrupted,
    /// The job cannot have checkpoints, or not there, or cannot be restored there: why.
    Refused(String),
}

/// The numbers of hosts of runs that follow each other.
const HOSTS: [[usize; 3]; 8] =
    [[2, 3, 1], [3, 1, 2], [1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 3, 2], [2, 3, 2], [3, 2, 3]];

impl Restarted {
    /// What all runs have is of `usual`.
    pub(super) fn drawn_from(seed: u64, usual: impl Fn(u64) -> Config) -> Self {
        let hosts = HOSTS[seed as usize % HOSTS.len()];
        let last = hosts.len() - 1;
        let run = |(at, hosts): (usize, usize)| {
            let seed = seed * 3 + at as u64;
            Run::drawn_from(seed, usual(seed), hosts, at == last)
        };
        let mut runs: Vec<_> = hosts.into_iter().enumerate().map(run).collect();
        // What fails is as an object store in all of them.
        let has_lock = !runs.iter().any(|run| run.storage.is_faulty);
        runs.iter_mut().for_each(|run| run.storage.has_lock = has_lock);
        Self { runs }
    }

    /// Runs the job, and judges the result. If no run went on after another one, returns why.
    pub(super) fn run(
        &self,
        job: &Job<'_>,
        judge: &mut dyn FnMut(Answer) -> Result<(), String>,
    ) -> Result<Option<String>, String> {
        let dir = tempfile::tempdir().map_err(|error| format!("no directory: {error}"))?;
        let again = self.runs.last().map(|last| repeat_n(last, last.storage.most_failures()));
        for (number, run) in self.runs.iter().chain(again.into_iter().flatten()).enumerate() {
            let (mut is_over, mut refused) = (false, None);
            for (host, ended) in run.run(job, dir.path()).into_iter().enumerate() {
                let judged = match ended {
                    Ok(Ended::Refused(why)) => {
                        refused = refused.or(Some(why));
                        Ok(())
                    }
                    Ok(Ended::Interrupted) => Ok(()),
                    Ok(Ended::Well(records)) => {
                        // Others may have ended well when it was lost or cut off, and the job begins again.
                        is_over |= HostId(host) == HostId::FIRST;
                        judge(records)
                    }
                    // The refusal may be the cause.
                    Err(_) if refused.is_some() => Ok(()),
                    Err(error) => Err(error),
                };
                judged.map_err(|what| format!("run {number}, on host {host}: {what}"))?;
            }
            if refused.is_some() {
                return Ok(refused);
            }
            if is_over {
                return Ok((number == 0).then(|| ENDED.to_owned()));
            }
        }
        Err(NOT_WELL.to_owned())
    }

    pub(super) fn show(&self) -> String {
        let runs: Vec<_> = self.runs.iter().map(Run::show).collect();
        runs.join(", and then ")
    }
}

impl Run {
    fn drawn_from(seed: u64, usual: Config, hosts: usize, is_last: bool) -> Self {
        let [drawn, more] =
            [0, 1].map(|word| hash_u64(2 * seed + word + RESTARTED).to_le_bytes().map(usize::from));
        let batch = BatchMode::Fixed { size: 1 + drawn[0] % 40 };
        let turn = NonZeroUsize::MIN.saturating_add(drawn[1] % 4);
        let cores = (0..hosts).map(|host| 1 + drawn[2 + host] % 3).collect();
        let steps = [8, 32, 64][drawn[5] % 3];
        let after = [50, 200, 800, 3200][more[2] % 4] * (1 + more[3] as u64 % 4);
        let outage = draw_outage(seed, hosts, is_last).map(|outage| (after, outage));
        let ends_itself = matches!(outage, Some((_, Outage::Lost(_))));
        let checkpoints = if is_last { [0, 0, 1, 2][drawn[7] % 4] } else { 1 + drawn[7] % 3 };
        let end = End {
            checkpoints,
            looks: [1, 4, 16, 64][more[0] % 4] * (1 + more[1] % 3),
            outage,
            is_cancelled: !is_last && !ends_itself,
            is_last,
        };
        let config = Config { batch, turn, ..usual };
        let (overtakes, storage) = (drawn[6] % 2 == 0, Storage::drawn_from(seed, hosts));
        Self { config, cores, seed, steps, overtakes, storage, end }
    }

    /// Runs the job; returns what has become of it on each host.
    fn run(&self, job: &Job<'_>, dir: &Path) -> Vec<Result<Ended, String>> {
        let Self { config, cores, seed, steps, storage, end, .. } = self;
        storage.attempts.fetch_add(1, Ordering::Relaxed);
        let cluster = Cluster::looking_after(*steps, *seed, config.turn.get(), cores.len());
        if let Some((after, outage)) = &end.outage {
            cluster.begin_after(*after, outage.clone());
        }
        on_cluster(&cluster, config, cores, &|env| self.run_on_host(job, env, dir))
    }

    fn run_on_host(&self, job: &Job<'_>, env: &Environment, dir: &Path) -> Result<Ended, String> {
        let folder = env.folder_of(dir).map_err(failed)?;
        let running = Arc::<OnceLock<JobControl>>::default();
        let storage = &self.storage;
        // One that fails has no lock.
        if storage.has_lock && !storage.is_slow {
            return self.run_with(job, env, &folder, &running);
        }
        let host = env.host().0;
        let attempts = storage.attempts.load(Ordering::Relaxed);
        let seed = attempts << 32 | (3 * self.seed + host as u64);
        let failures = &storage.failures[host];
        let (rate, most) = FAILURES;
        let left = if storage.is_faulty { most - failures.load(Ordering::Relaxed) } else { 0 };
        let mut faulty = Faulty::around(folder, seed + RESTARTED, rate, left);
        if storage.has_lock {
            faulty = faulty.with_lock();
        }
        if storage.is_slow {
            let (env, running) = (env.clone(), Arc::clone(&running));
            faulty = faulty.slowed(move |steps| pass(&env, &running, steps));
        }
        let faulty = Arc::new(faulty);
        let ended = self.run_with(job, env, &(Arc::clone(&faulty) as _), &running);
        failures.fetch_add(left - faulty.failures_left(), Ordering::Relaxed);
        ended
    }

    fn run_with(
        &self,
        job: &Job<'_>,
        env: &Environment,
        folder: &Arc<dyn Folder>,
        running: &OnceLock<JobControl>,
    ) -> Result<Ended, String> {
        // Hosts do not begin at the same time.
        folder.pass_time();
        let checkpoints = self.open(env, folder).map_err(failed)?;
        let is_ended = |error: &Error| {
            let kinds = [ErrorKind::Cancelled, ErrorKind::Lost];
            !self.end.is_last && kinds.contains(&error.kind()) || self.has_drawn(error)
        };
        let (begun, records) = match begin(job, env, &checkpoints.checkpoints) {
            Err(error) if has_none(&error) || needs_as_many_tasks(&error) => {
                return Ok(Ended::Refused(error.to_string()));
            }
            Err(error) if is_ended(&error) => return Ok(Ended::Interrupted),
            begun => begun.map_err(failed)?,
        };
        let _ = running.set(begun.control());
        let taken = self.end.take(&begun, env, &checkpoints, &|error| self.has_drawn(error));
        match (taken, begun.wait()) {
            (_, Ok(_)) => records().map(Ended::Well).map_err(failed),
            // An operator could not save what it has on disk.
            (Err(error), Err(ended)) if error.kind() == ErrorKind::Plan && is_ended(&ended) => {
                Ok(Ended::Refused(error.to_string()))
            }
            (Ok(()), Err(error)) if is_ended(&error) => Ok(Ended::Interrupted),
            (Err(error), _) | (_, Err(error)) => Err(failed(error)),
        }
    }

    /// Opens the checkpoints; where their storage fails, again.
    fn open(&self, env: &Environment, folder: &Arc<dyn Folder>) -> Result<Checkpointing> {
        loop {
            match env.checkpoints_of(folder) {
                Err(error) if self.has_drawn(&error) => {}
                Ok(mut opened) if self.overtakes => {
                    opened.overtake_at_once();
                    return Ok(opened);
                }
                opened => return opened,
            }
        }
    }

    /// Whether the storage has failed because that was drawn.
    fn has_drawn(&self, error: &Error) -> bool {
        self.storage.is_faulty && error.to_string().contains(INJECTED)
    }

    fn show(&self) -> String {
        let Self { config, cores, seed, overtakes, storage, end, .. } = self;
        let barriers = if *overtakes { ", with barriers that overtake batches" } else { "" };
        let slow = if storage.is_slow { ", with a slow storage of checkpoints" } else { "" };
        let faulty = match storage.is_faulty {
            true => {
                let failures = storage.failures();
                format!(", with a storage of checkpoints that has failed {failures} times")
            }
            false => String::new(),
        };
        let End { checkpoints, outage, .. } = end;
        let outage =
            outage.as_ref().map(|(after, what)| format!(", and after {after} steps, {what}"));
        let outage = outage.unwrap_or_default();
        let taken = match end.is_cancelled {
            true => format!(", cancelled after {checkpoints} checkpoints"),
            false => format!(", with {checkpoints} checkpoints"),
        };
        format!(
            "{}, as on hosts of {cores:?} cores, in the order of seed {seed}{barriers}{slow}{faulty}{taken}{outage}",
            show(config)
        )
    }
}

/// What happens in a run on so many hosts, if there are several. In the last run, no host is given up.
fn draw_outage(seed: u64, hosts: usize, is_last: bool) -> Option<Outage> {
    let drawn = hash_u64(seed + OUTAGES).to_le_bytes().map(usize::from);
    if hosts == 1 || drawn[0] % 4 == 0 {
        return None;
    }
    let one = drawn[1] % hosts;
    let other = (one + 1 + drawn[2] % (hosts - 1)) % hosts;
    let (one, other) = (HostId(one), HostId(other));
    let long = [2 * LOST_AFTER, 8 * LOST_AFTER][drawn[3] % 2];
    let steps = if is_last || drawn[4] % 3 == 0 { LOST_AFTER / 2 } else { long };
    let kinds = if is_last { 2 } else { 4 };
    Some(match drawn[5] % kinds {
        0 => Outage::Stopped(one, steps),
        1 => {
            let back = (drawn[6] % 2 == 0).then_some((other, one));
            let steps = if steps > LOST_AFTER { u64::MAX } else { steps };
            Outage::Cut([(one, other)].into_iter().chain(back).collect(), steps)
        }
        2 => Outage::Lost(vec![one]),
        _ if hosts > 2 && drawn[6] % 2 == 0 => Outage::Lost(vec![one, other]),
        _ => Outage::Lost((0..hosts).map(HostId).collect()),
    })
}

impl Storage {
    fn drawn_from(seed: u64, hosts: usize) -> Self {
        let [fails, waits, ..] = hash_u64(seed + STORAGE).to_le_bytes().map(usize::from);
        Self {
            is_faulty: fails % FAULTY == 0,
            is_slow: waits % SLOW == 0,
            has_lock: true,
            failures: (0..hosts).map(|_| AtomicU64::new(0)).collect(),
            attempts: AtomicU64::new(0),
        }
    }

    /// How many requests have failed.
    fn failures(&self) -> u64 {
        self.failures.iter().map(|failures| failures.load(Ordering::Relaxed)).sum()
    }

    /// How many may.
    fn most_failures(&self) -> usize {
        if self.is_faulty { self.failures.len() * FAILURES.1 as usize } else { 0 }
    }
}

/// Lets so many steps pass while a checkpoint is written or read. In some places the program sends a barrier instead.
fn pass(env: &Environment, running: &OnceLock<JobControl>, steps: u64) {
    match running.get() {
        Some(job) if steps % BARRIERS == 1 => drop(job.barrier()),
        _ => env.pass_time(steps * STEP),
    }
}

impl End {
    /// On the first host, takes checkpoints, and cancels the job; on others, saves their parts. A checkpoint that fails because
    /// that `has_drawn` is left out.
    fn take(
        &self,
        job: &JobHandle,
        env: &Environment,
        checkpoints: &Checkpointing,
        has_drawn: &dyn Fn(&Error) -> bool,
    ) -> Result<()> {
        if !env.is_first_host() {
            return job.take_checkpoint(checkpoints).map(drop);
        }
        // A job that goes on does so without those that cannot be taken.
        let is_left_out = |error: &Error| self.is_last && error.kind() == ErrorKind::Plan;
        let mut taken = Ok(true);
        for _ in 0..self.checkpoints {
            job.drive_for(self.looks);
            taken = match job.take_checkpoint(checkpoints) {
                Err(error) if has_drawn(&error) || is_left_out(&error) => Ok(true),
                taken => taken,
            };
            if !matches!(taken, Ok(true)) {
                break;
            }
        }
        if self.is_cancelled || taken.is_err() {
            job.cancel();
        }
        taken.map(drop)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::check::{RESTARTS, erased, typed};

    /// In memory, and with records on disk.
    #[test]
    fn jobs_go_on_where_the_storage_of_their_checkpoints_fails() {
        let count = |env: &Environment| {
            let numbers = env.range(0..3000).shuffle().map(|n| n % 7);
            numbers.group_by(|n| *n).count()
        };
        let unique = |env: &Environment| {
            let texts = env.range(0..3000).shuffle().map(|n| format!("{:0300}", n % 1000));
            texts.unique().map(|text| (text.trim_start_matches('0').len() as u64, 1u64))
        };
        let (count, unique) = (erased(&count), erased(&unique));
        let jobs: [(&Job<'_>, usize, u64); 2] = [(&count, 7, 3000), (&unique, 1000, 1000)];
        let failures = |(job, records, sum): (&Job<'_>, usize, u64), seed: u64| {
            let usual = |_| Config { memory: 1 << 12, ..Config::default() };
            let series = Restarted::drawn_from(seed, usual);
            let judged = series.run(job, &mut |found| {
                let found: Vec<(u64, u64)> = typed(found);
                let counted = (found.len(), found.iter().map(|(_, n)| *n).sum());
                (counted == (records, sum)).then_some(()).ok_or(format!("{found:?}"))
            });
            judged.unwrap_or_else(|what| panic!("{}\n  {what}", series.show()));
            series.runs.iter().map(|run| run.storage.failures()).sum::<u64>()
        };
        let is_faulty = |seed: &u64| {
            let series = Restarted::drawn_from(*seed, |_| Config::default());
            series.runs.iter().any(|run| run.storage.is_faulty)
        };
        let seeds = (0..24).filter(is_faulty);
        let drawn = seeds.flat_map(|seed| jobs.map(|job| failures(job, seed)));
        let drawn: Vec<_> = drawn.collect();
        let often = drawn.iter().filter(|failures| **failures > 0).count();
        // The others end before a write that was to fail.
        assert!(often >= drawn.len() / 3, "{drawn:?}");
    }

    /// Why the series of a seed shows nothing of checkpoints.
    fn why_not(job: &Job<'_>, seed: u64) -> Option<String> {
        let series = Restarted::drawn_from(seed, |_| Config::default());
        let ended = series.run(job, &mut |_| Ok(()));
        ended.unwrap_or_else(|what| panic!("{}\n  {what}", series.show()))
    }

    #[test]
    fn a_series_shows_nothing_if_the_job_ends_in_its_first_run() {
        let nothing = |env: &Environment| env.iter(0..0u8);
        let much = |env: &Environment| env.range(0..10_000).shuffle();
        let (nothing, much) = (erased(&nothing), erased(&much));
        assert!((0..8).any(|seed| why_not(&nothing, seed).as_deref() == Some(ENDED)));
        assert!((0..64).any(|seed| why_not(&much, seed).is_none()));
    }

    #[test]
    fn hosts_are_lost_stopped_and_cut_off_in_series_of_runs() {
        let all: Vec<_> =
            (0..RESTARTS).map(|seed| Restarted::drawn_from(seed, |_| Config::default())).collect();
        let runs = all.iter().flat_map(|series| &series.runs);
        let outages: Vec<_> = runs.filter_map(|run| Some(&run.end.outage.as_ref()?.1)).collect();
        let count = |is: &dyn Fn(&Outage) -> bool| outages.iter().filter(|it| is(it)).count();
        assert!(count(&|it| matches!(it, Outage::Lost(hosts) if hosts.len() == 1)) > 4);
        assert!(count(&|it| matches!(it, Outage::Lost(hosts) if hosts.len() > 1)) > 4);
        for is_long in [false, true] {
            let is = |steps: u64| (steps > LOST_AFTER) == is_long;
            assert!(count(&|it| matches!(it, Outage::Stopped(_, steps) if is(*steps))) > 4);
            for ways in [1, 2] {
                let is_cut = |it: &Outage| match it {
                    Outage::Cut(all, steps) => all.len() == ways && is(*steps),
                    _ => false,
                };
                assert!(count(&is_cut) > 2, "{ways} ways, {is_long}");
            }
        }
    }

    #[test]
    fn every_run_of_a_series_may_have_a_storage_that_fails_or_is_slow() {
        let all: Vec<_> =
            (0..RESTARTS).map(|seed| Restarted::drawn_from(seed, |_| Config::default())).collect();
        for at in 0..3 {
            let storages: Vec<_> = all.iter().map(|series| &series.runs[at].storage).collect();
            let count = |is: &dyn Fn(&Storage) -> bool| {
                storages.iter().filter(|storage| is(storage)).count()
            };
            assert!(count(&|storage| storage.is_faulty) > 4, "run {at}");
            assert!(count(&|storage| storage.is_slow && storage.has_lock) > 4, "run {at}");
            assert!(count(&|storage| storage.is_slow && storage.is_faulty) > 0, "run {at}");
        }
        let takes = |series: &&Restarted| series.runs[2].end.checkpoints > 0;
        assert!(all.iter().filter(takes).count() > 16, "last runs take checkpoints too");
    }

    /// Takes checkpoints of a short job in a slow storage, on two hosts. Adds to the first number in how many places records came
    /// while a checkpoint was written, and to the second in how many the job ended.
    fn take_slowly(env: &Environment, dir: &Path, seen: &[Arc<AtomicU64>; 2]) -> Result<()> {
        let (records, running) =
            (Arc::new(AtomicU64::new(0)), Arc::<OnceLock<JobControl>>::default());
        let slow = {
            let (env, records, running) = (env.clone(), Arc::clone(&records), Arc::clone(&running));
            let [moved, ended] = seen.clone();
            move |steps: u64| {
                let is_over = || running.get().is_some_and(|job| job.is_over());
                let (before, was_over) = (records.load(Ordering::Relaxed), is_over());
                env.pass_time(8 * steps * STEP);
                let is_more = records.load(Ordering::Relaxed) > before;
                moved.fetch_add(u64::from(is_more), Ordering::Relaxed);
                ended.fetch_add(u64::from(is_over() && !was_over), Ordering::Relaxed);
            }
        };
        let faulty = Faulty::around(env.folder_of(dir)?, 1, 0, 0).with_lock().slowed(slow);
        let folder: Arc<dyn Folder> = Arc::new(faulty);
        let checkpoints = env.checkpoints_of(&folder)?;
        env.range(0..500).shuffle().for_each_parallel(move |_| {
            records.fetch_add(1, Ordering::Relaxed);
        });
        let job = env.start_with(Some(&checkpoints.checkpoints))?;
        let _ = running.set(job.control());
        while job.take_checkpoint(&checkpoints)? {
            job.drive_for(4);
        }
        job.wait().map(drop)
    }

    #[test]
    fn a_job_goes_on_and_ends_while_a_checkpoint_is_written() {
        let seen = [Arc::default(), Arc::default()];
        for seed in 0..8 {
            let dir = tempfile::tempdir().unwrap();
            let config = Config { batch: BatchMode::Fixed { size: 7 }, ..Config::default() };
            let cluster = Cluster::looking_after(8, seed, 1, 2);
            let run = |env: &Environment| take_slowly(env, dir.path(), &seen).map_err(failed);
            let ended = on_cluster(&cluster, &config, &[1, 2], &run);
            ended.into_iter().for_each(|ended| ended.unwrap());
        }
        let [moved, ended] = seen.map(|seen| seen.load(Ordering::Relaxed));
        assert!(moved > 0 && ended > 0, "{moved} and {ended}");
    }
}
