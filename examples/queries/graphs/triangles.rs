//! Triangles: three nodes, each with an edge to or from each of the others.

use super::adjacency::members;
use std::ops::Deref;
use std::sync::Arc;
use thalweg::{Chain, Data, Stream};

/// Counts triangles by joins: two edges from a smallest node make a corner, and the corners whose ends have an
/// edge between them are counted.
pub fn triangles_by_joins<C: Chain<Item = (u64, u64)>>(
    edges: Stream<C>,
) -> Stream<impl Chain<Item = u64, Time = C::Time>> {
    let upwards = edges.filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b))).unique();
    let [left, right, closing] = upwards.split();
    let corners = left.keyed().join(right.keyed()).unkey().map(|(_, ends)| ends);
    let corners = corners.filter(|(b, c)| b < c).group_by(|ends| *ends);
    // There may be far more corners than edges: these go to where those are.
    let closed = corners.join_with(closing.group_by(|edge| *edge)).broadcast_right().semi();
    closed.unkey().fold_assoc(0, |count, _| *count += 1, |count, others| *count += others)
}

/// Counts triangles by adjacency: which greater nodes each node has edges to, as a row of bits, is brought together
/// from all tasks; then each node counts what its row has in common with those of its own greater nodes.
///
/// Edges come in pieces. Every task takes a bit for each pair of nodes.
pub fn triangles_by_adjacency<C, P>(
    edges: Stream<C>,
    nodes: u32,
) -> Stream<impl Chain<Item = u64, Time = C::Time>>
where
    C: Chain<Item = P>,
    P: Data + Deref<Target: AsRef<[(u32, u32)]>>,
{
    let (nodes, words) = (nodes as usize, nodes.div_ceil(64) as usize);
    let graph = edges.fold_assoc(
        Vec::new(),
        move |rows: &mut Vec<u64>, edges| {
            rows.resize(nodes * words, 0);
            for &(a, b) in (*edges).as_ref().iter().filter(|(a, b)| a != b) {
                let (a, b) = (a.min(b) as usize, a.max(b) as usize);
                rows[a * words + b / 64] |= 1 << (b % 64);
            }
        },
        |rows, others| match rows.len() {
            0 => *rows = others,
            _ => rows.iter_mut().zip(others).for_each(|(row, other)| *row |= other),
        },
    );
    let parts = graph.filter(|rows| !rows.is_empty()).flat_map(move |rows| {
        let rows: Arc<[u64]> = rows.into();
        (0..nodes).step_by(NODES).map(move |from| (from, Arc::clone(&rows)))
    });
    let counts = parts.shuffle().map(move |(from, rows)| {
        let row = |node: usize| &rows[node * words..][..words];
        let common = |(a, b): (usize, usize)| -> u64 {
            let both = row(a).iter().zip(row(b)).skip(b / 64);
            both.map(|(a, b)| u64::from((a & b).count_ones())).sum()
        };
        let greater = |a| (0..).zip(row(a).iter().copied()).flat_map(|word| members(&word));
        let own =
            (from..nodes.min(from + NODES)).flat_map(|a| greater(a).map(move |b| (a, b as usize)));
        own.map(common).sum::<u64>()
    });
    counts.fold_assoc(0, |count, more| *count += more, |count, others| *count += others)
}

/// Nodes that are gone through together.
const NODES: usize = 64;
