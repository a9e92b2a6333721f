//! Runs tasks: scheduling, parking of threads, and the end of jobs.
//!
//! A [`Job`] is a set of tasks that end together; a [`cell`] holds each of them with its scheduling state; a
//! [`Scheduler`](scheduler::Scheduler) decides which cell runs when. Several jobs run side by side on one [`Runtime`]
//! and share its threads and its memory.
//!
//! This layer knows nothing of operators or records.

pub(crate) mod cell;
mod counts;
mod description;
mod hosts;
mod job;
mod running;
pub(crate) mod scheduler;

pub(crate) use cell::Cell;
pub(crate) use counts::{TaskCounts, TaskTimes};
pub(crate) use description::{DescribedPart, Description};
pub(crate) use hosts::{Answer, Failed, SaveOrder, ToSave};
pub(crate) use job::Job;
pub(crate) use running::Running;
pub(crate) use scheduler::{Cluster, LOST_AFTER, Outage, STEP};

use crate::checkpoint::RestorePoint;
use crate::clock::{Clock, Nanos};
use crate::config::{self, Compression, Config, HostConfig};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::WORTH_COMPRESSING;
use crate::flow::{Epoch, Signals};
use crate::memory::MemoryPool;
use crate::net::{Connections, HostId, Hosts, Links};
use crate::sync::{AtomicU64, Ordering};
use cell::Schedule;
use scheduler::{Deterministic, Scheduler, ThreadPerTask, WorkStealing};
use std::cell::RefCell;
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// What a runtime needs from outside, and does not make itself.
pub(crate) struct World {
    pub(crate) clock: Clock,
    pub(crate) hosts: Arc<Hosts>,
    scheduler: Arc<dyn Scheduler>,
    /// The connections to the other hosts, if they are processes.
    connections: Option<Connections>,
}

impl World {
    /// This process, as the only host.
    pub(crate) fn of_this_process(config: &Config) -> Self {
        let (turn, cores) = (config.turn.get(), config.cores.get());
        let clock = match config.scheduler {
            config::Scheduler::Deterministic { .. } => Clock::simulated(),
            _ => Clock::system(),
        };
        let scheduler: Arc<dyn Scheduler> = match config.scheduler {
            config::Scheduler::WorkStealing => WorkStealing::new(cores, turn, clock.clone()),
            config::Scheduler::ThreadPerTask => Arc::new(ThreadPerTask::new(turn, clock.clone())),
            config::Scheduler::Deterministic { seed } => {
                Arc::new(Deterministic::new(seed, turn, clock.clone()))
            }
        };
        Self { clock, hosts: Arc::new(Hosts::one(cores)), scheduler, connections: None }
    }

    /// This process, as one of several hosts, to which it connects.
    pub(crate) fn on_hosts(config: &Config, hosts: &HostConfig) -> Result<Self> {
        hosts.validate()?;
        let world = Self::of_this_process(config);
        if hosts.count == 1 {
            return Ok(world);
        }
        if let config::Scheduler::Deterministic { .. } = config.scheduler {
            let what =
                "the deterministic scheduler runs jobs on one host only: its time is simulated";
            return Err(Error::new(ErrorKind::Config, what));
        }
        let (connections, cores) =
            Connections::make(hosts, config.cores.get(), config.credit, world.clock.clone())?;
        let network = connections.network();
        world.scheduler.attend_to(&network);
        let compress_from = match hosts.compression {
            Compression::None => None,
            Compression::Lz4 => Some(WORTH_COMPRESSING),
        };
        let hosts = Hosts::several(HostId(hosts.id), cores, network).compressing(compress_from);
        Ok(Self { hosts: Arc::new(hosts), connections: Some(connections), ..world })
    }

    /// One of the hosts of a cluster, of which each has this many cores.
    pub(crate) fn simulated(cluster: &Arc<Cluster>, me: HostId, cores: &[usize]) -> Self {
        let host = cluster.host(me);
        let hosts = Hosts::several(me, cores.to_vec(), Arc::clone(&host) as _)
            .compressing(host.compress_from())
            .fanning_out(host.fan_out());
        let hosts = if host.bundles() { hosts.bundling(0) } else { hosts };
        Self { clock: host.clock(), hosts: Arc::new(hosts), scheduler: host, connections: None }
    }
}

/// The threads, the clock and the memory that jobs share.
pub(crate) struct Runtime {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) memory: MemoryPool,
    pub(crate) hosts: Arc<Hosts>,
    scheduler: Arc<dyn Scheduler>,
    /// The only handle to the connections: this host leaves, and says so, when its last environment is dropped.
    _connections: Option<Connections>,
    /// The environments that share this runtime, but for the one that it was made for.
    environments: Numbering,
}

