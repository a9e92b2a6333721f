//! Tests of jobs: runs the same job in many ways and compares the results.
//!
//! A correct result of one run does not show that a job is correct: it may depend on the number of tasks, on which of
//! them runs first, on where a batch ends, on whether a table fits into memory, or on whether records survive
//! encoding and decoding. [`check`] runs the job on one core and on several, under every scheduler, with batches of
//! one record and of many, with little credit, in orders drawn from several seeds, with every batch encoded between
//! tasks, and on several simulated hosts, which share nothing but messages:
//!
//! ```
//! use thalweg::check::check;
//!
//! check(|env| env.iter(1..=1000u64).shuffle().group_by(|n| n % 3).count())
//!     .equals([(0, 333), (1, 334), (2, 333)]);
//! ```
//!
//! A job that can have checkpoints is interrupted too, in half of the cases at a barrier that overtakes batches
//! ([`alignment_timeout`](crate::config::CheckpointConfig::alignment_timeout)), and goes on with other numbers of cores: on one
//! host, and on simulated hosts, of which some may be lost at once, be stopped for a while or be cut off from each other, and
//! which have their checkpoints in files. In some of these runs, the storage of the checkpoints fails at times, in every way in
//! which an object store can: a request is refused, or succeeds without an answer, or bytes are written in part. In others it
//! is slow, so that the job goes on, sends barriers or ends while a checkpoint is written. Which series of runs a check makes
//! depends on its place in the program; by default it is one, and `THALWEG_CHECK_SEEDS` adds others. `THALWEG_CHECK_SERIES`
//! sets their number alone, of which there are 64.
//!
//! Results are compared as multisets, since the order between tasks is not defined; after
//! [`ordered`](Check::ordered), they are compared as lists. Floats must be equal to the last bit: where the order of
//! additions may differ, round them in the job's last `map`.
//!
//! When a run differs, the test fails with the number of the run and the difference: how many records are missing, how many are
//! unexpected, and the first few of both; of results in order also the first place that differs. If the variable `THALWEG_CHECK`
//! is set to that number, only that run is made, and by [`agrees`](Check::agrees) the first one, with which it is compared. `THALWEG_CHECK_SEEDS` sets the number of seeds of every check; each
//! seed also determines the number of cores, the batches and the credit.
//!
//! If `THALWEG_CHECK_TCP` is set, every check of a job on several hosts also runs on hosts on threads of this process that are
//! connected by TCP. `THALWEG_CHECK_TASKS` makes every check draw the numbers of tasks of stages, as
//! [`any_tasks`](Check::any_tasks) does; tests that count tasks themselves fail then.
//!
//! A run also fails if the statistics of the job are inconsistent: every edge must have delivered what was sent on
//! it, and operators must have emitted as many records as the next ones have received.
//!
//! For a job with several sinks see [`check_sinks`]; to look at errors and statistics, [`every`], which interrupts no job; where the
//! test depends on what closures of the job do outside of it, [`every_on_one_host`].

#[cfg(test)]
mod amounts;
#[cfg(all(test, not(miri)))]
mod committed;
mod compare;
mod doors;
mod interrupted;
#[cfg(all(test, not(miri)))]
mod planted;
mod sinks;

#[cfg(test)]
pub(crate) use amounts::{cases, seeds};
pub use sinks::{CheckSinks, Sinks, check_sinks};

#[doc(hidden)]
pub use doors::{migrated, read_from_host, sealed_checkpoint, shown};

use crate::config::{BatchMode, Compression, Config, HostConfig, Scheduler, Secret, TaskCounts};
use crate::data::{Data, Key, Portable, hash_bytes, hash_u64};
use crate::net::{self, HostId};
use crate::operators::keyed::FirstOf;
use crate::runtime::Cluster;
use crate::stream::{Chain, Environment, Stream};
use crate::sync::join_all;
use crate::{KeyedStream, Output, Result};
use compare::compare;
use interrupted::{Interrupted, Restarted, Restored, Second};
use std::any::Any;
use std::fmt::Debug;
use std::num::NonZeroUsize;
use std::panic::{Location, resume_unwind};
use std::str::FromStr;
use std::sync::{Arc, atomic};

