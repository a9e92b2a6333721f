//! Graphs by hand, on arrays that nodes are places in: `connected` (`--form labels` for another algorithm),
//! `pagerank` (`--form state|integer`), `triangles` (`--form adjacency|bits`), `closure`. All that is made of the
//! edges is made in every round.

mod closure;
mod connected;
mod links;
mod pagerank;
mod triangles;

use bench_protocol::digest::Digest;
use bench_protocol::graphs::{Edge, read_edges};
use bench_protocol::{Answer, Request, Result};

pub(crate) use closure::serve as serve_closure;
pub(crate) use connected::serve as serve_connected;
pub(crate) use pagerank::serve as serve_pagerank;
pub(crate) use triangles::serve as serve_triangles;

/// Serves rounds of `work`, which is given the edges, the nodes and the cores, and what its result's digest is.
fn serve_graph<T>(
    request: &Request,
    work: impl Fn(&[Edge], u32, usize) -> T,
    digest: impl Fn(T) -> Digest,
) -> Result<()> {
    let (cores, nodes) = (request.cores()?, request.value("nodes")?);
    let edges = read_edges(request.data()?, nodes)?;
    let records = edges.len() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let result = stopwatch.time(|| work(&edges, nodes, cores));
        Ok(Answer { digest: digest(result), records, bytes: records * 8, ..Answer::default() })
    })
}
