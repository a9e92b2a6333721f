//! Triangles: three nodes, each with an edge to or from each of the others.

use super::adjacency::members;
use multiversion::multiversion;
use std::array::from_fn;
use std::ops::{Deref, Range};
use std::sync::Arc;
use thalweg::{Chain, Data, Stream};

/// Counts triangles by joins: of two edges, the second of which begins where the first one ends, both upwards, the
/// ends are looked for among the edges.
pub fn triangles_by_joins<C: Chain<Item = (u64, u64)>>(
    edges: Stream<C>,
) -> Stream<impl Chain<Item = u64, Time = C::Time>> {
    let upwards = edges.filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b))).unique();
    let [first, second, closing] = upwards.split();
    let paths = first.map(|(a, b)| (b, a)).keyed().join(second.keyed()).unkey();
    let corners = paths.map(|(_, ends)| (ends, ())).keyed();
    // There may be far more corners than edges: these go to where those are.
    let closing = closing.map(|edge| (edge, ())).keyed();
    let closed = corners.join_with(closing).broadcast_right().semi();
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
    let (nodes, words) = (nodes as usize, (nodes as usize).div_ceil(64 * LANES) * LANES);
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
        let rows = Arc::new(rows);
        (0..nodes).step_by(NODES).map(move |from| (from, Arc::clone(&rows)))
    });
    let counts = parts.shuffle().map(move |(from, rows)| {
        let to = nodes.min(from + NODES);
        common_neighbours(&rows, words, from..to)
    });
    counts.fold_assoc(0, |count, more| *count += more, |count, others| *count += others)
}

/// How many greater nodes these nodes have in common with each of their own greater ones. Compiled for several processors,
/// of which the one that the program runs on is found out at run time: some count the bits of eight words at once, and
/// not all can count those of one.
#[multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512vpopcntdq+bmi1+bmi2+popcnt",
    "x86_64+avx2+bmi1+bmi2+popcnt"
))]
fn common_neighbours(rows: &[u64], words: usize, nodes: Range<usize>) -> u64 {
    let row = |node: usize| rows[node * words..][..words].as_chunks::<LANES>().0;
    let mut count = [0u64; LANES];
    for a in nodes {
        let own = row(a);
        for (word, bits) in (0..).zip(own.as_flattened()) {
            for b in members(word, *bits) {
                // Slices rather than `skip`, whose `next` would be compiled apart, for any processor; and
                // whole arrays, as one loop over the lanes becomes gathers of single words.
                let from = b as usize / 64 / LANES;
                for (own, other) in own[from..].iter().zip(&row(b as usize)[from..]) {
                    let common: [u64; LANES] =
                        from_fn(|lane| u64::from((own[lane] & other[lane]).count_ones()));
                    count = from_fn(|lane| count[lane] + common[lane]);
                }
            }
        }
    }
    count.into_iter().sum()
}

/// Words that are gone through at once.
const LANES: usize = 8;
/// Nodes that are gone through together.
const NODES: usize = 16;
