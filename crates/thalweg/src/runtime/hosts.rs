//! What the hosts of a job agree on: that it is the same job, how it ends, its barriers, what is saved at them, and whether
//! it is drained or suspended.
//!
//! No task runs before all hosts have described the job to the first one, and it is the same: see [`Description`]. A job
//! that fails before that starts its tasks too, which end at once. A job with checkpoints is described twice more before its
//! tasks are made, so that no host commits or removes anything for another checkpoint than the first one goes on from: with the
//! first answer the others get to know which that is, and with the second, that all hosts have read it.
//!
//! The first host decides how a job ends: well, when every host has reported that all of its tasks have ended and its
//! outputs are prepared; or by the first failure that is reported. So all hosts return the same outcome, and none
//! publishes an output of a job that fails on another. With checkpoints, it stores the last one before it decides, and a job whose
//! last one could not be stored fails.
//!
//! It also numbers the barriers, so that those which several hosts request at the same time differ. A host that has
//! requested a barrier learns its number with the order to send it. A job that is suspended gets a last barrier, behind which
//! no source of any host reads. The first host learns of a barrier that comes to an operator of any host within a round of a
//! loop: it may be the last one, which then never leaves all tasks.
//!
//! In a job with checkpoints, the first host asks the others to save what their tasks have saved at a barrier that has left
//! all tasks. What they answer is of the module that stores it; `None` is from a host that is drained. When the checkpoint counts,
//! each host commits what its tasks have prepared. Where a job is suspended with it, or a savepoint is a copy of it, each host says when
//! it has: before that, the first host does not end the job, or answer the request for the savepoint.
//!
//! A host whose tasks have ended may store what they have saved at their end once more while others go on, and reports again that it is
//! prepared. What it has reported last counts. The first host lets it know what that has replaced, and only then is it removed: while
//! the job's end is decided, with what was reported until then, nothing is replaced any more.
//!
//! Where a host has files to publish, a job that ends well is over when all hosts have published theirs: what runs next
//! finds them, on whatever host it looks. With the decision, every host gets what the tasks of all hosts have counted.

use super::counts::TaskCounts;
use super::description::{DescribedPart, Description, difference};
use super::job::{Job, Requested};
use crate::checkpoint::{Counted, RestorePoint, StateId};
use crate::data::{Data, DecodeError, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Epoch, Others, Signals};
use crate::metrics::ClockOffset;
use crate::net::{HostId, Link, Links, Offset, Part, Receive};
use crate::sync::{Mutex, lock};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The hosts of a job, as one of them sees it.
pub(crate) struct JobHosts {
    job: Weak<Job>,
    me: HostId,
    /// The other hosts, in order.
    others: Vec<Link>,
    state: Mutex<State>,
    /// On another host: what it has reported when its tasks had ended. Locked while it stores what these have saved and reports it, so
    /// that what is stored later is reported later.
    reported: Mutex<Option<Prepared>>,
}

/// What a host answers that was asked to save: what the first host has to know of it; `None` if it is drained, and at its end if
/// nothing can be saved.
pub(crate) type Answer = Result<Option<Vec<u8>>>;

