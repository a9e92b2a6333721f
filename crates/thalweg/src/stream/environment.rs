//! Environments, in which jobs are described and run.

use super::application::Application;
use super::checkpointing::Checkpointing;
use super::job::Around;
use super::running_job::RunningJob;
use super::watch::{Warnings, Watch};
use super::{JobHandle, Received, Stream};
use crate::checkpoint::{Checkpoints, Folder, PlanComparison, Store, find, make};
use crate::clock::Nanos;
use crate::config::{CheckpointConfig, Config, HostConfig};
use crate::data::{Portable, Schema};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::exchange::{Edge, TasksOf};
use crate::flow::{catch, discard};
use crate::net::{HostId, Links, Part};
use crate::plan::{
    self, Builder, Details, Distribution, Origin, Parallelism, Plan, Scope, Strategy, TieKind,
    check, compare, launch, linked, schema_of,
};
use crate::runtime::{Cluster, JobNumbers, Runtime, Threads, World};
use crate::sync::{Mutex, MutexGuard, lock};
use crate::time::Time;
use std::path::Path;
use std::sync::Arc;

/// How often a directory is looked into in which another job writes checkpoints, and removes old ones.
const LOOKS: usize = 10;

/// Begins streams, and runs the jobs that they make up.
///
/// The streams that are begun on an environment make up one job until [`run`](Self::run) or
/// [`start`](Self::start) runs it; then the next job may be described. Jobs of one environment,
/// and of those that [share](Self::sharing) with it, run on the same threads and from the same
/// memory, side by side if they like. Cloning an environment gives another handle to the same.
///
/// ```
/// use thalweg::Environment;
///
/// let env = Environment::new();
/// let squares = env.iter(1..=3).map(|n| n * n).collect::<Vec<_>>();
/// env.run()?;
/// assert_eq!(squares.take()?, [1, 4, 9]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
pub struct Environment {
    runtime: Arc<Runtime>,
    builder: Arc<Mutex<Builder>>,
    /// The numbers of its jobs.
    numbers: Arc<JobNumbers>,
    /// The hooks around its jobs, if it belongs to an application.
    application: Option<Arc<dyn Application>>,
    /// Whether a job that succeeds fails all the same if its counts do not agree.
    checked: bool,
}

impl Default for Environment {
    fn default() -> Self {
        Self::new()
    }
}

impl Environment {
    /// An environment with the default settings.
    pub fn new() -> Self {
        Self::with_config(Config::default())
    }

    /// An environment with these settings.
    pub fn with_config(config: Config) -> Self {
        let world = World::of_this_process(&config);
        Self::in_world(config, world)
    }

    /// The environment of one of several hosts, whose jobs run on all of them: each host runs the same program, and calls
    /// this with the same number of hosts and another number of its own. Blocks until all hosts are connected.
    ///
    /// On every host the program describes the same jobs and runs them in the same order; each host runs a part of the
    /// tasks, in proportion to its [`cores`](Config::cores). Outputs such as [`collect`](Stream::collect) and failures
    /// are the same on all hosts.
    ///
    /// The connections are kept until the environment, its clones and its jobs are dropped. What hosts send each other is
    /// not encrypted unless they have certificates ([`HostConfig::tls`]). With [`HostConfig::mpi`] MPI carries it, which can
    /// be started once in a process.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::config::{Config, HostConfig, Secret};
    ///
    /// // One host is enough for an example. A program on several has the number of its host from outside.
    /// let hosts = HostConfig::new(0, 1, "127.0.0.1:4711", Secret::new("a secret that is long enough"));
    /// let env = Environment::on_hosts(Config::default(), hosts)?;
    /// let count = env.range(0..9).count().collect_one();
    /// env.run()?;
    /// assert_eq!(count.take()?, Some(9));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If a value is wrong, if this host cannot listen, if not all hosts have come within
    /// [`connect_timeout`](HostConfig::connect_timeout), and if they differ in what has to be equal: the secret, the
    /// CA of their certificates, the number of hosts, the executable, the version of the engine, the [credit](Config::credit).
    pub fn on_hosts(config: Config, hosts: HostConfig) -> Result<Self> {
        Ok(Self::in_world(config.clone(), World::on_hosts(&config, &hosts)?))
    }

    fn in_world(config: Config, world: World) -> Self {
        let runtime = Runtime::new(config, world);
        let numbers = Arc::new(JobNumbers::first());
        Self { runtime, builder: Arc::default(), numbers, application: None, checked: false }
    }

