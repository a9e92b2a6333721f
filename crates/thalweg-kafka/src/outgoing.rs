//! Records as they are written.

use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use serde::Serialize;
use thalweg::time::Timestamp;
use thalweg::{Error, ErrorKind, Result};

/// A record that is to be written. A sink's closure fills it in; it is empty before: without key and headers, its value
/// no bytes, its timestamp the time at which it is sent.
///
/// Its memory is used again for the next one.
#[derive(Debug, Default)]
pub struct Outgoing {
    key: Option<Vec<u8>>,
    payload: Vec<u8>,
    is_tombstone: bool,
    headers: Vec<(String, Option<Vec<u8>>)>,
    millis: Option<i64>,
    partition: Option<i32>,
    /// What the key is made in when there is one.
    spare: Vec<u8>,
}

impl Outgoing {
    /// The key. Records of a key go to one partition, the one that Kafka's own clients choose.
    pub fn key(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        let mut bytes = self.key.take().unwrap_or_else(|| std::mem::take(&mut self.spare));
        bytes.clear();
        bytes.extend_from_slice(key.as_ref());
        self.key = Some(bytes);
        self
    }

    /// The value.
    pub fn payload(&mut self, payload: impl AsRef<[u8]>) -> &mut Self {
        self.payload.clear();
        self.payload.extend_from_slice(payload.as_ref());
        self.is_tombstone = false;
        self
    }

