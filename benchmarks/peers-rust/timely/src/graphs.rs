//! Graphs on differential dataflow: `connected` by its own propagation of labels, `pagerank` in its own form by
//! integers, and `closure`. Each round is a dataflow that gets the edges as one batch and is run to its end; each worker
//! has a part of the edges.

use std::cell::RefCell;
use std::hash::Hash;
use std::rc::Rc;
use std::sync::Arc;

use bench_protocol::digest::Digest;
use bench_protocol::graphs::{Edge, RESET, SURFERS, by_node, of_pairs, read_edges};
use bench_protocol::{Answer, Request, Result};
use differential_dataflow::algorithms::graphs::propagate::propagate_at;
use differential_dataflow::input::Input;
use differential_dataflow::operators::iterate::{Iterate, Variable};
use differential_dataflow::{AsCollection, ExchangeData, VecCollection};
use timely::dataflow::operators::vec::Filter;
use timely::order::Product;

/// A collection of a dataflow that has one batch of input.
type Collection<'a, D> = VecCollection<'a, (), D, isize>;

pub(crate) fn serve_connected(request: &Request) -> Result<()> {
    let nodes: u32 = request.value("nodes")?;
    let least = |rows: Vec<((u32, u32), isize)>| {
        by_node(rows.into_iter().map(|((node, least), _)| (node, least.into())))
    };
    serve(request, move |edges| connected(edges, nodes), least)
}

pub(crate) fn serve_pagerank(request: &Request) -> Result<()> {
    let rounds: u32 = request.value("iterations")?;
    match request.get("form") {
        Some("integer") => serve(
            request,
            move |edges| ranks(edges, rounds),
            |rows| by_node(rows.into_iter().map(|(node, surfers)| (node, surfers as u64))),
        ),
        form => Err(format!("there is no form {form:?}: integer").into()),
    }
}

pub(crate) fn serve_closure(request: &Request) -> Result<()> {
    serve(request, closure, |rows| of_pairs(rows.into_iter().map(|(pair, _)| pair)))
}

/// Serves rounds of a dataflow, and says what the digest is of the rows that came out of it, each with how often.
fn serve<D: ExchangeData + Hash>(
    request: &Request,
    dataflow: impl for<'a> Fn(Collection<'a, Edge>) -> Collection<'a, D> + Clone + Send + Sync + 'static,
    digest: impl Fn(Vec<(D, isize)>) -> Digest,
) -> Result<()> {
    let cores = request.cores()?;
    let edges = Arc::new(read_edges(request.data()?, request.value("nodes")?)?);
    let records = edges.len() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let (edges, dataflow) = (Arc::clone(&edges), dataflow.clone());
        let rows = stopwatch.time(|| run(edges, cores, dataflow))?;
        Ok(Answer { digest: digest(rows), records, bytes: records * 8, ..Answer::default() })
    })
}

fn run<D: ExchangeData + Hash>(
    edges: Arc<Vec<Edge>>,
    cores: usize,
    dataflow: impl for<'a> Fn(Collection<'a, Edge>) -> Collection<'a, D> + Send + Sync + 'static,
) -> Result<Vec<(D, isize)>> {
    let guards = timely::execute(timely::Config::process(cores), move |worker| {
        let rows = Rc::new(RefCell::new(Vec::new()));
        let (kept, index, peers) = (Rc::clone(&rows), worker.index(), worker.peers());
        let mut input = worker.dataflow::<(), _, _>(|scope| {
            let (input, edges) = scope.new_collection();
            let rows = dataflow(edges).consolidate();
            rows.inspect(move |(row, (), times)| kept.borrow_mut().push((row.clone(), *times)));
            input
        });
        let mine = edges.len() * index / peers..edges.len() * (index + 1) / peers;
        edges[mine].iter().for_each(|edge| input.insert(*edge));
        input.close();
        while worker.step_or_park(None) {}
        rows.take()
    })?;
    let mut rows = Vec::new();
    for part in guards.join() {
        rows.extend(part?);
    }
    Ok(rows)
}

/// Labels are let in from the least on, so that few go about that a lesser one overtakes.
fn connected<'a>(edges: Collection<'a, Edge>, nodes: u32) -> Collection<'a, (u32, u32)> {
    let scope = edges.scope();
    let (workers, worker) = (scope.peers(), scope.index());
    let own = (worker as u32..nodes).step_by(workers);
    let (_, labels) = scope.new_collection_from(own.map(|node| (node, node)));
    let both = edges.clone().map(|(from, to)| (to, from)).concat(edges);
    propagate_at(both, labels, |label| u64::from(*label))
}

/// A node is there as often as it has surfers.
fn ranks<'a>(edges: Collection<'a, Edge>, rounds: u32) -> Collection<'a, u32> {
    let nodes = edges.clone().flat_map(|(from, to)| [from, to]).distinct();
    let links = edges.clone().map(|(from, _)| from).count();
    let outer = edges.scope();
    outer.iterative::<u32, _, _>(|inner| {
        let (edges, nodes, links) = (edges.enter(inner), nodes.enter(inner), links.enter(inner));
        let first = nodes.clone().explode(|node| Some((node, SURFERS as isize)));
        let reset = nodes.explode(|node| Some((node, RESET as isize)));
        let (next, surfers) = Variable::new_from(first, Product::new((), 1));
        let leaving = links
            .semijoin(surfers)
            .threshold(|(_, links), surfers| 5 * surfers / (6 * links))
            .map(|(node, _)| node);
        let come = edges.semijoin(leaving).map(|(_, to)| to).concat(reset).consolidate();
        let come = come.inner.filter(move |(_, time, _)| time.inner < rounds).as_collection();
        next.set(come.clone());
        come.leave(outer)
    })
}

fn closure<'a>(edges: Collection<'a, Edge>) -> Collection<'a, Edge> {
    let by_start = edges.clone().arrange_by_key();
    edges.clone().iterate(|inner, pairs| {
        let longer = pairs
            .map(|(from, to)| (to, from))
            .join_core(by_start.enter(inner), |_, from, to| Some((*from, *to)));
        longer.concat(edges.enter(inner)).distinct()
    })
}
