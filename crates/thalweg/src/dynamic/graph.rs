//! Graphs: jobs as data, made by a program or read from a file. Building one runs and opens nothing.

use super::columns::{Field, Value};
use super::expressions::Expr;
use super::operation::{Aggregate, Named, Operation, Order, Parts};
use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The version of the data format of graphs.
pub const GRAPH_VERSION: u32 = 1;

/// A job as data: nodes, and how they are connected.
///
/// Made with the methods below, each of which adds a node after the one added last, or read from
/// JSON. It holds one or more pipelines, each from a source to a sink. Nothing is checked until
/// [`check`](Self::check) or [`run`](Self::run).
///
/// ```
/// use thalweg::{Environment, dynamic::{Aggregate, Graph, Value, col, desc, lit}};
///
/// let graph = Graph::new()
///     .range(0, 1000)
///     .select([("digit", col("n").rem(lit(10_u64))), ("n", col("n"))])
///     .filter(col("digit").lt(lit(2_u64)))
///     .group_by(["digit"])
///     .aggregate([Aggregate::count(), Aggregate::max(col("n"))])
///     .sort([desc("digit")])
///     .collect();
/// let graph = Graph::from_json(&graph.to_json()?)?;
///
/// let rows = graph.run(&Environment::new())?.only()?;
/// assert_eq!(rows.names(), ["digit", "count", "max"]);
/// let values: Vec<_> = rows.iter().collect();
/// assert_eq!(values, [[1, 100, 991].map(Value::U64), [0, 100, 990].map(Value::U64)]);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Graph {
    /// The format version, [`GRAPH_VERSION`]; a graph of another version is refused.
    pub version: u32,
    /// The nodes; each comes after the node that its input comes from.
    pub nodes: Vec<Node>,
}

/// A node of a [`Graph`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Node {
    /// Its name in plans, statistics, messages and results. The default is the operation's name and the node's
    /// position in the graph, counted from 0: `explode-1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The node that its input comes from. The default is the node before it; a source has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The operation.
    pub op: Operation,
}

impl Default for Graph {
    fn default() -> Self {
        Self::new()
    }
}

impl Graph {
    /// A graph without nodes.
    pub fn new() -> Self {
        Self { version: GRAPH_VERSION, nodes: Vec::new() }
    }

    /// Reads a graph in the format that [`to_json`](Self::to_json) writes.
    ///
    /// # Errors
    ///
    /// [`Plan`](ErrorKind::Plan), with the line and what is wrong in it.
    #[inline]
    pub fn from_json(json: &str) -> Result<Self> {
        serde_json::from_str(json)
            .map_err(|cause| Error::new(ErrorKind::Plan, "this is no graph").caused_by(cause))
    }