    /// The value, to which bytes may be appended.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        self.is_tombstone = false;
        &mut self.payload
    }

    /// The value, as JSON.
    ///
    /// # Errors
    ///
    /// If it cannot be written as JSON: a map whose keys are no text, for example.
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.payload.clear();
        self.is_tombstone = false;
        serde_json::to_writer(&mut self.payload, value).map_err(|cause| {
            Error::new(ErrorKind::Input, "the record cannot be written as JSON").caused_by(cause)
        })
    }

    /// The value, as Avro, with the id of its schema before it. See [`AvroEncoder`](crate::AvroEncoder).
    ///
    /// ```no_run
    /// use serde::Serialize;
    /// use thalweg::Environment;
    /// use thalweg_kafka::{KafkaSink, SchemaRegistry};
    ///
    /// #[derive(Serialize)]
    /// struct Square {
    ///     number: i64,
    ///     square: i64,
    /// }
    ///
    /// const SCHEMA: &str = r#"{"type": "record", "name": "Square", "fields": [
    ///     {"name": "number", "type": "long"},
    ///     {"name": "square", "type": "long"}]}"#;
    ///
    /// let env = Environment::from_args()?;
    /// let registry = SchemaRegistry::new(["http://localhost:8081"]);
    /// let squares = registry.encoder("squares", SCHEMA)?;
    /// squares.register()?; // so that an incompatible schema is an error before the job starts
    /// env.range(0..100)
    ///     .map(|n| Square { number: n as i64, square: (n * n) as i64 })
    ///     .write(KafkaSink::exactly_once("localhost:9092", "squares", move |square: Square, record| {
    ///         record.avro(&squares, &square)
    ///     }));
    /// env.run()?;
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`AvroEncoder::encode`](crate::AvroEncoder::encode).
    #[cfg(feature = "avro")]
    pub fn avro<T: Serialize + ?Sized>(
        &mut self,
        encoder: &crate::AvroEncoder,
        value: &T,
    ) -> Result<()> {
        self.payload.clear();
        self.is_tombstone = false;
        encoder.encode(value, &mut self.payload)
    }

    /// The key, as Avro, like a [value](Self::avro). Records go to one partition only if their keys' bytes are the same: a
    /// schema of keys that is registered anew, with another id, sends them elsewhere.
    ///
    /// # Errors
    ///
    /// Those of [`avro`](Self::avro).
    #[cfg(feature = "avro")]
    pub fn avro_key<T: Serialize + ?Sized>(
        &mut self,
        encoder: &crate::AvroEncoder,
        key: &T,
    ) -> Result<&mut Self> {
        let mut bytes = self.key.take().unwrap_or_else(|| std::mem::take(&mut self.spare));
        bytes.clear();
        encoder.encode(key, &mut bytes)?;
        self.key = Some(bytes);
        Ok(self)
    }

    /// There is no value for the key any more.
    pub fn tombstone(&mut self) -> &mut Self {
        self.is_tombstone = true;
        self
    }

    /// Adds a header.
    pub fn header(&mut self, name: impl Into<String>, value: Option<&[u8]>) -> &mut Self {
        self.headers.push((name.into(), value.map(<[u8]>::to_vec)));
        self
    }

    /// When it was created. Kafka counts milliseconds, from 1 on: earlier times end the job.
    pub fn timestamp(&mut self, at: Timestamp) -> &mut Self {
        self.millis = Some(at.as_micros().div_euclid(1000));
        self
    }

    /// The partition, in place of the one that follows from the key.
    pub fn partition(&mut self, number: i32) -> &mut Self {
        self.partition = Some(number);
        self
    }

    /// Makes it empty.
    pub(crate) fn clear(&mut self) {
        if let Some(key) = self.key.take() {
            self.spare = key;
        }
        self.payload.clear();
        self.is_tombstone = false;
        self.headers.clear();
        (self.millis, self.partition) = (None, None);
    }

    /// Bytes of key and value.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let payload = if self.is_tombstone { 0 } else { self.payload.len() };
        (self.key.as_ref().map_or(0, Vec::len), payload)
    }

    /// The lengths of its headers: of each the name and the value.
    pub(crate) fn header_lengths(&self) -> impl Iterator<Item = (usize, usize)> {
        let lengths = |(name, value): &(String, Option<Vec<u8>>)| {
            (name.len(), value.as_ref().map_or(0, Vec::len))
        };
        self.headers.iter().map(lengths)
    }

    /// About how many bytes it has in a log.
    pub(crate) fn size(&self) -> usize {
        let headers = self.headers.iter().map(|(name, value)| {
            name.len() + value.as_ref().map_or(0, Vec::len) + OVERHEAD_OF_HEADER
        });
        OVERHEAD
            + self.key.as_ref().map_or(0, Vec::len)
            + self.payload.len()
            + headers.sum::<usize>()
    }

    /// Checks what would be refused later: that it is not too large, and that its partition exists.
    #[inline]
    pub(crate) fn check(&self, topic: &str, limits: Limits) -> Result<()> {
        let is_there = |number: i32| (0..limits.partitions).contains(&number);
        let is_right = self.size() <= limits.bytes
            && (self.key.is_some() || !limits.needs_key)
            && self.millis.is_none_or(|millis| millis > 0)
            && self.partition.is_none_or(is_there);
        if is_right { Ok(()) } else { Err(self.refused(topic, limits)) }
    }

    #[cold]
    fn refused(&self, topic: &str, limits: Limits) -> Error {
        let (size, record) = (self.size(), self.named(topic));
        let why = match (self.millis, self.partition) {
            _ if size > limits.bytes => format!(
                " of {size} bytes is larger than the {} that `message.max.bytes` and the topic allow",
                limits.bytes
            ),
            _ if limits.needs_key && self.key.is_none() => {
                " has no key, and the topic is compacted by keys".to_owned()
            }
            // To brokers and clients, 0 and what is negative stand for other things.
            (Some(millis), _) if millis <= 0 => {
                format!(" has the timestamp {millis} ms, and Kafka's begin at 1")
            }
            _ => format!(
                " cannot be written, as the topic had {} partitions when the job began",
                limits.partitions
            ),
        };
        Error::new(ErrorKind::Input, record + &why)
    }

    /// The record in a message, with the place that it is for.
    fn named(&self, topic: &str) -> String {
        named(topic, self.partition, self.key.as_deref())
    }

    /// Its partition, if it does not follow from the key, and its key.
    pub(crate) fn place(&self) -> (Option<i32>, Option<&[u8]>) {
        (self.partition, self.key.as_deref())
    }

    /// As the client has it.
    pub(crate) fn as_record<'a, D: rdkafka::util::IntoOpaque>(
        &'a self,
        topic: &'a str,
        opaque: D,
    ) -> BaseRecord<'a, [u8], [u8], D> {
        let mut record = BaseRecord::with_opaque_to(topic, opaque);
        if let Some(key) = &self.key {
            record = record.key(key.as_slice());
        }
        if !self.is_tombstone {
            record = record.payload(self.payload.as_slice());
        }
        if let Some(millis) = self.millis {
            record = record.timestamp(millis);
        }
        if let Some(partition) = self.partition {
            record = record.partition(partition);
        }
        if !self.headers.is_empty() {
            let headers = OwnedHeaders::new_with_capacity(self.headers.len());
            let add = |headers: OwnedHeaders, (key, value): &'a (String, Option<Vec<u8>>)| {
                headers.insert(Header { key, value: value.as_deref() })
            };
            record = record.headers(self.headers.iter().fold(headers, add));
        }
        record
    }

    /// Appends it to what a checkpoint keeps.
    pub(crate) fn save(&self, out: &mut Vec<u8>) {
        bytes(self.key.as_deref(), out);
        bytes((!self.is_tombstone).then_some(&*self.payload), out);
        number(self.millis, out);
        number(self.partition.map(i64::from), out);
        out.extend_from_slice(&(self.headers.len() as u32).to_le_bytes());
        for (name, value) in &self.headers {
            bytes(Some(name.as_bytes()), out);
            bytes(value.as_deref(), out);
        }
    }

    /// Reads one that was saved; the memory is used again.
    pub(crate) fn load(&mut self, input: &mut &[u8]) -> Result<()> {
        self.clear();
        self.load_from(input).ok_or_else(|| {
            Error::new(ErrorKind::Internal, "what was saved of a transaction is no records")
        })
    }

    fn load_from(&mut self, input: &mut &[u8]) -> Option<()> {
        if let Some(key) = load_bytes(input)? {
            self.key(key);
        }
        match load_bytes(input)? {
            Some(payload) => self.payload(payload),
            None => self.tombstone(),
        };
        self.millis = load_number(input)?;
        self.partition = load_number(input)?.map(|number| number as i32);
        for _ in 0..u32::from_le_bytes(*take(input)?) {
            let name = std::str::from_utf8(load_bytes(input)??).ok()?;
            let value = load_bytes(input)?;
            self.header(name, value);
        }
        Some(())
    }
}

