//! What the tasks of a job remember, saved at barriers and restored in another run of the job.
//!
//! Programs turn it on by [`CheckpointConfig`](crate::config::CheckpointConfig); [`CheckpointDir`] looks at what is stored.
//!
//! An operator gets a `StateHandle` for each of its states when its task is made. When a barrier passes the operator, and at
//! the end of its input, it saves entries through the handle. Barriers are aligned, or the batches that they overtake on the
//! way to a task are saved too, so what all tasks have saved at one barrier is a consistent cut of the job: a `Snapshot`. A
//! task that has ended before a barrier counts with what it saved at its end, as long as that is needed.
//!
//! In a job that begins with a snapshot, each handle gives back the entries that are for its task, however many tasks
//! there were: `Redistribution` says which these are.
//!
//! This module knows no operator. It has no part in how records flow: without checkpoints, a handle is empty.

mod at_end;
mod branches;
mod compare;
mod copy;
mod entries;
mod files;
mod folder;
mod health;
mod inspect;
mod mark;
mod matching;
mod packed;
mod saving;
mod shape;
mod snapshot;
mod store;

pub use compare::{PlanComparison, StateComparison, StateFate};
pub use entries::StateEntry;
pub use inspect::{CheckpointDir, CheckpointFile, StateSummary};

pub(crate) use branches::{Described, OperatorIds};
pub(crate) use files::{SavedFile, check_spilled};
pub(crate) use folder::{Faulty, Folder, INJECTED, find, make};
pub(crate) use health::Counted;
pub(crate) use saving::Saving;
pub(crate) use shape::{Shape, migrate_entry};
pub(crate) use snapshot::{Snapshot, StateId};
pub(crate) use store::{Part, RestorePoint, Store, Stored, sealed};

use crate::clock::Clock;
use crate::data::{Data, DecodeError, hash_bytes, of_ours};
use crate::error::{Error, ErrorKind, Result};
use crate::exchange::{hashes_of, owner_of_group};
use crate::flow::{Epoch, Event, Op};
use crate::sync::{AtomicBool, Mutex, Ordering, lock};
use branches::SavedBranch;
use compare::{ShowPosition, Trial, shown_by};
use files::{FileEntry, SavedFiles};
use folder::Directory;
use health::Health;
use snapshot::{Entries, Saved, Spare};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// How the message begins by which a snapshot is refused that can be restored with other numbers of tasks.
pub(crate) const OTHER_TASKS: &str = "the checkpoint cannot be restored with this number of tasks";

/// The name of the records on their way to an operator that a barrier has overtaken.
pub(crate) const IN_FLIGHT: &str = "overtaken";

/// Which tasks of an operator get an entry that one of its tasks has saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Redistribution {
    /// The one that owns the key group of the entry's hash.
    ByKey,
    /// All of them.
    United,
    /// The first.
    First,
    /// The one of the same number, if there are as many tasks as there were; else the first.
    Own,
    /// The one in the place of the task that has saved it: of the same number, if there are as many tasks as there were. What
    /// a task has saved stays together, in order.
    Dealt,
}

impl Redistribution {
    /// Whether a task, of so many, gets what one of `before` tasks has saved, where that does not depend on keys.
    fn gives(self, saved_by: usize, before: usize, (task, tasks): (usize, usize)) -> bool {
        match self {
            Self::ByKey | Self::United => true,
            Self::Own if before == tasks => saved_by == task,
            Self::First | Self::Own => task == 0,
            Self::Dealt => saved_by * tasks / before == task,
        }
    }
}

