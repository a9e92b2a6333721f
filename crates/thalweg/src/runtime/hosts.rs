//! What the hosts of a job agree on: that it is the same job, how it ends, its barriers, what is saved at them, and whether
//! it is drained or suspended.
//!
//! Hosts report along a [tree](Place) whose root is the first host. Reports are merged on the way up where possible, and sent
//! on when all hosts below have reported; messages of the first host to all go down the same tree. So no host exchanges much
//! more than one message of each kind with each of a few others. Two kinds of messages go directly to their host
//! ([`Way::Direct`]): rare ones, such as failures and requests; and the decision how the job ends, and that it is over, which
//! are a few bytes, and must reach all hosts even if one of them is lost.
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
//! It also numbers the barriers, so that those which several hosts request at the same time differ. A host that has requested a
//! barrier learns its number with the order to send it. Where a barrier of a checkpoint is slow, the first host lets it
//! overtake batches on all hosts. A job that is suspended gets a last barrier, behind which no source of any host reads. If a
//! barrier comes to an operator of any host within a round of a loop, the first host is informed: it may be the last barrier,
//! which then never leaves all tasks. The first host informs all hosts, where heads of loops let the barrier through while they
//! wait for streams that it may hold back.
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
//! Where a host has files to publish, a job that ends well is over when all hosts have published theirs: what runs next finds
//! them, on whatever host it looks. Besides the decision, every host gets the counts of all tasks; these go down the tree, as
//! they may be large. A host waits for both. If a host on the way is lost meanwhile, the hosts behind it end without the
//! counts.

mod gather;
mod messages;

