//! The project's own commands. `cargo xtask --help` lists them.
//!
//! Each command is a module. `process` starts programs for them and `setup` installs what a fresh machine lacks;
//! neither depends on the commands.

mod bench;
mod beside;
mod built;
mod data;
mod examples;
mod first_program;
mod fuzz;
mod hosts;
mod inputs;
mod kafka;
mod killed;
mod kubernetes;
mod lines;
mod long;
mod metadata;
mod mpi;
mod networks;
mod objects;
mod oracles;
mod process;
mod profile;
mod recovery;
mod reproduce;
mod rows;
mod setup;
mod temporary;
mod test;
mod tidy;
mod unlinked;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The project's own commands.
///
/// Two are enough to work here: `cargo xtask test fast` after each edit, which takes seconds, and `cargo xtask test`
/// before a change is submitted, which runs everything.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Test(test::Arguments),
    Tidy(tidy::Arguments),
    Snippets(test::SnippetArguments),
    Fuzz(fuzz::Arguments),
    Long(long::Arguments),
    Networks(networks::Arguments),
    Bench(bench::Arguments),
    Profile(profile::Arguments),
    Reproduce(reproduce::Arguments),
    Data(data::Arguments),
    Lines(lines::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Tidy(arguments) => tidy::run(&arguments),
        Command::Snippets(arguments) => test::run_snippets(&arguments),
        Command::Fuzz(arguments) => fuzz::run_command(&arguments),
        Command::Long(arguments) => long::run(&arguments),
        Command::Networks(arguments) => networks::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Profile(arguments) => profile::command(&arguments),
        Command::Reproduce(arguments) => reproduce::run(&arguments),
        Command::Data(arguments) => data::run(&arguments),
        Command::Lines(arguments) => lines::run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
