//! Keys with their states on disk: for an operator of one task whose keys are more than memory has room for.
//!
//! The store knows bytes alone: the encoding of a key, that of its state, and by each clock the time at which the key is due.
//! It finds a key by its hash and its bytes, and those that are due first by a clock.
//!
//! ```text
//!   entries   hash, key                → times, state
//!   due       clock, time, hash, key   → nothing              for each time
//! ```
//!
//! Both are B-trees of one [redb] database, in a file of the directory of [spill files](super::spill), which is made with
//! the first key and removed with the store. Pages are in a cache of the size that the owner has reserved.
//!
//! # Nothing is durable
//!
//! A file whose process is gone is never read again. So [`Unsynced`] does not wait for the disk, and one transaction
//! stays open for many changes: it is committed so that the space of removed entries is used again.
//!
//! [redb]: https://www.redb.org

use super::spill::SpillDir;
use crate::error::Result;
use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableTable, StorageBackend, Table};
use redb::{TableDefinition, WriteTransaction};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tempfile::TempPath;

type Bytes = &'static [u8];

const ENTRIES: TableDefinition<'static, Bytes, Bytes> = TableDefinition::new("entries");
const DUE: TableDefinition<'static, Bytes, ()> = TableDefinition::new("due");

/// The most clocks.
pub(crate) const CLOCKS: usize = 2;
/// The bytes of a hash.
const HASH: usize = 8;
/// The bytes of a time in an entry: whether there is one, and which.
const TIME: usize = 9;
/// A transaction is committed after so many changed bytes, or so many changes.
const COMMIT_BYTES: usize = 4 << 20;
const COMMIT_CHANGES: usize = 4096;

/// The capacity of a buffer that is kept for the next state.
const KEPT: usize = 64 << 10;

/// Lets a buffer go that a large state was in.
pub(crate) fn rest(buffer: &mut Vec<u8>) {
    if buffer.capacity() > KEPT {
        *buffer = Vec::new();
    }
}

/// A key with its state, encoded.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    /// The hash and the key.
    place: Vec<u8>,
    /// The time at which the key is due, by each clock.
    pub(crate) due: [Option<i64>; CLOCKS],
    /// The state.
    pub(crate) state: Vec<u8>,
}

/// How many keys are to be taken at a time, and how many bytes of them, in which the last one need not fit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    pub(crate) keys: usize,
    pub(crate) bytes: usize,
}

impl Entry {
    /// Begins an entry of a key with this hash, whose encoding is to be appended to what this returns.
    pub(crate) fn begin(&mut self, hash: u64) -> &mut Vec<u8> {
        self.place.clear();
        rest(&mut self.place);
        self.place.extend_from_slice(&hash.to_be_bytes());
        self.due = [None; CLOCKS];
        self.state.clear();
        &mut self.place
    }

    /// The hash of the key.
    pub(crate) fn hash(&self) -> u64 {
        self.place.first_chunk().map_or(0, |hash| u64::from_be_bytes(*hash))
    }

    /// The encoded key.
    pub(crate) fn key(&self) -> &[u8] {
        self.place.get(HASH..).unwrap_or_default()
    }

    fn bytes(&self) -> usize {
        2 * self.place.len() + self.state.len()
    }

    fn set_place(&mut self, place: &[u8]) {
        self.place.clear();
        self.place.extend_from_slice(place);
    }

    /// Reads what [`write_value`](Self::write_value) has written.
    fn read_value(&mut self, mut value: &[u8], clocks: usize) {
        self.due = [None; CLOCKS];
        for due in self.due.iter_mut().take(clocks) {
            let Some(([is_due, time @ ..], rest)) = value.split_first_chunk::<TIME>() else {
                break;
            };
            *due = (*is_due == 1).then(|| i64::from_be_bytes(*time));
            value = rest;
        }
        self.state.clear();
        self.state.extend_from_slice(value);
    }

