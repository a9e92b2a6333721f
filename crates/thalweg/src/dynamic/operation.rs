//! The operations of the nodes of a graph, as data.

use super::columns::{Field, Value};
use super::expressions::Expr;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The operation of a node of a graph.
///
/// Sources have no input, sinks no output, all others one of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Operation {
    /// A source: the lines of text files, as [`Environment::lines`](crate::Environment::lines)
    /// reads them, in a column `line`.
    Lines {
        /// Files, directories and globs.
        paths: Vec<PathBuf>,
    },
    /// A source: the numbers from `from` up to but excluding `to`, in a column `n` of `u64`.
    Range {
        /// The first number.
        from: u64,
        /// The number after the last one.
        to: u64,
    },
    /// A source: rows that the graph itself holds.
    Rows {
        /// Their columns.
        schema: Vec<Field>,
        /// The values of each row, in the order of the schema.
        rows: Vec<Vec<Value>>,
    },
    /// Computes the columns of the output.
    Select {
        /// All columns of the output, in order.
        columns: Vec<Named>,
    },
    /// Emits the rows for which an expression is true.
    Filter {
        /// The expression, of type `bool`.
        keep: Expr,
    },
    /// Splits a text: emits a row for each part, in which the part replaces the text and all other columns are
    /// unchanged.
    Explode {
        /// The text's column.
        column: String,
        /// The column's new name, if it is renamed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        into: Option<String>,
        /// How the text is split.
        parts: Parts,
    },
    /// Emits one row for all rows with the same keys: the keys and the aggregates. Without aggregates, the rows are
    /// the distinct keys; without keys, there is one row, or none if there is no input.
    Group {
        /// The columns of the key. Floats are the same key if they are equal, and all NaN are the same key.
        keys: Vec<String>,
        /// The aggregates of a key, in the order of the output's columns.
        aggregates: Vec<Aggregate>,
    },
    /// Emits all rows in order. Rows that do not fit into the memory budget are sorted on disk.
    Sort {
        /// The columns to sort by, the most significant first. Rows that are equal in these columns are ordered by
        /// the other columns.
        by: Vec<Order>,
    },
    /// Emits the first rows of an order, in that order.
    Top {
        /// The number of rows.
        rows: u64,
        /// As in [`Sort`](Self::Sort).
        by: Vec<Order>,
    },
    /// Emits this many rows, any of them, and lets the source end.
    Limit {
        /// The number of rows.
        rows: u64,
    },
    /// Sends all rows with the same keys to one task, the one that would own them in a [`Group`](Self::Group). A
    /// group does this by itself, after partial aggregation.
    Partition {
        /// The columns of the key.
        keys: Vec<String>,
    },
    /// Distributes rows evenly over as many tasks as there are cores, a block at a time.
    Shuffle,
    /// Continues in other tasks, each of which receives what one task sends.
    Forward,
    /// Sends every row to every task.
    Broadcast,
    /// A sink: returns the rows to the program.
    Collect,
    /// A sink: writes each row as a line with a JSON object, in one file.
    WriteJsonLines {
        /// The file.
        path: PathBuf,
    },
    /// A sink: writes each row as a row of CSV, without a header, in one file.
    WriteCsv {
        /// The file.
        path: PathBuf,
    },
}

impl Operation {
    /// The operation's name, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Lines { .. } => "lines",
            Self::Range { .. } => "range",
            Self::Rows { .. } => "rows",
            Self::Select { .. } => "select",
            Self::Filter { .. } => "filter",
            Self::Explode { .. } => "explode",
            Self::Group { .. } => "group",
            Self::Sort { .. } => "sort",
            Self::Top { .. } => "top",
            Self::Limit { .. } => "limit",
            Self::Partition { .. } => "partition",
            Self::Shuffle => "shuffle",
            Self::Forward => "forward",
            Self::Broadcast => "broadcast",
            Self::Collect => "collect",
            Self::WriteJsonLines { .. } => "write_json_lines",
            Self::WriteCsv { .. } => "write_csv",
        }
    }

    /// Whether it has no input.
    pub fn is_source(&self) -> bool {
        matches!(self, Self::Lines { .. } | Self::Range { .. } | Self::Rows { .. })
    }

    /// Whether it has no output.
    pub fn is_sink(&self) -> bool {
        matches!(self, Self::Collect | Self::WriteJsonLines { .. } | Self::WriteCsv { .. })
    }
}

