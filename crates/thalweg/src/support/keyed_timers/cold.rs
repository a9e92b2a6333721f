//! The keys of a task that are on disk, and their part of checkpoints.
//!
//! Their states are in a [`KeyStore`], which checkpoints cannot copy as it changes in place. So in a job with checkpoints
//! each key that goes to the store or leaves it is also written to a *log*, a spill file that only grows: a checkpoint refers
//! to what the log holds at its barrier, and copies what was written since the one before. When most of the log is of no use
//! any more, another one is begun with all that is in the store.
//!
//! A new key is in neither place. A filter of the hashes of keys that have gone to the store spares most of them the search on disk.
//!
//! A job that goes on from a checkpoint fills its store from the logs of the tasks that had keys which are now its own, and
//! refers to these files until it begins another log.

use crate::checkpoint::{Saving, StateHandle, check_spilled};
use crate::data::{Data, DecodeError, Key, hash_u64, of_ours};
use crate::error::{Error, ErrorKind, Result};
use crate::state::{Entry, KeyStore, Portion, SpillDir, SpillShare, SpillWriter, rest};
use std::marker::PhantomData;

/// The records of a log, beside twice as many as there are keys, before another one is begun.
const LONG: u64 = 4096;
/// Its bytes, beside four times those of the keys and their states.
const LONG_BYTES: u64 = 64 << 20;
/// In a record of a log: a key has gone to the store with its state, or has left it.
const STORED: u8 = 1;
const TAKEN: u8 = 0;
/// The bytes of the filter: one for so many of the cache.
const FILTER: usize = 8;
/// Hashes that may be added to the filter, besides twice the number of keys, before it is rebuilt: one for this many of its
/// bits. With few keys, one search in seventy then finds nothing.
const STALE: usize = 16;
/// A filter is not rebuilt if there is more than one key for this many of its bits, as it would be as full again.
const CROWDED: usize = 4;
/// The bytes of a hash.
const HASH: usize = 8;

/// A key from the store, with its state.
pub(crate) type Returned<K, S> = (u64, K, S);

/// The keys of a task that are on disk.
pub(crate) struct Cold<K: Key + ?Sized, S> {
    store: KeyStore,
    filter: Filter,
    /// In a job with checkpoints.
    log: Option<Log>,
    entry: Entry,
    types: PhantomData<fn(&K) -> S>,
}

/// The hashes of keys that have gone to the store, with two bits for each (Bloom, 1970).
struct Filter {
    /// None before the first key.
    words: Vec<u64>,
    /// How many there are to be, a power of two.
    size: usize,
    /// The hashes that were added.
    added: usize,
    /// The bytes of keys and states that have gone to disk since the filter was made.
    fed: u64,
}

impl Filter {
    fn new(bytes: usize) -> Self {
        let size = (bytes / size_of::<u64>()).max(1).next_power_of_two();
        Self { words: Vec::new(), size, added: 0, fed: 0 }
    }

    fn bytes(&self) -> usize {
        self.words.len() * size_of::<u64>()
    }

    fn clear(&mut self) {
        self.words.fill(0);
        (self.added, self.fed) = (0, 0);
    }

    /// Removes every hash, and the memory.
    fn release(&mut self) {
        (self.words, self.added, self.fed) = (Vec::new(), 0, 0);
    }

    /// Whether many of the hashes are of keys that have left the disk, where `keys` keys of `held` bytes are left. A rebuild
    /// reads these, so it waits until as many bytes were written.
    fn is_stale(&self, keys: usize, held: u64) -> bool {
        let bits = self.size * u64::BITS as usize;
        self.added > 2 * keys + bits / STALE && keys <= bits / CROWDED && self.fed >= held
    }

    /// The words and bits of a hash.
    fn places(&self, hash: u64) -> [(usize, u64); 2] {
        let mixed = hash_u64(hash);
        [mixed, mixed.rotate_right(32)].map(|bits| {
            let word = (bits >> 6) as usize & (self.size - 1);
            (word, 1 << (bits & 63))
        })
    }

