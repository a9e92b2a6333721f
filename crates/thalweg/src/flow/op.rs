//! An operator's identity, and the signals of its job.

use super::{Depth, Epoch, WeakWaker, catch, discard};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering, lock};
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// An operator of a running job: its number in the plan, its name, and a handle to fail the job.
#[derive(Clone)]
pub(crate) struct Op(Arc<Inner>);

struct Inner {
    id: usize,
    name: Arc<str>,
    /// How many loops it is nested in.
    depth: Depth,
    signals: Arc<Signals>,
}

impl Op {
    pub(crate) fn new(id: usize, name: Arc<str>, depth: Depth, signals: Arc<Signals>) -> Self {
        Self(Arc::new(Inner { id, name, depth, signals }))
    }

    /// The operator's number in the plan.
    pub(crate) fn id(&self) -> usize {
        self.0.id
    }

    /// The operator's name, as in messages and plans.
    pub(crate) fn name(&self) -> Arc<str> {
        Arc::clone(&self.0.name)
    }

    /// How many loops the operator is nested in.
    pub(crate) fn depth(&self) -> Depth {
        self.0.depth
    }

    /// Ends the job with this error. Only the first failure of a job counts.
    #[cold]
    pub(crate) fn fail(&self, error: Error) {
        self.0.signals.fail(error.in_operator(&*self.0.name));
    }

    /// The signals of the job.
    pub(crate) fn signals(&self) -> &Arc<Signals> {
        &self.0.signals
    }
}

/// The state of a job that every task checks between batches.
///
/// How the job ends is decided once, under one lock: by the first failure (a cancellation is one too), or by the last
/// task that ends. Outputs become visible only after that decision, so a job that is cancelled publishes none of
/// them, and one that publishes can no longer be cancelled, but for what it waits for outside in vain ([`Signals::is_cancelled`]).
#[derive(Default)]
pub(crate) struct Signals {
    stopped: AtomicBool,
    /// Whether nothing outside is waited for any more: the job has failed, or is cancelled, also while its outputs are published.
    cancelled: AtomicBool,
    draining: AtomicBool,
    /// The last barrier that sources are to send.
    epoch: AtomicU64,
    /// The barrier behind which sources read nothing more, because the job is suspended there; 0 if there is none.
    last_barrier: AtomicU64,
    /// The last barrier that may overtake the batches on their way; earlier ones may too. 0 if none may.
    overtaking: AtomicU64,
    /// The last barrier that is known to have left all tasks of all hosts.
    all_passed: AtomicU64,
    /// Whether checkpoints are taken by themselves, and none is known to be impossible for now.
    has_checkpoints: AtomicBool,
    /// Whether an operator waits for a checkpoint that is not on its way.
    wants_checkpoint: AtomicBool,
    /// The barriers that did not pass a loop between two rounds, each with the operator that it came to within one.
    torn: Mutex<BTreeMap<Epoch, Arc<str>>>,
    /// The tasks that let barriers through once they are torn.
    let_through: Mutex<Vec<WeakWaker>>,
    ending: Mutex<Ending>,
    /// The job's outputs, to be published once every task has ended well.
    outputs: Mutex<Vec<Prepare>>,
    /// The outputs that are prepared, until it is decided how the job ends.
    prepared: Mutex<Vec<Publish>>,
    /// What is to be done when all tasks are made, and the job is not refused.
    when_made: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
    /// The files and directories that the job writes, each with the name of the operator that writes it.
    targets: Mutex<BTreeMap<PathBuf, Arc<str>>>,
    /// The other hosts of the job, which decide with this one how it ends.
    others: OnceLock<Arc<dyn Others>>,
    /// Called at the end of a job with checkpoints.
    at_end: OnceLock<Arc<dyn AtEnd>>,
}

impl std::fmt::Debug for Signals {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signals").finish_non_exhaustive()
    }
}

