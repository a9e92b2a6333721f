//! Ranks: each node pulls what comes to it along its links, which are sorted by where they lead. Threads stay for all
//! rounds, each with nodes of its own, and meet once a round.

use std::iter::Sum;
use std::ops::AddAssign;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bench_protocol::graphs::{DAMPING, Edge, RESET, SURFERS, by_node, pushed, rounded};
use bench_protocol::{Request, Result};

use super::links::{Links, range};
use super::serve_graph;
use crate::threads::{Meeting, on_each};

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

/// A number that ranks are in, and its bits, which threads have in common.
trait Value: Copy + Default + Send + Sync + AddAssign + Sum {
    fn bits(self) -> u64;
    fn of(bits: u64) -> Self;
}

impl Value for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }

    fn of(bits: u64) -> Self {
        Self::from_bits(bits)
    }
}

impl Value for u64 {
    fn bits(self) -> u64 {
        self
    }

    fn of(bits: u64) -> Self {
        bits
    }
}

/// What goes along each link of a node, and of each thread's nodes what those without links have. No place is written
/// by two threads; relaxed loads and stores of atomics are plain ones.
struct Given {
    along: Vec<AtomicU64>,
    lost: Vec<AtomicU64>,
}

impl Given {
    fn new(nodes: u32, cores: usize) -> Self {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { along: zeros(nodes as usize), lost: zeros(cores) }
    }
}

/// The sum of what the given nodes give, in four parts, so that no addition waits for the one before.
#[inline]
fn sum<T: Value>(given: &[AtomicU64], nodes: &[AtomicU32]) -> T {
    let of = |node: &AtomicU32| T::of(given[node.load(Relaxed) as usize].load(Relaxed));
    let (fours, rest) = nodes.as_chunks::<4>();
    let mut sums = [(); 4].map(|()| T::default());
    for four in fours {
        sums.iter_mut().zip(four).for_each(|(sum, node)| *sum += of(node));
    }
    rest.iter().zip(&mut sums).for_each(|(node, sum)| *sum += of(node));
    let [a, b, c, d] = sums;
    let (mut left, mut right) = (a, c);
    left += b;
    right += d;
    left += right;
    left
}

/// Goes through the rounds: `update` makes a node's new value of the sum of what comes to it and of what nodes without
/// links have, and `give` what goes along each link of a node.
fn rounds<T: Value>(
    (edges, nodes, cores, rounds): (&[Edge], u32, usize, u64),
    start: T,
    give: impl Fn(T, u32) -> T + Sync,
    update: impl Fn(T, T) -> T + Sync,
) -> Vec<T> {
    let meeting = Meeting::new(cores);
    let into = Links::of_none(edges.len(), nodes, cores);
    let counts: Vec<OnceLock<Vec<u32>>> = (0..cores).map(|_| OnceLock::new()).collect();
    // What a round reads, and what it makes for the next.
    let given = [(); 2].map(|()| Given::new(nodes, cores));
    let parts = on_each(cores, |index| {
        let mut degrees = vec![0; nodes as usize];
        let mine = &edges[range(edges.len(), index, cores)];
        mine.iter().for_each(|edge| degrees[edge.0 as usize] += 1);
        counts[index].get_or_init(|| degrees);
        // All have counted when this is done.
        into.fill(edges, index, &meeting, |(from, to)| (to, from));
        let own = into.share(index, cores);
        let degree = |node: u32| -> u32 {
            counts.iter().filter_map(OnceLock::get).map(|counts| counts[node as usize]).sum()
        };
        let degrees: Vec<u32> = own.clone().map(degree).collect();
        let mut values = vec![start; degrees.len()];
        let publish = |given: &Given, values: &[T]| {
            let mut lost = Vec::new();
            for ((node, value), degree) in own.clone().zip(values).zip(&degrees) {
                given.along[node as usize].store(give(*value, *degree).bits(), Relaxed);
                if *degree == 0 {
                    lost.push(*value);
                }
            }
            given.lost[index].store(lost.into_iter().sum::<T>().bits(), Relaxed);
            meeting.wait();
        };
        for round in 0..rounds as usize {
            // A thread may be in the next round while another is still in this one, but never two ahead.
            let given = &given[round % 2];
            publish(given, &values);
            let lost: T = given.lost.iter().map(|lost| T::of(lost.load(Relaxed))).sum();
            for (node, value) in own.clone().zip(&mut values) {
                *value = update(sum(&given.along, into.ends_of(node)), lost);
            }
        }
        values
    });
    parts.concat()
}

fn ranks(edges: &[Edge], nodes: u32, cores: usize, times: u64) -> Vec<f64> {
    let all = f64::from(nodes);
    rounds(
        (edges, nodes, cores, times),
        1.0 / all,
        |rank, links| rank / f64::from(links.max(1)),
        |sum, lost| (1.0 - DAMPING) / all + DAMPING * (sum + lost / all),
    )
}

fn surfers(edges: &[Edge], nodes: u32, cores: usize, times: u64) -> Vec<u64> {
    rounds(
        (edges, nodes, cores, times),
        SURFERS,
        |surfers, links| pushed(surfers, u64::from(links.max(1))),
        |sum, _| sum + RESET,
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
