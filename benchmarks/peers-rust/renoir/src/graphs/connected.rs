//! Connected components: pieces of the edges are replayed, the state is the least node that each is connected with.
//! A replica has labels of its own in each round, so that an edge sees what those before it have found.

use std::sync::Arc;

use bench_protocol::graphs::{Edge, by_node};
use bench_protocol::{Request, Result};
use serde::{Deserialize, Serialize};

use super::{Graph, serve_graph, state};

/// More rounds than any graph here needs.
const ROUNDS: usize = 100_000;

/// A piece of the edges, and behind the body of the loop also what the round began with: what comes out of a body is
/// of the kind that went in.
type Piece = (Arc<Vec<Edge>>, Arc<Vec<u32>>);

#[derive(Clone, Serialize, Deserialize)]
struct Least {
    of: Arc<Vec<u32>>,
    changed: bool,
}

pub(crate) fn serve(request: &Request) -> Result<()> {
    serve_graph(request, connected, |least| {
        by_node((0..).zip(least.of.iter().map(|least| u64::from(*least))))
    })
}

fn connected(graph: Graph) -> Result<Least> {
    let start = Least { of: Arc::new((0..graph.nodes).collect()), changed: false };
    let pieces = graph.pieces().map(|piece| (piece, Arc::new(Vec::new())));
    let least = pieces.replay(
        ROUNDS,
        start,
        |pieces, least| pieces.map(move |(edges, _): Piece| (edges, Arc::clone(&least.get().of))),
        |own: &mut Vec<u32>, (edges, least): Piece| {
            if own.is_empty() {
                own.clone_from(&least);
            }
            let own = &mut own[..];
            for &(a, b) in edges.iter() {
                let (a, b) = (a as usize, b as usize);
                // Most of them agree, and then nothing need be written.
                if own[a] != own[b] {
                    let smaller = own[a].min(own[b]);
                    (own[a], own[b]) = (smaller, smaller);
                }
            }
        },
        |least, own| {
            let mut changed = false;
            for (least, own) in Arc::make_mut(&mut least.of).iter_mut().zip(own) {
                changed |= own < *least;
                *least = own.min(*least);
            }
            least.changed |= changed;
        },
        |least| std::mem::take(&mut least.changed),
    );
    let least = least.collect_vec();
    graph.context.execute_blocking();
    state(least)
}
