//! Algorithms on graphs, against the plainest programs that do the same.

use std::collections::{BTreeMap, BTreeSet};
use thalweg::Environment;
use thalweg::check::{check, every};
use thalweg_queries::graphs::Nodes;
use thalweg_queries::graphs::closure::{closure_by_adjacency, closure_by_changes};
use thalweg_queries::graphs::components::{components_by_changes, components_by_labels};
use thalweg_queries::graphs::pagerank::{ranks_by_joins, ranks_in_place};
use thalweg_queries::graphs::triangles::{triangles_by_adjacency, triangles_by_joins};

type Edges = Vec<(u64, u64)>;

/// Numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    /// Edges between so many nodes, each of which `node` gives a name.
    fn edges(&mut self, nodes: u64, edges: usize, node: fn(u64) -> u64) -> Edges {
        (0..edges).map(|_| (node(self.below(nodes)), node(self.below(nodes)))).collect()
    }
}

/// A name that lies far from its neighbours, and in another order.
fn far(node: u64) -> u64 {
    u64::MAX - node * node * 1_000_003
}

/// Graphs of every shape: empty, of one node, with loops, with edges that come again, in pieces, dense, long.
fn graphs() -> Vec<Edges> {
    let mut random = Random(11);
    let mut graphs = vec![
        vec![],
        vec![(5, 5)],
        vec![(u64::MAX, 0)],
        vec![(1, 2), (1, 2), (2, 1), (2, 2)],
        vec![(1, 2), (2, 3), (3, 1), (10, 11), (11, 12), (12, 10), (7, 7)],
        (0..40).map(|n| (far(n), far(n + 1))).collect(),
        (0..30).map(|n| (n + 1, n)).collect(),
        (0..12).flat_map(|a| (0..12).map(move |b| (a, b))).collect(),
        (1..40).map(|n| (0, n)).collect(),
    ];
    for (nodes, edges) in [(3, 8), (20, 30), (90, 60), (15, 150)] {
        graphs.push(random.edges(nodes, edges, |node| node));
        graphs.push(random.edges(nodes, edges, far));
    }
    graphs
}

fn nodes(edges: &Edges) -> BTreeSet<u64> {
    edges.iter().flat_map(|(from, to)| [*from, *to]).collect()
}

/// The nodes as the programs have them numbered.
fn numbered(env: &Environment, edges: &Edges) -> thalweg::Result<Nodes> {
    let env = env.sharing();
    let found = Nodes::of(&env, env.iter(edges.clone()).shuffle())?;
    assert!(found.ids().iter().eq(&nodes(edges)), "{:?}", found.ids());
    Ok(found)
}

#[test]
fn components_are_those_found_by_walking() {
    for edges in graphs() {
        let mut both = BTreeMap::<u64, Vec<u64>>::new();
        for &(a, b) in &edges {
            both.entry(a).or_default().push(b);
            both.entry(b).or_default().push(a);
        }
        let mut expected = BTreeMap::new();
        let mut seen = BTreeSet::new();
        for &start in both.keys() {
            let mut todo = vec![start];
            while let Some(node) = todo.pop() {
                if seen.insert(node) {
                    expected.insert(node, start);
                    todo.extend(&both[&node]);
                }
            }
        }
        check(|env| components_by_changes(env.iter(edges.clone()).shuffle()))
            .equals(expected.clone());
        every(|env| {
            let nodes = numbered(env, &edges)?;
            let numbers = nodes.numbered(env.iter(edges.clone()).shuffle());
            let out = components_by_labels(numbers.chunks(7), nodes.count()).collect::<Vec<_>>();
            env.run()?;
            let least = out.take()?.pop().unwrap().state;
            let found = nodes.ids().iter().zip(least);
            let found = found.map(|(node, least)| (*node, nodes.ids()[least as usize]));
            assert!(found.eq(expected.clone()), "{edges:?}");
            Ok(())
        });
    }
}

/// The ranks after so many rounds, a node after the other.
fn plain_ranks(edges: &Edges, rounds: u64) -> BTreeMap<u64, f64> {
    let nodes = nodes(edges);
    let count = nodes.len() as f64;
    let mut ranks: BTreeMap<u64, f64> = nodes.iter().map(|node| (*node, 1.0 / count)).collect();
    let degree = |node: u64| edges.iter().filter(|(from, _)| *from == node).count() as f64;
    for _ in 0..rounds {
        let nowhere: f64 =
            nodes.iter().filter(|node| degree(**node) == 0.0).map(|node| ranks[node]).sum();
        let base = 0.15 / count + 0.85 * nowhere / count;
        let mut next: BTreeMap<u64, f64> = nodes.iter().map(|node| (*node, base)).collect();
        for (from, to) in edges {
            *next.get_mut(to).unwrap() += 0.85 * ranks[from] / degree(*from);
        }
        ranks = next;
    }
    ranks
}

