//! Triangles: for each edge the later neighbours of both ends, met as sorted lists. With `--form bits` as sets of
//! bits, 64 neighbours at a time, which another algorithm would not get on a sparse graph.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bench_protocol::graphs::Edge;
use bench_protocol::workload::single_row;
use bench_protocol::{Request, Result};

use super::links::Links;
use super::serve_graph;
use crate::threads::on_each;

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
            let mut list: Vec<u32> =
                links.of(node).iter().copied().filter(|other| *other > node).collect();
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

fn by_bits(edges: &[Edge], nodes: u32, cores: usize) -> u64 {
    let words = nodes.div_ceil(64) as usize;
    let mut bits = vec![0u64; words * nodes as usize];
    for &(a, b) in edges.iter().filter(|(a, b)| a != b) {
        let (low, high) = (a.min(b) as usize, a.max(b) as usize);
        bits[low * words + high / 64] |= 1 << (high % 64);
    }
    let row = |node: u32| &bits[node as usize * words..][..words];
    over_nodes(nodes, cores, |node| {
        let mut count = 0;
        let first = node as usize / 64;
        for at in first..words {
            let mut rest = row(node)[at];
            while rest != 0 {
                let other = at as u32 * 64 + rest.trailing_zeros();
                rest &= rest - 1;
                let both = row(node)[at..].iter().zip(&row(other)[at..]);
                count += both.map(|(a, b)| u64::from((a & b).count_ones())).sum::<u64>();
            }
        }
        count
    })
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
