//! What `cargo xtask reproduce` measures, on one host or several: views of advertisements, word count, records that are
//! sent, and rounds of a loop.

pub(crate) mod scaling {
    //! The jobs of the program, and the time that the threads of the network take.

    pub(crate) mod jobs;
    pub(super) mod threads;
}

use clap::{Parser, Subcommand, ValueEnum};
use scaling::{jobs, threads};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use thalweg::{Result, cli};
use thalweg_examples::refuse_checkpoints;

/// Runs one job several times, and prints a line of JSON for each.
///
/// The line has the seconds that the job took on the first host, the seconds of processor time of that host's thread for the
/// network, and the answer, which does not depend on where the job runs. The first job also waits for what other hosts have to
/// prepare, so it is no measurement. `--checkpoint` needs `--jobs 1`.
#[derive(Parser)]
struct Args {
    /// How many times the job is run.
    #[arg(long, default_value_t = 2, global = true)]
    jobs: u32,
    #[command(subcommand)]
    job: Job,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Subcommand)]
pub(crate) enum Job {
    /// The Yahoo streaming benchmark: views by campaign and window of ten seconds.
    Ysb {
        /// How many events, which every host makes before the first job.
        #[arg(long, default_value_t = 1_000_000)]
        events: u64,
        /// How records come from one of the four operators to the next.
        #[arg(long, value_enum, default_value_t = Between::Fused)]
        between: Between,
    },
    /// Counts the words of text files.
    Words {
        /// What to read.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// How many files have the same text: counts are divided by it, and it is an error if one cannot be.
        #[arg(long, default_value_t = 1)]
        copies: u64,
    },
    /// Sends records from task to task.
    Exchange {
        /// How many records.
        #[arg(long, default_value_t = 10_000_000)]
        records: u64,
        /// The bytes of a record: 8, 24, 32, 128 or 512.
        #[arg(long, default_value_t = 8)]
        bytes: usize,
        /// Which tasks get the records of a task.
        #[arg(long, value_enum, default_value_t = To::All)]
        to: To,
        /// How many tasks receive on all hosts, instead of one for each core: the records of a task go to all of them.
        #[arg(long)]
        receivers: Option<usize>,
    },
    /// Rounds of a loop in which nothing happens.
    Rounds {
        /// How many rounds.
        #[arg(long, default_value_t = 10_000)]
        rounds: u64,
        /// Exchange records in the body of the loop, between so many tasks and as many others on all hosts: each round ends on
        /// a lane from every one to every other.
        #[arg(long)]
        tasks: Option<usize>,
    },
}

/// How records come from one operator to the next.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Between {
    /// All operators before the window are one stage.
    Fused,
    /// By a queue to the task with the same number, which is on the same host.
    Forward,
    /// By a queue to any task, on any host.
    Shuffle,
}

/// Which tasks get the records of a task.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum To {
    /// The one with the next number. With a task a host, that is another host.
    Next,
    /// All tasks, in turn.
    All,
}

fn main() -> ExitCode {
    cli::run(run)
}

fn run() -> Result<()> {
    let args = Args::parse();
    let env = args.engine.environment()?;
    if args.jobs > 1 {
        refuse_checkpoints(env.config())?;
    }
    let job = jobs::prepare(&args.job);
    for _ in 0..args.jobs {
        let (network, start) = (threads::network_seconds(), Instant::now());
        let answer = job(&env)?;
        let seconds = start.elapsed().as_secs_f64();
        let network = threads::network_seconds() - network;
        println!(
            r#"{{"seconds":{seconds:.6},"network_seconds":{network:.6},"answer":"{answer}"}}"#
        );
    }
    Ok(())
}
