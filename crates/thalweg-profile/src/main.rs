//! Says where each millisecond of a pipeline between two topics of Kafka goes.
//!
//! Records are made on a schedule, whether the pipeline keeps up or not (an open loop), and carry the moment at which they were
//! due. The pipeline stamps them when they arrive in its source and when they leave for its sink, and a plain consumer of the
//! second topic has the last moment. Between these four lie the parts:
//!
//! ```text
//!   due ── to the log ──> first topic ── from the log ──> arrived ── processing ──> left ── writing ──> read from the second topic
//!    └──────────────── reading ──────────────────────────────┘
//! ```
//!
//! - `record`: what is in a record, and how the four moments make spans. Pure.
//! - `generate` makes records; `jobs` has the pipelines of this engine, `flink` starts those of Flink, `by_hand` has them without an
//!   engine; `collect` takes what comes out, and checks it.
//! - `run` puts one measurement together, `figures` those of a study, `networks` those that compare its two networks; `link` puts the
//!   broker behind a link of a limited rate.
//! - `report` and `plot`: what is printed, written and drawn.

mod args;
mod broker;
mod by_hand;
mod collect;
mod figures;
mod flink;
mod generate;
mod interrupt;
mod jobs;
mod link;
mod networks;
mod plot;
mod record;
mod report;
mod run;
mod spans;

use args::{Args, Command};
use clap::Parser as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    thalweg::cli::run(|| {
        let args = Args::parse();
        args.command.check_networks()?;
        if !args.inside && !args.command.networks().is_empty() {
            match link::enter()? {}
        }
        interrupt::install()?;
        match args.command {
            Command::Run(one) => run::command(&one),
            Command::Figure(figure) => figures::command(&figure),
            Command::Networks(networks) => networks::command(&networks),
        }
    })
}