/// The states of the tasks of a job.
pub(crate) struct Checkpoints {
    /// What the job begins with, until its tasks are made.
    restored: Mutex<Option<Arc<Snapshot>>>,
    /// The states of an older version of the program: what was changed, or why they cannot be changed.
    migrated: Mutex<BTreeMap<StateId, Result<Vec<String>, String>>>,
    /// The states of the snapshot that no operator takes, where that is allowed.
    dropped: Mutex<Vec<StateId>>,
    slots: Mutex<Vec<Arc<Slot>>>,
    /// Of each operator in the plan, what checkpoints have of its branch.
    branches: Mutex<Vec<SavedBranch>>,
    /// Those that go on under other ids than their own, each in a line.
    moved: Mutex<Vec<String>>,
    /// The job's, once it is launched.
    clock: OnceLock<Clock>,
    /// Where they are stored.
    dir: Option<PathBuf>,
    /// Where spill files are copied.
    files: Option<Arc<SavedFiles>>,
    storage: Option<Arc<dyn Storage>>,
    /// Whether a part is written of what this host has saved at its end, or being written: it counts yet, with copies to which no
    /// state here refers any more.
    has_ended: AtomicBool,
    /// Whether that part could not be written when it was to be.
    lacks_end: AtomicBool,
    /// Of tasks that are made to be compared with a snapshot, and never run.
    trial: Option<Mutex<Trial>>,
    /// What statistics say of them.
    health: Mutex<Health>,
}

/// Stores what the tasks of a job have saved when all of them have ended, and knows what the job begins with.
pub(crate) trait Storage: Send + Sync {
    /// Stores the last snapshot, with the parts of the other hosts, or gets to know why one of them has none. Where none could be
    /// taken the job ends without: its results are complete, and what keeps the snapshot from being taken is in the job, so that waiting
    /// is no help. What fails in the storage is tried again, as long as it `may_wait`.
    ///
    /// # Errors
    ///
    /// If one was taken and could not be stored, or a part of it.
    fn store_last(
        &self,
        taken: Result<Taken>,
        parts: Result<Vec<Part>>,
        may_wait: &dyn Fn() -> bool,
    ) -> Result<()>;

    /// On another host than the first: stores its part of the last snapshot; `None` if none could be taken. What fails in the
    /// storage is tried again, as long as it `may_wait`.
    ///
    /// # Errors
    ///
    /// If it could not be stored.
    fn store_last_part(
        &self,
        taken: Result<Taken>,
        may_wait: &dyn Fn() -> bool,
    ) -> Result<Option<Part>>;

    /// As [`Store::may_publish`].
    fn may_publish(&self) -> Result<()>;

    /// On the first of several hosts: what the others are to [go on from](Self::restore).
    fn restore_point(&self) -> Option<RestorePoint>;

    /// As [`Store::restore`], on another host than the first.
    fn restore(&self, point: &RestorePoint) -> Result<Option<Snapshot>>;
}

/// One state of one task.
struct Slot {
    /// The operator's number in the plan, and its name. Not the operator itself: it holds the job, which holds this.
    op: usize,
    name: Arc<str>,
    id: StateId,
    shape: Shape,
    /// What was saved at barriers, and at the end of the input; or why nothing could be.
    saved: Mutex<BTreeMap<Epoch, Result<Saving, String>>>,
    spare: Arc<Spare>,
    /// The state that is not needed any more once this one was saved at the end.
    supersedes: OnceLock<StateId>,
    /// Whether the state is in snapshots only if there is something to save.
    is_optional: OnceLock<()>,
    /// Of a source's state: where it would go on.
    position: OnceLock<ShowPosition>,
}

/// What must be done, beside the records' way, before a snapshot counts, or once it does. It may be called again with a later
/// snapshot, if it was handed over at the end.
pub(crate) type Aside = Arc<dyn Fn() -> Result<()> + Send + Sync>;

/// A snapshot, and what must be done before it counts and once it does.
pub(crate) struct Taken {
    pub(crate) snapshot: Snapshot,
    pub(crate) syncs: Vec<Aside>,
    pub(crate) commits: Vec<Aside>,
}

impl Checkpoints {
    /// Those of a job that begins with a snapshot, or with nothing.
    #[cfg(test)]
    pub(crate) fn new(restored: Option<Snapshot>, storage: Option<Arc<dyn Storage>>) -> Arc<Self> {
        Self::of_folder(None, restored, storage)
    }

