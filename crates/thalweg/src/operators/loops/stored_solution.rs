//! The solution of a delta iteration once memory is short: its keys, with their values, go to disk one by one (see
//! [`keyed_timers`](crate::support::keyed_timers)), and the keys that have changed wait in a queue.

use crate::checkpoint::{Redistribution, StateHandle};
use crate::data::{Data, DecodeError, Key, Schema};
use crate::error::{Error, Result};
use crate::flow::Event;
use crate::plan::TaskContext;
use crate::support::keyed_timers::{KeyedTimers, NoClock, Remembered, TimedState, TimerClock};
use crate::support::queue::Waiting;
use std::mem::needs_drop;

/// Visits of keys after which memory is accounted for.
const VISITS: usize = 256;
/// For messages: what is kept, and what would need less memory.
const WORDS: (&str, &str) =
    ("the values of the solution", "smaller values, or finer keys, need less");

/// The value of a key, which is missing while the key is new, and whether it has changed in this round.
///
/// What it owns is known at each change, as in a table in memory: many keys may be new between two accounts of memory.
struct Entry<V> {
    value: Option<V>,
    is_changed: bool,
    /// What the value owns on the heap.
    owned: usize,
}

impl<V: Data> Entry<V> {
    fn new() -> Self {
        Self::of(None, false)
    }

    fn of(value: Option<V>, is_changed: bool) -> Self {
        let mut entry = Self { value, is_changed, owned: 0 };
        entry.measure();
        entry
    }

    /// Called when the value has changed.
    fn measure(&mut self) {
        self.owned = if needs_drop::<V>() { self.value.heap_size() } else { 0 };
    }
}

impl<V: Data> Data for Entry<V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.value.encode(out);
        self.is_changed.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (value, is_changed) = <(Option<V>, bool)>::decode(input)?;
        Ok(Self::of(value, is_changed))
    }

    fn key_hash(&self) -> u64 {
        self.value.key_hash()
    }

    fn schema() -> Schema {
        <(Option<V>, bool)>::schema()
    }
}

impl<V: Data> TimedState for Entry<V> {
    type Clocks = NoClock;
    type Owned = ();

    #[inline(always)]
    fn due(&self, _: TimerClock) -> Option<i64> {
        None
    }

    #[inline(always)]
    fn is_spent(&self) -> bool {
        false
    }

    #[inline(always)]
    fn heap(&self) -> usize {
        self.owned
    }
}

/// The part of a solution whose keys a task owns, in memory and on disk.
pub(super) struct StoredSolution<K: Data + Key, V: Data> {
    keys: KeyedTimers<K, Entry<V>>,
    /// The keys whose values have changed in this round, each once. As a type of its own, such a key is known to be a record by
    /// value, which a type with the bounds of keys is not.
    changed: Waiting<Remembered<K>>,
    /// In a job with checkpoints, those whose values had changed in the last round: their entries are the next round's.
    fed_back: Option<Waiting<Remembered<K>>>,
    /// The keys of both, in checkpoints.
    next: StateHandle,
    /// Visits of keys since memory was accounted for.
    visits: usize,
}

