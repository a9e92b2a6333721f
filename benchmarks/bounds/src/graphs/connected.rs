//! Connected components by union-find, which looks at each edge once. With `--form labels` by the algorithm of the other
//! contestants: the least node is handed on along edges until nothing changes.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use bench_protocol::graphs::{Edge, by_node};
use bench_protocol::{Request, Result};

use super::links::range;
use super::serve_graph;
use crate::threads::{Meeting, on_each};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let work = match request.get("form") {
        None => united,
        Some("labels") => propagated,
        Some(form) => return Err(format!("there is no form {form:?}: labels").into()),
    };
    serve_graph(request, work, |least| by_node((0..).zip(least.into_iter().map(u64::from))))
}

fn each_itself(nodes: u32) -> Vec<AtomicU32> {
    (0..nodes).map(AtomicU32::new).collect()
}

/// Each thread has labels of its own, on which it goes through its edges; between rounds each brings together those of
/// its part of the nodes. What threads have of one another they only read and write between meetings: relaxed loads
/// and stores are plain ones.
fn propagated(edges: &[Edge], nodes: u32, cores: usize) -> Vec<u32> {
    let labels: Vec<_> = (0..cores).map(|_| each_itself(nodes)).collect();
    // Whether a round has changed anything, and what the next one says that in.
    let changed = [const { AtomicBool::new(false) }; 2];
    let meeting = Meeting::new(cores);
    on_each(cores, |index| {
        let own = &labels[index][..];
        let edges = &edges[range(edges.len(), index, cores)];
        for round in 0usize.. {
            let mut any = false;
            for &(from, to) in edges {
                let (from, to) = (&own[from as usize], &own[to as usize]);
                let (a, b) = (from.load(Relaxed), to.load(Relaxed));
                if a != b {
                    let least = a.min(b);
                    from.store(least, Relaxed);
                    to.store(least, Relaxed);
                    any = true;
                }
            }
            if any {
                changed[round % 2].store(true, Relaxed);
            }
            meeting.wait();
            if !changed[round % 2].load(Relaxed) {
                break;
            }
            changed[(round + 1) % 2].store(false, Relaxed);
            for node in range(nodes as usize, index, cores) {
                let all = labels.iter().map(|labels| labels[node].load(Relaxed));
                let least = all.min().unwrap_or_default();
                labels.iter().for_each(|labels| labels[node].store(least, Relaxed));
            }
            meeting.wait();
        }
    });
    let labels = labels.into_iter().next().unwrap_or_default();
    labels.into_iter().map(AtomicU32::into_inner).collect()
}

/// The root of a node's tree; the way there is halved.
fn root(parents: &[AtomicU32], mut node: u32) -> u32 {
    loop {
        let parent = parents[node as usize].load(Relaxed);
        if parent == node {
            return node;
        }
        let above = parents[parent as usize].load(Relaxed);
        if above != parent {
            // Another thread may have set it to something as good.
            parents[node as usize].store(above, Relaxed);
        }
        node = above;
    }
}

/// A root is the least node of its tree, and a parent is less than its child.
fn united(edges: &[Edge], nodes: u32, cores: usize) -> Vec<u32> {
    let parents = each_itself(nodes);
    on_each(cores, |index| {
        for &(from, to) in &edges[range(edges.len(), index, cores)] {
            // Most edges lie within a tree that is already flat.
            let parent = |node: u32| parents[node as usize].load(Relaxed);
            while parent(from) != parent(to) {
                let (a, b) = (root(&parents, from), root(&parents, to));
                let (low, high) = (a.min(b), a.max(b));
                let joins = |high: u32| {
                    parents[high as usize].compare_exchange(high, low, Relaxed, Relaxed)
                };
                if low == high || joins(high).is_ok() {
                    break;
                }
            }
        }
    });
    (0..nodes).map(|node| root(&parents, node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_algorithms_agree() {
        let edges = [(5, 4), (4, 3), (3, 2), (7, 6), (6, 6), (2, 1)];
        for cores in 1..4 {
            assert_eq!(propagated(&edges, 9, cores), [0, 1, 1, 1, 1, 1, 6, 6, 8]);
            assert_eq!(united(&edges, 9, cores), [0, 1, 1, 1, 1, 1, 6, 6, 8]);
        }
    }
}