    fn add(&mut self, hash: u64) {
        if self.words.is_empty() {
            self.words.resize(self.size, 0);
        }
        self.added += 1;
        for (word, bit) in self.places(hash) {
            self.words[word] |= bit;
        }
    }

    /// Whether this hash may have been added.
    fn may_have(&self, hash: u64) -> bool {
        let has =
            |(word, bit): (usize, u64)| self.words.get(word).is_some_and(|word| word & bit != 0);
        self.places(hash).into_iter().all(has)
    }
}

/// What has happened in the store.
struct Log {
    /// Logs with which the job has begun.
    before: Vec<SpillShare<[u8]>>,
    writer: SpillWriter<[u8]>,
    /// Records in those before, and their bytes.
    records_before: u64,
    bytes_before: u64,
    spill: SpillDir,
    record: Vec<u8>,
    /// The bytes of logs that are over.
    written: u64,
    /// What a record could not be written for.
    failed: Option<Error>,
}

impl Log {
    fn new(spill: SpillDir) -> Self {
        Self {
            before: Vec::new(),
            writer: spill.writer(),
            records_before: 0,
            bytes_before: 0,
            spill,
            record: Vec::new(),
            written: 0,
            failed: None,
        }
    }

    fn note(&mut self, what: u8, entry: &Entry) {
        let Self { writer, record, failed, .. } = self;
        if failed.is_some() {
            return;
        }
        record.clear();
        record.extend_from_slice(&entry.hash().to_be_bytes());
        record.push(what);
        record.extend_from_slice(&(entry.key().len() as u64).to_be_bytes());
        record.extend_from_slice(entry.key());
        if what == STORED {
            record.extend_from_slice(&entry.state);
        }
        *failed = writer.push(&record.as_slice()).err();
        rest(record);
    }

    /// The error of a record that could not be written.
    fn check(&mut self) -> Result<()> {
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Begins anew, with nothing.
    fn clear(&mut self) {
        self.written += self.writer.bytes();
        self.writer = self.spill.writer();
        self.before.clear();
        (self.records_before, self.bytes_before) = (0, 0);
    }

    fn bytes(&self) -> u64 {
        self.bytes_before + self.writer.bytes()
    }

    fn records(&self) -> u64 {
        self.records_before + self.writer.records()
    }
}

/// A record of a log.
struct Noted<'a> {
    hash: u64,
    key: &'a [u8],
    state: Option<&'a [u8]>,
}

fn read_record(record: &[u8]) -> Option<Noted<'_>> {
    let (hash, rest) = record.split_first_chunk()?;
    let (what, rest) = rest.split_first()?;
    let (length, rest) = rest.split_first_chunk()?;
    let length = usize::try_from(u64::from_be_bytes(*length)).ok()?;
    let (key, state) = rest.split_at_checked(length)?;
    let hash = u64::from_be_bytes(*hash);
    Some(Noted { hash, key, state: (*what == STORED).then_some(state) })
}

/// The hash in a record of a log.
fn hash_in(record: &[u8]) -> u64 {
    record.first_chunk().map_or(0, |hash: &[u8; HASH]| u64::from_be_bytes(*hash))
}

fn unreadable(what: &str, error: DecodeError) -> Error {
    Error::new(ErrorKind::Io, format!("{what} cannot be read back from disk: {error}"))
}

fn decoded<T: Data>(what: &str, mut bytes: &[u8]) -> Result<T> {
    of_ours(|| T::decode(&mut bytes)).map_err(|error| unreadable(what, error))
}

impl<K: Key + ?Sized, S: Data> Cold<K, S> {
    /// None yet, in a store with a cache of so many bytes; states are due by so many clocks.
    pub(crate) fn new(spill: SpillDir, cache: usize, clocks: usize) -> Self {
        let store = KeyStore::new(spill, cache, clocks);
        let (filter, entry) = (Filter::new(cache / FILTER), Entry::default());
        Self { store, filter, log: None, entry, types: PhantomData }
    }

