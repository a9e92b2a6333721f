//! The properties of an operator as named values.

use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The properties of an [`Operator`](super::Operator): the files that it reads, the size of a limit, … They are values;
/// printed, they are text for people.
///
/// ```
/// use thalweg::{Environment, plan::Value};
///
/// let env = Environment::new();
/// let _ = env.range(0..9).chunks(4).collect_one();
/// let plan = env.plan();
/// let chunks = plan.operators.iter().find(|operator| operator.kind == "chunks").unwrap();
/// assert_eq!(chunks.details.get("size"), Some(&Value::Integer(4)));
/// assert_eq!(chunks.details.to_string(), "4 records");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Details(Vec<Detail>);

/// A property of an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Detail {
    /// What the value is, such as `size`.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// The value of a [`Detail`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Value {
    /// Whether the operator has the property.
    Bool(bool),
    /// A number of records, rounds, …
    Integer(u64),
    /// A number that need not be whole. Two are equal if their bits are.
    #[serde(with = "as_text")]
    Float(f64),
    /// A name, a path, an expression.
    Text(String),
    /// A span of time.
    Duration(Duration),
    /// A distance in time to something earlier or later, in microseconds.
    Offset(i64),
    /// Several values.
    List(Vec<Value>),
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a.to_bits() == b.to_bits(),
            (Self::Text(a), Self::Text(b)) => a == b,
            (Self::Duration(a), Self::Duration(b)) => a == b,
            (Self::Offset(a), Self::Offset(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

/// Floats as text, since JSON has no infinity.
mod as_text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(value)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<f64, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

impl Details {
    /// No properties.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// One property.
    pub(crate) fn of(name: &str, value: impl Into<Value>) -> Self {
        Self::none().with(name, value)
    }

    /// Adds a property.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.push(Detail { name: name.to_owned(), value: value.into() });
        self
    }

    /// Adds a property if it has a value.
    pub(crate) fn with_some(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds these properties.
    pub(crate) fn with_all(mut self, others: Self) -> Self {
        self.0.extend(others.0);
        self
    }

    /// Removes the properties of which the closure returns `false`.
    pub(super) fn retain(&mut self, keep: impl Fn(&Detail) -> bool) {
        self.0.retain(keep);
    }

    /// The value of this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.iter().find(|detail| detail.name == name).map(|detail| &detail.value)
    }

    /// All properties, in the order in which the operator lists them.
    pub fn iter(&self) -> std::slice::Iter<'_, Detail> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Details {
    type Item = &'a Detail;
    type IntoIter = std::slice::Iter<'a, Detail>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

macro_rules! from {
    ($($type:ty => |$value:ident| $made:expr),* $(,)?) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $made
            }
        }
    )*};
}

from! {
    bool => |value| Self::Bool(value),
    u64 => |value| Self::Integer(value),
    usize => |value| Self::Integer(value as u64),
    f64 => |value| Self::Float(value),
    &str => |value| Self::Text(value.to_owned()),
    String => |value| Self::Text(value),
    &Path => |value| Self::Text(value.display().to_string()),
    Duration => |value| Self::Duration(value),
    Vec<String> => |values| Self::List(values.into_iter().map(Self::Text).collect()),
    &[String] => |values| Self::List(values.iter().cloned().map(Self::Text).collect()),
    &[PathBuf] => |paths| Self::List(paths.iter().map(|path| Self::from(&**path)).collect()),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_equal_after_json() {
        let list = Value::from(vec!["a".to_owned(), "\"".to_owned()]);
        let floats = [0.5, -0.0, 1e300, f64::INFINITY, f64::NAN];
        let details = Details::of("bool", true)
            .with("integer", u64::MAX)
            .with("text", "½")
            .with("duration", Duration::new(u64::MAX, 999_999_999))
            .with("offset", Value::Offset(i64::MIN))
            .with("list", list)
            .with_some("none", None::<bool>);
        let details = floats.into_iter().fold(details, |details, float| details.with("f", float));
        let json = serde_json::to_string(&details).unwrap();
        assert_eq!(serde_json::from_str::<Details>(&json).unwrap(), details, "{json}");
        assert_eq!(details.iter().count(), 11);
        assert_ne!(Value::from(0.0), Value::from(-0.0));
    }
}