    /// Those of a job that begins with a snapshot, or with nothing, and whose checkpoints are in a folder.
    pub(crate) fn of_folder(
        folder: Option<&Arc<dyn Folder>>,
        restored: Option<Snapshot>,
        storage: Option<Arc<dyn Storage>>,
    ) -> Arc<Self> {
        let dir = folder.map(|folder| folder.path().to_owned());
        Arc::new(Self { dir, ..Self::in_memory(folder, restored, storage) })
    }

    /// Those of a job whose snapshots are kept in memory, but for what its operators have on disk, which is copied to a
    /// directory; for tests of jobs.
    pub(crate) fn with_files_in(dir: &Path, restored: Option<Snapshot>) -> Arc<Self> {
        Arc::new(Self::in_memory(Some(&Directory::at(dir)), restored, None))
    }

    fn in_memory(
        files: Option<&Arc<dyn Folder>>,
        restored: Option<Snapshot>,
        storage: Option<Arc<dyn Storage>>,
    ) -> Self {
        let restored = Mutex::new(restored.map(Arc::new));
        let files = files.map(|folder| Arc::new(SavedFiles::new(folder)));
        let (slots, clock) = (Mutex::default(), OnceLock::new());
        let (migrated, dropped, dir, trial) = (Mutex::default(), Mutex::default(), None, None);
        let (has_ended, lacks_end) = (AtomicBool::new(false), AtomicBool::new(false));
        let (health, branches, moved) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self {
            restored,
            migrated,
            dropped,
            slots,
            branches,
            moved,
            clock,
            dir,
            files,
            storage,
            has_ended,
            lacks_end,
            trial,
            health,
        }
    }

    /// Those of tasks that are [compared](Self::compare) with a snapshot and never run.
    pub(crate) fn trial(folder: &Arc<dyn Folder>, snapshot: Snapshot) -> Arc<Self> {
        let trial = Some(Mutex::default());
        let dir = Some(folder.path().to_owned());
        Arc::new(Self { dir, trial, ..Self::in_memory(Some(folder), Some(snapshot), None) })
    }

    /// The job begins with this snapshot, or with nothing. Called before any of its tasks is made.
    pub(crate) fn restore(&self, snapshot: Option<Snapshot>) {
        *lock(&self.restored) = snapshot.map(Arc::new);
    }

    /// Whether tasks are made only to be compared with a snapshot.
    pub(crate) fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// Whether a task of a [trial](Self::trial) could not be made, so that some states may be unknown.
    pub(crate) fn lacks_states(&self) -> bool {
        self.trial.as_ref().is_some_and(|trial| lock(trial).lacks_states)
    }

    /// Notes why a job would be refused.
    pub(crate) fn refuse(&self, error: Error) {
        if let Some(trial) = &self.trial {
            lock(trial).refusals.push(error);
        }
    }

    /// Notes why a task could not be made, some of whose states may be unknown.
    pub(crate) fn refuse_task(&self, error: Error) {
        if let Some(trial) = &self.trial {
            lock(trial).lacks_states = true;
        }
        self.refuse(error);
    }

    /// Where snapshots are stored, if they are.
    pub(crate) fn storage(&self) -> Option<&Arc<dyn Storage>> {
        self.storage.as_ref()
    }

    /// What a person does who does not go on from them.
    pub(crate) fn begin_anew(&self) -> String {
        begin_anew(self.dir())
    }

    /// Where they are stored, as it is shown.
    fn dir(&self) -> &Path {
        self.dir.as_deref().unwrap_or(Path::new("DIR"))
    }

    /// A hash of the directory where they are stored.
    pub(crate) fn dir_hash(&self) -> Option<u64> {
        let dir = self.dir.as_ref()?;
        Some(hash_bytes(dir.as_os_str().as_encoded_bytes()))
    }

