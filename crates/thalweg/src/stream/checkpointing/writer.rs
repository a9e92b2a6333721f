//! Stores the checkpoints of a job, one after the other, or a host's parts of them; and what there is when all tasks have ended.

use super::{LOOK, old};
use crate::checkpoint::{Part, RestorePoint, Snapshot, Storage, Store, Taken};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::metrics::show;
use crate::net::HostId;
use crate::stream::watch::Warnings;
use crate::sync::{Condvar, Mutex, lock};
use std::path::PathBuf;
use std::time::Duration;

/// The pauses after which the last checkpoint of a job that ends is tried again, if it could not be stored: no later one is taken.
pub(super) const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(10)];

/// Stores snapshots one after the other.
pub(super) struct Writer {
    pub(super) store: Store,
    /// The directory as the configuration names it.
    pub(super) named: PathBuf,
    pub(super) host: HostId,
    /// On the first of several hosts: from what the others go on.
    pub(super) point: Option<RestorePoint>,
    pub(super) written: Mutex<Written>,
    pub(super) warnings: Warnings,
    /// As [`PAUSES`].
    pub(super) pauses: [Duration; 2],
}

/// How far the checkpoints of a job are.
pub(super) struct Written {
    /// The number of the last one, whether or not it could be written.
    pub(super) last: u64,
    /// The number of the last one that is complete, or 0.
    pub(super) complete: u64,
    /// Whether the last one was taken at the end of all tasks: none follows.
    pub(super) ended: bool,
}

impl Writer {
    /// Writes a checkpoint, unless the last one was written; returns its number and the length of its file. If it is not written, its
    /// parts are removed, but for those of the last one, which may be tried again: the next run removes them.
    pub(super) fn write(
        &self,
        taken: &Taken,
        parts: &[Part],
        ended: bool,
    ) -> Result<Option<(u64, u64)>> {
        let remove_parts = || {
            if !ended {
                self.store.remove_parts(parts.to_vec());
            }
        };
        let mut written = lock(&self.written);
        if written.ended {
            remove_parts();
            return Ok(None);
        }
        if let Err(error) = taken.syncs.iter().try_for_each(|sync| sync()) {
            remove_parts();
            return Err(error);
        }
        // Also if it fails: a number is never used twice.
        written.last += 1;
        let stored = self.store.write(written.last, &taken.snapshot, parts.to_vec());
        // A network's file system may say so of a file that it has stored.
        if stored.is_err() && self.store.lacks(written.last) {
            remove_parts();
        }
        let bytes = stored?;
        (written.complete, written.ended) = (written.last, ended);
        Ok(Some((written.complete, bytes)))
    }

    /// Whether one that could not be written since the one with this number may be there all the same.
    pub(super) fn may_be_there(&self, before: u64) -> bool {
        let written = lock(&self.written);
        before < written.last && self.store.refers_with(written.last)
    }

    /// The age of the newest checkpoint, where that is known; `None` if there is no checkpoint.
    fn age(&self) -> Option<Option<Duration>> {
        let number = lock(&self.written).complete;
        if number == 0 { None } else { self.store.age(number) }
    }

    /// From what the next run of the job goes on.
    pub(super) fn onward(&self) -> String {
        match self.age() {
            Some(age) => self.goes_on(&age.map_or_else(String::new, old)),
            None => "it begins anew when it is started again".to_owned(),
        }
    }

    /// That the next run of the job goes on from the newest checkpoint, of this age.
    pub(super) fn goes_on(&self, age: &str) -> String {
        let (number, dir) = (lock(&self.written).complete, self.named.display());
        format!("it goes on from checkpoint {number} of {dir}{age} when it is started again")
    }

    /// The error of a job whose last checkpoint could not be stored.
    pub(super) fn not_stored(&self, cause: Error) -> Error {
        // It is not to be started again: another run of the job has begun. A second look might not show it.
        if cause.kind() == ErrorKind::Config {
            return cause;
        }
        if let Some(superseded) = self.store.superseded() {
            return superseded;
        }
        let what = format!(
            "the job has worked through its input, and publishes nothing, as its last checkpoint could not be stored: {}",
            self.onward()
        );
        let place = Place::File(self.named.clone());
        Error::new(cause.kind(), what).at(place).caused_by(cause.to_string())
    }

    /// Warns that there is no last checkpoint, as what a task has cannot be saved.
    fn not_taken(&self, why: &Error) {
        self.warnings.of_checkpoint(&format!("{why}; the job ends without a last checkpoint"));
    }

    /// Warns that this host's part of the last checkpoint is not stored.
    fn lacks_end(&self, error: &Error) {
        self.warnings.of_checkpoint(&format!(
            "{error}; all tasks of this host have ended, and its part of the last checkpoint is written again when the next checkpoint \
             counts: until then, the job cannot end well"
        ));
    }

