//! Types, values and schemas of columns, as a graph names them.

use crate::data::Schema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Type {
    /// Signed integers of 64 bits.
    I64,
    /// Unsigned integers of 64 bits.
    U64,
    /// IEEE 754 numbers of 64 bits.
    F64,
    /// Truth values.
    Bool,
    /// UTF-8 text.
    Utf8,
    /// Bytes.
    Bytes,
}

impl Type {
    /// The schema of a value.
    pub(crate) fn schema(self) -> Schema {
        match self {
            Self::I64 => Schema::I64,
            Self::U64 => Schema::U64,
            Self::F64 => Schema::F64,
            Self::Bool => Schema::Bool,
            Self::Utf8 => Schema::Str,
            Self::Bytes => Schema::Bytes,
        }
    }

    /// Whether arithmetic is defined for the type.
    pub(crate) fn is_number(self) -> bool {
        matches!(self, Self::I64 | Self::U64 | Self::F64)
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I64 => "i64",
            Self::U64 => "u64",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Utf8 => "utf8",
            Self::Bytes => "bytes",
        })
    }
}

/// One value of a column.
///
/// ```
/// use thalweg::dynamic::{Type, Value};
///
/// assert_eq!(Value::from("thalweg").kind(), Type::Utf8);
/// assert_eq!(Value::from(3_i64).to_string(), "3");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// A signed integer.
    I64(i64),
    /// An unsigned integer.
    U64(u64),
    /// A floating-point number.
    F64(f64),
    /// A truth value.
    Bool(bool),
    /// Text.
    Utf8(String),
    /// Bytes.
    Bytes(Vec<u8>),
}

impl Value {
    /// The type of the columns that can hold this value.
    pub fn kind(&self) -> Type {
        match self {
            Self::I64(_) => Type::I64,
            Self::U64(_) => Type::U64,
            Self::F64(_) => Type::F64,
            Self::Bool(_) => Type::Bool,
            Self::Utf8(_) => Type::Utf8,
            Self::Bytes(_) => Type::Bytes,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::I64(value) => value.fmt(f),
            Self::U64(value) => value.fmt(f),
            Self::F64(value) => value.fmt(f),
            Self::Bool(value) => value.fmt(f),
            Self::Utf8(value) => value.fmt(f),
            Self::Bytes(value) => value.escape_ascii().fmt(f),
        }
    }
}

macro_rules! from {
    ($($type:ty => $variant:ident),*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value.into())
            }
        }
    )*};
}

from!(i64 => I64, u64 => U64, f64 => F64, bool => Bool, &str => Utf8, String => Utf8, &[u8] => Bytes);

/// A column's name and type.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Field {
    /// The name by which expressions refer to the column.
    pub name: String,
    /// The type of its values.
    #[serde(rename = "type")]
    pub kind: Type,
}

impl Field {
    /// A column of this name and type.
    pub fn new(name: impl Into<String>, kind: Type) -> Self {
        Self { name: name.into(), kind }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind)
    }
}
