//! Windows over two sources, one of which goes quiet: what is said about it, and what can be done.
//!
//! ```text
//! cargo run --example quiet_source -- --stall-after 2s     says which source windows wait for
//! cargo run --example quiet_source -- --idle-after 500     does not wait for it
//! cargo run --example quiet_source -- --readings 2500 --quiet-readings 2 --idle-after 50
//!                                                          says that its second reading came too late
//! ```

use clap::Parser;
use std::process::ExitCode;
use std::time::Duration;
use thalweg::operators::time::Watermarks;
use thalweg::operators::window::EventTimeWindow;
use thalweg::time::Timestamp;
use thalweg::{Chain, Environment, Result, Stream, cli::EngineArgs};

/// Counts the readings of two sensors, second by second: one has a thousand a second, the other one at the
/// beginning and no more, or few.
#[derive(Parser)]
struct Args {
    /// Readings of the first sensor; by default they never end
    #[arg(long, default_value_t = u64::MAX)]
    readings: u64,
    /// Readings of the second sensor, as long as the first one has any
    #[arg(long, default_value_t = 1)]
    quiet_readings: u64,
    /// Milliseconds without a reading after which windows do not wait for a sensor
    #[arg(long)]
    idle_after: Option<u64>,
    #[command(flatten)]
    engine: EngineArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    thalweg::cli::run(|| count(&args))
}

fn count(args: &Args) -> Result<()> {
    let env = args.engine.environment()?;
    let idle_after = args.idle_after.map(Duration::from_millis);
    let loud = sensor(&env, 1000.0, args.readings, idle_after);
    // A reading more would be due when the other sensor has ended.
    let rate = 1000.0 * args.quiet_readings as f64 / args.readings as f64;
    let quiet = sensor(&env, rate, args.quiet_readings, idle_after);
    loud.merge(quiet)
        .window_all(EventTimeWindow::tumbling(Duration::from_secs(1)))
        .count()
        .map(|window| format!("{}\t{}", window.start, window.value))
        .print();
    env.run()
}

/// Readings at a rate, each with its number as its time in milliseconds.
fn sensor(
    env: &Environment,
    rate: f64,
    readings: u64,
    idle_after: Option<Duration>,
) -> Stream<impl Chain<Item = u64, Time = Timestamp> + use<>> {
    let mut watermarks = Watermarks::monotonous();
    if let Some(quiet) = idle_after {
        watermarks = watermarks.idle_after(quiet);
    }
    env.generate(rate, move |n| (n < readings).then_some(n))
        .assign_timestamps(|n| Timestamp::from_millis(*n as i64), watermarks)
}
