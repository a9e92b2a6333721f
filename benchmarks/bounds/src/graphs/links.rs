//! The links of each node in one array, by counting sort on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};

use bench_protocol::graphs::Edge;

use crate::threads::{on_each, part};

/// What each node is linked with, the links of a node beside each other.
pub(super) struct Links {
    /// Where a node's links begin, and behind the last one where they end.
    begins: Vec<u32>,
    ends: Vec<u32>,
}

impl Links {
    /// Sorts ends of edges by `of(edge)`, which answers the node and the end; the order of a node's links is left open.
    pub(super) fn new(
        edges: &[Edge],
        nodes: u32,
        cores: usize,
        of: impl Fn(Edge) -> (u32, u32) + Sync,
    ) -> Self {
        let mine = |index: usize| &edges[range(edges.len(), index, cores)];
        // A part's counts become the places where it puts its links.
        let mut counts = on_each(cores, |index| {
            let mut counts = vec![0u32; nodes as usize];
            mine(index).iter().for_each(|edge| counts[of(*edge).0 as usize] += 1);
            counts
        });
        let mut begins = Vec::with_capacity(nodes as usize + 1);
        let mut next = 0;
        for node in 0..nodes as usize {
            begins.push(next);
            for part in &mut counts {
                next += std::mem::replace(&mut part[node], next);
            }
        }
        begins.push(next);
        // No place is written by two threads; relaxed stores to atomics are plain stores.
        let ends: Vec<AtomicU32> = (0..next).map(|_| AtomicU32::new(0)).collect();
        let counts: Vec<_> = counts.into_iter().map(std::sync::Mutex::new).collect();
        on_each(cores, |index| {
            let mut places = counts[index].lock().expect("its own thread's alone");
            for edge in mine(index) {
                let (node, end) = of(*edge);
                let place = &mut places[node as usize];
                ends[*place as usize].store(end, Ordering::Relaxed);
                *place += 1;
            }
        });
        Self { begins, ends: ends.into_iter().map(AtomicU32::into_inner).collect() }
    }

    /// Where a node's links are, among all.
    fn place(&self, node: u32) -> Range<usize> {
        self.begins[node as usize] as usize..self.begins[node as usize + 1] as usize
    }

    /// What a node is linked with.
    #[inline]
    pub(super) fn of(&self, node: u32) -> &[u32] {
        &self.ends[self.place(node)]
    }

    /// How many links a node has.
    pub(super) fn count(&self, node: u32) -> u32 {
        self.begins[node as usize + 1] - self.begins[node as usize]
    }
}

/// The `index`-th of `count` parts of so many places.
pub(super) fn range(total: usize, index: usize, count: usize) -> Range<usize> {
    let part = part(total as u64, index, count);
    part.start as usize..part.end as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_sorted_by_node() {
        let edges = [(2, 0), (0, 1), (2, 2), (0, 2), (2, 1)];
        for cores in 1..4 {
            let links = Links::new(&edges, 4, cores, |edge| edge);
            let sorted = |node| {
                let mut all = links.of(node).to_vec();
                all.sort_unstable();
                all
            };
            assert_eq!([sorted(0), sorted(1), sorted(2)], [vec![1, 2], vec![], vec![0, 1, 2]]);
            assert_eq!((links.count(2), links.count(3)), (3, 0));
        }
    }
}
