//! Handles to a job that was started.

#[cfg(doc)]
use super::Environment;
use super::application::Attendance;
use super::checkpointing::{Checkpointer, Checkpointing};
use super::running_job::RunningJob;
use super::watch::{Warnings, Watch};
use crate::checkpoint::{CheckpointFile, Taken};
use crate::error::Result;
use crate::metrics::Stats;
use crate::net::HostId;
use crate::plan::Plan;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Weak};

/// The error message of a job that the program has cancelled.
const CANCELLED: &str = "the job was cancelled";
/// How the error message of a job begins that the program has suspended.
const SUSPENDED: &str = "the job was suspended";

/// A job that runs or has ended.
///
/// Dropping the handle leaves the job running.
pub struct JobHandle {
    running: Arc<RunningJob>,
    around: Around,
    warnings: Warnings,
    /// Whether the job fails if its statistics do not agree.
    checked: bool,
}

/// What goes on around a job while it runs.
pub(super) struct Around {
    /// What an application does; `None` for the job of a library.
    pub(super) attendance: Option<Box<dyn Attendance>>,
    /// The thread that checks the job for stalls, if its warnings have a receiver.
    pub(super) watch: Option<Watch>,
    /// The thread that takes its checkpoints, if it has any.
    pub(super) checkpointer: Option<Checkpointer>,
}

impl JobHandle {
    pub(super) fn new(
        running: Arc<RunningJob>,
        around: Around,
        warnings: Warnings,
        checked: bool,
    ) -> Self {
        Self { running, around, warnings, checked }
    }

    /// Waits until the job is over, and returns what it counted: on each of several hosts, what all of them counted.
    /// If the job succeeded but has dropped records, a warning of the facade `log` says so: see
    /// [`Stats::late_dropped`].
    ///
    /// # Errors
    ///
    /// The first failure of any of its tasks.
    ///
    /// A closure of a job cannot wait for that job, nor for another one on the same threads: the waiting thread may
    /// be the one that the job needs. That is an error of kind [`Plan`](crate::ErrorKind::Plan), and the job goes on.
    /// A closure may [start](Environment::start) such a job and let a thread of the program wait for it, or run it in
    /// an environment with threads of its own ([`Environment::new`]).
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let out = env.iter(0..100).map(|n| n * n).count().collect_one();
    /// let stats = env.start()?.wait()?;
    /// assert_eq!(stats.operators[1].records_out, Some(100));
    /// assert_eq!(out.take()?, Some(100));
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn wait(self) -> Result<Stats> {
        let RunningJob { launched, runtime, .. } = &*self.running;
        let waited = runtime.wait(&launched.job);
        let Around { attendance, watch, checkpointer } = self.around;
        // A closure of the job itself cannot wait for it.
        if let Some(checkpointer) = checkpointer.filter(|_| launched.job.is_over()) {
            checkpointer.end();
        }
        waited?;
        let stats = launched.stats(runtime);
        if let Some(watch) = watch {
            watch.end();
        }
        if let Some(attendance) = attendance {
            attendance.ended(&stats);
        }
        // The statistics of all hosts are on each, and certainly on the first.
        if runtime.hosts.me() == HostId::FIRST {
            self.warnings.of_losses(&stats);
        }
        launched.job.outcome()?;
        if self.checked {
            launched.conserved()?;
        }
        Ok(stats)
    }

    /// Whether the job is over.
    pub fn is_over(&self) -> bool {
        self.running.launched.job.is_over()
    }

    /// What the job has counted so far; on one of several hosts, what the tasks there have. Waits for running tasks to
    /// end their turns, which takes milliseconds unless a closure blocks; the job goes on meanwhile. When a closure of
    /// a job calls it, it does not wait, and leaves out the counts of tasks that are running.
    pub fn stats(&self) -> Stats {
        self.running.stats()
    }

    /// Ends the job as soon as its tasks have ended their turns: an iterator or a closure that blocks is waited for, since nothing
    /// interrupts it. What it has computed is dropped, and [`wait`](Self::wait) gives an error of kind
    /// [`Cancelled`](crate::ErrorKind::Cancelled).
    ///
    /// Once all tasks have succeeded and their results are computed, the job is done, and cancelling it has no
    /// effect: all of its output appears, and `wait` returns no error. Before that, no output appears. A job on several
    /// hosts ends on all of them.
    pub fn cancel(&self) {
        self.running.launched.job.cancel(CANCELLED);
    }

