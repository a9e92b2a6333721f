//! Graphs by parallel iterators: over edges for `connected`, over nodes with their neighbours for `pagerank` and
//! `triangles`.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use bench_protocol::digest::Digest;
use bench_protocol::graphs::{DAMPING, Edge, RESET, SURFERS, by_node, pushed, read_edges, rounded};
use bench_protocol::workload::single_row;
use bench_protocol::{Answer, Request, Result};
use rayon::prelude::*;

/// Serves rounds of `work`, which is given the edges and how many nodes there are.
fn serve_graph<T: Send>(
    request: &Request,
    work: impl Fn(&[Edge], u32) -> T + Sync,
    digest: impl Fn(T) -> Digest,
) -> Result<()> {
    let (pool, nodes) = (crate::pool(request)?, request.value("nodes")?);
    let edges = read_edges(request.data()?, nodes)?;
    let records = edges.len() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let result = stopwatch.time(|| pool.install(|| work(&edges, nodes)));
        Ok(Answer { digest: digest(result), records, bytes: records * 8, ..Answer::default() })
    })
}

pub(crate) fn serve_connected(request: &Request) -> Result<()> {
    serve_graph(request, connected, |least| by_node((0..).zip(least.into_iter().map(u64::from))))
}

fn connected(edges: &[Edge], nodes: u32) -> Vec<u32> {
    let least: Vec<AtomicU32> = (0..nodes).map(AtomicU32::new).collect();
    let better = |&(from, to): &Edge| {
        let (from, to) = (&least[from as usize], &least[to as usize]);
        let (a, b) = (from.load(Relaxed), to.load(Relaxed));
        if a != b {
            if a < b { to } else { from }.fetch_min(a.min(b), Relaxed);
        }
        a != b
    };
    // All edges of a round, and not only those up to the first that betters something.
    while edges.par_iter().map(better).reduce(|| false, |a, b| a | b) {}
    least.into_iter().map(AtomicU32::into_inner).collect()
}

/// What each node is linked with, by `of`.
fn lists(edges: &[Edge], nodes: u32, of: impl Fn(Edge) -> Edge + Sync) -> Vec<Vec<u32>> {
    let part = edges.len().div_ceil(rayon::current_num_threads()).max(1);
    let parts: Vec<_> = edges
        .par_chunks(part)
        .map(|part| {
            let mut lists = vec![Vec::new(); nodes as usize];
            for edge in part {
                let (node, end) = of(*edge);
                lists[node as usize].push(end);
            }
            lists
        })
        .collect();
    let whole =
        |node: usize| parts.iter().map(|lists| &lists[node][..]).collect::<Vec<_>>().concat();
    (0..nodes as usize).into_par_iter().map(whole).collect()
}

pub(crate) fn serve_pagerank(request: &Request) -> Result<()> {
    let (rounds, nodes): (u64, u32) = (request.value("iterations")?, request.value("nodes")?);
    match request.get("form") {
        Some("state") => serve_graph(
            request,
            |edges, nodes| ranks(edges, nodes, rounds),
            |ranks| by_node((0..).zip(ranks.into_iter().map(|rank| rounded(rank, nodes)))),
        ),
        Some("integer") => serve_graph(
            request,
            |edges, nodes| surfers(edges, nodes, rounds),
            |surfers| by_node((0..).zip(surfers)),
        ),
        form => Err(format!("there is no form {form:?}: state, integer").into()),
    }
}

/// By node: where its links come from, and how many it has of its own.
fn links(edges: &[Edge], nodes: u32) -> (Vec<Vec<u32>>, Vec<u32>) {
    let into = lists(edges, nodes, |(from, to)| (to, from));
    let mut own = vec![0; nodes as usize];
    into.iter().flatten().for_each(|from| own[*from as usize] += 1);
    (into, own)
}

fn ranks(edges: &[Edge], nodes: u32, rounds: u64) -> Vec<f64> {
    let (all, (into, own)) = (f64::from(nodes), links(edges, nodes));
    let mut ranks = vec![1.0 / all; nodes as usize];
    for _ in 0..rounds {
        let both = || ranks.par_iter().zip(&own);
        let dangling: f64 = both().filter(|both| *both.1 == 0).map(|both| both.0).sum();
        let given: Vec<f64> = both().map(|(rank, own)| rank / f64::from((*own).max(1))).collect();
        let sum = |from: &Vec<u32>| from.iter().map(|from| given[*from as usize]).sum::<f64>();
        let rank = |sum: f64| (1.0 - DAMPING) / all + DAMPING * (sum + dangling / all);
        ranks = into.par_iter().map(|from| rank(sum(from))).collect();
    }
    ranks
}

fn surfers(edges: &[Edge], nodes: u32, rounds: u64) -> Vec<u64> {
    let (into, own) = links(edges, nodes);
    let mut surfers = vec![SURFERS; nodes as usize];
    for _ in 0..rounds {
        let given = |(surfers, own): (&u64, &u32)| pushed(*surfers, u64::from((*own).max(1)));
        let given: Vec<u64> = surfers.par_iter().zip(&own).map(given).collect();
        let sum = |from: &Vec<u32>| from.iter().map(|from| given[*from as usize]).sum::<u64>();
        surfers = into.par_iter().map(|from| sum(from) + RESET).collect();
    }
    surfers
}

pub(crate) fn serve_triangles(request: &Request) -> Result<()> {
    match request.get("form") {
        Some("adjacency") => serve_graph(request, triangles, |count| single_row(0, count)),
        form => Err(format!("there is no form {form:?}: adjacency").into()),
    }
}

/// For each edge, what the greater neighbours of both its ends share.
fn triangles(edges: &[Edge], nodes: u32) -> u64 {
    let mut greater = lists(edges, nodes, |(a, b)| (a.min(b), a.max(b)));
    greater.par_iter_mut().enumerate().for_each(|(node, list)| {
        list.retain(|other| *other as usize > node);
        list.sort_unstable();
        list.dedup();
    });
    let around = |mine: &Vec<u32>| {
        let later = mine.iter().enumerate();
        later.map(|(at, other)| shared(&mine[at + 1..], &greater[*other as usize])).sum::<u64>()
    };
    // Nodes one by one: the low ones are dear.
    greater.par_iter().with_max_len(16).map(around).sum()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_graphs_by_hand() {
        let edges = [(5, 4), (4, 3), (3, 2), (7, 6), (6, 6), (2, 1)];
        assert_eq!(connected(&edges, 9), [0, 1, 1, 1, 1, 1, 6, 6, 8]);
        assert_eq!(surfers(&[(0, 2), (1, 2)], 3, 2)[2], 1_000_000 + 2 * 833_333);
        assert!((ranks(&[(0, 2), (1, 2)], 3, 1)[0] - 0.05 - 0.85 / 9.0).abs() < 1e-12);
        assert_eq!(
            triangles(&[(0, 1), (2, 0), (0, 3), (1, 2), (3, 1), (2, 3), (3, 2), (1, 1)], 9),
            4
        );
    }
}
