//! Logins by SASL: with a password by PLAIN (RFC 4616) and SCRAM (RFC 5802), which does not show it, and with a token by OAUTHBEARER (RFC
//! 7628).
//!
//! Brokers say for how long a login holds: with `connections.max.reauth.ms`, or until the token expires. Before that, the client logs in
//! again on the same connection (KIP-368); the broker closes connections of which the time is over.

use super::connection::Connection;
use super::fault::Fault;
#[cfg(feature = "tls")]
use super::scram::Scram;
use super::wire;
use crate::tokens::{PANICKED, Tokens};
#[cfg(feature = "tls")]
use openssl::hash::MessageDigest;
use std::sync::Arc;
use std::time::Duration;

pub(super) struct Login {
    pub(super) mechanism: Mechanism,
    pub(super) proof: Proof,
}

impl Login {
    pub(super) fn is_by_token(&self) -> bool {
        matches!(self.proof, Proof::Tokens(_))
    }
}

/// What a user shows.
pub(super) enum Proof {
    Password { user: String, password: String },
    Tokens(Arc<Tokens>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mechanism {
    Plain,
    OauthBearer,
    #[cfg(feature = "tls")]
    Scram256,
    #[cfg(feature = "tls")]
    Scram512,
}

impl Mechanism {
    /// The mechanism of this name, if there is one here that takes passwords.
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
            Self::OauthBearer => "OAUTHBEARER",
            #[cfg(feature = "tls")]
            Self::Scram256 => "SCRAM-SHA-256",
            #[cfg(feature = "tls")]
            Self::Scram512 => "SCRAM-SHA-512",
        }
    }
}

/// The time in which brokers take no second login on a connection is a second.
const LEAST: Duration = Duration::from_millis(1_100);

/// Has a broker accept a user. Returns when to log in again, if the login does not hold without an end.
pub(super) fn log_in(
    connection: &mut Connection,
    login: &Login,
) -> Result<Option<Duration>, Fault> {
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
        other => Fault::check(other)?,
    }
    let lifetime = match &login.proof {
        Proof::Tokens(tokens) => bearer(connection, tokens)?,
        Proof::Password { user, password } => match login.mechanism {
            #[cfg(feature = "tls")]
            Mechanism::Scram256 => scram(connection, (user, password), MessageDigest::sha256())?,
            #[cfg(feature = "tls")]
            Mechanism::Scram512 => scram(connection, (user, password), MessageDigest::sha512())?,
            Mechanism::Plain | Mechanism::OauthBearer => {
                step(connection, &format!("\0{user}\0{password}"))?.lifetime
            }
        },
    };
    let lifetime = u64::try_from(lifetime).ok().filter(|millis| *millis > 0);
    Ok(lifetime.map(|millis| Duration::from_millis(millis).mul_f64(0.8).max(LEAST)))
}

/// Shows a token.
fn bearer(connection: &mut Connection, tokens: &Tokens) -> Result<i64, Fault> {
    let token = tokens.get().map_err(|why| match why.contains(PANICKED) {
        true => Fault::Final(why),
        false => Fault::Later(why),
    })?;
    let answer = step(connection, &token.first_message())?;
    if answer.bytes.is_empty() {
        return Ok(answer.lifetime);
    }
    // What is wrong with it, which has to be acknowledged. The broker refuses the login then.
    let why = String::from_utf8_lossy(&answer.bytes).into_owned();
    step(connection, "\x01")?;
    Err(connection.refused(why))
}

#[cfg(feature = "tls")]
fn scram(
    connection: &mut Connection,
    (user, password): (&str, &str),
    digest: MessageDigest,
) -> Result<i64, Fault> {
    let refused = |connection: &Connection, what: &str| connection.refused(what.to_owned());
    let first = Scram::new(digest, user).map_err(|what| refused(connection, what))?;
    let answer = step(connection, &first.message())?;
    let last = first.answered(password, &answer.bytes);
    let last = last.map_err(|what| refused(connection, what))?;
    let answer = step(connection, last.message())?;
    last.check(&answer.bytes).map_err(|what| refused(connection, what))?;
    Ok(answer.lifetime)
}

/// What a broker says to a message of the mechanism.
fn step(connection: &mut Connection, message: &str) -> Result<wire::Authenticated, Fault> {
    let body = wire::sasl_authenticate(message.as_bytes());
    let answer =
        connection.ask(wire::SASL_AUTHENTICATE, &body, |answer| answer.sasl_authenticate())?;
    match answer.code {
        0 => Ok(answer),
        58 => Err(connection.refused(answer.message)),
        other => Fault::check(other).map(|()| answer),
    }
}