/// A record in a message: `a record for orders/3 with the key 17`, without a key that is long.
pub(crate) fn named(topic: &str, partition: Option<i32>, key: Option<&[u8]>) -> String {
    const SHORT: usize = 40;
    let place = match partition {
        Some(number) => format!("{topic}/{number}"),
        None => topic.to_owned(),
    };
    let Some(key) = key.filter(|key| key.len() <= SHORT) else {
        return format!("a record for {place}");
    };
    let text = str::from_utf8(key).ok().filter(|text| !text.contains(char::is_control));
    let key = text.map_or_else(|| key.escape_ascii().to_string(), str::to_owned);
    format!("a record for {place} with the key `{key}`")
}

/// What a record has in a log beside its bytes, at most.
const OVERHEAD: usize = 70;
const OVERHEAD_OF_HEADER: usize = 10;

/// What brokers accept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) bytes: usize,
    pub(crate) partitions: i32,
    /// Whether the topic is compacted.
    pub(crate) needs_key: bool,
}

/// Stands for no bytes.
const NONE: u32 = u32::MAX;

fn bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    let length = bytes.map_or(NONE, |bytes| bytes.len() as u32);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(bytes.unwrap_or_default());
}

fn number(number: Option<i64>, out: &mut Vec<u8>) {
    out.push(u8::from(number.is_some()));
    out.extend_from_slice(&number.unwrap_or_default().to_le_bytes());
}

fn take<'a, const N: usize>(input: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (first, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(first)
}

fn load_bytes<'a>(input: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    match u32::from_le_bytes(*take(input)?) {
        NONE => Some(None),
        length => {
            let (bytes, rest) = input.split_at_checked(length as usize)?;
            *input = rest;
            Some(Some(bytes))
        }
    }
}

