//! The links of each node in one array, by counting sort on several threads.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use bench_protocol::graphs::Edge;

use crate::threads::{Meeting, on_each, part};

/// What each node is linked with, the links of a node beside each other.
pub(super) struct Links {
    nodes: u32,
    /// Where a node's links begin, and behind the last one where they end.
    begins: OnceLock<Vec<u32>>,
    /// No place is written by two threads; relaxed stores to atomics are plain stores.
    ends: Vec<AtomicU32>,
    /// How many links of each node a thread has found, and then where it puts them.
    counts: Vec<Mutex<Vec<u32>>>,
}

impl Links {
    /// Sorts ends of edges by `of(edge)`, which answers the node and the end; the order of a node's links is left open.
    pub(super) fn new(
        edges: &[Edge],
        nodes: u32,
        cores: usize,
        of: impl Fn(Edge) -> (u32, u32) + Sync,
    ) -> Self {
        let (links, meeting) = (Self::of_none(edges.len(), nodes, cores), Meeting::new(cores));
        on_each(cores, |index| links.fill(edges, index, &meeting, &of));
        links
    }

    /// Room for the links of so many edges, which as many threads will [fill](Self::fill).
    pub(super) fn of_none(edges: usize, nodes: u32, cores: usize) -> Self {
        Self {
            nodes,
            begins: OnceLock::new(),
            ends: (0..edges).map(|_| AtomicU32::new(0)).collect(),
            counts: (0..cores).map(|_| Mutex::default()).collect(),
        }
    }

    /// What each thread does, once, of those that the meeting is for.
    pub(super) fn fill(
        &self,
        edges: &[Edge],
        index: usize,
        meeting: &Meeting,
        of: impl Fn(Edge) -> (u32, u32),
    ) {
        let mine = &edges[range(edges.len(), index, self.counts.len())];
        let shared = || self.counts[index].lock().unwrap_or_else(PoisonError::into_inner);
        let mut counts = vec![0u32; self.nodes as usize];
        mine.iter().for_each(|edge| counts[of(*edge).0 as usize] += 1);
        *shared() = counts;
        meeting.wait_after(|| self.place_all());
        let mut places = std::mem::take(&mut *shared());
        for edge in mine {
            let (node, end) = of(*edge);
            let place = &mut places[node as usize];
            self.ends[*place as usize].store(end, Ordering::Relaxed);
            *place += 1;
        }
        meeting.wait();
    }

    /// A thread's counts become the places where it puts its links.
    fn place_all(&self) {
        let counts = self.counts.iter();
        let mut counts: Vec<_> =
            counts.map(|counts| counts.lock().unwrap_or_else(PoisonError::into_inner)).collect();
        let mut begins = Vec::with_capacity(self.nodes as usize + 1);
        let mut next = 0;
        for node in 0..self.nodes as usize {
            begins.push(next);
            for counts in &mut counts {
                next += std::mem::replace(&mut counts[node], next);
            }
        }
        begins.push(next);
        self.begins.get_or_init(|| begins);
    }

    /// Where each node's links begin, and behind the last one where they end.
    fn begins(&self) -> &[u32] {
        self.begins.get().expect("filled before it is read")
    }

    /// What a node is linked with.
    #[inline]
    pub(super) fn of(&self, node: u32) -> impl ExactSizeIterator<Item = u32> {
        self.ends_of(node).iter().map(|end| end.load(Ordering::Relaxed))
    }

    /// The same as they lie.
    #[inline]
    pub(super) fn ends_of(&self, node: u32) -> &[AtomicU32] {
        let begins = self.begins();
        &self.ends[begins[node as usize] as usize..begins[node as usize + 1] as usize]
    }

    /// The nodes of the `index`-th of `count` parts that have as many links.
    pub(super) fn share(&self, index: usize, count: usize) -> Range<u32> {
        let begins = self.begins();
        // A node is some work of its own, too.
        let all = self.ends.len() + self.nodes as usize;
        let at = |index: usize| {
            let before = all * index / count;
            let below = |node: &u32| (begins[*node as usize] + node) as usize <= before;
            match index {
                0 => 0,
                _ if index == count => self.nodes,
                _ => partition(self.nodes, below),
            }
        };
        at(index)..at(index + 1)
    }
}

/// The first node that is not `below`, as all behind it are not.
fn partition(nodes: u32, below: impl Fn(&u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, nodes);
    while low < high {
        let middle = low + (high - low) / 2;
        if below(&middle) { low = middle + 1 } else { high = middle }
    }
    low
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
                let mut all: Vec<u32> = links.of(node).collect();
                all.sort_unstable();
                all
            };
            assert_eq!([sorted(0), sorted(1), sorted(2)], [vec![1, 2], vec![], vec![0, 1, 2]]);
            assert_eq!((links.of(2).len(), links.of(3).len()), (3, 0));
        }
    }

    #[test]
    fn shares_cover_all_nodes_once() {
        let edges = [(2, 0), (0, 1), (2, 2), (0, 2), (2, 1)];
        let links = Links::new(&edges, 6, 2, |edge| edge);
        for count in 1..9 {
            let nodes = (0..count).flat_map(|index| links.share(index, count));
            assert!(nodes.eq(0..6), "{count}");
        }
    }
}