/// Saves where a job has come to when all of its tasks have ended, so that it can still give files their names if it is
/// interrupted then. One that is drained may have more input: the next run of it is to read nothing of that, since operators
/// have given results of what came before as if it were all.
pub(crate) trait AtEnd: Send + Sync {
    /// On another host than the first, all tasks of this host have ended: returns what the first host gets to know; `None` if
    /// nothing can be saved. What fails may be tried again for a while, until the job is over.
    ///
    /// # Errors
    ///
    /// If it could be saved and was not stored.
    fn ended_here(&self, job: &Signals) -> Result<Option<Vec<u8>>>;

    /// On another host than the first, whose tasks have all ended before: stores once more what they have saved at their end, as it
    /// is now. Returns what the first host gets to know in the place of what it has; `None` if it keeps that.
    fn ended_before(&self, job: &Signals) -> Option<Vec<u8>>;

    /// On the first host, the tasks of all hosts have ended, and no file has got its name. `reports` are those of the other
    /// hosts, or why one of them has none. What fails may be tried again for a while, until the job is over.
    ///
    /// # Errors
    ///
    /// If it could be saved and was not stored: nothing may be published then, since the next run would publish it again.
    fn before_publishing(&self, reports: Result<Vec<Vec<u8>>>, job: &Signals) -> Result<()>;

    /// On the first host, before it decides that the job ends well: whether the job may publish its outputs. It may not if another
    /// run of it has begun.
    fn may_publish(&self) -> Result<()>;
}

/// The other hosts of a job.
pub(crate) trait Others: Send + Sync {
    /// Something has failed on this host. The host that decides gets the error, and decides for it unless it has
    /// decided before.
    fn failed(&self, error: Error);

    /// Sources of the other hosts should end too.
    fn drain(&self);

    /// An operator of this host waits for a checkpoint.
    fn want_checkpoint(&self);

    /// A barrier has come to an operator of this host within a round of a loop.
    fn torn(&self, epoch: Epoch, operator: Arc<str>);
}

/// How a job ends.
#[derive(Default)]
enum Ending {
    #[default]
    Undecided,
    Failed(Error),
    Done,
}

/// Does all work of an output that can fail or that runs the program's code, and returns the rest.
type Prepare = Box<dyn FnOnce() -> Result<Publish> + Send>;

/// Makes one prepared output of a job visible.
pub(crate) enum Publish {
    /// Hands a result to the program, which cannot fail.
    Result(Box<dyn FnOnce() + Send>),
    /// Renames a file to its final name. That can fail even after it was prepared, so the name is kept for the error
    /// message.
    File {
        /// The final name of the file, as in messages.
        name: String,
        /// Renames the file.
        rename: Box<dyn FnOnce() -> Result<()> + Send>,
    },
}

impl Signals {
    /// Records a failure and stops the job, unless its end has been decided already.
    pub(crate) fn fail(&self, error: Error) {
        match self.others.get() {
            None => self.decide(Err(error)),
            Some(others) if !self.stopped.swap(true, Ordering::AcqRel) => others.failed(error),
            Some(_) => discard([error]),
        }
    }

    /// Decides how the job ends, unless that has been decided already.
    pub(crate) fn decide(&self, outcome: Result<()>) {
        let mut ending = lock(&self.ending);
        match (&*ending, outcome) {
            (Ending::Undecided, Ok(())) => *ending = Ending::Done,
            (Ending::Undecided, Err(error)) => {
                // What a job commits that is suspended counts.
                if error.kind() != ErrorKind::Suspended {
                    self.cancel();
                }
                *ending = Ending::Failed(error);
                self.stopped.store(true, Ordering::Release);
            }
            (_, outcome) => {
                drop(ending);
                discard(outcome.err());
            }
        }
    }

    /// Joins the other hosts of the job.
    pub(crate) fn join(&self, others: Arc<dyn Others>) {
        let _ = self.others.set(others);
    }

