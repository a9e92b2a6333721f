//! What fusing operators is worth: maps that each add one, at the four levels of fusion of the Arcon
//! thesis, from tasks for each map to a single addition.

use clap::{Parser, ValueEnum};
use std::process::ExitCode;
use std::time::Instant;
use thalweg::{Chain, Environment, Error, ErrorKind, Result, Stream, cli};
use thalweg_examples::{output, print_table, refuse_checkpoints};

/// Add one to each record, in many maps, and sum up: at each level of fusion.
///
/// Each job runs from its beginning to its end: `--checkpoint` is refused.
#[derive(Parser)]
struct Args {
    /// How many maps: 1, 10 or 50, as each number is another program.
    #[arg(long, default_value_t = 50)]
    maps: u32,
    /// How many records.
    #[arg(long, default_value_t = 5_000_000)]
    records: u64,
    /// Only this level; otherwise all of them.
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// Print a row `level<TAB>sum` for each level, and nothing else.
    #[arg(long)]
    tsv: bool,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Each map in tasks of its own.
    None,
    /// One task, which hands batches from map to map by a dynamic call.
    Task,
    /// One loop, which calls every map for every record.
    Invocation,
    /// One loop, whose maps the compiler makes one addition of.
    Instruction,
}

fn main() -> ExitCode {
    cli::run(compare)
}

fn compare() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    refuse_checkpoints(env.config())?;
    let levels = args.level.map_or(Level::value_variants().to_vec(), |level| vec![level]);
    let mut measured = Vec::new();
    for level in levels {
        // Once for nothing: the threads start, the memory is there.
        sum(&env, level, args.maps, args.records.min(100_000))?;
        let start = Instant::now();
        let sum = sum(&env, level, args.maps, args.records)?;
        measured.push((level, sum, args.records as f64 / start.elapsed().as_secs_f64()));
    }
    if args.tsv {
        let rows = measured.iter().map(|&(level, sum, _)| [name(level), sum.to_string()]);
        return print_table(true, ["level", "sum"], &rows.collect::<Vec<_>>()).map_err(output);
    }
    let slowest = measured.first().map_or(1.0, |&(_, _, rate)| rate);
    let rows = measured.iter().map(|&(level, sum, rate)| {
        let ratio = format!("{:.1}", rate / slowest);
        [name(level), format!("{:.1}", rate / 1e6), ratio, sum.to_string()]
    });
    print_table(false, ["level", "M records/s", "ratio", "sum"], &rows.collect::<Vec<_>>())
        .map_err(output)
}

fn name(level: Level) -> String {
    level.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned())
}

/// So many calls of a macro, one around the other.
macro_rules! times {
    (1, $map:ident, $stream:expr) => {
        $map!($stream)
    };
    (10, $map:ident, $stream:expr) => {
        $map!($map!($map!($map!($map!($map!($map!($map!($map!($map!($stream))))))))))
    };
    (50, $map:ident, $stream:expr) => {
        times!(
            10,
            $map,
            times!(10, $map, times!(10, $map, times!(10, $map, times!(10, $map, $stream))))
        )
    };
}

macro_rules! none {
    ($stream:expr) => {
        $stream.forward().map(add_one)
    };
}

macro_rules! task {
    ($stream:expr) => {
        $stream.map(add_one).boxed()
    };
}

macro_rules! invocation {
    ($stream:expr) => {
        $stream.map(call_add_one)
    };
}

macro_rules! instruction {
    ($stream:expr) => {
        $stream.map(add_one)
    };
}

// A function rather than a closure: tasks that do the same are compiled once.
#[inline]
fn add_one(n: u64) -> u64 {
    n + 1
}

#[inline(never)]
fn call_add_one(n: u64) -> u64 {
    add_one(n)
}

fn sum(env: &Environment, level: Level, maps: u32, records: u64) -> Result<u64> {
    // Numbers that no formula sums up, or the compiler would find it; small, so that no sum is
    // too large.
    let numbers = env.range(0..records).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40);
    match (level, maps) {
        (Level::None, 1) => total(env, times!(1, none, numbers)),
        (Level::None, 10) => total(env, times!(10, none, numbers)),
        (Level::None, 50) => total(env, times!(50, none, numbers)),
        (Level::Task, 1) => total(env, times!(1, task, numbers)),
        (Level::Task, 10) => total(env, times!(10, task, numbers)),
        (Level::Task, 50) => total(env, times!(50, task, numbers)),
        (Level::Invocation, 1) => total(env, times!(1, invocation, numbers)),
        (Level::Invocation, 10) => total(env, times!(10, invocation, numbers)),
        (Level::Invocation, 50) => total(env, times!(50, invocation, numbers)),
        (Level::Instruction, 1) => total(env, times!(1, instruction, numbers)),
        (Level::Instruction, 10) => total(env, times!(10, instruction, numbers)),
        (Level::Instruction, 50) => total(env, times!(50, instruction, numbers)),
        _ => {
            let what = format!("there are programs of 1, 10 and 50 maps, not of {maps}");
            Err(Error::new(ErrorKind::Config, what))
        }
    }
}

fn total(env: &Environment, numbers: Stream<impl Chain<Item = u64, Time = ()>>) -> Result<u64> {
    let sum = numbers.fold_assoc(0, |sum, n| *sum += n, |sum, n| *sum += n).collect::<Vec<_>>();
    env.run()?;
    Ok(sum.take()?.into_iter().sum())
}