    /// Writes what tasks of this host have saved, on another host than the first.
    pub(super) fn write_part(&self, taken: &Taken) -> Result<Part> {
        taken.syncs.iter().try_for_each(|sync| sync())?;
        self.store.write_part(self.host, &taken.snapshot)
    }

    /// Stores what tasks have saved at their end, if need be in several attempts.
    fn insist<T>(&self, may_wait: &dyn Fn() -> bool, store: impl Fn() -> Result<T>) -> Result<T> {
        let warn = |what: &str| self.warnings.of_checkpoint(what);
        try_again(self.pauses, may_wait, &warn, store)
    }
}

impl Storage for Writer {
    /// Files get their names one after the other: if the process dies in between, another one must know that all of them
    /// were complete. From the checkpoint before, it would commit once more what comes behind that, and one that was drained
    /// would read on.
    fn store_last(
        &self,
        taken: Result<Taken>,
        parts: Result<Vec<Part>>,
        may_wait: &dyn Fn() -> bool,
    ) -> Result<()> {
        let taken = match taken {
            Ok(taken) => taken,
            Err(why) => {
                self.not_taken(&why);
                return Ok(());
            }
        };
        let stored =
            parts.and_then(|parts| self.insist(may_wait, || self.write(&taken, &parts, true)));
        stored.map(drop).map_err(|cause| self.not_stored(cause))
    }

    fn store_last_part(
        &self,
        taken: Result<Taken>,
        may_wait: &dyn Fn() -> bool,
    ) -> Result<Option<Part>> {
        match taken {
            Ok(taken) => {
                let stored = self.insist(may_wait, || self.write_part(&taken));
                stored.inspect_err(|error| self.lacks_end(error)).map(Some)
            }
            Err(why) => {
                self.not_taken(&why);
                Ok(None)
            }
        }
    }

    fn may_publish(&self) -> Result<()> {
        self.store.may_publish()
    }

    fn restore_point(&self) -> Option<RestorePoint> {
        self.point.clone()
    }

    fn restore(&self, point: &RestorePoint) -> Result<Option<Snapshot>> {
        self.store.folder().pass_time();
        self.store.restore(point)
    }
}

/// Stores something, in as many attempts as there are pauses and one more, as long as they `may_wait`. Only where the storage fails:
/// whatever else keeps it from being stored does so the next time, too.
fn try_again<T>(
    pauses: [Duration; 2],
    may_wait: &dyn Fn() -> bool,
    warn: &dyn Fn(&str),
    store: impl Fn() -> Result<T>,
) -> Result<T> {
    for pause in pauses {
        match store() {
            Err(error) if error.kind() == ErrorKind::Io && may_wait() => {
                let after = show::span(pause);
                warn(&format!("{error}; the last checkpoint of the job is tried again in {after}"));
                if !wait_for(pause, may_wait) {
                    return Err(error);
                }
            }
            stored => return stored,
        }
    }
    store()
}

/// Blocks the calling thread for so long, as long as it `may_wait`; returns whether it still may.
fn wait_for(span: Duration, may_wait: &dyn Fn() -> bool) -> bool {
    let (nothing, never) = (Mutex::new(()), Condvar::new());
    let mut left = span;
    while may_wait() {
        if left.is_zero() {
            return true;
        }
        let until_look = left.min(LOOK);
        drop(never.wait_timeout(lock(&nothing), until_look));
        left -= until_look;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn what_cannot_be_stored_at_the_end_is_tried_again_twice_unless_that_is_in_vain() {
        let attempts = |kind, pause, may_wait: &dyn Fn() -> bool| {
            let (made, warned) = (Cell::new(0), Cell::new(0));
            let store = || {
                made.set(made.get() + 1);
                Err::<(), _>(Error::new(kind, "it fails"))
            };
            let warn = |what: &str| {
                assert!(what.contains("it fails"), "{what}");
                warned.set(warned.get() + 1);
            };
            let stored = try_again([pause; 2], may_wait, &warn, store);
            assert_eq!(stored.unwrap_err().kind(), kind);
            (made.get(), warned.get())
        };
        assert_eq!(attempts(ErrorKind::Io, Duration::ZERO, &|| true), (3, 2));
        // Another run has begun.
        assert_eq!(attempts(ErrorKind::Config, Duration::ZERO, &|| true), (1, 0));
        assert_eq!(attempts(ErrorKind::Io, Duration::ZERO, &|| false), (1, 0));
        // The job is cancelled in the first pause.
        let looks = Cell::new(0);
        let soon = || {
            looks.set(looks.get() + 1);
            looks.get() < 4
        };
        assert_eq!(attempts(ErrorKind::Io, Duration::from_secs(60), &soon), (1, 1));
        let store = || Ok::<_, Error>(7);
        assert_eq!(try_again([Duration::ZERO; 2], &|| true, &|_| panic!(), store).unwrap(), 7);
    }
}