/// The variable that holds the number of the only run to make.
const ONLY: &str = "THALWEG_CHECK";
/// The variable that holds the number of seeds of every check.
const SEEDS: &str = "THALWEG_CHECK_SEEDS";
/// The variable that adds runs on hosts which are connected by TCP.
const TCP: &str = "THALWEG_CHECK_TCP";
/// The variable that holds the number of series of runs that every check makes on hosts that are interrupted.
const SERIES: &str = "THALWEG_CHECK_SERIES";
/// The variable that makes every check draw the numbers of tasks of stages.
const TASKS: &str = "THALWEG_CHECK_TASKS";

/// The end of a job under test: a stream, keyed or not, whose records are collected.
pub trait Checked {
    /// The records that are collected.
    type Record: Data + Debug;

    /// Collects all records.
    fn collected(self) -> Output<Vec<Self::Record>>;
}

impl<C: Chain<Item: Portable<Owned: Debug>>> Checked for Stream<C> {
    type Record = <C::Item as Portable>::Owned;

    fn collected(self) -> Output<Vec<Self::Record>> {
        self.collect()
    }
}

impl<C, K, V, P> Checked for KeyedStream<C, FirstOf, P>
where
    C: Chain<Item = (K, V)>,
    K: Data + Key,
    V: Data + Debug,
{
    type Record = (K, V);

    fn collected(self) -> Output<Vec<Self::Record>> {
        self.unkey().collect()
    }
}

/// Begins a check of the job that the closure describes. The closure is called once for each run, and on several simulated hosts
/// once for each of them. So an `Arc` that it makes joins tasks of one host only, as in a process of its own, and a job that
/// needs it between hosts is found; one that it captures is shared by all of them, and hides that.
pub fn check<S, F>(job: F) -> Check<F>
where
    S: Checked,
    F: Fn(&Environment) -> S + Sync,
{
    Check { job, ordered: false, runs: Runs::default() }
}

/// Calls `test` with an environment for each way to run a job. See the [module](self).
///
/// On several hosts, `test` is called once for each of them, at the same time, each on a thread of its own. So it runs
/// the same jobs on all of them, and looks only at what every host gets: results, errors and statistics, and files once
/// a job is over. What it captures is shared by the hosts, and what it makes is not. A test that looks at what closures of the
/// job do elsewhere, such as numbers that `for_each` sends away, sees only its own host's part: see [`every_on_one_host`].
///
/// No job is interrupted, as [`check`] and [`check_sinks`] do.
///
/// # Panics
///
/// If `test` returns an error or panics.
///
/// ```
/// use thalweg::check;
///
/// check::every(|env| {
///     let numbers = env.iter(0..100u64).shuffle();
///     let count = numbers.count().collect_one();
///     env.run()?;
///     assert_eq!(count.take()?, Some(100));
///     Ok(())
/// });
/// ```
#[track_caller]
pub fn every(test: impl Fn(&Environment) -> Result<()> + Sync) {
    let runs = Runs { clusters: FEW_CLUSTERS, ..Runs::default() };
    runs.on_hosts(&|env, _| passed(test(env)), &mut |_| Ok(()));
}

/// As [`every`], but only on one host: for tests of what closures of the job do outside of it, of more than one thread
/// that runs jobs, and of what is there only on one host.
///
/// # Panics
///
/// If `test` returns an error or panics.
///
/// ```
/// use std::sync::mpsc;
/// use thalweg::check;
///
/// check::every_on_one_host(|env| {
///     let (sender, receiver) = mpsc::channel();
///     env.range(0..100).shuffle().for_each(move |n| sender.send(n).unwrap());
///     env.run()?;
///     assert_eq!(receiver.iter().sum::<u64>(), 4950);
///     Ok(())
/// });
/// ```
#[track_caller]
pub fn every_on_one_host(test: impl Fn(&Environment) -> Result<()>) {
    Runs::default().each(&|env, _| passed(test(env)), &mut |_| Ok(()));
}

/// As [`every`], with more clusters. The number identifies the run, and is the same on all hosts of it.
#[doc(hidden)]
#[track_caller]
pub fn every_host(test: impl Fn(&Environment, usize) -> Result<()> + Sync) {
    Runs::default().on_hosts(&|env, number| passed(test(env, number)), &mut |_| Ok(()));
}