    /// Ends the job's sources as if their input had ended: what was read is processed, and the job succeeds.
    ///
    /// A [channel](Environment::channel) accepts no more records, and the job processes all that it has accepted: a
    /// concurrent `send` either fails or its record is processed. On several hosts, the sources of all of them end.
    ///
    /// If the job has [checkpoints](crate::config::Config::checkpoints) and fails while it publishes its results, the next run of
    /// it reads nothing: it publishes the rest, and ends.
    pub fn drain(&self) {
        self.running.launched.job.drain();
    }

    /// Takes a checkpoint now, whatever the interval is, and ends the job when it is complete: run again, the job goes on
    /// from there. Returns at once; [`wait`](Self::wait) gives an error of kind
    /// [`Suspended`](crate::ErrorKind::Suspended) then, which names the checkpoint. Flink calls this "stop with savepoint".
    ///
    /// Unlike with [`drain`](Self::drain), nothing is worked through to its end: sources read nothing behind that
    /// checkpoint, windows that are open stay open, and files stay hidden, as after [`cancel`](Self::cancel). So closures
    /// of sinks are not called again for records that they have had, but for what timers and windows of the clock have
    /// emitted in the last moment.
    ///
    /// If the checkpoint cannot be taken, the job is cancelled, and the message of the error says why, and from which
    /// checkpoint the job goes on instead, and how old that is. As long as a barrier does not pass, a job that is suspended
    /// goes on; `cancel` ends it at once then. A job whose tasks have all ended before, or that is drained, ends as it would
    /// have. On several hosts, it is suspended on all of them.
    ///
    /// # Errors
    ///
    /// Of kind [`Config`](crate::ErrorKind::Config) if the job has no [checkpoints](crate::config::CheckpointConfig); it goes
    /// on.
    ///
    /// ```
    /// use thalweg::config::{CheckpointConfig, Config};
    /// use thalweg::{Environment, ErrorKind};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let folder = dir.path();
    /// let mut config = Config::default();
    /// config.checkpoints = Some(CheckpointConfig::new(folder.join("saved")));
    /// let env = Environment::with_config(config);
    /// env.generate(1e5, Some).map(|n| n.to_string()).write_lines(folder.join("numbers.txt"));
    /// let job = env.start()?;
    /// job.suspend()?;
    /// let error = job.wait().unwrap_err();
    /// assert_eq!(error.kind(), ErrorKind::Suspended);
    /// assert!(error.message().starts_with("the job was suspended: it goes on from checkpoint "), "{error}");
    /// assert!(!folder.join("numbers.txt").exists());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn suspend(&self) -> Result<()> {
        self.running.suspend(SUSPENDED)
    }

    /// Takes a checkpoint now, whatever the interval is, and copies it into a directory that has none, where it stays: a savepoint,
    /// to go back to. The job goes on. Returns the copy once all of it is on the disk.
    ///
    /// To go on from a savepoint, run the program with the directory of a copy of it: see
    /// [`CheckpointDir::copy`](crate::checkpoint::CheckpointDir::copy). With several requests at once, all get the same checkpoint.
    ///
    /// `None` if the job is over, or so near to its end that it takes no further checkpoint; and on other hosts than the first,
    /// whose tasks take part all the same. Sinks that commit with checkpoints do so with this one too, and have committed on all hosts
    /// when this returns. To end the job with it, call [`suspend`](Self::suspend) in its place.
    ///
    /// # Errors
    ///
    /// Of kind [`Config`](crate::ErrorKind::Config) if the job has no [checkpoints](crate::config::CheckpointConfig), or the
    /// directory has some already; of kind [`Plan`](crate::ErrorKind::Plan) in a closure of the job. What keeps a checkpoint from
    /// being taken or copied: the job goes on then. And the error of the job, if it fails before all of its sinks have committed.
    ///
    /// ```
    /// use thalweg::Environment;
    /// use thalweg::config::{CheckpointConfig, Config};
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let folder = dir.path();
    /// let mut config = Config::default();
    /// config.checkpoints = Some(CheckpointConfig::new(folder.join("saved")));
    /// let env = Environment::with_config(config);
    /// env.generate(1e5, Some).map(|n| n.to_string()).write_lines(folder.join("numbers.txt"));
    /// let job = env.start()?;
    /// let savepoint = job.savepoint(folder.join("before-the-upgrade"))?.expect("it runs");
    /// assert!(savepoint.path.starts_with(folder.join("before-the-upgrade")));
    /// job.cancel();
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn savepoint(&self, to: impl AsRef<Path>) -> Result<Option<CheckpointFile>> {
        self.running.savepoint(to.as_ref())
    }

    /// A handle that ends the job without waiting for it, for use in the handler of a signal, for example.
    pub fn control(&self) -> JobControl {
        JobControl { running: Arc::downgrade(&self.running) }
    }

    /// Sends a barrier through the job and waits until every task has passed it: all records that the sources had
    /// read before this call have then been processed, up to the sinks and the state of operators. The barrier makes
    /// exchanges send batches that are not full. The job goes on meanwhile, and may read more. Returns when the job
    /// ends, however it ends, and at once if it is over. On several hosts, it covers the sources and waits for the tasks of
    /// all of them.
    ///
    /// Records that were pushed into a channel but not yet read are not waited for.
    ///
    /// # Errors
    ///
    /// Returns an error in a closure of a job, where [`wait`](Self::wait) is refused too.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// let (sum, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    /// let (to, from) = (Arc::clone(&sum), Arc::clone(&seen));
    /// let ticks = env.generate(1e6, Some).inspect(move |_| drop(from.fetch_add(1, Ordering::SeqCst)));
    /// ticks.shuffle().for_each(move |_| drop(to.fetch_add(1, Ordering::SeqCst)));
    /// let job = env.start()?;
    /// for _ in 0..5 {
    ///     let read = seen.load(Ordering::SeqCst);
    ///     job.barrier()?;
    ///     assert!(sum.load(Ordering::SeqCst) >= read);
    /// }
    /// job.drain();
    /// job.wait()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn barrier(&self) -> Result<()> {
        self.running.barrier_alone()
    }

    /// Sends a barrier through the job, and returns what the tasks of this host have saved; `None` if the job has failed, is
    /// drained, or has no checkpoints.
    ///
    /// # Errors
    ///
    /// If an operator could not save what it remembers.
    pub(crate) fn snapshot(&self) -> Result<Option<Taken>> {
        self.running.barrier()?.map_or(Ok(None), |epoch| self.running.taken(epoch, BTreeSet::new()))
    }

    /// As [`snapshot`](Self::snapshot), at a barrier that overtakes batches at once.
    pub(crate) fn snapshot_overtaking(&self) -> Result<Option<Taken>> {
        let epoch = self.running.barrier_overtaking()?;
        epoch.map_or(Ok(None), |epoch| self.running.taken(epoch, BTreeSet::new()))
    }

    /// On the first host, takes a checkpoint, and returns whether the job goes on; on another one, saves its parts of
    /// checkpoints until the job is over.
    pub(crate) fn take_checkpoint(&self, checkpoints: &Checkpointing) -> Result<bool> {
        checkpoints.take_now(&self.running, &self.warnings)
    }

    /// As [`take_checkpoint`](Self::take_checkpoint); the first host suspends the job with it.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn suspend_now(&self, checkpoints: &Checkpointing) {
        checkpoints.suspend_now(&self.running, &self.warnings);
    }

    /// As [`savepoint`](Self::savepoint), on the first host.
    #[cfg(all(test, not(miri)))]
    pub(crate) fn savepoint_now(
        &self,
        checkpoints: &Checkpointing,
        to: &Path,
    ) -> Result<Option<CheckpointFile>> {
        checkpoints.savepoint_now(&self.running, to, &self.warnings)
    }

    /// Runs the job for so many steps of a scheduler that runs tasks on the calling thread, or until it is over.
    pub(crate) fn drive_for(&self, steps: usize) {
        self.running.runtime.drive_for(&self.running.launched.job, steps);
    }

    /// What each task of this host has counted so far.
    #[cfg(test)]
    pub(crate) fn counted(&self) -> Vec<crate::runtime::TaskCounts> {
        self.running.launched.job.counted()
    }

    /// The job's plan.
    pub fn plan(&self) -> &Plan {
        &self.running.launched.plan
    }
}

