//! `thalweg plan`: runs a program with the flag that prints its plan, or compares it with a checkpoint.

use anyhow::{Context as _, Result};
use std::convert::Infallible;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Print the plan of a program's job, or what it would do with a checkpoint, and run nothing
///
/// The program must take the engine's flags: this adds `--explain`, or `--plan-against`, to its arguments.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  thalweg plan ./job big.txt                       # stages, operators, exchanges and states
  thalweg plan --format dot ./job | dot -Tsvg      # the same as a picture
  thalweg plan --against saved ./next-version      # which states it would go on with; the exit status is 1 if it would be refused")]
pub(crate) struct Arguments {
    /// Compare the program with the newest checkpoint in this directory
    #[arg(long, value_name = "DIR", conflicts_with = "format")]
    against: Option<OsString>,
    /// text, dot (for Graphviz) or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: String,
    /// The program
    #[arg(value_name = "PROGRAM")]
    program: PathBuf,
    /// Its arguments
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// Replaces this process by the program.
pub(crate) fn run(arguments: &Arguments) -> Result<Infallible> {
    let Arguments { program, .. } = arguments;
    let error = Command::new(program).args(all(arguments)).exec();
    Err(error).with_context(|| format!("cannot start `{}`", program.display()))
}

/// The arguments of the program, with the flag before those that are no flags.
fn all(Arguments { against, format, arguments, .. }: &Arguments) -> Vec<OsString> {
    let flag = match against {
        Some(dir) => vec!["--plan-against".into(), dir.clone()],
        None => vec![format!("--explain={format}").into()],
    };
    let mut all = arguments.clone();
    let end = all.iter().position(|argument| argument == "--").unwrap_or(all.len());
    all.splice(end..end, flag);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: Arguments,
    }

    fn given(line: &[&str]) -> Vec<OsString> {
        let line = ["plan"].iter().chain(line);
        all(&Line::try_parse_from(line).expect("it is well-formed").plan)
    }

    #[test]
    fn the_flag_is_among_the_flags_of_the_program() {
        assert_eq!(given(&["job"]), ["--explain=text"]);
        assert_eq!(given(&["--format", "dot", "job", "-n", "3"]), ["-n", "3", "--explain=dot"]);
        let both = given(&["--against", "saved", "job", "--top", "3", "--", "--file"]);
        assert_eq!(both, ["--top", "3", "--plan-against", "saved", "--", "--file"]);
        assert!(
            Line::try_parse_from(["plan", "--against", "a", "--format", "dot", "job"]).is_err()
        );
    }
}