fn passed(ended: Result<()>) -> Result<Answer, String> {
    ended.map(|()| Box::new(()) as Answer).map_err(|error| error.to_string())
}

/// A check that has not run yet. See [`check`].
#[must_use = "a check runs nothing until it has an expectation"]
pub struct Check<F> {
    job: F,
    ordered: bool,
    runs: Runs,
}

impl<S, F> Check<F>
where
    S: Checked,
    F: Fn(&Environment) -> S + Sync,
{
    /// Compares results in order: for jobs whose last stage has one task.
    pub fn ordered(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Sets the number of seeds, eight by default, unless the variable `THALWEG_CHECK_SEEDS` overrides it.
    pub fn seeds(mut self, seeds: u64) -> Self {
        self.runs.set_seeds(seeds);
        self
    }

    /// Draws the number of tasks of every stage in which the program and its operators leave it open, for each run: on
    /// several hosts also as any number on each host. No result may depend on them. The variable `THALWEG_CHECK_TASKS`
    /// does so for every check.
    ///
    /// ```
    /// use thalweg::check::check;
    ///
    /// check(|env| env.range(0..100).group_by(|n| n % 3).count()).any_tasks().equals([(0, 34), (1, 33), (2, 33)]);
    /// ```
    pub fn any_tasks(mut self) -> Self {
        self.runs.draw_tasks = true;
        self
    }

    /// Demands that the job can have checkpoints: fails unless at least one run on one host was interrupted, and another one went
    /// on from its checkpoint, and says why none has. Without it, runs are left out in which a job cannot have checkpoints, or not
    /// yet where it was interrupted; if all are, an event of the facade `log` says why, of the target `thalweg::check`. For series
    /// of runs on several hosts, there is that event in either case.
    ///
    /// Tests of jobs that remember something across records should demand it.
    ///
    /// ```
    /// use thalweg::check::check;
    ///
    /// check(|env| env.range(0..1000).sum(|n| *n)).must_restore().equals([499_500u64]);
    /// ```
    pub fn must_restore(mut self) -> Self {
        self.runs.must_restore = true;
        self
    }

    /// Limits the memory of all operators of the job together, in bytes; beyond it they spill to disk.
    pub fn memory(mut self, bytes: usize) -> Self {
        self.runs.memory = Some(bytes);
        self
    }

    /// Checks that every run returns these records.
    ///
    /// # Panics
    ///
    /// If a run returns other records or fails.
    #[track_caller]
    pub fn equals<O>(self, expected: impl IntoIterator<Item = O>)
    where
        O: Into<S::Record>,
    {
        let expected: Vec<_> = expected.into_iter().map(Into::into).collect();
        let Self { job, ordered, runs } = self;
        runs.all(&erased(&job), &mut judging(|found: Vec<_>| compare(&found, &expected, ordered)));
    }

    /// Checks that every run returns the same records, and returns them.
    ///
    /// # Panics
    ///
    /// If a run returns other records than the first, or fails.
    #[track_caller]
    pub fn agrees(self) -> Vec<S::Record> {
        let Self { job, ordered, runs } = self;
        let mut first = None::<Vec<S::Record>>;
        if variable(ONLY).is_some_and(|only: usize| only > 0) {
            // Alone, the run would have nothing to agree with.
            let config = runs.configs().swap_remove(0);
            match collect(&erased(&job), &Environment::checked(config.clone())) {
                Ok(records) => first = Some(typed(records)),
                Err(failed) => fail(&show(&config), &failed, 0),
            }
        }
        let judge = |records: Vec<_>| match &first {
            Some(expected) => compare(&records, expected, ordered),
            None => {
                first = Some(records);
                Ok(())
            }
        };
        runs.all(&erased(&job), &mut judging(judge));
        first.unwrap_or_default()
    }

    /// Checks that `allowed` accepts the records of every run; it describes the fault otherwise. For operators whose
    /// result depends on order, such as `limit`, where more than one result is correct.
    ///
    /// # Panics
    ///
    /// If `allowed` refuses the records of a run, or a run fails.
    #[track_caller]
    pub fn satisfies(self, allowed: impl Fn(Vec<S::Record>) -> Result<(), String>) {
        let Self { job, runs, .. } = self;
        runs.all(&erased(&job), &mut judging(allowed));
    }

    /// Checks that every run fails with an error whose message contains this text.
    ///
    /// # Panics
    ///
    /// If a run succeeds, or fails with another error.
    #[track_caller]
    pub fn fails_with(self, message: &str) {
        let Self { job, runs, .. } = self;
        let judge = |ended: Result<Vec<S::Record>>| match ended {
            Ok(records) => Err(format!("ended well, with {} records", records.len())),
            Err(error) if error.to_string().contains(message) => Ok(()),
            Err(error) => Err(format!("failed otherwise: {error}")),
        };
        let job = erased(&job);
        let run = |env: &Environment, _| {
            let ended = run(&job, env).map(typed::<Vec<S::Record>>);
            Ok(Box::new(ended) as Answer)
        };
        runs.on_hosts(&run, &mut judging(judge));
    }
}

/// What a run gives, without its type: what runs jobs is compiled once, and not for every job.
type Answer = Box<dyn Any + Send>;

/// A job under test. Once it has run, what it returns gives the records.
type Job<'a> = dyn Fn(&Environment) -> Records + Sync + 'a;
type Records = Box<dyn FnOnce() -> Result<Answer>>;

fn erased<S: Checked>(
    job: &(impl Fn(&Environment) -> S + Sync),
) -> impl Fn(&Environment) -> Records + Sync {
    move |env| {
        let records = job(env).collected();
        Box::new(move || Ok(Box::new(records.take()?) as Answer))
    }
}

fn typed<T: 'static>(answer: Answer) -> T {
    *answer.downcast().expect("the answers of a check have the type of its records")
}

