//! The transitive closure: pairs found in a round are joined with the edges in the next. Those found before go round
//! with them, marked as old, since what leaves a loop is what its last round ends with; a set in each replica tells which pairs
//! are new.

use std::collections::HashSet;

use bench_protocol::digest::mix;
use bench_protocol::graphs::{Edge, of_pairs};
use bench_protocol::{Request, Result};
use renoir::Replication;
use serde::{Deserialize, Serialize};

use super::{Graph, serve_graph, three};
use crate::collected;

/// More rounds than any graph here needs.
const ROUNDS: usize = 100_000;

pub(crate) fn serve(request: &Request) -> Result<()> {
    serve_graph(request, closure, of_pairs)
}

/// What is known of a pair on its way round.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Pair {
    /// An edge, in the first round; it may be there twice.
    Edge,
    /// Found in the round before.
    New,
    /// Found before that.
    Old,
}

fn closure(graph: Graph) -> Result<Vec<Edge>> {
    let edges = graph.stream();
    let start = graph.stream().map(|edge| (edge, Pair::Edge));
    let (rounds, pairs) = start.iterate(
        ROUNDS,
        0u64,
        |pairs, _| {
            let [extended, first, known] = three!(pairs);
            let longer = extended
                .filter(|pair| pair.1 != Pair::Old)
                .map(|pair| pair.0)
                .join(edges, |pair| pair.1, |edge| edge.0)
                .map(|(_, ((from, _), (_, to)))| (from, to))
                .drop_key();
            let found = first.filter(|pair| pair.1 == Pair::Edge).map(|pair| pair.0).merge(longer);
            let mut all = HashSet::new();
            let new = found
                .repartition_by(Replication::Unlimited, |pair: &Edge| hash(*pair))
                .rich_filter_map(move |pair| all.insert(pair).then_some((pair, Pair::New)));
            known.filter(|pair| pair.1 != Pair::Edge).map(|pair| (pair.0, Pair::Old)).merge(new)
        },
        |new: &mut u64, (_, pair)| *new += u64::from(pair == Pair::New),
        |new, more| *new += more,
        |new| std::mem::take(new) > 0,
    );
    let (rounds, pairs) = (rounds.collect_vec(), pairs.collect_vec());
    graph.context.execute_blocking();
    collected(rounds)?;
    Ok(collected(pairs)?.into_iter().map(|pair| pair.0).collect())
}

fn hash((from, to): Edge) -> u64 {
    mix((u64::from(from) << 32) | u64::from(to))
}