    fn write_value(&self, clocks: usize, out: &mut Vec<u8>) {
        out.clear();
        for due in self.due.iter().take(clocks) {
            out.push(u8::from(due.is_some()));
            out.extend_from_slice(&due.unwrap_or(0).to_be_bytes());
        }
        out.extend_from_slice(&self.state);
    }
}

/// The key of a time in the table of times, whose order is that of clocks and times.
fn write_time(clock: usize, due: i64, place: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.push(clock as u8);
    out.extend_from_slice(&(due as u64 ^ (1 << 63)).to_be_bytes());
    out.extend_from_slice(place);
}

/// The time of such a key if it is of this clock, and the place of its entry.
fn read_time(key: &[u8], clock: usize) -> Option<(i64, &[u8])> {
    let (time, place) = key.strip_prefix(&[clock as u8])?.split_first_chunk()?;
    Some(((u64::from_be_bytes(*time) ^ (1 << 63)) as i64, place))
}

/// A file that is never waited for.
#[derive(Debug)]
struct Unsynced {
    file: FileBackend,
    dir: SpillDir,
    written: Arc<AtomicU64>,
}

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.dir.note_written(data.len() as u64);
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}

/// The database, once there was a key.
struct Opened {
    /// Before the database, which it would keep open; and that before its file.
    transaction: Option<WriteTransaction>,
    database: Database,
    path: TempPath,
}

/// The tables of a transaction.
struct Tables<'t> {
    entries: Table<'t, Bytes, Bytes>,
    due: Table<'t, Bytes, ()>,
}

