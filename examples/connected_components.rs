//! Finds which nodes of a graph are connected.

use clap::{Parser, ValueEnum};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use thalweg::{Chain, Environment, Result, Stream, cli};
use thalweg_examples::queries::graphs::PIECE;
use thalweg_examples::queries::graphs::components::{components_by_changes, components_by_labels};
use thalweg_examples::{GraphArgs, output, print_rows};

/// Find the connected components of a graph, whatever the directions of its edges.
///
/// For each node, gives the smallest node of its component.
#[derive(Parser)]
struct Args {
    /// How they are found.
    #[arg(long, value_enum, default_value_t = Form::Labels)]
    form: Form,
    #[command(flatten)]
    graph: GraphArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// By going through all edges in each round, with what is known of nodes in an array, as in an MPI program
    Labels,
    /// By going on with the nodes that have changed, as in a Flink program: for graphs with long paths
    Delta,
}

/// How many components are shown to a person.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    cli::run(connect)
}

fn connect() -> Result<()> {
    let Args { form, graph } = Args::parse();
    let env = graph.engine.environment()?;
    match form {
        Form::Labels => {
            let (nodes, edges) = graph.numbered(&env)?;
            let out = components_by_labels(edges.chunks(PIECE), nodes.count());
            let ids: Arc<[u64]> = nodes.ids().into();
            let least = out.flat_map(move |outcome| {
                let ids = Arc::clone(&ids);
                let least = (0..ids.len()).zip(outcome.state);
                least.map(move |(node, least)| (ids[node], ids[least as usize]))
            });
            finish(&env, least, &graph)
        }
        Form::Delta => finish(&env, components_by_changes(graph.read(&env)), &graph),
    }
}

/// Runs the job: writes or prints each node with the smallest of its component, or prints the largest components.
fn finish<C>(env: &Environment, least: Stream<C>, graph: &GraphArgs) -> Result<()>
where
    C: Chain<Item = (u64, u64)>,
{
    if let Some(dir) = graph.sink.dir() {
        least.map(|(node, least)| format!("{node}\t{least}")).write_lines_parallel(dir);
        return env.run();
    }
    let least = least.collect::<Vec<_>>();
    env.run()?;
    let mut least = least.take()?;
    least.sort_unstable();
    if graph.tsv {
        return print_rows(least).map_err(output);
    }
    let mut sizes = BTreeMap::<u64, u64>::new();
    least.iter().for_each(|(_, least)| *sizes.entry(*least).or_default() += 1);
    println!("{} nodes in {} components; the largest, and their sizes:", least.len(), sizes.len());
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by_key(|(least, size)| (std::cmp::Reverse(*size), *least));
    print_rows(sizes.into_iter().take(SHOWN)).map_err(output)
}
