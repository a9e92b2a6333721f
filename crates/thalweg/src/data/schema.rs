//! The structure of encodings, as data.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::hash::{Hash, Hasher};

/// The structure of an encoding, as data: for plans, for state kept across versions of a program, and for readers in
/// other languages.
///
/// ```
/// use thalweg::Data;
///
/// #[derive(Data)]
/// struct Count {
///     word: String,
///     times: u64,
/// }
/// assert_eq!(Vec::<Count>::schema().to_string(), "[Count { word: str, times: u64 }]");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Schema {
    /// A truth value: one byte, 0 or 1.
    Bool,
    /// A signed integer of one byte.
    I8,
    /// A signed integer of two bytes.
    I16,
    /// A signed integer of four bytes.
    I32,
    /// A signed integer of eight bytes.
    I64,
    /// A signed integer of sixteen bytes.
    I128,
    /// An unsigned integer of one byte.
    U8,
    /// An unsigned integer of two bytes.
    U16,
    /// An unsigned integer of four bytes.
    U32,
    /// An unsigned integer of eight bytes.
    U64,
    /// An unsigned integer of sixteen bytes.
    U128,
    /// An IEEE 754 number of four bytes.
    F32,
    /// An IEEE 754 number of eight bytes.
    F64,
    /// A Unicode scalar value, in four bytes.
    Char,
    /// UTF-8 text behind its length in bytes.
    Str,
    /// Bytes behind their length.
    Bytes,
    /// Nothing, in no bytes.
    Unit,
    /// Variant 0 without a value, or variant 1 with one.
    Option(Box<Schema>),
    /// Elements behind their number.
    List(Box<Schema>),
    /// Different elements behind their number, in the order of their encodings.
    Set(Box<Schema>),
    /// A fixed number of elements.
    Array(Box<Schema>, usize),
    /// Keys and values behind their number, in the order of the encoded keys.
    Map(Box<Schema>, Box<Schema>),
    /// Fields one after the other.
    Tuple(Vec<Schema>),
    /// Named fields one after the other.
    Struct {
        /// The type's name.
        name: String,
        /// The fields in order; those of a tuple struct are named by their position.
        fields: Vec<Field>,
        /// The type's former names.
        #[serde(skip)]
        evolution: Evolution,
    },
    /// A variant's index, then its content.
    Enum {
        /// The type's name.
        name: String,
        /// The variants in the order of their index: `Unit`, `Tuple` or `Struct`.
        variants: Vec<Field>,
        /// The type's former names.
        #[serde(skip)]
        evolution: Evolution,
    },
    /// The struct or enum of this name that encloses this schema.
    Recursive(String),
    /// Rows held by column: the number of rows, the number of columns, and of each column its type and its buffers.
    /// The type of such a block does not name its columns; a plan does.
    Columns(Vec<Field>),
}

/// A named part of a [`Schema`]: a struct's field or an enum's variant.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Field {
    /// The field's or variant's name.
    pub name: String,
    /// The field's schema, or that of the variant's content.
    pub schema: Schema,
    /// The former names, and the default of a field.
    #[serde(skip)]
    pub evolution: Evolution,
}

impl Field {
    /// A field of this name and schema.
    pub fn new(name: impl Into<String>, schema: Schema) -> Self {
        Self { name: name.into(), schema, evolution: Evolution::default() }
    }

    /// With a name that it had in older versions of the program.
    pub fn alias(mut self, name: &str) -> Self {
        self.evolution = self.evolution.alias(name);
        self
    }

    /// With the value that it gets where an older version of the program has saved none, as encoded by a function. That is called
    /// only where it is needed, and must always append the same.
    pub fn with_default(mut self, encode: fn(&mut Vec<u8>)) -> Self {
        self.evolution.default = Some(encode);
        self
    }
}