impl Opened {
    /// Changes the tables, or reads them.
    fn change<R>(
        &mut self,
        change: impl FnOnce(&mut Tables<'_>) -> Result<R, redb::Error>,
    ) -> Result<R, redb::Error> {
        let transaction = match self.transaction.take() {
            Some(transaction) => transaction,
            None => self.database.begin_write()?,
        };
        let mut tables =
            Tables { entries: transaction.open_table(ENTRIES)?, due: transaction.open_table(DUE)? };
        let changed = change(&mut tables);
        drop(tables);
        let changed = changed?;
        self.transaction = Some(transaction);
        Ok(changed)
    }

    fn commit(&mut self) -> Result<(), redb::Error> {
        if let Some(transaction) = self.transaction.take() {
            transaction.commit()?;
        }
        Ok(())
    }
}

impl Tables<'_> {
    /// Adds an entry, or replaces that of the same key; returns the bytes of what was replaced.
    fn put(
        &mut self,
        entry: &Entry,
        clocks: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<Option<usize>, redb::Error> {
        entry.write_value(clocks, buffer);
        let before = self.entries.insert(entry.place.as_slice(), buffer.as_slice())?;
        let before = before.map(|before| {
            let mut replaced = Entry { place: entry.place.clone(), ..Entry::default() };
            replaced.read_value(before.value(), clocks);
            replaced
        });
        if let Some(replaced) = &before {
            self.remove_times(replaced, clocks, buffer)?;
        }
        for (clock, due) in entry.due.iter().enumerate().take(clocks) {
            if let Some(due) = due {
                write_time(clock, *due, &entry.place, buffer);
                self.due.insert(buffer.as_slice(), ())?;
            }
        }
        Ok(before.map(|replaced| replaced.bytes()))
    }

    fn remove_times(
        &mut self,
        entry: &Entry,
        clocks: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<(), redb::Error> {
        for (clock, due) in entry.due.iter().enumerate().take(clocks) {
            if let Some(due) = due {
                write_time(clock, *due, &entry.place, buffer);
                self.due.remove(buffer.as_slice())?;
            }
        }
        Ok(())
    }

    /// Removes the entry at the place of this one, which becomes what was removed; returns whether there was one.
    fn remove(
        &mut self,
        entry: &mut Entry,
        clocks: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<bool, redb::Error> {
        // A search changes no page.
        if self.entries.get(entry.place.as_slice())?.is_none() {
            return Ok(false);
        }
        buffer.clear();
        if let Some(removed) = self.entries.remove(entry.place.as_slice())? {
            buffer.extend_from_slice(removed.value());
        }
        entry.read_value(buffer, clocks);
        self.remove_times(entry, clocks, buffer)?;
        Ok(true)
    }

    /// The first time by a clock.
    fn first(&self, clock: usize) -> Result<Option<i64>, redb::Error> {
        let from = [clock as u8];
        let mut times = self.due.range::<&[u8]>(from.as_slice()..)?;
        let Some(first) = times.next() else { return Ok(None) };
        let (key, _) = first?;
        Ok(read_time(key.value(), clock).map(|(time, _)| time))
    }

    /// The first times by all clocks.
    fn firsts(&self, clocks: usize) -> Result<[Option<i64>; CLOCKS], redb::Error> {
        let mut first = [None; CLOCKS];
        for (clock, first) in first.iter_mut().enumerate().take(clocks) {
            *first = self.first(clock)?;
        }
        Ok(first)
    }

    /// The places of up to so many entries that are due by a time, in the order of their times.
    fn due_by(&self, clock: usize, until: i64, most: usize) -> Result<Vec<Vec<u8>>, redb::Error> {
        let from = [clock as u8];
        let mut places = Vec::new();
        for time in self.due.range::<&[u8]>(from.as_slice()..)?.take(most) {
            let (key, _) = time?;
            match read_time(key.value(), clock) {
                Some((due, place)) if due <= until => places.push(place.to_vec()),
                _ => break,
            }
        }
        Ok(places)
    }

    /// The places of the first entries, up to so many.
    fn first_places(&self, most: usize) -> Result<Vec<Vec<u8>>, redb::Error> {
        let mut places = Vec::new();
        for entry in self.entries.range::<&[u8]>(..)?.take(most) {
            places.push(entry?.0.value().to_vec());
        }
        Ok(places)
    }
}

/// Keys with their states on disk.
///
/// Every method that reads or writes fails with [`ErrorKind::Io`](crate::error::ErrorKind::Io) when the disk is full or the file
/// cannot be used; the store is of no use then.
pub(crate) struct KeyStore {
    /// Before the directory, so that the file is removed first.
    opened: Option<Opened>,
    dir: SpillDir,
    /// The bytes of the cache.
    cache: usize,
    clocks: usize,
    len: usize,
    /// The bytes of all keys and states.
    held: u64,
    /// The first time by each clock.
    first: [Option<i64>; CLOCKS],
    /// Changes since the last commit, and their bytes.
    changes: usize,
    changed: usize,
    written: Arc<AtomicU64>,
    buffer: Vec<u8>,
}

impl KeyStore {
    /// An empty store, of keys that are due by so many clocks. There is no file before the first key.
    pub(crate) fn new(dir: SpillDir, cache: usize, clocks: usize) -> Self {
        debug_assert!(clocks <= CLOCKS);
        Self {
            opened: None,
            dir,
            cache,
            clocks,
            len: 0,
            held: 0,
            first: [None; CLOCKS],
            changes: 0,
            changed: 0,
            written: Arc::default(),
            buffer: Vec::new(),
        }
    }

    /// The number of keys.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no keys.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of all keys and states.
    pub(crate) fn held(&self) -> u64 {
        self.held
    }

    /// The bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        if self.opened.is_some() { self.cache } else { 0 }
    }

    /// The bytes written so far.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The first time at which a key is due by a clock.
    #[inline(always)]
    pub(crate) fn first_due(&self, clock: usize) -> Option<i64> {
        self.first.get(clock).copied().flatten()
    }

    /// Adds keys that are not in the store: `next` fills an entry in, and returns `false` when there is none left.
    pub(crate) fn put_all(&mut self, mut next: impl FnMut(&mut Entry) -> bool) -> Result<()> {
        let mut entry = Entry::default();
        let mut goes_on = next(&mut entry);
        while goes_on {
            let (clocks, mut first) = (self.clocks, self.first);
            let (mut added, mut count, mut bytes, mut replaced) = (0, 0, 0, 0);
            let mut buffer = std::mem::take(&mut self.buffer);
            self.change("write to", |tables| {
                while goes_on && count < COMMIT_CHANGES && bytes < COMMIT_BYTES {
                    match tables.put(&entry, clocks, &mut buffer)? {
                        Some(before) => replaced += before as u64,
                        None => added += 1,
                    }
                    count += 1;
                    bytes += entry.bytes();
                    for (first, due) in first.iter_mut().zip(entry.due) {
                        *first = (*first).into_iter().chain(due).min();
                    }
                    goes_on = next(&mut entry);
                }
                if replaced > 0 {
                    first = tables.firsts(clocks)?;
                }
                Ok(())
            })?;
            self.buffer = buffer;
            self.first = first;
            self.len += added;
            self.held = self.held + bytes as u64 - replaced;
            self.count(count, bytes)?;
        }
        Ok(())
    }

    /// Removes the key whose hash and encoding were [begun](Entry::begin), and fills in its entry; returns whether it was there.
    pub(crate) fn take(&mut self, entry: &mut Entry) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let (clocks, firsts) = (self.clocks, self.first);
        let mut buffer = std::mem::take(&mut self.buffer);
        let taken = self.change("read", |tables| {
            if !tables.remove(entry, clocks, &mut buffer)? {
                return Ok(None);
            }
            let mut first = firsts;
            for (clock, first) in first.iter_mut().enumerate().take(clocks) {
                if first.is_some() && *first == entry.due[clock] {
                    *first = tables.first(clock)?;
                }
            }
            Ok(Some(first))
        })?;
        self.buffer = buffer;
        let Some(first) = taken else { return Ok(false) };
        (self.first, self.len) = (first, self.len - 1);
        self.held -= entry.bytes() as u64;
        self.count(1, entry.bytes())?;
        Ok(true)
    }

    /// Fills in the entry of the key whose hash and encoding were [begun](Entry::begin), and leaves the key where it is; returns
    /// whether it is there.
    pub(crate) fn get(&mut self, entry: &mut Entry) -> Result<bool> {
        if self.is_empty() {
            return Ok(false);
        }
        let clocks = self.clocks;
        self.change("read", |tables| {
            let Some(found) = tables.entries.get(entry.place.as_slice())? else {
                return Ok(false);
            };
            entry.read_value(found.value(), clocks);
            Ok(true)
        })
    }

    /// Removes the keys that are due first by a clock, until a time, up to a portion, and passes them to `each` in the order of
    /// their times.
    pub(crate) fn take_due(
        &mut self,
        clock: usize,
        until: i64,
        portion: Portion,
        each: impl FnMut(&Entry),
    ) -> Result<()> {
        self.take_portion(portion, |tables| tables.due_by(clock, until, portion.keys), each)
    }

    /// Removes some keys, up to a portion, and passes them to `each`.
    pub(crate) fn take_some(&mut self, portion: Portion, each: impl FnMut(&Entry)) -> Result<()> {
        self.take_portion(portion, |tables| tables.first_places(portion.keys), each)
    }

    fn take_portion(
        &mut self,
        portion: Portion,
        find: impl FnOnce(&Tables<'_>) -> Result<Vec<Vec<u8>>, redb::Error>,
        mut each: impl FnMut(&Entry),
    ) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let clocks = self.clocks;
        let mut buffer = std::mem::take(&mut self.buffer);
        let (count, bytes, first) = self.change("read", |tables| {
            let (mut count, mut bytes, mut entry) = (0, 0, Entry::default());
            for place in find(tables)? {
                entry.set_place(&place);
                if tables.remove(&mut entry, clocks, &mut buffer)? {
                    each(&entry);
                    count += 1;
                    bytes += entry.bytes();
                }
                if bytes >= portion.bytes {
                    break;
                }
            }
            Ok((count, bytes, tables.firsts(clocks)?))
        })?;
        self.buffer = buffer;
        (self.first, self.len) = (first, self.len - count);
        self.held -= bytes as u64;
        self.count(count, bytes)
    }

    /// Passes every key to `each`, in the order of hashes, until it returns `false`.
    pub(crate) fn for_each(&mut self, mut each: impl FnMut(&Entry) -> bool) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let clocks = self.clocks;
        self.change("read", |tables| {
            let mut entry = Entry::default();
            for found in tables.entries.range::<&[u8]>(..)? {
                let (place, value) = found?;
                entry.set_place(place.value());
                entry.read_value(value.value(), clocks);
                if !each(&entry) {
                    break;
                }
            }
            Ok(())
        })
    }

