//! What the tasks of a job have saved at their end is stored before the job publishes its outputs.
//!
//! On another host than the first, that may be long before: its part is stored when its own tasks have ended, so that the first host
//! can have it at any time. Checkpoints that are taken later commit what these tasks had prepared, and systems outside forget it. So
//! the part is stored again when such a checkpoint counts, without what was committed; and so it is where that has failed.

use super::{Checkpoints, Part};
use crate::error::Result;
use crate::flow::{AtEnd, Signals};
use crate::sync::Ordering;

impl AtEnd for Checkpoints {
    fn ended_here(&self, job: &Signals) -> Result<Option<Vec<u8>>> {
        let part = self.store_part(job, &|| !job.stopped())?;
        Ok(part.map(|part| part.report()))
    }

    /// A single attempt, which the next checkpoint that counts makes up for: those that are taken meanwhile wait for it.
    fn ended_before(&self, job: &Signals) -> Option<Vec<u8>> {
        let part = self.store_part(job, &|| false).ok()??;
        Some(part.report())
    }

    fn before_publishing(&self, reports: Result<Vec<Vec<u8>>>, job: &Signals) -> Result<()> {
        let Some(storage) = &self.storage else { return Ok(()) };
        let read = |reports: Vec<Vec<u8>>| -> Result<Vec<Part>> {
            reports.iter().map(|report| Part::read(report)).collect()
        };
        let taken = self.take_last(job.draining());
        storage.store_last(taken, reports.and_then(read), &|| !job.stopped())?;
        self.release_files();
        Ok(())
    }

    fn may_publish(&self) -> Result<()> {
        self.storage.as_ref().map_or(Ok(()), |storage| storage.may_publish())
    }
}

impl Checkpoints {
    /// Stores this host's part of the last snapshot. Its callers take turns.
    fn store_part(&self, job: &Signals, may_wait: &dyn Fn() -> bool) -> Result<Option<Part>> {
        let Some(storage) = &self.storage else { return Ok(None) };
        // Before the part is taken: from then on, nothing may be removed to which it refers.
        let had_ended = self.has_ended.swap(true, Ordering::AcqRel);
        let stored = storage.store_last_part(self.take_last(job.draining()), may_wait);
        let is_stored = matches!(stored, Ok(Some(_)));
        if is_stored {
            self.release_files();
        }
        // If it is not, a part that was stored before counts yet. Without any, later checkpoints copy what they have.
        self.has_ended.store(had_ended || is_stored, Ordering::Release);
        self.lacks_end.store(stored.is_err(), Ordering::Release);
        stored
    }

    /// Whether this host's part of the last snapshot could not be stored as it is now.
    pub(crate) fn lacks_end(&self) -> bool {
        self.lacks_end.load(Ordering::Acquire)
    }
}
