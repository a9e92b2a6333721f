//! Takes the checkpoints of a job, on a thread of its own.
//!
//! On several hosts, the first one does: it asks the others for the parts of their tasks, and writes the checkpoint when all
//! parts are on the disk. What a host with parts but without a checkpoint has written counts for nothing.
//!
//! A job that is suspended is ended here, after a last checkpoint: behind its barrier, sources read nothing. If that checkpoint
//! cannot be taken the job is cancelled, since whatever requested it may not wait for another attempt; one that is drained ends by
//! itself in any case. The job ends as suspended when all hosts have committed what the checkpoint has: the next run may come when
//! systems outside have forgotten what it would commit. So it may from a savepoint, which the program gets when all have.

mod writer;

use super::running_job::RunningJob;
use super::savepoints::Request;
use super::watch::Warnings;
use crate::checkpoint::{
    Aside, CheckpointDir, CheckpointFile, Checkpoints, Counted, Folder, Part, Store, Stored, make,
};
use crate::clock::{Nanos, nanos};
use crate::config::CheckpointConfig;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::fault::{Fault, is_planted};
use crate::flow::{Epoch, catch};
use crate::metrics::show;
use crate::net::{HostId, Hosts};
use crate::runtime::{Failed, SaveOrder, ToSave};
use crate::sync::{AtomicBool, Mutex, Ordering, join_all, lock, spawn};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::thread::JoinHandle;
use std::time::Duration;
use writer::{PAUSES, Writer, Written};

/// How often the thread looks at the job's clock, and at whether an operator waits for a checkpoint.
const LOOK: Duration = Duration::from_millis(20);

/// The most tasks whose commits are made at the same time.
const COMMITS_AT_ONCE: usize = 16;

/// A barrier is reported when it takes longer than so many intervals, and than this.
const LATE_INTERVALS: u32 = 10;
const LATE: Duration = Duration::from_secs(5);

/// The kinds of operators whose effects no checkpoint can take back, and what is said of them.
const AT_LEAST_ONCE: [(&str, &str); 8] = [
    ("for_each", CALLED_AGAIN),
    ("for_each_parallel", CALLED_AGAIN),
    ("print", PRINTED_AGAIN),
    ("to_channel", RECEIVED_AGAIN),
    ("map_async", MADE_AGAIN),
    ("map_blocking", MADE_AGAIN),
    ("try_map_async", MADE_AGAIN),
    ("try_map_blocking", MADE_AGAIN),
];

const CALLED_AGAIN: &str = "what its closure does is done at least once, not exactly once: after a failure, it is called \
                            again for the records since the last checkpoint";
const PRINTED_AGAIN: &str = "records are printed at least once, not exactly once: after a failure, those since the last \
                             checkpoint are printed again";
const RECEIVED_AGAIN: &str = "the program receives records at least once, not exactly once: after a failure, it receives those since \
                              the last checkpoint again";
const MADE_AGAIN: &str = "calls are made at least once, not exactly once: after a failure, those that had not ended at the last \
                          checkpoint, or came after it, are made again";

/// Where a job's checkpoints are, before it has started.
pub(crate) struct Checkpointing {
    writer: Arc<Writer>,
    pub(crate) checkpoints: Arc<Checkpoints>,
    interval: Duration,
    /// The time after which barriers overtake batches, if it is set.
    overtakes: Option<Duration>,
    dir: PathBuf,
    /// Where what is copied is staged, if it has to be.
    spill_dir: PathBuf,
    /// What is said at the start of a job that goes on from a checkpoint.
    resumption: Option<String>,
}

/// What a checkpoint is taken for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// To go on from it after a failure.
    Recovery,
    /// To be copied for the program, which may keep the copy for as long as it likes.
    Savepoint,
    /// To end the job with it: sources read nothing behind its barrier.
    Suspension,
}

impl Purpose {
    /// Whether what the checkpoint has must be committed on all hosts before the program gets it, or the job ends.
    fn awaits_commits(self) -> bool {
        self != Self::Recovery
    }
}

/// The thread that takes checkpoints.
pub(super) struct Checkpointer(JoinHandle<()>);

