//! A folder that the hosts of a job share, and the checkpoint from which they go on together.
//!
//! The first host decides: it opens the store as a run of the job, which makes its mark, begins, and sends the others a
//! [`RestorePoint`]. Each of them checks that it sees the same folder, and reads exactly that checkpoint: the newest may be another
//! one by then, where an earlier run of the job is still alive. Before it has, it knows of no checkpoint, and writes and removes
//! nothing.

use super::Store;
use crate::checkpoint::Snapshot;
use crate::checkpoint::folder::{Folder, TEMPORARY, unique};
use crate::data::Data;
use crate::error::{Error, ErrorKind, Place, Result};
use std::sync::Arc;

/// From what the hosts of a job go on, as the first one has decided.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(crate) struct RestorePoint {
    /// The name of a file that shows whether a folder is the first host's.
    pub(in crate::checkpoint) proof: String,
    /// The checkpoint, if there is one.
    checkpoint: Option<Identity>,
    /// The length of its file.
    bytes: u64,
}

impl RestorePoint {
    /// The number of the checkpoint, and the length of its file, if there is one.
    pub(crate) fn newest(&self) -> Option<(u64, u64)> {
        self.checkpoint.map(|checkpoint| (checkpoint.number, self.bytes))
    }
}

/// Tells a checkpoint from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Data)]
struct Identity {
    number: u64,
    /// Of its head, in which are those of all that it has, its parts included.
    digest: u64,
}

/// A name that is there as long as this is.
pub(super) struct Proof {
    folder: Arc<dyn Folder>,
    pub(super) name: String,
}

impl Drop for Proof {
    fn drop(&mut self) {
        // One that is left is removed when the job begins again.
        let _ = self.folder.remove(&self.name);
    }
}

impl Store {
    /// As [`open_run`](Self::open_run), by the first of several hosts.
    pub(crate) fn open_first(folder: &Arc<dyn Folder>) -> Result<Self> {
        let mut store = Self::open_run(folder)?;
        let failed = |cause| Error::io(folder.path(), "use the directory of checkpoints", cause);
        let name = unique(TEMPORARY, 12).map_err(failed)?;
        folder.create(&name, &[name.as_bytes()], &mut || true).map_err(failed)?;
        store.proof = Some(Proof { folder: Arc::clone(folder), name });
        Ok(store)
    }

    /// The checkpoints in a folder, as another host than the first uses it, which writes parts only, once it has
    /// [restored](Self::restore).
    pub(crate) fn join(folder: &Arc<dyn Folder>) -> Self {
        Self::of(folder, None)
    }

    /// On the first of several hosts, which has [begun](Self::begin) with this checkpoint, or with none: what the others need to go
    /// on from it. `None` on a job's only host.
    pub(crate) fn restore_point(&self, begun: Option<&super::Stored>) -> Option<RestorePoint> {
        let proof = self.proof.as_ref()?.name.clone();
        let identity =
            |stored: &super::Stored| Identity { number: stored.number, digest: stored.digest };
        let bytes = begun.map_or(0, |stored| stored.own);
        Some(RestorePoint { proof, checkpoint: begun.map(identity), bytes })
    }

    /// On another host than the first: reads the checkpoint from which that one goes on, if there is one.
    ///
    /// # Errors
    ///
    /// If the folder is another one, or the checkpoint is not there or not the same; if it cannot be read. What newer or older ones
    /// there are does not matter.
    pub(crate) fn restore(&self, point: &RestorePoint) -> Result<Option<Snapshot>> {
        self.check_proof(&point.proof)?;
        let Some(Identity { number, digest }) = point.checkpoint else { return Ok(None) };
        let refused = |kind, what| Err(Error::new(kind, what).at(Place::File(self.path(number))));
        if Self::look_at(&*self.folder, &Self::name_of(number))?.is_none() {
            let what = "the checkpoint from which the first host goes on is not there on this one: all hosts must share the \
                        directory, and no other run of the job may use it";
            return refused(ErrorKind::Config, what);
        }
        let (snapshot, _, own) = self.read(number)?;
        if own != digest {
            let what = "this is another checkpoint than the one with this number from which the first host goes on";
            return refused(ErrorKind::Input, what);
        }
        Ok(Some(snapshot))
    }

    /// Checks that this is the folder of the first host.
    ///
    /// # Errors
    ///
    /// If it is not.
    fn check_proof(&self, proof: &str) -> Result<()> {
        let seen = self.folder.look_at(proof);
        if seen
            .map_err(|cause| {
                Error::io(self.dir(), "look into the directory of checkpoints", cause)
            })?
            .is_some()
        {
            let _ = self.run.set(proof.trim_start_matches(TEMPORARY).to_owned());
            return Ok(());
        }
        let what =
            "the directory of checkpoints is not that of the first host: all hosts must share it";
        Err(Error::new(ErrorKind::Config, what).at(Place::File(self.dir().to_owned())))
    }
}
