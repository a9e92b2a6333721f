//! Records that could not be decoded.

use crate::message::MessageRef;
use crate::outgoing::Outgoing;
use std::borrow::Cow;
use std::error::Error as _;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thalweg::time::Timestamp;
use thalweg::{Data, Error, Place};

/// A record that could not be decoded: where it is from, all that it has, and the error. See [`KafkaSource::json`](crate::KafkaSource::json).
///
/// It is a copy, which only bad records cost.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub struct DeadLetter {
    /// The topic that it is from.
    pub topic: String,
    /// The partition that it is from.
    pub partition: i32,
    /// Its offset in the partition.
    pub offset: i64,
    /// When it was created, or appended to the log, as the topic has it.
    pub timestamp: Option<Timestamp>,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// Its value as it is in the topic; `None` if it is a tombstone.
    pub payload: Option<Vec<u8>>,
    /// Its headers, in order; none if the name of one is no UTF-8.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// What is wrong with it, in a kilobyte at most.
    pub error: String,
}

/// In bytes.
const LONGEST_ERROR: usize = 1024;

impl DeadLetter {
    pub(crate) fn new(message: MessageRef<'_>, error: &Error) -> Self {
        let bytes = |bytes: Option<&[u8]>| bytes.map(<[u8]>::to_vec);
        let mut text = error.message().to_owned();
        let mut cause = error.source();
        while let Some(error) = cause {
            text += &format!(": {error}");
            cause = error.source();
        }
        // An error may show the whole record, and a letter has to fit into a topic.
        if text.len() > LONGEST_ERROR {
            text.truncate(text.floor_char_boundary(LONGEST_ERROR));
            text.push('…');
        }
        // The client panics at a name that is no UTF-8.
        let headers = catch_unwind(AssertUnwindSafe(|| {
            message.headers().map(|(name, value)| (name.to_owned(), bytes(value))).collect()
        }));
        let headers = headers.unwrap_or_else(|_| {
            text += "; its headers are left out, as a name is no UTF-8";
            Vec::new()
        });
        Self {
            topic: message.topic().to_owned(),
            partition: message.partition(),
            offset: message.offset(),
            timestamp: message.timestamp(),
            key: bytes(message.key()),
            payload: bytes(message.payload()),
            headers,
            error: text,
        }
    }

    /// Its value as text, empty if it has none; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.payload.as_deref().unwrap_or_default())
    }

    /// Where it is from, for messages.
    pub fn place(&self) -> Place {
        let partition = format!("{}/{}", self.topic, self.partition);
        Place::Split(partition, Some(self.offset.to_string()))
    }

    /// Makes it a record of a topic for dead letters: with its key, value and headers as they are, and with further headers in text:
    /// `thalweg.topic`, `thalweg.partition`, `thalweg.offset`, `thalweg.timestamp` (in milliseconds) and `thalweg.error`. The
    /// record's own timestamp is that at which it is written, so that it is kept for as long as the topic keeps records.
    ///
    /// It is larger than the record was, by up to two kilobytes: see `message.max.bytes` of the sink and `max.message.bytes` of the topic.
    ///
    /// ```
    /// use thalweg_kafka::{DeadLetter, Outgoing};
    ///
    /// let letter = DeadLetter {
    ///     topic: "orders".to_owned(),
    ///     partition: 3,
    ///     offset: 81_274,
    ///     timestamp: None,
    ///     key: Some(b"7".to_vec()),
    ///     payload: Some(b"{".to_vec()),
    ///     headers: Vec::new(),
    ///     error: "the record is not the expected JSON".to_owned(),
    /// };
    /// assert_eq!(letter.to_string(), "orders/3 at 81274: the record is not the expected JSON, in `{`");
    /// letter.fill(&mut Outgoing::default()); // a sink's closure has one
    /// ```
    pub fn fill(&self, record: &mut Outgoing) {
        if let Some(key) = &self.key {
            record.key(key);
        }
        match &self.payload {
            Some(payload) => record.payload(payload),
            None => record.tombstone(),
        };
        for (name, value) in &self.headers {
            record.header(name.as_str(), value.as_deref());
        }
        let mut add = |name: &str, value: &str| _ = record.header(name, Some(value.as_bytes()));
        add("thalweg.topic", &self.topic);
        add("thalweg.partition", &self.partition.to_string());
        add("thalweg.offset", &self.offset.to_string());
        if let Some(at) = self.timestamp {
            add("thalweg.timestamp", &at.as_micros().div_euclid(1000).to_string());
        }
        add("thalweg.error", &self.error);
    }
}

/// The most characters of a value in a message.
const SHOWN: usize = 200;

impl fmt::Display for DeadLetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place(), self.error)?;
        let text = self.text();
        match text.char_indices().nth(SHOWN) {
            _ if self.payload.is_none() => Ok(()),
            Some((end, _)) => write!(f, ", in `{}…`", &text[..end]),
            None => write!(f, ", in `{text}`"),
        }
    }
}