fn judging<T: 'static>(
    mut judge: impl FnMut(T) -> Result<(), String>,
) -> impl FnMut(Answer) -> Result<(), String> {
    move |answer| judge(typed(answer))
}

fn run(job: &Job<'_>, env: &Environment) -> Result<Answer> {
    let records = job(env);
    env.run()?;
    records()
}

fn collect(job: &Job<'_>, env: &Environment) -> Result<Answer, String> {
    run(job, env).map_err(|error| format!("failed: {error}"))
}

/// The configurations in which a job is run.
#[derive(Clone, Debug)]
struct Runs {
    seeds: u64,
    /// The number of seeds of orders on several hosts.
    clusters: u64,
    memory: Option<usize>,
    /// Whether the numbers of tasks of stages are drawn.
    draw_tasks: bool,
    /// Whether at least one run must begin with a checkpoint.
    must_restore: bool,
}

impl Default for Runs {
    fn default() -> Self {
        let draw_tasks = std::env::var_os(TASKS).is_some();
        Self { seeds: 8, clusters: 4, memory: None, draw_tasks, must_restore: false }
    }
}

/// The clusters of [`every`], of which there are many tests: one of two hosts, one of three.
const FEW_CLUSTERS: u64 = 2;

/// The credit of a lane, in bytes: less than a batch, so that senders wait often.
const LITTLE_CREDIT: usize = 500;

impl Runs {
    fn set_seeds(&mut self, seeds: u64) {
        (self.seeds, self.clusters) = (seeds, seeds.div_ceil(2));
    }

