//! Copies of checkpoints in folders of their own: what Flink calls savepoints.

use super::Snapshot;
use super::folder::{Folder, Original};
use super::store::Store;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::state::check_blocks;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Copies a checkpoint, with all that it refers to, into a folder that has none. It is there when all of it is, was
/// compared with its digests, and is on stable storage.
///
/// `make` makes the folder, once there is something to be copied into it; returns it, and the number of the copy. That is another
/// one where runs have numbers of their own.
pub(super) fn copy(
    from: &dyn Folder,
    number: u64,
    make: impl FnOnce() -> Result<Arc<dyn Folder>>,
) -> Result<(Arc<dyn Folder>, u64)> {
    let source = Store::name_of(number);
    let (snapshot, names) = Store::read_with_names(from, &source)?;
    // All of them before the first is copied: a job removes its checkpoints while that goes on.
    let (_, own) = open(from, source)?;
    let others = names.into_iter().map(|name| open(from, name));
    let others = others.collect::<Result<Vec<_>>>()?;

    let to = make()?;
    let taken = || match Store::numbers(&*to)?.last() {
        Some(other) => {
            let what = "this directory has checkpoints already, and a job begins with the newest: a copy needs one of its own";
            let place = Place::File(to.path().join(Store::name_of(*other)));
            Err(Error::new(ErrorKind::Config, what).at(place))
        }
        None => Ok(()),
    };
    // Opening ends a job that has no checkpoint yet where there are no locks.
    taken()?;
    let target = Store::open(&to)?;
    taken()?;
    target.begin_anew()?;
    let number = target.first_number().unwrap_or(number);
    let copied = copy_into(&target, &*to, (number, own), others, &snapshot);
    // What another run has begun to write is not in question.
    if copied.is_err() && target.superseded().is_none() {
        target.remove_unneeded(|_| true);
    }
    copied.map(|()| (to, number))
}

/// Opens a file, so that it can be read also when the job that it belongs to has removed it.
fn open(from: &dyn Folder, name: String) -> Result<(String, Original)> {
    let opened = from.open(&name);
    let failed = |cause| Error::io(&from.path().join(&name), "read the checkpoint", cause);
    opened.map_err(failed).map(|original| (name, original))
}

fn copy_into(
    target: &Store,
    to: &dyn Folder,
    (number, own): (u64, Original),
    others: Vec<(String, Original)>,
    snapshot: &Snapshot,
) -> Result<()> {
    let copy = |(name, original): (String, Original)| {
        let failed = |cause| Error::io(&to.path().join(&name), "write the copy", cause);
        let mut due = Ok(());
        let copied = to.copy_in(&name, original, &mut || {
            due = target.may_publish();
            due.is_ok()
        });
        due.and_then(|()| copied.map(drop).map_err(failed))
    };
    others.into_iter().try_for_each(copy)?;
    check_files(to, snapshot)?;
    // Last: it counts from then on.
    let name = Store::name_of(number);
    copy((name.clone(), own))?;
    to.sync();
    target.may_publish()?;
    let counts = Store::read_file(to, &name).map(drop);
    if counts.is_err() {
        // A job that begins here begins anew.
        let _ = to.remove(&name);
    }
    counts
}

/// Checks the blocks of all files of spilled records to which a checkpoint refers.
pub(super) fn check_files(folder: &dyn Folder, snapshot: &Snapshot) -> Result<()> {
    let files: BTreeMap<_, _> =
        snapshot.all_files().map(|file| ((&file.name, file.bytes), file.records)).collect();
    for ((name, bytes), records) in files {
        let checked =
            folder.local(name, bytes).and_then(|path| check_blocks(&path, bytes, records));
        folder.release(name);
        checked.map_err(|error| error.at(Place::File(folder.path().join(name))))?;
    }
    Ok(())
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::checkpoint::CheckpointDir;
    use crate::checkpoint::folder::of_each_kind;
    use crate::checkpoint::snapshot::Snapshot;
    use crate::net::HostId;

    #[test]
    fn a_copy_has_all_parts_and_is_there_once_or_not_at_all() {
        of_each_kind(|dir| {
            // From each kind of folder to each.
            of_each_kind(|other| copies(dir, other));
            dir.names().unwrap().iter().for_each(|name| dir.remove(name).unwrap());
        });
    }

    #[test]
    fn a_copy_does_not_count_where_a_job_has_begun_meanwhile() {
        of_each_kind(|dir| {
            let store = Store::open_run(dir).unwrap();
            store.write(1, &Snapshot::default(), Vec::new()).unwrap();
            of_each_kind(|to| {
                // A directory is locked.
                if to.lock().unwrap().is_some() {
                    return;
                }
                let target = Store::open(to).unwrap();
                let _job = Store::open_run(to).unwrap();
                let (_, own) = open(&**dir, Store::name_of(1)).unwrap();
                let own = (target.first_number().unwrap(), own);
                let copied = copy_into(&target, &**to, own, Vec::new(), &Snapshot::default());
                assert_eq!(copied.unwrap_err().kind(), ErrorKind::Config);
                assert!(Store::numbers(&**to).unwrap().is_empty());
            });
        });
    }

    fn copies(dir: &Arc<dyn Folder>, other: &Arc<dyn Folder>) {
        dir.names().unwrap().iter().for_each(|name| dir.remove(name).unwrap());
        let (first, second) = (Store::open_first(dir).unwrap(), Store::join(dir));
        second.restore(&first.restore_point(None).unwrap()).unwrap();
        for number in 1..3 {
            let part = second.write_part(HostId(1), &Snapshot::default()).unwrap();
            first.write(number, &Snapshot::default(), vec![part]).unwrap();
        }
        let checkpoints = CheckpointDir::of(dir);
        let copied = checkpoints.copy_to(1, || Ok(Arc::clone(other))).unwrap();
        assert_eq!(copied, CheckpointDir::of(other).list().unwrap()[0]);
        let original = &checkpoints.list().unwrap()[0];
        assert_eq!(copied.bytes, original.bytes);
        if !format!("{other:?}").starts_with("Objects") && copied.written != original.written {
            panic!("a copy in a directory is as old as its original");
        }
        CheckpointDir::of(other).verify(copied.number).unwrap();
        let refused = checkpoints.copy_to(2, || Ok(Arc::clone(other))).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains(&Store::name_of(copied.number)), "{refused}");
        let dirs = tempfile::tempdir().unwrap();
        let missing = checkpoints.copy(7, dirs.path().join("c")).unwrap_err();
        assert!(missing.to_string().contains("checkpoint-0000000007"), "{missing}");

        // What it refers to is not there any more.
        let part = dir.names().unwrap().into_iter().rfind(|name| name.starts_with("part-"));
        dir.remove(&part.unwrap()).unwrap();
        let torn = dirs.path().join("d/e");
        let results = [1, 2].map(|number| checkpoints.copy(number, &torn).is_ok());
        assert_ne!(results[0], results[1], "one of both has lost its part");
        let files = CheckpointDir::open(&torn).unwrap().folder().names().unwrap();
        assert_eq!(files.iter().filter(|name| name.starts_with("part-")).count(), 1, "{files:?}");
        // Nothing is copied onto itself, nor where a job is that has no checkpoint yet.
        assert!(checkpoints.copy_to(1, || Ok(Arc::clone(dir))).is_err());
        assert_eq!(checkpoints.list().unwrap().len(), 2);
        let in_use = crate::checkpoint::make(&dirs.path().join("a"), dirs.path()).unwrap();
        let _in_use = Store::open(&in_use).unwrap();
        assert!(checkpoints.copy(1, dirs.path().join("a")).is_err());
    }
}