    /// The job is launched with this clock, which goes on from where it was at the barrier.
    ///
    /// # Errors
    ///
    /// If one of the two is simulated and the other is not: times of one mean nothing on the other.
    pub(crate) fn begin(&self, clock: &Clock) -> Result<()> {
        if let Some(snapshot) = &*lock(&self.restored) {
            let was_simulated = snapshot.clock.is_simulated;
            if was_simulated != clock.is_simulated() {
                let what = match was_simulated {
                    true => {
                        "was saved under the deterministic scheduler, whose clock is simulated, and needs it again"
                    }
                    false => {
                        "cannot be restored under the deterministic scheduler, whose clock is simulated"
                    }
                };
                return Err(Error::new(ErrorKind::Config, format!("the checkpoint {what}")));
            }
            if !self.is_trial() {
                clock.resume(snapshot.clock);
            }
        }
        let _ = self.clock.set(clock.clone());
        Ok(())
    }

    /// The handle of a task's state. `task` is one of `tasks`.
    pub(crate) fn handle(
        self: &Arc<Self>,
        state: (Op, StateId, Shape),
        task: (usize, usize),
        redistribution: Redistribution,
    ) -> StateHandle {
        let handle = self.reader(state, task, redistribution);
        lock(&self.slots).extend(handle.0.iter().map(|handle| Arc::clone(&handle.slot)));
        handle
    }

    /// As [`handle`](Self::handle), of a state that other tasks save: it is only restored.
    pub(crate) fn reader(
        self: &Arc<Self>,
        (op, id, shape): (Op, StateId, Shape),
        (task, tasks): (usize, usize),
        redistribution: Redistribution,
    ) -> StateHandle {
        self.migrate(&id, &shape);
        let (op, name) = (op.id(), op.name());
        let slot = Arc::new(Slot {
            op,
            name,
            id,
            shape,
            saved: Mutex::default(),
            spare: Arc::default(),
            supersedes: OnceLock::new(),
            is_optional: OnceLock::new(),
            position: OnceLock::new(),
        });
        let all = Arc::clone(self);
        StateHandle(Some(Handle { all, slot, task, tasks, redistribution }))
    }

    /// Makes a state of an older version of the program one of this version, if it can be.
    fn migrate(&self, id: &StateId, shape: &Shape) {
        let mut restored = lock(&self.restored);
        let mut migrated = lock(&self.migrated);
        let Some(snapshot) = &mut *restored else { return };
        if snapshot.shape(id).is_none_or(|saved| saved == shape) || migrated.contains_key(id) {
            return;
        }
        let changed = Arc::make_mut(snapshot).migrate(id, shape);
        migrated.insert(id.clone(), changed);
    }

    /// What has become of states of an older version of the program, each in a line.
    pub(crate) fn migrations(&self) -> Vec<String> {
        let migrated = lock(&self.migrated);
        let changed =
            migrated.iter().filter_map(|(id, changed)| Some((id, changed.as_ref().ok()?)));
        changed.map(|(id, changes)| format!("{id} is migrated: {}", changes.join("; "))).collect()
    }

    /// Whether the job begins with the end of one that was drained, so that nothing more is to be read; known until its tasks are
    /// made.
    pub(crate) fn is_drained(&self) -> bool {
        lock(&self.restored).as_ref().is_some_and(|snapshot| snapshot.is_drained)
    }

    /// Whether the job begins with a snapshot; known until its tasks are made.
    pub(crate) fn is_restored(&self) -> bool {
        lock(&self.restored).is_some()
    }

    /// Whether an operator, by its number in the plan, has a state.
    pub(crate) fn covers(&self, op: usize) -> bool {
        lock(&self.slots).iter().any(|slot| slot.op == op && !slot.is_optional())
    }

    /// The states that are not needed at a barrier, as tasks of this host know.
    pub(crate) fn superseded(&self, epoch: Epoch) -> BTreeSet<StateId> {
        let slots = lock(&self.slots);
        let ended = slots.iter().filter(|slot| slot.is_at_end(epoch));
        ended.filter_map(|slot| slot.supersedes.get().cloned()).collect()
    }

