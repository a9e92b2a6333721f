//! Copies of checkpoints in directories of their own: what Flink calls savepoints.
#![expect(clippy::disallowed_methods, reason = "a door by which checkpoints reach files")]

use super::Snapshot;
use super::store::{Store, TEMPORARY};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::state::check_blocks;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// A file that is to be copied. It is open, so that it can be read also when the job that it belongs to has removed it.
struct Original {
    path: PathBuf,
    file: File,
}

impl Original {
    fn open(path: PathBuf) -> Result<Self> {
        let file = File::open(&path);
        let file = file.map_err(|cause| Error::io(&path, "read the checkpoint", cause))?;
        Ok(Self { path, file })
    }

    /// Copies it to a name that is not taken. The copy is as old as the original, and on the disk.
    fn copy(mut self, to: &Path) -> Result<()> {
        let failed = |cause| Error::io(to, "write the copy", cause);
        let dir = to.parent().unwrap_or(Path::new("."));
        let copy = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir);
        let mut copy = copy.map_err(failed)?;
        io::copy(&mut self.file, &mut copy).map_err(failed)?;
        let modified = self.file.metadata().and_then(|found| found.modified());
        modified.and_then(|at| copy.as_file().set_modified(at)).map_err(failed)?;
        copy.as_file().sync_all().map_err(failed)?;
        copy.persist_noclobber(to).map_err(|error| failed(error.error)).map(drop)
    }
}

/// Copies a checkpoint, with all that it refers to, into a directory that has none. It is there when all of it is, was
/// compared with its digests, and is on the disk.
pub(super) fn copy(from: &Path, number: u64, to: &Path) -> Result<()> {
    let source = Store::path_of(from, number);
    let (snapshot, names) = Store::read_with_names(&source)?;
    // All of them before the first is copied: a job removes its checkpoints while that goes on.
    let own = Original::open(source)?;
    let others = names.iter().map(|name| Original::open(from.join(name)));
    let others = others.collect::<Result<Vec<_>>>()?;

    let to = Store::directory(to)?;
    let taken = |to: &Path| match Store::numbers(to)?.last() {
        Some(other) => {
            let what = "this directory has checkpoints already, and a job begins with the newest: a copy needs one of its own";
            let place = Place::File(Store::path_of(to, *other));
            Err(Error::new(ErrorKind::Config, what).at(place))
        }
        None => Ok(()),
    };
    // Opening removes what no checkpoint refers to, which a job may just be writing where there are no locks.
    taken(&to)?;
    let target = Store::open(&to)?;
    taken(&to)?;
    let copied = copy_into(&to, number, own, others, &snapshot);
    if copied.is_err() {
        target.remove_unneeded(|_| true);
    }
    copied
}

fn copy_into(
    to: &Path,
    number: u64,
    own: Original,
    others: Vec<Original>,
    snapshot: &Snapshot,
) -> Result<()> {
    for other in others {
        let name = other.path.file_name().unwrap_or_default().to_owned();
        other.copy(&to.join(name))?;
    }
    let files: BTreeMap<_, _> =
        snapshot.all_files().map(|file| ((&file.name, file.bytes), file.records)).collect();
    for ((name, bytes), records) in files {
        check_blocks(&to.join(name), bytes, records)?;
    }
    // Last: it counts from then on.
    let path = Store::path_of(to, number);
    own.copy(&path)?;
    for dir in [Some(to), to.parent()].into_iter().flatten() {
        // Some file systems do not support this, and do not need it.
        let _ = File::open(dir).and_then(|dir| dir.sync_all());
    }
    Store::read_file(&path).map(drop)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::checkpoint::CheckpointDir;
    use crate::checkpoint::snapshot::Snapshot;
    use crate::checkpoint::store::names;
    use crate::net::HostId;
    use std::fs;

    #[test]
    fn a_copy_has_all_parts_and_is_there_once_or_not_at_all() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (first, second) = (Store::open_first(dir.path()).unwrap(), Store::join(dir.path()));
        second.check_proof(&first.proof().unwrap()).unwrap();
        for number in 1..3 {
            let part = second.write_part(HostId(1), &Snapshot::default()).unwrap();
            first.write(number, &Snapshot::default(), vec![part]).unwrap();
        }
        let checkpoints = CheckpointDir::open(dir.path()).unwrap();
        let to = other.path().join("a/b");
        let copy = checkpoints.copy(1, &to).unwrap();
        assert_eq!(copy, CheckpointDir::open(&to).unwrap().list().unwrap()[0]);
        let original = &checkpoints.list().unwrap()[0];
        assert_eq!((copy.bytes, copy.written), (original.bytes, original.written));
        CheckpointDir::open(&to).unwrap().verify(1).unwrap();
        let refused = checkpoints.copy(2, &to).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        assert!(refused.to_string().contains("checkpoint-0000000001"), "{refused}");
        let missing = checkpoints.copy(7, other.path().join("c")).unwrap_err();
        assert!(missing.to_string().contains("checkpoint-0000000007"), "{missing}");

        // What it refers to is not there any more.
        let part = names(dir.path()).unwrap().into_iter().rfind(|name| name.starts_with("part-"));
        fs::remove_file(dir.path().join(part.unwrap())).unwrap();
        let torn = other.path().join("d");
        let results = [1, 2].map(|number| checkpoints.copy(number, &torn).is_ok());
        assert_ne!(results[0], results[1], "one of both has lost its part");
        let files = names(&torn).unwrap();
        assert_eq!(files.iter().filter(|name| name.starts_with("part-")).count(), 1, "{files:?}");
        // Nothing is copied onto itself, nor where a job is that has no checkpoint yet.
        assert!(checkpoints.copy(1, dir.path()).is_err());
        assert_eq!(checkpoints.list().unwrap().len(), 2);
        let _in_use = Store::open(&other.path().join("a")).unwrap();
        assert!(checkpoints.copy(1, other.path().join("a")).is_err());
    }
}
