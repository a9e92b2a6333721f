//! Finds all pairs of nodes with a path between them.

use clap::{Parser, ValueEnum};
use std::process::ExitCode;
use std::sync::Arc;
use thalweg::{Chain, Environment, Result, Stream, cli};
use thalweg_examples::GraphArgs;
use thalweg_examples::queries::graphs::closure::{closure_by_adjacency, closure_by_changes};

/// Find the transitive closure of a graph: all pairs of nodes with a path of one edge or more from the first to the
/// second.
///
/// A node has a path to itself if it lies on a circle. There may be as many pairs as nodes times nodes.
#[derive(Parser)]
struct Args {
    /// How they are found.
    #[arg(long, value_enum, default_value_t = Form::Adjacency)]
    form: Form,
    #[command(flatten)]
    graph: GraphArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// By going on from the new paths of each round with the edges
    Delta,
    /// By walking from each node, with all edges in memory, as in an MPI program
    Adjacency,
}

fn main() -> ExitCode {
    cli::run(close)
}

fn close() -> Result<()> {
    let Args { form, graph } = Args::parse();
    let env = graph.engine.environment()?;
    match form {
        Form::Delta => print(&env, closure_by_changes(graph.read(&env)), graph.tsv),
        Form::Adjacency => {
            let (nodes, edges) = graph.numbered(&env)?;
            let pairs = closure_by_adjacency(edges, nodes.count());
            let ids: Arc<[u64]> = nodes.ids().into();
            let pairs = pairs.map(move |(from, to)| (ids[from as usize], ids[to as usize]));
            print(&env, pairs, graph.tsv)
        }
    }
}

/// Prints pairs, in no order, or how many there are.
fn print<C>(env: &Environment, pairs: Stream<C>, tsv: bool) -> Result<()>
where
    C: Chain<Item = (u64, u64)>,
{
    if tsv {
        pairs.map(|(from, to)| format!("{from}\t{to}")).print();
        return env.run();
    }
    let count = pairs.count().collect_one();
    env.run()?;
    println!("{} pairs", count.take()?.unwrap());
    Ok(())
}
