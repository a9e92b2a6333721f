//! Numbers the ticks of a clock into a file until Ctrl-C, which drains the job: the file then appears.
//!
//! ```text
//! cargo run --example until_stopped -- --out ticks.txt
//! ```

use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use thalweg::{Result, cli::EngineArgs};

/// Numbers the ticks of a clock into a file until Ctrl-C.
#[derive(Parser)]
struct Args {
    /// The file
    #[arg(long)]
    out: PathBuf,
    /// Ticks a second
    #[arg(long, default_value_t = 1000.0)]
    rate: f64,
    /// Microseconds to waste on each tick
    #[arg(long, default_value_t = 0)]
    waste: u64,
    #[command(flatten)]
    engine: EngineArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    thalweg::cli::run(|| number(&args))
}

fn number(args: &Args) -> Result<()> {
    let env = args.engine.environment()?;
    let waste = Duration::from_micros(args.waste);
    env.generate(args.rate, Some)
        .shuffle()
        .map(move |tick| {
            if !waste.is_zero() {
                std::thread::sleep(waste);
            }
            tick.to_string()
        })
        .write_lines(&args.out);
    env.run()
}
