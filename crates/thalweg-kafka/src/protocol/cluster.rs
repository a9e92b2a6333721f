//! Asks any broker for topics, their ids and leaders, on connections that stay open.

use super::connection::Connection;
use super::fault::Fault;
use super::settings::Settings;
use super::topics::TopicId;
use super::wire::{self, Answer, Api, Leader, Torn};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub(crate) struct Cluster {
    settings: Arc<Settings>,
    /// To each broker that was asked, by its host and port.
    connections: BTreeMap<(String, u16), Connection>,
    /// Hosts and ports of the brokers that the last answer had, by their numbers.
    brokers: BTreeMap<i32, (String, u16)>,
    /// The one that has answered last, and whether another one is asked before it.
    last: Option<(String, u16)>,
    asks_another: bool,
}

/// A topic as a broker knows it.
#[derive(Debug)]
pub(crate) struct FoundTopic {
    /// Of an error, 0 if there is none.
    pub(crate) code: i16,
    pub(crate) name: String,
    pub(crate) id: Option<TopicId>,
    /// By the numbers of partitions.
    pub(crate) leaders: BTreeMap<i32, Leader>,
}

impl Cluster {
    pub(crate) fn new(settings: Arc<Settings>) -> Self {
        let (connections, brokers) = (BTreeMap::new(), BTreeMap::new());
        Self { settings, connections, brokers, last: None, asks_another: false }
    }

    /// Where a broker is that an answer has named.
    pub(crate) fn address(&self, node: i32) -> Option<&(String, u16)> {
        self.brokers.get(&node)
    }

    /// Asks another broker the next time: this one may know less.
    pub(crate) fn ask_another(&mut self) {
        self.asks_another = true;
    }

    /// What a broker knows of topics.
    ///
    /// # Errors
    ///
    /// Why no broker has answered.
    pub(crate) fn topics<'a>(
        &mut self,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Result<Vec<FoundTopic>, Fault> {
        let body = wire::metadata(names);
        let metadata = self.ask(wire::METADATA, &body, |answer| answer.metadata())?;
        // A broker that has just started may know none.
        if !metadata.brokers.is_empty() {
            let of = |(node, host, port)| (node, (host, port));
            self.brokers = metadata.brokers.into_iter().map(of).collect();
        }
        let found = |topic: wire::Topic| FoundTopic {
            code: topic.code,
            name: topic.name,
            id: TopicId::of(topic.id),
            leaders: topic.leaders.into_iter().collect(),
        };
        Ok(metadata.topics.into_iter().map(found).collect())
    }

    /// The answer of any broker to a request.
    pub(super) fn ask<T>(
        &mut self,
        api: Api,
        body: &[u8],
        decode: impl Fn(Answer<'_>) -> Result<T, Torn>,
    ) -> Result<T, Fault> {
        let named = self.settings.brokers.iter();
        let others = self.brokers.values().filter(|broker| !self.settings.brokers.contains(broker));
        let all: Vec<_> = named.chain(others).cloned().collect();
        self.connections.retain(|broker, _| all.contains(broker));
        let last = all.iter().position(|broker| self.last.as_ref() == Some(broker));
        let first = last.map_or(0, |last| (last + usize::from(self.asks_another)) % all.len());
        self.asks_another = false;
        let mut failed = Fault::Final("`bootstrap.servers` names no broker".to_owned());
        for broker in all[first..].iter().chain(&all[..first]) {
            match self.ask_one(broker, api, body, &decode) {
                Ok(found) => {
                    self.last = Some(broker.clone());
                    return Ok(found);
                }
                Err(fault) => failed = fault,
            }
        }
        Err(failed)
    }

    fn ask_one<T>(
        &mut self,
        broker: &(String, u16),
        api: Api,
        body: &[u8],
        decode: &impl Fn(Answer<'_>) -> Result<T, Torn>,
    ) -> Result<T, Fault> {
        // One that was open may have been closed since.
        if let Some(mut connection) = self.connections.remove(broker)
            && let Ok(found) = connection.ask(api, body, decode)
        {
            self.connections.insert(broker.clone(), connection);
            return Ok(found);
        }
        let mut opened = Connection::new(&self.settings, &broker.0, broker.1)?;
        let found = opened.ask(api, body, decode)?;
        self.connections.insert(broker.clone(), opened);
        Ok(found)
    }
}

/// Without user and password.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("brokers", &self.settings.brokers).finish_non_exhaustive()
    }
}
