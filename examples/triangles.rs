//! Counts the triangles of a graph.

use clap::{Parser, ValueEnum};
use std::process::ExitCode;
use thalweg::{Chain, Environment, Error, ErrorKind, Result, Stream, cli};
use thalweg_examples::queries::graphs::PIECE;
use thalweg_examples::queries::graphs::triangles::{triangles_by_adjacency, triangles_by_joins};
use thalweg_examples::{GraphArgs, output, print_lines};

/// Count the triangles of a graph: three nodes, each with an edge to or from each of the others.
///
/// Edges of a node to itself do not matter, nor how often an edge is there and in which direction.
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
    /// By joining edges with edges, and what comes of that with edges again
    Join,
    /// By what the ends of each edge have in common, with a bit for each pair of nodes in memory: for up to 2^17 nodes
    Adjacency,
}

/// Nodes of which each task can hold a bit for each pair: 2 GiB.
const MOST: u32 = 1 << 17;

fn main() -> ExitCode {
    cli::run(count)
}

fn count() -> Result<()> {
    let Args { form, graph } = Args::parse();
    let env = graph.engine.environment()?;
    match form {
        Form::Join => finish(&env, triangles_by_joins(graph.read(&env)), &graph),
        Form::Adjacency => {
            let (nodes, edges) = graph.numbered(&env)?;
            if nodes.count() > MOST {
                let what = format!(
                    "a bit for each pair of {} nodes is more than {MOST} nodes may take: count them by --form join",
                    nodes.count()
                );
                return Err(Error::new(ErrorKind::Input, what));
            }
            finish(&env, triangles_by_adjacency(edges.chunks(PIECE), nodes.count()), &graph)
        }
    }
}

/// Runs the job: writes or prints the count.
fn finish<C>(env: &Environment, count: Stream<C>, graph: &GraphArgs) -> Result<()>
where
    C: Chain<Item = u64>,
{
    if let Some(dir) = graph.sink.dir() {
        count.write_lines_parallel(dir);
        return env.run();
    }
    let count = count.collect::<Vec<_>>();
    env.run()?;
    let count: u64 = count.take()?.into_iter().sum();
    let what = if graph.tsv { "" } else { " triangles" };
    print_lines([format!("{count}{what}")]).map_err(output)
}
