//! The transitive closure: all pairs of nodes with a path from the first to the second, of one edge or more.

use super::adjacency::{Set, members};
use thalweg::{Chain, Data, Stream};

/// What a node has edges to, or all that it can reach.
#[derive(Clone, Debug, Data)]
enum Row {
    Edges(u32, Set),
    Reached(u32, Set),
}

impl Set {
    /// What can be reached from the members, themselves included, where each node's row of `graph` is what it has
    /// edges to.
    pub fn reached(&self, graph: &[Self]) -> Self {
        let mut reached = vec![0u64; graph.len().div_ceil(64)];
        let mut todo = vec![self];
        while let Some(row) = todo.pop() {
            for &(word, bits) in &row.0 {
                let new = (word, bits & !reached[word as usize]);
                reached[word as usize] |= bits;
                todo.extend(members(&new).map(|node| &graph[node as usize]));
            }
        }
        Self((0..).zip(reached).filter(|(_, bits)| *bits != 0).collect())
    }
}

/// The closure by adjacency: what each node has edges to is made known to all in a first round, and in a second
/// one everything that a node can reach is found from there.
pub fn closure_by_adjacency<C: Chain<Item = (u32, u32)>>(
    edges: Stream<C>,
    nodes: u32,
) -> Stream<impl Chain<Item = (u32, u32), Time = C::Time>> {
    let rows = edges.keyed().fold(Vec::new(), |next, to| next.push(to)).unkey();
    let (_, reached) = rows
        .map(|(node, to)| Row::Edges(node, Set::new(to)))
        .iterate(2, Vec::new(), |rows, graph| {
            rows.with(graph).map(|(row, graph)| match row {
                Row::Edges(node, to) if !graph.is_empty() => Row::Reached(node, to.reached(graph)),
                row => row,
            })
        })
        .fold(
            |rows: &mut Vec<_>, row| {
                if let Row::Edges(node, to) = row {
                    rows.push((*node, to.clone()));
                }
            },
            |rows, others| rows.extend(others),
        )
        .all_rounds(move |graph: &mut Vec<Set>, rows| {
            graph.resize_with(nodes as usize, Set::default);
            rows.into_iter().for_each(|(node, to)| graph[node as usize] = to);
        });
    reached.flat_map(|row| {
        let (Row::Edges(from, to) | Row::Reached(from, to)) = row;
        to.into_members().map(move |to| (from, to))
    })
}

/// The closure by lengthening paths: those that a round has found are joined with the edges, and what is new of that
/// is for the next round.
pub fn closure_by_changes<C: Chain<Item = (u64, u64)>>(
    edges: Stream<C>,
) -> Stream<impl Chain<Item = (u64, u64), Time = C::Time>> {
    let [paths, edges] = edges.split();
    let (_, solution) = paths
        .map(|path| (path, ()))
        .keyed()
        .delta_iterate(
            u64::MAX,
            (),
            |_, ()| false,
            |new, _| {
                let ends = new.unkey().map(|((from, to), ())| (to, from)).keyed();
                let longer = ends.join(edges.keyed()).unkey();
                longer.map(|(_, (from, next))| ((from, next), ())).keyed()
            },
        )
        .all_rounds();
    solution.unkey().map(|(path, ())| path)
}
