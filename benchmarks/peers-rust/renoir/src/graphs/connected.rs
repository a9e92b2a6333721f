//! Connected components: the edges are replayed, the state is the least node that each is connected with. A replica
//! keeps the betterments of its edges, and only they leave it.

use bench_protocol::graphs::by_node;
use bench_protocol::{Request, Result};
use serde::{Deserialize, Serialize};

use super::{Graph, serve_graph, state};

/// More rounds than any graph here needs.
const ROUNDS: usize = 100_000;

#[derive(Clone, Serialize, Deserialize)]
struct Least {
    of: Vec<u32>,
    changed: bool,
}

pub(crate) fn serve(request: &Request) -> Result<()> {
    serve_graph(request, connected, |least| by_node((0..).zip(least.of.into_iter().map(u64::from))))
}

fn connected(graph: Graph) -> Result<Least> {
    let nodes = graph.nodes;
    let start = Least { of: (0..nodes).collect(), changed: false };
    let least = graph.stream().replay(
        ROUNDS,
        start,
        |edges, least| {
            edges.filter_map(move |(from, to)| {
                let of = &least.get().of;
                let (a, b) = (of[from as usize], of[to as usize]);
                (a != b).then(|| if a < b { (to, a) } else { (from, b) })
            })
        },
        move |better: &mut Vec<u32>, (node, least)| {
            if better.is_empty() {
                better.resize(nodes as usize, u32::MAX);
            }
            let better = &mut better[node as usize];
            *better = least.min(*better);
        },
        |least, better| {
            least.changed |= !better.is_empty();
            least.of.iter_mut().zip(better).for_each(|(least, better)| *least = better.min(*least));
        },
        |least| std::mem::take(&mut least.changed),
    );
    let least = least.collect_vec();
    graph.context.execute_blocking();
    state(least)
}
