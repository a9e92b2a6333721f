//! Asks for the ids of topics, by which one that was made anew is told from the one before.

use super::cluster::Cluster;
use super::fault::Fault;
use super::settings::Settings;
use super::wire;
use crate::tokens::Tokens;
use rdkafka::config::ClientConfig;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
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

    pub(super) fn bytes(self) -> [u8; 16] {
        ((u128::from(self.high) << 64) | u128::from(self.low)).to_be_bytes()
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

/// Asks any broker for the ids and settings of topics.
pub(crate) struct Topics(Cluster);

impl Topics {
    /// With the settings of a client of librdkafka, and what gives it tokens.
    ///
    /// # Errors
    ///
    /// As those of [`Coordinator::new`](super::Coordinator::new).
    pub(crate) fn new(
        config: &ClientConfig,
        tokens: Option<&Arc<Tokens>>,
    ) -> thalweg::Result<Self> {
        Settings::new(config, tokens).map(|settings| Self(Cluster::new(Arc::new(settings))))
    }

    /// The ids of those topics that are there and have one.
    ///
    /// # Errors
    ///
    /// Why no broker has answered.
    pub(crate) fn ids(&mut self, names: &[&str]) -> Result<Vec<(String, TopicId)>, String> {
        let topics = self.0.topics(names.iter().copied()).map_err(|fault| fault.what())?;
        let known = topics.into_iter().filter(|topic| topic.code == 0);
        Ok(known.filter_map(|topic| Some((topic.name, topic.id?))).collect())
    }

    /// Settings of a topic, of which the name and those of the settings have at most 32,767 bytes.
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    pub(crate) fn settings(
        &mut self,
        topic: &str,
        names: &[&str],
    ) -> Result<BTreeMap<String, String>, String> {
        let body = wire::describe_configs(topic, names);
        let answer = |answer: wire::Answer<'_>| answer.describe_configs();
        let answer = self.0.ask(wire::DESCRIBE_CONFIGS, &body, answer);
        let (code, message, found) = answer.map_err(Fault::what)?;
        match code {
            0 => Ok(found.into_iter().collect()),
            code if message.is_empty() => Err(format!("the broker answers with error {code}")),
            _ => Err(message),
        }
    }
}

impl fmt::Debug for Topics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Topics").field(&self.0).finish()
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