    /// Notes from now on what checkpoints need.
    pub(crate) fn begin_log(&mut self, spill: &SpillDir) {
        self.log = Some(Log::new(spill.clone()));
    }

    /// Whether no key is on disk.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.store.is_empty()
    }

    /// The number of keys on disk.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.store.len()
    }

    /// The bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.store.bytes() + self.filter.bytes()
    }

    /// The bytes of all keys on disk and their states.
    pub(crate) fn held(&self) -> u64 {
        self.store.held()
    }

    /// The bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        let log = self.log.as_ref().map_or(0, |log| log.written + log.writer.bytes());
        self.store.written() + log
    }

    /// The first time at which a key on disk is due by a clock.
    #[inline(always)]
    pub(crate) fn first_due(&self, clock: usize) -> Option<i64> {
        self.store.first_due(clock)
    }

    /// Adds keys, none of which is on disk. `next` fills an entry in, with [`fill`](Self::fill), and returns `false` when there is
    /// none left.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be written.
    pub(crate) fn put_all(&mut self, mut next: impl FnMut(&mut Entry) -> bool) -> Result<()> {
        let Self { store, filter, log, .. } = self;
        if store.is_empty() {
            filter.clear();
        }
        let before = store.held();
        store.put_all(|entry| {
            if !next(entry) {
                return false;
            }
            filter.add(entry.hash());
            if let Some(log) = log {
                log.note(STORED, entry);
            }
            true
        })?;
        filter.fed += store.held().saturating_sub(before);
        self.renew_filter()?;
        self.check_log()
    }

    /// Rebuilds the filter if it [is stale](Filter::is_stale): so many keys have left the disk that reading all others costs
    /// less than writing those has cost.
    fn renew_filter(&mut self) -> Result<()> {
        let Self { store, filter, .. } = self;
        if !filter.is_stale(store.len(), store.held()) {
            return Ok(());
        }
        filter.clear();
        store.for_each(|entry| {
            filter.add(entry.hash());
            true
        })
    }

    /// Fills an entry in, but for the times at which it is due.
    pub(crate) fn fill(entry: &mut Entry, hash: u64, key: &K, state: &S) {
        key.own().encode(entry.begin(hash));
        state.encode(&mut entry.state);
    }

    /// Takes a key's state back, if the key is on disk.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    #[inline(never)]
    pub(crate) fn take(&mut self, hash: u64, key: &K) -> Result<Option<S>> {
        let Self { store, filter, log, entry, .. } = self;
        if !filter.may_have(hash) {
            return Ok(None);
        }
        key.own().encode(entry.begin(hash));
        if !store.take(entry)? {
            return Ok(None);
        }
        if let Some(log) = log {
            log.note(TAKEN, entry);
        }
        let state = decoded::<S>("the state of a key", &entry.state)?;
        rest(&mut entry.state);
        self.check_log()?;
        Ok(Some(state))
    }

    /// A copy of a key's state, if the key is on disk, where it stays.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) fn get(&mut self, hash: u64, key: &K) -> Result<Option<S>> {
        let Self { store, filter, entry, .. } = self;
        if !filter.may_have(hash) {
            return Ok(None);
        }
        key.own().encode(entry.begin(hash));
        if !store.get(entry)? {
            return Ok(None);
        }
        let state = decoded::<S>("the state of a key", &entry.state)?;
        rest(&mut entry.state);
        Ok(Some(state))
    }

    /// Takes back the keys that are due first by a clock, until a time, in the order of their times.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(crate) fn take_due(
        &mut self,
        clock: usize,
        until: i64,
        portion: Portion,
    ) -> Result<Vec<Returned<K::Owned, S>>> {
        self.take_portion(|store, each| store.take_due(clock, until, portion, each))
    }

    /// Takes some keys back.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub(crate) fn take_some(&mut self, portion: Portion) -> Result<Vec<Returned<K::Owned, S>>> {
        self.take_portion(|store, each| store.take_some(portion, each))
    }

    fn take_portion(
        &mut self,
        take: impl FnOnce(&mut KeyStore, &mut dyn FnMut(&Entry)) -> Result<()>,
    ) -> Result<Vec<Returned<K::Owned, S>>> {
        let Self { store, log, .. } = self;
        let (mut taken, mut failed) = (Vec::new(), None);
        take(store, &mut |entry: &Entry| {
            if let Some(log) = log {
                log.note(TAKEN, entry);
            }
            let key = decoded::<K::Owned>("a key", entry.key());
            let state = decoded::<S>("the state of a key", &entry.state);
            match (key, state) {
                (Ok(key), Ok(state)) => taken.push((entry.hash(), key, state)),
                (Err(error), _) | (_, Err(error)) => failed = Some(error),
            }
        })?;
        self.check_log()?;
        failed.map_or(Ok(taken), Err)
    }

    /// Releases the memory and the file of a store without keys.
    pub(crate) fn release(&mut self) {
        debug_assert!(self.is_empty());
        self.store.clear();
        self.filter.release();
    }

    /// Removes every key.
    pub(crate) fn clear(&mut self) {
        self.store.clear();
        self.filter.clear();
        if let Some(log) = &mut self.log {
            log.clear();
        }
    }

    fn check_log(&mut self) -> Result<()> {
        self.log.as_mut().map_or(Ok(()), Log::check)
    }

    /// Saves what is on disk.
    ///
    /// # Errors
    ///
    /// If the disk is full or cannot be used.
    pub(crate) fn save(&mut self, out: &mut Saving) -> Result<()> {
        let Self { store, filter, log: Some(log), .. } = self else { return Ok(()) };
        let is_long = log.records() > 2 * store.len() as u64 + LONG
            || log.bytes() > 4 * store.held() + LONG_BYTES;
        if is_long || store.is_empty() {
            log.clear();
            // Of keys that have left the store, too, nothing stays.
            filter.clear();
            store.for_each(|entry| {
                filter.add(entry.hash());
                log.note(STORED, entry);
                log.failed.is_none()
            })?;
            log.check()?;
        }
        let schema = schema_of::<K, S>();
        log.before.iter().for_each(|share| out.add_share(share, &schema));
        let written = out.written(&mut log.writer)?;
        out.add_share(&written, &schema);
        Ok(())
    }

    /// Restores what [`save`](Self::save) has saved; `due` returns when a state is due by each clock.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or the disk is full.
    pub(crate) fn restore(
        &mut self,
        saved: &StateHandle,
        spill: &SpillDir,
        due: impl Fn(&S, &mut Entry),
    ) -> Result<()> {
        let own = schema_of::<K, S>();
        saved.restore_files(|file| {
            check_spilled(&file.note::<String>()?, &own)?;
            let share = file.open::<[u8]>(spill)?;
            self.replay(&share, &due)?;
            if let Some(log) = &mut self.log {
                log.records_before += share.file.records();
                log.bytes_before += share.file.bytes();
                log.before.push(share);
            }
            Ok(())
        })
    }

    /// Does again what a log has noted.
    fn replay(&mut self, share: &SpillShare<[u8]>, due: &impl Fn(&S, &mut Entry)) -> Result<()> {
        let Self { store, filter, entry, .. } = self;
        let mut reader = share.read();
        let (mut failed, mut goes_on) = (None, true);
        while goes_on && failed.is_none() {
            // Up to the next key that has left the store, and that key.
            let mut has_left = false;
            store.put_all(|stored| {
                let read = reader.next(
                    |record| hash_in(record),
                    |record| -> Result<bool> {
                        let damaged = || DecodeError::invalid("a record of a log of keys");
                        let noted = read_record(record)
                            .ok_or_else(|| unreadable("a key of the checkpoint", damaged()))?;
                        check_key::<K>(&noted)?;
                        let Some(state) = noted.state else {
                            entry.begin(noted.hash).extend_from_slice(noted.key);
                            return Ok(false);
                        };
                        filter.add(noted.hash);
                        stored.begin(noted.hash).extend_from_slice(noted.key);
                        stored.state.extend_from_slice(state);
                        due(&decoded::<S>("the state of a key", state)?, stored);
                        Ok(true)
                    },
                );
                match read {
                    Ok(Some(Ok(is_stored))) => {
                        has_left = !is_stored;
                        return is_stored;
                    }
                    Ok(Some(Err(error))) | Err(error) => failed = Some(error),
                    Ok(None) => goes_on = false,
                }
                false
            })?;
            if has_left {
                store.take(entry)?;
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The type of what is stored.
fn schema_of<K: Key + ?Sized, S: Data>() -> String {
    <(K::Owned, S)>::schema().to_string()
}

/// Checks that a key has the hash by which it was stored.
fn check_key<K: Key + ?Sized>(noted: &Noted<'_>) -> Result<()> {
    let key = decoded::<K::Owned>("a key of the checkpoint", noted.key)?;
    if K::hash(K::lent(&key).probe()) == noted.hash {
        return Ok(());
    }
    let what = "a key of the checkpoint has another hash in this program: the `key_hash` of its type must stay";
    Err(Error::new(ErrorKind::Plan, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_has_what_was_added_and_little_else() {
        let mut filter = Filter::new(8 << 10);
        assert!(!filter.may_have(1) && filter.bytes() == 0);
        (0..2000).for_each(|hash| filter.add(hash));
        assert!((0..2000).all(|hash| filter.may_have(hash)));
        let others = (2000..12_000).filter(|hash| filter.may_have(*hash)).count();
        assert!(others < 200, "{others} of 10,000 others");
        filter.clear();
        assert!(!filter.may_have(1) && filter.bytes() == 8 << 10);
        filter.release();
        assert!(!filter.may_have(1) && filter.bytes() == 0);
    }

    #[test]
    fn a_filter_is_not_made_anew_for_a_few_large_states_before_as_much_was_written() {
        let mut filter = Filter::new(8 << 10);
        (0..10_000).for_each(|hash| filter.add(hash));
        filter.fed = 100_000;
        assert!(filter.is_stale(50, 100_000) && !filter.is_stale(50, 100_001));
        assert!(!filter.is_stale(5_000, 100_000));
    }

    #[cfg(not(miri))]
    #[test]
    fn a_filter_forgets_keys_that_have_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let mut cold = Cold::<u64, u64>::new(SpillDir::new(folder.path(), "keys"), 64 << 10, 0);
        let hash = |key: u64| u64::hash(key.probe());
        let put = |cold: &mut Cold<u64, u64>, mut keys: std::ops::Range<u64>| {
            let fill = |entry: &mut Entry| match keys.next() {
                Some(key) => {
                    Cold::<u64, u64>::fill(entry, hash(key), &key, &(key + 1));
                    true
                }
                None => false,
            };
            cold.put_all(fill).unwrap();
        };
        put(&mut cold, 0..100);
        for round in 1..=30 {
            let keys = round * 1000..(round + 1) * 1000;
            put(&mut cold, keys.clone());
            for key in keys {
                assert_eq!(cold.take(hash(key), &key).unwrap(), Some(key + 1));
            }
        }
        assert!((0..100).all(|key| cold.filter.may_have(hash(key))));
        let others = (1 << 32..(1 << 32) + 10_000).filter(|key| cold.filter.may_have(hash(*key)));
        let others = others.count();
        assert!(others < 1000, "{others} of 10,000 others");
        assert_eq!(cold.len(), 100);
    }
}