    /// Requests tasks to stop at once. How the job ends is decided elsewhere.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
    }

    /// Notes that the job was cancelled, however it ends, or has failed.
    pub(crate) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Release);
    }

    /// Whether what waits for a system outside should give up.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Acquire)
    }

    /// Whether tasks should stop at once.
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Requests sources to end as if their input had ended.
    pub(crate) fn drain(&self) {
        self.drain_here();
        if let Some(others) = self.others.get() {
            others.drain();
        }
    }

    /// As [`drain`](Self::drain), for the sources of this host.
    pub(crate) fn drain_here(&self) {
        self.draining.store(true, Ordering::Release);
    }

    /// Sets whether an operator may wait for a checkpoint.
    pub(crate) fn set_has_checkpoints(&self, has: bool) {
        self.has_checkpoints.store(has, Ordering::Release);
    }

    /// Whether an operator may wait for a checkpoint: one will come, if it is requested.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.has_checkpoints.load(Ordering::Acquire)
    }

    /// Requests a checkpoint before its time.
    pub(crate) fn want_checkpoint(&self) {
        if !self.wants_checkpoint.swap(true, Ordering::AcqRel)
            && let Some(others) = self.others.get()
        {
            others.want_checkpoint();
        }
    }

    /// As [`want_checkpoint`](Self::want_checkpoint), on the host that takes it.
    pub(crate) fn want_checkpoint_here(&self) {
        self.wants_checkpoint.store(true, Ordering::Release);
    }

    /// Whether one was requested since the last barrier.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.wants_checkpoint.load(Ordering::Acquire)
    }

    /// Whether sources should end.
    pub(crate) fn draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// Requests the sources of this host to send one more barrier, and to read nothing behind it if it is the last one;
    /// returns its number.
    pub(crate) fn number_barrier(&self, is_last: bool) -> Epoch {
        self.wants_checkpoint.store(false, Ordering::Release);
        let next = |epoch: u64| {
            // Before the number can be seen: a source that sends the barrier must know that it is the last one.
            if is_last {
                self.last_barrier.store(epoch + 1, Ordering::Release);
            }
            Some(epoch + 1)
        };
        let numbered = self.epoch.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        Epoch(numbered.unwrap_or_default() + 1)
    }

    /// Requests the sources of this host to send this barrier, which the first host has numbered, and to read nothing behind
    /// it if it is the last one.
    pub(crate) fn barrier_asked(&self, Epoch(epoch): Epoch, is_last: bool) {
        // The host that has numbered it may have been asked for another one since.
        if epoch > self.epoch().0 {
            self.wants_checkpoint.store(false, Ordering::Release);
        }
        if is_last {
            self.last_barrier.store(epoch, Ordering::Release);
        }
        self.epoch.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Whether a source that has sent this barrier is to read nothing more.
    pub(crate) fn is_last_barrier(&self, Epoch(epoch): Epoch) -> bool {
        let last = self.last_barrier.load(Ordering::Acquire);
        last > 0 && epoch >= last
    }

    /// Lets a barrier overtake the batches on their way to the tasks of this host.
    pub(crate) fn overtake(&self, Epoch(epoch): Epoch) {
        self.overtaking.fetch_max(epoch, Ordering::AcqRel);
    }

    /// The last barrier that may overtake batches.
    pub(crate) fn overtaking(&self) -> Epoch {
        Epoch(self.overtaking.load(Ordering::Acquire))
    }

    /// Notes that a barrier has left all tasks of all hosts.
    pub(crate) fn all_passed(&self, Epoch(epoch): Epoch) {
        self.all_passed.fetch_max(epoch, Ordering::AcqRel);
    }

    /// Whether a barrier that may overtake batches is still in some task.
    pub(crate) fn overtakes(&self) -> bool {
        self.overtaking() > Epoch(self.all_passed.load(Ordering::Acquire))
    }

    /// The last barrier that sources are to send.
    pub(crate) fn epoch(&self) -> Epoch {
        Epoch(self.epoch.load(Ordering::Acquire))
    }

    /// A barrier has come to this operator within a round of a loop: nothing can go on from there.
    #[cold]
    pub(crate) fn tear(&self, epoch: Epoch, operator: Arc<str>) {
        self.tear_here(epoch, Arc::clone(&operator));
        if let Some(others) = self.others.get() {
            others.torn(epoch, operator);
        }
    }

    /// As [`tear`](Self::tear), of an operator of any host.
    pub(crate) fn tear_here(&self, epoch: Epoch, operator: Arc<str>) {
        lock(&self.torn).entry(epoch).or_insert(operator);
        lock(&self.let_through).iter().for_each(WeakWaker::wake);
    }

    /// Wakes this task of this host whenever a barrier is torn on any host.
    pub(crate) fn wake_when_torn(&self, task: WeakWaker) {
        lock(&self.let_through).push(task);
    }

    /// Whether a barrier is known to be torn, so that there is no checkpoint at it. Barriers that have left all tasks are
    /// forgotten.
    pub(crate) fn is_torn(&self, epoch: Epoch) -> bool {
        lock(&self.torn).contains_key(&epoch)
    }

    /// Whether nothing follows a barrier, and a job cannot go on from there: it never leaves all tasks.
    pub(crate) fn is_torn_at_last(&self, epoch: Epoch) -> bool {
        self.is_last_barrier(epoch) && self.is_torn(epoch)
    }

    /// The operator to which a barrier has come within a round of a loop, if there is one. What is known of earlier barriers
    /// is dropped.
    pub(crate) fn torn(&self, epoch: Epoch) -> Option<Arc<str>> {
        let mut torn = lock(&self.torn);
        *torn = torn.split_off(&epoch);
        torn.remove(&epoch)
    }

    /// Adds an output. It is prepared and published once every task has ended without failure, and dropped otherwise.
    pub(crate) fn on_success(&self, prepare: impl FnOnce() -> Result<Publish> + Send + 'static) {
        lock(&self.outputs).push(Box::new(prepare));
    }

    /// Adds what is to be done once all tasks of this host are made and the checkpoint fits them, before any of them runs: what a
    /// checkpoint may need is not thrown away for a program that is refused.
    pub(crate) fn when_made(&self, then: impl FnOnce() + Send + 'static) {
        lock(&self.when_made).push(Box::new(then));
    }

    /// All tasks of this host are made.
    pub(crate) fn made(&self) {
        let all = std::mem::take(&mut *lock(&self.when_made));
        all.into_iter().for_each(|then| then());
    }

    /// Registers that an operator writes this file or directory, given as an absolute path without links. Returns the
    /// name of the operator that has registered it before, if any.
    pub(crate) fn claim(&self, target: &Path, operator: Arc<str>) -> Option<Arc<str>> {
        match lock(&self.targets).entry(target.to_owned()) {
            Entry::Occupied(there) => Some(Arc::clone(there.get())),
            Entry::Vacant(free) => {
                free.insert(operator);
                None
            }
        }
    }

    /// Called when every task has ended: prepares all outputs, decides how the job ends, and publishes the outputs if
    /// there was no failure.
    pub(crate) fn finish(&self) {
        self.prepare();
        let saved = match !self.stopped() && self.has_files() {
            true => self.save_end(Ok(Vec::new())),
            false => Ok(()),
        };
        self.decide(saved.and_then(|()| self.may_publish()));
        let published = self.publish_files();
        self.conclude(published);
    }

    /// Sets what is called at the end of the job.
    pub(crate) fn at_end(&self, call: Arc<dyn AtEnd>) {
        let _ = self.at_end.set(call);
    }

    /// As [`AtEnd::ended_here`].
    pub(crate) fn report_end(&self) -> Result<Option<Vec<u8>>> {
        let Some(call) = self.at_end.get() else { return Ok(None) };
        catch(|| call.ended_here(self)).and_then(|report| report)
    }

    /// As [`AtEnd::ended_before`].
    pub(crate) fn report_end_again(&self) -> Option<Vec<u8>> {
        let call = self.at_end.get()?;
        catch(|| call.ended_before(self)).unwrap_or_else(|panic| {
            self.fail(panic);
            None
        })
    }

    /// As [`AtEnd::before_publishing`].
    pub(crate) fn save_end(&self, reports: Result<Vec<Vec<u8>>>) -> Result<()> {
        let Some(call) = self.at_end.get() else { return Ok(()) };
        catch(|| call.before_publishing(reports, self)).and_then(|saved| saved)
    }

    /// As [`AtEnd::may_publish`].
    pub(crate) fn may_publish(&self) -> Result<()> {
        self.at_end.get().map_or(Ok(()), |call| catch(|| call.may_publish()).and_then(|may| may))
    }

    /// Called when every task of this host has ended: does all work of the outputs that can fail.
    pub(crate) fn prepare(&self) {
        let outputs = std::mem::take(&mut *lock(&self.outputs));
        let mut prepared = Vec::with_capacity(outputs.len());
        for prepare in outputs {
            if self.stopped() {
                discard([prepare]);
                continue;
            }
            match catch(prepare).and_then(|prepared| prepared) {
                Ok(publish) => prepared.push(publish),
                Err(error) => self.fail(error),
            }
        }
        *lock(&self.prepared) = prepared;
    }

    /// Whether files are prepared on this host.
    pub(crate) fn has_files(&self) -> bool {
        lock(&self.prepared).iter().any(|output| matches!(output, Publish::File { .. }))
    }

    /// Called when it is decided that the job ends well: gives the prepared files their names.
    pub(crate) fn publish_files(&self) -> Result<()> {
        if !self.is_done() {
            return Ok(());
        }
        let prepared = std::mem::take(&mut *lock(&self.prepared));
        let (files, results): (Vec<_>, Vec<_>) =
            prepared.into_iter().partition(|output| matches!(output, Publish::File { .. }));
        let published = publish_files(files, !results.is_empty());
        *lock(&self.prepared) = results;
        published
    }

    /// Called when it is decided how the job ends, and whether its files have got their names: hands over the results
    /// of a job that ends well.
    pub(crate) fn conclude(&self, published: Result<()>) {
        let prepared = std::mem::take(&mut *lock(&self.prepared));
        if !self.is_done() {
            discard(prepared);
            return;
        }
        let concluded = match published {
            Ok(()) => hand_over(prepared),
            Err(error) => {
                discard(prepared);
                Err(error)
            }
        };
        if let Err(error) = concluded {
            *lock(&self.ending) = Ending::Failed(error);
        }
    }

    /// Whether the job has ended well.
    pub(crate) fn is_done(&self) -> bool {
        matches!(*lock(&self.ending), Ending::Done)
    }

    /// The failure with which it is decided that the job ends, as another host would get it.
    pub(crate) fn failure(&self) -> Option<Error> {
        match &*lock(&self.ending) {
            Ending::Failed(error) => Some(error.for_others()),
            Ending::Undecided | Ending::Done => None,
        }
    }

    /// Takes the failure that the job ended with.
    pub(crate) fn take_failure(&self) -> Option<Error> {
        match std::mem::replace(&mut *lock(&self.ending), Ending::Done) {
            Ending::Failed(error) => Some(error),
            Ending::Undecided | Ending::Done => None,
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // This may run on any thread, and errors and outputs may carry values of the program's, whose destructors may
        // panic.
        discard(self.take_failure());
        discard(std::mem::take(&mut *lock(&self.outputs)));
        discard(std::mem::take(&mut *lock(&self.prepared)));
    }
}

/// Gives files their names: before results are handed over, since only this can fail. After the first failure nothing
/// more is published, and the error lists what was.
fn publish_files(outputs: Vec<Publish>, has_results: bool) -> Result<()> {
    let mut published = Vec::new();
    let mut files = outputs.into_iter().filter_map(|output| match output {
        Publish::File { name, rename } => Some((name, rename)),
        Publish::Result(_) => None,
    });
    while let Some((name, rename)) = files.next() {
        if let Err(error) = catch(rename).and_then(|renamed| renamed) {
            let missing: Vec<String> =
                std::iter::once(name).chain(files.map(|(name, _)| name)).collect();
            let list = |names: &[String]| match names {
                [] => "nothing".to_owned(),
                names => names.join(", "),
            };
            let also = if has_results { " and the results for the program" } else { "" };
            return Err(error.with(&format!(
                "published: {}; not published: {}{also}",
                list(&published),
                list(&missing)
            )));
        }
        published.push(name);
    }
    Ok(())
}

/// Hands results to the program.
fn hand_over(outputs: Vec<Publish>) -> Result<()> {
    let results = outputs.into_iter().filter_map(|output| match output {
        Publish::Result(publish) => Some(publish),
        Publish::File { .. } => None,
    });
    // A result whose handle the program has dropped is dropped here, and its destructor may panic.
    results.map(catch).fold(Ok(()), Result::and)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::flow::{Wake, Waker};
    use std::sync::atomic::AtomicUsize;

    fn file(name: &str, works: bool, seen: &Arc<Mutex<Vec<String>>>) -> Publish {
        let (shown, seen) = (name.to_owned(), Arc::clone(seen));
        let rename = move || {
            if !works {
                return Err(Error::new(ErrorKind::Io, "no"));
            }
            lock(&seen).push(shown);
            Ok(())
        };
        Publish::File { name: name.to_owned(), rename: Box::new(rename) }
    }

    fn result(seen: &Arc<Mutex<Vec<String>>>) -> Publish {
        let seen = Arc::clone(seen);
        Publish::Result(Box::new(move || lock(&seen).push("result".to_owned())))
    }

    #[test]
    fn nothing_is_published_before_all_is_prepared() {
        let (signals, seen) = (Signals::default(), Arc::default());
        let (first, second) = (file("a", true, &seen), result(&seen));
        signals.on_success(move || Ok(first));
        signals.on_success(move || Ok(second));
        signals.on_success(|| Err(Error::new(ErrorKind::Io, "the disk is full")));
        signals.finish();
        assert_eq!(signals.take_failure().unwrap().message(), "the disk is full");
        assert!(lock(&seen).is_empty());
    }

    /// Saves the end of a job, or cannot.
    struct Saves(fn() -> Result<()>);

    impl AtEnd for Saves {
        fn ended_here(&self, _: &Signals) -> Result<Option<Vec<u8>>> {
            (self.0)().map(|()| None)
        }

        fn ended_before(&self, _: &Signals) -> Option<Vec<u8>> {
            None
        }

        fn before_publishing(&self, _: Result<Vec<Vec<u8>>>, _: &Signals) -> Result<()> {
            (self.0)()
        }

        fn may_publish(&self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn nothing_is_published_of_a_job_whose_end_could_not_be_saved() {
        let ended = |save: fn() -> Result<()>| {
            let (signals, seen) = (Signals::default(), Arc::default());
            signals.at_end(Arc::new(Saves(save)));
            let outputs = [file("a", true, &seen), result(&seen)];
            for output in outputs {
                signals.on_success(move || Ok(output));
            }
            signals.finish();
            let kind = signals.take_failure().map(|error| error.kind());
            (kind, lock(&seen).len(), signals.report_end().is_ok())
        };
        assert_eq!(ended(|| Ok(())), (None, 2, true));
        let full = ended(|| Err(Error::new(ErrorKind::Io, "the disk is full")));
        assert_eq!(full, (Some(ErrorKind::Io), 0, false));
        assert_eq!(ended(|| panic!("a bug")), (Some(ErrorKind::Panic), 0, false));
    }

    #[test]
    fn a_panic_in_preparation_fails_the_job() {
        let (signals, seen) = (Signals::default(), Arc::default());
        let first = result(&seen);
        signals.on_success(move || Ok(first));
        signals.on_success(|| panic!("cannot be built"));
        signals.finish();
        assert_eq!(signals.take_failure().unwrap().kind(), ErrorKind::Panic);
        assert!(lock(&seen).is_empty());
    }

    /// Counts its wake-ups.
    #[derive(Default)]
    struct Woken(AtomicU64);

    impl Wake for Woken {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_torn_barrier_wakes_tasks_and_is_known_until_it_has_left_all() {
        let (signals, waker, woken) =
            (Signals::default(), Waker::default(), Arc::new(Woken::default()));
        waker.set(Arc::clone(&woken) as _);
        signals.wake_when_torn(waker.downgrade());
        signals.tear(Epoch(2), "merge".into());
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert_eq!([1, 2, 3].map(|epoch| signals.is_torn(Epoch(epoch))), [false, true, false]);
        assert_eq!(signals.torn(Epoch(2)).as_deref(), Some("merge"));
        assert!(!signals.is_torn(Epoch(2)));
    }

    #[test]
    fn a_checkpoint_that_is_wanted_behind_a_barrier_stays_wanted_when_the_barrier_comes() {
        let first = Signals::default();
        first.want_checkpoint_here();
        let barrier = first.number_barrier(false);
        assert!(!first.wants_checkpoint());
        // Another host has heard of the barrier first, and one of its operators wants the next checkpoint.
        first.want_checkpoint_here();
        first.barrier_asked(barrier, false);
        assert!(first.wants_checkpoint());
        let other = Signals::default();
        other.want_checkpoint();
        other.barrier_asked(barrier, false);
        assert!(!other.wants_checkpoint());
        assert_eq!(other.epoch(), barrier);
    }

    #[test]
    fn a_failed_rename_says_what_was_published() {
        let (signals, seen) = (Signals::default(), Arc::default());
        let outputs = [
            result(&seen),
            file("a", true, &seen),
            file("b", false, &seen),
            file("c", true, &seen),
        ];
        for output in outputs {
            signals.on_success(move || Ok(output));
        }
        signals.finish();
        let error = signals.take_failure().unwrap();
        let message = "no (published: a; not published: b, c and the results for the program)";
        assert_eq!(error.to_string(), message);
        assert_eq!(*lock(&seen), ["a"]);
    }

    #[test]
    fn a_cancellation_comes_before_the_decision_or_has_no_effect() {
        let cancelled = || Error::new(ErrorKind::Cancelled, "cancelled");
        // Cancelled while the last output is prepared: before the decision.
        let (signals, seen) = (Arc::new(Signals::default()), Arc::default());
        let (output, cancelling) = (result(&seen), Arc::clone(&signals));
        signals.on_success(move || {
            cancelling.fail(cancelled());
            Ok(output)
        });
        signals.finish();
        assert_eq!(signals.take_failure().unwrap().kind(), ErrorKind::Cancelled);
        assert!(lock(&seen).is_empty());

        // Cancelled while the first of two outputs is published: after the decision.
        let (signals, seen) = (Arc::new(Signals::default()), Arc::default());
        let (last, cancelling) = (result(&seen), Arc::clone(&signals));
        let published = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&published);
        let first = Publish::Result(Box::new(move || {
            cancelling.fail(cancelled());
            count.fetch_add(1, Ordering::Relaxed);
        }));
        signals.on_success(move || Ok(first));
        signals.on_success(move || Ok(last));
        signals.finish();
        assert!(signals.take_failure().is_none());
        assert_eq!((published.load(Ordering::Relaxed), lock(&seen).len()), (1, 1));
    }
}
