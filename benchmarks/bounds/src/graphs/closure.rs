//! The transitive closure: from each node, everything that can be reached, by a search of its own.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bench_protocol::graphs::{Edge, of_pairs};
use bench_protocol::{Request, Result};

use super::links::Links;
use super::serve_graph;
use crate::threads::on_each;

/// Nodes a thread takes at a time.
const CHUNK: u32 = 16;

pub(crate) fn serve(request: &Request) -> Result<()> {
    serve_graph(request, closure, |parts| of_pairs(parts.into_iter().flatten()))
}

/// The pairs, in as many parts as there are threads.
fn closure(edges: &[Edge], nodes: u32, cores: usize) -> Vec<Vec<Edge>> {
    let links = Links::new(edges, nodes, cores, |edge| edge);
    let next = AtomicU32::new(0);
    on_each(cores, |_| {
        let mut pairs = Vec::new();
        // From which node each was reached last; a node's pairs are also the queue of its search.
        let mut seen = vec![u32::MAX; nodes as usize];
        loop {
            let begin = next.fetch_add(CHUNK, Relaxed);
            if begin >= nodes {
                return pairs;
            }
            for node in begin..nodes.min(begin + CHUNK) {
                let mut at = pairs.len();
                let mut reach = |from: u32, pairs: &mut Vec<Edge>| {
                    for to in links.of(from) {
                        if std::mem::replace(&mut seen[to as usize], node) != node {
                            pairs.push((node, to));
                        }
                    }
                };
                reach(node, &mut pairs);
                while let Some((_, to)) = pairs.get(at).copied() {
                    reach(to, &mut pairs);
                    at += 1;
                }
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_by_hand() {
        for cores in 1..4 {
            let parts = closure(&[(0, 1), (1, 2), (2, 1), (3, 3)], 5, cores);
            let mut pairs = parts.concat();
            pairs.sort_unstable();
            assert_eq!(pairs, [(0, 1), (0, 2), (1, 1), (1, 2), (2, 1), (2, 2), (3, 3)]);
        }
    }
}
