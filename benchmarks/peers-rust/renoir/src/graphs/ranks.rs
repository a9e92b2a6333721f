//! `pagerank --form state|integer`: lists of neighbours are replayed, the state is every node's rank.

use std::sync::Arc;

use bench_protocol::Result;
use bench_protocol::graphs::{DAMPING, RESET, SURFERS, pushed};
use renoir::Stream;
use renoir::operator::{ExchangeData, Operator};
use serde::{Deserialize, Serialize};

use super::{Graph, state};

/// A number that ranks are summed up in.
pub(super) trait Number:
    ExchangeData + Copy + Default + Sync + std::ops::AddAssign + std::ops::Sub<Output = Self>
{
}

impl Number for f64 {}
impl Number for u64 {}

/// The ranks, and what has come to the nodes in this round so far.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Ranks<T> {
    ranks: Vec<T>,
    sums: Vec<T>,
    /// Of the ranks of nodes with links.
    linked: T,
}

/// What a replica's nodes give in a round.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Given<T> {
    to: Vec<T>,
    linked: T,
}

/// The nodes that a node links to, for each that has any, and a place for its rank, since what comes out of the
/// body of a loop must be what goes into it.
fn neighbours<T: Number>(
    graph: &Graph,
) -> Stream<impl Operator<Out = (u32, T, Arc<Vec<u32>>)> + use<T>> {
    let lists = graph.stream().group_by_fold(
        |edge| edge.0,
        Vec::new(),
        |list: &mut Vec<u32>, edge| list.push(edge.1),
        |list, more| list.extend(more),
    );
    lists.unkey().map(|(node, list)| (node, T::default(), Arc::new(list)))
}

/// Goes through the rounds: `give` makes what goes along each link of a node of its value and how many links it
/// has, `update` the new value of what came to a node, given what the nodes with links had.
fn rounds<T: Number>(
    graph: Graph,
    times: usize,
    start: T,
    give: impl Fn(T, u64) -> T + Clone + Send + 'static,
    update: impl Fn(T, T) -> T + Clone + Send + 'static,
) -> Result<Vec<T>> {
    let nodes = graph.nodes as usize;
    let start = Ranks { ranks: vec![start; nodes], sums: Vec::new(), linked: T::default() };
    let ranks = neighbours(&graph).replay(
        times,
        start,
        |lists, ranks| {
            lists.map(move |(node, _, list)| (node, ranks.get().ranks[node as usize], list))
        },
        move |given: &mut Given<T>, (_, rank, list)| {
            if given.to.is_empty() {
                given.to.resize(nodes, T::default());
            }
            given.linked += rank;
            let each = give(rank, list.len() as u64);
            list.iter().for_each(|to| given.to[*to as usize] += each);
        },
        |ranks, given| {
            ranks.linked += given.linked;
            if ranks.sums.is_empty() {
                ranks.sums = given.to;
            } else {
                ranks.sums.iter_mut().zip(given.to).for_each(|(sum, given)| *sum += given);
            }
        },
        move |ranks| {
            let linked = std::mem::take(&mut ranks.linked);
            let sums = std::mem::take(&mut ranks.sums);
            ranks.ranks = sums.into_iter().map(|sum| update(sum, linked)).collect();
            true
        },
    );
    let ranks = ranks.collect_vec();
    graph.context.execute_blocking();
    Ok(state(ranks)?.ranks)
}

pub(super) fn floating(graph: Graph, times: usize) -> Result<Vec<f64>> {
    let nodes = f64::from(graph.nodes);
    rounds(
        graph,
        times,
        1.0 / nodes,
        |rank, links| rank / links as f64,
        // What the nodes without links had is the rest of one.
        move |sum, linked| (1.0 - DAMPING) / nodes + DAMPING * (sum + (1.0 - linked) / nodes),
    )
}

pub(super) fn integers(graph: Graph, times: usize) -> Result<Vec<u64>> {
    rounds(graph, times, SURFERS, pushed, |sum, _| sum + RESET)
}