    /// The graph as JSON.
    ///
    /// # Errors
    ///
    /// [`Plan`](ErrorKind::Plan) if it holds a value that has no form in JSON: a path that is not UTF-8. A float
    /// constant that is not finite is written as `null` and cannot be read back; [`check`](Self::check) refuses such
    /// a constant.
    #[inline]
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string_pretty(self).map_err(|cause| {
            Error::new(ErrorKind::Plan, "the graph has no form in JSON").caused_by(cause)
        })
    }

    /// Adds a node that reads the rows of the one added last.
    #[must_use]
    pub fn then(mut self, op: Operation) -> Self {
        self.nodes.push(Node { name: None, input: None, op });
        self
    }

    /// Names the node added last.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        if let Some(last) = self.nodes.last_mut() {
            last.name = Some(name.into());
        }
        self
    }

    /// See [`Operation::Lines`].
    #[must_use]
    pub fn lines(self, paths: impl crate::io::Paths) -> Self {
        self.then(Operation::Lines { paths: paths.into_paths() })
    }

    /// See [`Operation::Range`].
    #[must_use]
    pub fn range(self, from: u64, to: u64) -> Self {
        self.then(Operation::Range { from, to })
    }

    /// See [`Operation::Rows`].
    #[must_use]
    pub fn rows(
        self,
        schema: impl IntoIterator<Item = Field>,
        rows: impl IntoIterator<Item = Vec<Value>>,
    ) -> Self {
        let (schema, rows) = (schema.into_iter().collect(), rows.into_iter().collect());
        self.then(Operation::Rows { schema, rows })
    }

    /// See [`Operation::Select`].
    #[must_use]
    pub fn select<N: Into<String>>(self, columns: impl IntoIterator<Item = (N, Expr)>) -> Self {
        let named = |(name, expr): (N, Expr)| Named { name: name.into(), expr };
        self.then(Operation::Select { columns: columns.into_iter().map(named).collect() })
    }

    /// See [`Operation::Filter`].
    #[must_use]
    pub fn filter(self, keep: Expr) -> Self {
        self.then(Operation::Filter { keep })
    }

    /// See [`Operation::Explode`]; the column is renamed to `into`.
    #[must_use]
    pub fn explode(self, column: impl Into<String>, parts: Parts, into: impl Into<String>) -> Self {
        self.then(Operation::Explode { column: column.into(), into: Some(into.into()), parts })
    }

    /// Splits a text into lower-cased words, in a column `word`.
    #[must_use]
    pub fn explode_words(self, column: impl Into<String>) -> Self {
        self.explode(column, Parts::LowercaseWords, "word")
    }

    /// Begins a [`Group`](Operation::Group).
    pub fn group_by<N: Into<String>>(self, keys: impl IntoIterator<Item = N>) -> Grouping {
        Grouping { graph: self, keys: keys.into_iter().map(Into::into).collect() }
    }

    /// See [`Operation::Sort`].
    #[must_use]
    pub fn sort(self, by: impl IntoIterator<Item = Order>) -> Self {
        self.then(Operation::Sort { by: by.into_iter().collect() })
    }

    /// See [`Operation::Top`].
    #[must_use]
    pub fn top(self, rows: u64, by: impl IntoIterator<Item = Order>) -> Self {
        self.then(Operation::Top { rows, by: by.into_iter().collect() })
    }

    /// See [`Operation::Limit`].
    #[must_use]
    pub fn limit(self, rows: u64) -> Self {
        self.then(Operation::Limit { rows })
    }

    /// See [`Operation::Partition`].
    #[must_use]
    pub fn partition<N: Into<String>>(self, keys: impl IntoIterator<Item = N>) -> Self {
        self.then(Operation::Partition { keys: keys.into_iter().map(Into::into).collect() })
    }

    /// See [`Operation::Shuffle`].
    #[must_use]
    pub fn shuffle(self) -> Self {
        self.then(Operation::Shuffle)
    }

    /// See [`Operation::Forward`].
    #[must_use]
    pub fn forward(self) -> Self {
        self.then(Operation::Forward)
    }

    /// See [`Operation::Broadcast`].
    #[must_use]
    pub fn broadcast(self) -> Self {
        self.then(Operation::Broadcast)
    }

    /// See [`Operation::Collect`].
    #[must_use]
    pub fn collect(self) -> Self {
        self.then(Operation::Collect)
    }

    /// See [`Operation::WriteJsonLines`].
    #[must_use]
    pub fn write_json_lines(self, path: impl Into<PathBuf>) -> Self {
        self.then(Operation::WriteJsonLines { path: path.into() })
    }

    /// See [`Operation::WriteCsv`].
    #[must_use]
    pub fn write_csv(self, path: impl Into<PathBuf>) -> Self {
        self.then(Operation::WriteCsv { path: path.into() })
    }
}

/// A [`Group`](Operation::Group) without its aggregates yet.
#[derive(Clone, Debug)]
#[must_use = "say what is to be computed of the rows of a key"]
pub struct Grouping {
    graph: Graph,
    keys: Vec<String>,
}

impl Grouping {
    /// Counts the rows of each key, in a column `count`.
    #[must_use]
    pub fn count(self) -> Graph {
        self.aggregate([Aggregate::count()])
    }

    /// The distinct keys.
    #[must_use]
    pub fn distinct(self) -> Graph {
        self.aggregate([])
    }

    /// Computes several aggregates of the rows of each key.
    #[must_use]
    pub fn aggregate(self, aggregates: impl IntoIterator<Item = Aggregate>) -> Graph {
        let aggregates = aggregates.into_iter().collect();
        self.graph.then(Operation::Group { keys: self.keys, aggregates })
    }
}