/// The directories in which hosts of this process have had the checkpoints of a job.
static USED: LazyLock<Mutex<BTreeSet<(PathBuf, HostId)>>> = LazyLock::new(Mutex::default);

impl Checkpointing {
    /// Reads the newest checkpoint, if there is one. Not on other hosts than the first, which get to know when the job is launched
    /// which one is to be read.
    ///
    /// # Errors
    ///
    /// If the directory cannot be used, if this process has had a job with checkpoints in it before, or if none of the
    /// checkpoints in it can be read.
    pub(super) fn open(
        config: &CheckpointConfig,
        spill_dir: &Path,
        hosts: &Hosts,
        warnings: &Warnings,
    ) -> Result<Self> {
        let folder = make(&config.dir, spill_dir)?;
        let (dir, host) = (folder.path().to_owned(), hosts.me());
        if lock(&USED).contains(&(dir.clone(), host)) {
            let what = "this program has had a job with checkpoints in this directory already: a second one \
                        could not be told from it when the program is run again; give it a directory of its own";
            let place = Place::File(config.dir.clone());
            return Err(Error::new(ErrorKind::Plan, what).at(place));
        }
        let opened = Self::open_with(config, (&folder, spill_dir), hosts, warnings, PAUSES)?;
        lock(&USED).insert((dir, host));
        Ok(opened)
    }

    /// As [`open`](Self::open), for tests of jobs, which run a job more than once in one process, and wait for no storage.
    pub(super) fn open_again(
        config: &CheckpointConfig,
        folder: (&Arc<dyn Folder>, &Path),
        hosts: &Hosts,
        warnings: &Warnings,
    ) -> Result<Self> {
        Self::open_with(config, folder, hosts, warnings, [Duration::ZERO; 2])
    }

    fn open_with(
        config: &CheckpointConfig,
        (folder, spill_dir): (&Arc<dyn Folder>, &Path),
        hosts: &Hosts,
        warnings: &Warnings,
        pauses: [Duration; 2],
    ) -> Result<Self> {
        let (dir, host) = (folder.path().to_owned(), hosts.me());
        let store = match host {
            _ if hosts.count() == 1 => Store::open_run(folder)?,
            HostId::FIRST => Store::open_first(folder)?,
            _ => Store::join(folder),
        };
        let begun = match host {
            HostId::FIRST => store.begin()?,
            _ => None,
        };
        let point = store.restore_point(begun.as_ref());
        let (snapshot, first, bytes, resumption) = match begun {
            None => (None, 0, 0, None),
            Some(stored) => {
                let resumption = resumption(&stored, &config.dir);
                for error in &stored.skipped {
                    warnings.of_checkpoint(&format!(
                        "the job begins with checkpoint {}, as a newer one cannot be read: {error}",
                        stored.number
                    ));
                }
                (Some(stored.snapshot), stored.number, stored.own, Some(resumption))
            }
        };
        let last = store.number_after(first);
        let written = Mutex::new(Written { last, complete: first, ended: false });
        let (named, warnings) = (config.dir.clone(), warnings.clone());
        let writer = Arc::new(Writer { store, named, host, point, written, warnings, pauses });
        let storage = Arc::clone(&writer) as _;
        let checkpoints = Checkpoints::of_folder(Some(folder), snapshot, Some(storage));
        checkpoints.began_with((first, bytes));
        let (interval, spill_dir) = (config.interval, spill_dir.to_owned());
        let overtakes = config.alignment_timeout;
        Ok(Self { writer, checkpoints, interval, overtakes, dir, spill_dir, resumption })
    }

    /// For tests of jobs: barriers overtake batches at once.
    pub(crate) fn overtake_at_once(&mut self) {
        self.overtakes = Some(Duration::ZERO);
    }

    /// Says from what the job goes on: before it is launched, as sinks then commit what the checkpoint has, which may take long.
    pub(super) fn announce(&self, warnings: &Warnings) {
        if let Some(resumption) = &self.resumption {
            warnings.of_recovery(resumption);
        }
    }

    /// The job could not be started: its directory may be that of another one.
    pub(super) fn forget(self) {
        lock(&USED).remove(&(self.dir, self.writer.host));
    }

