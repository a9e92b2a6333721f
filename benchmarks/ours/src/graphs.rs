//! Graphs: the query functions of the example programs on edges in memory, and ranks by differential dataflow's
//! integers.

use std::sync::Arc;

use bench_protocol::digest::Digest;
use bench_protocol::graphs::{
    Edge, RESET, SURFERS, by_node, of_pairs, pushed, read_edges, rounded,
};
use bench_protocol::workload::single_row;
use bench_protocol::{Answer, Request, Result, serve};
use thalweg::operators::cache::Cached;
use thalweg::operators::loops::Outcome;
use thalweg::{Chain, Data, Environment, Stream};
use thalweg_queries::graphs::PIECE;
use thalweg_queries::graphs::closure::{closure_by_adjacency, closure_by_changes};
use thalweg_queries::graphs::components::{components_by_changes, components_by_labels};
use thalweg_queries::graphs::pagerank::{ranks_by_joins, ranks_in_place};
use thalweg_queries::graphs::triangles::{triangles_by_adjacency, triangles_by_joins};

use crate::environment;

/// The edges in memory.
struct Graph {
    edges: Arc<Vec<Edge>>,
    /// The same in pieces, for queries that take them so.
    pieces: Arc<Vec<Arc<Vec<Edge>>>>,
    nodes: u32,
}

impl Graph {
    /// A stream of the edges, a part of them from each task.
    fn stream(
        &self,
        env: &Environment,
    ) -> Stream<impl Chain<Item = (u32, u32), Time = ()> + use<>> {
        let edges = Arc::clone(&self.edges);
        env.parallel_iter(move |task: usize, tasks: usize| {
            let (from, to) = (edges.len() * task / tasks, edges.len() * (task + 1) / tasks);
            let edges = Arc::clone(&edges);
            (from..to).map(move |at| edges[at])
        })
    }

    /// A stream of the pieces, which stay where they are.
    fn pieces(
        &self,
        env: &Environment,
    ) -> Stream<impl Chain<Item = Arc<Vec<Edge>>, Time = ()> + use<>> {
        let pieces = Arc::clone(&self.pieces);
        env.parallel_iter(move |task: usize, tasks: usize| {
            let (from, to) = (pieces.len() * task / tasks, pieces.len() * (task + 1) / tasks);
            let pieces = Arc::clone(&pieces);
            (from..to).map(move |at| Arc::clone(&pieces[at]))
        })
    }

    /// The same, for queries on nodes that are any numbers.
    fn wide(&self, env: &Environment) -> Stream<impl Chain<Item = (u64, u64), Time = ()> + use<>> {
        self.stream(env).map(|(from, to)| (u64::from(from), u64::from(to)))
    }
}

/// Serves rounds of `work`, which builds a job and runs it, and says what its result's digest is.
fn serve_graph<T>(
    request: &Request,
    work: impl Fn(&Environment, &Graph) -> thalweg::Result<T>,
    digest: impl Fn(T) -> Digest,
) -> Result<()> {
    let (env, nodes) = (environment(request)?, request.value("nodes")?);
    let edges = read_edges(request.data()?, nodes)?;
    let records = edges.len() as u64;
    let pieces = edges.chunks(PIECE).map(|piece| Arc::new(piece.to_vec())).collect();
    let graph = Graph { edges: Arc::new(edges), pieces: Arc::new(pieces), nodes };
    serve(request, |stopwatch| {
        let result = stopwatch.time(|| work(&env, &graph))?;
        Ok(Answer { digest: digest(result), records, bytes: records * 8, ..Answer::default() })
    })
}

/// Runs a job that makes these rows.
fn collected<D: Data>(
    env: &Environment,
    rows: Stream<impl Chain<Item = D, Time = ()>>,
) -> thalweg::Result<Vec<D>> {
    let rows = rows.collect::<Vec<_>>();
    env.run()?;
    rows.take()
}

/// Runs a job that is a loop, and takes the state that it ends with.
fn state<S: Data>(
    env: &Environment,
    outcome: Stream<impl Chain<Item = Outcome<S>, Time = ()>>,
) -> thalweg::Result<S> {
    let mut outcomes = collected(env, outcome)?;
    Ok(outcomes.pop().map(|outcome| outcome.state).expect("a loop has an outcome"))
}

pub(crate) fn serve_connected(request: &Request) -> Result<()> {
    match request.get("form") {
        None => serve_graph(
            request,
            |env, graph| state(env, components_by_labels(graph.pieces(env), graph.nodes)),
            |least| by_node((0..).zip(least.into_iter().map(u64::from))),
        ),
        Some("changes") => serve_graph(
            request,
            |env, graph| collected(env, components_by_changes(graph.wide(env))),
            |rows| by_node(rows.into_iter().map(|(node, least)| (node as u32, least))),
        ),
        Some(form) => Err(format!("there is no form {form:?}: changes").into()),
    }
}

