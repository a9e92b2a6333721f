//! The transitive closure: all pairs of nodes with a path from the first to the second, of one edge or more.

use super::adjacency::Links;
use thalweg::{Chain, Stream};

/// The closure by adjacency: all edges are brought together from all tasks, and everything that a node can reach is
/// found by walking from there. Every task gets all edges.
pub fn closure_by_adjacency<C: Chain<Item = (u32, u32)>>(
    edges: Stream<C>,
    nodes: u32,
) -> Stream<impl Chain<Item = (u32, u32), Time = C::Time>> {
    let all = edges.fold_assoc(Vec::new(), Vec::push, |all, mut others| all.append(&mut others));
    let parts = all.flat_map(move |edges| {
        let links = Links::new(nodes, &edges);
        let step = nodes.div_ceil(PARTS).max(1);
        let begins = (0..nodes).step_by(step as usize);
        begins.map(move |from| (from, nodes.min(from.saturating_add(step)), links.clone()))
    });
    parts.shuffle().flat_map(|(from, to, links)| links.reached(from..to))
}

/// Parts of the nodes, from which is walked together: enough that tasks end together, few enough that what each
/// part needs for itself costs nothing.
const PARTS: u32 = 256;

/// The closure by lengthening paths: those that a round has found are joined with the edges, and what is new of that
/// is for the next round.
pub fn closure_by_changes<C: Chain<Item = (u64, u64)>>(
    edges: Stream<C>,
) -> Stream<impl Chain<Item = (u64, u64), Time = C::Time>> {
    let [paths, edges] = edges.split();
    let (_, solution) = paths
        .map(|path| (path, ()))
        .keyed()
        .delta_iterate(
            u64::MAX,
            (),
            |_, ()| false,
            |new, _| {
                let ends = new.unkey().map(|((from, to), ())| (to, from)).keyed();
                let longer = ends.join(edges.keyed()).unkey();
                longer.map(|(_, (from, next))| ((from, next), ())).keyed()
            },
        )
        .all_rounds();
    solution.unkey().map(|(path, ())| path)
}
