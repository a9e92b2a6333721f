//! Records as they are read.

use crate::partition::Partition;
use crate::protocol::batches::{RawHeaders, RawRecord};
use crate::waits::Waits;
use rdkafka::Message as _;
use rdkafka::message::{BorrowedMessage, Headers as _};
use serde::Deserialize;
use std::fmt;
use thalweg::data::{Covariant, Record};
use thalweg::time::Timestamp;
use thalweg::{Error, ErrorKind, Place, Result};

/// The kind of the records that a [`KafkaSource`](crate::KafkaSource) emits: closures receive a [`MessageRef`].
pub struct Message {
    _unsized: [()],
}

impl Record for Message {
    type Of<'a> = MessageRef<'a>;
}

impl Covariant for Message {
    fn shorten<'short, 'long: 'short>(message: MessageRef<'long>) -> MessageRef<'short> {
        message
    }
}

/// A record of a topic, borrowed from what was fetched.
#[derive(Clone, Copy)]
pub struct MessageRef<'a> {
    of: Of<'a>,
    /// Where it may wait for its schema, in place of its thread.
    #[cfg_attr(not(feature = "avro"), expect(dead_code, reason = "only Avro has schemas"))]
    waits: Option<&'a Waits>,
}

/// What has fetched it.
#[derive(Clone, Copy)]
enum Of<'a> {
    Direct(&'a Partition, RawRecord<'a>),
    Librdkafka(&'a BorrowedMessage<'a>),
}

impl<'a> MessageRef<'a> {
    #[inline(always)]
    pub(crate) fn fetched(partition: &'a Partition, record: RawRecord<'a>) -> Self {
        Self { of: Of::Direct(partition, record), waits: None }
    }

    pub(crate) fn of_librdkafka(message: &'a BorrowedMessage<'a>) -> Self {
        Self { of: Of::Librdkafka(message), waits: None }
    }

    /// Where it may wait for its schema: it is decoded once more then.
    #[inline(always)]
    pub(crate) fn that_may_wait(self, waits: &'a Waits) -> Self {
        Self { waits: Some(waits), ..self }
    }

