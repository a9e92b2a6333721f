//! PageRank: how often somebody is at each node who follows edges, and now and then goes anywhere.
//!
//! In each round a node hands on 85 % of its rank along its edges, evenly; one without edges hands it on to all
//! nodes. The rest goes to all nodes. An edge that is there several times counts as often.

use std::ops::{Add, Sub};
use std::sync::Arc;
use thalweg::operators::loops::Outcome;
use thalweg::{Chain, Data, Stream};

/// The share of rank that is handed on along edges.
const DAMPING: f64 = 0.85;

/// The rank of each node after so many rounds, kept in place: nodes stay where they are with their edges, and all
/// see the ranks of the round before.
pub fn ranks_in_place<C: Chain<Item = (u32, u32)>>(
    edges: Stream<C>,
    nodes: u32,
    rounds: u64,
) -> Stream<impl Chain<Item = Outcome<Vec<f64>>, Time = C::Time>> {
    let even = 1.0 / f64::from(nodes);
    edges
        .keyed()
        .fold(Vec::new(), |next, to| next.push(to))
        .unkey()
        .replay(rounds, vec![even; nodes as usize], |nodes, ranks| nodes.with(ranks))
        .fold(
            |sums: &mut Vec<f64>, ((from, to), ranks)| {
                sums.resize(ranks.len(), 0.0);
                let share = ranks[*from as usize] / to.len() as f64;
                to.iter().for_each(|to| sums[*to as usize] += share);
            },
            |sums, others| match sums.len() {
                0 => *sums = others,
                _ => sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other),
            },
        )
        .all_rounds(move |ranks, sums| {
            // What did not go along any edge.
            let dangling = 1.0 - sums.iter().sum::<f64>();
            let all = (1.0 - DAMPING + DAMPING * dangling) * even;
            ranks.iter_mut().zip(sums).for_each(|(rank, sum)| *rank = all + DAMPING * sum);
        })
}

/// A number that a rank can be, where each node begins with a rank of one.
pub trait Rank: Data + Copy + Default + Sync + Add<Output = Self> + Sub<Output = Self> {
    /// One.
    const ONE: Self;

    /// The part that is handed on along edges.
    fn damped(self) -> Self;

    /// One of so many equal parts.
    fn divided(self, parts: u64) -> Self;

    /// As a number of ones.
    fn ones(self) -> f64;
}

impl Rank for f64 {
    const ONE: Self = 1.0;

    fn damped(self) -> Self {
        self * DAMPING
    }

    fn divided(self, parts: u64) -> Self {
        self / parts as f64
    }

    fn ones(self) -> f64 {
        self
    }
}

/// In billionths, rounded down.
impl Rank for u64 {
    const ONE: Self = 1_000_000_000;

    fn damped(self) -> Self {
        self / 100 * 85 + self % 100 * 85 / 100
    }

    fn divided(self, parts: u64) -> Self {
        self / parts
    }

    fn ones(self) -> f64 {
        self as f64 / Self::ONE as f64
    }
}

/// What nodes without edges hand on in a round, and the number of nodes that share it.
#[derive(Clone, Copy, Debug, Default, Data)]
struct Dangling<R> {
    rank: R,
    nodes: u64,
}

impl<R: Rank> Dangling<R> {
    /// The rank of a node to which so much is handed on.
    fn rank(&self, sum: R) -> R {
        R::ONE - R::ONE.damped() + sum + self.rank.divided(self.nodes.max(1))
    }
}

/// The rank of each node after so many rounds, by joining ranks and edges in each: in floats, or in integers as
/// differential dataflow's example has it.
pub fn ranks_by_joins<R: Rank, C: Chain<Item = (u64, u64)>>(
    edges: Stream<C>,
    rounds: u64,
) -> Stream<impl Chain<Item = (u64, f64), Time = C::Time>> {
    let rows = edges.flat_map(|(from, to)| [(from, Some(to)), (to, None)]).keyed();
    let rows = rows.fold(Vec::new(), |next, to| next.extend(to)).map(|_, next| Arc::from(next));
    let [nodes, rows] = rows.unkey().split();
    // What is handed on to nobody in particular, under `None`, is for all.
    let (dangling, sums) = nodes
        .map(|(node, _): (u64, Arc<[u64]>)| (Some(node), R::ONE.damped()))
        .iterate(rounds, Dangling::default(), |sums, dangling| {
            let ranks = sums
                .with(dangling)
                .filter_map(|((node, sum), dangling)| Some((node?, dangling.rank(sum).damped())));
            let handed_on =
                ranks.keyed().join(rows.keyed()).unkey().flat_map(|(node, (rank, next))| {
                    let share = rank.divided(next.len().max(1) as u64);
                    // A part of nothing keeps a node to which nobody hands on.
                    let rest = (next.is_empty()).then_some((None, rank));
                    let rest = rest.into_iter().chain([(Some(node), R::default())]);
                    rest.chain((0..next.len()).map(move |at| (Some(next[at]), share)))
                });
            handed_on.keyed().sum(|part| part).unkey()
        })
        .fold(
            |all: &mut Dangling<R>, (node, sum)| match node {
                Some(_) => all.nodes += 1,
                None => all.rank = *sum,
            },
            |all, other| {
                *all = Dangling { rank: all.rank + other.rank, nodes: all.nodes + other.nodes };
            },
        )
        .all_rounds(|dangling, all| *dangling = all);
    sums.cross(dangling).filter_map(|((node, sum), dangling)| {
        let all = dangling.state;
        Some((node?, all.rank(sum).ones() / all.nodes as f64))
    })
}
