//! What all tasks of a job have saved at one barrier.

use crate::clock::Reading;
use crate::data::{Data, DecodeError};
use crate::time::Timestamp;
use std::collections::BTreeMap;
use std::fmt;

/// Names a state of an operator, in every run of a program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    states: BTreeMap<StateId, State>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    schema: String,
    /// Of each task.
    entries: Vec<Entries>,
}

/// Entries of a state, each its hash and the length of its encoding, in eight bytes each, and the encoding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entries(Vec<u8>);

/// An entry of a state.
pub(super) struct Saved<'a> {
    pub(super) hash: u64,
    pub(super) bytes: &'a [u8],
}

impl Entries {
    /// Adds an entry, of which `write` appends the encoding.
    pub(super) fn add(&mut self, hash: u64, write: impl FnOnce(&mut Vec<u8>)) {
        let Self(out) = self;
        out.extend_from_slice(&hash.to_le_bytes());
        let at = out.len();
        out.extend_from_slice(&[0; size_of::<u64>()]);
        let begin = out.len();
        write(out);
        let length = ((out.len() - begin) as u64).to_le_bytes();
        out[at..begin].copy_from_slice(&length);
    }
}

/// Reads entries one by one.
pub(super) struct EntryReader<'a> {
    /// What is left of those of a task.
    rest: &'a [u8],
    /// Those of the tasks after it.
    others: &'a [Entries],
}

impl<'a> EntryReader<'a> {
    /// The next entry; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Saved<'a>>, DecodeError> {
        while self.rest.is_empty() {
            let Some((Entries(next), others)) = self.others.split_first() else { return Ok(None) };
            (self.rest, self.others) = (next, others);
        }
        let torn = || DecodeError::invalid("whole entries");
        let hash = self.word().ok_or_else(torn)?;
        let length =
            self.word().and_then(|length| usize::try_from(length).ok()).ok_or_else(torn)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or_else(torn)?;
        self.rest = rest;
        Ok(Some(Saved { hash, bytes }))
    }

    fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*word))
    }
}

impl Snapshot {
    /// Adds what a task has saved.
    pub(super) fn add(&mut self, id: &StateId, schema: &str, entries: Entries) {
        let state = self.states.entry(id.clone()).or_default();
        schema.clone_into(&mut state.schema);
        state.entries.push(entries);
    }

    /// The schema of a state that it has.
    pub(super) fn schema(&self, id: &StateId) -> Option<&str> {
        Some(&self.states.get(id)?.schema)
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
        EntryReader { rest: &[], others: self.states.get(id).map_or(&[], |state| &state.entries) }
    }

    /// Appends it as bytes.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let entries = self.states.values().flat_map(|state| &state.entries);
        out.reserve(entries.map(|Entries(bytes)| bytes.len()).sum());
        self.clock.began.encode(out);
        self.clock.now.encode(out);
        (self.states.len() as u64).encode(out);
        for (StateId { operator, name }, State { schema, entries }) in &self.states {
            operator.encode(out);
            name.encode(out);
            schema.encode(out);
            (entries.len() as u64).encode(out);
            entries.iter().for_each(|Entries(bytes)| bytes.encode(out));
        }
    }

    /// Reads what [`encode`](Self::encode) has written, to its end.
    pub(crate) fn decode(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let input = &mut bytes;
        let clock = Reading { began: Timestamp::decode(input)?, now: u64::decode(input)? };
        let mut snapshot = Self { clock, states: BTreeMap::new() };
        for _ in 0..u64::decode(input)? {
            let (operator, name) = (String::decode(input)?, String::decode(input)?);
            let schema = String::decode(input)?;
            let tasks = 0..u64::decode(input)?;
            let entries = tasks.map(|_| Vec::decode(input).map(Entries));
            let entries = entries.collect::<Result<_, _>>()?;
            snapshot.states.insert(StateId { operator, name }, State { schema, entries });
        }
        match input.is_empty() {
            true => Ok(snapshot),
            false => Err(DecodeError::invalid("read to their end")),
        }
    }
}
