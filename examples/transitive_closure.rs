//! Finds all pairs of nodes with a path between them.

use clap::Parser;
use std::process::ExitCode;
use std::sync::Arc;
use thalweg::{Result, cli};
use thalweg_examples::GraphArgs;
use thalweg_examples::queries::graphs::closure::closure_by_adjacency;

/// Find the transitive closure of a graph: all pairs of nodes with a path of one edge or more from the first to the
/// second.
///
/// A node has a path to itself if it lies on a circle. There may be as many pairs as nodes times nodes.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    graph: GraphArgs,
}

fn main() -> ExitCode {
    cli::run(close)
}

fn close() -> Result<()> {
    let Args { graph } = Args::parse();
    let env = graph.engine.environment()?;
    let (nodes, edges) = graph.numbered(&env)?;
    let pairs = closure_by_adjacency(edges, nodes.count());
    if graph.tsv {
        let ids: Arc<[u64]> = nodes.ids().into();
        pairs
            .map(move |(from, to)| format!("{}\t{}", ids[from as usize], ids[to as usize]))
            .print();
        return env.run();
    }
    let count = pairs.count();
    env.run()?;
    println!("{} nodes, {} pairs with a path between them", nodes.count(), count.take()?);
    Ok(())
}
