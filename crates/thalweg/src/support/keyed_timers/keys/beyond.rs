//! Keys of operators that have them in tables of their own as long as there is memory, and here once there is not. Such keys
//! are never due.
//!
//! The way here is one-way: an operator that has begun to keep its keys here keeps all of them here, so that no key is in two
//! places. Its table is then empty, and stays so.

use super::*;

impl<K: Key + ?Sized, S: TimedState> KeyedTimers<K, S> {
    /// No keys yet, unless the job goes on from a checkpoint in which some were here: one of `parts` sets of keys of the
    /// operator, which share its memory. They are in checkpoints under the name `state`, if there are any.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub(crate) fn beyond_memory(
        cx: &TaskContext<'_>,
        op: usize,
        (state, parts): (&str, usize),
        words: (&'static str, &'static str),
    ) -> Result<Self> {
        let table = cx.state::<(K::Owned, S)>(op, state, Redistribution::ByKey).if_any();
        Self::restored(cx, op, Budget::of(cx, op, parts), table, words)
    }

    /// Whether no key may go to disk.
    pub(crate) fn stays_in_memory(&self) -> bool {
        self.accounts.budget.is_in_memory()
    }

    /// The error of keys that have no room in memory and may not go to disk.
    pub(crate) fn kept_in_memory(&self) -> Error {
        self.accounts.budget.kept_in_memory()
    }

    /// Why a key could not be visited.
    pub(crate) fn why_failed(&mut self) -> Error {
        self.failure()
    }

    /// The error of a lack of memory, or of a disk, that was found when memory was accounted for.
    ///
    /// # Errors
    ///
    /// If there was one.
    pub(crate) fn check(&mut self) -> Result<()> {
        if self.accounts.failed { Err(self.failure()) } else { Ok(()) }
    }

    /// The state of a key, which comes back from disk if it is there. `None` if the key is not known, and once the job has
    /// failed.
    pub(crate) fn look_up(&mut self, hash: u64, key: &K) -> Option<&S> {
        if self.accounts.failed {
            return None;
        }
        if self.table.find(hash, key.probe()).is_none() && !self.comes_back(hash, key) {
            return None;
        }
        self.table.find(hash, key.probe()).map(|slot| &slot.state)
    }

    /// Takes a key back that is not in the table; returns whether it was on disk, and there is room for it.
    fn comes_back(&mut self, hash: u64, key: &K) -> bool {
        if self.cold.is_empty() || !self.accounts_for_those_that_came() {
            return false;
        }
        match self.cold.take(hash, key) {
            Ok(returned) => returned.is_some_and(|state| self.insert(hash, key, state)),
            Err(error) => {
                self.accounts.fail(error);
                false
            }
        }
    }

    /// Passes the next key to `see`, each once, when no more records come; `None` after the last one, and once the job has
    /// failed.
    pub(crate) fn next_at_end<R>(&mut self, mut see: impl FnMut(&K, &mut S) -> R) -> Option<R> {
        loop {
            let Self { table, ending, .. } = self;
            let seen = table.see_next_mut(ending, |key, slot| see(key, &mut slot.state));
            if seen.is_some() || !self.begins_next_portion() {
                return seen;
            }
        }
    }

    /// Saves the keys at a barrier, where [`pass`](Self::pass) is not called; all at once, so that the owner has nothing to save
    /// in parts.
    ///
    /// # Errors
    ///
    /// If they could not be written.
    pub(crate) fn save_keys(&mut self, event: Event) -> Result<()> {
        self.save(event);
        self.save_rest();
        self.check()
    }

    /// As [`pass`](Self::pass), but all keys are saved at once, so that the owner has nothing to save in parts.
    pub(crate) fn pass_whole(&mut self, event: Event) -> bool {
        let passes = self.pass(event);
        self.save_rest();
        passes
    }

    /// Removes every key, and releases the memory and the disk that they have taken.
    pub(crate) fn forget_all(&mut self) {
        self.clear();
        self.cold.release();
        self.settle();
    }
}