/// A handle that ends a job while the [`JobHandle`] waits for it. [`JobHandle::control`] makes it; it can be cloned
/// and sent to another thread. It keeps nothing of the job alive, and has no effect on a job that is over.
///
/// A program that runs until it is stopped drains its job then, as programs in application mode (module `cli`) do at
/// the first Ctrl-C. With the crate `signal-hook`, for SIGINT and SIGTERM:
///
/// ```no_run
/// # #[cfg(all(unix, feature = "cli"))] {
/// use signal_hook::{consts::{SIGINT, SIGTERM}, iterator::Signals};
/// use thalweg::Environment;
///
/// let env = Environment::new();
/// env.generate(1e6, Some).map(|n| n.to_string()).write_lines("numbers.txt");
/// let job = env.start()?;
///
/// let (control, mut signals) = (job.control(), Signals::new([SIGINT, SIGTERM])?);
/// std::thread::spawn(move || {
///     // The first signal drains, the second cancels.
///     signals.forever().next().map(|_| control.drain());
///     signals.forever().next().map(|_| control.cancel());
/// });
/// job.wait()?;
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// In a program that uses tokio, replace `signals` by `tokio::signal::ctrl_c().await` in a task of its own.
#[derive(Clone)]
pub struct JobControl {
    running: Weak<RunningJob>,
}