    /// What all tasks have saved at a barrier that has passed them. What they have saved at earlier ones is dropped, and so is
    /// what is superseded, as tasks of another host know.
    ///
    /// # Errors
    ///
    /// If a task could not save its state, or has not.
    pub(crate) fn take(&self, epoch: Epoch, superseded: BTreeSet<StateId>) -> Result<Taken> {
        let mut taken =
            Taken { snapshot: Snapshot::default(), syncs: Vec::new(), commits: Vec::new() };
        taken.snapshot.clock = self.clock.get().map(Clock::read).unwrap_or_default();
        let mut refused = None;
        // What was saved at the end counts yet, with its copies: later checkpoints must have them, too.
        let superseded = match self.has_ended.load(Ordering::Acquire) && epoch < Epoch::LAST {
            true => self.superseded(epoch),
            false => &superseded | &self.superseded(epoch),
        };
        let (slots, branches) = (lock(&self.slots), lock(&self.branches));
        // All of them, also if one has refused: what they have saved must not pile up.
        for slot in slots.iter() {
            let note_branch = |snapshot: &mut Snapshot| {
                if let Some(branch) = branches.get(slot.op) {
                    snapshot.note_branch(&slot.id.operator, branch);
                }
            };
            if superseded.contains(&slot.id) {
                // At the end, an earlier barrier may still need it, at which this one counted for nothing.
                if epoch < Epoch::LAST {
                    slot.forget();
                }
                note_branch(&mut taken.snapshot);
                taken.snapshot.add(&slot.id, &slot.shape, Entries::default(), Vec::new());
                continue;
            }
            let saved = slot.take(epoch, &mut taken.syncs, &mut taken.commits);
            match saved {
                Ok((all, files)) if slot.is_optional() && all.is_empty() && files.is_empty() => {}
                Ok((entries, files)) => {
                    note_branch(&mut taken.snapshot);
                    taken.snapshot.add(&slot.id, &slot.shape, entries, files);
                }
                Err(error) => drop(refused.get_or_insert(error)),
            }
        }
        #[cfg(debug_assertions)]
        if refused.is_none()
            && let Err(what) = taken.snapshot.check_schemas()
        {
            let what =
                format!("{what}: the `schema` of a type must be that of what its `encode` writes");
            refused = Some(Error::new(ErrorKind::Plan, what));
        }
        refused.map_or(Ok(taken), Err)
    }

    /// Drops what the tasks of this host have saved at a barrier that is of no checkpoint.
    pub(crate) fn drop_saved(&self, epoch: Epoch) {
        let slots = lock(&self.slots);
        slots.iter().for_each(|slot| drop(lock(&slot.saved).remove(&epoch)));
    }

    /// How many barriers there are at which tasks have saved what is kept.
    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        let slots = lock(&self.slots);
        let kept =
            slots.iter().flat_map(|slot| lock(&slot.saved).keys().copied().collect::<Vec<_>>());
        kept.collect::<BTreeSet<_>>().len()
    }
}

impl Checkpoints {
    /// What all tasks of this host have saved at their end. Tasks of other hosts may know that some of it is superseded; then it
    /// is dropped when it is restored.
    fn take_last(&self, is_drained: bool) -> Result<Taken> {
        let mut taken = self.take(Epoch::LAST, BTreeSet::new())?;
        taken.snapshot.is_drained = is_drained;
        Ok(taken)
    }

    /// What was saved at the end is stored, with copies of the files of operators, which are not needed for it any more. For a
    /// barrier before, of which a checkpoint may still be taken, they are.
    fn release_files(&self) {
        for slot in lock(&self.slots).iter() {
            if let Some(Ok(saving)) = lock(&slot.saved).get_mut(&Epoch::LAST) {
                saving.spilled.iter_mut().for_each(|spilled| spilled.prefix = None);
            }
        }
    }

    /// After a checkpoint was written, or could not be: removes copies of files on disk that none needs. `is_saved` says whether a
    /// checkpoint may refer to a copy.
    pub(crate) fn remove_unsaved(&self, is_saved: impl Fn(&str) -> bool) {
        if let Some(files) = self.files.as_ref().filter(|_| !self.has_ended.load(Ordering::Acquire))
        {
            files.remove_unsaved(is_saved);
        }
    }

