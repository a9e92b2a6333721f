//! The command `thalweg`, which starts a job on many hosts, looks at plans and checkpoints, and takes pipelines apart.

mod checkpoint;
mod entries;
mod exec;
mod hosts;
mod launch;
mod lines;
mod local;
mod plan;
mod profile;
mod script;
mod ssh;
mod supervise;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Starts jobs of Thalweg on many hosts, and looks at their plans and checkpoints
#[derive(Parser)]
#[command(name = "thalweg", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Launch(launch::Arguments),
    Checkpoint(checkpoint::Arguments),
    Plan(plan::Arguments),
    Profile(profile::Arguments),
    #[command(hide = true)]
    Exec(exec::Arguments),
}

fn main() -> ExitCode {
    let ended = match Arguments::parse().command {
        Command::Launch(arguments) => launch::run(&arguments),
        Command::Checkpoint(arguments) => checkpoint::run(&arguments),
        Command::Plan(arguments) => plan::run(&arguments).map(|never| match never {}),
        Command::Profile(arguments) => profile::run(&arguments).map(|never| match never {}),
        Command::Exec(arguments) => exec::run(&arguments).map(|never| match never {}),
    };
    match ended {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            lines::say(&format!("{error:#}"));
            ExitCode::from(2)
        }
    }
}