impl<K, V> StoredSolution<K, V>
where
    K: Data + Key<Owned = K> + Eq + Clone,
    V: Data + Clone,
{
    /// Empty, unless the job goes on from a checkpoint in which a solution was stored.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read, or there is no room for what it has.
    pub(super) fn new(cx: &TaskContext<'_>, op: usize) -> Result<Self> {
        let queue = || Waiting::<Remembered<K>>::new(cx, op).hashed_by(Data::key_hash);
        let next = cx.state::<K>(op, "changed keys", Redistribution::ByKey).if_any();
        let mut stored = Self {
            keys: KeyedTimers::beyond_memory(cx, op, ("solution by key", 1), WORDS)?,
            changed: queue(),
            fed_back: cx.has_checkpoints().then(queue),
            next: StateHandle::none(),
            visits: 0,
        };
        next.restore(|key: K| stored.changes(key))?;
        next.restore_files(|file| {
            let mut reader = file.open::<Remembered<K>>(cx.spill)?.read();
            reader.skip(file.note::<u64>()?)?;
            while let Some(Remembered(key)) = reader.next(Data::key_hash, |key| key)? {
                stored.changes(key)?;
            }
            Ok(())
        })?;
        stored.next = next;
        Ok(stored)
    }

    /// Whether it has any keys.
    pub(super) fn has_keys(&self) -> bool {
        self.keys.live() > 0
    }

    /// Whether no key may go to disk.
    pub(super) fn stays_in_memory(&self) -> bool {
        self.keys.stays_in_memory()
    }

    /// The error of keys that have no room in memory and may not go to disk.
    pub(super) fn kept_in_memory(&self) -> Error {
        self.keys.kept_in_memory()
    }

    /// The bytes written to disk.
    pub(super) fn written(&self) -> u64 {
        let fed_back = self.fed_back.as_ref().map_or(0, Waiting::written);
        self.keys.spilled() + self.changed.written() + fed_back
    }

    /// A key that is known has changed.
    fn changes(&mut self, key: K) -> Result<()> {
        let hash = key.key_hash();
        let Some(mut visit) = self.keys.visit(hash, &key, Entry::new) else {
            return Err(self.keys.why_failed());
        };
        visit.state().is_changed = true;
        visit.leave(hash);
        self.changed.push(Remembered(key))?;
        self.settles()
    }

    /// Adds a key, with whether it has changed in this round and in the last one.
    pub(super) fn add(
        &mut self,
        key: K,
        value: V,
        (is_changed, was_changed): (bool, bool),
    ) -> Result<()> {
        let hash = key.key_hash();
        let start = || Entry::of(Some(value), is_changed);
        let Some(visit) = self.keys.visit(hash, &key, start) else {
            return Err(self.keys.why_failed());
        };
        visit.leave(hash);
        if was_changed && let Some(fed_back) = &mut self.fed_back {
            fed_back.push(Remembered(key.clone()))?;
        }
        if is_changed {
            self.changed.push(Remembered(key))?;
        }
        self.settles()
    }

    /// Offers a value to a key, as to a [solution](super::solution::Solution::take) in memory.
    pub(super) fn take(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        improve: impl FnOnce(&mut V, V) -> bool,
    ) -> Result<()> {
        let Some(mut visit) = self.keys.visit(hash, &key, Entry::new) else {
            return Err(self.keys.why_failed());
        };
        let entry = visit.state();
        let changes = match &mut entry.value {
            Some(current) => improve(current, value),
            new => {
                *new = Some(value);
                true
            }
        };
        let is_first = changes && !std::mem::replace(&mut entry.is_changed, true);
        if changes {
            entry.measure();
        }
        visit.leave(hash);
        if is_first {
            self.changed.push(Remembered(key))?;
        }
        self.settles()
    }

    /// Passes the entries that have changed since the last call to `each`, each once.
    pub(super) fn take_changed(
        &mut self,
        mut each: impl FnMut((K, V)) -> Result<()>,
    ) -> Result<()> {
        if let Some(fed_back) = &mut self.fed_back {
            fed_back.clear();
        }
        while let Some(Remembered(key)) = self.changed.pop()? {
            let hash = key.key_hash();
            let Some(mut visit) = self.keys.visit(hash, &key, Entry::new) else {
                return Err(self.keys.why_failed());
            };
            let entry = visit.state();
            entry.is_changed = false;
            let value = entry.value.clone();
            visit.leave(hash);
            self.settles()?;
            let Some(value) = value else { continue };
            if let Some(fed_back) = &mut self.fed_back {
                fed_back.push(Remembered(key.clone()))?;
            }
            each((key, value))?;
        }
        self.settle()
    }

    fn settles(&mut self) -> Result<()> {
        self.visits += 1;
        if self.visits < VISITS { Ok(()) } else { self.settle() }
    }

    /// Accounts for the memory of the keys, of which some may go to disk.
    pub(super) fn settle(&mut self) -> Result<()> {
        self.visits = 0;
        self.keys.settle();
        self.keys.check()
    }

    /// Saves the entries, and the keys of those that belong to the next round, at a barrier.
    pub(super) fn save(&mut self, event: Event) -> Result<()> {
        self.keys.save_keys(event)?;
        let Self { changed, fed_back, next, .. } = self;
        next.try_save(event, |out| {
            if event == Event::End {
                return Ok(());
            }
            for queue in fed_back.iter_mut().chain([changed]) {
                for key in queue.in_memory() {
                    out.add_by_key(key.key_hash(), |bytes| key.encode(bytes));
                }
                queue.save_files(out, |out, keys, removed| out.add_share(keys, &removed))?;
            }
            Ok(())
        })
    }

    /// Removes and returns the next entry when the loop is over; `None` after the last one.
    pub(super) fn next_left(&mut self) -> Result<Option<(K, V)>> {
        let take = |key: &K, entry: &mut Entry<V>| (key.clone(), entry.value.take());
        while let Some((key, value)) = self.keys.next_at_end(take) {
            if let Some(value) = value {
                return Ok(Some((key, value)));
            }
        }
        self.keys.check().map(|()| None)
    }

    /// Removes all entries, and releases what they take in memory and on disk.
    pub(super) fn clear(&mut self) {
        self.keys.forget_all();
        self.changed.clear();
        if let Some(fed_back) = &mut self.fed_back {
            fed_back.clear();
        }
        self.visits = 0;
    }
}
