//! PageRank: how often somebody is at each node who follows edges, and now and then goes anywhere.
//!
//! In each round a node hands on 85 % of its rank along its edges, evenly; one without edges hands it on to all
//! nodes. The rest goes to all nodes. An edge that is there several times counts as often.

use std::ops::{Add, Deref};
use std::sync::Arc;
use thalweg::operators::Summand;
use thalweg::operators::loops::Outcome;
use thalweg::{Chain, Data, Stream};

/// The share of rank that is handed on along edges.
const DAMPING: f64 = 0.85;

/// The ranks of nodes, kept in place, and what each hands on along each of its edges.
#[derive(Clone, Debug, Default, Data)]
pub struct Ranks {
    /// The rank of each node.
    pub ranks: Vec<f64>,
    degrees: Vec<f64>,
    shares: Vec<f64>,
}

/// The rank of each node after so many rounds, kept in place: edges stay where they are, and all see what was handed
/// on in the round before. A first round more counts the edges of each node. Edges come in pieces.
pub fn ranks_in_place<C, P>(
    edges: Stream<C>,
    nodes: u32,
    rounds: u64,
) -> Stream<impl Chain<Item = Outcome<Ranks>, Time = C::Time>>
where
    C: Chain<Item = P>,
    P: Data + Deref<Target: AsRef<[(u32, u32)]>>,
{
    let (nodes, even) = (nodes as usize, 1.0 / f64::from(nodes));
    edges
        .replay(rounds.saturating_add(1), Ranks::default(), |edges, ranks| edges.with(ranks))
        .fold(
            move |sums: &mut Vec<f64>, (edges, Ranks { shares, .. })| {
                sums.resize(nodes, 0.0);
                let (sums, edges) = (&mut sums[..], (**edges).as_ref().iter());
                if shares.is_empty() {
                    edges.for_each(|(from, _)| sums[*from as usize] += 1.0);
                } else {
                    edges.for_each(|(from, to)| sums[*to as usize] += shares[*from as usize]);
                }
            },
            |sums, others| match sums.len() {
                0 => *sums = others,
                _ => sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other),
            },
        )
        .all_rounds(move |Ranks { ranks, degrees, shares }, sums| {
            if degrees.is_empty() {
                (*ranks, *degrees) = (vec![even; nodes], sums);
            } else {
                // What did not go along any edge goes to all.
                let dangling = 1.0 - sums.iter().sum::<f64>();
                let all = (1.0 - DAMPING + DAMPING * dangling) * even;
                ranks.iter_mut().zip(sums).for_each(|(rank, sum)| *rank = all + DAMPING * sum);
            }
            shares.clear();
            shares.extend(ranks.iter().zip(degrees).map(|(rank, degree)| *rank / *degree));
        })
}

/// A number that a rank can be, where each node begins with a rank of one.
pub trait Rank: Summand + Sync + Add<Output = Self> {
    /// One.
    const ONE: Self;

    /// So many of so many equal parts.
    fn parts(self, some: u64, of: u64) -> Self;

    /// As a number of ones.
    fn ones(self) -> f64;
}

impl Rank for f64 {
    const ONE: Self = 1.0;

    fn parts(self, some: u64, of: u64) -> Self {
        self * some as f64 / of as f64
    }

    fn ones(self) -> f64 {
        self
    }
}

/// In billionths, rounded down.
impl Rank for u64 {
    const ONE: Self = 1_000_000_000;

    fn parts(self, some: u64, of: u64) -> Self {
        (u128::from(self) * u128::from(some) / u128::from(of)) as u64
    }

    fn ones(self) -> f64 {
        self as f64 / Self::ONE as f64
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
    // What nodes without edges hand on, under `None`, is for all nodes, of which there are so many.
    let rank =
        |sum: R, (all, nodes): (R, u64)| R::ONE.parts(15, 100) + sum + all.parts(1, nodes.max(1));
    let (outcome, sums) = nodes
        .map(|(node, _): (u64, Arc<[u64]>)| (Some(node), R::ONE.parts(85, 100)))
        .iterate(rounds, Default::default(), |sums, all| {
            let ranks = sums.with(all).filter_map(move |((node, sum), all)| {
                Some((node?, rank(sum, *all).parts(85, 100)))
            });
            let handed_on =
                ranks.keyed().join(rows.keyed()).unkey().flat_map(|(node, (rank, next))| {
                    let share = rank.parts(1, next.len().max(1) as u64);
                    // A part of nothing keeps a node to which no other hands on.
                    let rest = next.is_empty().then_some((None, rank));
                    let rest = rest.into_iter().chain([(Some(node), R::default())]);
                    rest.chain((0..next.len()).map(move |at| (Some(next[at]), share)))
                });
            handed_on.keyed().sum(|part| *part).unkey()
        })
        .fold(
            |(all, nodes): &mut (R, u64), (node, sum)| match node {
                Some(_) => *nodes += 1,
                None => *all = *sum,
            },
            |part, other| *part = (part.0 + other.0, part.1 + other.1),
        )
        .all_rounds(|all, part| *all = part);
    sums.cross(outcome).filter_map(move |((node, sum), outcome)| {
        Some((node?, rank(sum, outcome.state).ones() / outcome.state.1 as f64))
    })
}
