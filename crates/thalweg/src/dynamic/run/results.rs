//! The results of graphs.

use crate::dynamic::check::Step;
use crate::dynamic::columns::{Block, Field, Value};
use crate::error::{Error, ErrorKind, Result};
use crate::io::Output;

/// A graph that is part of a job; its results are available when the job has run.
#[derive(Default)]
#[must_use = "results are there to be taken"]
pub struct Attached {
    outputs: Vec<(String, Vec<Field>, Output<Vec<Block>>)>,
}

impl Attached {
    pub(super) fn add(&mut self, step: &Step, output: Output<Vec<Block>>) {
        self.outputs.push((step.name.clone(), step.schema.clone(), output));
    }

    /// What the graph's `collect` nodes have gathered.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](ErrorKind::NotProduced) when the job has not run to its end.
    pub fn results(self) -> Result<Results> {
        let rows = |(name, schema, output): (String, _, Output<Vec<Block>>)| {
            Ok((name, Rows { schema, blocks: output.take()? }))
        };
        Ok(Results { sinks: self.outputs.into_iter().map(rows).collect::<Result<_>>()? })
    }
}

/// What the `collect` nodes of a graph have gathered, each under the name of its node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    sinks: Vec<(String, Rows)>,
}

impl Results {
    /// The rows of the graph's only `collect`.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](ErrorKind::NotProduced) when there is none, or more than one.
    pub fn only(self) -> Result<Rows> {
        let count = self.sinks.len();
        match (count, self.sinks.into_iter().next()) {
            (1, Some((_, rows))) => Ok(rows),
            _ => {
                let what = format!("the graph has {count} nodes that collect, not one");
                Err(Error::new(ErrorKind::NotProduced, what))
            }
        }
    }

    /// The rows of the `collect` of this name.
    ///
    /// # Errors
    ///
    /// [`NotProduced`](ErrorKind::NotProduced) when there is none, or its rows were taken already.
    pub fn take(&mut self, name: &str) -> Result<Rows> {
        match self.sinks.iter().position(|(sink, _)| sink == name) {
            Some(at) => Ok(self.sinks.swap_remove(at).1),
            None => {
                let what = format!("no node named `{name}` has rows to be taken");
                Err(Error::new(ErrorKind::NotProduced, what))
            }
        }
    }
}

/// The name of each `collect` and its rows, in the order of the graph's nodes.
impl IntoIterator for Results {
    type Item = (String, Rows);
    type IntoIter = std::vec::IntoIter<(String, Rows)>;

    fn into_iter(self) -> Self::IntoIter {
        self.sinks.into_iter()
    }
}

/// Rows with the names of their columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    schema: Vec<Field>,
    blocks: Vec<Block>,
}

impl Rows {
    /// The columns.
    pub fn schema(&self) -> &[Field] {
        &self.schema
    }

    /// The names of the columns.
    pub fn names(&self) -> Vec<&str> {
        self.schema.iter().map(|field| field.name.as_str()).collect()
    }

    /// The rows in columnar form, as they were gathered, without a copy.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.blocks.iter().map(Block::rows).sum()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows one by one, their values copied; [`blocks`](Self::blocks) copies nothing.
    pub fn iter(&self) -> impl Iterator<Item = Vec<Value>> {
        let rows = |block: &'_ Block| {
            let block = block.clone();
            (0..block.rows()).filter_map(move |at| block.row(at))
        };
        self.blocks.iter().flat_map(rows)
    }
}
