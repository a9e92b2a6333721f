//! A program of which one host does what the tests ask for.

use clap::{Parser, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use thalweg::{Result, cli};

/// Counts numbers, and has one host misbehave.
#[derive(Parser)]
struct Args {
    how: How,
    /// The host that misbehaves
    #[arg(long, default_value_t = usize::MAX)]
    at: usize,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum How {
    /// Ends with status 3 before it connects.
    Exit,
    /// A closure panics.
    Panic,
    /// Never ends, and says when it has begun.
    Endless,
    /// Never ends, and ignores signals.
    Deaf,
    /// Prints where it is: number of the host, cores, memory, a line of its standard input.
    Show,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let id = std::env::var("THALWEG_HOST_ID").ok().and_then(|id| id.parse().ok()).unwrap_or(0);
    if args.how == How::Exit && id == args.at {
        return ExitCode::from(3);
    }
    cli::run(|| count(&args, id))
}

fn count(args: &Args, id: usize) -> Result<()> {
    if args.how == How::Deaf {
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::default()).expect("a handler is installed");
        }
        eprintln!("deaf");
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }
    let env = args.engine.environment()?;
    if args.how == How::Show {
        let mut line = String::new();
        // A host without standard input reads nothing.
        let _ = std::io::stdin().read_line(&mut line);
        let config = env.config();
        eprintln!("{} {} {}", config.cores, config.memory, line.trim());
        println!("host {id}");
    }
    if args.how == How::Endless {
        env.generate(1000.0, Some).shuffle().for_each(|_| {});
        let job = env.start()?;
        // From now on a signal ends the job, and no longer the process.
        eprintln!("running");
        return job.wait().map(drop);
    }
    let panics = args.how == How::Panic && id == args.at;
    let numbers = env.iter(0..10_000_u64).shuffle().map(move |n| {
        assert!(!panics, "this host was configured to panic");
        n
    });
    let count = numbers.count().collect_one();
    env.run()?;
    println!("{:?}", count.take()?);
    Ok(())
}