    /// Removes every key, and the file.
    pub(crate) fn clear(&mut self) {
        self.opened = None;
        (self.len, self.held, self.first) = (0, 0, [None; CLOCKS]);
        (self.changes, self.changed) = (0, 0);
    }

    /// Counts changes, and commits them when they are many.
    fn count(&mut self, changes: usize, bytes: usize) -> Result<()> {
        rest(&mut self.buffer);
        self.changes += changes;
        self.changed += bytes;
        if self.changes < COMMIT_CHANGES && self.changed < COMMIT_BYTES {
            return Ok(());
        }
        (self.changes, self.changed) = (0, 0);
        let Some(opened) = &mut self.opened else { return Ok(()) };
        opened.commit().map_err(|error| failure(&self.dir, &opened.path, "write to", error))
    }

    fn change<R>(
        &mut self,
        doing: &str,
        change: impl FnOnce(&mut Tables<'_>) -> Result<R, redb::Error>,
    ) -> Result<R> {
        let Self { opened, dir, cache, written, .. } = self;
        let opened = match opened {
            Some(opened) => opened,
            none => none.insert(open(dir, *cache, written)?),
        };
        opened.change(change).map_err(|error| failure(dir, &opened.path, doing, error))
    }
}

fn open(dir: &SpillDir, cache: usize, written: &Arc<AtomicU64>) -> Result<Opened> {
    let (path, file) = dir.open_file()?;
    let database = FileBackend::new(file).and_then(|file| {
        let backend = Unsynced { file, dir: dir.clone(), written: Arc::clone(written) };
        Builder::new().set_cache_size(cache).create_with_backend(backend)
    });
    let database = database.map_err(|error| failure(dir, &path, "create", error.into()))?;
    Ok(Opened { transaction: None, database, path })
}

fn failure(dir: &SpillDir, path: &Path, doing: &str, error: redb::Error) -> crate::error::Error {
    let cause = match error {
        redb::Error::Io(cause) => cause,
        other => io::Error::other(other.to_string()),
    };
    dir.failure(path, &format!("{doing} the file of keys"), cause)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use std::collections::BTreeMap;

    const ALL: Portion = Portion { keys: usize::MAX, bytes: usize::MAX };

    fn store() -> (KeyStore, tempfile::TempDir) {
        let parent = tempfile::tempdir().unwrap();
        (KeyStore::new(SpillDir::new(parent.path(), "store"), 64 << 10, 2), parent)
    }

    fn fill(entry: &mut Entry, n: u64) {
        entry.begin(n.wrapping_mul(0x9E37_79B9_7F4A_7C15)).extend_from_slice(&n.to_be_bytes());
        entry.due = [Some(n as i64 % 100 - 50), n.is_multiple_of(2).then_some(-(n as i64))];
        entry.state.resize(n as usize % 300, n as u8);
    }

    #[test]
    fn the_memory_of_a_long_key_is_released_with_the_next() {
        let mut entry = Entry::default();
        entry.begin(1).resize(2 * KEPT, 1);
        entry.begin(2).push(2);
        assert!(entry.key() == [2] && entry.place.capacity() <= KEPT);
    }

    fn put(store: &mut KeyStore, mut numbers: std::ops::Range<u64>) {
        store.put_all(|entry| numbers.next().map(|n| fill(entry, n)).is_some()).unwrap();
    }

    fn number(entry: &Entry) -> u64 {
        u64::from_be_bytes(entry.key().try_into().unwrap())
    }

    #[test]
    fn keys_are_found_by_their_bytes_and_by_their_times() {
        let (mut store, _parent) = store();
        put(&mut store, 0..3000);
        let firsts = |store: &KeyStore| [0, 1].map(|clock| store.first_due(clock));
        assert_eq!((store.len(), firsts(&store)), (3000, [Some(-50), Some(-2998)]));
        let mut left: BTreeMap<u64, i64> = (0..3000).map(|n| (n, n as i64 % 100 - 50)).collect();
        let mut entry = Entry::default();
        for n in (0..3000).step_by(7) {
            fill(&mut entry, n);
            let expected = (entry.due, entry.state.clone());
            entry.state.clear();
            assert!(store.get(&mut entry).unwrap() && (entry.due, entry.state.clone()) == expected);
            assert!(
                store.take(&mut entry).unwrap() && (entry.due, entry.state.clone()) == expected
            );
            assert!(!store.take(&mut entry).unwrap() && !store.get(&mut entry).unwrap());
            left.remove(&n);
        }
        let mut times = Vec::new();
        let portion = Portion { keys: 10, bytes: usize::MAX };
        while store.first_due(0).is_some_and(|first| first <= -40) {
            let see = |entry: &Entry| {
                times.push(entry.due[0].unwrap());
                left.remove(&number(entry));
            };
            store.take_due(0, -40, portion, see).unwrap();
        }
        assert!(times.is_sorted() && times.len() > 200, "{times:?}");
        assert_eq!(store.first_due(0), left.values().min().copied());
        let mut all = Vec::new();
        store
            .for_each(|entry| {
                all.push(number(entry));
                true
            })
            .unwrap();
        all.sort_unstable();
        assert!(all.iter().eq(left.keys()));
        // A portion has one key at least.
        let mut taken = 0;
        store.take_some(Portion { keys: 5, bytes: 0 }, |_| taken += 1).unwrap();
        assert_eq!((taken, store.len()), (1, left.len() - 1));
        store.take_some(ALL, |_| {}).unwrap();
        assert_eq!((store.len(), store.held(), firsts(&store)), (0, 0, [None, None]));
    }

    #[test]
    fn a_key_that_is_put_again_is_due_at_its_new_times_alone() {
        let (mut store, _parent) = store();
        put(&mut store, 0..100);
        let mut again = Some(());
        let put_again = |entry: &mut Entry| {
            fill(entry, 0);
            entry.due = [Some(1000), None];
            entry.state.resize(100_000, 7);
            again.take().is_some()
        };
        store.put_all(put_again).unwrap();
        assert_eq!(
            (store.len(), store.first_due(0), store.first_due(1)),
            (100, Some(-49), Some(-98))
        );
        let mut due = Vec::new();
        store.take_due(0, i64::MAX, ALL, |entry| due.push(entry.due[0].unwrap())).unwrap();
        assert!(due.is_sorted() && due.len() == 100 && due[99] == 1000);
        assert_eq!((store.len(), store.held(), store.first_due(1)), (0, 0, None));
    }

    #[test]
    fn the_space_of_removed_keys_is_used_again() {
        let (mut store, parent) = store();
        let length = || {
            let own = std::fs::read_dir(parent.path()).unwrap().next().unwrap().unwrap().path();
            let files = std::fs::read_dir(own).unwrap().flatten();
            files.map(|file| file.metadata().unwrap().len()).max().unwrap()
        };
        put(&mut store, 0..4000);
        let mut most = 0;
        for round in 0..8 {
            store.take_some(ALL, |_| {}).unwrap();
            put(&mut store, 0..4000);
            if round == 3 {
                most = length();
            }
        }
        assert!(length() <= 2 * most, "{} bytes, and {most} before", length());
        assert!(store.written() > 0);
        drop(store);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_store_without_a_directory_says_so() {
        let parent = tempfile::tempdir().unwrap();
        let file = parent.path().join("file");
        std::fs::write(&file, "no directory").unwrap();
        let mut store = KeyStore::new(SpillDir::new(&file, "store"), 64 << 10, 1);
        let error = store.put_all(|entry| {
            fill(entry, 1);
            true
        });
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains(&*file.to_string_lossy()), "{error}");
    }
}
