//! Headers that would make a reader take one column for another.

use crate::error::{Error, ErrorKind, Place, Result};
use crate::io::files::InputFile;
use csv::StringRecord;
use serde::Deserializer;
use serde::de::value::Error as ProbeError;
use serde::de::{DeserializeOwned, Error as _, Visitor};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// By what a type finds its fields in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// By these names.
    Names(&'static [&'static str]),
    /// By all names that the header has.
    AllNames,
    /// By their order.
    Order,
}

impl Wanted {
    /// What a type asks its deserializer for.
    pub(super) fn by<T: DeserializeOwned>() -> Self {
        let mut wanted = Self::Order;
        // A type names its fields before it reads anything; the probe then answers with an error.
        let _ = T::deserialize(Probe(&mut wanted));
        wanted
    }
}

/// What has been seen of the headers of a source's files.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    wanted: Wanted,
    /// The first one, where columns are found by their order.
    first: Arc<OnceLock<(PathBuf, StringRecord)>>,
}

impl Headers {
    pub(super) fn new(wanted: Wanted) -> Self {
        Self { wanted, first: Arc::default() }
    }

    /// Refuses a header that has a wanted name twice, and one that names other columns than another
    /// file's where columns are found by their order.
    pub(super) fn check(&self, header: &StringRecord, file: &InputFile) -> Result<()> {
        match self.wanted {
            Wanted::Names(names) => unambiguous(header, file, |name| names.contains(&name)),
            Wanted::AllNames => unambiguous(header, file, |_| true),
            Wanted::Order => {
                let (path, first) = self.first.get_or_init(|| (file.path.clone(), header.clone()));
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

/// Refuses a header that has a name twice which is wanted.
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

fn refused(file: &InputFile, what: String) -> Error {
    Error::new(ErrorKind::Input, what).at(Place::Line(file.path.clone(), 1))
}

/// Some names of columns, for messages.
pub(super) fn list(header: &StringRecord) -> String {
    const SHOWN: usize = 20;
    let names: Vec<_> = header.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if header.len() > SHOWN { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
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
        *self.0 = Wanted::Names(fields);
        self.deserialize_any(visitor)
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
        assert_eq!(Wanted::by::<Flat>(), Wanted::AllNames);
        assert_eq!(Wanted::by::<HashMap<String, u8>>(), Wanted::AllNames);
        assert_eq!(Wanted::by::<(u8, Plain)>(), Wanted::Order);
        assert_eq!(Wanted::by::<Vec<u8>>(), Wanted::Order);
        assert_eq!(Wanted::by::<u8>(), Wanted::Order);
        assert_eq!(Wanted::by::<()>(), Wanted::Order);
    }
}
