//! Triangles: for each edge the later neighbours of both ends, as sets of bits, 512 neighbours at a time (`--form bits`),
//! which needs memory for each pair of nodes, or met as sorted lists (`--form adjacency`).

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bench_protocol::graphs::Edge;
use bench_protocol::workload::single_row;
use bench_protocol::{Request, Result};

use super::links::{Links, range};
use super::serve_graph;
use crate::threads::{Meeting, Pieces, on_each};

/// Nodes a thread takes at a time: those of few are dear, others cheap.
const CHUNK: u32 = 16;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let work = match request.get("form") {
        Some("adjacency") => by_lists,
        Some("bits") => by_bits,
        form => return Err(format!("there is no form {form:?}: adjacency, bits").into()),
    };
    serve_graph(request, work, |count| single_row(0, count))
}

/// The sum of `of(node)` over all nodes.
fn over_nodes(nodes: u32, cores: usize, of: impl Fn(u32) -> u64 + Sync) -> u64 {
    let next = AtomicU32::new(0);
    let sums = on_each(cores, |_| {
        let mut sum = 0;
        loop {
            let begin = next.fetch_add(CHUNK, Relaxed);
            if begin >= nodes {
                return sum;
            }
            sum += (begin..nodes.min(begin + CHUNK)).map(&of).sum::<u64>();
        }
    });
    sums.into_iter().sum()
}

/// The neighbours of each node that are greater than it, sorted, each once.
fn later(edges: &[Edge], nodes: u32, cores: usize) -> Vec<Vec<u32>> {
    let links = Links::new(edges, nodes, cores, |(a, b)| (a.min(b), a.max(b)));
    let parts = on_each(cores, |index| {
        // Each node of a few in turn, since low nodes have more than high ones.
        let mine = (index as u32..nodes).step_by(cores);
        mine.map(|node| {
            let mut list: Vec<u32> = links.of(node).filter(|other| *other > node).collect();
            list.sort_unstable();
            list.dedup();
            list
        })
        .collect::<Vec<_>>()
    });
    let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
    (0..nodes as usize).map(|node| parts[node % cores].next().unwrap_or_default()).collect()
}

/// How many numbers two sorted lists share, without a branch that depends on them.
fn shared(a: &[u32], b: &[u32]) -> u64 {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        count += u64::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    count
}

fn by_lists(edges: &[Edge], nodes: u32, cores: usize) -> u64 {
    let later = later(edges, nodes, cores);
    over_nodes(nodes, cores, |node| {
        let mine = &later[node as usize];
        let rest = |at: usize| &mine[at + 1..];
        mine.iter().enumerate().map(|(at, other)| shared(rest(at), &later[*other as usize])).sum()
    })
}

/// Bits of 512 nodes.
type Bits = [u64; 8];

/// Each thread makes rows of bits of its edges, takes over the others', and then counts, in one go. A row has only
/// greater nodes.
fn by_bits(edges: &[Edge], nodes: u32, cores: usize) -> u64 {
    let width = (nodes as usize).div_ceil(512);
    let parts: Vec<OnceLock<Vec<Bits>>> = (0..cores).map(|_| OnceLock::new()).collect();
    let (meeting, pieces) = (Meeting::new(cores), Pieces::new(nodes as usize, CHUNK as usize));
    let sums = on_each(cores, |index| {
        let mut own = vec![Bits::default(); width * nodes as usize];
        for &(a, b) in &edges[range(edges.len(), index, cores)] {
            if a != b {
                let (low, high) = (a.min(b) as usize, a.max(b) as usize);
                own[low * width + high / 512][high / 64 % 8] |= 1 << (high % 64);
            }
        }
        let own = parts[index].get_or_init(|| own);
        meeting.wait();
        let mut all = Cow::Borrowed(own);
        let others = parts.iter().enumerate().filter(|(other, _)| *other != index);
        for other in others.filter_map(|(_, other)| other.get()) {
            let both = all.to_mut().as_flattened_mut().iter_mut().zip(other.as_flattened());
            both.for_each(|(all, other)| *all |= other);
        }
        let row = |node: usize| &all[node * width..][..width];
        let mut count = 0;
        while let Some(piece) = pieces.take() {
            for node in piece {
                count += (node / 512..width).map(|at| within(row(node), at, row)).sum::<u64>();
            }
        }
        count
    });
    sums.into_iter().sum()
}

/// How many neighbours a node shares with those of its neighbours that are in the `at`-th bits.
#[inline]
fn within<'a>(mine: &[Bits], at: usize, row: impl Fn(usize) -> &'a [Bits]) -> u64 {
    let mut count = 0;
    for (word, bits) in (at * 8..).zip(mine[at]) {
        let mut rest = bits;
        while rest != 0 {
            let other = row(word * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
            for (mine, other) in mine[at..].iter().zip(&other[at..]) {
                let both = mine.iter().zip(other);
                count += both.map(|(a, b)| u64::from((a & b).count_ones())).sum::<u64>();
            }
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triangles_by_hand() {
        // All of 0 to 3, with a loop, an edge given three times, and one that closes nothing.
        let edges =
            [(0, 1), (2, 0), (0, 3), (1, 2), (3, 1), (2, 3), (3, 2), (2, 3), (1, 1), (3, 99)];
        for cores in 1..4 {
            assert_eq!(by_lists(&edges, 100, cores), 4);
            assert_eq!(by_bits(&edges, 100, cores), 4);
        }
    }
}
