//! Looks up the addresses of names.

use crate::sync::spawn;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// The addresses of `name:port`; at least one. A name is looked up on a thread of its own, since the system may take
/// minutes to give up on a name server; after `within` this function returns, and that thread ends when the look-up does.
pub(super) fn resolve(name: &str, within: Duration) -> Result<Vec<SocketAddr>, String> {
    match name.parse() {
        Ok(address) => Ok(vec![address]),
        Err(_) => bounded(name.to_owned(), within, look_up),
    }
}

fn bounded(
    name: String,
    within: Duration,
    look_up: impl FnOnce(&str) -> io::Result<Vec<SocketAddr>> + Send + 'static,
) -> Result<Vec<SocketAddr>, String> {
    let (found, result) = channel();
    let body = move || {
        // Nothing waits for it any more if it took too long.
        let _ = found.send(look_up(&name));
    };
    spawn("thalweg-names".to_owned(), body).map_err(|error| error.to_string())?;
    match result.recv_timeout(within) {
        Ok(Ok(addresses)) if addresses.is_empty() => Err("the name has no address".to_owned()),
        Ok(found) => found.map_err(|error| error.to_string()),
        Err(RecvTimeoutError::Timeout) => {
            Err(format!("the look-up of the name has not ended within {within:.0?}"))
        }
        Err(RecvTimeoutError::Disconnected) => Err("the look-up of the name has failed".to_owned()),
    }
}

fn look_up(name: &str) -> io::Result<Vec<SocketAddr>> {
    loop {
        match name.to_socket_addrs() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            found => return found.map(Iterator::collect),
        }
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_have_addresses() {
        let minute = Duration::from_secs(60);
        let number = "10.0.0.1:47".parse().unwrap();
        assert_eq!(resolve("10.0.0.1:47", Duration::ZERO).unwrap(), [number]);
        let local = resolve("localhost:47", minute).unwrap();
        assert!(local.iter().all(|address| address.ip().is_loopback() && address.port() == 47));
        assert_eq!(
            bounded("name:1".to_owned(), minute, |_| Ok(Vec::new())).unwrap_err(),
            "the name has no address"
        );
    }

    #[test]
    fn a_look_up_that_does_not_end_is_given_up() {
        let (release, released) = channel::<()>();
        let look_up = move |_: &str| {
            let _ = released.recv_timeout(Duration::from_secs(60));
            Ok(vec!["10.0.0.1:47".parse().unwrap()])
        };
        let found = bounded("name:1".to_owned(), Duration::from_millis(20), look_up);
        assert_eq!(found.unwrap_err(), "the look-up of the name has not ended within 20ms");
        drop(release);
    }
}
