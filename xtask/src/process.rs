//! Starts other programs: sets their directory and environment, and counts the tests they report.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// How many tests passed and failed, summed over any number of test programs, and what these said of those that failed.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// The first lines of what each program printed below `failures:`.
    pub(crate) failures: String,
    /// How many more lines of the program that prints its failures are kept.
    room: usize,
}

/// How many lines of one program's failures are repeated at the end: what it has to say of two or three.
const LINES: usize = 60;

impl Totals {
    /// The number of tests that ran.
    pub(crate) fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    /// Reads a line of output: what comes between a line `failures:` and the closing line of a test program, `test result:
    /// FAILED. 3 passed; 1 failed; …`, is kept, and the counts of the latter are added.
    pub(crate) fn read(&mut self, line: &str) {
        let Some(rest) = line.trim().strip_prefix("test result: ") else {
            // The program before has ended in the middle.
            if line.starts_with("running ") {
                self.room = 0;
            } else if self.room > 0 {
                self.room -= 1;
                self.failures += line;
            } else if line.trim_end() == FAILURES {
                self.room = LINES;
            }
            return;
        };
        self.room = 0;
        // The verdict before the full stop adds nothing to the counts.
        let counts = rest.split_once(". ").map_or(rest, |(_, counts)| counts);
        for part in counts.split("; ") {
            match part.split_once(' ').map(|(number, what)| (number.parse::<u64>(), what)) {
                Some((Ok(number), "passed")) => self.passed += number,
                Some((Ok(number), "failed")) => self.failed += number,
                _ => {}
            }
        }
    }
}

/// What a test program prints above what it has to say of tests that failed.
pub(crate) const FAILURES: &str = "failures:";

/// The root of the repository, so that every command works from any directory in it.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        // `cargo run` sets the package's path at run time. The path at compile time may be that of another clone, if
        // two share one target directory.
        let said = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let xtask = said.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        xtask.parent().expect("xtask lies in the repository's root").to_owned()
    })
}

/// A program that runs in the repository's root.
///
/// It gets no standard input, so that no program can wait for an answer, and none of the variables by which the
/// `cargo` that started this process describes this package.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).stdin(Stdio::null());
    for (key, _) in std::env::vars_os() {
        let describes_xtask = key.to_str().is_some_and(|key| {
            key.starts_with("CARGO_PKG_")
                || ["CARGO_MANIFEST_DIR", "CARGO_MANIFEST_PATH", "CARGO_BIN_NAME"].contains(&key)
        });
        if describes_xtask {
            command.env_remove(key);
        }
    }
    command
}

/// `cargo`, with arguments.
pub(crate) fn cargo<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = program("cargo");
    command.args(arguments);
    command
}

/// Adds to the compiler flags that the caller's environment already sets.
pub(crate) fn add_rustflags(command: &mut Command, flags: &str) {
    let before = std::env::var("RUSTFLAGS").unwrap_or_default();
    command.env("RUSTFLAGS", format!("{before} {flags}").trim());
}

/// Runs a program to its end; returns an error if it failed.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    show(command);
    let status = command.status().with_context(|| format!("cannot start `{}`", words(command)))?;
    if !status.success() {
        bail!("`{}` ended with {status}", words(command));
    }
    Ok(())
}

/// Runs a program that runs tests, prints its standard output as it comes, and adds the counts of its test runners to
/// `totals`.
pub(crate) fn run_tests(command: &mut Command, totals: &mut Totals) -> Result<()> {
    show(command);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start `{}`", words(command)))?;
    let output = child.stdout.take().expect("standard output was piped");
    pass_on(BufReader::new(output), |line| print!("{line}"), totals)?;
    let status = child.wait()?;
    if !status.success() {
        bail!("`{}` ended with {status}", words(command));
    }
    Ok(())
}

/// Prints `input` line by line, as it comes, and counts tests.
fn pass_on(mut input: impl BufRead, mut show: impl FnMut(&str), totals: &mut Totals) -> Result<()> {
    let mut bytes = Vec::new();
    while input.read_until(b'\n', &mut bytes)? > 0 {
        let line = String::from_utf8_lossy(&bytes);
        show(&line);
        totals.read(&line);
        bytes.clear();
    }
    Ok(())
}

/// Prints the command that is about to run, in a form that can be pasted into a shell.
fn show(command: &Command) {
    println!("$ {}", line(command));
}

/// The command as it would be typed in a shell.
fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(key, value)| {
        Some(format!("{}={} ", key.to_string_lossy(), quoted(&value?.to_string_lossy())))
    });
    variables.collect::<String>() + &words(command)
}

/// The command without its variables, as its name in messages.
fn words(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| quoted(&word.to_string_lossy()))
        .collect::<Vec<_>>()
        .join(" ")
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_over_test_programs() {
        let output = "\
running 2 tests
test a ... ok
failures:
---- b stdout ----
a reason
test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 4 filtered out; finished in 0.00s
said by a test: test result: ok. 9 passed; 9 failed
test result: ok. 10 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s";
        let (mut totals, mut copy) = (Totals::default(), String::new());
        pass_on(output.as_bytes(), |line| copy += line, &mut totals).unwrap();
        assert_eq!((totals.passed, totals.failed), (13, 1));
        assert_eq!(totals.failures, "---- b stdout ----\na reason\n");
        assert_eq!(copy, output);
    }

    #[test]
    fn commands_are_shown_as_they_are_typed() {
        let mut command = Command::new("cargo");
        command.args(["test", "it's"]).env("RUSTFLAGS", "--cfg loom");
        assert_eq!(line(&command), r"RUSTFLAGS='--cfg loom' cargo test 'it'\''s'");
    }

    #[test]
    fn a_failing_program_is_an_error_that_names_it() {
        let error = run(&mut program("false")).unwrap_err();
        assert!(error.to_string().starts_with("`false` ended with"), "{error}");
    }
}
