//! Saves keys at barriers.

use super::*;
use crate::support::gradual_save::ToSave;

impl<S: TimedState> ToSave for Slot<S> {
    type State = S;

    fn to_save(&self) -> Option<&S> {
        (!self.state.is_spent()).then_some(&self.state)
    }
}

impl<K: Key + ?Sized, S: TimedState> KeyedTimers<K, S> {
    /// Saves the keys at a barrier: those on disk at once, and the table too if it is small; else in parts, while it changes.
    pub(super) fn save(&mut self, event: Event) {
        let Self { table, cold, accounts, watermark, ended, saved, saving, .. } = self;
        saved.watermark.save(event, true, *watermark);
        let Some(mut open) = saved.table.open(event) else { return };
        GradualSave::save_rest(saving, table);
        // No record needs them any more at the end.
        if *ended || event == Event::End {
            return open.end();
        }
        if let Err(error) = cold.save(&mut open.saving) {
            accounts.fail(error);
        }
        if accounts.failed {
            // Some keys may be in two places, or in none.
            open.saving.refuse("some of its keys could not be moved to disk");
            return open.end();
        }
        *saving = GradualSave::begin(open, table);
    }

    /// Saves the next part of the table, if it is being saved; returns whether there is more.
    pub(crate) fn save_part(&mut self) -> bool {
        GradualSave::save_part(&mut self.saving, &self.table)
    }

    /// Saves what is left of the table, if it is being saved: before keys leave their slots.
    pub(super) fn save_rest(&mut self) {
        GradualSave::save_rest(&mut self.saving, &self.table);
    }

    /// Saves a key of the table before it changes, if that is still to be done.
    #[cold]
    #[inline(never)]
    pub(super) fn save_before(&mut self, hash: u64, probe: K::Probe<'_>) {
        if let Some(saving) = &mut self.saving {
            saving.before_change(&mut self.table, hash, probe);
        }
    }
}
