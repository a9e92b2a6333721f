//! Ranks: by a state in place (`ranks`), or with `--form join` as records that go round and are joined with the
//! links in each round.

use bench_protocol::graphs::{DAMPING, by_node, rounded};
use bench_protocol::{Request, Result};
use renoir::Stream;
use renoir::operator::Operator;
use serde::{Deserialize, Serialize};

use super::{Graph, ranks, serve_graph, state};
use crate::{batches, collected, part};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let (times, nodes): (usize, u32) = (request.value("iterations")?, request.value("nodes")?);
    let by_rank = move |ranks: Vec<f64>| {
        by_node((0..).zip(ranks.into_iter().map(|rank| rounded(rank, nodes))))
    };
    match request.get("form") {
        Some("state") => serve_graph(request, |graph| ranks::floating(graph, times), by_rank),
        Some("integer") => serve_graph(
            request,
            |graph| ranks::integers(graph, times),
            |surfers| by_node((0..).zip(surfers)),
        ),
        Some("join") => serve_graph(
            request,
            |graph| joined(graph, times),
            |ranks| by_node(ranks.into_iter().map(|(node, rank)| (node, rounded(rank, nodes)))),
        ),
        form => Err(format!("there is no form {form:?}: state, join, integer").into()),
    }
}

/// A node's rank is `base + 0.85 * sum`, with the sum of what came to it; what goes round is the sum.
#[derive(Clone, Serialize, Deserialize)]
struct Base {
    base: f64,
    /// Of what came to the nodes in this round so far: all but what nodes without links had.
    came: f64,
}

/// Every node's links, each with its share of the node's rank, and one to itself that carries nothing, so
/// that a node to which nothing comes is not forgotten.
fn links(graph: &Graph) -> Stream<impl Operator<Out = (u32, (u32, f64))> + use<>> {
    let nodes = u64::from(graph.nodes);
    let lists = graph.stream().group_by_fold(
        |edge| edge.0,
        Vec::new(),
        |list: &mut Vec<u32>, edge| list.push(edge.1),
        |list, more| list.extend(more),
    );
    let shares = lists.unkey().flat_map(|(node, list)| {
        let share = 1.0 / list.len() as f64;
        list.into_iter().map(move |to| (node, (to, share)))
    });
    let selves = graph.context.stream_par_iter(move |index, count| {
        part(nodes, index, count).map(|node| (node as u32, (node as u32, 0.0)))
    });
    shares.merge(selves.batch_mode(batches()))
}

fn joined(graph: Graph, times: usize) -> Result<Vec<(u32, f64)>> {
    let (all, nodes) = (f64::from(graph.nodes), u64::from(graph.nodes));
    let links = links(&graph);
    let start = graph.context.stream_par_iter(move |index, count| {
        part(nodes, index, count).map(|node| (node as u32, 0.0))
    });
    let (base, sums) = start.batch_mode(batches()).iterate(
        times,
        Base { base: 1.0 / all, came: 0.0 },
        |sums, base| {
            sums.map(move |(node, sum)| (node, base.get().base + DAMPING * sum))
                .join(links, |rank| rank.0, |link| link.0)
                .map(|(_, ((_, rank), (_, (to, share))))| (to, rank * share))
                .drop_key()
                .group_by_sum(|given| given.0, |given| given.1)
                .unkey()
        },
        |came: &mut f64, (_, sum)| *came += sum,
        |base, came| base.came += came,
        move |base| {
            let dangling = 1.0 - std::mem::take(&mut base.came);
            base.base = (1.0 - DAMPING + DAMPING * dangling) / all;
            true
        },
    );
    let (base, sums) = (base.collect_vec(), sums.collect_vec());
    graph.context.execute_blocking();
    let base = state(base)?.base;
    let sums = collected(sums)?.into_iter();
    Ok(sums.map(|(node, sum)| (node, base + DAMPING * sum)).collect())
}