/// The ranks in billionths of what each node begins with.
fn whole_ranks(edges: &Edges, rounds: u64) -> BTreeMap<u64, u64> {
    let nodes = nodes(edges);
    let count = nodes.len() as u64;
    let mut ranks: BTreeMap<u64, u64> = nodes.iter().map(|node| (*node, 1_000_000_000)).collect();
    let degree = |node: u64| edges.iter().filter(|(from, _)| *from == node).count() as u64;
    for _ in 0..rounds {
        let pushed = |node: u64| ranks[&node] * 85 / 100;
        let nowhere: u64 =
            nodes.iter().filter(|node| degree(**node) == 0).map(|node| pushed(*node)).sum();
        let base = 150_000_000 + nowhere / count.max(1);
        let mut next: BTreeMap<u64, u64> = nodes.iter().map(|node| (*node, base)).collect();
        for (from, to) in edges {
            *next.get_mut(to).unwrap() += pushed(*from) / degree(*from);
        }
        ranks = next;
    }
    ranks
}

/// Whether these are the expected ranks, but for the order of additions.
fn close(mut found: Vec<(u64, f64)>, expected: &BTreeMap<u64, f64>) -> bool {
    found.sort_by_key(|(node, _)| *node);
    let pairs = || found.iter().zip(expected);
    found.len() == expected.len()
        && pairs().all(|((a, rank), (b, other))| a == b && (rank - other).abs() < 1e-9 * other)
}

#[test]
fn ranks_are_those_of_the_plain_algorithm_in_every_form() {
    for (rounds, edges) in (0..).map(|at| 1 + at * 5 % 16).zip(graphs()) {
        let expected = plain_ranks(&edges, rounds);
        let total = nodes(&edges).len() as f64 * 1e9;
        let whole = whole_ranks(&edges, rounds);
        let whole = whole.into_iter().map(|(node, rank)| (node, rank as f64 / total)).collect();
        every(|env| {
            let nodes = numbered(env, &edges)?;
            let numbers = nodes.numbered(env.iter(edges.clone()).shuffle());
            let in_place =
                ranks_in_place(numbers.chunks(7), nodes.count(), rounds).collect::<Vec<_>>();
            let given = || env.iter(edges.clone()).shuffle();
            let joined = ranks_by_joins::<f64, _>(given(), rounds).collect::<Vec<_>>();
            let integers = ranks_by_joins::<u64, _>(given(), rounds).collect::<Vec<_>>();
            env.run()?;
            let outcome = in_place.take()?.pop().unwrap();
            assert_eq!(outcome.rounds, rounds + 1);
            let ranks = nodes.ids().iter().copied().zip(outcome.state.ranks).collect();
            assert!(close(ranks, &expected), "in place: {edges:?}");
            assert!(close(joined.take()?, &expected), "by joins: {edges:?}");
            assert!(close(integers.take()?, &whole), "integers: {edges:?}");
            Ok(())
        });
    }
}

#[test]
fn the_closure_is_that_of_walking_from_each_node() {
    for edges in graphs() {
        let mut expected = Vec::new();
        for start in nodes(&edges) {
            let mut reached = BTreeSet::new();
            let mut todo = vec![start];
            while let Some(node) = todo.pop() {
                let onwards = edges.iter().filter(|(from, _)| *from == node);
                todo.extend(onwards.map(|(_, to)| *to).filter(|to| reached.insert(*to)));
            }
            expected.extend(reached.into_iter().map(|to| (start, to)));
        }
        check(|env| closure_by_changes(env.iter(edges.clone()).shuffle())).equals(expected.clone());
        every(|env| {
            let nodes = numbered(env, &edges)?;
            let numbers = nodes.numbered(env.iter(edges.clone()).shuffle());
            let out = closure_by_adjacency(numbers, nodes.count()).collect::<Vec<_>>();
            env.run()?;
            let id = |number: u32| nodes.ids()[number as usize];
            let mut found: Vec<_> =
                out.take()?.into_iter().map(|(from, to)| (id(from), id(to))).collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{edges:?}");
            Ok(())
        });
    }
}

#[test]
fn triangles_are_those_found_by_trying_all_threes() {
    for edges in graphs() {
        let all: Vec<u64> = nodes(&edges).into_iter().collect();
        let set: BTreeSet<_> = edges.iter().copied().collect();
        let edge =
            |a: usize, b: usize| set.contains(&(all[a], all[b])) || set.contains(&(all[b], all[a]));
        let mut expected = 0;
        for a in 0..all.len() {
            for b in (a + 1..all.len()).filter(|b| edge(a, *b)) {
                expected +=
                    (b + 1..all.len()).filter(|c| edge(a, *c) && edge(b, *c)).count() as u64;
            }
        }
        check(|env| triangles_by_joins(env.iter(edges.clone()).shuffle())).equals([expected]);
        every(|env| {
            let nodes = numbered(env, &edges)?;
            let numbers = nodes.numbered(env.iter(edges.clone()).shuffle());
            let out = triangles_by_adjacency(numbers.chunks(7), nodes.count()).collect::<Vec<_>>();
            env.run()?;
            assert_eq!(out.take()?, [expected], "{edges:?}");
            Ok(())
        });
    }
}
