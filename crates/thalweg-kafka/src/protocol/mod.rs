//! Requests of Kafka's protocol that librdkafka has no functions for, or is slow at: a [`Coordinator`] commits open transactions of
//! producers that are gone, and fences producers, for which librdkafka would make a client each time; [`Topics`] asks for the ids of
//! topics; and a [`Cluster`] and [`Connection`]s are what [`fetch`](crate::fetch) gets records by, whose frames are in [`answer`] and
//! whose batches in [`batches`].
//!
//! A producer's transaction outlives it until the brokers' time limit. Whoever knows its transactional id, producer id and epoch
//! can commit it, as long as no other producer has begun with the id since: that fences the old one, and aborts what it has left
//! open. The coordinator of a transactional id, which is a broker, takes such requests; any broker says which one it is.
//!
//! Each call makes one attempt, a coordinator's on connections of its own. It blocks, for about [`PATIENCE`] at most for each connection and
//! answer, but for those with records, which may be long: [`PATIENCE`] without a byte is their end.

pub(crate) mod answer;
pub(crate) mod batches;
mod cluster;
mod compression;
mod connection;
mod coordinator;
mod fault;
mod login;
#[cfg(feature = "tls")]
mod scram;
mod settings;
#[cfg(test)]
mod tests;
#[cfg(feature = "tls")]
mod tls;
mod topics;
mod wire;

pub(crate) use cluster::{Cluster, FoundTopic};
pub(crate) use connection::Connection;
pub(crate) use coordinator::{Coordinator, ProducerId};
pub(crate) use fault::{Fault, Refusal};
pub(crate) use settings::Settings;
use std::time::Duration;
pub(crate) use topics::{TopicId, Topics};
pub(crate) use wire::Leader;

/// How long brokers may take to accept a connection, and to answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
