//! Ctrl-C and SIGTERM: the first one ends what is measured and removes what was made for it, a second one the process.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use thalweg::{Error, ErrorKind, Result};

static CAME: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes signals end what is measured from now on.
///
/// # Errors
///
/// If the system does not allow it.
pub(crate) fn install() -> Result<()> {
    let came = CAME.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        let installed = flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(came))
            .and_then(|_| flag::register(signal, Arc::clone(came)));
        installed
            .map_err(|cause| Error::new(ErrorKind::Io, "cannot handle signals").caused_by(cause))?;
    }
    Ok(())
}

/// Checks that no signal has come.
pub(crate) fn check() -> Result<()> {
    match CAME.get().is_some_and(|came| came.load(Ordering::Relaxed)) {
        true => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
        false => Ok(()),
    }
}
