//! The entries of states, shown without the program that has saved them.

use super::Store;
use super::inspect::CheckpointDir;
use super::snapshot::Saved;
use crate::data::{DecodeError, Schema, to_json};
use crate::error::{Error, ErrorKind, Place, Result};
use serde_json::Value;
use std::fmt;
use std::ops::ControlFlow;

/// An entry of a state, as JSON: what an operator keeps for a key, or one of the values that it keeps without keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateEntry {
    /// The operator: its name, or its kind and number.
    pub operator: String,
    /// Which of the operator's states it is of.
    pub state: String,
    /// The key, of a state that goes by keys. Of records that are kept as they came: all of the record.
    pub key: Option<String>,
    /// What is kept.
    pub value: String,
    /// The bytes of both, before they are packed for the checkpoint's file.
    pub bytes: u64,
}

impl StateEntry {
    /// Whether this is the key that a person means: as it is shown, or without the quotes.
    pub fn has_key(&self, key: &str) -> bool {
        let Some(own) = &self.key else { return false };
        let is_same = |text: &str| serde_json::from_str(text).ok().as_ref() == Some(&self.parsed());
        own == key || is_same(key) || self.parsed() == Value::String(key.to_owned())
    }

    fn parsed(&self) -> Value {
        self.key.as_deref().and_then(|key| serde_json::from_str(key).ok()).unwrap_or_default()
    }
}

/// As a line of JSON.
impl fmt::Display for StateEntry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &str| Value::String(text.to_owned());
        write!(out, "{{\"operator\":{},\"state\":{}", text(&self.operator), text(&self.state))?;
        if let Some(key) = &self.key {
            write!(out, ",\"key\":{key}")?;
        }
        write!(out, ",\"value\":{},\"bytes\":{}}}", self.value, self.bytes)
    }
}

impl CheckpointDir {
    /// Calls `each` with the entries of all states, in the order of operators, states and tasks, until it breaks.
    ///
    /// Structs are shown as objects, variants of enums by their name, bytes as hexadecimal digits, and maps whose keys are not text
    /// as lists of pairs. What operators have on disk is not among the entries. States are what operators keep, and may look
    /// otherwise in another version of the engine. For the numbers of entries and bytes, see [`read`](Self::read), which costs less.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    ///
    /// ```no_run
    /// use std::ops::ControlFlow;
    /// use thalweg::checkpoint::CheckpointDir;
    ///
    /// // What is counted for one word.
    /// CheckpointDir::open("saved")?.entries(17, |entry| {
    ///     if entry.operator == "count-0" && entry.has_key("river") {
    ///         println!("{}", entry.value);
    ///         return ControlFlow::Break(());
    ///     }
    ///     ControlFlow::Continue(())
    /// })?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn entries(
        &self,
        number: u64,
        mut each: impl FnMut(StateEntry) -> ControlFlow<()>,
    ) -> Result<()> {
        let (folder, name) = (self.folder(), Store::name_of(number));
        let snapshot = Store::read_file(folder, &name)?;
        for id in snapshot.ids() {
            let Some(shape) = snapshot.shape(id) else { continue };
            let unreadable = |error: DecodeError| {
                let what = format!("{id} of the checkpoint cannot be shown: {error}");
                Error::new(ErrorKind::Input, what).at(Place::File(folder.path().join(&name)))
            };
            let mut entries = snapshot.entries(id);
            while let Some(Saved { bytes, .. }) = entries.next().map_err(unreadable)? {
                let (key, value) =
                    shown(&shape.entries, shape.by_key, bytes).map_err(unreadable)?;
                let entry = StateEntry {
                    operator: id.operator.clone(),
                    state: id.name.clone(),
                    key: key.as_ref().map(Value::to_string),
                    value: value.to_string(),
                    bytes: bytes.len() as u64,
                };
                if each(entry).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The key of an entry, if it has one, and what is kept.
fn shown(
    schema: &Schema,
    by_key: bool,
    mut bytes: &[u8],
) -> Result<(Option<Value>, Value), DecodeError> {
    let value = to_json(schema, &mut bytes)?;
    if !bytes.is_empty() {
        return Err(DecodeError::invalid("read to their end"));
    }
    Ok(match value {
        Value::Array(mut parts) if by_key && !parts.is_empty() => {
            let key = parts.remove(0);
            let value = if parts.len() == 1 { parts.remove(0) } else { Value::Array(parts) };
            (Some(key), value)
        }
        value => (None, value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_as_people_write_them() {
        let entry = |key: &str| StateEntry {
            operator: String::new(),
            state: String::new(),
            key: Some(key.to_owned()),
            value: String::new(),
            bytes: 0,
        };
        for (key, written) in
            [("7", "7"), ("\"river\"", "river"), ("\"7\"", "7"), ("[1,\"a\"]", "[1, \"a\"]")]
        {
            assert!(entry(key).has_key(written), "{key} {written}");
        }
        let shown = StateEntry { value: "[1]".to_owned(), ..entry("\"a\"") }.to_string();
        assert_eq!(shown, r#"{"operator":"","state":"","key":"a","value":[1],"bytes":0}"#);
        for (key, other) in [("7", "8"), ("\"river\"", "riv"), ("[1]", "1"), ("\"a b\"", "a")] {
            assert!(!entry(key).has_key(other), "{key} {other}");
        }
    }
}
