//! Three questions to a file of motor vehicle collisions, answered in one pass.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::io::Csv;
use thalweg::{Result, cli};
use thalweg_examples::queries::collisions::{accidents, three_questions};
use thalweg_examples::{output, print_lines, print_table};

/// Ask three questions to New York's public file of motor vehicle collisions, in one pass over it.
///
/// 1: how many lethal accidents there were in each week that had some.
/// 2: for each contributing factor, how many accidents there were, and which share of them was lethal. A factor
/// counts once for an accident, however many vehicles have it.
/// 3: for each borough and week, how many accidents there were, and how many lethal ones the borough had a week, on
/// average over its weeks with accidents.
///
/// The file is CSV with a header; columns are found by their names: CRASH DATE (as 12/31/2020), BOROUGH, NUMBER OF
/// PERSONS KILLED and CONTRIBUTING FACTOR VEHICLE 1 to 5, and the others are passed over. A week begins on Monday and
/// is shown by that day. Without a number of persons killed, an accident counts as not lethal; without a borough, it
/// is in none; without a date, it is an error. No field may hold a line break.
#[derive(Parser)]
struct Args {
    /// What to read: files, directories or globs, compressed (.gz, .zst) or not.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print rows separated by tabs, and nothing else. The first column is the question's number.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(ask)
}

fn ask() -> Result<()> {
    let Args { files, tsv, engine } = Args::parse();
    let env = engine.environment()?;
    let (weeks, factors, boroughs) = three_questions(accidents(&env, Csv::new(files)));
    let (weeks, factors, boroughs) =
        (weeks.collect::<Vec<_>>(), factors.collect::<Vec<_>>(), boroughs.collect::<Vec<_>>());
    env.run()?;

    let mut weeks = weeks.take()?;
    weeks.sort_unstable();
    let rows = weeks.into_iter().map(|(week, lethal)| [week.to_string(), lethal.to_string()]);
    table(tsv, 1, ["week", "lethal accidents"], rows)?;

    let mut factors = factors.take()?;
    factors.sort_by(|(a, x), (b, y)| y.accidents.cmp(&x.accidents).then(a.cmp(b)));
    let rows = factors.into_iter().map(|(factor, tally)| {
        let share = tally.lethal as f64 / tally.accidents as f64;
        [
            factor,
            tally.accidents.to_string(),
            if tsv { share.to_string() } else { format!("{:.3}%", 100.0 * share) },
        ]
    });
    table(tsv, 2, ["factor", "accidents", "lethal"], rows)?;

    let mut boroughs = boroughs.take()?;
    boroughs.sort_by(|a, b| (&a.borough, a.week).cmp(&(&b.borough, b.week)));
    let rows = boroughs.into_iter().map(|row| {
        let mean =
            if tsv { row.mean_lethal.to_string() } else { format!("{:.3}", row.mean_lethal) };
        [row.borough, row.week.to_string(), row.accidents.to_string(), mean]
    });
    table(tsv, 3, ["borough", "week", "accidents", "mean lethal a week"], rows)
}

/// Prints the answer to one question.
fn table<const N: usize>(
    tsv: bool,
    question: u8,
    titles: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Result<()> {
    if tsv {
        return print_lines(rows.map(|row| format!("{question}\t{}", row.join("\t"))))
            .map_err(output);
    }
    let space = if question > 1 { "\n" } else { "" };
    print_lines([format!("{space}{question}.")]).map_err(output)?;
    print_table(tsv, titles, &rows.collect::<Vec<_>>()).map_err(output)
}
