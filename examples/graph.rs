//! Runs a job that no compiler has seen: a graph read from a JSON file.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::dynamic::{Graph, Rows, Value};
use thalweg::{Error, Place, Result, cli};
use thalweg_examples::{output, print_lines};

/// Run the graph of a JSON file; by default of one that counts the words of this project's documents.
#[derive(Parser)]
struct Args {
    /// The graph; paths in it are taken from where the program is started.
    #[arg(default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/graphs/wordcount.json"))]
    graph: PathBuf,
    /// Print the rows that the graph collects, and nothing else; otherwise the first twenty of each
    /// `collect`, under its name and the names of their columns.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(run)
}

fn run() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    let json = std::fs::read_to_string(&args.graph)
        .map_err(|cause| Error::io(&args.graph, "read the graph", cause))?;
    let graph =
        Graph::from_json(&json).map_err(|error| error.at(Place::File(args.graph.clone())))?;
    let mut collected = graph.run(&env)?.into_iter().peekable();
    if collected.peek().is_none() && !args.tsv {
        print_lines(["This graph collects no rows; what it writes is written."]).map_err(output)?;
    }
    for (name, rows) in collected {
        let shown = if args.tsv { rows.len() } else { 20 };
        let header = (!args.tsv).then(|| [name, rows.names().join("\t")]);
        let header = header.into_iter().flatten();
        print_lines(header.chain(lines(&rows).take(shown))).map_err(output)?;
    }
    Ok(())
}

fn lines(rows: &Rows) -> impl Iterator<Item = String> {
    rows.iter().map(|row| row.iter().map(Value::to_string).collect::<Vec<_>>().join("\t"))
}
