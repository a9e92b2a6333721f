//! Checks of headers in which a wanted column is ambiguous or missing.

use crate::error::{Error, ErrorKind, Place, Result};
use crate::io::files::InputFile;
use csv::StringRecord;
use serde::Deserializer;
use serde::de::value::Error as ProbeError;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Error as _, IntoDeserializer, MapAccess, Visitor,
};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// How a type finds its fields in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// By these names, each of which is a field's only name.
    Names(&'static [&'static str]),
    /// By these names, some of which may be aliases.
    Aliases(&'static [&'static str]),
    /// By all names in the header.
    AllNames,
    /// By their order.
    Order,
}

impl Wanted {
    /// The way in which a type requests fields from its deserializer.
    pub(super) fn by<T: DeserializeOwned>() -> Self {
        let mut wanted = Self::Order;
        // A type requests its fields before it reads anything; the probe then returns an error.
        let _ = T::deserialize(Probe(&mut wanted));
        wanted
    }
}

/// Whether a row is a record rather than a header: the type can be read from it, and not from any text.
pub(super) fn reads_as_a_record<T: DeserializeOwned>(row: &StringRecord) -> bool {
    let any_text = StringRecord::from(vec!["\u{1}"; row.len()]);
    row.deserialize::<T>(None).is_ok() && any_text.deserialize::<T>(None).is_err()
}

/// The headers of a source's files that were read so far.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    wanted: Wanted,
    /// Whether columns may be missing.
    optional: bool,
    /// The header of the first file that has one, if columns are found by order.
    first: Arc<OnceLock<(PathBuf, StringRecord)>>,
}

impl Headers {
    pub(super) fn new(wanted: Wanted, optional: bool) -> Self {
        Self { wanted, optional, first: Arc::default() }
    }

    /// Whether columns are found by order.
    pub(super) fn by_order(&self) -> bool {
        self.wanted == Wanted::Order
    }

    /// Refuses a header in which a wanted name is missing or occurs twice. If columns are found by order, refuses one
    /// that differs from the header of the first file, which the closure reads: another task, or another host, may
    /// have the splits of that file.
    pub(super) fn check(
        &self,
        header: &StringRecord,
        file: &InputFile,
        first: impl FnOnce() -> Result<Option<(PathBuf, StringRecord)>>,
    ) -> Result<()> {
        match self.wanted {
            Wanted::Names(names) => {
                unambiguous(header, file, |name| names.contains(&name))?;
                self.complete(names, header, file)
            }
            Wanted::Aliases(names) => unambiguous(header, file, |name| names.contains(&name)),
            Wanted::AllNames => unambiguous(header, file, |_| true),
            Wanted::Order => {
                if self.first.get().is_none()
                    && let Some(first) = first()?
                {
                    // Another task may have read the same header meanwhile.
                    let _ = self.first.set(first);
                }
                let Some((path, first)) = self.first.get() else { return Ok(()) };
                if first == header {
                    return Ok(());
                }
                let what = format!(
                    "the columns are {}, and in {} they are {}: a tuple takes them in order; a struct \
                     finds them by their names",
                    list(header),
                    path.display(),
                    list(first)
                );
                Err(refused(file, what))
            }
        }
    }
}

impl Headers {
    /// Refuses a header that lacks some of these names, unless columns may be missing.
    fn complete(&self, names: &[&str], header: &StringRecord, file: &InputFile) -> Result<()> {
        let is_there = |name: &&&str| header.iter().any(|column| column == **name);
        let missing: Vec<_> = names.iter().filter(|name| !is_there(name)).copied().collect();
        if missing.is_empty() || self.optional {
            return Ok(());
        }
        let way_out = if missing.len() < names.len() {
            "`Csv::optional_columns` allows that for fields that serde can do without"
        } else {
            "`Csv::without_header` reads a file whose first row is a record"
        };
        Err(without_columns(&missing, header, file).with(way_out))
    }
}

/// The error of a header that has no column for these fields.
pub(super) fn without_columns(fields: &[&str], header: &StringRecord, file: &InputFile) -> Error {
    let (fields, columns) = (list(fields.iter().copied()), list(header));
    refused(file, format!("no column for {fields}; the columns are {columns}"))
}

