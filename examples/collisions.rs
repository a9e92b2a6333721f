//! Three questions to a file of motor vehicle collisions, answered in one pass.

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use thalweg::io::Csv;
use thalweg::{Result, cli};
use thalweg_examples::queries::collisions::{BoroughWeek, Tally, accidents, three_questions};
use thalweg_examples::{OutputArgs, output, print_lines, print_table};

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
    /// Print the answer to this question alone.
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=3))]
    question: Option<u8>,
    /// Print rows separated by tabs, and nothing else. Unless one question is asked, the first column is its number.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    sink: OutputArgs,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

fn main() -> ExitCode {
    cli::run(ask)
}

fn ask() -> Result<()> {
    let Args { files, question, tsv, sink, engine } = Args::parse();
    let env = engine.environment()?;
    let (weeks, factors, boroughs) = three_questions(accidents(&env, Csv::new(files)));
    let is_wanted = move |number: u8| question.is_none_or(|only| only == number);
    if let Some(dir) = sink.dir() {
        let weeks = weeks.map(|(week, lethal)| (1u8, format!("{week}\t{lethal}")));
        let factors = factors.map(|(factor, Tally { accidents, lethal })| {
            (2u8, format!("{factor}\t{accidents}\t{}", lethal as f64 / accidents as f64))
        });
        let boroughs = boroughs.map(|row: BoroughWeek| {
            let BoroughWeek { borough, week, accidents, mean_lethal } = row;
            (3u8, format!("{borough}\t{week}\t{accidents}\t{mean_lethal}"))
        });
        let rows = weeks.merge(factors).merge(boroughs).filter_map(move |(number, row)| {
            let row = if question.is_none() { format!("{number}\t{row}") } else { row };
            is_wanted(number).then_some(row)
        });
        rows.write_lines_parallel(dir);
        return env.run();
    }
    let (weeks, factors, boroughs) =
        (weeks.collect::<Vec<_>>(), factors.collect::<Vec<_>>(), boroughs.collect::<Vec<_>>());
    env.run()?;

    if is_wanted(1) {
        let mut weeks = weeks.take()?;
        weeks.sort_unstable();
        let rows = weeks.into_iter().map(|(week, lethal)| [week.to_string(), lethal.to_string()]);
        table(tsv, question.is_none().then_some(1), ["week", "lethal accidents"], rows)?;
    }
    if is_wanted(2) {
        let mut factors = factors.take()?;
        factors.sort_by(|(a, x), (b, y)| y.accidents.cmp(&x.accidents).then(a.cmp(b)));
        let rows = factors.into_iter().map(|(factor, tally)| {
            let share = tally.lethal as f64 / tally.accidents as f64;
            let share = if tsv { share.to_string() } else { format!("{:.3}%", 100.0 * share) };
            [factor, tally.accidents.to_string(), share]
        });
        table(tsv, question.is_none().then_some(2), ["factor", "accidents", "lethal"], rows)?;
    }
    if is_wanted(3) {
        let mut boroughs = boroughs.take()?;
        boroughs.sort_by(|a, b| (&a.borough, a.week).cmp(&(&b.borough, b.week)));
        let rows = boroughs.into_iter().map(|row| {
            let mean = row.mean_lethal;
            let mean = if tsv { mean.to_string() } else { format!("{mean:.3}") };
            [row.borough, row.week.to_string(), row.accidents.to_string(), mean]
        });
        let titles = ["borough", "week", "accidents", "mean lethal a week"];
        table(tsv, question.is_none().then_some(3), titles, rows)?;
    }
    Ok(())
}

/// Prints the answer to a question, with its number where there are several.
fn table<const N: usize>(
    tsv: bool,
    number: Option<u8>,
    titles: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Result<()> {
    if tsv {
        let number = number.map_or(String::new(), |number| format!("{number}\t"));
        return print_lines(rows.map(|row| format!("{number}{}", row.join("\t")))).map_err(output);
    }
    if let Some(number) = number {
        print_lines([format!("{}{number}.", if number > 1 { "\n" } else { "" })])
            .map_err(output)?;
    }
    print_table(tsv, titles, &rows.collect::<Vec<_>>()).map_err(output)
}