    /// The configurations of the runs on one host. The first has the defaults.
    fn configs(&self) -> Vec<Config> {
        let batches = [BatchMode::default(), BatchMode::Fixed { size: 7 }, BatchMode::Single];
        let mut configs = vec![Config::default()];
        let mut add = |scheduler, cores, batch, credit| {
            let mut config = Config { scheduler, batch, credit, ..Config::default() };
            config.cores = NonZeroUsize::new(cores).unwrap_or(config.cores);
            configs.push(config);
        };
        for scheduler in [Scheduler::WorkStealing, Scheduler::ThreadPerTask] {
            for cores in [1, 3] {
                for batch in batches {
                    add(scheduler, cores, batch, LITTLE_CREDIT);
                }
            }
        }
        for seed in 0..variable(SEEDS).unwrap_or(self.seeds) {
            let drawn = hash_u64(seed).to_le_bytes().map(usize::from);
            let size = 1 + drawn[1] % 40;
            let batches = [BatchMode::default(), BatchMode::Fixed { size }, BatchMode::Single];
            let credits = [LITTLE_CREDIT, LITTLE_CREDIT, 1, Config::default().credit];
            let (cores, batch, credit) =
                (1 + drawn[0] % 8, batches[drawn[2] % 3], credits[drawn[3] % 4]);
            add(Scheduler::Deterministic { seed }, cores, batch, credit);
        }
        // As if the tasks were on different hosts.
        for batch in batches {
            let config = Config { batch, encode_exchanges: true, ..Config::default() };
            configs.push(Config { cores: NonZeroUsize::MIN.saturating_add(1), ..config });
        }
        for (number, config) in configs.iter_mut().enumerate() {
            config.memory = self.memory.unwrap_or(config.memory);
            config.tasks = self.tasks(number as u64);
        }
        configs
    }

    /// The numbers of tasks that are set, of which there are others for each seed.
    fn tasks(&self, seed: u64) -> TaskCounts {
        if self.draw_tasks { TaskCounts::drawn_from(seed) } else { TaskCounts::default() }
    }

    /// Of each run on several hosts: the configuration, the cores of each host, and the seed of the order.
    fn clusters(&self) -> Vec<(Config, Vec<usize>, u64)> {
        let seeds = 0..variable(SEEDS).unwrap_or(self.clusters);
        let cluster = |seed: u64| {
            let drawn = hash_u64(seed + HOSTS_APART).to_le_bytes().map(usize::from);
            let size = 1 + drawn[1] % 40;
            let batches = [BatchMode::default(), BatchMode::Fixed { size }, BatchMode::Single];
            let credits = [LITTLE_CREDIT, LITTLE_CREDIT, 1, Config::default().credit];
            let (batch, credit) = (batches[drawn[2] % 3], credits[drawn[3] % 4]);
            let memory = self.memory.unwrap_or(Config::default().memory);
            let cores = (0..2 + seed as usize % 2).map(|host| 1 + drawn[4 + host] % 3).collect();
            let tasks = self.tasks(seed);
            (Config { batch, credit, memory, tasks, ..Config::default() }, cores, seed)
        };
        seeds.map(cluster).collect()
    }

    /// Runs on one host.
    #[track_caller]
    fn each(
        &self,
        run: &dyn Fn(&Environment, usize) -> Result<Answer, String>,
        judge: &mut dyn FnMut(Answer) -> Result<(), String>,
    ) {
        let only = variable(ONLY);
        for (number, config) in self.configs().iter().enumerate() {
            if only.is_none_or(|only: usize| only == number)
                && let Err(difference) =
                    run(&Environment::checked(config.clone()), number).and_then(&mut *judge)
            {
                fail(&show(config), &difference, number);
            }
        }
    }

    /// Runs on one host, on several, and interrupted on one and on several.
    #[track_caller]
    fn all(&self, job: &Job<'_>, judge: &mut dyn FnMut(Answer) -> Result<(), String>) {
        self.on_hosts(&|env, _| collect(job, env), judge);
        let only = variable(ONLY);
        let before = self.configs().len() + self.clusters().len();
        let mut restored = Restored::default();
        for (number, interrupted) in self.interrupted().iter().enumerate() {
            let number = before + number;
            if only.is_some_and(|only: usize| only != number) {
                continue;
            }
            let judged = interrupted.run(job).and_then(|second| match second {
                Second::Run(records) => judge(records).map(|()| None),
                Second::AfterItsEnd(records) => judge(records).map(|()| Some(ENDED.to_owned())),
                Second::None(why) => Ok(Some(why)),
            });
            match judged {
                Ok(why_not) => restored.add(why_not),
                Err(difference) => fail(&interrupted.show(), &difference, number),
            }
        }
        // A run alone shows nothing of the others.
        let missing = restored.missing("runs that were interrupted").filter(|_| only.is_none());
        if self.must_restore && only.is_none() {
            let no_seeds = self.interrupted().is_empty().then_some(NO_SEEDS);
            if let Some(missing) = missing.as_deref().or(no_seeds) {
                panic!("{missing}");
            }
        }
        let before = before + self.interrupted().len();
        let mut series = Restored::default();
        for (seed, restarted) in self.restarted(place_of(Location::caller())) {
            let number = before + seed as usize;
            // Miri has no files.
            if cfg!(miri) || only.is_some_and(|only: usize| only != number) {
                continue;
            }
            match restarted.run(job, judge) {
                Ok(why_not) => series.add(why_not),
                Err(difference) => fail(&restarted.show(), &difference, number),
            }
        }
        let series = series.missing("series of runs on several hosts").filter(|_| only.is_none());
        for what in missing.into_iter().chain(series) {
            log::warn!(target: "thalweg::check", "the check at {}: {what}", Location::caller());
        }
    }

