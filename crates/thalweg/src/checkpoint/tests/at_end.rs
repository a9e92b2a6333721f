//! Files on disk of tasks that have ended: how long they are kept, and what later checkpoints have of them.

use super::*;
use crate::flow::{AtEnd, Depth, Signals};
use crate::net::HostId;
use crate::state::{SpillDir, SpillShare};

/// Another host than the first, which writes its part of the last checkpoint.
struct Host {
    store: Store,
    /// Whether its storage is away.
    is_away: AtomicBool,
    /// Whether it could try again.
    may_wait: AtomicBool,
}

impl Storage for Host {
    fn store_last(
        &self,
        _: Result<Taken>,
        _: Result<Vec<Part>>,
        may_wait: &dyn Fn() -> bool,
    ) -> Result<()> {
        self.may_wait.store(may_wait(), Ordering::Relaxed);
        Ok(())
    }

    fn store_last_part(
        &self,
        taken: Result<Taken>,
        may_wait: &dyn Fn() -> bool,
    ) -> Result<Option<Part>> {
        self.may_wait.store(may_wait(), Ordering::Relaxed);
        if self.is_away.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "the storage is away"));
        }
        let Taken { snapshot, syncs, .. } = taken?;
        syncs.iter().try_for_each(|sync| sync())?;
        self.store.write_part(HostId(1), &snapshot).map(Some)
    }

    fn may_publish(&self) -> Result<()> {
        Ok(())
    }

    fn restore_point(&self) -> Option<RestorePoint> {
        None
    }

    fn restore(&self, _: &RestorePoint) -> Result<Option<Snapshot>> {
        Ok(None)
    }
}

/// A task of that host, with a state of which a part is on disk.
struct Task {
    dir: tempfile::TempDir,
    folder: Arc<dyn Folder>,
    host: Arc<Host>,
    all: Arc<Checkpoints>,
    state: StateHandle,
    job: Arc<Signals>,
}

fn id() -> StateId {
    StateId { operator: "sorted".to_owned(), name: "value".to_owned() }
}

impl Task {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let folder = make(&dir.path().join("saved"), dir.path()).unwrap();
        let (first, store) = (Store::open_first(&folder).unwrap(), Store::join(&folder));
        store.restore(&first.restore_point(None).unwrap()).unwrap();
        let (is_away, may_wait) = (AtomicBool::new(false), AtomicBool::new(false));
        let host = Arc::new(Host { store, is_away, may_wait });
        let all = Checkpoints::of_folder(Some(&folder), None, Some(Arc::clone(&host) as _));
        let job = Arc::new(Signals::default());
        let op = Op::new(0, "sorted".into(), Depth::default(), Arc::clone(&job));
        let shape = Shape { entries: u64::schema(), operator: String::new(), by_key: false };
        let state = all.handle((op, id(), shape), (1, 2), Redistribution::Dealt);
        Self { dir, folder, host, all, state, job }
    }

    /// All tasks of its host have ended.
    fn end(&self) -> Result<Part> {
        let report = self.all.ended_here(&self.job)?;
        Part::read(&report.expect("it can be saved"))
    }

    /// Saves a file with one record at this event.
    fn save(&self, event: Event) {
        let mut writer = SpillDir::new(self.dir.path(), "task").writer::<u64>();
        writer.push(&7).unwrap();
        let file = SpillShare::from(writer.finish().unwrap());
        self.state.save(event, |out| out.add_share(&file, &()));
    }

    /// What a checkpoint refers to that is taken now.
    fn copied(&self, epoch: u64, superseded: &[StateId]) -> Vec<String> {
        let superseded = superseded.iter().cloned().collect();
        let Taken { snapshot, syncs, .. } = self.all.take(Epoch(epoch), superseded).unwrap();
        syncs.iter().for_each(|sync| sync().unwrap());
        snapshot.all_files().map(|file| file.name.clone()).collect()
    }

    /// The copies that are there.
    fn copies(&self) -> Vec<String> {
        let mut names = self.folder.names().unwrap();
        names.retain(|name| name.starts_with("spilled-"));
        names
    }
}

#[test]
fn files_of_a_task_whose_end_was_not_stored_are_copied_for_later_checkpoints() {
    let task = Task::new();
    task.save(Event::End);
    task.host.is_away.store(true, Ordering::Relaxed);
    assert!(task.end().is_err());
    assert_eq!(task.copies(), [""; 0]);
    let copied = task.copied(1, &[]);
    assert_eq!((copied.len(), &task.copies()), (1, &copied));
    // A task of another host does not need it any more, and no part of the last checkpoint has it.
    assert_eq!(task.copied(2, &[id()]), [""; 0]);
    task.all.remove_unsaved(|_| false);
    assert_eq!(task.copies(), [""; 0]);
}

#[test]
fn copies_to_which_the_stored_end_of_a_task_refers_stay() {
    let task = Task::new();
    task.save(Event::End);
    let part = task.end().unwrap();
    assert_eq!((part.copies().len(), &*task.copies()), (1, part.copies()));
    assert_eq!(task.copied(1, &[id()]), part.copies());
    task.all.remove_unsaved(|_| false);
    assert_eq!(task.copies(), part.copies());
    // Also where the end is not stored once more.
    task.host.is_away.store(true, Ordering::Relaxed);
    assert!(task.all.ended_before(&task.job).is_none());
    assert_eq!(task.copied(2, &[id()]), part.copies());
}

#[test]
fn files_of_a_barrier_before_the_end_are_copied_when_that_is_stored() {
    let task = Task::new();
    task.save(Event::Barrier(Epoch(1)));
    // All of it was emitted by then.
    task.state.save(Event::End, |_| ());
    let part = task.end().unwrap();
    assert_eq!(part.copies(), [""; 0]);
    let copied = task.copied(1, &[]);
    assert_eq!((copied.len(), task.copies()), (1, copied.clone()));
}

#[test]
fn the_end_of_a_job_that_is_over_is_not_stored_again() {
    let task = Task::new();
    let stores = |store: &dyn Fn()| {
        store();
        task.host.may_wait.load(Ordering::Relaxed)
    };
    let here = || drop(task.all.ended_here(&task.job).unwrap());
    let everywhere = || task.all.before_publishing(Ok(Vec::new()), &task.job).unwrap();
    task.save(Event::End);
    assert!(stores(&here) && stores(&everywhere));
    task.job.stop();
    assert!(!stores(&here) && !stores(&everywhere));
}

#[test]
fn the_end_of_a_task_is_stored_again_without_what_is_done_since() {
    let task = Task::new();
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    task.state.save(Event::End, |out| {
        out.add(&7_u64);
        out.until(move || done.load(Ordering::Relaxed));
    });
    // In the newest part.
    let entries = || {
        let names = task.folder.names().unwrap().into_iter();
        let newest = names.filter(|name| name.starts_with("part-")).max().unwrap();
        let snapshot = Store::read_file(&*task.folder, &newest).unwrap();
        let mut entries = snapshot.entries(&id());
        std::iter::from_fn(|| entries.next().unwrap()).count()
    };
    task.end().unwrap();
    assert_eq!(entries(), 1);
    is_done.store(true, Ordering::Relaxed);
    task.host.is_away.store(true, Ordering::Relaxed);
    assert!(task.all.ended_before(&task.job).is_none() && task.all.lacks_end());
    task.host.is_away.store(false, Ordering::Relaxed);
    assert!(task.all.ended_before(&task.job).is_some() && !task.all.lacks_end());
    assert_eq!(entries(), 0);
}