#[derive(Default)]
struct State {
    /// The job, as this host describes it.
    description: Option<Description>,
    /// Starts the tasks of this host, once they are made.
    start: Option<Box<dyn FnOnce() + Send>>,
    /// All hosts have described the same job, and the first has sent this.
    agreed: Option<Option<RestorePoint>>,
    /// On the first host: the fingerprint of the job on each host that has described it.
    fingerprints: BTreeMap<HostId, u128>,
    /// On the first host: the hosts that are prepared, and what they have reported and saved.
    prepared: BTreeMap<HostId, (Prepared, Answer)>,
    decided: bool,
    /// On the first host: the number of hosts that have published their files, or failed to.
    published: usize,
    /// The first error of publishing.
    unpublished: Option<Error>,
    /// The clocks of the other hosts as the first one has estimated them, if the job ends well.
    clocks: Option<Vec<ClockOffset>>,
    /// What the tasks of each host have counted, if the job ends well.
    counted: Option<Vec<Vec<TaskCounts>>>,
    /// The last barrier that has left every task of each other host.
    passed: Vec<Epoch>,
    /// How many barriers this host has requested.
    requests: u64,
    /// Those that have no number yet.
    requested: BTreeMap<u64, Requested>,
    /// On the first host: the barrier at which the others are to save, and what those have answered that have.
    saving: Epoch,
    saved: BTreeMap<HostId, Answer>,
    /// On the first host: the barrier of the last checkpoint of which each host has said that it has committed what that has.
    committed: BTreeMap<HostId, Epoch>,
    /// On another host: what it is to do for checkpoints.
    orders: VecDeque<SaveOrder>,
}

/// What the first host orders the others to do for a checkpoint.
pub(crate) enum SaveOrder {
    /// A barrier has left all tasks: save what they have saved at it.
    Save(ToSave),
    /// The checkpoint of this barrier counts. Where that is awaited, the host says when it has committed what the checkpoint has.
    Counts { epoch: Epoch, is_awaited: bool, counted: Counted },
    /// The last checkpoint that was to be taken does not count.
    Fails(Failed),
    /// What the host has reported of its end is replaced by what it has reported since: that was it.
    Replaced(Vec<u8>),
}

/// What the other hosts get to know of a checkpoint that could not be taken.
#[derive(Clone, Data)]
pub(crate) struct Failed {
    /// Whether it may be there all the same, with their parts.
    pub(crate) may_be_there: bool,
    /// Whether the job is such that none can be taken, for now.
    pub(crate) by_plan: bool,
    pub(crate) why: String,
}

/// A barrier at which a host is to save, and the states that are not needed there, as the first host knows.
pub(crate) struct ToSave {
    pub(crate) epoch: Epoch,
    pub(crate) superseded: BTreeSet<StateId>,
}

/// A message from one host to another about a job.
enum JobMessage {
    /// A host has described the job, with this fingerprint.
    Described(u128),
    /// All hosts have described the same job. With it comes the first host's [`Description::point`].
    Same(Option<RestorePoint>),
    /// The parts of the job on the first host, for a host that has described another one.
    Differs(Vec<DescribedPart>),
    Failed(Error),
    /// A host is prepared, and has saved its part of the last checkpoint, or could not.
    Prepared(Prepared, Answer),
    Decided(Result<Prepared>),
    /// A host has given its files their names, or could not.
    Published(Result<()>),
    /// All hosts have, or one could not.
    Over(Result<()>),
    Drain,
    /// An operator of a host waits for a checkpoint.
    WantsCheckpoint,
    /// A barrier has come to this operator of a host within a round of a loop: there is no checkpoint.
    Torn(Epoch, Arc<str>),
    /// A host requests that the job be suspended, and says why.
    Suspend(String),
    /// A host requests a barrier. It numbers its requests.
    BarrierRequest(BarrierRequest),
    /// All sources are to send this barrier, which a host has requested.
    Barrier(Epoch, HostId, BarrierRequest),
    Passed(Epoch),
    /// What a host is to do for a checkpoint.
    Order(SaveOrder),
    /// A host has saved, or could not.
    Saved(Epoch, Answer),
    /// A host has committed what the checkpoint of this barrier has.
    Committed(Epoch),
}

#[derive(Clone, Copy, Data)]
struct BarrierRequest {
    number: u64,
    /// Whether the sources are to read nothing behind the barrier.
    is_last: bool,
}

/// What a host has prepared when all of its tasks have ended; or all hosts together.
#[derive(Clone, Data)]
struct Prepared {
    /// Whether there are files to publish.
    files: bool,
    /// What the tasks have counted, by host.
    counted: Vec<Vec<TaskCounts>>,
    /// The clocks of the other hosts, as the first one has estimated them.
    clocks: Vec<ClockOffset>,
}