    /// The runs that begin with a snapshot of another run.
    fn interrupted(&self) -> Vec<Interrupted> {
        let seeds = 0..variable(SEEDS).unwrap_or(self.clusters);
        seeds.map(|seed| Interrupted::drawn_from(seed, &self.config(seed))).collect()
    }

    /// The series of runs that go on on other hosts, each with its seed. Every check makes few of them, and others than the
    /// next check: `place` is where it is.
    fn restarted(&self, place: u64) -> Vec<(u64, Restarted)> {
        let of_seeds = || variable(SEEDS).unwrap_or(self.clusters).div_ceil(4);
        let some = variable(SERIES).unwrap_or_else(of_seeds);
        let is_one = variable::<usize>(ONLY).is_some();
        let seeds = 0..if is_one { RESTARTS } else { some.min(RESTARTS) };
        let restarted = |next| {
            let seed = place.wrapping_add(next) % RESTARTS;
            (seed, Restarted::drawn_from(seed, |seed| self.config(seed)))
        };
        seeds.map(restarted).collect()
    }

    /// What all runs have that are interrupted.
    fn config(&self, seed: u64) -> Config {
        let usual = Config::default();
        let memory = self.memory.unwrap_or(usual.memory);
        Config { credit: LITTLE_CREDIT, memory, tasks: self.tasks(seed), ..usual }
    }

    /// Runs on one host, and on several, each of which gets the result.
    #[track_caller]
    fn on_hosts(
        &self,
        run: &(dyn Fn(&Environment, usize) -> Result<Answer, String> + Sync),
        judge: &mut dyn FnMut(Answer) -> Result<(), String>,
    ) {
        self.each(run, judge);
        let only = variable(ONLY);
        let before = self.configs().len();
        for (number, (config, cores, seed)) in self.clusters().iter().enumerate() {
            let number = before + number;
            if only.is_some_and(|only: usize| only != number) {
                continue;
            }
            let run = |env: &Environment| run(env, number);
            let cluster = Cluster::new(*seed, config.turn.get(), cores.len());
            let results = on_cluster(&cluster, config, cores, &run);
            for (host, result) in results.into_iter().enumerate() {
                if let Err(difference) = result.and_then(&mut *judge) {
                    let run = format!(
                        "{}, as on hosts of {cores:?} cores, in the order of seed {seed}, on host {host}",
                        show(config)
                    );
                    fail(&run, &difference, number);
                }
            }
        }
        if only.is_none() && std::env::var_os(TCP).is_some() {
            let clusters = self.clusters();
            let before = before + clusters.len();
            for (at, (config, cores, _)) in clusters.into_iter().enumerate() {
                let number = before + at;
                let results = on_tcp(&config, &cores, &|env| run(env, number));
                for (host, result) in results.into_iter().enumerate() {
                    if let Err(difference) = result.and_then(&mut *judge) {
                        panic!(
                            "host {host} of hosts with {cores:?} cores, connected by TCP: {}\n  \
                             {difference}\n  {TCP} has added this run",
                            show(&config)
                        );
                    }
                }
            }
        }
    }
}

/// Why a run that was interrupted shows nothing.
const ENDED: &str = "the job had ended before";
/// Why a check without seeds shows nothing.
const NO_SEEDS: &str = "no run was interrupted: the check has no seeds";