/// What a program knows of a type or of one of its fields, beyond the encoding: the names that it had before, and the value of a
/// field that older values lack.
///
/// It is used when a job goes on from a checkpoint of an older version of its program. It is no part of the encoding: so all are
/// equal, and a schema that is stored does not have it. `#[data(alias = "…")]` and `#[data(default)]` set it: see
/// [`Data`](crate::Data).
///
/// ```
/// use thalweg::Data;
/// use thalweg::data::{Field, Schema};
///
/// let field = Field::new("times", Schema::U64);
/// assert_eq!(field.clone().alias("count").with_default(|out| 1_u64.encode(out)), field);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Evolution {
    aliases: Vec<String>,
    default: Option<fn(&mut Vec<u8>)>,
}

impl Evolution {
    /// With a name of older versions of the program.
    pub fn alias(mut self, name: &str) -> Self {
        self.aliases.push(name.to_owned());
        self
    }

    /// Whether `name` is a former name.
    pub(super) fn was(&self, name: &str) -> bool {
        self.aliases.iter().any(|alias| alias == name)
    }

    /// The encoding of the default.
    pub(super) fn default_bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        self.default?(&mut bytes);
        Some(bytes)
    }
}

impl PartialEq for Evolution {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Evolution {}

impl Hash for Evolution {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl Schema {
    /// The schema with each part that `change` returns another for replaced by it. It does not look into the fields
    /// of structs and enums.
    pub(crate) fn replaced(&self, change: &impl Fn(&Self) -> Option<Self>) -> Self {
        if let Some(other) = change(self) {
            return other;
        }
        let inner = |schema: &Self| Box::new(schema.replaced(change));
        match self {
            Self::Option(of) => Self::Option(inner(of)),
            Self::List(of) => Self::List(inner(of)),
            Self::Set(of) => Self::Set(inner(of)),
            Self::Array(of, len) => Self::Array(inner(of), *len),
            Self::Map(key, value) => Self::Map(inner(key), inner(value)),
            Self::Tuple(parts) => {
                Self::Tuple(parts.iter().map(|part| part.replaced(change)).collect())
            }
            other => other.clone(),
        }
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn list<T>(
            f: &mut fmt::Formatter<'_>,
            items: &[T],
            between: &str,
            show: impl Fn(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
        ) -> fmt::Result {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    f.write_str(between)?;
                }
                show(f, item)?;
            }
            Ok(())
        }
        fn fields(f: &mut fmt::Formatter<'_>, name: &str, all: &[Field]) -> fmt::Result {
            if all.is_empty() {
                return f.write_str(name);
            }
            write!(f, "{name} {{ ")?;
            list(f, all, ", ", |f, field| write!(f, "{}: {}", field.name, field.schema))?;
            f.write_str(" }")
        }
        let name = match self {
            Self::Bool => "bool",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::I128 => "i128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::U128 => "u128",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Char => "char",
            Self::Str => "str",
            Self::Bytes => "bytes",
            Self::Unit => "()",
            Self::Option(inner) => return write!(f, "{inner}?"),
            Self::List(inner) => return write!(f, "[{inner}]"),
            Self::Set(inner) => return write!(f, "{{{inner}}}"),
            Self::Array(inner, len) => return write!(f, "[{inner}; {len}]"),
            Self::Map(key, value) => return write!(f, "{{{key}: {value}}}"),
            Self::Tuple(parts) => {
                f.write_str("(")?;
                list(f, parts, ", ", |f, part| write!(f, "{part}"))?;
                return f.write_str(if parts.len() == 1 { ",)" } else { ")" });
            }
            Self::Struct { name, fields: all, .. } => return fields(f, name, all),
            Self::Enum { name, variants, .. } => {
                write!(f, "{name} <")?;
                list(f, variants, " | ", |f, variant| match &variant.schema {
                    Self::Unit => f.write_str(&variant.name),
                    Self::Struct { fields: all, .. } => fields(f, &variant.name, all),
                    Self::Tuple(parts) => {
                        write!(f, "{}(", variant.name)?;
                        list(f, parts, ", ", |f, part| write!(f, "{part}"))?;
                        f.write_str(")")
                    }
                    content => write!(f, "{}{content}", variant.name),
                })?;
                return f.write_str(">");
            }
            Self::Recursive(name) => name,
            Self::Columns(all) => return fields(f, "columns", all),
        };
        f.write_str(name)
    }
}