    /// Whether a file of spilled records is one that tasks of this host have saved.
    pub(crate) fn has_copied(&self, name: &str) -> bool {
        self.files.as_ref().is_some_and(|files| files.has_named(name))
    }
}

/// What a person can do about a checkpoint in this directory that is refused.
fn advice(dir: &Path) -> String {
    format!("run the program of that checkpoint, or {}", begin_anew(dir))
}

fn begin_anew(dir: &Path) -> String {
    format!("begin anew with `thalweg checkpoint rm --all {}`", dir.display())
}

impl Slot {
    fn is_optional(&self) -> bool {
        self.is_optional.get().is_some()
    }

    /// Whether what was saved at the end is what counts at a barrier.
    fn is_at_end(&self, epoch: Epoch) -> bool {
        let saved = lock(&self.saved);
        saved.contains_key(&Epoch::LAST) && (epoch == Epoch::LAST || !saved.contains_key(&epoch))
    }

    /// What was saved at the end is not needed any more, at any barrier.
    fn forget(&self) {
        let mut saved = lock(&self.saved);
        saved.clear();
        // Where it is not known at the end of all tasks that it is superseded, nothing of it counts.
        saved.insert(Epoch::LAST, Ok(Saving::default()));
    }

    /// What was saved at a barrier. What was saved at earlier ones is dropped.
    fn take(
        &self,
        epoch: Epoch,
        syncs: &mut Vec<Aside>,
        commits: &mut Vec<Aside>,
    ) -> Result<(Entries, Vec<FileEntry>)> {
        let mut saved = lock(&self.saved);
        // At the end, what was saved at a barrier may still be needed: tasks of other hosts have not ended at it.
        if epoch < Epoch::LAST {
            *saved = saved.split_off(&epoch);
        }
        let refused = |kind, what: String| {
            let error = Error::new(kind, format!("no checkpoint: {what}"));
            Err(error.in_operator(&*self.name))
        };
        // What was saved at the end counts for all later barriers.
        let at_barrier = if epoch < Epoch::LAST { saved.remove(&epoch) } else { None };
        match at_barrier {
            Some(Ok(mut saving)) => {
                syncs.append(&mut saving.syncs);
                commits.append(&mut saving.commits);
                let files = saving.copied(syncs);
                return Ok((saving.entries, files));
            }
            Some(Err(why)) => return refused(ErrorKind::Plan, why),
            None => {}
        }
        match saved.get_mut(&Epoch::LAST) {
            Some(Ok(saving)) => {
                if saving.until.as_ref().is_some_and(|is_done| is_done()) {
                    *saving = Saving::default();
                }
                syncs.extend_from_slice(&saving.syncs);
                commits.extend_from_slice(&saving.commits);
                let files = saving.copied(syncs);
                Ok((saving.entries.clone(), files))
            }
            Some(Err(why)) => refused(ErrorKind::Plan, why.clone()),
            None if self.is_optional() => Ok((Entries::default(), Vec::new())),
            None => {
                refused(ErrorKind::Internal, format!("{} was not saved at the barrier", self.id))
            }
        }
    }
}

/// A state of an operator in one task: what it must remember across a failure. Empty in a job without checkpoints.
pub(crate) struct StateHandle(Option<Handle>);

struct Handle {
    all: Arc<Checkpoints>,
    slot: Arc<Slot>,
    task: usize,
    tasks: usize,
    redistribution: Redistribution,
}

impl StateHandle {
    /// That of a job without checkpoints.
    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// Once this state was saved at the end, and at no later barrier, the operator's state of this name is not needed any more.
    pub(crate) fn supersedes(self, name: &str) -> Self {
        if let Some(Handle { slot, .. }) = &self.0 {
            let (operator, name) = (slot.id.operator.clone(), name.to_owned());
            let _ = slot.supersedes.set(StateId { operator, name });
        }
        self
    }