/// What the other hosts have saved at their end, of which these are the answers; `None` if one of them can save nothing, so that
/// there is no last checkpoint however the others have fared.
fn all_saved(answers: Vec<Answer>) -> Option<Result<Vec<Vec<u8>>>> {
    let can_all = !answers.iter().any(|answer| matches!(answer, Ok(None)));
    can_all.then(|| answers.into_iter().filter_map(Answer::transpose).collect())
}

impl JobHosts {
    /// The hosts of `job`.
    pub(super) fn new(job: &Weak<Job>, links: &Links) -> Arc<Self> {
        let others = links.to_others(Part::Job);
        let state = State { passed: vec![Epoch::default(); others.len()], ..State::default() };
        Arc::new(Self {
            job: Weak::clone(job),
            me: links.hosts().me(),
            others,
            state: Mutex::new(state),
            reported: Mutex::default(),
        })
    }

    fn send(&self, host: HostId, message: &JobMessage) {
        if let Some(link) = self.others.iter().find(|link| link.to() == host) {
            link.send(message.encoded());
        }
    }

    fn send_all(&self, message: &JobMessage) {
        let frame = message.encoded();
        self.others.iter().for_each(|link| link.send(frame.clone()));
    }

    /// This host has described the job. Its tasks are started when all hosts have described the same one, if they are made.
    pub(super) fn described(
        &self,
        description: Description,
        start: Option<Box<dyn FnOnce() + Send>>,
    ) {
        let fingerprint = description.fingerprint;
        let mut state = lock(&self.state);
        (state.description, state.start, state.agreed) = (Some(description), start, None);
        let decided = state.decided;
        drop(state);
        if decided {
            self.start();
        } else {
            self.take(self.me, JobMessage::Described(fingerprint));
        }
    }

    /// Starts the tasks of this host, if that has not been done.
    fn start(&self) {
        let start = lock(&self.state).start.take();
        if let Some(start) = start {
            start();
        }
    }

    /// What the first host has sent when all hosts had described the same job; `None` as long as they have not.
    ///
    /// # Errors
    ///
    /// If it is decided that the job fails.
    pub(super) fn agreed(&self) -> Option<Result<Option<RestorePoint>>> {
        let mut state = lock(&self.state);
        if state.decided {
            return Some(Err(Error::new(ErrorKind::Internal, "the job has failed")));
        }
        state.agreed.take().map(Ok)
    }

    /// On the first host: all hosts have described the job.
    fn compare(&self, fingerprints: &BTreeMap<HostId, u128>) {
        let own = fingerprints.get(&self.me);
        match fingerprints.iter().find(|(_, other)| Some(*other) != own) {
            None => match self.may_go_on() {
                Ok(point) => {
                    let same = JobMessage::Same(point);
                    self.send_all(&same);
                    self.take(self.me, same);
                }
                Err(error) => self.take(self.me, JobMessage::Failed(error)),
            },
            Some((host, _)) => self.send(*host, &JobMessage::Differs(self.parts())),
        }
    }

    /// The parts of the job, as this host describes it.
    fn parts(&self) -> Vec<DescribedPart> {
        lock(&self.state).description.as_ref().map(|job| (job.parts)()).unwrap_or_default()
    }

    /// Fails because the job of the first host has other parts.
    fn differs(&self, first: &[DescribedPart]) {
        let (me, own) = (self.me.0, self.parts());
        let differs = difference(("host 0", first), (&format!("host {me}"), &own));
        let what = format!(
            "hosts 0 and {me} have described different jobs: {differs}; do all have the same arguments and settings?"
        );
        self.take(self.me, JobMessage::Failed(Error::new(ErrorKind::Plan, what)));
    }