/// Draws other numbers for several hosts than for one.
const HOSTS_APART: u64 = 1 << 32;
/// How many series of runs there are that are interrupted and go on on other hosts. A check makes some of them.
const RESTARTS: u64 = 64;

/// Runs the same program on each host of a cluster in this process.
pub(crate) fn on_cluster<T: Send>(
    cluster: &Arc<Cluster>,
    config: &Config,
    cores: &[usize],
    run: &(dyn Fn(&Environment) -> Result<T, String> + Sync),
) -> Vec<Result<T, String>> {
    /// The program of a host, until it is dropped.
    struct Program(Arc<Cluster>, HostId);

    impl Drop for Program {
        fn drop(&mut self) {
            self.0.leave(self.1);
        }
    }

    let host = |host: usize| {
        let program = Program(Arc::clone(cluster), HostId(host));
        let body = move || {
            let own = NonZeroUsize::new(cores[host]).unwrap_or(config.cores);
            let config = Config { cores: own, ..config.clone() };
            run(&Environment::on_host(config, &program.0, HostId(host), cores))
        };
        Box::new(body) as Box<dyn FnOnce() -> _ + Send>
    };
    let ended = join_all((0..cores.len()).map(host).collect());
    ended.into_iter().map(|host| host.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

/// A port of loopback for the first host of a test: without a listener, below the ports that the system gives to
/// connections, and another one at each call in a process.
///
/// ```
/// use thalweg::check::free_port;
///
/// assert_ne!(free_port(), free_port());
/// ```
///
/// # Panics
///
/// If no port is free.
pub fn free_port() -> u16 {
    net::free_port().unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the same program on each of several hosts of this process that are connected by TCP.
fn on_tcp(
    config: &Config,
    cores: &[usize],
    run: &(dyn Fn(&Environment) -> Result<Answer, String> + Sync),
) -> Vec<Result<Answer, String>> {
    let first = format!("127.0.0.1:{}", free_port());
    // Other hosts that begin at the same port must not join.
    static RUNS: atomic::AtomicU64 = atomic::AtomicU64::new(0);
    let run_number = RUNS.fetch_add(1, atomic::Ordering::Relaxed);
    let secret = format!("the secret of run {run_number} in process {}", std::process::id());
    let host = |host: usize| {
        let own = NonZeroUsize::new(cores[host]).unwrap_or(config.cores);
        let config = Config { cores: own, ..config.clone() };
        let secret = Secret::new(secret.as_str());
        let mut hosts = HostConfig::new(host, cores.len(), first.clone(), secret);
        hosts.compression = if run_number % 2 == 1 { Compression::Lz4 } else { Compression::None };
        let body = move || {
            let env = Environment::checked_on_hosts(config, hosts);
            run(&env.map_err(|error| error.to_string())?)
        };
        Box::new(body) as Box<dyn FnOnce() -> _ + Send>
    };
    let ended = join_all((0..cores.len()).map(host).collect());
    ended.into_iter().map(|host| host.unwrap_or_else(|panic| resume_unwind(panic))).collect()
}

/// A number for a place in a program, which is the same in every run of it.
fn place_of(place: &Location<'_>) -> u64 {
    hash_bytes(place.file().as_bytes()) ^ hash_u64(u64::from(place.line()))
}

#[track_caller]
fn fail(run: &str, difference: &str, number: usize) {
    panic!("{run}\n  {difference}\n  {ONLY}={number} makes this run alone");
}

fn show(config: &Config) -> String {
    let encoded = if config.encode_exchanges { ", with encoded exchanges" } else { "" };
    let tasks = config.tasks.seed().map(|seed| format!(", tasks drawn from seed {seed}"));
    let tasks = tasks.unwrap_or_default();
    format!(
        "the job on {} cores, under {:?}, with {:?}, {} bytes of credit and {} of memory{encoded}{tasks}",
        config.cores, config.scheduler, config.batch, config.credit, config.memory
    )
}

/// The whole number in an environment variable, if it is set.
fn variable<N: FromStr>(name: &str) -> Option<N> {
    let value = std::env::var(name).ok()?;
    match value.parse() {
        Ok(number) => Some(number),
        Err(_) => panic!("{name} is {value:?}, and should be a whole number"),
    }
}

#[cfg(test)]
mod tests;