    /// Takes checkpoints of the job until it is over; then removes them if it has ended well, since nothing is left to be
    /// done. What keeps one from being taken is a warning, and the job goes on.
    pub(super) fn start(self, job: &Arc<RunningJob>, warnings: Warnings) -> Result<Checkpointer> {
        if self.writer.host == HostId::FIRST {
            self.checkpoints.moved().iter().for_each(|line| warnings.of_recovery(line));
            self.checkpoints.migrations().iter().for_each(|line| warnings.of_recovery(line));
            self.checkpoints.dropped().iter().for_each(|line| warnings.of_checkpoint(line));
            for op in &job.launched().plan.operators {
                if let Some((_, what)) = AT_LEAST_ONCE.iter().find(|(kind, _)| *kind == op.kind) {
                    warnings.of_checkpoint(&format!("{}: {what}", op.label()));
                }
            }
        }
        // Before the program can request any.
        job.savepoints.open();
        let job = Arc::clone(job);
        let thread = spawn("thalweg-checkpoint".to_owned(), move || {
            let taken = catch(|| match self.writer.host {
                HostId::FIRST => self.take_all(&job, &warnings),
                _ => self.save_parts(&job),
            });
            job.savepoints.close();
            if let Err(panic) = taken {
                // Without this thread, nothing takes checkpoints or suspends the job.
                job.launched().job.fail(panic);
            }
            job.wait();
            let store = &self.writer.store;
            if self.writer.host == HostId::FIRST
                && job.has_succeeded()
                && let Err(error) = store.clear()
            {
                warnings.of_checkpoint(&format!(
                    "{error}; the job has ended well, and run again, it would go on from there: remove the checkpoints with \
                     `thalweg checkpoint rm --all {}`",
                    store.dir().display()
                ));
            }
            // What was written for a checkpoint that came too late.
            if self.writer.host != HostId::FIRST && job.has_succeeded() {
                let is_own = |name: &str| store.has_written(self.writer.host, name);
                store.remove_unneeded(|name| is_own(name) || self.checkpoints.has_copied(name));
            }
            // Not when the last task is dropped, which may be later than the program knows of the end.
            store.release();
        })?;
        Ok(Checkpointer(thread))
    }

    /// Takes checkpoints until the job is over. One that is to be suspended is ended after the next.
    fn take_all(&self, job: &RunningJob, warnings: &Warnings) {
        let mut failure = Failure::default();
        let mut lateness = Lateness::new(self.interval);
        let interval = nanos(self.interval);
        let mut due = Due::after(job.now(), interval, &failure);
        while !job.is_over() {
            if let Some(why) = job.launched().job.wait_suspended(LOOK.min(self.interval)) {
                return self.suspend(job, why, &mut lateness, warnings);
            }
            let savepoints = job.savepoints.take();
            let is_wanted = job.launched().job.wants_checkpoint();
            if savepoints.is_empty() && !due.is_now(job.now(), is_wanted) {
                continue;
            }
            match self.take_for(job, savepoints, &mut lateness, warnings) {
                Ok(true) => failure.over(warnings),
                Ok(false) => break,
                Err(error) => match self.writer.store.superseded() {
                    Some(superseded) => return job.launched().job.fail(superseded),
                    None => failure.report(&error, warnings),
                },
            }
            job.launched().job.may_wait_for_checkpoints(!failure.is_by_plan());
            due = Due::after(job.now(), interval, &failure);
        }
    }

    /// Takes the last checkpoint of a job, and ends the job with it.
    fn suspend(&self, job: &RunningJob, why: &str, lateness: &mut Lateness, warnings: &Warnings) {
        let taken = self.take(job, Purpose::Suspension, lateness, warnings);
        // It is not to be started again: another run of the job has begun.
        if taken.is_err()
            && let Some(superseded) = self.writer.store.superseded()
        {
            return job.launched().job.fail(superseded);
        }
        let is_drained = job.launched().job.signals().draining();
        if let Some(end) = self.suspended(why, taken, is_drained) {
            job.launched().job.fail(end);
        }
    }