    /// All tasks of this host have ended, and its outputs are prepared.
    pub(super) fn prepared(&self, files: bool, counted: Vec<TaskCounts>, signals: &Signals) {
        let prepared = Prepared { files, counted: vec![counted], clocks: Vec::new() };
        if self.me == HostId::FIRST {
            return self.take(self.me, JobMessage::Prepared(prepared, Ok(None)));
        }
        let mut reported = lock(&self.reported);
        let saved = signals.report_end();
        *reported = Some(prepared.clone());
        self.take(self.me, JobMessage::Prepared(prepared, saved));
    }

    /// On another host: reports its end once more, as it is stored now. If it has not ended, it is stored later in any case.
    pub(super) fn prepared_again(&self, signals: &Signals) {
        let reported = lock(&self.reported);
        if let Some(prepared) = &*reported
            && let Some(saved) = signals.report_end_again()
        {
            self.take(self.me, JobMessage::Prepared(prepared.clone(), Ok(Some(saved))));
        }
    }

    /// On the first host: asks the others to save what their tasks have saved at a barrier.
    pub(super) fn ask_to_save(&self, epoch: Epoch, superseded: BTreeSet<StateId>) {
        let mut state = lock(&self.state);
        state.saving = epoch;
        state.saved.clear();
        drop(state);
        self.send_all(&JobMessage::Order(SaveOrder::Save(ToSave { epoch, superseded })));
    }

    /// On the first host: what the others have answered, in their order, if all have.
    pub(super) fn saved(&self) -> Option<Vec<Answer>> {
        let mut state = lock(&self.state);
        let all = state.saved.len() == self.others.len();
        all.then(|| std::mem::take(&mut state.saved).into_values().collect())
    }

    /// On the first host: a checkpoint counts. The others say when they have committed what it has, if that is awaited.
    pub(super) fn counts(&self, epoch: Epoch, is_awaited: bool, counted: Counted) {
        self.send_all(&JobMessage::Order(SaveOrder::Counts { epoch, is_awaited, counted }));
    }

    /// On the first host: a checkpoint could not be taken.
    pub(super) fn fails(&self, failed: Failed) {
        self.send_all(&JobMessage::Order(SaveOrder::Fails(failed)));
    }

    /// On another host: the next thing to do for a checkpoint, if there is one.
    pub(super) fn next_order(&self) -> Option<SaveOrder> {
        lock(&self.state).orders.pop_front()
    }

    /// On another host: it has saved, or could not.
    pub(super) fn has_saved(&self, epoch: Epoch, saved: Answer) {
        self.take(self.me, JobMessage::Saved(epoch, saved));
    }

    /// On another host: it has committed what a checkpoint has.
    pub(super) fn has_committed(&self, epoch: Epoch) {
        self.take(self.me, JobMessage::Committed(epoch));
    }

    /// On the first host: whether the others have said that they have committed what a checkpoint has.
    pub(super) fn have_committed(&self, epoch: Epoch) -> bool {
        let state = lock(&self.state);
        let last = |link: &Link| state.committed.get(&link.to());
        self.others.iter().all(|link| last(link).is_some_and(|last| *last >= epoch))
    }

    /// The files of this host have their names, or one of them could not be given its name.
    pub(super) fn published(&self, published: Result<()>) {
        self.take(self.me, JobMessage::Published(published));
    }

    /// What the tasks of each host have counted, once it is decided that the job ends well.
    pub(super) fn counted(&self) -> Option<Vec<Vec<TaskCounts>>> {
        lock(&self.state).counted.clone()
    }

    /// The clocks of other hosts: as the first one has estimated them, once it is decided that the job ends well; before, as
    /// this one does.
    pub(super) fn clocks(&self) -> Vec<ClockOffset> {
        let decided = lock(&self.state).clocks.clone();
        decided.unwrap_or_else(|| self.estimated())
    }

