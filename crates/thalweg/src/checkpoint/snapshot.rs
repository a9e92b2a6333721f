//! What all tasks of a job have saved at one barrier.

use super::branches::SavedBranch;
use super::files::FileEntry;
use super::packed::{Packed, unpack};
use super::shape::Shape;
use crate::clock::Reading;
use crate::data::{Data, DecodeError};
use crate::exchange::key_group;
use crate::sync::{Mutex, in_steps, lock};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Names a state of an operator, in every run of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Data)]
pub(crate) struct StateId {
    /// The operator: as [`State::id`](crate::plan::State::id).
    pub(crate) operator: String,
    /// What it is among the operator's states.
    pub(crate) name: String,
}

/// As in messages.
impl fmt::Display for StateId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the state `{}` of `{}`", self.name, self.operator)
    }
}

/// What all tasks of a job have saved at one barrier, by state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The job's clock, after the barrier.
    pub(super) clock: Reading,
    /// Whether the job was drained, and all tasks have ended: there may be more input, and nothing of it is to be read.
    pub(crate) is_drained: bool,
    /// The [branches](super::branches) of the operators that have saved something, by id.
    branches: BTreeMap<String, SavedBranch>,
    states: BTreeMap<StateId, State>,
}

/// What the byte behind the clock says: whether the job was drained, whether the branches come behind the states, and whether
/// entries are [packed](super::packed).
const DRAINED: u8 = 1;
const HAS_BRANCHES: u8 = 2;
const PACKED: u8 = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    shape: Shape,
    /// Of each task.
    entries: Vec<Entries>,
    /// Of each task: the files that it refers to.
    files: Vec<Vec<FileEntry>>,
}

impl State {
    fn of(shape: Shape) -> Self {
        Self { shape, entries: Vec::new(), files: Vec::new() }
    }
}

/// Entries of a state: of each its key group, in two bytes, the length of its encoding, in one byte or, from [`LONG`] on, in that
/// and eight more, and the encoding.
#[derive(Debug, Default)]
pub(super) struct Entries {
    bytes: Vec<u8>,
    /// Where the memory goes when they are dropped.
    spare: Option<Arc<Spare>>,
}

/// From so many bytes on an entry is large.
pub(super) const LARGE: usize = 64 << 10;

/// The byte that a longer length follows.
pub(super) const LONG: u8 = u8::MAX;

/// Memory of entries that were written, for the next ones of the same task, or in the same store: the system gives fresh pages
/// slowly.
#[derive(Debug, Default)]
pub(super) struct Spare(Mutex<Vec<u8>>);

/// The most memory that is kept so.
const MOST_SPARE: usize = 80 << 20;

/// An entry of a state.
pub(super) struct Saved<'a> {
    /// The task that has saved it.
    pub(super) task: usize,
    pub(super) group: u16,
    pub(super) bytes: &'a [u8],
}

impl Spare {
    /// The memory, if there is any.
    pub(super) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *lock(&self.0))
    }

    /// Keeps memory, unless there is more already, or it is too much.
    pub(super) fn give(&self, mut memory: Vec<u8>) {
        let mut spare = lock(&self.0);
        if (spare.capacity()..=MOST_SPARE).contains(&memory.capacity()) {
            memory.clear();
            *spare = memory;
        }
    }
}

impl Entries {
    /// None yet, in memory of earlier ones.
    pub(super) fn begin(spare: &Arc<Spare>) -> Self {
        Self { bytes: spare.take(), spare: Some(Arc::clone(spare)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes of all of them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Adds an entry that goes with a key of this hash, of which `write` appends the encoding.
    #[inline]
    pub(super) fn add(&mut self, hash: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let begin = self.begin_entry(key_group(hash));
        write(&mut self.bytes);
        self.end_entry(begin);
    }

    /// Adds an entry with about so many bytes, which are not moved once they are written.
    pub(super) fn add_large(&mut self, hash: u64, bytes: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.reserve(bytes + 64);
        self.begin_entry(key_group(hash));
        let length = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 8]);
        let begin = self.bytes.len();
        write(&mut self.bytes);
        let written = (self.bytes.len() - begin) as u64;
        self.bytes[length..begin].copy_from_slice(&written.to_le_bytes());
    }

    /// Adds an entry of a key group, of which `write` appends the encoding. If that fails, what it has written stays.
    pub(super) fn add_to_group(
        &mut self,
        group: u16,
        write: impl FnOnce(&mut Vec<u8>) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let begin = self.begin_entry(group);
        write(&mut self.bytes)?;
        self.end_entry(begin);
        Ok(())
    }

    #[inline]
    fn begin_entry(&mut self, group: u16) -> usize {
        let [low, high] = group.to_le_bytes();
        self.bytes.extend_from_slice(&[low, high, LONG]);
        self.bytes.len()
    }

    #[inline]
    fn end_entry(&mut self, begin: usize) {
        let length = self.bytes.len() - begin;
        match u8::try_from(length) {
            Ok(short) if short < LONG => self.bytes[begin - 1] = short,
            _ => drop(self.bytes.splice(begin..begin, (length as u64).to_le_bytes())),
        }
    }
}

impl Drop for Entries {
    fn drop(&mut self) {
        if let Some(spare) = &self.spare {
            spare.give(std::mem::take(&mut self.bytes));
        }
    }
}

/// Without the memory of others.
impl Clone for Entries {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), spare: None }
    }
}