    /// The topic that it is from.
    pub fn topic(self) -> &'a str {
        match self.of {
            Of::Direct(partition, _) => &partition.topic,
            Of::Librdkafka(message) => message.topic(),
        }
    }

    /// The partition that it is from.
    pub fn partition(self) -> i32 {
        match self.of {
            Of::Direct(partition, _) => partition.number,
            Of::Librdkafka(message) => message.partition(),
        }
    }

    /// Its offset in the partition.
    #[inline]
    pub fn offset(self) -> i64 {
        match self.of {
            Of::Direct(_, record) => record.offset,
            Of::Librdkafka(message) => message.offset(),
        }
    }

    /// Its key, if it has one.
    #[inline]
    pub fn key(self) -> Option<&'a [u8]> {
        match self.of {
            Of::Direct(_, record) => record.key,
            Of::Librdkafka(message) => message.key(),
        }
    }

    /// Its value; `None` if it is a tombstone, which says that there is no value for the key any more.
    #[inline]
    pub fn payload(self) -> Option<&'a [u8]> {
        match self.of {
            Of::Direct(_, record) => record.payload,
            Of::Librdkafka(message) => message.payload(),
        }
    }

    /// When it was created, or appended to the log, as the topic has it; `None` where it is of before Kafka had timestamps.
    #[inline]
    pub fn timestamp(self) -> Option<Timestamp> {
        let millis = match self.of {
            Of::Direct(_, record) => Some(record.millis).filter(|millis| *millis >= 0),
            Of::Librdkafka(message) => message.timestamp().to_millis(),
        };
        Some(Timestamp::from_micros(millis?.saturating_mul(1000)))
    }

    /// Its headers, in order: names, and values if they have any.
    ///
    /// # Panics
    ///
    /// The iterator does at a name that is no UTF-8, which ends the job with an error.
    pub fn headers(self) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> {
        match self.of {
            Of::Direct(_, record) => Headers::Direct(self, record.headers),
            Of::Librdkafka(message) => Headers::Librdkafka(message, 0),
        }
    }

    /// Its value as text.
    ///
    /// # Errors
    ///
    /// If there is none, or it is no UTF-8: of kind [`Input`](ErrorKind::Input), with topic, partition and offset.
    pub fn text(self) -> Result<&'a str> {
        std::str::from_utf8(self.present()?).map_err(|error| self.error("no UTF-8", error))
    }

    /// Its value, read as JSON.
    ///
    /// # Errors
    ///
    /// If there is none, or it is not such a value: of kind [`Input`](ErrorKind::Input), with topic, partition and offset.
    pub fn json<T: Deserialize<'a>>(self) -> Result<T> {
        serde_json::from_slice(self.present()?)
            .map_err(|error| self.error("not the expected JSON", error))
    }

    /// Its value, decoded from Avro by the schema that it names, which a schema registry has. See
    /// [`AvroDecoder`](crate::AvroDecoder).
    ///
    /// ```no_run
    /// use serde::Deserialize;
    /// use thalweg::Environment;
    /// use thalweg_kafka::{KafkaSource, SchemaRegistry};
    ///
    /// #[derive(Deserialize)]
    /// struct Order {
    ///     customer: i64,
    ///     cents: i64,
    /// }
    ///
    /// let env = Environment::from_args()?;
    /// let orders = SchemaRegistry::new(["http://localhost:8081"]).decoder()?;
    /// env.read(KafkaSource::new("localhost:9092", "orders"))
    ///     .try_map(move |message| message.avro::<Order>(&orders))
    ///     .map(|order| format!("{}: {}", order.customer, order.cents))
    ///     .for_each(|line| println!("{line}"));
    /// env.run()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// If there is none, it is not such a value, or its schema is not known: of the kinds of
    /// [`AvroDecoder::decode`](crate::AvroDecoder::decode), with topic, partition and offset.
    #[cfg(feature = "avro")]
    pub fn avro<T: Deserialize<'a>>(self, decoder: &crate::AvroDecoder) -> Result<T> {
        self.decoded("record", self.present()?, decoder)
    }

    /// Its key, decoded like a [value](Self::avro).
    ///
    /// # Errors
    ///
    /// Those of [`avro`](Self::avro).
    #[cfg(feature = "avro")]
    pub fn avro_key<T: Deserialize<'a>>(self, decoder: &crate::AvroDecoder) -> Result<T> {
        let none = || Error::new(ErrorKind::Input, "the record has no key").at(self.place());
        self.decoded("key", self.key().ok_or_else(none)?, decoder)
    }

    #[cfg(feature = "avro")]
    fn decoded<T: Deserialize<'a>>(
        self,
        what: &str,
        bytes: &'a [u8],
        decoder: &crate::AvroDecoder,
    ) -> Result<T> {
        decoder.decode_of(what, bytes, self.waits).map_err(|error| error.at(self.place()))
    }

    /// An error of kind [`Input`](ErrorKind::Input) with this record's topic, partition and offset, for a closure that
    /// cannot make anything of it.
    pub fn error(
        self,
        what: &str,
        cause: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Error {
        self.refused(what).caused_by(cause)
    }

    /// Where it is from, for messages.
    pub fn place(self) -> Place {
        let partition = format!("{}/{}", self.topic(), self.partition());
        Place::Split(partition, Some(self.offset().to_string()))
    }

    fn refused(self, what: &str) -> Error {
        Error::new(ErrorKind::Input, format!("the record is {what}")).at(self.place())
    }

    fn present(self) -> Result<&'a [u8]> {
        self.payload().ok_or_else(|| self.refused("a tombstone: it has no value"))
    }
}

/// The headers of a record that are left.
enum Headers<'a> {
    Direct(MessageRef<'a>, RawHeaders<'a>),
    Librdkafka(&'a BorrowedMessage<'a>, usize),
}

impl<'a> Iterator for Headers<'a> {
    type Item = (&'a str, Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Direct(message, headers) => {
                let (name, value) = headers.next()?;
                let Ok(name) = str::from_utf8(name) else {
                    panic!("the name of a header is no UTF-8 ({})", message.place())
                };
                Some((name, value))
            }
            Self::Librdkafka(message, at) => {
                let header = message.headers()?.try_get(*at)?;
                *at += 1;
                Some((header.key, header.value))
            }
        }
    }
}

impl fmt::Debug for MessageRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = |bytes: Option<&[u8]>| bytes.map(<[u8]>::len);
        f.debug_struct("MessageRef")
            .field("topic", &self.topic())
            .field("partition", &self.partition())
            .field("offset", &self.offset())
            .field("key_bytes", &length(self.key()))
            .field("payload_bytes", &length(self.payload()))
            .finish()
    }
}