    /// Takes a checkpoint, and copies it for those requests, if there are any; returns whether the job goes on.
    fn take_for(
        &self,
        job: &RunningJob,
        savepoints: Vec<Request>,
        lateness: &mut Lateness,
        warnings: &Warnings,
    ) -> Result<bool> {
        if savepoints.is_empty() {
            return self.take(job, Purpose::Recovery, lateness, warnings);
        }
        let taken = self.take(job, Purpose::Savepoint, lateness, warnings);
        if matches!(taken, Ok(false)) {
            return taken;
        }
        let failure = match &taken {
            // What the checkpoint has may not be committed then.
            Ok(_) => job.failure(),
            Err(error) => Some(error.for_others()),
        };
        for savepoint in savepoints {
            let copied = match &failure {
                Some(error) => Err(error.for_others()),
                None => self.copy_to(&savepoint.to),
            };
            savepoint.answer(copied);
        }
        taken
    }

    /// Copies the checkpoint that was taken last.
    fn copy_to(&self, to: &Path) -> Result<CheckpointFile> {
        let number = lock(&self.writer.written).complete;
        let checkpoints = CheckpointDir::of(self.writer.store.folder());
        checkpoints.copy_to(number, || make(to, &self.spill_dir))
    }

    /// How a job ends whose last checkpoint was taken, or could not be; `None` if the job ends by itself, as one that is drained
    /// does: its sources end, and its results are those of all that they have read.
    fn suspended(&self, why: &str, taken: Result<bool>, is_drained: bool) -> Option<Error> {
        match taken {
            Ok(true) if is_drained => None,
            Err(cause) if is_drained => {
                let what = format!("{cause}; the job is drained, and goes on to its end");
                self.writer.warnings.of_checkpoint(&what);
                None
            }
            Ok(true) => {
                let what = format!("{why}: {}", self.writer.goes_on(""));
                Some(Error::new(ErrorKind::Suspended, what))
            }
            Ok(false) => None,
            Err(cause) => {
                let onward = self.writer.onward();
                let what = format!("{why}, but no last checkpoint could be taken: {onward}");
                Some(Error::new(ErrorKind::Cancelled, what).caused_by(cause))
            }
        }
    }

    /// Takes a checkpoint; returns whether the job goes on.
    fn take(
        &self,
        job: &RunningJob,
        purpose: Purpose,
        lateness: &mut Lateness,
        warnings: &Warnings,
    ) -> Result<bool> {
        let taken = self.attempt(job, purpose, lateness, warnings);
        if let Err(error) = &taken {
            self.checkpoints.fails(error.to_string());
        }
        taken
    }

    /// As [`take`](Self::take), whose statistics do not have the error.
    fn attempt(
        &self,
        job: &RunningJob,
        purpose: Purpose,
        lateness: &mut Lateness,
        warnings: &Warnings,
    ) -> Result<bool> {
        let (began, is_last) = (job.now(), purpose == Purpose::Suspension);
        // A program that goes on from a savepoint may have other exchanges.
        let overtakes = self.overtakes.filter(|_| purpose != Purpose::Savepoint);
        let epoch = job.barrier_watched(is_last, overtakes, lateness.patience, |operators| {
            warnings.of_checkpoint(&lateness.report(operators));
            lateness.patience / 2
        })?;
        lateness.passed_after(Duration::from_nanos(job.now().saturating_sub(began)));
        let Some(epoch) = epoch.filter(|_| !job.is_over()) else { return Ok(false) };
        let before = lock(&self.writer.written).last;
        let written = self.write(job, epoch, purpose, began);
        if let Err(error) = &written {
            let may_be_there = self.writer.may_be_there(before);
            let by_plan = error.kind() == ErrorKind::Plan;
            let why = error.to_string();
            job.launched().job.fails(Failed { may_be_there, by_plan, why });
        }
        if purpose.awaits_commits() && matches!(written, Ok(true)) {
            job.wait_committed(epoch);
        }
        self.checkpoints.remove_unsaved(|name| self.writer.store.refers_to(name));
        written
    }

