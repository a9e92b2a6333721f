//! Triangles: edges are turned so that they lead to the greater node, and repeated ones dropped. `--form join`: two
//! edges that meet are joined with the one that closes them. `--form adjacency`: each edge meets the lists of both its ends.

use std::sync::Arc;

use bench_protocol::workload::single_row;
use bench_protocol::{Request, Result};
use renoir::Stream;
use renoir::operator::Operator;

use super::{Graph, serve_graph, state, three};

pub(crate) fn serve(request: &Request) -> Result<()> {
    let work = match request.get("form") {
        Some("join") => joined,
        Some("adjacency") => adjacent,
        form => return Err(format!("there is no form {form:?}: join, adjacency").into()),
    };
    serve_graph(request, work, |count| single_row(0, count))
}

/// The edges, each once, from the lesser node to the greater one.
fn edges(graph: &Graph) -> Stream<impl Operator<Out = (u32, u32)> + use<>> {
    let turned = graph.stream().filter(|(a, b)| a != b).map(|(a, b)| (a.min(b), a.max(b)));
    turned.unique_assoc()
}

fn joined(graph: Graph) -> Result<u64> {
    let [first, second, third] = three!(edges(&graph));
    let meeting = first
        .join(second, |edge| edge.1, |edge| edge.0)
        .map(|(_, ((a, _), (_, c)))| (a, c))
        .drop_key();
    let closed = meeting.join(third, |ends| *ends, |edge| *edge).drop_key();
    let count = closed.fold_assoc(0u64, |n, _| *n += 1, |n, more| *n += more).collect_vec();
    graph.context.execute_blocking();
    state(count)
}

/// How many numbers two sorted lists share, without a branch that depends on them.
fn shared(a: &[u32], b: &[u32]) -> u64 {
    let (mut i, mut j, mut count) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (a[i], b[j]);
        count += u64::from(x == y);
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    count
}

fn adjacent(graph: Graph) -> Result<u64> {
    let [edges, of_first, of_second] = three!(edges(&graph));
    // The greater neighbours of each node, sorted.
    macro_rules! lists {
        ($edges:expr) => {
            $edges
                .group_by_fold(
                    |edge| edge.0,
                    Vec::new(),
                    |list: &mut Vec<u32>, edge| list.push(edge.1),
                    |list, more| list.extend(more),
                )
                .unkey()
                .map(|(node, mut list)| {
                    list.sort_unstable();
                    (node, Arc::new(list))
                })
        };
    }
    let count = edges
        .join(lists!(of_first), |edge| edge.0, |list| list.0)
        .map(|(_, (edge, (_, list)))| (edge.1, list))
        .drop_key()
        .join(lists!(of_second), |edge| edge.0, |list| list.0)
        .map(|(end, ((_, first), (_, second)))| {
            // What is not greater than the second node is not in its list.
            shared(&first[first.partition_point(|node| node <= end)..], &second)
        })
        .drop_key()
        .fold_assoc(0u64, |n, found| *n += found, |n, more| *n += more)
        .collect_vec();
    graph.context.execute_blocking();
    state(count)
}