    /// The clocks of the other hosts, as far as this one knows them.
    fn estimated(&self) -> Vec<ClockOffset> {
        let estimated = |link: &Link| {
            let Offset { nanos, uncertainty } = link.clock_offset()?;
            Some(ClockOffset::new(link.to().0, nanos, Duration::from_nanos(uncertainty)))
        };
        self.others.iter().filter_map(estimated).collect()
    }

    /// Requests a barrier of all hosts, behind which sources read nothing if it is the last one.
    pub(super) fn ask_barrier(&self, is_last: bool) -> Requested {
        let requested = Requested::default();
        let mut state = lock(&self.state);
        let number = state.requests;
        state.requests += 1;
        state.requested.insert(number, requested.clone());
        drop(state);
        self.take(self.me, JobMessage::BarrierRequest(BarrierRequest { number, is_last }));
        requested
    }

    /// Requests that the job be suspended.
    pub(super) fn suspend(&self, why: String) {
        self.take(self.me, JobMessage::Suspend(why));
    }

    /// A barrier has left every task of this host.
    pub(super) fn passed(&self, epoch: Epoch) {
        self.send_all(&JobMessage::Passed(epoch));
    }

    /// Whether a barrier has left every task of the other hosts.
    pub(super) fn are_past(&self, epoch: Epoch) -> bool {
        lock(&self.state).passed.iter().all(|passed| *passed >= epoch)
    }

    /// The hosts with tasks that a barrier has not left.
    pub(super) fn behind(&self, epoch: Epoch) -> Vec<HostId> {
        let state = lock(&self.state);
        let all = self.others.iter().zip(&state.passed);
        all.filter(|(_, passed)| **passed < epoch).map(|(link, _)| link.to()).collect()
    }

