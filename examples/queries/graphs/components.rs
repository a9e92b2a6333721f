//! Connected components: which nodes can be reached from each other, whatever the directions of edges.

use std::ops::Deref;
use std::sync::Arc;
use thalweg::operators::loops::Outcome;
use thalweg::{Chain, Data, Stream};

/// The smallest node of each node's component, by going through all edges in each round: both ends of an edge
/// learn of the smaller of what they know. Every task has labels of its own, which are brought together between
/// rounds; when they are what they were, that is it. Edges come in pieces.
pub fn components_by_labels<C, P>(
    edges: Stream<C>,
    nodes: u32,
) -> Stream<impl Chain<Item = Outcome<Vec<u32>>, Time = C::Time>>
where
    C: Chain<Item = P>,
    P: Data + Deref<Target: AsRef<[(u32, u32)]>>,
{
    edges
        .replay(u64::MAX, (0..nodes).collect(), |edges, least| edges.with(least))
        .fold(
            |own: &mut Vec<u32>, (edges, least)| {
                if own.is_empty() {
                    own.clone_from(least);
                }
                let own = &mut own[..];
                for &(a, b) in (**edges).as_ref() {
                    let (a, b) = (a as usize, b as usize);
                    // Most of them agree, and then nothing need be written.
                    if own[a] != own[b] {
                        let smaller = own[a].min(own[b]);
                        (own[a], own[b]) = (smaller, smaller);
                    }
                }
            },
            |own, other| match own.len() {
                0 => *own = other,
                _ => own.iter_mut().zip(other).for_each(|(own, other)| *own = other.min(*own)),
            },
        )
        .until(|least, own| {
            let settled = own.is_empty() || *least == own;
            if !settled {
                *least = own;
            }
            settled
        })
}

/// The smallest node of each node's component, by improving it in place: a node that learns of a smaller one tells
/// its neighbours, and a round costs what has changed in the one before.
pub fn components_by_changes<C: Chain<Item = (u64, u64)>>(
    edges: Stream<C>,
) -> Stream<impl Chain<Item = (u64, u64), Time = C::Time>> {
    let rows = edges.flat_map(|(a, b)| [(a, b), (b, a)]).keyed();
    let rows = rows.fold(Vec::new(), |next, node| next.push(node)).map(|_, next| Arc::from(next));
    let [nodes, rows] = rows.unkey().split();
    let (_, solution) = nodes
        .map(|(node, _): (u64, Arc<[u64]>)| (node, node))
        .keyed()
        .delta_iterate(
            u64::MAX,
            (),
            |least, other| other < std::mem::replace(least, other.min(*least)),
            |changed, _| {
                let offered = changed.join(rows.keyed()).unkey().flat_map(|(_, (least, next))| {
                    (0..next.len()).map(move |at| (next[at], least))
                });
                offered.keyed().min(|least| *least)
            },
        )
        .all_rounds();
    solution.unkey()
}