pub(crate) fn serve_pagerank(request: &Request) -> Result<()> {
    let (rounds, nodes): (u64, u32) = (request.value("iterations")?, request.value("nodes")?);
    match request.get("form") {
        Some("state") => serve_graph(
            request,
            |env, graph| state(env, ranks_in_place(graph.pieces(env), nodes, rounds)),
            |ranks| by_node((0..).zip(ranks.ranks.into_iter().map(|rank| rounded(rank, nodes)))),
        ),
        Some("join") => serve_graph(
            request,
            |env, graph| collected(env, ranks_by_joins::<f64, _>(graph.wide(env), rounds)),
            |rows| {
                by_node(rows.into_iter().map(|(node, rank)| (node as u32, rounded(rank, nodes))))
            },
        ),
        Some("integer") => serve_graph(
            request,
            |env, graph| state(env, surfers(graph.pieces(env), nodes, rounds)),
            |surfers| by_node((0..).zip(surfers.0)),
        ),
        form => Err(format!("there is no form {form:?}: state, join, integer").into()),
    }
}

/// Surfers at each node, how many links it has, and how many surfers go along each.
type Surfers = (Vec<u64>, Vec<u64>, Vec<u64>);

/// The surfers at each node after so many rounds: `ranks_in_place` in the numbers of differential dataflow's example,
/// which forgets those at nodes without links.
fn surfers<C: Chain<Item = Arc<Vec<Edge>>>>(
    edges: Stream<C>,
    nodes: u32,
    rounds: u64,
) -> Stream<impl Chain<Item = Outcome<Surfers>, Time = C::Time>> {
    let nodes = nodes as usize;
    edges
        .replay(rounds + 1, Surfers::default(), |edges, surfers| edges.with(surfers))
        .fold(
            move |sums: &mut Vec<u64>, (edges, (_, _, each))| {
                sums.resize(nodes, 0);
                let sums = &mut sums[..];
                if each.is_empty() {
                    edges.iter().for_each(|(from, _)| sums[*from as usize] += 1);
                } else {
                    edges.iter().for_each(|(from, to)| sums[*to as usize] += each[*from as usize]);
                }
            },
            |sums, others| match sums.len() {
                0 => *sums = others,
                _ => sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other),
            },
        )
        .all_rounds(move |(surfers, links, each), sums| {
            if links.is_empty() {
                (*surfers, *links) = (vec![SURFERS; nodes], sums);
            } else {
                surfers.iter_mut().zip(sums).for_each(|(surfers, sum)| *surfers = sum + RESET);
            }
            let both = surfers.iter().zip(links.iter());
            *each = both.map(|(surfers, links)| pushed(*surfers, (*links).max(1))).collect();
        })
}

pub(crate) fn serve_triangles(request: &Request) -> Result<()> {
    match request.get("form") {
        Some("join") => serve_graph(
            request,
            |env, graph| collected(env, triangles_by_joins(graph.wide(env))),
            |counts| single_row(0, counts.into_iter().sum()),
        ),
        Some("adjacency") => serve_graph(
            request,
            |env, graph| collected(env, triangles_by_adjacency(graph.pieces(env), graph.nodes)),
            |counts| single_row(0, counts.into_iter().sum()),
        ),
        form => Err(format!("there is no form {form:?}: join, adjacency").into()),
    }
}

/// Runs a job whose result stays in the tasks, as in the programs on ranks.
fn left<D: Data + Sync>(
    env: &Environment,
    rows: Stream<impl Chain<Item = D, Time = ()>>,
) -> thalweg::Result<Cached<D>> {
    let rows = rows.cache();
    env.run()?;
    Ok(rows)
}

/// What a job has left.
fn fetched<D: Data + Clone + Sync>(rows: Cached<D>) -> Vec<D> {
    let env = Environment::new();
    collected(&env, rows.stream(&env)).expect("what was kept can be read")
}

pub(crate) fn serve_closure(request: &Request) -> Result<()> {
    let narrow = |(from, to): (u64, u64)| (from as u32, to as u32);
    match request.get("form") {
        Some("changes") => serve_graph(
            request,
            |env, graph| left(env, closure_by_changes(graph.wide(env))),
            |pairs| of_pairs(fetched(pairs).into_iter().map(narrow)),
        ),
        Some("adjacency") => serve_graph(
            request,
            |env, graph| left(env, closure_by_adjacency(graph.stream(env), graph.nodes)),
            |pairs| of_pairs(fetched(pairs)),
        ),
        form => Err(format!("there is no form {form:?}: changes, adjacency").into()),
    }
}
