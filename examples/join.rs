//! Joins two tables by a column.

use clap::{Parser, ValueEnum};
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::io::Csv;
use thalweg::operators::keyed::FirstOf;
use thalweg::{Chain, Environment, Error, ErrorKind, KeyedStream, Result, Stream, cli};
use thalweg_examples::{OutputArgs, output, print_lines};

/// Join two tables, whose rows are lines of fields separated by tabs, by the fields of one column in each.
///
/// A row of the result is the key, the other fields of the left row and those of the right row; of --how semi and
/// --how anti, the key and the other fields of the left row. Where a row has no partner, the place of the partner's
/// fields is marked by one field, `\N`. Keys are equal when their texts are: an empty key is a key like any other.
/// Rows come in no order. Neither table needs to fit into memory.
#[derive(Parser)]
struct Args {
    /// The left table: a file, a directory or a glob, compressed (.gz, .zst) or not.
    left: PathBuf,
    /// The right table.
    right: PathBuf,
    /// The rows of the result.
    #[arg(long, value_enum, default_value_t)]
    how: How,
    /// How the rows come together.
    #[arg(long, value_enum, default_value_t)]
    by: By,
    /// The key's column in the left table, from 1.
    #[arg(long, default_value_t = 1)]
    left_column: usize,
    /// The key's column in the right table, from 1.
    #[arg(long, default_value_t = 1)]
    right_column: usize,
    /// Print the rows, and nothing else; otherwise how many there are.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    sink: OutputArgs,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum How {
    /// Each pair of rows with equal keys
    #[default]
    Inner,
    /// The same, and left rows without partners
    Left,
    /// The same, and right rows without partners
    Right,
    /// The same, and all rows without partners
    Full,
    /// Left rows that have a partner, once each
    Semi,
    /// Left rows that have none
    Anti,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum By {
    /// A table of the right side, in the tasks that own the keys
    #[default]
    Hash,
    /// Both sides sorted
    SortMerge,
}

/// What stands for the fields of a partner that there is none of.
const NONE: &str = r"\N";

fn main() -> ExitCode {
    cli::run(join)
}

/// The rows of a table by the key in this column, each with its other fields.
pub(crate) fn table(
    env: &Environment,
    path: &PathBuf,
    column: usize,
) -> KeyedStream<impl Chain<Item = (String, String), Time = ()> + use<>, FirstOf> {
    let csv = Csv::new(path).delimiter(b'\t').quote(None).has_header(false).one_line_rows(true);
    let split = move |mut fields: Vec<String>| {
        if !(1..=fields.len()).contains(&column) {
            let what =
                format!("no column {column} in a row of {}: {}", fields.len(), fields.join("\t"));
            return Err(Error::new(ErrorKind::Input, what));
        }
        let key = fields.remove(column - 1);
        Ok((key, fields.join("\t")))
    };
    env.csv::<Vec<String>>(csv).try_map(split).keyed()
}

/// A row of the result.
pub(crate) fn row(key: String, left: Option<String>, right: Option<String>) -> String {
    let field = |fields: Option<String>| match fields {
        // A row that is but its key has no other fields.
        Some(fields) if fields.is_empty() => fields,
        Some(fields) => format!("\t{fields}"),
        None => format!("\t{NONE}"),
    };
    key + &field(left) + &field(right)
}

fn join() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    let left = table(&env, &args.left, args.left_column);
    let right = table(&env, &args.right, args.right_column);
    let both = left.join_with(right);
    // Each kind of join has a type of its own, and so has each way.
    macro_rules! how {
        ($joined:expr) => {
            match args.how {
                How::Inner => finish(
                    &env,
                    $joined.inner().unkey().map(|(k, (l, r))| row(k, Some(l), Some(r))),
                    &args,
                ),
                How::Left => finish(
                    &env,
                    $joined.left().unkey().map(|(k, (l, r))| row(k, Some(l), r)),
                    &args,
                ),
                How::Right => finish(
                    &env,
                    $joined.right().unkey().map(|(k, (l, r))| row(k, l, Some(r))),
                    &args,
                ),
                How::Full => {
                    finish(&env, $joined.full().unkey().map(|(k, (l, r))| row(k, l, r)), &args)
                }
                How::Semi => finish(
                    &env,
                    $joined.semi().unkey().map(|(k, l)| row(k, Some(l), Some(String::new()))),
                    &args,
                ),
                How::Anti => finish(
                    &env,
                    $joined.anti().unkey().map(|(k, l)| row(k, Some(l), Some(String::new()))),
                    &args,
                ),
            }
        };
    }
    match args.by {
        By::Hash => how!(both),
        By::SortMerge => how!(both.sort_merge()),
    }
}

/// Runs the job: writes or prints the rows, or prints how many there are.
fn finish(
    env: &Environment,
    rows: Stream<impl Chain<Item = String, Time = ()>>,
    args: &Args,
) -> Result<()> {
    if let Some(dir) = args.sink.dir() {
        rows.write_lines_parallel(dir);
        return env.run();
    }
    if args.tsv {
        rows.print();
        return env.run();
    }
    let count = rows.count().collect_one();
    env.run()?;
    print_lines([format!("{} rows", count.take()?.unwrap())]).map_err(output)
}
