//! A job: tasks that end together, with one outcome.

use super::counts::TaskCounts;
use super::description::Description;
use super::hosts::{Answer, Failed, JobHosts, SaveOrder};
use crate::checkpoint::{Counted, RestorePoint, StateId};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Epoch, Signals, Wake, discard};
use crate::metrics::ClockOffset;
use crate::net::{HostId, Links, Part};
use crate::sync::{AtomicUsize, Condvar, Mutex, Ordering, lock};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

/// A task, as its job sees it.
pub(crate) trait Member: Wake {
    /// The counts of the task, or `None` if it has ended. Waits for the end of its turn, for about `at_most`. Also
    /// `None` where both the calling thread and the task are in a turn: they may wait for each other, or be the same.
    ///
    /// # Errors
    ///
    /// The names of the task's operators, if the turn does not end in that time.
    fn counts_within(&self, at_most: Duration) -> Result<Option<TaskCounts>, Arc<str>>;
}

/// A running job.
pub(crate) struct Job {
    signals: Arc<Signals>,
    /// Cleared when the job is over, to break the cycle: each member holds its job.
    members: Mutex<Vec<Arc<dyn Member>>>,
    /// The final counts of each task that has ended.
    counted: Mutex<Vec<Option<TaskCounts>>>,
    running: AtomicUsize,
    /// The last barrier that each task has passed; `Epoch::LAST` for one that has ended.
    passed: Mutex<Vec<Epoch>>,
    over: Mutex<bool>,
    /// Notified when the job is over, and when a task has passed a barrier or ended.
    changed: Condvar,
    /// The other hosts of the job, if there are any.
    hosts: Option<Arc<JobHosts>>,
    /// On the first host: why the job is to be suspended, once it is.
    suspension: OnceLock<String>,
    end: Mutex<End>,
}

/// A barrier that was requested. On several hosts, the first one gives it its number.
#[derive(Clone, Default)]
pub(crate) struct Requested(Arc<OnceLock<Epoch>>);

impl Requested {
    /// Its number, once it has one.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.0.get().copied()
    }

    /// Gives the barrier its number.
    pub(super) fn number(&self, epoch: Epoch) {
        let _ = self.0.set(epoch);
    }
}

/// How far a job on several hosts has come to its end on this one.
#[derive(Default)]
struct End {
    /// All tasks of this host have ended, and its outputs are prepared.
    prepared: bool,
    /// Whether files are to be published on any host, once it is decided how the job ends.
    decided: Option<bool>,
    /// Whether the files of this host are published.
    concluded: bool,
    /// Another host could not publish its files, or is lost, which came before this host has published its own.
    unpublished: Option<Error>,
    /// The channels of the job, until it is over here.
    links: Option<Arc<Links>>,
}

impl Job {
    /// A job with this many tasks on this host, which are added by [`set_members`](Self::set_members).
    pub(crate) fn new(
        signals: Arc<Signals>,
        tasks: usize,
        links: impl Into<Arc<Links>>,
    ) -> Arc<Self> {
        let links = links.into();
        let several = links.hosts().count() > 1;
        let job = Arc::new_cyclic(|me| Self {
            signals,
            members: Mutex::new(Vec::new()),
            counted: Mutex::new((0..tasks).map(|_| None).collect()),
            running: AtomicUsize::new(tasks),
            passed: Mutex::new(vec![Epoch::default(); tasks]),
            over: Mutex::new(tasks == 0 && !several),
            changed: Condvar::new(),
            hosts: several.then(|| JobHosts::new(me, &links)),
            suspension: OnceLock::new(),
            end: Mutex::default(),
        });
        if let Some(hosts) = &job.hosts {
            job.signals.join(Arc::clone(hosts) as _);
            links.open(Part::Job, Arc::clone(hosts) as _);
            lock(&job.end).links = Some(links);
        }
        job
    }

    /// Sets the number of tasks on this host, before there are any.
    pub(crate) fn set_tasks(&self, tasks: usize) {
        *lock(&self.counted) = (0..tasks).map(|_| None).collect();
        *lock(&self.passed) = vec![Epoch::default(); tasks];
        self.running.store(tasks, Ordering::Release);
        *lock(&self.over) = tasks == 0 && self.hosts.is_none();
    }

    /// Calls `start` when all hosts of the job have described the same one, or at once if there is one host.
    pub(super) fn start(&self, description: Description, start: Box<dyn FnOnce() + Send>) {
        match &self.hosts {
            Some(hosts) => hosts.described(description, Some(start)),
            None => start(),
        }
    }

    /// Describes the job to the other hosts, before its tasks are made.
    pub(super) fn describe(&self, description: Description) {
        if let Some(hosts) = &self.hosts {
            hosts.described(description, None);
        }
    }

