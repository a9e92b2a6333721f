//! Runs of a job that are ended after a checkpoint, and others that begin with it.

use super::{Answer, Job, Records, on_cluster, show};
use crate::checkpoint::{Checkpoints, Faulty, Folder, INJECTED, OTHER_TASKS, Snapshot, Taken};
use crate::config::{BatchMode, Config, Scheduler};
use crate::data::hash_u64;
use crate::net::HostId;
use crate::plan::CANNOT_HAVE;
use crate::runtime::Cluster;
use crate::stream::{Checkpointing, Environment, JobHandle};
use crate::sync::{AtomicU64, Ordering};
use crate::{Error, ErrorKind, Result};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

/// Draws other numbers for these runs than for those without checkpoints.
const INTERRUPTED: u64 = 1 << 33;
/// Draws others for runs on several hosts.
const RESTARTED: u64 = 1 << 34;
/// Of how many series of runs one has a storage of checkpoints that fails.
const FAULTY: u64 = 4;
/// Of 256 requests, how many fail of each host's storage; and how many failures there are.
const FAILURES: (u64, u64) = (24, 12);
/// How a run ends that has to end well and does not.
const NOT_WELL: &str = "the last run has not ended well";

/// A run that is cancelled after a barrier, and another one that begins with what was saved at the barrier.
pub(super) struct Interrupted {
    first: Config,
    /// After how many steps of its scheduler there is a barrier in the first.
    steps: usize,
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
pub(super) struct Resumed {
    pub(super) records: Answer,
    /// Whether the one before it was interrupted before its end.
    pub(super) is_interrupted: bool,
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
        Self { first: config(1 + drawn[3] % 3), steps, second: config(1 + drawn[4] % 3) }
    }

    /// The second run; `None` if the job cannot have checkpoints, or not at that barrier.
    pub(super) fn run(&self, job: &Job<'_>) -> Result<Option<Resumed>, String> {
        // Of what operators have on disk.
        let dir = tempfile::tempdir().map_err(|error| format!("no directory: {error}"))?;
        let begin = |config: &Config, restored| {
            let checkpoints = Checkpoints::with_files_in(dir.path(), restored);
            begin(job, &Environment::checked(config.clone()), &checkpoints)
        };
        let first = match begin(&self.first, None) {
            Err(error) if has_none(&error) => return Ok(None),
            begun => begun.map_err(failed)?.0,
        };
        first.drive_for(self.steps);
        let taken = match first.snapshot() {
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
            (Err(_), Err(error)) if error.kind() == ErrorKind::Cancelled => return Ok(None),
            (_, ended) => return ended.map(|_| None).map_err(failed),
        };
        let (mut bytes, entries) = snapshot.pieces();
        entries.for_each(|entries| bytes.extend_from_slice(entries));
        let snapshot = Snapshot::decode(&bytes).map_err(|error| format!("torn: {error}"))?;
        let (second, records) = match begin(&self.second, Some(snapshot)) {
            Err(error) if needs_as_many_tasks(&error) && self.first.cores != self.second.cores => {
                return Ok(None);
            }
            begun => begun.map_err(failed)?,
        };
        second.wait().map_err(failed)?;
        records().map(|records| Some(Resumed { records, is_interrupted })).map_err(failed)
    }

    pub(super) fn show(&self) -> String {
        let Self { first, steps, second } = self;
        format!(
            "{}, interrupted at a barrier after {steps} steps, and then {}",
            show(first),
            show(second)
        )
    }
}

/// Runs of a job on one host or several, each of which begins with the newest checkpoint of those before it, from files.
/// All but the last one are ended.
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
    /// Whether requests to the storage of its checkpoints fail.
    is_faulty: bool,
    /// How many have failed.
    failures: AtomicU64,
    end: Option<End>,
}

/// How a run is ended.
#[derive(Clone, Copy)]
struct End {
    /// How many checkpoints are taken.
    checkpoints: usize,
    /// How often the programs look at the job before each.
    looks: usize,
    /// A host that is lost after so many steps, which may be before these checkpoints or later. Without one, the job is
    /// cancelled.
    lost: Option<(u64, HostId)>,
}