    /// An environment for other jobs on the threads and memory of this one.
    ///
    /// A closure of a job may describe and start such jobs, and cannot wait for them: see [`JobHandle::wait`].
    ///
    /// On several hosts, jobs are told apart by the order in which the program makes environments, and that in which it
    /// starts the jobs of each. So one thread makes all environments that share, and threads that run jobs side by side
    /// have one each; jobs whose order is not known in that way are refused at their start.
    pub fn sharing(&self) -> Self {
        let numbers = Arc::new(self.runtime.share());
        Self { numbers, ..self.beside() }
    }

    /// An environment for a job beside the one that is described here. The jobs of both are numbered together.
    #[inline]
    pub(crate) fn beside(&self) -> Self {
        Self { builder: Arc::default(), ..self.clone() }
    }

    /// An environment whose jobs fail if the counts of their tasks do not agree, for tests of jobs.
    pub(crate) fn checked(config: Config) -> Self {
        Self { checked: true, ..Self::with_config(config) }
    }

    /// As [`on_hosts`](Self::on_hosts), and the jobs fail if the counts of their tasks do not agree, for tests of jobs.
    pub(crate) fn checked_on_hosts(config: Config, hosts: HostConfig) -> Result<Self> {
        Ok(Self { checked: true, ..Self::on_hosts(config, hosts)? })
    }

    /// The environment of one of several hosts in this process, for tests of jobs.
    pub(crate) fn on_host(
        config: Config,
        cluster: &Arc<Cluster>,
        me: HostId,
        cores: &[usize],
    ) -> Self {
        let world = World::simulated(cluster, me, cores);
        Self { checked: true, ..Self::in_world(config, world) }
    }

    /// An environment whose jobs run within the hooks of an application.
    #[cfg(feature = "cli")]
    pub(crate) fn for_application(
        config: Config,
        hosts: Option<&HostConfig>,
        application: Arc<dyn Application>,
    ) -> Result<Self> {
        let world = match hosts {
            Some(hosts) => World::on_hosts(&config, hosts)?,
            None => World::of_this_process(&config),
        };
        Ok(Self { application: Some(application), ..Self::in_world(config, world) })
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.runtime.config
    }

    /// The job described so far, as data. Numbers of tasks that are [set](Config::tasks) count as soon as the stages that
    /// all of them are for are described.
    pub fn plan(&self) -> Plan {
        let builder = self.builder();
        let settled = builder.settled(&self.config().tasks, &self.runtime.hosts);
        settled.unwrap_or_else(|_| builder.plan.clone())
    }

    /// Runs the job described so far and returns when it is over. For what it counted, use [`start`](Self::start) and
    /// [`JobHandle::wait`].
    ///
    /// # Errors
    ///
    /// The first failure of any of its tasks. The job's outputs are empty then, and the files that it was to write do
    /// not exist. If the system refuses to rename a finished file after all tasks have succeeded, the error says
    /// which files already have their final names.
    ///
    /// On several hosts, the same failure on all of them; if a host is lost, an error of kind
    /// [`Lost`](ErrorKind::Lost) on the others.
    ///
    /// Also an error in a closure of a job that runs on the same threads: see [`JobHandle::wait`].
    #[doc(alias("execute", "execute_blocking"))]
    pub fn run(&self) -> Result<()> {
        if let Err(error) = self.runtime.may_wait() {
            discard([std::mem::take(&mut *lock(&self.builder))]);
            return Err(error);
        }
        self.start()?.wait().map(drop)
    }

    /// Starts the job described so far and returns at once. A job with checkpoints on several hosts waits until all hosts start it, and
    /// have read the checkpoint that the first one goes on from: programs must start such jobs in the same order on all hosts.
    ///
    /// # Errors
    ///
    /// When the job cannot run as it is described: a stream without a sink, an operator on an
    /// unbounded stream that needs a bounded one, a file that is not there. Where a job waits for other hosts, also when one of
    /// them is lost or refuses it.
    pub fn start(&self) -> Result<JobHandle> {
        self.start_with(None)
    }

    /// As [`start`](Self::start), with these checkpoints.
    pub(crate) fn start_with(&self, checkpoints: Option<&Arc<Checkpoints>>) -> Result<JobHandle> {
        // Closures that make sources are called here, and the job's description is dropped here.
        catch(|| self.launch(checkpoints)).and_then(|launched| launched)
    }

