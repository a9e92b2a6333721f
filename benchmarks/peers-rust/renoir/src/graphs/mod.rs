//! Graphs: `connected`, `pagerank` (`--form state|join|integer`), `triangles` (`--form join|adjacency`), `closure`.
//! Loops are `replay` where the edges stay and a state changes, and `iterate` where records go round. Lists of
//! neighbours are shared and not cloned: on one host nothing is encoded.

mod closure;
mod connected;
mod pagerank;
mod ranks;
mod triangles;

use std::sync::Arc;

use bench_protocol::digest::Digest;
use bench_protocol::graphs::{Edge, read_edges};
use bench_protocol::{Answer, Request, Result};
use renoir::Stream;
use renoir::operator::Operator;
use renoir::prelude::*;

use crate::{batches, collected, context, cores, part};

pub(crate) use closure::serve as serve_closure;
pub(crate) use connected::serve as serve_connected;
pub(crate) use pagerank::serve as serve_pagerank;
pub(crate) use triangles::serve as serve_triangles;

/// How many edges are in a piece.
const PIECE: usize = 4096;

/// The edges in memory, and the context of a round.
struct Graph {
    edges: Arc<Vec<Edge>>,
    /// The same in pieces, for loops that take them so.
    pieces: Arc<Vec<Arc<Vec<Edge>>>>,
    nodes: u32,
    context: StreamContext,
}

impl Graph {
    /// A stream of the edges, a part of them in each replica.
    fn stream(&self) -> Stream<impl Operator<Out = Edge> + use<>> {
        let edges = Arc::clone(&self.edges);
        let source = self.context.stream_par_iter(move |index, count| {
            let part = part(edges.len() as u64, index, count);
            part.map(move |at| edges[at as usize])
        });
        source.batch_mode(batches())
    }

    /// A stream of the pieces, which stay where they are.
    fn pieces(&self) -> Stream<impl Operator<Out = Arc<Vec<Edge>>> + use<>> {
        let pieces = Arc::clone(&self.pieces);
        let source = self.context.stream_par_iter(move |index, count| {
            let part = part(pieces.len() as u64, index, count);
            part.map(move |at| Arc::clone(&pieces[at as usize]))
        });
        source.batch_mode(batches())
    }
}

/// Serves rounds of `work`, which builds a job and runs it, and says what its result's digest is.
fn serve_graph<T>(
    request: &Request,
    work: impl Fn(Graph) -> Result<T>,
    digest: impl Fn(T) -> Digest,
) -> Result<()> {
    let (cores, nodes) = (cores(request)?, request.value("nodes")?);
    let edges = Arc::new(read_edges(request.data()?, nodes)?);
    let pieces: Arc<Vec<_>> =
        Arc::new(edges.chunks(PIECE).map(|piece| Arc::new(piece.to_vec())).collect());
    let records = edges.len() as u64;
    bench_protocol::serve(request, |stopwatch| {
        let result = stopwatch.time(|| {
            let (edges, pieces) = (Arc::clone(&edges), Arc::clone(&pieces));
            work(Graph { edges, pieces, nodes, context: context(cores)? })
        })?;
        Ok(Answer { digest: digest(result), records, bytes: records * 8, ..Answer::default() })
    })
}

/// The single value that a loop's state became.
fn state<T>(output: StreamOutput<Vec<T>>) -> Result<T> {
    collected(output)?.pop().ok_or_else(|| "the loop gave no state".into())
}

/// Three copies of a stream.
macro_rules! three {
    ($stream:expr) => {
        match <[_; 3]>::try_from($stream.split(3)) {
            Ok(copies) => copies,
            Err(_) => unreachable!("a split into three gives three"),
        }
    };
}
pub(crate) use three;