    /// As [`JobHosts::agreed`].
    pub(super) fn agreed(&self) -> Option<Result<Option<RestorePoint>>> {
        self.hosts.as_ref().map_or(Some(Ok(None)), |hosts| hosts.agreed())
    }

    /// The tasks are there, and may run. On a host without any, they have all ended.
    pub(super) fn begin(&self) {
        if let Some(hosts) = &self.hosts
            && lock(&self.counted).is_empty()
        {
            hosts.passed(Epoch::LAST);
            self.all_ended();
        }
    }

    pub(super) fn set_members(&self, members: Vec<Arc<dyn Member>>) {
        *lock(&self.members) = members;
    }

    fn members(&self) -> Vec<Arc<dyn Member>> {
        lock(&self.members).clone()
    }

    /// The counts of each task so far; waits for running tasks to end their turn.
    pub(crate) fn counted(&self) -> Vec<TaskCounts> {
        self.counted_within(Duration::MAX).unwrap_or_default()
    }

    /// As [`counted`](Self::counted), but waits for each task for about `at_most`.
    ///
    /// # Errors
    ///
    /// The names of the operators of the first task whose turn does not end in that time.
    pub(crate) fn counted_within(&self, at_most: Duration) -> Result<Vec<TaskCounts>, Arc<str>> {
        let members = self.members();
        let tasks = lock(&self.counted).len();
        (0..tasks)
            .map(|at| {
                // A task stores its final counts before it shows that it has ended.
                let running =
                    members.get(at).map_or(Ok(None), |task| task.counts_within(at_most))?;
                Ok(running.or_else(|| lock(&self.counted)[at].clone()).unwrap_or_default())
            })
            .collect()
    }

    /// The counts of each task by host, if there are several hosts and the job has ended well, as [`JobHosts::counted`].
    pub(crate) fn counted_on_hosts(&self) -> Option<Vec<Vec<TaskCounts>>> {
        self.hosts.as_ref()?.counted()
    }

    /// The clocks of other hosts, as the first host has estimated them when the job ended well, or as this one does.
    pub(crate) fn clocks(&self) -> Vec<ClockOffset> {
        self.hosts.as_ref().map(|hosts| hosts.clocks()).unwrap_or_default()
    }

    pub(crate) fn signals(&self) -> &Arc<Signals> {
        &self.signals
    }

    /// Fails the job, unless its end has been decided already.
    pub(crate) fn fail(&self, error: Error) {
        self.signals.fail(error);
        self.wake_all();
    }

    /// Stops the tasks of this host, before it is decided how the job ends.
    pub(super) fn stop(&self) {
        self.signals.stop();
        self.wake_all();
    }

    /// Cancels the job with a reason, unless its end has been decided already.
    pub(crate) fn cancel(&self, why: &str) {
        self.signals.cancel();
        self.fail(Error::new(ErrorKind::Cancelled, why));
    }

    /// Requests the first host to take a last checkpoint, and to end the job then.
    pub(crate) fn suspend(&self, why: &str) {
        match &self.hosts {
            Some(hosts) => hosts.suspend(why.to_owned()),
            None => self.suspend_here(why.to_owned()),
        }
    }

    /// On the first host: a host requests that the job be suspended.
    pub(super) fn suspend_here(&self, why: String) {
        let _ = self.suspension.set(why);
        self.notify();
    }

    /// On the first host: waits until the job is to be suspended, is over or has changed otherwise, for at most so long; returns
    /// why it is to be suspended, once it is.
    pub(crate) fn wait_suspended(&self, at_most: Duration) -> Option<&str> {
        let over = lock(&self.over);
        if !*over && self.suspension.get().is_none() {
            drop(self.changed.wait_timeout(over, at_most));
        }
        self.suspension.get().map(String::as_str)
    }

    /// Ends the sources as if their input had ended, so that the job ends with what it has.
    pub(crate) fn drain(&self) {
        self.signals.drain();
        self.wake_all();
    }

    /// An operator of some host waits for a checkpoint, which this host takes.
    pub(super) fn want_checkpoint_here(&self) {
        self.signals.want_checkpoint_here();
        self.notify();
    }