impl PartialEq for Entries {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Entries {}

/// Reads entries one by one.
pub(super) struct EntryReader<'a> {
    /// What is left of those of a task.
    rest: &'a [u8],
    /// Those of the tasks after it.
    others: &'a [Entries],
    tasks: usize,
}

impl<'a> EntryReader<'a> {
    /// The next entry; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Saved<'a>>, DecodeError> {
        while self.rest.is_empty() {
            let Some((next, others)) = self.others.split_first() else { return Ok(None) };
            (self.rest, self.others) = (&next.bytes, others);
        }
        let torn = || DecodeError::invalid("whole entries");
        let group = self.group().ok_or_else(torn)?;
        let length = self.length().ok_or_else(torn)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(torn)?;
        self.rest = rest;
        let task = self.tasks - self.others.len() - 1;
        Ok(Some(Saved { task, group, bytes }))
    }

    fn group(&mut self) -> Option<u16> {
        let (group, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u16::from_le_bytes(*group))
    }

    fn length(&mut self) -> Option<usize> {
        let (short, rest) = self.rest.split_first()?;
        self.rest = rest;
        if *short == LONG { usize::try_from(self.word()?).ok() } else { Some((*short).into()) }
    }

    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*word))
    }
}

impl Snapshot {
    /// Adds what a task has saved.
    pub(super) fn add(
        &mut self,
        id: &StateId,
        shape: &Shape,
        entries: Entries,
        files: Vec<FileEntry>,
    ) {
        let state = self.states.entry(id.clone());
        let state = state.or_insert_with(|| State::of(shape.clone()));
        state.entries.push(entries);
        state.files.push(files);
    }

    /// Adds what tasks of another host have saved at the same barrier.
    pub(super) fn append(&mut self, part: Self) {
        self.is_drained |= part.is_drained;
        self.branches.extend(part.branches);
        // What is due on one host is due on all.
        self.clock.now = self.clock.now.max(part.clock.now);
        for (id, State { shape, mut entries, mut files }) in part.states {
            let state = self.states.entry(id).or_insert_with(|| State::of(shape));
            state.entries.append(&mut entries);
            state.files.append(&mut files);
        }
    }

    /// Notes the branch of an operator that has saved something.
    pub(super) fn note_branch(&mut self, operator: &str, branch: &SavedBranch) {
        self.branches.insert(operator.to_owned(), branch.clone());
    }

    /// The branches of operators, by id.
    pub(super) fn branches(&self) -> &BTreeMap<String, SavedBranch> {
        &self.branches
    }

    /// The shape of a state that it has.
    pub(super) fn shape(&self, id: &StateId) -> Option<&Shape> {
        Some(&self.states.get(id)?.shape)
    }

    /// Replaces the entries of a state, those of each task, by entries of another shape.
    pub(super) fn replace(&mut self, id: &StateId, shape: &Shape, entries: Vec<Entries>) {
        if let Some(state) = self.states.get_mut(id) {
            (state.shape, state.entries) = (shape.clone(), entries);
        }
    }

    /// The states that it has.
    pub(super) fn ids(&self) -> impl Iterator<Item = &StateId> {
        self.states.keys()
    }

    /// How many tasks have saved a state.
    pub(super) fn tasks(&self, id: &StateId) -> usize {
        self.states.get(id).map_or(0, |state| state.entries.len())
    }

