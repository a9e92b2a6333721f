//! Triangles: three nodes, each with an edge to or from each of the others.

use super::adjacency::Set;
use thalweg::operators::loops::Outcome;
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

/// What is known of a graph: first which greater nodes each node has edges to, then how many triangles there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Data)]
pub struct Known {
    greater: Vec<Set>,
    /// How many triangles there are.
    pub triangles: u64,
}

impl Set {
    /// How many members both have.
    pub fn common(&self, other: &Self) -> u64 {
        let (mut at, mut count) = ((0, 0), 0);
        while let (Some(a), Some(b)) = (self.0.get(at.0), other.0.get(at.1)) {
            if a.0 == b.0 {
                count += u64::from((a.1 & b.1).count_ones());
            }
            at = (at.0 + usize::from(a.0 <= b.0), at.1 + usize::from(b.0 <= a.0));
        }
        count
    }
}

/// Counts triangles by adjacency: the greater nodes that each node has edges to are made known to all in a first
/// round, and in a second one each node counts those that it has in common with each of its own.
pub fn triangles_by_adjacency<C: Chain<Item = (u32, u32)>>(
    edges: Stream<C>,
    nodes: u32,
) -> Stream<impl Chain<Item = Outcome<Known>, Time = C::Time>> {
    edges
        .filter(|(a, b)| a != b)
        .map(|(a, b)| (a.min(b), a.max(b)))
        .keyed()
        .fold(Vec::new(), |next, to| next.push(to))
        .map(|_, greater| Set::new(greater))
        .unkey()
        .replay(2, Known::default(), |rows, known| rows.with(known))
        .fold(
            |(rows, triangles): &mut (Vec<_>, u64), ((node, own), known)| match &known.greater[..] {
                [] => rows.push((*node, own.clone())),
                all => *triangles += own.iter().map(|b| own.common(&all[b as usize])).sum::<u64>(),
            },
            |(rows, triangles), (others, more)| {
                rows.extend(others);
                *triangles += more;
            },
        )
        .all_rounds(move |known, (rows, triangles)| {
            known.greater.resize_with(nodes as usize, Set::default);
            rows.into_iter().for_each(|(node, row)| known.greater[node as usize] = row);
            known.triangles = triangles;
        })
}
