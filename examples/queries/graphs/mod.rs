//! Graphs: files of edges, nodes that are numbered, and the algorithms of the papers.
//!
//! An edge is a pair of nodes, from the first to the second, and a node is what stands in an edge: one without
//! others is written as an edge to itself. Forms that keep what they know of nodes in arrays take nodes as
//! numbers from 0 on, which [`Nodes`] gives them; the others take nodes as they are.

pub mod adjacency;
pub mod closure;
pub mod components;
pub mod pagerank;
pub mod triangles;

use hashbrown::HashMap;
use std::path::PathBuf;
use thalweg::{Chain, Environment, Error, ErrorKind, Result, Stream};

/// Edges in a piece, where a query takes them in pieces: enough that what is done once a piece costs nothing.
pub const PIECE: usize = 4096;

/// The edges that files hold, one a line: two whole numbers with whitespace between them. What follows a `#` is
/// a comment; a line without anything else is passed over.
///
/// A line that is something else stops the job, with its file and number.
pub fn edges(
    env: &Environment,
    files: Vec<PathBuf>,
) -> Stream<impl Chain<Item = (u64, u64), Time = ()> + use<>> {
    env.parse_lines(files, edge)
}

fn edge(line: &[u8]) -> Result<Option<(u64, u64)>, &'static str> {
    let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(from) = words.next() else { return Ok(None) };
    let (Some(from), Some(Some(to)), None) = (node(from), words.next().map(node), words.next())
    else {
        return Err("an edge is two whole numbers, each below 2 to the power of 64: `1 2`");
    };
    Ok(Some((from, to)))
}

/// A whole number in decimal digits.
fn node(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        let number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
        (digit < 10).then_some(number)
    })
}

/// The nodes of a graph. A node's number is its place among them in ascending order, so that of two nodes the
/// smaller one has the smaller number.
pub struct Nodes {
    ids: Vec<u64>,
    numbers: Numbers,
}

/// The numbers of nodes.
#[derive(Clone)]
enum Numbers {
    /// Each node is its own.
    Same,
    /// They lie apart.
    Table(HashMap<u64, u32>),
}

impl Nodes {
    /// Runs a job that finds the nodes of these edges, before the one that needs their numbers.
    ///
    /// # Errors
    ///
    /// When that job fails, or there are 2 to the power of 32 nodes or more.
    pub fn of<C: Chain<Item = (u64, u64)>>(env: &Environment, edges: Stream<C>) -> Result<Self> {
        let ids = edges.flat_map(|(from, to)| [from, to]).unique().collect::<Vec<_>>();
        env.run()?;
        let mut ids = ids.take()?;
        ids.sort_unstable();
        let Ok(count) = u32::try_from(ids.len()) else {
            let what = format!("{} nodes are more than can be numbered", ids.len());
            return Err(Error::new(ErrorKind::Input, what));
        };
        let numbers = match ids.last() {
            Some(&last) if last >= u64::from(count) => {
                Numbers::Table(ids.iter().copied().zip(0..).collect())
            }
            _ => Numbers::Same,
        };
        Ok(Self { ids, numbers })
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        self.ids.len() as u32
    }

    /// The node of each number.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    /// The edges between numbers. A node that was not there when nodes were numbered stops the job.
    pub fn numbered<C: Chain<Item = (u64, u64)>>(
        &self,
        edges: Stream<C>,
    ) -> Stream<impl Chain<Item = (u32, u32), Time = C::Time> + use<C>> {
        let (numbers, count) = (self.numbers.clone(), u64::from(self.count()));
        let number = move |node: u64| match &numbers {
            Numbers::Same if node < count => Ok(node as u32),
            Numbers::Table(table) if table.contains_key(&node) => Ok(table[&node]),
            _ => Err(format!("node {node} was not there before: has a file changed?")),
        };
        edges.try_map(move |(from, to)| Ok::<_, String>((number(from)?, number(to)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_edges_or_nothing_or_wrong() {
        let good = [
            ("1 2", (1, 2)),
            ("  7\t007  ", (7, 7)),
            ("18446744073709551615 0 # the last one", (u64::MAX, 0)),
            ("3 4#", (3, 4)),
            ("3 4\r", (3, 4)),
        ];
        for (line, expected) in good {
            assert_eq!(edge(line.as_bytes()), Ok(Some(expected)), "{line}");
        }
        for line in ["", "  \t", "# 1 2", "  # x", "\r"] {
            assert_eq!(edge(line.as_bytes()), Ok(None), "{line}");
        }
        let bad =
            ["1", "1 2 3", "1 -2", "a b", "1,2", "18446744073709551616 1", "1 #2", "+1 2", "1.0 2"];
        for line in bad {
            assert!(edge(line.as_bytes()).is_err(), "{line}");
        }
    }
}
