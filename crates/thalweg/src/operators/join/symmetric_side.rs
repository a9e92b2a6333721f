//! One side of a symmetric join: what is kept of its records for later records of the other side.
//!
//! As long as there is memory for all records of both sides in a task, they are in a table. Then all of them move, once and for
//! all, to lists by key, which go to [disk](crate::support::keyed_timers) one by one.

use super::hash::{BuildTable, Row, SavedRows};
use crate::data::{Data, DecodeError, Key, Schema};
use crate::error::{Error, Result};
use crate::flow::{CHUNK, Event, Op, guard};
use crate::plan::TaskContext;
use crate::support::keyed_timers::{KeyedTimers, NoClock, TimedState, TimerClock};
use crate::time::Time;
use std::mem::needs_drop;

/// The parts of the memory of the join's keys.
const SIDES: usize = 2;
/// The rows of a checkpoint after which memory is accounted for.
const RESTORED: usize = 256;
/// For messages: what is kept, and what would need less memory.
const WORDS: (&str, &str) = (
    "the records of a join",
    "a join that forgets, such as `window_join` or `interval_join`, and finer keys, need less",
);

/// The records of a key on one side, with their times.
pub struct KeyRows<V, T> {
    rows: Vec<(V, T)>,
    /// What the values own on the heap.
    owned: usize,
}

/// What a value owns on the heap.
fn owned_by<V: Data>(value: &V) -> usize {
    if needs_drop::<V>() { value.heap_size() } else { 0 }
}

impl<V: Data, T: Time> KeyRows<V, T> {
    fn new() -> Self {
        Self { rows: Vec::new(), owned: 0 }
    }

    fn add(&mut self, value: V, time: T) {
        self.owned += owned_by(&value);
        self.rows.push((value, time));
    }
}

/// As its records: what they own depends on how they were made.
impl<V: Data, T: Time> Data for KeyRows<V, T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.rows.encode(out);
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let rows = Vec::<(V, T)>::decode(input)?;
        let owned = rows.iter().map(|(value, _)| owned_by(value)).sum();
        Ok(Self { rows, owned })
    }

    fn key_hash(&self) -> u64 {
        self.rows.key_hash()
    }

    fn schema() -> Schema {
        Vec::<(V, T)>::schema()
    }
}

impl<V: Data, T: Time> TimedState for KeyRows<V, T> {
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
        self.rows.capacity() * size_of::<(V, T)>() + self.owned
    }
}

/// The records of one side in a running task.
pub(super) struct Side<K: Key, V: Data, T: Time> {
    /// Those of the table, in checkpoints.
    saved: SavedRows<K, V, T>,
    /// All records, as long as there is memory; empty afterwards.
    pub(super) table: BuildTable<K, V, T>,
    /// All records from then on.
    by_key: KeyedTimers<K, KeyRows<V, T>>,
}

