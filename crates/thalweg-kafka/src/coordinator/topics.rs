//! Asks for the ids of topics, by which one that was made anew is told from the one before.

use super::connection::Connection;
use super::fault::Fault;
use super::settings::Settings;
use super::wire;
use rdkafka::config::ClientConfig;
use std::fmt;
use thalweg::Data;

/// What no other topic has, also none of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Data)]
pub(crate) struct TopicId {
    high: u64,
    low: u64,
}

impl TopicId {
    /// `None` of zeros, which brokers send that do not know it.
    pub(super) fn of(bytes: [u8; 16]) -> Option<Self> {
        let number = u128::from_be_bytes(bytes);
        (number != 0).then_some(Self { high: (number >> 64) as u64, low: number as u64 })
    }
}

/// As Kafka's tools show it: the base64 of URLs, without padding.
impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let number = (u128::from(self.high) << 64) | u128::from(self.low);
        // 21 digits of six bits, and one of two.
        for digit in 0..21 {
            let bits = (number >> (122 - 6 * digit)) as usize & 63;
            write!(f, "{}", char::from(DIGITS[bits]))?;
        }
        write!(f, "{}", char::from(DIGITS[(number as usize & 3) << 4]))
    }
}

impl fmt::Debug for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Asks any broker for topics, on a connection that stays open.
pub(crate) struct Topics {
    settings: Settings,
    connection: Option<Connection>,
}

impl Topics {
    /// With the settings of a client of librdkafka.
    ///
    /// # Errors
    ///
    /// As those of [`Coordinator::new`](super::Coordinator::new).
    pub(crate) fn new(config: &ClientConfig) -> thalweg::Result<Self> {
        Ok(Self { settings: Settings::new(config)?, connection: None })
    }

    /// The ids of those topics that are there and have one.
    ///
    /// # Errors
    ///
    /// Why no broker has answered.
    pub(crate) fn ids(&mut self, names: &[&str]) -> Result<Vec<(String, TopicId)>, String> {
        self.asked(names).map_err(|fault| match fault {
            Fault::Later(what)
            | Fault::Gone(what)
            | Fault::Forgotten(what)
            | Fault::Final(what) => what,
            Fault::Denied => "the brokers do not authorize it".to_owned(),
        })
    }

    fn asked(&mut self, names: &[&str]) -> Result<Vec<(String, TopicId)>, Fault> {
        let body = wire::metadata(names.iter().copied());
        // One that was open may have been closed since.
        if let Some(mut connection) = self.connection.take()
            && let Ok(found) = ask(&mut connection, &body)
        {
            self.connection = Some(connection);
            return Ok(found);
        }
        let mut failed = Fault::Final("`bootstrap.servers` names no broker".to_owned());
        for (host, port) in &self.settings.brokers {
            let opened = Connection::new(&self.settings, host, *port);
            let found = opened.and_then(|mut opened| Ok((ask(&mut opened, &body)?, opened)));
            match found {
                Ok((found, opened)) => {
                    self.connection = Some(opened);
                    return Ok(found);
                }
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }
}

fn ask(connection: &mut Connection, body: &[u8]) -> Result<Vec<(String, TopicId)>, Fault> {
    let found = connection.ask(wire::METADATA, body, |answer| answer.metadata())?;
    let known = found.into_iter().filter_map(|(name, id)| Some((name, TopicId::of(id)?)));
    Ok(known.collect())
}

/// Without user and password.
impl fmt::Debug for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topics").field("brokers", &self.settings.brokers).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `kafka-topics.sh --describe` shows it: Java's `Base64.getUrlEncoder().withoutPadding()`.
    #[test]
    fn ids_are_shown_as_kafkas_tools_show_them() {
        let id = TopicId::of(*b"0123456789abcdef").unwrap();
        assert_eq!(id.to_string(), "MDEyMzQ1Njc4OWFiY2RlZg");
        assert_eq!(TopicId::of([0xff; 16]).unwrap().to_string(), "_____________________w");
        assert_eq!(TopicId::of([0; 16]), None);
    }
}