    /// Compares the job described so far with the newest checkpoint in a directory: what a job that was started with it would
    /// go on with, what it would miss, and whether it would be refused. The job does not run, and a job that runs with this
    /// directory is not disturbed. The environment must be of one host; a checkpoint of several is compared all the same: give it
    /// the cores of all hosts together. The description is used up: describe the job again to run it.
    ///
    /// Programs with the engine's flags do so with `--plan-against DIR`.
    ///
    /// Takes as long as to read the checkpoint, and as much memory as the job would have after it.
    ///
    /// # Errors
    ///
    /// If there is no checkpoint that can be read, or if the job cannot run as it is described.
    ///
    /// ```
    /// use thalweg::checkpoint::StateFate;
    /// use thalweg::config::{CheckpointConfig, Config};
    /// use thalweg::Environment;
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let mut config = Config::default();
    /// config.checkpoints = Some(CheckpointConfig::new(folder.path()));
    /// let env = Environment::with_config(config);
    /// env.range(0..1 << 50).max(|n| *n).for_each(drop);
    /// let job = env.start()?;
    /// job.suspend()?;
    /// job.wait().expect_err("it is suspended");
    ///
    /// // The next version of the program also counts.
    /// let next = Environment::new();
    /// let [first, second] = next.range(0..1 << 50).split();
    /// first.max(|n| *n).for_each(drop);
    /// second.count().for_each(drop);
    /// let comparison = next.compare_with(folder.path())?;
    /// assert!(!comparison.goes_on());
    /// let missing = comparison.states.iter().find(|state| state.fate == StateFate::Missing);
    /// assert!(missing.unwrap().operator.starts_with("count"));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn compare_with(&self, dir: impl AsRef<Path>) -> Result<PlanComparison> {
        let builder = std::mem::take(&mut *lock(&self.builder));
        catch(|| self.compare(builder, dir.as_ref())).and_then(|compared| compared)
    }

    fn compare(&self, builder: Builder, dir: &Path) -> Result<PlanComparison> {
        if self.hosts_if_several().is_some() {
            let what =
                "a program is compared with a checkpoint on one host: it has the same states there";
            return Err(Error::new(ErrorKind::Config, what));
        }
        let refuse =
            |what| Err(Error::new(ErrorKind::Config, what).at(Place::File(dir.to_owned())));
        let folder = find(dir, &self.config().spill_dir)?;
        let store = Store::join(&folder);
        // A job that runs may have removed those that were found, as it has newer ones.
        let mut found = (0..LOOKS).map(|_| store.newest());
        let Some(stored) = found.find_map(Result::transpose).transpose()? else {
            return refuse("there is no checkpoint here to compare the program with");
        };
        let checkpoints = Checkpoints::trial(&folder, stored.snapshot);
        let mut comparison =
            compare(builder, &self.runtime, &self.numbers, &checkpoints, stored.number)?;
        comparison.skipped = stored.skipped.iter().map(Error::to_string).collect();
        Ok(comparison)
    }

    fn launch(&self, checkpoints: Option<&Arc<Checkpoints>>) -> Result<JobHandle> {
        let mut builder = std::mem::take(&mut *lock(&self.builder));
        if let Some(application) = &self.application
            && let Some(dir) = application.compares_with()
        {
            return Err(application.compared(&self.compare(builder, dir)?, dir));
        }
        if let Some(application) = &self.application {
            check(&mut builder)?;
            match builder.settled(&self.config().tasks, &self.runtime.hosts) {
                Ok(plan) => application.starting(&plan, self.config(), &self.runtime.hosts)?,
                // On several hosts the launch fails by it, so that the others end too.
                Err(_) if self.hosts_if_several().is_some() => {}
                Err(error) => return Err(error),
            }
        }
        let warnings = self.warnings();
        let mut stored = None;
        // If they cannot be used, the launch fails by it, so that other hosts end too.
        let checkpoints = match (checkpoints, &self.config().checkpoints) {
            (None, Some(config)) => {
                let spill_dir = &self.config().spill_dir;
                Checkpointing::open(config, spill_dir, &self.runtime.hosts, &warnings)
                    .inspect(|opened| opened.announce(&warnings))
                    .map(|opened| Some(Arc::clone(&stored.insert(opened).checkpoints)))
            }
            (given, _) => Ok(given.cloned()),
        };
        let launched = launch(builder, &self.runtime, &self.numbers, checkpoints);
        let launched = launched.inspect_err(|_| {
            if let Some(stored) = stored.take() {
                stored.forget();
            }
        })?;
        let running = RunningJob::new(launched, Arc::clone(&self.runtime));
        let around = || {
            let hooks = self.application.as_ref();
            let attendance = hooks.map(|hooks| hooks.started(&running)).transpose()?;
            let watch = Watch::start(&running, self.config().stall_after, &warnings)?;
            let start = |stored: Checkpointing| stored.start(&running, warnings.clone());
            let checkpointer = stored.map(start).transpose()?;
            Ok(Around { attendance, watch, checkpointer })
        };
        match around() {
            Ok(around) => Ok(JobHandle::new(running, around, warnings, self.checked)),
            Err(error) => {
                running.launched().job.cancel("what surrounds the job could not start");
                Err(error)
            }
        }
    }

    /// The checkpoints in a directory, for tests of jobs, which take them themselves: see [`JobHandle::take_checkpoint`].
    #[cfg(test)]
    pub(crate) fn checkpoints_in(&self, dir: &Path) -> Result<Checkpointing> {
        self.checkpoints_of(&self.folder_of(dir)?)
    }

    /// Lets simulated time pass on a simulated host.
    pub(crate) fn pass_time(&self, span: Nanos) {
        self.runtime.pass_time(span);
    }

    /// The folder of checkpoints in a directory.
    pub(crate) fn folder_of(&self, dir: &Path) -> Result<Arc<dyn Folder>> {
        make(dir, &self.config().spill_dir)
    }

    /// The checkpoints in a folder, for tests of jobs, which take them themselves: see [`JobHandle::take_checkpoint`].
    pub(crate) fn checkpoints_of(&self, folder: &Arc<dyn Folder>) -> Result<Checkpointing> {
        let config = CheckpointConfig::new(folder.path());
        let spill_dir = &self.config().spill_dir;
        let (hosts, warnings) = (&self.runtime.hosts, &self.warnings());
        Checkpointing::open_again(&config, (folder, spill_dir), hosts, warnings)
    }

    /// The memory that its jobs share.
    #[cfg(test)]
    pub(crate) fn memory(&self) -> &crate::memory::MemoryPool {
        &self.runtime.memory
    }

    /// The threads that its jobs run on.
    pub(crate) fn threads(&self) -> Threads {
        self.runtime.threads()
    }

    /// Where warnings about its jobs go.
    pub(crate) fn warnings(&self) -> Warnings {
        Warnings::of(self.application.as_ref())
    }

    /// The plan that is being built; no other part of the program can change it meanwhile.
    pub(crate) fn builder(&self) -> MutexGuard<'_, Builder> {
        lock(&self.builder)
    }

    /// Begins a stage with the records of these exchanges.
    pub(crate) fn receive<I: Portable + ?Sized, T: Time>(
        &self,
        stage: usize,
        origin: Origin,
        edges: Vec<Edge<I, T>>,
    ) -> Stream<Received<I, T>> {
        let receive = Origin { kind: "receive", ..origin };
        let op = self.builder().operator(stage, receive, Details::none());
        Stream { env: self.clone(), chain: Received { edges, op }, stage }
    }

    /// An exchange from one stage to another.
    pub(crate) fn link<I: Portable + ?Sized, T: Time>(
        &self,
        from: usize,
        to: usize,
        distribution: impl Into<Distribution>,
    ) -> Edge<I, T> {
        let Distribution { strategy, key } = distribution.into();
        let (schema, timed) = (schema_of::<I>(), T::LAST.timestamp().is_some());
        let mut builder = self.builder();
        let edge = Edge::new(builder.plan.edges.len());
        let lanes = edge.clone();
        let batch = builder.batch_modes.get(&from).copied().unwrap_or(self.runtime.config.batch);
        let connect = move |settings, from: TasksOf<'_>, to: TasksOf<'_>, links: &Links| {
            let linked = linked(strategy, from.wakers.len(), to.wakers.len());
            lanes.connect(settings, from, to, links, &linked);
        };
        let in_plan = plan::Edge { from, to, strategy, schema, key, timed, batch };
        builder.edge(in_plan, Box::new(connect));
        edge
    }

    /// A stage with a task on each of these hosts, to which every task of the stage `from` broadcasts: the edge, and what
    /// is received.
    pub(crate) fn to_each_host<I: Portable + ?Sized, T: Time>(
        &self,
        hosts: usize,
        from: usize,
        origin: Origin,
    ) -> (Edge<I, T>, Stream<Received<I, T>>) {
        let to = self.builder().stage_on_each_host(from, hosts);
        let edge = self.link(from, to, Strategy::Broadcast);
        let received = self.receive(to, origin, vec![edge.clone()]);
        (edge, received)
    }

    /// A stage that reads two streams, which must be of one environment.
    pub(crate) fn stage_of_both(
        &self,
        other: &Self,
        origin: Origin,
        before: [usize; 2],
        parallelism: Parallelism,
        bounded: bool,
    ) -> usize {
        let same = self.is_same(other);
        if !same {
            self.refuse_with(other, origin);
        }
        // The other stage is in no plan of this environment.
        let before = if same { &before[..] } else { &before[..1] };
        self.builder().stage_after(before, parallelism, bounded)
    }

    /// Refuses the jobs of both environments, whichever is run, because an operator has streams of both.
    pub(crate) fn refuse_with(&self, other: &Self, origin: Origin) {
        for env in [self, other] {
            let what = "its streams belong to different environments, and a job is of one";
            let error = Error::new(ErrorKind::Plan, what).in_operator(origin.label());
            env.builder().errors.push(error);
        }
    }

    /// The clock of its jobs.
    #[cfg(test)]
    pub(crate) fn clock(&self) -> crate::clock::Clock {
        self.runtime.clock.clone()
    }

    /// Whether streams of both make up one job.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.builder, &other.builder)
    }

    /// The number of tasks of a stage without keys, unless it is set.
    pub(crate) fn tasks_of_cores(&self) -> Parallelism {
        Parallelism::Free(self.runtime.hosts.all_cores())
    }

    /// That number.
    #[cfg(test)]
    pub(crate) fn default_tasks(&self) -> usize {
        self.runtime.hosts.all_cores()
    }

    /// Declares a tie between the tasks of the last operator of a stage.
    pub(crate) fn tie_last(&self, stage: usize, kind: TieKind) {
        let mut builder = self.builder();
        if let Some(op) = builder.last_of(stage) {
            builder.tie(kind, &[op]);
        }
    }

    /// Declares a state of the last operator of a stage.
    pub(crate) fn state_of_last(&self, stage: usize, scope: Scope, schema: Schema) {
        let mut builder = self.builder();
        if let Some(op) = builder.last_of(stage) {
            builder.state(op, scope, schema);
        }
    }

    /// Makes the job fail at its start if the input of the last operator of a stage does not end by itself.
    pub(crate) fn require_bounded_last(&self, stage: usize, why: &str) {
        let mut builder = self.builder();
        if let Some(op) = builder.last_of(stage) {
            builder.require_bounded(op, why);
        }
    }

    /// Makes the job fail at its start with this error of the last operator of a stage.
    pub(crate) fn refuse_last(&self, stage: usize, error: Error) {
        let mut builder = self.builder();
        let error = match builder.last_of(stage) {
            Some(op) => error.in_operator(builder.plan.operators[op].label()),
            None => error,
        };
        builder.errors.push(error);
    }

    /// Calls `open` for the last tie when the job is launched, on every host and before tasks are made. For ties of which
    /// every host needs the channel; where only the hosts of its tasks do, tasks open it ([`TaskContext::tie`]).
    ///
    /// [`TaskContext::tie`]: crate::plan::TaskContext::tie
    pub(crate) fn open_last_tie(&self, open: impl FnOnce(&Links, Part) + Send + 'static) {
        let mut builder = self.builder();
        if let Some(tie) = builder.plan.ties.last() {
            let part = tie.part();
            builder.openers.push(Box::new(move |links| open(links, part)));
        }
    }

    /// The number of this host.
    pub(crate) fn host(&self) -> HostId {
        self.runtime.hosts.me()
    }

    /// Whether this is the first host, which has the first task of each stage.
    pub(crate) fn is_first_host(&self) -> bool {
        self.runtime.hosts.me() == HostId::FIRST
    }

    /// The number of hosts, if there are several.
    pub(crate) fn hosts_if_several(&self) -> Option<usize> {
        Some(self.runtime.hosts.count()).filter(|hosts| *hosts > 1)
    }

    /// The number of tasks of a keyed stage, unless it is set.
    pub(crate) fn keyed_tasks(&self) -> usize {
        match self.runtime.hosts.all_cores() {
            1 => 1,
            cores => cores * self.runtime.config.keyed_tasks_per_core.get(),
        }
    }
}