use super::counts::TaskCounts;
use super::description::{DescribedPart, Description, difference};
use super::job::{Job, Requested};
use crate::checkpoint::{Counted, RestorePoint, StateId};
use crate::data::{Data, decode_whole};
use crate::error::{Error, ErrorKind, Result};
use crate::flow::{Epoch, Others, Signals};
use crate::metrics::ClockOffset;
use crate::net::{HostId, Link, Links, Offset, Part, Place, Receive};
use crate::sync::{Mutex, lock};
use gather::{Gather, Least};
use messages::{BarrierRequest, Ended, JobMessage, Last, Prepared, Totals, Way};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// The hosts of a job, as one of them sees it.
pub(crate) struct JobHosts {
    job: Weak<Job>,
    me: HostId,
    /// The other hosts, in order.
    others: Vec<Link>,
    /// The hosts on the path from the first, which is included, to this one, which reports to the last of them.
    above: Vec<HostId>,
    /// The hosts that report to this one, in order.
    below: Vec<Link>,
    /// The number of hosts in this one's subtree, itself included.
    size: usize,
    state: Mutex<State>,
    /// On another host: what it has reported when its tasks had ended. Locked while it stores what these have saved and reports it, so
    /// that what is stored later is reported later.
    reported: Mutex<Option<Prepared>>,
    /// Locked while this host sends up that hosts have ended, itself included, so that later reports are sent later.
    reporting: Mutex<()>,
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
    /// The descriptions of the hosts that have described the job.
    described: Gather<Vec<(usize, u128)>>,
    /// The hosts that are prepared, with their reports and saved states, until all are sent up, or the end is decided.
    prepared: BTreeMap<HostId, Ended>,
    /// On another host: all hosts of its subtree are prepared, and it has reported that.
    has_reported: bool,
    decided: bool,
    /// On another host: the job is decided to end well, with whether there are files to publish, and the totals are still to
    /// come.
    awaits_totals: Option<bool>,
    /// No further totals come.
    lacks_totals: bool,
    totals: Totals,
    /// The hosts that have published their files, or failed to.
    published: Gather<Result<()>>,
    /// The last barrier that has left every task of this host, and of the subtree of each host that reports to it.
    passed: Least<Last>,
    /// The last barrier that has left every task of all hosts.
    all_passed: Epoch,
    /// On the first host: the torn barriers that it has passed on to all hosts, without those that have left all tasks.
    torn: BTreeSet<Epoch>,
    /// Whether the first host has passed on that the job is drained.
    drains: bool,
    /// How many barriers this host has requested.
    requests: u64,
    /// Those that have no number yet.
    requested: BTreeMap<u64, Requested>,
    /// The barrier at which hosts save, and the answers so far.
    saving: Epoch,
    answers: Gather<Vec<(HostId, Answer)>>,
    /// On the first host: the answers of the others, once all have answered.
    saved: Option<Vec<Answer>>,
    /// The barrier of the last checkpoint that hosts have committed: this host, and the subtree of each host that reports to
    /// it.
    committed: Least<Epoch>,
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

/// What the other hosts have saved at their end, of which these are the answers; `None` if one of them can save nothing, so that
/// there is no last checkpoint however the others have fared.
fn all_saved(answers: Vec<Answer>) -> Option<Result<Vec<Vec<u8>>>> {
    let can_all = !answers.iter().any(|answer| matches!(answer, Ok(None)));
    can_all.then(|| answers.into_iter().filter_map(Answer::transpose).collect())
}

impl JobHosts {
    /// The hosts of `job`.
    pub(super) fn new(job: &Weak<Job>, links: &Links) -> Arc<Self> {
        let (me, others) = (links.hosts().me(), links.to_others(Part::Job));
        let place = Place::of(me.0, links.hosts().count(), links.hosts().fan_out());
        let below: Vec<_> =
            place.below.iter().map(|host| links.to(HostId(*host), Part::Job)).collect();
        let reporting = || std::iter::once(me).chain(below.iter().map(Link::to));
        let passed = reporting().map(|host| Last { epoch: Epoch::default(), host });
        // The first host waits for the commits of the others.
        let committed = reporting().map(|host| match host {
            HostId::FIRST => Epoch::LAST,
            _ => Epoch::default(),
        });
        let state = State {
            passed: Least::new(passed.collect()),
            committed: Least::new(committed.collect()),
            ..State::default()
        };
        Arc::new(Self {
            job: Weak::clone(job),
            me,
            others,
            above: place.above.into_iter().map(HostId).collect(),
            below,
            size: place.size,
            state: Mutex::new(state),
            reported: Mutex::default(),
            reporting: Mutex::default(),
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

    /// Sends a message to the host that this one reports to.
    fn send_up(&self, message: &JobMessage) {
        if let Some(host) = self.above.last() {
            self.send(*host, message);
        }
    }

    /// Sends a message to the hosts that report to this one, which send it on.
    fn send_down(&self, message: &JobMessage) {
        if !self.below.is_empty() {
            let frame = message.encoded();
            self.below.iter().for_each(|link| link.send(frame.clone()));
        }
    }

    /// The index of a host among those that report here: 0 is this host itself.
    fn reporter(&self, host: HostId) -> Option<usize> {
        if host == self.me {
            return Some(0);
        }
        self.below.iter().position(|link| link.to() == host).map(|at| 1 + at)
    }

    /// How many report here, this host included.
    fn reporters(&self) -> usize {
        1 + self.below.len()
    }

    fn is_first(&self) -> bool {
        self.me == HostId::FIRST
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
            self.take(self.me, JobMessage::Described(vec![(self.me.0, fingerprint)]));
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

    /// Takes the descriptions of a host and its subtree.
    fn take_described(&self, from: HostId, ranges: Vec<(usize, u128)>) {
        let all = lock(&self.state).described.add(from, ranges, self.reporters());
        let Some(all) = all else { return };
        let mut ranges = all.concat();
        ranges.dedup_by_key(|(_, fingerprint)| *fingerprint);
        if !self.is_first() {
            return self.send_up(&JobMessage::Described(ranges));
        }
        match ranges.get(1) {
            None => match self.may_go_on() {
                Ok(point) => {
                    let same = JobMessage::Same(point);
                    self.send_down(&same);
                    self.take(self.me, same);
                }
                Err(error) => self.take(self.me, JobMessage::Failed(error)),
            },
            // The first host in order whose description differs from that of the first host.
            Some((host, _)) => self.send(HostId(*host), &JobMessage::Differs(self.parts())),
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
        let prepared = Prepared { files, counted };
        if self.is_first() {
            return self.report(prepared, Ok(None));
        }
        let mut reported = lock(&self.reported);
        let saved = signals.report_end();
        *reported = Some(prepared.clone());
        self.report(prepared, saved);
    }

    /// Reports the end of this host.
    fn report(&self, prepared: Prepared, saved: Answer) {
        self.take(self.me, JobMessage::Prepared(vec![Ended { host: self.me, prepared, saved }]));
    }

    /// On another host: reports its end once more, as it is stored now. If it has not ended, it is stored later in any case.
    pub(super) fn prepared_again(&self, signals: &Signals) {
        let reported = lock(&self.reported);
        if let Some(prepared) = &*reported
            && let Some(saved) = signals.report_end_again()
        {
            self.report(prepared.clone(), Ok(Some(saved)));
        }
    }

    /// Takes the reports of hosts that are prepared. Once all hosts of this one's subtree are, it sends their reports up, and
    /// from then on each new one; the first host decides.
    fn take_prepared(&self, ended: Vec<Ended>) {
        let reporting = lock(&self.reporting);
        let mut state = lock(&self.state);
        if state.has_reported {
            drop(state);
            return self.send_up(&JobMessage::Prepared(ended));
        }
        let mut replaced = Vec::new();
        for ended in ended {
            let host = ended.host;
            if let Some(Ended { saved: Ok(Some(saved)), .. }) = state.prepared.insert(host, ended) {
                replaced.push((host, saved));
            }
        }
        let is_complete = state.prepared.len() >= self.size;
        state.has_reported = is_complete && !self.is_first();
        // Later reports to the first host come too late, and replace none of these.
        let all = is_complete.then(|| std::mem::take(&mut state.prepared));
        let is_decided = state.decided;
        drop(state);
        for (host, saved) in replaced {
            let replaced = JobMessage::Order(SaveOrder::Replaced(saved));
            if host == self.me {
                self.take(self.me, replaced);
            } else {
                self.send(host, &replaced);
            }
        }
        let Some(all) = all else { return };
        if !self.is_first() {
            return self.send_up(&JobMessage::Prepared(all.into_values().collect()));
        }
        drop(reporting);
        self.all_prepared(all, is_decided);
    }

    /// On the first host: all hosts are prepared.
    fn all_prepared(&self, all: BTreeMap<HostId, Ended>, is_decided: bool) {
        let files = all.values().any(|ended| ended.prepared.files);
        let (mut counted, mut answers) = (Vec::new(), Vec::new());
        for (host, Ended { prepared, saved, .. }) in all {
            counted.push(prepared.counted);
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
        self.decide(may.map(|()| (files, Totals { counted, clocks })));
    }

    /// On the first host: asks the others to save what their tasks have saved at a barrier.
    pub(super) fn ask_to_save(&self, epoch: Epoch, superseded: BTreeSet<StateId>) {
        let mut state = lock(&self.state);
        (state.saving, state.answers, state.saved) = (epoch, Gather::default(), None);
        drop(state);
        self.send_down(&JobMessage::Order(SaveOrder::Save(ToSave { epoch, superseded })));
    }

    /// On the first host: what the others have answered, in their order, if all have.
    pub(super) fn saved(&self) -> Option<Vec<Answer>> {
        lock(&self.state).saved.take()
    }

    /// Takes the answers of a host and its subtree.
    fn take_saved(&self, from: HostId, epoch: Epoch, answers: Vec<(HostId, Answer)>) {
        let mut state = lock(&self.state);
        if epoch > state.saving && !self.is_first() {
            (state.saving, state.answers) = (epoch, Gather::default());
        }
        if epoch != state.saving {
            return;
        }
        // The first host is not among those that answer.
        let of = self.reporters() - usize::from(self.is_first());
        let Some(all) = state.answers.add(from, answers, of) else { return };
        let all = all.into_iter().flatten();
        if !self.is_first() {
            drop(state);
            return self.send_up(&JobMessage::Saved(epoch, all.collect()));
        }
        let all = all.map(|(host, saved)| saved.map_err(|error| error.on_host(host.0)));
        state.saved = Some(all.collect());
        drop(state);
        self.with_job(|job| job.notify());
    }

    /// On the first host: a checkpoint counts. The others say when they have committed what it has, if that is awaited.
    pub(super) fn counts(&self, epoch: Epoch, is_awaited: bool, counted: Counted) {
        self.send_down(&JobMessage::Order(SaveOrder::Counts { epoch, is_awaited, counted }));
    }

    /// On the first host: a checkpoint could not be taken.
    pub(super) fn fails(&self, failed: Failed) {
        self.send_down(&JobMessage::Order(SaveOrder::Fails(failed)));
    }

    /// On another host: the next thing to do for a checkpoint, if there is one.
    pub(super) fn next_order(&self) -> Option<SaveOrder> {
        lock(&self.state).orders.pop_front()
    }

    /// On another host: it has saved, or could not.
    pub(super) fn has_saved(&self, epoch: Epoch, saved: Answer) {
        self.take(self.me, JobMessage::Saved(epoch, vec![(self.me, saved)]));
    }

    /// On another host: it has committed what a checkpoint has.
    pub(super) fn has_committed(&self, epoch: Epoch) {
        self.take(self.me, JobMessage::Committed(epoch));
    }

    /// On the first host: whether the others have said that they have committed what a checkpoint has.
    pub(super) fn have_committed(&self, epoch: Epoch) -> bool {
        lock(&self.state).committed.least() >= Some(epoch)
    }

    /// The files of this host have their names, or one of them could not be given its name.
    pub(super) fn published(&self, published: Result<()>) {
        let published = published.map_err(|error| error.on_host(self.me.0));
        self.take(self.me, JobMessage::Published(published));
    }

    /// The counts of each host's tasks, once the job is decided to end well; `None` if a host on the way of the counts is lost.
    pub(super) fn counted(&self) -> Option<Vec<Vec<TaskCounts>>> {
        let state = lock(&self.state);
        self.has_totals(&state).then(|| state.totals.counted.clone())
    }

    /// The clocks of other hosts: as estimated by the first one, once [all counts](Self::counted) have arrived; before, as
    /// estimated by this one.
    pub(super) fn clocks(&self) -> Vec<ClockOffset> {
        let state = lock(&self.state);
        let decided = self.has_totals(&state).then(|| state.totals.clocks.clone());
        drop(state);
        decided.unwrap_or_else(|| self.estimated())
    }

    /// Whether all parts of the totals have arrived.
    fn has_totals(&self, state: &State) -> bool {
        state.totals.counted.len() > self.others.len()
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

    /// On the first host: lets a barrier overtake batches on the others.
    pub(super) fn overtake(&self, epoch: Epoch) {
        self.send_down(&JobMessage::Overtake(epoch));
    }

    /// Requests that the job be suspended.
    pub(super) fn suspend(&self, why: String) {
        self.take(self.me, JobMessage::Suspend(why));
    }

    /// A barrier has left every task of this host.
    pub(super) fn passed(&self, epoch: Epoch) {
        self.take(self.me, JobMessage::Passed(Last { epoch, host: self.me }));
    }

    /// Whether a barrier has left every task of all hosts.
    pub(super) fn are_past(&self, epoch: Epoch) -> bool {
        lock(&self.state).all_passed >= epoch
    }

    /// On the first host: other hosts with tasks that a barrier has not left, one for each host that reports here directly.
    pub(super) fn behind(&self, epoch: Epoch) -> Vec<HostId> {
        let state = lock(&self.state);
        let others = state.passed.all().iter().skip(1);
        others.filter(|last| last.epoch < epoch).map(|last| last.host).collect()
    }

    fn take(&self, from: HostId, message: JobMessage) {
        match message {
            JobMessage::Failed(_)
            | JobMessage::DrainRequest
            | JobMessage::Suspend(_)
            | JobMessage::BarrierRequest(_)
            | JobMessage::WantsCheckpoint
            | JobMessage::Torn(..)
                if !self.is_first() =>
            {
                self.send(HostId::FIRST, &message);
            }
            JobMessage::Described(ranges) => self.take_described(from, ranges),
            JobMessage::Same(point) => {
                lock(&self.state).agreed = Some(point);
                self.start();
                self.with_job(|job| job.notify());
            }
            JobMessage::Differs(parts) => self.differs(&parts),
            JobMessage::Failed(error) => self.decide(Err(error.on_host(from.0))),
            JobMessage::Prepared(ended) => self.take_prepared(ended),
            JobMessage::Totals(part) => {
                lock(&self.state).totals.add(part);
                self.end_with_totals();
            }
            JobMessage::WithoutTotals => {
                lock(&self.state).lacks_totals = true;
                self.end_with_totals();
            }
            JobMessage::Decided(outcome) => {
                let mut state = lock(&self.state);
                if std::mem::replace(&mut state.decided, true) {
                    return;
                }
                match outcome {
                    Ok(files) => {
                        state.awaits_totals = Some(files);
                        drop(state);
                        self.end_with_totals();
                    }
                    Err(error) => {
                        drop(state);
                        self.decided(Err(error));
                    }
                }
            }
            JobMessage::Published(published) => {
                let all = lock(&self.state).published.add(from, published, self.reporters());
                let Some(all) = all else { return };
                let all = all.into_iter().collect();
                if !self.is_first() {
                    return self.send_up(&JobMessage::Published(all));
                }
                let over = JobMessage::Over(all);
                self.send_all(&over);
                self.take(self.me, over);
            }
            JobMessage::Over(Ok(())) => self.with_job(|job| job.over(Ok(()))),
            JobMessage::Over(Err(error)) => self.with_job(|job| job.unpublished(error)),
            JobMessage::DrainRequest => {
                // The program drains its job on every host.
                if !std::mem::replace(&mut lock(&self.state).drains, true) {
                    self.send_down(&JobMessage::Drain);
                }
                self.take(self.me, JobMessage::Drain);
            }
            JobMessage::Drain => self.with_job(|job| job.drain_here()),
            JobMessage::WantsCheckpoint => self.with_job(|job| job.want_checkpoint_here()),
            JobMessage::Torn(epoch, operator) => {
                let mut state = lock(&self.state);
                let all_passed = state.all_passed;
                state.torn.retain(|torn| *torn > all_passed);
                // Each task that a barrier reaches within a round reports it.
                let is_news = state.torn.insert(epoch);
                drop(state);
                let torn = JobMessage::LetThrough(epoch, operator);
                if is_news {
                    self.send_down(&torn);
                }
                self.take(self.me, torn);
            }
            JobMessage::LetThrough(epoch, operator) => self.with_job(|job| {
                job.signals().tear_here(epoch, operator);
                job.notify();
            }),
            JobMessage::Suspend(why) => self.with_job(|job| job.suspend_here(why)),
            JobMessage::BarrierRequest(request) => self.with_job(|job| {
                let epoch = job.number_barrier(request.is_last);
                let barrier = JobMessage::Barrier(epoch, from, request);
                self.send_down(&barrier);
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
            JobMessage::Overtake(epoch) => self.with_job(|job| job.overtake_here(epoch)),
            JobMessage::Passed(last) => {
                let Some(at) = self.reporter(from) else { return };
                let mut state = lock(&self.state);
                let Some(least) = state.passed.raise(at, last) else { return };
                let is_news = least.epoch > state.all_passed;
                drop(state);
                if !self.is_first() {
                    self.send_up(&JobMessage::Passed(least));
                } else if is_news {
                    let passed = JobMessage::AllPassed(least.epoch);
                    self.send_down(&passed);
                    self.take(self.me, passed);
                }
            }
            JobMessage::AllPassed(epoch) => {
                let mut state = lock(&self.state);
                state.all_passed = epoch.max(state.all_passed);
                drop(state);
                self.with_job(|job| {
                    job.signals().all_passed(epoch);
                    job.notify();
                });
            }
            JobMessage::Order(order) => {
                lock(&self.state).orders.push_back(order);
                self.with_job(|job| job.notify());
            }
            JobMessage::Saved(epoch, answers) => self.take_saved(from, epoch, answers),
            JobMessage::Committed(epoch) => {
                let Some(at) = self.reporter(from) else { return };
                let least = lock(&self.state).committed.raise(at, epoch);
                match least {
                    Some(least) if !self.is_first() => {
                        self.send_up(&JobMessage::Committed(least));
                    }
                    _ => self.with_job(|job| job.notify()),
                }
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
    fn decide(&self, outcome: Result<(bool, Totals)>) {
        if std::mem::replace(&mut lock(&self.state).decided, true) {
            return;
        }
        let (outcome, totals) = match outcome {
            Ok((files, totals)) => (Ok(files), totals),
            Err(error) => (Err(error), Totals::default()),
        };
        let message = JobMessage::Decided(outcome);
        // Sent before the totals, which may be long: a host that loses this one without a decision fails, though others may
        // have the decision.
        self.send_all(&message);
        totals.messages().for_each(|part| self.send_down(&part));
        lock(&self.state).totals = totals;
        if let JobMessage::Decided(outcome) = message {
            self.decided(outcome);
        }
    }

    /// On another host: ends the job if it is decided to end well, and the totals have arrived or will not arrive.
    fn end_with_totals(&self) {
        let mut state = lock(&self.state);
        let may = state.lacks_totals || self.has_totals(&state);
        let files = state.awaits_totals.take_if(|_| may);
        drop(state);
        if let Some(files) = files {
            self.decided(Ok(files));
        }
    }

    /// On another host: stops waiting for the totals, as a host on their way is lost. The hosts below may not have lost it, so
    /// they are informed.
    fn lose_totals(&self) {
        if !std::mem::replace(&mut lock(&self.state).lacks_totals, true) {
            self.send_down(&JobMessage::WithoutTotals);
        }
        self.end_with_totals();
    }

    /// On another host: if a host that reports to it is lost, reports for it that its files could not be published. The first
    /// host may not have lost that host, and waits for its report. Where the job ends otherwise, this has no effect.
    fn lose_published(&self, host: HostId, how: &str) {
        let is_below = self.below.iter().any(|link| link.to() == host);
        let has_come = lock(&self.state).published.has(host);
        if is_below && !has_come {
            self.take(host, JobMessage::Published(Err(Self::loss(host, how))));
        }
    }

    fn decided(&self, outcome: Result<bool>) {
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
        self.take(self.me, JobMessage::DrainRequest);
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
        if !self.is_first() && (host == self.me || self.above.contains(&host)) {
            self.lose_totals();
        }
        if self.is_first() {
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
            self.lose_published(host, how);
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
        let is_expected = match message.way() {
            Way::Up => self.below.iter().any(|link| link.to() == from),
            Way::Down => self.above.last() == Some(&from),
            Way::Direct => true,
        };
        if !is_expected {
            let what = format!("host {} has sent a message about a job the wrong way", from.0);
            return Err(Error::new(ErrorKind::Internal, what));
        }
        // Sent on before it is processed here, which may take long, and end the job on this host.
        if message.way() == Way::Down {
            self.send_down(&message);
        }
        self.take(from, message);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
