//! Finds which nodes of a graph are connected.

use clap::{Parser, ValueEnum};
use std::collections::BTreeMap;
use std::process::ExitCode;
use thalweg::{Result, cli};
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
    let least: Vec<(u64, u64)> = match form {
        Form::Labels => {
            let (nodes, edges) = graph.numbered(&env)?;
            let out = components_by_labels(edges.chunks(PIECE), nodes.count()).collect::<Vec<_>>();
            env.run()?;
            let ids = nodes.ids();
            let least = out.take()?.into_iter().flat_map(|outcome| outcome.state);
            ids.iter().zip(least).map(|(node, least)| (*node, ids[least as usize])).collect()
        }
        Form::Delta => {
            let out = components_by_changes(graph.read(&env)).collect::<Vec<_>>();
            env.run()?;
            let mut least = out.take()?;
            least.sort_unstable();
            least
        }
    };
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