    fn take(&self, from: HostId, message: JobMessage) {
        match message {
            JobMessage::Described(_)
            | JobMessage::Failed(_)
            | JobMessage::Prepared(..)
            | JobMessage::Published(_)
            | JobMessage::Suspend(_)
            | JobMessage::BarrierRequest(_)
            | JobMessage::WantsCheckpoint
            | JobMessage::Torn(..)
            | JobMessage::Saved(..)
            | JobMessage::Committed(_)
                if self.me != HostId::FIRST =>
            {
                self.send(HostId::FIRST, &message);
            }
            JobMessage::Described(fingerprint) => {
                let mut state = lock(&self.state);
                state.fingerprints.insert(from, fingerprint);
                if state.fingerprints.len() > self.others.len() {
                    let all = std::mem::take(&mut state.fingerprints);
                    drop(state);
                    self.compare(&all);
                }
            }
            JobMessage::Same(point) => {
                lock(&self.state).agreed = Some(point);
                self.start();
                self.with_job(|job| job.notify());
            }
            JobMessage::Differs(parts) => self.differs(&parts),
            JobMessage::Failed(error) => self.decide(Err(error.on_host(from.0))),
            JobMessage::Prepared(prepared, saved) => {
                let mut state = lock(&self.state);
                let replaced = state.prepared.insert(from, (prepared, saved));
                if state.prepared.len() <= self.others.len() {
                    drop(state);
                    if let Some((_, Ok(Some(saved)))) = replaced {
                        self.send(from, &JobMessage::Order(SaveOrder::Replaced(saved)));
                    }
                    return;
                }
                // What a host reports from now on comes too late, and replaces nothing of this.
                let all = std::mem::take(&mut state.prepared);
                let is_decided = state.decided;
                drop(state);
                let files = all.values().any(|(host, _)| host.files);
                let (mut counted, mut answers) = (Vec::new(), Vec::new());
                for (host, (prepared, saved)) in all {
                    counted.extend(prepared.counted);
                    if host != self.me {
                        let note = format!("on host {}", host.0);
                        answers.push(saved.map_err(|error| error.with(&note)));
                    }
                }
                let reports = all_saved(answers).filter(|_| files && !is_decided);
                let clocks = self.estimated();
                let mut may = Ok(());
                self.with_job(|job| {
                    let saved = reports.map_or(Ok(()), |reports| job.signals().save_end(reports));
                    may = saved.and_then(|()| job.signals().may_publish());
                });
                self.decide(may.map(|()| Prepared { files, counted, clocks }));
            }
            JobMessage::Decided(outcome) => {
                if !std::mem::replace(&mut lock(&self.state).decided, true) {
                    self.decided(outcome);
                }
            }
            JobMessage::Published(published) => {
                let mut state = lock(&self.state);
                state.published += 1;
                if let Err(error) = published {
                    state.unpublished.get_or_insert(error.on_host(from.0));
                }
                if state.published <= self.others.len() {
                    return;
                }
                let over = JobMessage::Over(state.unpublished.take().map_or(Ok(()), Err));
                drop(state);
                self.send_all(&over);
                self.take(self.me, over);
            }
            JobMessage::Over(Ok(())) => self.with_job(|job| job.over(Ok(()))),
            JobMessage::Over(Err(error)) => self.with_job(|job| job.unpublished(error)),
            JobMessage::Drain => self.with_job(|job| job.drain_here()),
            JobMessage::WantsCheckpoint => self.with_job(|job| job.want_checkpoint_here()),
            JobMessage::Torn(epoch, operator) => self.with_job(|job| {
                job.signals().tear_here(epoch, operator);
                job.notify();
            }),
            JobMessage::Suspend(why) => self.with_job(|job| job.suspend_here(why)),
            JobMessage::BarrierRequest(request) => self.with_job(|job| {
                let epoch = job.number_barrier(request.is_last);
                let barrier = JobMessage::Barrier(epoch, from, request);
                self.send_all(&barrier);
                self.take(self.me, barrier);
            }),
            JobMessage::Barrier(epoch, by, request) => {
                if by == self.me
                    && let Some(requested) = lock(&self.state).requested.remove(&request.number)
                {
                    requested.number(epoch);
                }
                self.with_job(|job| job.barrier_asked(epoch, request.is_last));
            }
            JobMessage::Passed(epoch) => {
                let mut state = lock(&self.state);
                let of_others = usize::from(from > self.me);
                if let Some(passed) = state.passed.get_mut(from.0 - of_others) {
                    *passed = epoch.max(*passed);
                }
                drop(state);
                self.with_job(|job| job.notify());
            }
            JobMessage::Order(order) => {
                lock(&self.state).orders.push_back(order);
                self.with_job(|job| job.notify());
            }
            JobMessage::Saved(epoch, saved) => {
                let mut state = lock(&self.state);
                if epoch == state.saving {
                    state.saved.insert(from, saved.map_err(|error| error.on_host(from.0)));
                }
                drop(state);
                self.with_job(|job| job.notify());
            }
            JobMessage::Committed(epoch) => {
                lock(&self.state).committed.insert(from, epoch);
                self.with_job(|job| job.notify());
            }
        }
    }

    /// On the first host: looks whether the job may go on, and with what.
    fn may_go_on(&self) -> Result<Option<RestorePoint>> {
        let state = lock(&self.state);
        let job = state.description.as_ref();
        let Some((look, point)) = job.map(|job| (Arc::clone(&job.may_go_on), job.point.clone()))
        else {
            return Ok(None);
        };
        drop(state);
        look().map(|()| point)
    }

    /// On the first host: decides, if nothing was decided before.
    fn decide(&self, outcome: Result<Prepared>) {
        if std::mem::replace(&mut lock(&self.state).decided, true) {
            return;
        }
        let message = JobMessage::Decided(outcome);
        self.send_all(&message);
        if let JobMessage::Decided(outcome) = message {
            self.decided(outcome);
        }
    }

    fn decided(&self, outcome: Result<Prepared>) {
        let outcome = outcome.map(|prepared| {
            let mut state = lock(&self.state);
            (state.counted, state.clocks) = (Some(prepared.counted), Some(prepared.clocks));
            drop(state);
            prepared.files
        });
        self.with_job(|job| job.decided(outcome));
        self.start();
        // A thread may wait for what the hosts agree on.
        self.with_job(|job| job.notify());
    }

