//! Partitions, and where they are read on.

use crate::client::error;
use crate::protocol::TopicId;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::fmt;
use thalweg::{Data, Error, ErrorKind, Place, Result};

/// A partition of a topic. It is shown as `orders/3`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Data)]
pub struct Partition {
    pub(crate) topic: String,
    pub(crate) number: i32,
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.topic, self.number)
    }
}

/// Where a partition is read on.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub struct Position {
    /// The least offset that was not emitted.
    pub(crate) next: i64,
    /// The offset at which reading ends, if it does.
    pub(crate) until: Option<i64>,
    /// Of the topic, if brokers have said it.
    #[data(default)]
    pub(crate) topic: Option<TopicId>,
    /// Of the leader that has appended what is before `next`, if that was read and brokers have said it: by it they know whether they
    /// still have that.
    #[data(default)]
    pub(crate) epoch: Option<i32>,
}

/// A list of one partition.
pub(crate) fn list_of(at: &Partition, offset: Offset) -> Result<TopicPartitionList> {
    let mut list = TopicPartitionList::with_capacity(1);
    list.add_partition_offset(&at.topic, at.number, offset)
        .map_err(|cause| error("name an offset", cause).at(place(at)))?;
    Ok(list)
}

pub(crate) fn place(at: &Partition) -> Place {
    Place::Split(at.to_string(), None)
}

/// Says that a partition cannot be read on.
pub(crate) fn gone(at: &Partition, offset: i64, what: &str) -> Error {
    let place = Place::Split(at.to_string(), Some(offset.to_string()));
    Error::new(ErrorKind::Io, what).at(place)
}

/// The same where starting the job again cannot help.
pub(crate) fn hopeless(at: &Partition, offset: i64, what: &str) -> Error {
    let place = Place::Split(at.to_string(), Some(offset.to_string()));
    Error::new(ErrorKind::Config, what).at(place)
}
