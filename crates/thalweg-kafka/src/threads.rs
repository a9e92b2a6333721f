//! Threads for what blocks.

use std::thread;
use thalweg::{Error, ErrorKind, Result};

/// Starts a thread that is not waited for.
pub(crate) fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    let failed = |cause| {
        Error::new(ErrorKind::Io, format!("cannot start the thread `{name}`")).caused_by(cause)
    };
    started.map(drop).map_err(failed)
}