    fn with_job(&self, call: impl FnOnce(&Job)) {
        if let Some(job) = self.job.upgrade() {
            call(&job);
        }
    }
}

impl Others for JobHosts {
    fn failed(&self, error: Error) {
        self.take(self.me, JobMessage::Failed(error));
    }

    fn drain(&self) {
        self.send_all(&JobMessage::Drain);
    }

    fn want_checkpoint(&self) {
        self.take(self.me, JobMessage::WantsCheckpoint);
    }

    fn torn(&self, epoch: Epoch, operator: Arc<str>) {
        self.take(self.me, JobMessage::Torn(epoch, operator));
    }
}

impl JobHosts {
    /// The failure of a job whose host is lost.
    fn loss(host: HostId, how: &str) -> Error {
        let what = format!("host {} is lost, and with it the tasks that ran there: {how}", host.0);
        Error::new(ErrorKind::Lost, what)
    }
}

impl Receive for JobHosts {
    /// Files are published with a decision.
    fn may_block(&self) -> bool {
        true
    }

    /// Every host ends its tasks by itself, and the first one decides, which gets to know of the loss. Only where the first
    /// one is lost, or this host itself, is it decided here: the others may have ended the job well already.
    fn lost(&self, host: HostId, how: &str) {
        if self.me == HostId::FIRST {
            self.decide(Err(Self::loss(host, how)));
            // They may wait for the lost host to publish its files.
            self.send_all(&JobMessage::Over(Err(Self::loss(host, how))));
        } else if host == HostId::FIRST || host == self.me {
            if !std::mem::replace(&mut lock(&self.state).decided, true) {
                self.decided(Err(Self::loss(host, how)));
            }
        } else {
            if !lock(&self.state).decided {
                self.send(HostId::FIRST, &JobMessage::Failed(Self::loss(host, how)));
                self.with_job(|job| job.stop());
            }
            return;
        }
        // It may have been lost with files that it has not published.
        self.with_job(|job| job.unpublished(Self::loss(host, how)));
    }

    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        let message = decode_whole(frame, JobMessage::decode).map_err(|error| {
            let what = format!("host {} has sent what is no message about a job: {error}", from.0);
            Error::new(ErrorKind::Internal, what)
        })?;
        self.take(from, message);
        Ok(())
    }
}

