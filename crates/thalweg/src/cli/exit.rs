//! Exit statuses.

use super::hosts::Lines;
use super::interrupt::{self, Signal};
use crate::error::{Error, ErrorKind};
use std::process::ExitCode;

/// Runs a program and turns how it ended into an exit status.
///
/// An error is printed to standard error as `error: …`. The status is 2 if the settings were wrong, 130 if Ctrl-C
/// cancelled a job, 143 if SIGTERM did or if a job was [suspended](crate::JobHandle::suspend), and 1 for any other error; it
/// is 0 without an error, as after a job that was drained. A `main` that returns a `Result` itself works as well, and ends with
/// status 1 for every error.
///
/// ```no_run
/// use std::process::ExitCode;
/// use thalweg::Environment;
///
/// fn main() -> ExitCode {
///     thalweg::cli::run(squares)
/// }
///
/// fn squares() -> thalweg::Result<()> {
///     let env = Environment::from_args()?;
///     let out = env.iter(0..10).map(|n| n * n).collect::<Vec<_>>();
///     env.run()?;
///     println!("{:?}", out.take()?);
///     Ok(())
/// }
/// ```
pub fn run<E>(program: impl FnOnce() -> Result<(), E>) -> ExitCode
where
    E: Into<Box<dyn std::error::Error>>,
{
    let Err(error) = program() else { return ExitCode::SUCCESS };
    let error = error.into();
    let message = message(&*error);
    match is_suspension(&*error) {
        true => Lines::print(&message),
        false => Lines::print(&format!("error: {message}")),
    }
    ExitCode::from(status(&*error, interrupt::signal()))
}

/// The text of an error and its causes; this crate's errors include their causes in their own text.
fn message(error: &(dyn std::error::Error + 'static)) -> String {
    let mut message = error.to_string();
    if error.is::<Error>() {
        return message;
    }
    let mut cause = error.source();
    while let Some(error) = cause {
        let what = error.to_string();
        // Some errors include the text of their cause.
        if !message.ends_with(&what) {
            message = format!("{message}: {what}");
        }
        cause = if error.is::<Error>() { None } else { error.source() };
    }
    message
}

/// Whether nothing has failed: a job goes on when the program is run again.
fn is_suspension(error: &(dyn std::error::Error + 'static)) -> bool {
    kind(error) == Some(ErrorKind::Suspended)
}

/// The kind of the engine's error, which others may have as their cause.
fn kind(error: &(dyn std::error::Error + 'static)) -> Option<ErrorKind> {
    std::iter::successors(Some(error), |error| error.source())
        .find_map(|error| error.downcast_ref::<Error>().map(Error::kind))
}

fn status(error: &(dyn std::error::Error + 'static), signal: Option<Signal>) -> u8 {
    match (kind(error), signal) {
        (Some(ErrorKind::Cancelled), Some(signal)) => signal.status(),
        // Also on hosts that got no signal, and in a program that has suspended its job by itself: whoever starts it again needs
        // to know.
        (Some(ErrorKind::Suspended), _) => Signal::Term.status(),
        (Some(ErrorKind::Config), _) => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_tells_what_went_wrong() {
        let of = |kind, signal| status(&Error::new(kind, "no"), signal);
        assert_eq!(of(ErrorKind::Cancelled, Some(Signal::CtrlC)), 130);
        assert_eq!(of(ErrorKind::Cancelled, Some(Signal::Term)), 143);
        assert_eq!(of(ErrorKind::Cancelled, None), 1);
        assert_eq!(of(ErrorKind::Suspended, None), 143);
        assert_eq!(of(ErrorKind::Suspended, Some(Signal::CtrlC)), 143);
        assert_eq!(of(ErrorKind::Config, None), 2);
        assert_eq!(of(ErrorKind::Io, Some(Signal::CtrlC)), 1);
        assert_eq!(status(&std::fmt::Error, None), 1);
    }

    #[test]
    fn the_status_is_that_of_the_cause() {
        #[derive(Debug)]
        struct Wrapped(Error);
        impl std::fmt::Display for Wrapped {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the nightly job has ended")
            }
        }
        impl std::error::Error for Wrapped {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                Some(&self.0)
            }
        }
        for (kind, expected) in
            [(ErrorKind::Suspended, 143), (ErrorKind::Config, 2), (ErrorKind::Io, 1)]
        {
            assert_eq!(status(&Wrapped(Error::new(kind, "no")), None), expected);
        }
        assert!(is_suspension(&Wrapped(Error::new(ErrorKind::Suspended, "no"))));
    }

    #[test]
    fn causes_are_told_once() {
        let cause = std::io::Error::other("the disk is full");
        let error = Error::new(ErrorKind::Io, "cannot write").caused_by(cause);
        assert_eq!(message(&error), "cannot write: the disk is full");
        assert_eq!(message(&std::io::Error::other(error)), "cannot write: the disk is full");
    }
}