    /// The same handle, for a state that is in a snapshot only if some task has saved an entry or a file, and need not be saved
    /// at every barrier.
    pub(crate) fn if_any(self) -> Self {
        if let Some(Handle { slot, .. }) = &self.0 {
            let _ = slot.is_optional.set(());
        }
        self
    }

    /// That of a source: `show` says where it would go on with these entries, as in `after 7 numbers`.
    pub(crate) fn position<E: Data>(self, show: fn(Vec<E>) -> String) -> Self {
        if let Some(Handle { slot, .. }) = &self.0 {
            let _ = slot.position.set(shown_by(show));
        }
        self
    }

    /// Whether the job has checkpoints.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// An error of its operator.
    pub(crate) fn error(&self, kind: ErrorKind, what: String) -> Error {
        let error = Error::new(kind, what);
        match &self.0 {
            Some(Handle { slot, .. }) => error.in_operator(&*slot.name),
            None => error,
        }
    }

    /// Saves the state, if this event is a barrier or the end, and the job has checkpoints. Called before the operator passes
    /// the event on, and when everything that it sends before the event has been sent.
    #[inline]
    pub(crate) fn save(&self, event: Event, write: impl FnOnce(&mut Saving)) {
        if let Some(mut open) = self.open(event) {
            write(&mut open.saving);
            open.end();
        }
    }

    /// As [`save`](Self::save), where `write` may fail.
    ///
    /// # Errors
    ///
    /// That of `write`. What it has added is saved nevertheless, unless it was [refused](Saving::refuse).
    #[inline]
    pub(crate) fn try_save(
        &self,
        event: Event,
        write: impl FnOnce(&mut Saving) -> Result<()>,
    ) -> Result<()> {
        let mut written = Ok(());
        self.save(event, |saving| written = write(saving));
        written
    }

    /// Begins to save the state, under the conditions of [`save`](Self::save), and leaves it open: entries may be written after
    /// the operator has passed the event on, as long as they are those of the state at the event. Until the saving has
    /// [ended](OpenSaving::end), [`save_part`](crate::flow::Pipe::save_part) of the operator must return that more is left:
    /// a checkpoint that is complete without it fails, or, where the state may be missing, takes it as empty.
    pub(crate) fn open(&self, event: Event) -> Option<OpenSaving> {
        let Handle { all, slot, task, tasks, redistribution } = self.0.as_ref()?;
        let epoch = match event {
            Event::Barrier(epoch) => epoch,
            Event::End => Epoch::LAST,
            Event::Watermark(_) | Event::Idle | Event::Partition(_) | Event::Round(_) => {
                return None;
            }
        };
        let entries = Entries::begin(&slot.spare);
        let hashes = match redistribution {
            Redistribution::ByKey => hashes_of(*task, *tasks),
            _ => files::ALL,
        };
        let saving = Saving { entries, files: all.files.clone(), hashes, ..Saving::default() };
        Some(OpenSaving { slot: Arc::clone(slot), epoch, saving })
    }

    /// Gives the entries to this task that it begins with, each decoded. There are none unless the job begins with a
    /// snapshot.
    pub(crate) fn restore<E: Data>(&self, mut take: impl FnMut(E) -> Result<()>) -> Result<()> {
        self.restore_encoded(|bytes| Ok(take(E::decode(bytes)?)))
    }

    /// As [`restore`](Self::restore), with the number of the task that has saved each entry.
    pub(crate) fn restore_by_task<E: Data>(
        &self,
        mut take: impl FnMut(usize, E) -> Result<()>,
    ) -> Result<()> {
        self.restore_each(&mut |Saved { task, mut bytes, .. }| {
            Ok(take(task, E::decode(&mut bytes)?))
        })
    }

    /// As [`restore`](Self::restore), where `take` decodes the entries.
    pub(crate) fn restore_encoded(
        &self,
        mut take: impl FnMut(&mut &[u8]) -> Result<Result<()>, DecodeError>,
    ) -> Result<()> {
        self.restore_each(&mut |Saved { mut bytes, .. }| take(&mut bytes))
    }

