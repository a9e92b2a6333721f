//! The shapes of states, and how those of an older version of a program become those of this one.
//!
//! A checkpoint has the type of each state's entries as a value, and what its operator was given. If a program that goes on from
//! it has another type there, the entries are migrated when the first task with that state is made, if nothing is lost
//! ([`Migration`]); else the job is refused. What an operator was given must be as before.

use super::snapshot::{Entries, Saved, Snapshot, StateId};
use crate::data::{Data, DecodeError, Migration, Schema};
use serde::Deserialize as _;
use std::fmt;

/// The type of a state's entries, and what its operator is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) entries: Schema,
    /// The kind of the operator, and what it was given; empty where it can go on with other values.
    pub(crate) operator: String,
    /// Whether the entries are tuples of a key, and what is kept for it.
    pub(crate) by_key: bool,
}

/// As in messages.
impl fmt::Display for Shape {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.operator {
            "" => self.entries.fmt(out),
            operator => write!(out, "{} of {operator}", self.entries),
        }
    }
}

impl Shape {
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        // A schema is always JSON; without one, nothing could be read again.
        let entries = serde_json::to_string(&self.entries).unwrap_or_default();
        entries.encode(out);
        self.operator.encode(out);
        self.by_key.encode(out);
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let text = String::decode(input)?;
        let mut json = serde_json::Deserializer::from_str(&text);
        // The compiler limits how deeply types are nested.
        if nesting(&text) > DEEPEST {
            return Err(DecodeError::invalid("the type of a state: it is nested too deeply"));
        }
        json.disable_recursion_limit();
        let entries = Schema::deserialize(&mut json);
        let entries = entries.map_err(|_| DecodeError::invalid("the type of a state"))?;
        Ok(Self { entries, operator: String::decode(input)?, by_key: bool::decode(input)? })
    }

    /// How entries of another shape become entries of this one.
    ///
    /// # Errors
    ///
    /// Why they cannot.
    pub(super) fn migration(&self, from: &Self) -> Result<Migration, String> {
        if (&from.operator, from.by_key) != (&self.operator, self.by_key) {
            return Err("the operator is another, or was given something else".to_owned());
        }
        Migration::find(&from.entries, &self.entries, self.by_key)
    }
}

/// The most braces and brackets around a part of a type: so many that the stack of a thread has room for them.
const DEEPEST: usize = 640;