/// A computed column.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Named {
    /// The column's name.
    pub name: String,
    /// The expression of its values.
    pub expr: Expr,
}

/// How a text is split: see [`thalweg::text`](crate::text).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Parts {
    /// Maximal runs of the letters A to Z.
    Words,
    /// Like `Words`, in lower case.
    LowercaseWords,
    /// The parts between white space.
    Whitespace,
    /// The parts between occurrences of a character, including empty parts.
    Split(char),
}

/// An aggregate of the rows of a key.
///
/// ```
/// use thalweg::dynamic::{Aggregate, col};
///
/// let total = Aggregate::sum(col("amount")).named("total");
/// assert_eq!(total.to_string(), "total = sum(amount)");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aggregate {
    /// The name of the output's column.
    pub name: String,
    /// The function.
    pub function: AggregateFunction,
    /// Its argument; `None` for a count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Expr>,
}

/// The functions of aggregates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AggregateFunction {
    /// The number of rows, as `u64`.
    Count,
    /// The sum of numbers, in their own type. Integers are added in 128 bits; a result that overflows stops the job.
    Sum,
    /// The least value; text and bytes byte by byte. Of floats, NaN is the greatest.
    Min,
    /// The greatest value.
    Max,
    /// The arithmetic mean of numbers, as `f64`; its name in a graph's text may also be `avg`.
    #[serde(alias = "avg")]
    Average,
}

impl Aggregate {
    fn new(function: AggregateFunction, of: Option<Expr>) -> Self {
        let name = match function {
            AggregateFunction::Count => "count",
            AggregateFunction::Sum => "sum",
            AggregateFunction::Min => "min",
            AggregateFunction::Max => "max",
            AggregateFunction::Average => "average",
        };
        Self { name: name.to_owned(), function, of }
    }

    /// [`AggregateFunction::Count`], in a column `count`.
    pub fn count() -> Self {
        Self::new(AggregateFunction::Count, None)
    }

    /// [`AggregateFunction::Sum`], in a column `sum`.
    pub fn sum(of: Expr) -> Self {
        Self::new(AggregateFunction::Sum, Some(of))
    }

    /// [`AggregateFunction::Min`], in a column `min`.
    pub fn min(of: Expr) -> Self {
        Self::new(AggregateFunction::Min, Some(of))
    }

    /// [`AggregateFunction::Max`], in a column `max`.
    pub fn max(of: Expr) -> Self {
        Self::new(AggregateFunction::Max, Some(of))
    }

    /// [`AggregateFunction::Average`], in a column `average`.
    pub fn average(of: Expr) -> Self {
        Self::new(AggregateFunction::Average, Some(of))
    }

    /// The same aggregate in a column of this name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }
}

impl std::fmt::Display for Aggregate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let function = Self::new(self.function, None).name;
        write!(f, "{} = {function}(", self.name)?;
        if let Some(of) = &self.of {
            of.fmt(f)?;
        }
        f.write_str(")")
    }
}

/// One of the columns to sort by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// The column. Text and bytes are ordered byte by byte, `false` before `true`, and NaN after
    /// every other float.
    pub column: String,
    /// Whether the greatest value comes first.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub descending: bool,
}

/// Sorts by this column, the least value first.
pub fn asc(column: impl Into<String>) -> Order {
    Order { column: column.into(), descending: false }
}

/// Sorts by this column, the greatest value first.
pub fn desc(column: impl Into<String>) -> Order {
    Order { column: column.into(), descending: true }
}
