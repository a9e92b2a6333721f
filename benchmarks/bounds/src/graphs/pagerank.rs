//! Ranks: each node pulls what comes to it along its links, which are sorted by where they lead.

use bench_protocol::graphs::{DAMPING, Edge, RESET, SURFERS, by_node, pushed, rounded};
use bench_protocol::{Request, Result};

use super::links::{Links, range};
use super::serve_graph;
use crate::threads::on_each;

pub(crate) fn serve(request: &Request) -> Result<()> {
    let (rounds, nodes): (u64, u32) = (request.value("iterations")?, request.value("nodes")?);
    match request.get("form") {
        Some("state") => serve_graph(
            request,
            |edges, nodes, cores| ranks(edges, nodes, cores, rounds),
            |ranks| by_node((0..).zip(ranks.into_iter().map(|rank| rounded(rank, nodes)))),
        ),
        Some("integer") => serve_graph(
            request,
            |edges, nodes, cores| surfers(edges, nodes, cores, rounds),
            |surfers| by_node((0..).zip(surfers)),
        ),
        form => Err(format!("there is no form {form:?}: state, integer").into()),
    }
}

/// How many links each node has of its own.
fn degrees(edges: &[Edge], nodes: u32, cores: usize) -> Vec<u32> {
    let parts = on_each(cores, |index| {
        let mut counts = vec![0; nodes as usize];
        edges[range(edges.len(), index, cores)]
            .iter()
            .for_each(|edge| counts[edge.0 as usize] += 1);
        counts
    });
    let add = |mut all: Vec<u32>, part: Vec<u32>| {
        all.iter_mut().zip(part).for_each(|(all, part)| *all += part);
        all
    };
    parts.into_iter().reduce(add).unwrap_or_default()
}

/// The nodes of each thread, so that all have as many links.
fn shares(into: &Links, nodes: u32, cores: usize) -> Vec<std::ops::Range<u32>> {
    let all: u64 = (0..nodes).map(|node| u64::from(into.count(node)) + 1).sum();
    let (mut shares, mut begin, mut sum) = (Vec::new(), 0, 0);
    for node in 0..nodes {
        sum += u64::from(into.count(node)) + 1;
        if sum * cores as u64 >= all * (shares.len() as u64 + 1) {
            shares.push(begin..node + 1);
            begin = node + 1;
        }
    }
    shares.resize(cores, nodes..nodes);
    shares
}

/// Goes through the rounds: `update` makes a node's new value of the sum of what comes to it, and `give` what goes
/// along each link of a node. `whole` is what a round begins with: something of all values.
fn rounds<T: Copy + Send + Sync + std::iter::Sum, W: Copy + Sync>(
    (edges, nodes, cores, rounds): (&[Edge], u32, usize, u64),
    start: T,
    give: impl Fn(T, u32) -> T + Sync,
    whole: impl Fn(&[T], &[u32]) -> W,
    update: impl Fn(T, W) -> T + Sync,
) -> Vec<T> {
    let into = Links::new(edges, nodes, cores, |(from, to)| (to, from));
    let degrees = degrees(edges, nodes, cores);
    let shares = shares(&into, nodes, cores);
    let mut values = vec![start; nodes as usize];
    let mut given = values.clone();
    for _ in 0..rounds {
        let of_all = whole(&values, &degrees);
        for (given, (value, degree)) in given.iter_mut().zip(values.iter().zip(&degrees)) {
            *given = give(*value, *degree);
        }
        let parts = on_each(cores, |index| {
            let sum = |node| into.of(node).iter().map(|from| given[*from as usize]).sum();
            shares[index].clone().map(|node| update(sum(node), of_all)).collect::<Vec<T>>()
        });
        values = parts.concat();
    }
    values
}

fn ranks(edges: &[Edge], nodes: u32, cores: usize, times: u64) -> Vec<f64> {
    let all = f64::from(nodes);
    rounds(
        (edges, nodes, cores, times),
        1.0 / all,
        |rank, links| rank / f64::from(links.max(1)),
        |ranks, links| {
            let dangling = ranks.iter().zip(links).filter(|(_, links)| **links == 0);
            dangling.map(|(rank, _)| rank).sum::<f64>()
        },
        |sum: f64, dangling: f64| (1.0 - DAMPING) / all + DAMPING * (sum + dangling / all),
    )
}

fn surfers(edges: &[Edge], nodes: u32, cores: usize, times: u64) -> Vec<u64> {
    rounds(
        (edges, nodes, cores, times),
        SURFERS,
        |surfers, links| pushed(surfers, u64::from(links.max(1))),
        |_, _| (),
        |sum: u64, ()| sum + RESET,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 0 and 1 link to 2, which has no link.
    const EDGES: [Edge; 2] = [(0, 2), (1, 2)];

    #[test]
    fn ranks_by_hand() {
        for cores in 1..5 {
            let ranks = ranks(&EDGES, 3, cores, 1);
            let low = 0.05 + 0.85 / 9.0;
            let expected = [low, low, low + 0.85 * 2.0 / 3.0];
            assert!(ranks.iter().zip(expected).all(|(rank, wanted)| (rank - wanted).abs() < 1e-12));
        }
    }

    #[test]
    fn surfers_by_hand() {
        for cores in 1..5 {
            assert_eq!(surfers(&EDGES, 3, cores, 1), [1_000_000, 1_000_000, 11_000_000]);
            assert_eq!(surfers(&EDGES, 3, cores, 2)[2], 1_000_000 + 2 * 833_333);
        }
    }
}