impl<K, V, T> Side<K, V, T>
where
    K: Data + Key<Owned = K> + Eq + Clone,
    V: Data + Clone,
    T: Time,
{
    /// An empty side, unless the job goes on from a checkpoint. The names are those of its states there: of the table, and of
    /// the records by key.
    ///
    /// # Errors
    ///
    /// If the checkpoint cannot be read, or has records by key for which there is no room.
    pub(super) fn new(cx: &TaskContext<'_>, op: usize, (rows, keys): (&str, &str)) -> Result<Self> {
        Ok(Self {
            saved: SavedRows::new(cx, op, rows, false),
            table: BuildTable::new(cx.keyed_part(op, SIDES)),
            by_key: KeyedTimers::beyond_memory(cx, op, (keys, SIDES), WORDS)?,
        })
    }

    /// Whether there are records by key.
    pub(super) fn has_keys(&self) -> bool {
        self.by_key.live() > 0
    }

    /// Restores what tables had in the checkpoint: into the table, unless records are by key already, as `beyond` says, or do
    /// not fit. Sets `beyond` then.
    ///
    /// # Errors
    ///
    /// If they cannot be read, or there is no room for them, nor on disk.
    pub(super) fn restore(&mut self, beyond: &mut bool) -> Result<()> {
        let Self { saved, table, by_key } = self;
        let mut number = 0_usize;
        saved.restore(|row, _| {
            if !*beyond && table.has_room() {
                let (hash, key, value, time) = row;
                table.rows.insert(hash, key, (value, time));
                return Ok(());
            }
            if !*beyond && by_key.stays_in_memory() {
                return Err(by_key.kept_in_memory());
            }
            *beyond = true;
            add(by_key, row);
            number += 1;
            if number.is_multiple_of(RESTORED) {
                by_key.settle();
            }
            by_key.check()
        })
    }

    /// Keeps a copy of a record in the table; returns whether there was room.
    #[inline(always)]
    pub(super) fn keep(&mut self, op: &Op, (hash, key, value, time): (u64, &K, &V, T)) -> bool {
        if !self.table.has_room() {
            return false;
        }
        let (key, value) = guard(op, || (key.clone(), value.clone()));
        self.table.rows.insert(hash, key, (value, time));
        true
    }

    /// Keeps a record by its key. If there is no room, nor on disk, the job fails.
    pub(super) fn keep_by_key(&mut self, row: Row<K, V, T>) {
        add(&mut self.by_key, row);
    }

    /// The records of a key that are kept by their key.
    pub(super) fn rows_of(&mut self, hash: u64, key: &K) -> &[(V, T)] {
        self.by_key.look_up(hash, key).map(|kept| kept.rows.as_slice()).unwrap_or_default()
    }

    /// Moves some records of the table to those by key; returns whether it has more.
    pub(super) fn moves_rows(&mut self) -> bool {
        if self.table.rows.capacity() == 0 || self.by_key.has_failed() {
            return false;
        }
        for _ in 0..CHUNK {
            let Some((hash, key, (value, time))) = self.table.rows.pop() else {
                self.table.reset();
                self.by_key.settle();
                return false;
            };
            add(&mut self.by_key, (hash, key, value, time));
        }
        self.table.shrink();
        self.by_key.settle();
        true
    }

    /// Accounts for the memory of the records by key.
    pub(super) fn settle(&mut self) {
        self.by_key.settle();
    }

    /// Whether the table should give its memory to state that has to stay in memory.
    pub(super) fn is_over_budget(&self) -> bool {
        self.table.is_over_budget()
    }

    /// Whether no record may go to disk.
    pub(super) fn stays_in_memory(&self) -> bool {
        self.by_key.stays_in_memory()
    }

    /// The error of records that have no room in memory and may not go to disk.
    pub(super) fn kept_in_memory(&self) -> Error {
        self.by_key.kept_in_memory()
    }

    /// Whether the job was failed for lack of memory, or of a disk.
    pub(super) fn has_failed(&self) -> bool {
        self.by_key.has_failed()
    }

    /// As [`has_failed`](Self::has_failed), as an error.
    ///
    /// # Errors
    ///
    /// Why it has failed, if it has.
    pub(super) fn check(&mut self) -> Result<()> {
        self.by_key.check()
    }

    /// No record of the other side comes any more: drops all records, and releases what they take in memory and on disk.
    pub(super) fn reset(&mut self) {
        self.table.reset();
        self.by_key.forget_all();
    }

    /// Saves the records of the table at a barrier.
    pub(super) fn save(&self, event: Event) {
        self.saved.save(event, |out| self.table.save(out, &[]));
    }

    /// Processes an event where the records are by key; returns whether it may be passed on.
    pub(super) fn pass(&mut self, event: Event) -> bool {
        self.by_key.pass_whole(event)
    }

    /// The number of records in the table, the number of keys with others, and the bytes that were written to disk.
    pub(super) fn counts(&self) -> (usize, usize, u64) {
        (self.table.rows.len(), self.by_key.live(), self.by_key.spilled())
    }
}

/// Adds a record to those of its key. Where there is no room, nor on disk, the job has failed.
fn add<K, V, T>(by_key: &mut KeyedTimers<K, KeyRows<V, T>>, (hash, key, value, time): Row<K, V, T>)
where
    K: Data + Key<Owned = K>,
    V: Data,
    T: Time,
{
    if let Some(mut visit) = by_key.visit(hash, &key, KeyRows::new) {
        visit.state().add(value, time);
        visit.leave(hash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rows_of_a_key_own_is_known_after_they_were_on_disk() {
        let mut rows = KeyRows::<String, ()>::new();
        (0..5).for_each(|n| rows.add("x".repeat(100 * n), ()));
        assert_eq!(rows.owned, 1000);
        let mut bytes = Vec::new();
        rows.encode(&mut bytes);
        let again = KeyRows::<String, ()>::decode(&mut &*bytes).unwrap();
        assert_eq!((again.owned, again.rows.len()), (1000, 5));
        assert!(again.heap() >= 1000 && !again.is_spent());
    }
}