    /// The entries of a state, of all tasks; none if it does not have the state.
    pub(super) fn entries(&self, id: &StateId) -> EntryReader<'_> {
        let others = self.states.get(id).map_or(&[][..], |state| &state.entries);
        EntryReader { rest: &[], others, tasks: others.len() }
    }

    /// The files that a state refers to, each with the task that has saved it.
    pub(super) fn files(&self, id: &StateId) -> impl Iterator<Item = (usize, &FileEntry)> {
        let of_tasks =
            self.states.get(id).into_iter().flat_map(|state| state.files.iter().enumerate());
        of_tasks.flat_map(|(task, files)| files.iter().map(move |file| (task, file)))
    }

    /// How many files the states of this name refer to, of all operators.
    #[cfg(test)]
    pub(crate) fn count_files(&self, state: &str) -> usize {
        let ids = self.ids().filter(|id| id.name == state);
        ids.map(|id| self.files(id).count()).sum()
    }

    /// How many entries the states of this name have, of all operators.
    #[cfg(test)]
    pub(crate) fn count_entries(&self, state: &str) -> usize {
        let of_state = |id| {
            let mut entries = self.entries(id);
            std::iter::from_fn(move || entries.next().ok().flatten()).count()
        };
        self.ids().filter(|id| id.name == state).map(of_state).sum()
    }

    /// The files that it refers to.
    pub(super) fn all_files(&self) -> impl Iterator<Item = &FileEntry> {
        self.states.values().flat_map(|state| state.files.iter().flatten())
    }

    /// Packs the entries of all tasks. Returns what comes before them in its bytes: what is in it, with the length and a digest
    /// of each task's packed entries of a state, and the files that they refer to.
    pub(super) fn pack<'a>(&'a self, packed: &mut Packed<'a>) -> Vec<u8> {
        self.head(PACKED, |entries| {
            let mark = packed.end();
            packed.add(&entries.bytes);
            sum_up(packed.pieces_from(mark))
        })
    }

    /// All its bytes, in one piece.
    pub(crate) fn encoded(&self) -> Vec<u8> {
        let mut packed = Packed::default();
        let mut bytes = self.pack(&mut packed);
        packed.pieces().for_each(|piece| bytes.extend_from_slice(piece));
        bytes
    }

    /// What files had before entries were packed: what comes before the entries, and these.
    #[cfg(all(test, not(miri)))]
    pub(super) fn unpacked(&self) -> (Vec<u8>, Vec<u8>) {
        let mut all = Vec::new();
        let head = self.head(0, |entries| {
            all.extend_from_slice(&entries.bytes);
            sum_up([&*entries.bytes])
        });
        (head, all)
    }

    /// What comes before the entries; of each task's, `sum_up` says the length and the digest in the file.
    fn head<'a>(&'a self, form: u8, mut sum_up: impl FnMut(&'a Entries) -> (u64, u64)) -> Vec<u8> {
        let mut head = Vec::new();
        self.clock.is_simulated.encode(&mut head);
        self.clock.now.encode(&mut head);
        let drained = if self.is_drained { DRAINED } else { 0 };
        let branches = if self.branches.is_empty() { 0 } else { HAS_BRANCHES };
        (form | drained | branches).encode(&mut head);
        (self.states.len() as u64).encode(&mut head);
        for (StateId { operator, name }, State { shape, entries, files }) in &self.states {
            operator.encode(&mut head);
            name.encode(&mut head);
            shape.encode(&mut head);
            entries.iter().map(&mut sum_up).collect::<Vec<_>>().encode(&mut head);
            files.encode(&mut head);
        }
        if !self.branches.is_empty() {
            self.branches.encode(&mut head);
        }
        head
    }

    /// Reads [all its bytes](Self::encoded), to their end.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_if(bytes, true, |found, digest| found == digest)
    }

    /// Reads those of a file whose version has entries as they are.
    pub(super) fn decode_unpacked(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode_if(bytes, false, |found, digest| found == digest)
    }

    /// Reads its bytes, where `is_sound` compares the digest of entries with the one that the head has. Whether they are packed
    /// is in the head too, since no digest covers the version.
    pub(super) fn decode_if(
        mut bytes: &[u8],
        is_packed: bool,
        is_sound: impl Fn(u64, u64) -> bool,
    ) -> Result<Self, DecodeError> {
        let head = &mut bytes;
        let clock = Reading { is_simulated: bool::decode(head)?, now: u64::decode(head)? };
        if i64::try_from(clock.now).is_err() {
            return Err(DecodeError::invalid("a time before the year 2262"));
        }
        let flags = u8::decode(head)?;
        let form = if is_packed { PACKED } else { 0 };
        if flags & !(DRAINED | HAS_BRANCHES) != form {
            return Err(DecodeError::invalid("what is known of a checkpoint"));
        }
        let is_drained = flags & DRAINED != 0;
        let mut states = Vec::new();
        for _ in 0..u64::decode(head)? {
            let id = StateId { operator: String::decode(head)?, name: String::decode(head)? };
            let (shape, sizes) = (Shape::decode(head)?, Vec::<(u64, u64)>::decode(head)?);
            let files = Vec::<Vec<FileEntry>>::decode(head)?;
            files.iter().flatten().try_for_each(FileEntry::check)?;
            states.push((id, shape, sizes, files));
        }
        let branches: BTreeMap<String, SavedBranch> = match flags & HAS_BRANCHES {
            0 => BTreeMap::new(),
            _ => BTreeMap::decode(head)?,
        };
        let mut rest = bytes;
        let mut take = |(length, digest)| {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let (bytes, others) =
                rest.split_at_checked(length).ok_or(DecodeError::invalid("whole states"))?;
            rest = others;
            if !is_sound(sum_up([bytes]).1, digest) {
                return Err(DecodeError::invalid("those that were written: it was altered"));
            }
            let bytes = if is_packed { unpack(bytes)? } else { bytes.to_vec() };
            Ok(Entries { bytes, spare: None })
        };
        let mut snapshot = Self { clock, is_drained, branches, states: BTreeMap::new() };
        for (id, shape, sizes, files) in states {
            let entries = sizes.into_iter().map(&mut take).collect::<Result<_, _>>()?;
            snapshot.states.insert(id, State { shape, entries, files });
        }
        match rest.is_empty() {
            true => Ok(snapshot),
            false => Err(DecodeError::invalid("read to their end")),
        }
    }
}

