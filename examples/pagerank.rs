//! Ranks the nodes of a graph by who points to them: PageRank, in the three forms in which engines are compared.

use clap::{Parser, ValueEnum};
use std::process::ExitCode;
use std::sync::Arc;
use thalweg::{Chain, Environment, Result, Stream, cli};
use thalweg_examples::queries::graphs::PIECE;
use thalweg_examples::queries::graphs::pagerank::{ranks_by_joins, ranks_in_place};
use thalweg_examples::{GraphArgs, output, print_rows};

/// Rank the nodes of a graph by who points to them.
///
/// All nodes begin with the same rank. In each round, a node hands on 85 % of its rank to those that it has edges
/// to, evenly, and one without edges hands it on to all nodes; the rest goes to all nodes. An edge that is there
/// several times counts as often. All ranks together are 1.
///
/// The three forms give the same ranks by different ways, so that each can be compared with programs of its kind.
/// Ranks of the form `integer` are rounded down to billionths of what a node begins with, whenever they are divided.
#[derive(Parser)]
struct Args {
    /// How many rounds.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    iterations: u64,
    /// Where ranks are from round to round.
    #[arg(long, value_enum, default_value_t = Form::State)]
    form: Form,
    #[command(flatten)]
    graph: GraphArgs,
}

#[derive(Clone, Copy, ValueEnum)]
enum Form {
    /// In an array that every round changes, as in an MPI program
    State,
    /// In a stream that every round joins with the edges, as in a Flink program
    Join,
    /// As `join`, in whole numbers, as in a program on differential dataflow
    Integer,
}

/// How many nodes are shown to a person.
const SHOWN: usize = 10;

fn main() -> ExitCode {
    cli::run(rank)
}

fn rank() -> Result<()> {
    let Args { iterations, form, graph } = Args::parse();
    let env = graph.engine.environment()?;
    match form {
        Form::State => {
            let (nodes, edges) = graph.numbered(&env)?;
            let out = ranks_in_place(edges.chunks(PIECE), nodes.count(), iterations);
            let ids: Arc<[u64]> = nodes.ids().into();
            let ranks = out.flat_map(move |outcome| {
                let ids = Arc::clone(&ids);
                (0..ids.len()).map(move |node| ids[node]).zip(outcome.state.ranks)
            });
            finish(&env, ranks, &graph)
        }
        Form::Join => finish(&env, ranks_by_joins::<f64, _>(graph.read(&env), iterations), &graph),
        Form::Integer => {
            finish(&env, ranks_by_joins::<u64, _>(graph.read(&env), iterations), &graph)
        }
    }
}

/// Runs the job: writes or prints each node with its rank, or prints those of the highest rank.
fn finish<C>(env: &Environment, ranks: Stream<C>, graph: &GraphArgs) -> Result<()>
where
    C: Chain<Item = (u64, f64)>,
{
    if let Some(dir) = graph.sink.dir() {
        ranks.map(|(node, rank)| format!("{node}\t{rank}")).write_lines_parallel(dir);
        return env.run();
    }
    let ranks = ranks.collect::<Vec<_>>();
    env.run()?;
    let mut ranks = ranks.take()?;
    if graph.tsv {
        ranks.sort_unstable_by_key(|(node, _)| *node);
    } else {
        ranks.sort_by(|(a, rank), (b, other)| other.total_cmp(rank).then(a.cmp(b)));
        println!("{} nodes; those of the highest rank:", ranks.len());
        ranks.truncate(SHOWN);
    }
    print_rows(ranks).map_err(output)
}