impl JobMessage {
    fn encoded(&self) -> Vec<u8> {
        let out = &mut Vec::new();
        match self {
            Self::Failed(error) => {
                0u8.encode(out);
                error.encode(out);
            }
            Self::Prepared(prepared, Ok(saved)) => {
                1u8.encode(out);
                prepared.encode(out);
                saved.encode(out);
            }
            Self::Prepared(prepared, Err(error)) => {
                22u8.encode(out);
                prepared.encode(out);
                error.encode(out);
            }
            Self::Decided(Ok(prepared)) => {
                2u8.encode(out);
                prepared.encode(out);
            }
            Self::Decided(Err(error)) => {
                3u8.encode(out);
                error.encode(out);
            }
            Self::Published(Ok(())) => 7u8.encode(out),
            Self::Published(Err(error)) => {
                8u8.encode(out);
                error.encode(out);
            }
            Self::Over(Ok(())) => 9u8.encode(out),
            Self::Over(Err(error)) => {
                10u8.encode(out);
                error.encode(out);
            }
            Self::Drain => 4u8.encode(out),
            Self::WantsCheckpoint => 20u8.encode(out),
            Self::Torn(Epoch(epoch), operator) => {
                (25u8, *epoch).encode(out);
                operator.to_string().encode(out);
            }
            Self::Suspend(why) => {
                18u8.encode(out);
                why.encode(out);
            }
            Self::BarrierRequest(request) => (14u8, *request).encode(out),
            Self::Barrier(Epoch(epoch), by, request) => (5u8, *epoch, by.0, *request).encode(out),
            Self::Passed(Epoch(epoch)) => (6u8, *epoch).encode(out),
            Self::Order(SaveOrder::Save(ToSave { epoch, superseded })) => {
                (15u8, epoch.0).encode(out);
                superseded.iter().cloned().collect::<Vec<_>>().encode(out);
            }
            Self::Order(SaveOrder::Counts { epoch, is_awaited, counted }) => {
                (19u8, epoch.0, *is_awaited, *counted).encode(out);
            }
            Self::Order(SaveOrder::Fails(failed)) => {
                21u8.encode(out);
                failed.encode(out);
            }
            Self::Order(SaveOrder::Replaced(saved)) => {
                24u8.encode(out);
                saved.encode(out);
            }
            Self::Saved(Epoch(epoch), Ok(saved)) => {
                (16u8, *epoch).encode(out);
                saved.encode(out);
            }
            Self::Saved(Epoch(epoch), Err(error)) => {
                (17u8, *epoch).encode(out);
                error.encode(out);
            }
            Self::Committed(Epoch(epoch)) => (23u8, *epoch).encode(out),
            Self::Described(fingerprint) => (11u8, *fingerprint).encode(out),
            Self::Same(point) => {
                12u8.encode(out);
                point.encode(out);
            }
            Self::Differs(parts) => {
                13u8.encode(out);
                parts.encode(out);
            }
        }
        std::mem::take(out)
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(match u8::decode(input)? {
            0 => Self::Failed(Error::decode(input)?),
            1 => Self::Prepared(Prepared::decode(input)?, Ok(Data::decode(input)?)),
            2 => Self::Decided(Ok(Prepared::decode(input)?)),
            3 => Self::Decided(Err(Error::decode(input)?)),
            4 => Self::Drain,
            5 => {
                let (epoch, by, request) = Data::decode(input)?;
                Self::Barrier(Epoch(epoch), HostId(by), request)
            }
            6 => Self::Passed(Epoch(u64::decode(input)?)),
            7 => Self::Published(Ok(())),
            8 => Self::Published(Err(Error::decode(input)?)),
            9 => Self::Over(Ok(())),
            10 => Self::Over(Err(Error::decode(input)?)),
            11 => Self::Described(u128::decode(input)?),
            12 => Self::Same(Data::decode(input)?),
            13 => Self::Differs(Data::decode(input)?),
            14 => Self::BarrierRequest(Data::decode(input)?),
            15 => {
                let (epoch, superseded) =
                    (Epoch(u64::decode(input)?), Vec::<StateId>::decode(input)?);
                let superseded = superseded.into_iter().collect();
                Self::Order(SaveOrder::Save(ToSave { epoch, superseded }))
            }
            16 => Self::Saved(Epoch(u64::decode(input)?), Ok(Data::decode(input)?)),
            17 => Self::Saved(Epoch(u64::decode(input)?), Err(Error::decode(input)?)),
            18 => Self::Suspend(Data::decode(input)?),
            19 => {
                let (epoch, is_awaited, counted) = Data::decode(input)?;
                Self::Order(SaveOrder::Counts { epoch: Epoch(epoch), is_awaited, counted })
            }
            20 => Self::WantsCheckpoint,
            21 => Self::Order(SaveOrder::Fails(Data::decode(input)?)),
            22 => Self::Prepared(Prepared::decode(input)?, Err(Error::decode(input)?)),
            23 => Self::Committed(Epoch(u64::decode(input)?)),
            24 => Self::Order(SaveOrder::Replaced(Data::decode(input)?)),
            25 => Self::Torn(Epoch(u64::decode(input)?), String::decode(input)?.into()),
            _ => return Err(DecodeError::invalid("a message about a job")),
        })
    }
}

#[cfg(test)]
mod tests;
