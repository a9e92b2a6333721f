//! What each node has edges to: as lists in one array, and as words of bits.

use std::sync::Arc;
use thalweg::Data;

/// The ends of all edges, those that begin at the same node beside each other. A copy shares them.
#[derive(Clone, Debug, Data)]
pub struct Links {
    ends: Arc<[u32]>,
    /// Where each node's are, and behind them where the last ones end.
    begins: Arc<[u64]>,
}

impl Links {
    /// The edges between nodes from 0 to one less than `nodes`.
    pub fn new(nodes: u32, edges: &[(u32, u32)]) -> Self {
        let mut begins = vec![0; nodes as usize + 1];
        edges.iter().for_each(|&(from, _)| begins[from as usize + 1] += 1);
        (1..begins.len()).for_each(|node| begins[node] += begins[node - 1]);
        let (mut places, mut ends) = (begins.clone(), vec![0; edges.len()]);
        for &(from, to) in edges {
            let place = &mut places[from as usize];
            ends[*place as usize] = to;
            *place += 1;
        }
        Self { ends: ends.into(), begins: begins.into() }
    }

    /// What the node has edges to.
    #[inline]
    pub fn of(&self, node: u32) -> &[u32] {
        let node = node as usize;
        &self.ends[self.begins[node] as usize..self.begins[node + 1] as usize]
    }

    /// What can be reached from each of these nodes by one edge or more: pairs of one of them and what it reaches.
    /// Takes four bytes for each node of the graph.
    pub fn reached(self, nodes: impl Iterator<Item = u32>) -> impl Iterator<Item = (u32, u32)> {
        // From which node each was reached last.
        let mut seen = vec![u32::MAX; self.begins.len() - 1];
        nodes.flat_map(move |from| {
            let (mut node, mut next, mut found, mut count) = (from, 0, Vec::new(), 0);
            loop {
                // Each end of an edge is put behind what was found, and counts if it is new: whether it is cannot be
                // foretold, and no branch depends on it.
                found.resize(count + self.of(node).len(), 0);
                for &to in self.of(node) {
                    let before = std::mem::replace(&mut seen[to as usize], from);
                    found[count] = to;
                    count += usize::from(before != from);
                }
                if next == count {
                    found.truncate(count);
                    return found.into_iter().map(move |to| (from, to));
                }
                (node, next) = (found[next], next + 1);
            }
        })
    }
}

/// The members that a word of a set has: the set's word of this number, a bit for each of 64.
pub(super) fn members(word: u32, mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let member = (bits != 0).then(|| word * 64 + bits.trailing_zeros());
        bits &= bits.wrapping_sub(1);
        member
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_by_node() {
        let links = Links::new(4, &[(2, 0), (0, 3), (2, 2), (0, 3)]);
        let of = [0, 1, 2, 3].map(|node| links.of(node).to_vec());
        assert_eq!(of, [vec![3, 3], vec![], vec![0, 2], vec![]]);
        let reached: Vec<_> = links.reached(1..3).collect();
        assert_eq!(reached, [(2, 0), (2, 2), (2, 3)]);
        assert_eq!(Links::new(0, &[]).reached(0..0).count(), 0);
    }

    #[test]
    fn members_are_in_order() {
        assert!(members(2, 1 | 1 << 7 | 1 << 63).eq([128, 135, 191]));
        assert_eq!(members(0, 0).count(), 0);
    }
}