    /// Writes a checkpoint of what the tasks of all hosts have saved at a barrier, which was sent at `began`; returns whether the job
    /// goes on.
    fn write(
        &self,
        job: &RunningJob,
        epoch: Epoch,
        purpose: Purpose,
        began: Nanos,
    ) -> Result<bool> {
        // Also if this host cannot save: what the others have saved must not pile up there.
        let superseded = self.checkpoints.superseded(epoch);
        job.launched().job.ask_to_save(epoch, superseded.clone());
        let taken = job.taken(epoch, superseded);
        let Some(answers) = job.wait_saved() else { return Ok(false) };
        let (mut parts, mut refused) = (Vec::new(), Ok(true));
        for answer in answers {
            let part = answer.and_then(|part| part.map(|part| Part::read(&part)).transpose());
            match part {
                Ok(Some(part)) => parts.push(part),
                // It is drained.
                Ok(None) => refused = refused.and(Ok(false)),
                Err(error) => refused = refused.and(Err(error)),
            }
        }
        if is_planted(Fault::LosesAPart) {
            parts.pop();
        }
        let written = match (taken, refused) {
            (Ok(Some(mut taken)), Ok(true)) => {
                let commits = std::mem::take(&mut taken.commits);
                self.writer.store.folder().pass_time();
                let written = self.writer.write(&taken, &parts, false);
                self.writer.store.folder().pass_time();
                let written = written?;
                if let Some(stored) = written {
                    let counted = self.counted(stored, (job.now(), began));
                    job.launched().job.counts(epoch, purpose.awaits_commits(), counted);
                    commit(job, commits);
                }
                return Ok(written.is_some());
            }
            (Ok(None), _) => Ok(false),
            (Ok(Some(_)), refused) => refused,
            (Err(error), _) => Err(error),
        };
        // Otherwise they would pile up as long as there is no checkpoint.
        self.writer.store.remove_parts(parts);
        written
    }

    /// Notes for statistics that a checkpoint of this number and length counts, whose barrier was sent at `began`.
    fn counted(&self, (number, bytes): (u64, u64), (now, began): (Nanos, Nanos)) -> Counted {
        let counted = Counted { number, bytes, took: now.saturating_sub(began) };
        self.checkpoints.counts(counted, now);
        counted
    }

    /// For tests of jobs, on the thread of the program: takes a checkpoint, and returns whether the job goes on. On another host
    /// than the first, writes its parts until the job is over.
    pub(super) fn take_now(&self, job: &RunningJob, warnings: &Warnings) -> Result<bool> {
        if self.writer.host == HostId::FIRST {
            let lateness = &mut Lateness::new(self.interval);
            return self.take(job, Purpose::Recovery, lateness, warnings);
        }
        self.save_parts(job);
        Ok(false)
    }

    /// As [`take_now`](Self::take_now); the first host suspends the job with the checkpoint.
    #[cfg(all(test, not(miri)))]
    pub(super) fn suspend_now(&self, job: &RunningJob, warnings: &Warnings) {
        match self.writer.host {
            HostId::FIRST => {
                self.suspend(job, "by a test", &mut Lateness::new(self.interval), warnings);
            }
            _ => self.save_parts(job),
        }
    }

    /// As [`take_now`](Self::take_now), on the first host, which copies the checkpoint into a directory.
    #[cfg(all(test, not(miri)))]
    pub(super) fn savepoint_now(
        &self,
        job: &RunningJob,
        to: &Path,
        warnings: &Warnings,
    ) -> Result<Option<CheckpointFile>> {
        job.savepoints.open();
        let (answer, lateness) = (job.savepoints.request(to), &mut Lateness::new(self.interval));
        let _ = self.take_for(job, job.savepoints.take(), lateness, warnings);
        answer.recv().map_or(Ok(None), |answer| answer.map(Some))
    }

