//! What the tasks of a job have saved at their end is stored before the job publishes its outputs.

use super::{Checkpoints, Part};
use crate::error::Result;
use crate::flow::{AtEnd, Signals};
use crate::sync::Ordering;

impl AtEnd for Checkpoints {
    fn ended_here(&self, job: &Signals) -> Result<Option<Vec<u8>>> {
        let Some(storage) = &self.storage else { return Ok(None) };
        // Before the part is taken: from then on, nothing may be removed to which it refers.
        self.has_ended.store(true, Ordering::Release);
        let taken = self.take_last(job.draining());
        let stored = storage.store_last_part(taken, &|| !job.stopped());
        match stored {
            Ok(Some(_)) => self.release_files(),
            // Later checkpoints have what there is then, and copy it.
            Ok(None) | Err(_) => self.has_ended.store(false, Ordering::Release),
        }
        Ok(stored?.map(|part| part.report()))
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