/// Refuses a header in which a wanted name occurs twice.
pub(super) fn unambiguous(
    header: &StringRecord,
    file: &InputFile,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<()> {
    for (at, name) in header.iter().enumerate() {
        if is_wanted(name)
            && let Some(before) = header.iter().take(at).position(|other| other == name)
        {
            let (before, at) = (before + 1, at + 1);
            let what = format!("columns {before} and {at} are both named `{name}`");
            return Err(refused(file, what));
        }
    }
    Ok(())
}

pub(super) fn refused(file: &InputFile, what: String) -> Error {
    Error::new(ErrorKind::Input, what).at(Place::Line(file.path.clone(), 1))
}

/// Formats column names for messages.
pub(super) fn list<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const SHOWN: usize = 20;
    let mut names = names.into_iter();
    let shown: Vec<_> = names.by_ref().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if names.next().is_some() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Records which fields are requested, and holds no data.
struct Probe<'a>(&'a mut Wanted);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = ProbeError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeError> {
        Err(ProbeError::custom("nothing"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        // The names may include aliases. A type also accepts its fields by number, and has as many numbers as names
        // if there are no aliases.
        *self.0 = Wanted::Aliases(fields);
        let mut is_field = fields.is_empty();
        let number = fields.len().checked_sub(1).map(|last| last as u64);
        let _ = visitor.visit_map(Numbered { number, is_field: &mut is_field });
        if is_field {
            *self.0 = Wanted::Names(fields);
        }
        Err(ProbeError::custom("nothing"))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        *self.0 = Wanted::AllNames;
        self.deserialize_any(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ProbeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ProbeError> {
        visitor.visit_some(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct enum identifier ignored_any
    }
}

/// An entry of a map whose key is the number of a field; records whether the type reads a value for it.
struct Numbered<'a> {
    number: Option<u64>,
    is_field: &'a mut bool,
}

impl<'de> MapAccess<'de> for Numbered<'_> {
    type Error = ProbeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, ProbeError> {
        let Some(number) = self.number.take() else { return Ok(None) };
        seed.deserialize(number.into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(
        &mut self,
        seed: V,
    ) -> Result<V::Value, ProbeError> {
        seed.deserialize(FieldValue(self.is_field))
    }
}

/// The value of a field that is not skipped; holds no data.
struct FieldValue<'a>(&'a mut bool);

impl<'de> Deserializer<'de> for FieldValue<'_> {
    type Error = ProbeError;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeError> {
        *self.0 = true;
        Err(ProbeError::custom("nothing"))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, ProbeError> {
        Err(ProbeError::custom("nothing"))
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit option
        unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use std::collections::HashMap;

    #[derive(Deserialize)]
    #[serde(rename_all = "UPPERCASE")]
    struct Plain {
        #[expect(dead_code, reason = "only its name matters")]
        a: u8,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its names matter")]
    struct Lenient {
        a: Option<u8>,
        #[serde(default)]
        b: Vec<u8>,
        #[serde(skip)]
        c: u8,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only its names matter")]
    struct Aliased {
        #[serde(alias = "ay")]
        a: Option<u8>,
        b: u8,
    }

    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    #[expect(dead_code, reason = "only its names matter")]
    struct Closed {
        #[serde(alias = "ay")]
        a: u8,
    }

    #[derive(Deserialize)]
    struct Flat {
        #[expect(dead_code, reason = "only its type matters")]
        #[serde(flatten)]
        rest: HashMap<String, String>,
    }

    #[derive(Deserialize)]
    struct Wrapped(#[expect(dead_code, reason = "only its type matters")] Plain);

    #[test]
    fn types_say_by_what_they_find_their_fields() {
        assert_eq!(Wanted::by::<Plain>(), Wanted::Names(&["A"]));
        assert_eq!(Wanted::by::<Wrapped>(), Wanted::Names(&["A"]));
        assert_eq!(Wanted::by::<Option<Plain>>(), Wanted::Names(&["A"]));
        assert_eq!(Wanted::by::<Lenient>(), Wanted::Names(&["a", "b"]));
        assert_eq!(Wanted::by::<Aliased>(), Wanted::Aliases(&["a", "ay", "b"]));
        assert_eq!(Wanted::by::<Closed>(), Wanted::Aliases(&["a", "ay"]));
        assert_eq!(Wanted::by::<Flat>(), Wanted::AllNames);
        assert_eq!(Wanted::by::<HashMap<String, u8>>(), Wanted::AllNames);
        assert_eq!(Wanted::by::<(u8, Plain)>(), Wanted::Order);
        assert_eq!(Wanted::by::<Vec<u8>>(), Wanted::Order);
        assert_eq!(Wanted::by::<u8>(), Wanted::Order);
        assert_eq!(Wanted::by::<()>(), Wanted::Order);
    }
}