    /// On another host than the first: writes the parts that it asks for, until the job is over.
    fn save_parts(&self, job: &RunningJob) {
        // Of the checkpoint that may still come to count: those before it do not, and what they would have committed is in its own.
        let mut commits: Option<(Epoch, Vec<Aside>)> = None;
        // The copies to which the last part refers.
        let mut copies = BTreeSet::new();
        while let Some(order) = job.wait_to_save() {
            let ToSave { epoch, superseded } = match order {
                SaveOrder::Save(barrier) => barrier,
                SaveOrder::Counts { epoch, is_awaited, counted } => {
                    self.checkpoints.counts(counted, job.now());
                    job.launched().job.may_wait_for_checkpoints(true);
                    let due = commits.take_if(|(of, _)| *of == epoch);
                    let due = due.map(|(_, commits)| commits).unwrap_or_default();
                    let has_commits = !due.is_empty();
                    if commit(job, due) && is_awaited && !job.is_over() {
                        job.launched().job.has_committed(epoch);
                    }
                    self.checkpoints.remove_unsaved(|name| copies.contains(name));
                    // The last checkpoint is to have nothing of what is committed now.
                    if has_commits || self.checkpoints.lacks_end() {
                        job.launched().job.store_end_again();
                    }
                    continue;
                }
                SaveOrder::Replaced(part) => {
                    self.writer.store.remove_parts(Part::read(&part).into_iter().collect());
                    continue;
                }
                SaveOrder::Fails(Failed { may_be_there, by_plan, why }) => {
                    self.checkpoints.fails(why);
                    job.launched().job.may_wait_for_checkpoints(!by_plan);
                    self.checkpoints.remove_unsaved(|name| may_be_there && copies.contains(name));
                    continue;
                }
            };
            let mut taken = job.taken(epoch, superseded);
            let saved = taken.as_mut().ok().and_then(Option::as_mut);
            commits = saved.map(|taken| (epoch, std::mem::take(&mut taken.commits)));
            self.writer.store.folder().pass_time();
            let part = taken
                .and_then(|taken| taken.map(|taken| self.writer.write_part(&taken)).transpose());
            self.writer.store.folder().pass_time();
            copies = part.iter().flatten().flat_map(Part::copies).cloned().collect();
            if job.is_over() {
                // The first host may have removed the others before.
                self.writer.store.remove_parts(part.ok().flatten().into_iter().collect());
                return;
            }
            let report = part.map(|part| part.map(|part| part.report()));
            job.launched().job.has_saved(epoch, report);
        }
    }
}

/// Commits what a checkpoint has that counts: for several tasks at once, since each may wait for a system outside. After an error,
/// which ends the job, no further one begins. Returns whether all were made.
fn commit(job: &RunningJob, commits: Vec<Aside>) -> bool {
    let threads = commits.len().min(COMMITS_AT_ONCE);
    let (rest, has_failed) = (Mutex::new(commits.into_iter()), AtomicBool::new(false));
    let commit_rest = || {
        loop {
            let Some(commit) = lock(&rest).next() else { return };
            if let Err(error) = catch(|| commit()).and_then(|committed| committed) {
                drop(std::mem::take(&mut *lock(&rest)));
                has_failed.store(true, Ordering::Relaxed);
                return job.launched().job.fail(error);
            }
        }
    };
    match threads {
        0 | 1 => commit_rest(),
        _ => {
            let body = |_| Box::new(commit_rest) as Box<dyn FnOnce() + Send>;
            join_all((0..threads).map(body).collect());
        }
    }
    !has_failed.load(Ordering::Relaxed)
}

/// When a barrier is reported that does not pass: at doubled times, so that a job whose barriers are always slow says it a
/// few times only.
struct Lateness {
    usual: Duration,
    patience: Duration,
}

impl Lateness {
    fn new(interval: Duration) -> Self {
        let usual = interval.saturating_mul(LATE_INTERVALS).max(LATE);
        Self { usual, patience: usual }
    }

    /// The warning about a barrier that waits at these operators.
    fn report(&mut self, operators: &str) -> String {
        let waited = show::span(self.patience);
        self.patience = self.patience.saturating_mul(2);
        format!(
            "{operators}: the barrier of a checkpoint has not passed for {waited}, and until it does, there is no newer \
             checkpoint: an iterator, a closure or a sink blocks there or behind it, or partitions wait for one another \
             because of `aligned` watermarks"
        )
    }

    /// A barrier has passed.
    fn passed_after(&mut self, waited: Duration) {
        if waited < self.usual {
            self.patience = self.usual;
        }
    }
}

