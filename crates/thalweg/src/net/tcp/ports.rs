//! Ports for hosts of tests.
#![expect(clippy::disallowed_methods, reason = "the door to the network")]

use crate::error::{Error, ErrorKind, Result};
use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// The lowest port that is tried, and how many are: below those that the system gives to connections.
const LOWEST: u16 = 10_240;
const COUNT: u32 = 20_000;

/// A port of loopback without a listener. Each is returned once by a process.
pub(crate) fn free_port() -> Result<u16> {
    static TRIED: AtomicU32 = AtomicU32::new(0);
    let begin = std::process::id().wrapping_mul(137);
    for _ in 0..COUNT {
        let step = begin.wrapping_add(TRIED.fetch_add(1, Ordering::Relaxed));
        let port = LOWEST + (step % COUNT) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    Err(Error::new(ErrorKind::Io, "no port of loopback is free"))
}