    /// Whether an operator waits for a checkpoint that is not on its way.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.signals.wants_checkpoint()
    }

    /// Whether operators of this host may wait for checkpoints from now on.
    pub(crate) fn may_wait_for_checkpoints(&self, may: bool) {
        if may != self.signals.has_checkpoints() {
            self.signals.set_has_checkpoints(may);
            self.wake_all();
        }
    }

    /// Another host of the job drains it.
    pub(super) fn drain_here(&self) {
        self.signals.drain_here();
        self.wake_all();
    }

    /// Makes every task check the signals.
    pub(crate) fn wake_all(&self) {
        for task in self.members() {
            task.wake();
        }
    }

    /// A task has ended; the last one publishes the job's output, unless it failed.
    pub(crate) fn one_ended(&self, index: usize, counted: TaskCounts) {
        lock(&self.counted)[index] = Some(counted);
        self.passed(index, Epoch::LAST);
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.all_ended();
        }
    }

    /// All tasks of this host have ended.
    fn all_ended(&self) {
        let Some(hosts) = &self.hosts else {
            self.signals.finish();
            self.set_over();
            return;
        };
        self.signals.prepare();
        lock(&self.end).prepared = true;
        if !self.signals.stopped() {
            hosts.prepared(self.signals.has_files(), self.counted(), &self.signals);
        }
        self.conclude();
    }

    /// The hosts have decided how the job ends. If well, with whether any of them has files to publish.
    pub(super) fn decided(&self, outcome: Result<bool>) {
        let files = *outcome.as_ref().unwrap_or(&false);
        self.signals.decide(outcome.map(drop));
        lock(&self.end).decided.get_or_insert(files);
        self.wake_all();
        self.conclude();
    }

    /// Publishes the files of this host, if its tasks have ended and the hosts have decided that the job ends well.
    fn conclude(&self) {
        let (Some(hosts), mut end) = (&self.hosts, lock(&self.end)) else { return };
        let (true, Some(files), false) = (end.prepared, end.decided, end.concluded) else { return };
        end.concluded = true;
        drop(end);
        if !files {
            return self.over(Ok(()));
        }
        let published = self.signals.publish_files();
        let unpublished = lock(&self.end).unpublished.take();
        match unpublished {
            Some(error) => self.over(Err(error)),
            None => hosts.published(published),
        }
    }

    /// Ends the job on this host, if it waits for others to publish their files.
    pub(super) fn unpublished(&self, error: Error) {
        let mut end = lock(&self.end);
        if end.concluded {
            drop(end);
            self.over(Err(error));
        } else {
            discard(end.unpublished.replace(error));
        }
    }

    /// All hosts have published their files, or one of them could not: ends the job on this host.
    pub(super) fn over(&self, published: Result<()>) {
        let Some(links) = lock(&self.end).links.take() else { return };
        self.signals.conclude(published);
        discard([links]);
        self.set_over();
    }

    /// Nothing is left to be done on this host: wakes waiting threads.
    fn set_over(&self) {
        let members = std::mem::take(&mut *lock(&self.members));
        drop(members);
        *lock(&self.over) = true;
        self.changed.notify_all();
    }

    /// Requests all sources to send a barrier, and to read nothing behind it if it is the last one.
    pub(crate) fn ask_barrier(&self, is_last: bool) -> Requested {
        if let Some(hosts) = &self.hosts {
            return hosts.ask_barrier(is_last);
        }
        let requested = Requested::default();
        requested.number(self.number_barrier(is_last));
        self.wake_all();
        requested
    }

    /// The number of one more barrier. On several hosts, the first one numbers them.
    pub(super) fn number_barrier(&self, is_last: bool) -> Epoch {
        self.signals.number_barrier(is_last)
    }

    /// The sources of all hosts are to send this barrier, and to read nothing behind it if it is the last one.
    pub(super) fn barrier_asked(&self, epoch: Epoch, is_last: bool) {
        self.signals.barrier_asked(epoch, is_last);
        self.wake_all();
        self.notify();
    }

    /// On the first host: lets a barrier overtake the batches on their way, on all hosts.
    pub(crate) fn overtake(&self, barrier: &Requested) {
        let Some(epoch) = barrier.epoch() else { return };
        if let Some(hosts) = &self.hosts {
            hosts.overtake(epoch);
        }
        self.overtake_here(epoch);
    }

    /// The same on this host.
    pub(super) fn overtake_here(&self, epoch: Epoch) {
        self.signals.overtake(epoch);
        self.wake_all();
    }

    /// Records that a barrier has left a task.
    pub(crate) fn passed(&self, index: usize, epoch: Epoch) {
        let mut passed = lock(&self.passed);
        let all = |passed: &[Epoch]| passed.iter().copied().min().unwrap_or(Epoch::LAST);
        let before = all(&passed);
        passed[index] = epoch;
        let after = all(&passed);
        drop(passed);
        if after > before {
            match &self.hosts {
                Some(hosts) => hosts.passed(after),
                None => self.signals.all_passed(after),
            }
        }
        self.notify();
    }

    /// Makes waiting threads look again.
    pub(super) fn notify(&self) {
        // Under the lock of the waiting threads, so that none misses the notification between its check and its wait.
        let _over = lock(&self.over);
        self.changed.notify_all();
    }

    /// Whether a barrier has left every task of every host, or never will because sources rest behind it.
    pub(crate) fn is_past(&self, barrier: &Requested) -> bool {
        let Some(&epoch) = barrier.0.get() else { return false };
        if self.signals.is_torn_at_last(epoch) {
            return true;
        }
        lock(&self.passed).iter().all(|&passed| passed >= epoch)
            && self.hosts.as_ref().is_none_or(|hosts| hosts.are_past(epoch))
    }

    pub(crate) fn is_over(&self) -> bool {
        *lock(&self.over)
    }

    pub(crate) fn wait(&self) {
        let mut over = lock(&self.over);
        while !*over {
            over = self.changed.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until a barrier has left every task, or the job is over; returns `false` if that takes longer than `at_most`.
    pub(crate) fn wait_past(&self, barrier: &Requested, at_most: Duration) -> bool {
        let mut over = lock(&self.over);
        while !*over && !self.is_past(barrier) {
            let waited = self.changed.wait_timeout(over, at_most);
            let (now, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            over = now;
            if waited.timed_out() {
                return *over || self.is_past(barrier);
            }
        }
        true
    }

    /// The tasks of this host that a barrier has not left.
    pub(crate) fn behind(&self, barrier: &Requested) -> Vec<usize> {
        let epoch = barrier.epoch();
        let passed = lock(&self.passed);
        let is_behind = |task: &usize| epoch.is_none_or(|epoch| passed[*task] < epoch);
        (0..passed.len()).filter(is_behind).collect()
    }

    /// On the first host: other hosts that have tasks that a barrier has not left, as [`JobHosts::behind`].
    pub(crate) fn hosts_behind(&self, barrier: &Requested) -> Vec<HostId> {
        let epoch = barrier.epoch().unwrap_or(Epoch::LAST);
        self.hosts.as_ref().map_or_else(Vec::new, |hosts| hosts.behind(epoch))
    }

    /// Asks the other hosts to save what their tasks have saved at a barrier that has left all tasks.
    pub(crate) fn ask_to_save(&self, epoch: Epoch, superseded: BTreeSet<StateId>) {
        if let Some(hosts) = &self.hosts {
            hosts.ask_to_save(epoch, superseded);
        }
    }

    /// The answers of the other hosts, in their order, if all have answered.
    pub(super) fn saved(&self) -> Option<Vec<Answer>> {
        self.hosts.as_ref().map_or(Some(Vec::new()), |hosts| hosts.saved())
    }

    /// Lets the other hosts know that a checkpoint counts, and whether they are to say when they have committed what it has.
    pub(crate) fn counts(&self, epoch: Epoch, is_awaited: bool, counted: Counted) {
        if let Some(hosts) = &self.hosts {
            hosts.counts(epoch, is_awaited, counted);
        }
    }

    /// Lets the other hosts know that a checkpoint could not be taken.
    pub(crate) fn fails(&self, failed: Failed) {
        if let Some(hosts) = &self.hosts {
            hosts.fails(failed);
        }
    }

    /// On another host than the first: the next thing to do for a checkpoint, if there is one.
    pub(super) fn next_order(&self) -> Option<SaveOrder> {
        self.hosts.as_ref()?.next_order()
    }

    /// On another host than the first: it has saved, or could not.
    pub(crate) fn has_saved(&self, epoch: Epoch, saved: Answer) {
        if let Some(hosts) = &self.hosts {
            hosts.has_saved(epoch, saved);
        }
    }

    /// On another host than the first: stores what its tasks have saved at their end once more, as it is now, if all have ended.
    pub(crate) fn store_end_again(&self) {
        if let Some(hosts) = &self.hosts
            && !self.signals.stopped()
        {
            hosts.prepared_again(&self.signals);
        }
    }

    /// On another host than the first: it has committed what a checkpoint has, which is awaited.
    pub(crate) fn has_committed(&self, epoch: Epoch) {
        if let Some(hosts) = &self.hosts {
            hosts.has_committed(epoch);
        }
    }

    /// Whether the other hosts have committed what a checkpoint has of which that is awaited.
    pub(super) fn have_committed(&self, epoch: Epoch) -> bool {
        self.hosts.as_ref().is_none_or(|hosts| hosts.have_committed(epoch))
    }

    /// Waits until there is what `look` looks for, which [`notify`](Self::notify) follows; `None` if the job is over first.
    pub(super) fn wait_for<T>(&self, look: impl Fn() -> Option<T>) -> Option<T> {
        let mut over = lock(&self.over);
        while !*over {
            let found = look();
            if found.is_some() {
                return found;
            }
            over = self.changed.wait(over).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// How the job ended.
    pub(crate) fn outcome(&self) -> Result<()> {
        self.signals.take_failure().map_or(Ok(()), Err)
    }
}