/// The bytes that are summed up at a time, in less than a millisecond.
const SUMMED: usize = 4 << 20;

/// The length and the digest of entries in pieces: a CRC-32, which processors compute at the speed of memory.
fn sum_up<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (u64, u64) {
    let (mut length, mut digest) = (0, crc32fast::Hasher::new());
    for piece in pieces {
        length += piece.len() as u64;
        in_steps(piece, SUMMED).for_each(|bytes| digest.update(bytes));
    }
    (length, digest.finalize().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Schema;

    #[test]
    fn entries_of_every_length_are_read_again_and_leave_their_memory() {
        let lengths = [0, 1, 254, 255, 256, 70_000, 3, 70_000];
        let spare = Arc::<Spare>::default();
        let entries = || {
            let mut entries = Entries::begin(&spare);
            for (group, length) in (0..).zip(lengths) {
                let hash = u64::MAX - (group << 49);
                let write = |out: &mut Vec<u8>| out.resize(out.len() + length, 7);
                match group {
                    0..6 => entries.add(hash, write),
                    _ => entries.add_large(hash, length, write),
                }
            }
            entries
        };
        let id = StateId { operator: "count".to_owned(), name: "table".to_owned() };
        let mut snapshot = Snapshot::default();
        let shape = Shape { entries: Schema::Bytes, operator: String::new(), by_key: false };
        snapshot.add(&id, &shape, entries(), Vec::new());
        snapshot.add(&id, &shape, Entries::default(), Vec::new());
        let bytes = snapshot.encoded();
        let read = Snapshot::decode(&bytes).unwrap();
        let mut saved = read.entries(&id);
        for (group, length) in (0..).zip(lengths) {
            let Saved { task, group: found, bytes } = saved.next().unwrap().unwrap();
            assert_eq!((task, found), (0, key_group(u64::MAX - (group << 49))));
            assert_eq!(bytes, vec![7; length]);
        }
        assert!(saved.next().unwrap().is_none());
        // What is not in the head has a digest there; the digest of the head is the file's.
        for from_end in [1, 100, 70_000] {
            let mut altered = bytes.clone();
            altered[bytes.len() - from_end] ^= 1;
            assert!(Snapshot::decode(&altered).is_err());
        }
        drop(snapshot);
        let kept = lock(&spare.0).capacity();
        assert!(kept > 70_000);
        let again = entries();
        assert_eq!((again.bytes.capacity(), lock(&spare.0).capacity()), (kept, 0));
    }
}