/// The line from which checkpoint a job goes on.
fn resumption(stored: &Stored, dir: &Path) -> String {
    let Stored { number, bytes, age, snapshot, .. } = stored;
    let age = age.map_or_else(String::new, old);
    let size = show::bytes(*bytes);
    let end = match snapshot.is_drained {
        true => ": it was drained, so that it reads nothing more, and ends",
        false => "",
    };
    format!("the job goes on from checkpoint {number} of {}{age}, {size}{end}", dir.display())
}

/// How old a checkpoint is, in a line about it.
fn old(age: Duration) -> String {
    format!(", {} old", show::span(age))
}

/// When the next checkpoint is taken, by the job's clock.
struct Due {
    /// One that is wanted: what fails is not tried again at once, however much it is wanted.
    wanted: Nanos,
    /// Any.
    any: Nanos,
}

impl Due {
    /// After one that was taken at this time, or has failed as the last of several failures.
    fn after(now: Nanos, interval: Nanos, failure: &Failure) -> Self {
        let after = |span| now.saturating_add(span);
        Self { wanted: after(nanos(failure.pause())), any: after(interval) }
    }

    fn is_now(&self, now: Nanos, is_wanted: bool) -> bool {
        now >= self.any || is_wanted && now >= self.wanted
    }
}

/// What keeps checkpoints from being taken, by the kind of the error and its operator: it is reported once.
#[derive(Default)]
struct Failure {
    said: Option<(ErrorKind, Option<String>)>,
    /// How often in a row.
    count: u32,
}

impl Failure {
    fn report(&mut self, error: &Error, warnings: &Warnings) {
        let now = Some((error.kind(), error.operator().map(str::to_owned)));
        if self.said != now {
            warnings.of_checkpoint(&format!("{error}; the job goes on, and tries again"));
        }
        (self.said, self.count) = (now, self.count.saturating_add(1));
    }

    /// How long to wait before one is taken that is wanted: from a second on, doubled each time to half a minute.
    fn pause(&self) -> Duration {
        match self.count {
            0 => Duration::ZERO,
            count => Duration::from_secs(1 << (count - 1).min(5)).min(Duration::from_secs(30)),
        }
    }

    /// Whether the job is such that none can be taken, for now.
    fn is_by_plan(&self) -> bool {
        matches!(self.said, Some((ErrorKind::Plan, _)))
    }

    /// A checkpoint was taken.
    fn over(&mut self, warnings: &Warnings) {
        self.count = 0;
        if self.said.take().is_some() {
            warnings.of_recovery("checkpoints are taken again");
        }
    }
}

impl Checkpointer {
    /// Waits until the thread has ended; the job is over.
    pub(super) fn end(self) {
        let _ = self.0.join();
    }
}

#[cfg(all(test, not(miri)))]
mod ended;
#[cfg(all(test, not(miri)))]
mod hosts;
#[cfg(all(test, not(miri)))]
mod last;
#[cfg(all(test, not(miri)))]
mod leftovers;
#[cfg(all(test, not(miri)))]
mod loops;

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;
    const HOUR: Nanos = 3600 * SECOND;

    #[test]
    fn what_has_failed_and_is_wanted_is_tried_again_after_longer_and_longer_pauses() {
        let warnings = Warnings::of(None);
        let mut failure = Failure::default();
        assert!(Due::after(SECOND, HOUR, &failure).is_now(SECOND, true));
        assert!(!Due::after(SECOND, HOUR, &failure).is_now(SECOND, false));
        let mut now = SECOND;
        for pause in [1, 2, 4, 8, 16, 30, 30] {
            failure.report(&Error::new(ErrorKind::Io, "the disk is full"), &warnings);
            let due = Due::after(now, HOUR, &failure);
            assert!(!due.is_now(now, true), "at once");
            now += pause * SECOND;
            assert!(!due.is_now(now - 1, true), "before {pause} seconds");
            assert!(due.is_now(now, true) && !due.is_now(now, false));
        }
        // The usual ones do not wait for that.
        assert!(Due::after(now, SECOND, &failure).is_now(now + SECOND, false));
        failure.over(&warnings);
        assert!(Due::after(now, HOUR, &failure).is_now(now, true));
        failure.report(&Error::new(ErrorKind::Io, "the disk is full"), &warnings);
        assert!(Due::after(now, HOUR, &failure).is_now(now + SECOND, true));
    }
}
