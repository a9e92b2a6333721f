//! Asks any broker for topics, their ids and leaders, on a connection that stays open.

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
    connection: Option<Connection>,
    /// Hosts and ports of the brokers that the last answer had, by their numbers.
    brokers: BTreeMap<i32, (String, u16)>,
    /// Which of them is asked first.
    first: usize,
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
        Self { settings, connection: None, brokers: BTreeMap::new(), first: 0 }
    }

    /// Where a broker is that an answer has named.
    pub(crate) fn address(&self, node: i32) -> Option<&(String, u16)> {
        self.brokers.get(&node)
    }

    /// Asks another broker the next time: this one may know less.
    pub(crate) fn ask_another(&mut self) {
        (self.connection, self.first) = (None, self.first.wrapping_add(1));
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
        // One that was open may have been closed since.
        if let Some(mut connection) = self.connection.take()
            && let Ok(found) = connection.ask(api, body, &decode)
        {
            self.connection = Some(connection);
            return Ok(found);
        }
        let mut failed = Fault::Final("`bootstrap.servers` names no broker".to_owned());
        let named = self.settings.brokers.iter();
        let others = self.brokers.values().filter(|broker| !self.settings.brokers.contains(broker));
        let all: Vec<_> = named.chain(others).collect();
        let first = self.first.checked_rem(all.len()).unwrap_or(0);
        for (host, port) in all[first..].iter().chain(&all[..first]) {
            let opened = Connection::new(&self.settings, host, *port);
            match opened.and_then(|mut opened| Ok((opened.ask(api, body, &decode)?, opened))) {
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

/// Without user and password.
impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("brokers", &self.settings.brokers).finish_non_exhaustive()
    }
}
