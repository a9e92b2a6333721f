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
        Form::Delta => finish(&env, closure_by_changes(graph.read(&env)), &graph),
        Form::Adjacency => {
            let (nodes, edges) = graph.numbered(&env)?;
            let pairs = closure_by_adjacency(edges, nodes.count());
            let ids: Arc<[u64]> = nodes.ids().into();
            let pairs = pairs.map(move |(from, to)| (ids[from as usize], ids[to as usize]));
            finish(&env, pairs, &graph)
        }
    }
}

/// Runs the job: writes or prints pairs, in no order, or prints how many there are.
fn finish<C>(env: &Environment, pairs: Stream<C>, graph: &GraphArgs) -> Result<()>
where
    C: Chain<Item = (u64, u64)>,
{
    if graph.tsv || graph.sink.dir().is_some() {
        let rows = pairs.map(|(from, to)| format!("{from}\t{to}"));
        match graph.sink.dir() {
            Some(dir) => rows.write_lines_parallel(dir),
            None => rows.print(),
        }
        return env.run();
    }
    let count = pairs.count().collect_one();
    env.run()?;
    println!("{} pairs", count.take()?.unwrap());
    Ok(())
}