impl JobControl {
    /// Ends the job's sources as if their input had ended: see [`JobHandle::drain`].
    ///
    /// ```
    /// use thalweg::Environment;
    ///
    /// let env = Environment::new();
    /// env.generate(1e5, Some).for_each(drop);
    /// let job = env.start()?;
    /// let control = job.control();
    /// let other = control.clone();
    /// std::thread::spawn(move || other.drain());
    /// job.wait()?;
    /// assert!(control.is_over());
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn drain(&self) {
        if let Some(running) = self.running.upgrade() {
            running.launched.job.drain();
        }
    }

    /// Takes a checkpoint, and ends the job: see [`JobHandle::suspend`].
    ///
    /// # Errors
    ///
    /// If the job runs and has no checkpoints.
    ///
    /// ```
    /// use thalweg::{Environment, ErrorKind};
    ///
    /// let env = Environment::new();
    /// env.generate(1e5, Some).for_each(drop);
    /// let job = env.start()?;
    /// let control = job.control();
    /// assert_eq!(control.suspend().unwrap_err().kind(), ErrorKind::Config);
    /// control.drain();
    /// job.wait()?;
    /// control.suspend()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn suspend(&self) -> Result<()> {
        self.running.upgrade().map_or(Ok(()), |running| running.suspend(SUSPENDED))
    }

    /// Takes a checkpoint and copies it: see [`JobHandle::savepoint`]. Waits until that is done.
    ///
    /// # Errors
    ///
    /// As [`JobHandle::savepoint`].
    ///
    /// ```
    /// use thalweg::{Environment, ErrorKind};
    ///
    /// let env = Environment::new();
    /// env.generate(1e5, Some).for_each(drop);
    /// let job = env.start()?;
    /// let control = job.control();
    /// assert_eq!(control.savepoint("kept").unwrap_err().kind(), ErrorKind::Config);
    /// control.drain();
    /// job.wait()?;
    /// assert_eq!(control.savepoint("kept")?, None);
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn savepoint(&self, to: impl AsRef<Path>) -> Result<Option<CheckpointFile>> {
        self.running.upgrade().map_or(Ok(None), |running| running.savepoint(to.as_ref()))
    }

    /// Sends a barrier through the job: see [`JobHandle::barrier`].
    pub(crate) fn barrier(&self) -> Result<()> {
        self.running.upgrade().map_or(Ok(()), |running| running.barrier_alone())
    }

    /// Ends the job without a result: see [`JobHandle::cancel`].
    pub fn cancel(&self) {
        if let Some(running) = self.running.upgrade() {
            running.launched.job.cancel(CANCELLED);
        }
    }

    /// Whether the job is over.
    pub fn is_over(&self) -> bool {
        self.running.upgrade().is_none_or(|running| running.launched.job.is_over())
    }
}

#[cfg(test)]
mod tests {
    use crate::check::{every, every_on_one_host};
    use crate::config::{CheckpointConfig, Config};
    use crate::flow::{Epoch, Event, Pipe, Push};
    use crate::plan::{Origin, TaskContext};
    use crate::sync::{Mutex, lock};
    use crate::time::Time;
    use crate::{Chain, Environment, Stream};
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn a_barrier_of_the_program_leaves_nothing_saved() {
        let folder = tempfile::tempdir().unwrap();
        let mut checkpoints = CheckpointConfig::new(folder.path());
        checkpoints.interval = Duration::from_secs(3600);
        let config = Config { checkpoints: Some(checkpoints), ..Config::default() };
        let env = Environment::with_config(config);
        let numbers = env.generate(1e5, Some).group_by(|n| n % 100);
        numbers.stateful_map(0, |_, seen, _| *seen += 1).unkey().for_each(drop);
        let job = env.start().unwrap();
        (0..5).for_each(|_| job.barrier().unwrap());
        assert_eq!(job.running.launched.checkpoints.as_ref().unwrap().kept(), 0);
        job.cancel();
        job.wait().unwrap_err();
    }

    /// The records that each task of one operator had seen when a barrier came, and at its end.
    type Cuts = Arc<Mutex<BTreeMap<usize, Vec<(Epoch, u64)>>>>;

    /// Counts records, and notes the count at each barrier.
    struct Cutting<C> {
        prev: C,
        cuts: Cuts,
    }