fn load_number(input: &mut &[u8]) -> Option<Option<i64>> {
    let [is_some] = *take(input)?;
    let number = i64::from_le_bytes(*take(input)?);
    Some((is_some != 0).then_some(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved(fill: impl FnOnce(&mut Outgoing)) -> Vec<u8> {
        let (mut record, mut out) = (Outgoing::default(), Vec::new());
        fill(&mut record);
        record.save(&mut out);
        out
    }

    #[test]
    fn records_are_as_they_were_saved() {
        let mut all = saved(|record| {
            record.key("a").payload([1, 2]).header("x", None).header("y", Some(&[]));
            record.timestamp(Timestamp::from_micros(-1)).partition(3);
        });
        all.extend(saved(|record| _ = record.key("").tombstone()));
        all.extend(saved(|_| ()));
        let (mut record, mut input) = (Outgoing::default(), &all[..]);
        record.load(&mut input).unwrap();
        assert_eq!(record.key.as_deref(), Some(&b"a"[..]));
        assert_eq!((&record.payload[..], record.is_tombstone), (&[1, 2][..], false));
        assert_eq!((record.millis, record.partition), (Some(-1), Some(3)));
        assert_eq!(record.headers, [("x".to_owned(), None), ("y".to_owned(), Some(Vec::new()))]);
        record.load(&mut input).unwrap();
        assert_eq!((record.key.as_deref(), record.is_tombstone), (Some(&[][..]), true));
        assert!(record.headers.is_empty() && record.millis.is_none());
        record.load(&mut input).unwrap();
        assert_eq!((&record.key, record.is_tombstone, record.payload.len()), (&None, false, 0));
        assert!(input.is_empty());
    }

    #[test]
    fn what_was_cut_off_is_no_record() {
        let whole =
            saved(|record| _ = record.key("key").payload("value").header("name", Some(b"v")));
        for length in 0..whole.len() {
            let error = Outgoing::default().load(&mut &whole[..length]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Internal, "{length}");
        }
    }

    #[test]
    fn too_large_records_and_partitions_that_are_not_there_are_refused() {
        let limits = Limits { bytes: 100, partitions: 2, needs_key: false };
        let mut record = Outgoing::default();
        let refused = |record: &Outgoing, limits| {
            let error = record.check("orders", limits).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Input);
            error.message().to_owned()
        };
        assert!(record.payload([0; 30]).partition(1).check("orders", limits).is_ok());
        for number in [2, -1] {
            let what = format!(
                "a record for orders/{number} cannot be written, as the topic had 2 partitions when the job began"
            );
            assert_eq!(refused(record.partition(number), limits), what);
        }
        record.clear();
        assert!(record.key("k").payload([0; 29]).check("orders", limits).is_ok());
        assert_eq!(
            refused(record.payload([0; 30]), limits),
            "a record for orders with the key `k` of 101 bytes is larger than the 100 that `message.max.bytes` and the topic \
             allow"
        );
        record.clear();
        let compacted = Limits { needs_key: true, ..limits };
        let what = "a record for orders/1 has no key, and the topic is compacted by keys";
        assert_eq!(refused(record.partition(1), compacted), what);
        assert!(record.key("").check("orders", compacted).is_ok());
        let what =
            "a record for orders/1 with the key `` has the timestamp 0 ms, and Kafka's begin at 1";
        assert_eq!(refused(record.timestamp(Timestamp::from_micros(999)), limits), what);
        assert!(record.timestamp(Timestamp::from_micros(1_000)).check("orders", limits).is_ok());
    }

    #[test]
    fn records_are_named_by_their_place_and_a_short_key() {
        assert_eq!(named("orders", None, Some(b"k\n")), r"a record for orders with the key `k\n`");
        assert_eq!(
            named("orders", Some(3), Some(&[0xff])),
            r"a record for orders/3 with the key `\xff`"
        );
        assert_eq!(named("orders", Some(3), Some(&[b'a'; 41])), "a record for orders/3");
        assert_eq!(named("orders", None, None), "a record for orders");
    }
}