/// How many braces and brackets are around some part of a JSON text, or more.
fn nesting(text: &str) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            // Those in a name nest nothing.
            b'"' => {
                while let Some(byte) = bytes.next().filter(|byte| *byte != b'"') {
                    if byte == b'\\' {
                        bytes.next();
                    }
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

impl Snapshot {
    /// Makes a state's entries those of a program, if the types differ. Returns what has changed.
    ///
    /// # Errors
    ///
    /// Why that cannot be done; nothing has changed then.
    pub(super) fn migrate(&mut self, id: &StateId, to: &Shape) -> Result<Vec<String>, String> {
        let Some(from) = self.shape(id) else { return Ok(Vec::new()) };
        let migration = to.migration(from)?;
        let mut all: Vec<_> = (0..self.tasks(id)).map(|_| Entries::default()).collect();
        let unreadable = |error: DecodeError| format!("an entry cannot be read as one: {error}");
        let mut entries = self.entries(id);
        while let Some(Saved { task, group, mut bytes }) = entries.next().map_err(unreadable)? {
            all[task]
                .add_to_group(group, |out| migration.apply(&mut bytes, out))
                .map_err(unreadable)?;
            if !bytes.is_empty() {
                return Err(unreadable(DecodeError::invalid("read to their end")));
            }
        }
        self.replace(id, to, all);
        Ok(migration.changes().to_vec())
    }

    /// Whether all entries can be read by the schemas that they are saved with.
    #[cfg(any(test, debug_assertions))]
    pub(crate) fn check_schemas(&self) -> Result<(), String> {
        for id in self.ids() {
            let Some(shape) = self.shape(id) else { continue };
            // Rows by column.
            let Ok(same) = shape.migration(shape) else { continue };
            let mut entries = self.entries(id);
            while let Ok(Some(Saved { mut bytes, .. })) = entries.next() {
                let read = same.apply(&mut bytes, &mut Vec::new());
                if read.is_err() || !bytes.is_empty() {
                    return Err(format!("an entry of {id} is not one of `{shape}`: {read:?}"));
                }
            }
        }
        Ok(())
    }
}

/// An entry of a state with one type, migrated to another, for fuzzing.
pub(crate) fn migrate_entry(
    (from, to): (&Schema, &Schema),
    by_key: bool,
    bytes: &[u8],
) -> Result<Vec<u8>, String> {
    let shape = |entries: &Schema| {
        let (entries, operator) = (entries.clone(), String::new());
        Shape { entries, operator, by_key }
    };
    let id = StateId { operator: String::new(), name: String::new() };
    let mut entries = Entries::default();
    entries.add(0, |out| out.extend_from_slice(bytes));
    let mut snapshot = Snapshot::default();
    snapshot.add(&id, &shape(from), entries, Vec::new());
    snapshot.migrate(&id, &shape(to))?;
    let migrated = snapshot.entries(&id).next().map_err(|error| error.to_string())?;
    Ok(migrated.map(|entry| entry.bytes.to_vec()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Field;

    /// The bytes of a shape whose entries have this type, as JSON.
    fn encoded(entries: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        entries.to_owned().encode(&mut bytes);
        String::new().encode(&mut bytes);
        false.encode(&mut bytes);
        bytes
    }

    fn options(count: usize) -> String {
        format!("{}\"u8\"{}", "{\"option\":".repeat(count), "}".repeat(count))
    }

    #[test]
    fn types_that_are_nested_too_deeply_are_refused_whatever_their_names() {
        let decoded = |entries: &str| Shape::decode(&mut &*encoded(entries));
        decoded(&options(DEEPEST)).unwrap();
        decoded(&options(DEEPEST + 1)).unwrap_err();
        // The braces of a name close nothing.
        let name = format!("\\\"{}", "}".repeat(1_000_000));
        let field = format!(r#"{{"name":"{name}","schema":{}}}"#, options(900_000));
        decoded(&format!(r#"{{"columns":[{field}]}}"#)).unwrap_err();
        // Nor do they open anything.
        decoded(&format!(r#"{{"recursive":"{}"}}"#, "{".repeat(3000))).unwrap();
    }

    #[test]
    fn the_most_deeply_nested_types_are_shown_compared_and_migrated() {
        let shape = Shape::decode(&mut &*encoded(&options(DEEPEST))).unwrap();
        assert_eq!(shape.clone().to_string(), format!("u8{}", "?".repeat(DEEPEST)));
        let migrated = migrate_entry((&shape.entries, &shape.entries), false, &[1, 1, 0]);
        assert_eq!(migrated.unwrap(), [1, 1, 0]);
        migrate_entry((&shape.entries, &shape.entries), false, &[1; 300]).unwrap_err();
    }

    #[test]
    fn shapes_come_back_however_deeply_their_types_are_nested() {
        let mut entries = Schema::U8;
        for depth in 0..100 {
            let field = Field::new(format!("inner {depth}"), Schema::Option(Box::new(entries)));
            let (name, fields) = (format!("Outer{depth}"), vec![field]);
            entries = Schema::Struct { name, fields, evolution: Default::default() };
        }
        let shape = Shape { entries, operator: "fold".to_owned(), by_key: true };
        let mut bytes = Vec::new();
        shape.encode(&mut bytes);
        let mut rest = &*bytes;
        assert_eq!(Shape::decode(&mut rest).unwrap(), shape);
        assert!(rest.is_empty());
    }
}