    /// As [`restore_encoded`](Self::restore_encoded), with the key group of each entry.
    pub(crate) fn restore_by_group(
        &self,
        mut take: impl FnMut(u16, &mut &[u8]) -> Result<Result<()>, DecodeError>,
    ) -> Result<()> {
        self.restore_each(&mut |Saved { group, mut bytes, .. }| take(group, &mut bytes))
    }

    /// The number of tasks that have saved the state, each some entries or none; 0 unless the job begins with a snapshot that
    /// has it.
    pub(crate) fn tasks_before(&self) -> usize {
        let Some(Handle { all, slot, .. }) = &self.0 else { return 0 };
        lock(&all.restored).as_ref().map_or(0, |snapshot| snapshot.tasks(&slot.id))
    }

    /// Compiled once for all kinds of state, as what follows.
    fn restore_each(
        &self,
        take: &mut dyn FnMut(Saved<'_>) -> Result<Result<()>, DecodeError>,
    ) -> Result<()> {
        self.restore_from(&mut |snapshot, Handle { slot, task, tasks, redistribution, .. }| {
            let unreadable = |error: DecodeError| {
                let what = format!("{} of the checkpoint cannot be read: {error}", slot.id);
                Error::new(ErrorKind::Input, what)
            };
            let mut entries = snapshot.entries(&slot.id);
            let before = snapshot.tasks(&slot.id);
            while let Some(saved) = entries.next().map_err(unreadable)? {
                let is_for_me = match redistribution {
                    Redistribution::ByKey => owner_of_group(saved.group, *tasks) == *task,
                    other => other.gives(saved.task, before, (*task, *tasks)),
                };
                if is_for_me {
                    take(saved).map_err(unreadable)??;
                }
            }
            Ok(())
        })
    }

    /// Gives the files to this task that it begins with, in the order in which each task has saved them.
    ///
    /// # Errors
    ///
    /// Those of `take`.
    pub(crate) fn restore_files(
        &self,
        mut take: impl FnMut(SavedFile<'_>) -> Result<()>,
    ) -> Result<()> {
        self.restore_from(&mut |snapshot, Handle { all, slot, task, tasks, redistribution }| {
            let Some(home) = &all.files else { return Ok(()) };
            let before = snapshot.tasks(&slot.id);
            for (of, entry) in snapshot.files(&slot.id) {
                let hashes = match redistribution {
                    Redistribution::ByKey => hashes_of(*task, *tasks),
                    other if other.gives(of, before, (*task, *tasks)) => files::ALL,
                    _ => continue,
                };
                if let Some(file) = entry.for_hashes(hashes, &*home.folder) {
                    take(file)?;
                }
            }
            Ok(())
        })
    }

    /// Restores this state from the snapshot that the job begins with, if it does.
    fn restore_from(
        &self,
        restore: &mut dyn FnMut(&Snapshot, &Handle) -> Result<()>,
    ) -> Result<()> {
        let Some(handle) = &self.0 else { return Ok(()) };
        let Handle { all, slot, .. } = handle;
        let Some(snapshot) = lock(&all.restored).clone() else { return Ok(()) };
        if snapshot.shape(&slot.id) != Some(&slot.shape) {
            // The job is refused when all its tasks are made.
            return Ok(());
        }
        let restored = of_ours(|| restore(&snapshot, handle));
        match restored.map_err(|error: Error| error.in_operator(&*slot.name)) {
            Err(error) if all.is_trial() => {
                all.refuse(error);
                Ok(())
            }
            restored => restored,
        }
    }
}

/// A state that is being saved, from [`StateHandle::open`]. If it is dropped before its end, the state counts as not saved.
pub(crate) struct OpenSaving {
    slot: Arc<Slot>,
    epoch: Epoch,
    pub(crate) saving: Saving,
}

impl OpenSaving {
    /// Marks the state as completely saved.
    pub(crate) fn end(mut self) {
        let saved = match self.saving.refused.take() {
            None => Ok(self.saving),
            Some(why) => Err(why),
        };
        lock(&self.slot.saved).insert(self.epoch, saved);
    }
}

#[cfg(test)]
mod tests;
