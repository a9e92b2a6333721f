//! A program of which one host does what the tests ask for.

use clap::{Parser, ValueEnum};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg::{Chain, Environment, Result, Stream, cli};

/// Counts numbers, and has one host misbehave.
#[derive(Parser)]
struct Args {
    how: How,
    /// The host that misbehaves
    #[arg(long, default_value_t = usize::MAX)]
    at: usize,
    /// The folder where it writes how often it was started, and its count
    #[arg(long, default_value = ".")]
    folder: PathBuf,
    #[command(flatten)]
    engine: cli::EngineArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum How {
    /// Ends with status 3 before it connects.
    Exit,
    /// A closure panics.
    Panic,
    /// Its process dies in the middle of the job, the first two times.
    Die,
    /// Never ends, and says when it has begun.
    Endless,
    /// Takes some seconds, and says when it has begun.
    Slow,
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
    if args.how == How::Slow {
        let numbers = env.range(0..30_000).map(|n| {
            std::thread::sleep(Duration::from_micros(200));
            n
        });
        write_counts(numbers, &args.folder);
        let job = env.start()?;
        eprintln!("running");
        return job.wait().map(drop);
    }
    if args.how == How::Die {
        return die(args, &env, id);
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

/// Counts numbers into a file. One host ends its process when it has seen many, unless it has been started twice before.
fn die(args: &Args, env: &Environment, id: usize) -> Result<()> {
    let started = args.folder.join("started");
    let mut dies = false;
    if id == args.at {
        let before = std::fs::read_to_string(&started).unwrap_or_default();
        dies = before.len() < 2;
        std::fs::write(&started, before + "x").expect("the folder is there");
    }
    let (seen, at) = (AtomicU64::new(0), args.at);
    let numbers = env.range(0..3_000_000).map(move |n| {
        if dies && seen.fetch_add(1, Ordering::Relaxed) == 100_000 {
            std::process::abort();
        }
        // The other hosts must not read all of it alone, however late this one is.
        if id != at && n.is_multiple_of(10_000) {
            std::thread::sleep(Duration::from_millis(5));
        }
        n
    });
    write_counts(numbers, &args.folder);
    env.run()
}

/// Counts numbers by their remainders, into a file.
fn write_counts(numbers: Stream<impl Chain<Item = u64>>, folder: &Path) {
    let counts = numbers.group_by(|n| n % 3).count().unkey();
    counts.map(|(key, count)| format!("{key} {count}")).write_lines(folder.join("counts"));
}
