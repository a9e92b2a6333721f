//! Copies of checkpoints in directories of their own, which no job removes: what Flink calls savepoints.
#![expect(clippy::disallowed_methods, reason = "a door by which checkpoints reach files")]

use super::store::{Store, TEMPORARY};
use crate::error::{Error, ErrorKind, Place, Result};
use std::fs::File;
use std::io;
use std::path::Path;

/// Copies a checkpoint, with all that it refers to, into a directory that has none. It is there when all of it is, and on the
/// disk.
pub(super) fn copy(from: &Path, number: u64, to: &Path) -> Result<()> {
    let source = Store::path_of(from, number);
    let referred = Store::refers_to(&source)?;
    let to = Store::directory(to)?;
    let target = Store::open(&to)?;
    if let Some(other) = Store::numbers(&to)?.last() {
        let what = "this directory has checkpoints already, and a job begins with the newest: a copy needs one of its own";
        let place = Place::File(Store::path_of(&to, *other));
        return Err(Error::new(ErrorKind::Config, what).at(place));
    }
    let copied = referred.iter().try_for_each(|name| copy_file(&from.join(name), &to.join(name)));
    // Last: it counts from then on.
    let copied = copied.and_then(|()| copy_file(&source, &Store::path_of(&to, number)));
    if let Err(error) = copied {
        target.remove_unneeded(|_| true);
        return Err(error);
    }
    // Some file systems do not support this, and do not need it.
    let _ = File::open(&to).and_then(|dir| dir.sync_all());
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> Result<()> {
    let failed = |what: &'static str, path: &Path| {
        let path = path.to_owned();
        move |cause| Error::io(&path, what, cause)
    };
    let mut source = File::open(from).map_err(failed("read the checkpoint", from))?;
    let dir = to.parent().unwrap_or(Path::new("."));
    let copy = tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(dir);
    let mut copy = copy.map_err(failed("write the copy", to))?;
    io::copy(&mut source, &mut copy).map_err(failed("write the copy", to))?;
    copy.as_file().sync_all().map_err(failed("write the copy", to))?;
    let named = copy.persist_noclobber(to).map_err(|error| error.error);
    named.map_err(failed("write the copy", to)).map(drop)
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
        assert_eq!(copy.bytes, checkpoints.list().unwrap()[0].bytes);
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
        // A job that uses the directory would be disturbed.
        let _in_use = Store::open(&other.path().join("a")).unwrap();
        assert!(checkpoints.copy(1, other.path().join("a")).is_err());
    }
}