/// Numbers things that one thread makes, one after the other: so the numbers are the same on all hosts.
#[derive(Default)]
struct Numbering {
    next: AtomicU64,
    by: OnceLock<ThreadId>,
}

impl Numbering {
    /// The next number; `None` if another thread has taken one before.
    fn next(&self) -> Option<u64> {
        let me = thread::current().id();
        let is_mine = *self.by.get_or_init(|| me) == me;
        is_mine.then(|| self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// Numbers the jobs of an environment, in the same way on all hosts.
pub(crate) struct JobNumbers {
    /// The number of the environment among those that share a runtime; `None` if it may not be the same on all hosts.
    environment: Option<u64>,
    jobs: Numbering,
}

impl JobNumbers {
    /// Those of the environment that a runtime is made for.
    pub(crate) fn first() -> Self {
        Self { environment: Some(0), jobs: Numbering::default() }
    }

    /// The number of the environment's next job among all jobs of the runtime.
    ///
    /// # Errors
    ///
    /// If hosts may number jobs differently.
    fn next(&self) -> Result<u64> {
        let refused = |what: &str| {
            let why = "on several hosts, jobs are told apart by the order in which the program makes them";
            Error::new(ErrorKind::Plan, format!("{why}: {what}"))
        };
        let Some(environment) = self.environment else {
            return Err(refused("let one thread call `sharing` for all environments"));
        };
        let job = self.jobs.next().ok_or_else(|| {
            refused("let one thread start all jobs of an environment, and give other threads one that shares with it")
        })?;
        Ok(environment << JOBS | job)
    }
}

/// The bits of a job's number that tell apart the jobs of one environment.
const JOBS: u32 = 32;

impl Runtime {
    /// A runtime in a world; no thread is started yet.
    pub(crate) fn new(config: Config, world: World) -> Arc<Self> {
        let World { clock, hosts, scheduler, connections } = world;
        let memory = MemoryPool::new(config.memory);
        hosts.count_in(&memory);
        let environments = Numbering::default();
        Arc::new(Self {
            config,
            clock,
            memory,
            hosts,
            scheduler,
            _connections: connections,
            environments,
        })
    }

    /// The numbers of the jobs of one more environment.
    pub(crate) fn share(&self) -> JobNumbers {
        let environment = self.environments.next().map(|shared| 1 + shared);
        JobNumbers { environment, jobs: Numbering::default() }
    }

    /// The channels of an environment's next job. Programs are the same on all hosts, so the numbers of their jobs are too.
    ///
    /// # Errors
    ///
    /// On several hosts, if several threads start jobs of the environment.
    pub(crate) fn links(&self, numbers: &JobNumbers, signals: &Arc<Signals>) -> Result<Links> {
        let job = if self.hosts.count() > 1 { numbers.next()? } else { 0 };
        Ok(Links::new(Arc::clone(&self.hosts), job, Arc::clone(signals)))
    }

    /// Starts a job with these tasks. If not all can be started, the job has failed when this returns.
    pub(crate) fn start(&self, job: &Job, cells: &[Arc<Cell>]) -> Result<()> {
        job.set_members(cells.iter().map(|cell| Arc::clone(cell) as _).collect());
        let Err(error) = self.scheduler.start(cells) else {
            job.begin();
            return Ok(());
        };
        job.fail(error);
        cells.iter().for_each(|cell| cell.abandon());
        job.outcome()
    }

    /// Describes a job to the other hosts, and waits until all have described the same one; returns what the first host has sent
    /// then. Fails at once where waiting could deadlock.
    ///
    /// # Errors
    ///
    /// If the job fails meanwhile, here or elsewhere: with its own error it ends when it is over.
    pub(crate) fn agree(
        &self,
        job: &Job,
        description: Description,
    ) -> Result<Option<RestorePoint>> {
        self.may_wait()?;
        job.describe(description);
        let over = || Err(Error::new(ErrorKind::Internal, "the job is over"));
        self.wait_for(job, || job.agreed()).unwrap_or_else(over)
    }

    /// Starts a job on several hosts with these tasks of this one, once all hosts have described the same job. If they
    /// cannot be started, the job fails.
    pub(crate) fn start_on_hosts(
        &self,
        job: &Arc<Job>,
        cells: Vec<Arc<Cell>>,
        description: Description,
    ) {
        job.set_members(cells.iter().map(|cell| Arc::clone(cell) as _).collect());
        let (scheduler, starting) = (Arc::clone(&self.scheduler), Arc::clone(job));
        let start = move || match scheduler.start(&cells) {
            Ok(()) => starting.begin(),
            Err(error) => {
                starting.fail(error);
                cells.iter().for_each(|cell| cell.abandon());
            }
        };
        job.start(description, Box::new(start));
    }

    /// Blocks until the job is over. Fails at once where that could deadlock.
    pub(crate) fn wait(&self, job: &Arc<Job>) -> Result<()> {
        if !job.is_over() {
            self.may_wait_for(job)?;
            self.scheduler.drive(&|| job.is_over());
            job.wait();
        }
        // The program may end the process after it.
        self.hosts.flush();
        Ok(())
    }

    /// Sends a barrier through a job; blocks until every task has passed it, or the job is over. Returns its number, which
    /// is the greatest if the job is over, unless it has failed. Sources read nothing behind the last barrier.
    ///
    /// Lets the barrier overtake batches if it has not passed after `overtakes`; at once, if that is zero; never, if it is
    /// `None`.
    ///
    /// Calls `late` when the barrier has not passed after `patience`, with the tasks of this host that it has not left and the other
    /// hosts with such tasks, and again after as long as that returns.
    pub(crate) fn barrier(
        &self,
        job: &Arc<Job>,
        is_last: bool,
        overtakes: Option<Duration>,
        mut patience: Duration,
        mut late: impl FnMut(&[usize], &[HostId]) -> Duration,
    ) -> Result<Option<Epoch>> {
        let mut epoch = Some(Epoch::LAST);
        if !job.is_over() {
            self.may_wait_for(job)?;
            let barrier = job.ask_barrier(is_last);
            if overtakes.is_some_and(|after| after.is_zero()) {
                job.overtake(&barrier);
            }
            self.scheduler.drive(&|| job.is_past(&barrier) || job.is_over());
            let mut overtakes = overtakes.filter(|after| !after.is_zero());
            while !job.wait_past(&barrier, overtakes.unwrap_or(patience).min(patience)) {
                match overtakes {
                    Some(after) if after <= patience => {
                        job.overtake(&barrier);
                        (overtakes, patience) = (None, patience - after);
                        continue;
                    }
                    Some(after) => overtakes = Some(after - patience),
                    None => {}
                }
                // It may have passed meanwhile.
                let (here, hosts) = (job.behind(&barrier), job.hosts_behind(&barrier));
                if !(here.is_empty() && hosts.is_empty()) {
                    patience = late(&here, &hosts);
                }
            }
            epoch = barrier.epoch();
        }
        Ok(epoch.filter(|_| !job.signals().stopped()))
    }

    /// Waits for the answers of the other hosts that were asked to save, in their order; `None` if the job is over first.
    pub(crate) fn wait_saved(&self, job: &Job) -> Option<Vec<Answer>> {
        self.wait_for(job, || job.saved())
    }

    /// On another host than the first: waits for the next thing to do for a checkpoint; `None` if the job is over.
    pub(crate) fn wait_to_save(&self, job: &Job) -> Option<SaveOrder> {
        self.wait_for(job, || job.next_order())
    }

    /// On the first host: waits until the others have committed what a checkpoint has of which that is awaited, or the job fails.
    pub(crate) fn wait_committed(&self, job: &Job, epoch: Epoch) {
        let is_settled = || job.have_committed(epoch) || job.signals().stopped();
        let _ = self.wait_for(job, || is_settled().then_some(()));
    }

    /// Why a job fails that is to fail: waits until that is decided.
    pub(crate) fn failure(&self, job: &Job) -> Option<Error> {
        if !job.signals().stopped() {
            return None;
        }
        let decided = || job.signals().failure();
        self.wait_for(job, decided).or_else(decided)
    }

    fn wait_for<T>(&self, job: &Job, look: impl Fn() -> Option<T>) -> Option<T> {
        let found = RefCell::new(None);
        self.scheduler.drive(&|| {
            let mut found = found.borrow_mut();
            *found = found.take().or_else(&look);
            found.is_some() || job.is_over()
        });
        found.into_inner().or_else(|| job.wait_for(look))
    }

    /// Runs a job for so many steps of a scheduler that runs tasks on the calling thread, or until it is over.
    pub(crate) fn drive_for(&self, job: &Arc<Job>, steps: usize) {
        let left = std::cell::Cell::new(steps);
        let is_done = || {
            left.set(left.get().saturating_sub(1));
            left.get() == 0 || job.is_over()
        };
        self.scheduler.drive(&is_done);
    }

    /// Lets simulated time pass, where time is simulated for several hosts.
    pub(crate) fn pass_time(&self, span: Nanos) {
        self.scheduler.pass_time(span);
    }

    /// Fails if the calling thread must not block, because this runtime needs it.
    pub(crate) fn may_wait(&self) -> Result<()> {
        self.threads().may_wait()
    }

    /// The threads of this runtime.
    pub(crate) fn threads(&self) -> Threads {
        let needed = self.scheduler.needs_its_threads();
        Threads { scheduler: Arc::downgrade(&self.scheduler), needed }
    }

    pub(crate) fn may_wait_for(&self, job: &Arc<Job>) -> Result<()> {
        if running::is_in_job(job.signals()) {
            let what = "a closure of a job cannot wait for that job, which waits for the closure to return";
            return Err(Error::new(ErrorKind::Plan, what));
        }
        self.may_wait()
    }

    /// The scheduler for new cells.
    pub(crate) fn scheduler(&self) -> Arc<dyn Schedule> {
        Arc::clone(&self.scheduler) as _
    }
}

/// A weak handle to the threads of a runtime, for code that must not block one of them.
#[derive(Clone)]
pub(crate) struct Threads {
    scheduler: Weak<dyn Scheduler>,
    /// Whether blocking one of the threads may prevent other tasks from running at all.
    needed: bool,
}

impl Threads {
    /// Fails where blocking the calling thread could deadlock.
    pub(crate) fn may_wait(&self) -> Result<()> {
        if self.needed && running::is_in_turn_of(&self.scheduler) {
            let what = "a closure of a job cannot wait for another job on the same threads, which may \
                        need the thread that waits: run it in an environment with threads of its own \
                        (`Environment::new`), or wait for it outside of the engine's threads";
            return Err(Error::new(ErrorKind::Plan, what));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Poll, Task, Turn};
    use crate::metrics::Report;

    /// Ends at once, and panics in `report`.
    struct PanicsInReport;

    impl Task for PanicsInReport {
        fn poll(&mut self, _: &mut Turn<'_>) -> Poll {
            Poll::Done
        }

        fn report(&mut self, _: &mut Report) {
            panic!("no report");
        }
    }

    /// Starts a job of such tasks.
    fn start(
        runtime: &Runtime,
        tasks: usize,
        task: fn() -> Box<dyn Task>,
    ) -> (Arc<Job>, Result<()>) {
        let signals = Arc::new(Signals::default());
        let links = runtime.links(&JobNumbers::first(), &signals).unwrap();
        let job = Job::new(signals, tasks, links);
        let cell = |index| {
            Cell::new(index, task(), Arc::clone(&job), runtime.scheduler(), Arc::from("cell"), 0)
        };
        let cells: Vec<_> = (0..tasks).map(cell).collect();
        let started = runtime.start(&job, &cells);
        (job, started)
    }

    #[test]
    fn a_task_that_panics_when_it_reports_fails_its_job() {
        for scheduler in [
            config::Scheduler::WorkStealing,
            config::Scheduler::ThreadPerTask,
            config::Scheduler::Deterministic { seed: 1 },
        ] {
            let config = Config { scheduler, ..Config::default() };
            let world = World::of_this_process(&config);
            let runtime = Runtime::new(config, world);
            for _ in 0..20 {
                let (job, started) = start(&runtime, 5, || Box::new(PanicsInReport));
                started.unwrap();
                let (over, ended) = std::sync::mpsc::channel();
                let (on, waited_for) = (Arc::clone(&runtime), Arc::clone(&job));
                std::thread::spawn(move || over.send(on.wait(&waited_for)));
                let minute = std::time::Duration::from_secs(60);
                ended.recv_timeout(minute).expect("the job ends").unwrap();
                let error = job.outcome().unwrap_err();
                assert_eq!(error.message(), "panicked: no report", "{scheduler:?}");
            }
        }
    }

    /// A scheduler that cannot start threads.
    struct NoThreads;

    impl Scheduler for NoThreads {
        fn start(&self, _: &[Arc<Cell>]) -> Result<()> {
            Err(Error::new(ErrorKind::Io, "cannot start a thread"))
        }
    }

    impl Schedule for NoThreads {
        fn schedule(&self, _: Arc<Cell>) {}
    }

    #[test]
    fn a_job_that_cannot_be_started_is_over() {
        let config = Config::default();
        let world = World { scheduler: Arc::new(NoThreads), ..World::of_this_process(&config) };
        let runtime = Runtime::new(config, world);
        let (job, started) = start(&runtime, 3, || Box::new(PanicsInReport));
        assert_eq!(started.unwrap_err().message(), "cannot start a thread");
        assert!(job.is_over());
        let job = Arc::into_inner(job).expect("no task is left that could run");
        assert!(job.outcome().is_ok(), "`start` has returned the failure");
    }
}