    struct CuttingPush<N> {
        task: usize,
        seen: u64,
        cuts: Cuts,
        next: N,
    }

    impl<C: Chain> Chain for Cutting<C> {
        type Item = C::Item;
        type Time = C::Time;
        type Task<N: Push<C::Item, C::Time> + 'static> = C::Task<CuttingPush<N>>;

        fn attach<N>(&self, cx: &TaskContext<'_>, next: N) -> crate::Result<Self::Task<N>>
        where
            N: Push<C::Item, C::Time> + 'static,
        {
            let cuts = Arc::clone(&self.cuts);
            self.prev.attach(cx, CuttingPush { task: cx.task, seen: 0, cuts, next })
        }
    }

    impl<N: Pipe> Pipe for CuttingPush<N> {
        fn next(&mut self) -> Option<&mut dyn Pipe> {
            Some(&mut self.next)
        }

        fn event(&mut self, event: Event) {
            let epoch = match event {
                Event::Barrier(epoch) => epoch,
                _ => Epoch::LAST,
            };
            lock(&self.cuts).entry(self.task).or_default().push((epoch, self.seen));
            self.next.event(event);
        }
    }

    impl<I: crate::data::Record + ?Sized, T: Time, N: Push<I, T>> Push<I, T> for CuttingPush<N> {
        fn push(&mut self, item: I::Of<'_>, time: T) {
            self.seen += 1;
            self.next.push(item, time);
        }
    }

    fn cut<C: Chain>(stream: Stream<C>, all: &mut Vec<Cuts>) -> Stream<impl Chain<Item = C::Item>> {
        let cuts = Cuts::default();
        all.push(Arc::clone(&cuts));
        stream.then(Origin::here("cut"), |prev, _| Cutting { prev, cuts })
    }

    /// The records that all tasks together had seen at a barrier. One that had ended saw no more.
    fn seen(cuts: &Cuts, at: Epoch) -> u64 {
        let cuts = lock(cuts);
        let of_task = |cuts: &Vec<(Epoch, u64)>| {
            assert!(cuts.is_sorted(), "{cuts:?}");
            cuts.iter().find(|(epoch, _)| *epoch >= at).expect("an end at the latest").1
        };
        cuts.values().map(of_task).sum()
    }

    #[test]
    fn a_barrier_cuts_all_stages_at_one_place() {
        // Of the barriers of all runs, those that came neither before all records nor behind them.
        let amid = Cell::new(0);
        // What tasks have seen is compared in memory.
        every_on_one_host(|env: &Environment| {
            let mut all = Vec::new();
            // With an end: much would be in flight in front of each barrier.
            let numbers = env.parallel_iter(|task, tasks| (task as u64..60_000).step_by(tasks));
            let numbers = cut(cut(numbers, &mut all).shuffle(), &mut all);
            let keyed = numbers.map(|n| (n % 100, n)).group_by(|pair| pair.0).repartition();
            cut(keyed.map(|_, pair| pair).unkey(), &mut all).for_each(drop);
            let job = env.start()?;
            for _ in 0..3 {
                job.barrier()?;
            }
            job.drain();
            job.wait()?;
            for epoch in [1, 2, 3, u64::MAX].map(Epoch) {
                let counts: Vec<u64> = all.iter().map(|cuts| seen(cuts, epoch)).collect();
                assert!(counts.iter().all(|count| *count == counts[0]), "{epoch:?}: {counts:?}");
                let is_amid = epoch < Epoch::LAST && (1..60_000).contains(&counts[0]);
                amid.set(amid.get() + usize::from(is_amid));
            }
            Ok(())
        });
        assert!(amid.get() > 5, "{amid:?}");
    }

    #[test]
    fn a_barrier_comes_through_where_the_threads_never_run_out_of_work() {
        every(|env| {
            for _ in 0..3 {
                env.iter(0u64..).merge(env.generate(1e5, Some)).for_each(drop);
            }
            let job = env.start()?;
            (0..3).try_for_each(|_| job.barrier())?;
            job.drain();
            job.wait()?;
            Ok(())
        });
    }

    #[test]
    fn a_barrier_of_a_job_that_ends_is_not_waited_for() {
        every(|env| {
            let few = env.iter(0..100).shuffle().count().collect_one();
            let job = env.start()?;
            job.barrier()?;
            job.barrier()?;
            job.wait()?;
            assert_eq!(few.take()?.unwrap(), 100);
            env.iter(0..100).map(|n| 10 / (n - 50)).shuffle().for_each(drop);
            let job = env.start()?;
            job.barrier()?;
            assert!(job.wait().is_err());
            Ok(())
        });
    }
}
