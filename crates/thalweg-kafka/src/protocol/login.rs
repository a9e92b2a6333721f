//! Logins with a password by SASL: PLAIN (RFC 4616), and SCRAM (RFC 5802), which does not show it.

use super::connection::Connection;
use super::fault::Fault;
#[cfg(feature = "tls")]
use super::scram::Scram;
use super::wire;
#[cfg(feature = "tls")]
use openssl::hash::MessageDigest;

pub(super) struct Login {
    pub(super) mechanism: Mechanism,
    pub(super) user: String,
    pub(super) password: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    #[cfg(feature = "tls")]
    Scram256,
    #[cfg(feature = "tls")]
    Scram512,
}

impl Mechanism {
    /// The mechanism of this name, if there is one here.
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "PLAIN" => Some(Self::Plain),
            #[cfg(feature = "tls")]
            "SCRAM-SHA-256" => Some(Self::Scram256),
            #[cfg(feature = "tls")]
            "SCRAM-SHA-512" => Some(Self::Scram512),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            #[cfg(feature = "tls")]
            Self::Scram256 => "SCRAM-SHA-256",
            #[cfg(feature = "tls")]
            Self::Scram512 => "SCRAM-SHA-512",
        }
    }
}

/// Has a broker accept a user.
pub(super) fn log_in(connection: &mut Connection, login: &Login) -> Result<(), Fault> {
    let name = login.mechanism.name();
    let body = wire::sasl_handshake(name);
    let (code, known) =
        connection.ask(wire::SASL_HANDSHAKE, &body, |answer| answer.sasl_handshake())?;
    match code {
        0 => {}
        33 => {
            let known = known.join(", ");
            return Err(connection.refused(format!("the broker takes {known}, and not {name}")));
        }
        34 => return Err(connection.refused("the broker takes no logins there".to_owned())),
        other => return Fault::check(other),
    }
    match login.mechanism {
        Mechanism::Plain => {
            let message = format!("\0{}\0{}", login.user, login.password);
            step(connection, &message).map(drop)
        }
        #[cfg(feature = "tls")]
        Mechanism::Scram256 => scram(connection, login, MessageDigest::sha256()),
        #[cfg(feature = "tls")]
        Mechanism::Scram512 => scram(connection, login, MessageDigest::sha512()),
    }
}

#[cfg(feature = "tls")]
fn scram(connection: &mut Connection, login: &Login, digest: MessageDigest) -> Result<(), Fault> {
    let refused = |connection: &Connection, what: &str| connection.refused(what.to_owned());
    let first = Scram::new(digest, &login.user).map_err(|what| refused(connection, what))?;
    let answer = step(connection, &first.message())?;
    let last = first.answered(&login.password, &answer);
    let last = last.map_err(|what| refused(connection, what))?;
    let answer = step(connection, last.message())?;
    last.check(&answer).map_err(|what| refused(connection, what))
}

/// What a broker says to a message of the mechanism.
fn step(connection: &mut Connection, message: &str) -> Result<Vec<u8>, Fault> {
    let body = wire::sasl_authenticate(message.as_bytes());
    let answer =
        connection.ask(wire::SASL_AUTHENTICATE, &body, |answer| answer.sasl_authenticate())?;
    match answer.code {
        0 => Ok(answer.bytes),
        58 => Err(connection.refused(answer.message)),
        other => Fault::check(other).map(|()| answer.bytes),
    }
}