/// What has become of a run on one host.
enum Ended {
    Well(Answer),
    Interrupted,
    /// The job cannot have checkpoints, or not there, or cannot be restored there.
    Refused,
}

/// The numbers of hosts of runs that follow each other.
const HOSTS: [[usize; 3]; 8] =
    [[2, 3, 1], [3, 1, 2], [1, 2, 3], [3, 2, 1], [2, 1, 3], [1, 3, 2], [2, 3, 2], [3, 2, 3]];

impl Restarted {
    /// What all runs have is of `usual`.
    pub(super) fn drawn_from(seed: u64, usual: impl Fn(u64) -> Config) -> Self {
        let hosts = HOSTS[seed as usize % HOSTS.len()];
        let last = hosts.len() - 1;
        let is_faulty = seed % FAULTY == FAULTY - 1;
        let run = |(at, hosts): (usize, usize)| {
            let seed = seed * 3 + at as u64;
            let run = Run::drawn_from(seed, usual(seed), hosts, at == last);
            // The last one has to end well.
            Run { is_faulty: is_faulty && at != last, ..run }
        };
        Self { runs: hosts.into_iter().enumerate().map(run).collect() }
    }

    /// Runs the job, and judges the result.
    pub(super) fn run(
        &self,
        job: &Job<'_>,
        judge: &mut dyn FnMut(Answer) -> Result<(), String>,
    ) -> Result<(), String> {
        let dir = tempfile::tempdir().map_err(|error| format!("no directory: {error}"))?;
        for (number, run) in self.runs.iter().enumerate() {
            let mut is_over = false;
            for (host, ended) in run.run(job, dir.path()).into_iter().enumerate() {
                let judged = match ended {
                    Ok(Ended::Refused) => return Ok(()),
                    Ok(Ended::Interrupted) => Ok(()),
                    Ok(Ended::Well(records)) => {
                        // Others may have ended well when it was lost, and the job begins again.
                        is_over |= HostId(host) == HostId::FIRST;
                        judge(records)
                    }
                    Err(error) => Err(error),
                };
                judged.map_err(|what| format!("run {number}, on host {host}: {what}"))?;
            }
            if is_over {
                return Ok(());
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
        let lost = hosts > 1 && drawn[6] % 2 == 0;
        let after = [50, 200, 800, 3200][more[2] % 4] * (1 + more[3] as u64 % 4);
        let end = End {
            checkpoints: 1 + drawn[7] % 3,
            looks: [1, 4, 16, 64][more[0] % 4] * (1 + more[1] % 3),
            lost: lost.then_some((after, HostId(more[4] % hosts))),
        };
        let end = Some(end).filter(|_| !is_last);
        let config = Config { batch, turn, ..usual };
        let (is_faulty, failures) = (false, AtomicU64::new(0));
        Self { config, cores, seed, steps, is_faulty, failures, end }
    }

    /// Runs the job; returns what has become of it on each host.
    fn run(&self, job: &Job<'_>, dir: &Path) -> Vec<Result<Ended, String>> {
        let Self { config, cores, seed, steps, end, .. } = self;
        let cluster = Cluster::looking_after(*steps, *seed, config.turn.get(), cores.len());
        if let Some((after, host)) = end.and_then(|end| end.lost) {
            cluster.drop_after(after, host);
        }
        on_cluster(&cluster, config, cores, &|env| self.run_on_host(job, env, dir))
    }

    fn run_on_host(&self, job: &Job<'_>, env: &Environment, dir: &Path) -> Result<Ended, String> {
        let folder = env.folder_of(dir).map_err(failed)?;
        if !self.is_faulty {
            return self.run_with(job, env, &folder);
        }
        let seed = 2 * self.seed + u64::from(env.is_first_host()) + RESTARTED;
        let (rate, failures) = FAILURES;
        let faulty = Arc::new(Faulty::around(folder, seed, rate, failures));
        let ended = self.run_with(job, env, &(Arc::clone(&faulty) as _));
        self.failures.fetch_add(failures - faulty.failures_left(), Ordering::Relaxed);
        ended
    }

    fn run_with(
        &self,
        job: &Job<'_>,
        env: &Environment,
        folder: &Arc<dyn Folder>,
    ) -> Result<Ended, String> {
        let checkpoints = self.open(env, folder).map_err(failed)?;
        let is_ended = |error: &Error| {
            let kinds = [ErrorKind::Cancelled, ErrorKind::Lost];
            self.end.is_some() && kinds.contains(&error.kind()) || self.has_drawn(error)
        };
        let (begun, records) = match begin(job, env, &checkpoints.checkpoints) {
            Err(error) if has_none(&error) || needs_as_many_tasks(&error) => {
                return Ok(Ended::Refused);
            }
            Err(error) if is_ended(&error) => return Ok(Ended::Interrupted),
            begun => begun.map_err(failed)?,
        };
        let has_drawn = |error: &Error| self.has_drawn(error);
        let taken = self.end.map_or(Ok(()), |end| end.take(&begun, env, &checkpoints, &has_drawn));
        match (taken, begun.wait()) {
            (_, Ok(_)) => records().map(Ended::Well).map_err(failed),
            // An operator could not save what it has on disk.
            (Err(error), Err(ended)) if error.kind() == ErrorKind::Plan && is_ended(&ended) => {
                Ok(Ended::Refused)
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
                opened => return opened,
            }
        }
    }

    /// Whether the storage has failed because that was drawn.
    fn has_drawn(&self, error: &Error) -> bool {
        self.is_faulty && error.to_string().contains(INJECTED)
    }

    fn show(&self) -> String {
        let Self { config, cores, seed, is_faulty, failures, end, .. } = self;
        let storage = match is_faulty {
            true => {
                let failures = failures.load(Ordering::Relaxed);
                format!(", with a storage of checkpoints that has failed {failures} times")
            }
            false => String::new(),
        };
        let end = match end {
            None => String::new(),
            Some(End { checkpoints, lost: None, .. }) => {
                format!(", cancelled after {checkpoints} checkpoints")
            }
            Some(End { lost: Some((after, host)), .. }) => {
                format!(", until host {} is lost after {after} steps", host.0)
            }
        };
        format!(
            "{}, as on hosts of {cores:?} cores, in the order of seed {seed}{storage}{end}",
            show(config)
        )
    }
}

impl End {
    /// On the first host, takes checkpoints, and cancels the job; on others, saves their parts. A checkpoint that fails because
    /// that `has_drawn` is left out.
    fn take(
        self,
        job: &JobHandle,
        env: &Environment,
        checkpoints: &Checkpointing,
        has_drawn: &dyn Fn(&Error) -> bool,
    ) -> Result<()> {
        if !env.is_first_host() {
            return job.take_checkpoint(checkpoints).map(drop);
        }
        let mut taken = Ok(true);
        for _ in 0..self.checkpoints {
            job.drive_for(self.looks);
            taken = match job.take_checkpoint(checkpoints) {
                Err(error) if has_drawn(&error) => Ok(true),
                taken => taken,
            };
            if !matches!(taken, Ok(true)) {
                break;
            }
        }
        if self.lost.is_none() || taken.is_err() {
            job.cancel();
        }
        taken.map(drop)
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::check::{erased, typed};

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
            let failures = series.runs.iter().map(|run| run.failures.load(Ordering::Relaxed));
            failures.sum::<u64>()
        };
        let seeds = (0..48).filter(|seed| seed % FAULTY == FAULTY - 1);
        let drawn = seeds.flat_map(|seed| jobs.map(|job| failures(job, seed)));
        let drawn: Vec<_> = drawn.collect();
        let often = drawn.iter().filter(|failures| **failures > 2).count();
        assert!(often > drawn.len() / 2, "{drawn:?}");
    }
}
