//! Frames of Kafka's protocol: a few requests, each in one version, and their answers. Pure.
//!
//! The versions are those that brokers from 3.0 to 4.x have in common, and of these the ones without tags where there is one.
//! Answers are decoded by what they have, never by what they say that they have.

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Api {
    pub(super) name: &'static str,
    pub(super) key: i16,
    pub(super) version: i16,
    /// Whether headers and bodies have tags, and compact lengths.
    is_flexible: bool,
}

const fn api(name: &'static str, key: i16, version: i16, is_flexible: bool) -> Api {
    Api { name, key, version, is_flexible }
}

pub(super) const API_VERSIONS: Api = api("ApiVersions", 18, 0, false);
pub(super) const SASL_HANDSHAKE: Api = api("SaslHandshake", 17, 1, false);
pub(super) const SASL_AUTHENTICATE: Api = api("SaslAuthenticate", 36, 1, false);
pub(super) const FIND_COORDINATOR: Api = api("FindCoordinator", 10, 2, false);
/// From version 5 the epoch grows with each transaction, which clients of librdkafka do not know.
pub(super) const END_TXN: Api = api("EndTxn", 26, 2, false);
pub(super) const DESCRIBE_TRANSACTIONS: Api = api("DescribeTransactions", 65, 0, true);
pub(super) const INIT_PRODUCER_ID: Api = api("InitProducerId", 22, 1, false);
/// The first version whose answer has ids of topics, of brokers from 2.8.
pub(super) const METADATA: Api = api("Metadata", 3, 10, true);
/// The first version that says where logs were cut off, of brokers from 2.7; topics have names.
pub(super) const FETCH: Api = api("Fetch", 1, 12, true);
/// Topics have ids, of brokers from 3.1.
pub(super) const FETCH_BY_ID: Api = api("Fetch", 1, 13, true);

/// Of what Kafka 4 still takes, the first one.
pub(super) const DESCRIBE_CONFIGS: Api = api("DescribeConfigs", 32, 1, false);

/// The longest answer that is read. One about a transaction has four bytes for each of its partitions.
pub(super) const LONGEST: usize = 16 << 20;

/// A request with its length and header. The client calls itself by a name of at most 32,767 bytes.
pub(super) fn request(api: Api, number: i32, client: &str, body: &[u8]) -> Vec<u8> {
    let header = [&api.key.to_be_bytes()[..], &api.version.to_be_bytes(), &number.to_be_bytes()];
    let tags: &[u8] = if api.is_flexible { &[0] } else { &[] };
    let rest = [&header.concat()[..], &text(client), tags, body].concat();
    [&(rest.len() as i32).to_be_bytes()[..], &rest].concat()
}

/// A text of at most 32,767 bytes, which callers have checked.
fn text(text: &str) -> Vec<u8> {
    [&(text.len() as i16).to_be_bytes()[..], text.as_bytes()].concat()
}

pub(super) fn varint(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

pub(super) fn sasl_handshake(mechanism: &str) -> Vec<u8> {
    text(mechanism)
}

pub(super) fn sasl_authenticate(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as i32).to_be_bytes()[..], bytes].concat()
}

pub(super) fn find_coordinator(name: &str) -> Vec<u8> {
    const OF_TRANSACTIONS: u8 = 1;
    [&text(name)[..], &[OF_TRANSACTIONS]].concat()
}

pub(super) fn commit(name: &str, id: i64, epoch: i16) -> Vec<u8> {
    const COMMITTED: u8 = 1;
    [&text(name)[..], &id.to_be_bytes(), &epoch.to_be_bytes(), &[COMMITTED]].concat()
}

pub(super) fn describe_transactions(name: &str) -> Vec<u8> {
    // An array of one: compact lengths are one more.
    let mut body = vec![2];
    varint(name.len() as u32 + 1, &mut body);
    body.extend(name.as_bytes());
    body.push(0);
    body
}

/// Begins with a transactional id, for transactions that may be open for a second: there will be none.
pub(super) fn init_producer_id(name: &str) -> Vec<u8> {
    [&text(name)[..], &1_000i32.to_be_bytes()].concat()
}

/// A request for topics, by names of at most 32,767 bytes.
pub(super) fn metadata<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> Vec<u8> {
    let mut body = Vec::new();
    varint(names.len() as u32 + 1, &mut body);
    for name in names {
        // Without an id.
        body.extend([0; 16]);
        varint(name.len() as u32 + 1, &mut body);
        body.extend(name.as_bytes());
        body.push(0);
    }
    // Topics are not made by this, and no rights are listed.
    body.extend([0; 4]);
    body
}

/// A request for settings of a topic, all of names of at most 32,767 bytes.
pub(super) fn describe_configs(topic: &str, settings: &[&str]) -> Vec<u8> {
    const OF_A_TOPIC: u8 = 2;
    let one = 1i32.to_be_bytes();
    let count = (settings.len() as i32).to_be_bytes();
    let mut body = [&one[..], &[OF_A_TOPIC], &text(topic), &count].concat();
    settings.iter().for_each(|name| body.extend(text(name)));
    // Without synonyms.
    body.push(0);
    body
}

/// An answer that is not one of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Torn;

type Result<T> = std::result::Result<T, Torn>;

/// What is left of an answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer<'a>(&'a [u8]);

/// The versions of a kind of request that a broker takes: its key, the first and the last.
pub(super) type Versions = (i16, i16, i16);

/// Where a coordinator is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) code: i16,
    pub(super) host: String,
    pub(super) port: i32,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) code: i16,
    pub(super) name: String,
    pub(super) state: String,
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// What a broker knows of the cluster.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Metadata {
    /// Their numbers, hosts and ports.
    pub(super) brokers: Vec<(i32, String, u16)>,
    pub(super) topics: Vec<Topic>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Topic {
    pub(super) code: i16,
    pub(super) name: String,
    /// Zeros from brokers that do not know it.
    pub(super) id: [u8; 16],
    /// By the numbers of partitions.
    pub(super) leaders: Vec<(i32, Leader)>,
}

/// The broker that has a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    /// Negative if there is none for now.
    pub(crate) node: i32,
    /// Grows with each change of the leader.
    pub(crate) epoch: i32,
}

/// The code of an error, its message, and settings by their names; empty ones may have no value.
pub(super) type Described = (i16, String, Vec<(String, String)>);

/// What a broker says to a step of a login.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Authenticated {
    pub(super) code: i16,
    pub(super) message: String,
    pub(super) bytes: Vec<u8>,
    /// How long the login holds, in milliseconds; 0 if without an end.
    pub(super) lifetime: i64,
}

impl<'a> Answer<'a> {
    /// An answer to the request with this number.
    pub(super) fn open(api: Api, number: i32, bytes: &'a [u8]) -> Result<Self> {
        let mut answer = Self(bytes);
        if answer.i32()? != number {
            return Err(Torn);
        }
        if api.is_flexible {
            answer.tags()?;
        }
        Ok(answer)
    }

    /// The code of an error, and the versions.
    pub(super) fn api_versions(mut self) -> Result<(i16, Vec<Versions>)> {
        let code = self.i16()?;
        let mut all = Vec::new();
        for _ in 0..self.count()? {
            all.push((self.i16()?, self.i16()?, self.i16()?));
        }
        self.end((code, all))
    }

    /// The code of an error, and the mechanisms that there are.
    pub(super) fn sasl_handshake(mut self) -> Result<(i16, Vec<String>)> {
        let code = self.i16()?;
        let mut all = Vec::new();
        for _ in 0..self.count()? {
            all.push(self.text()?);
        }
        self.end((code, all))
    }

    pub(super) fn sasl_authenticate(mut self) -> Result<Authenticated> {
        let (code, message) = (self.i16()?, self.text()?);
        let length = self.count()?;
        let bytes = self.bytes(length)?.to_vec();
        let lifetime = self.i64()?;
        self.end(Authenticated { code, message, bytes, lifetime })
    }

    pub(super) fn find_coordinator(mut self) -> Result<Found> {
        let _throttled = self.i32()?;
        let code = self.i16()?;
        let (_message, _node) = (self.text()?, self.i32()?);
        let found = Found { code, host: self.text()?, port: self.i32()? };
        self.end(found)
    }

    /// The settings of the only topic that was described.
    pub(super) fn describe_configs(mut self) -> Result<Described> {
        let _throttled = self.i32()?;
        if self.count()? != 1 {
            return Err(Torn);
        }
        let (code, message) = (self.i16()?, self.text()?);
        let ([_kind], _topic) = (self.array()?, self.text()?);
        let mut settings = Vec::new();
        for _ in 0..self.count()? {
            settings.push((self.text()?, self.text()?));
            let [_is_read_only, _source, _is_sensitive] = self.array()?;
            for _ in 0..self.count()? {
                let _synonym = (self.text()?, self.text()?);
                let [_source] = self.array()?;
            }
        }
        self.end((code, message, settings))
    }

    /// The code of an error.
    pub(super) fn end_txn(mut self) -> Result<i16> {
        let _throttled = self.i32()?;
        let code = self.i16()?;
        self.end(code)
    }

    /// The code of an error.
    pub(super) fn init_producer_id(mut self) -> Result<i16> {
        let _throttled = self.i32()?;
        let code = self.i16()?;
        let (_id, _epoch) = (self.i64()?, self.i16()?);
        self.end(code)
    }

    /// The only transaction that was described.
    pub(super) fn describe_transactions(mut self) -> Result<Transaction> {
        let _throttled = self.i32()?;
        if self.compact_count()? != 1 {
            return Err(Torn);
        }
        let code = self.i16()?;
        let (name, state) = (self.compact_text()?, self.compact_text()?);
        let (_timeout, _start) = (self.i32()?, self.i64()?);
        let (id, epoch) = (self.i64()?, self.i16()?);
        for _ in 0..self.compact_count()? {
            let _topic = self.compact_text()?;
            for _ in 0..self.compact_count()? {
                let _partition = self.i32()?;
            }
            self.tags()?;
        }
        self.tags()?;
        self.tags()?;
        self.end(Transaction { code, name, state, id, epoch })
    }

    /// The brokers, and the topics that were asked for.
    pub(super) fn metadata(mut self) -> Result<Metadata> {
        let _throttled = self.i32()?;
        let mut brokers = Vec::new();
        for _ in 0..self.compact_count()? {
            let (node, host, port) = (self.i32()?, self.compact_text()?, self.i32()?);
            let _rack = self.compact_text_or_none()?;
            self.tags()?;
            brokers.push((node, host, u16::try_from(port).map_err(|_| Torn)?));
        }
        let (_cluster, _controller) = (self.compact_text_or_none()?, self.i32()?);
        let mut topics = Vec::new();
        for _ in 0..self.compact_count()? {
            let (code, name, id) = (self.i16()?, self.compact_text()?, self.array()?);
            let [_is_internal] = self.array()?;
            let mut leaders = Vec::new();
            for _ in 0..self.compact_count()? {
                let _code = self.i16()?;
                let (number, node, epoch) = (self.i32()?, self.i32()?, self.i32()?);
                leaders.push((number, Leader { node, epoch }));
                // Replicas, those in sync, and those that are not there.
                for _ in 0..3 {
                    for _ in 0..self.compact_count()? {
                        let _node = self.i32()?;
                    }
                }
                self.tags()?;
            }
            let _operations = self.i32()?;
            self.tags()?;
            topics.push(Topic { code, name, id, leaders });
        }
        let _operations = self.i32()?;
        self.tags()?;
        // librdkafka's imitation of a broker sends tags twice.
        if self.0 == [0] {
            self.0 = &[];
        }
        self.end(Metadata { brokers, topics })
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Torn)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Torn)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn i16(&mut self) -> Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn count(&mut self) -> Result<usize> {
        usize::try_from(self.i32()?).map_err(|_| Torn)
    }

    /// A text, empty if there is none.
    fn text(&mut self) -> Result<String> {
        match self.i16()? {
            -1 => Ok(String::new()),
            length => self.string(usize::try_from(length).map_err(|_| Torn)?),
        }
    }

    fn string(&mut self, length: usize) -> Result<String> {
        let text = str::from_utf8(self.bytes(length)?).map_err(|_| Torn)?;
        Ok(text.to_owned())
    }

    fn varint(&mut self) -> Result<u32> {
        let mut number = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| Torn);
            }
        }
        Err(Torn)
    }

    fn compact_count(&mut self) -> Result<usize> {
        Ok(self.varint()?.checked_sub(1).ok_or(Torn)? as usize)
    }

    fn compact_text(&mut self) -> Result<String> {
        let length = self.compact_count()?;
        self.string(length)
    }

    /// A text, empty if there is none.
    fn compact_text_or_none(&mut self) -> Result<String> {
        match self.varint()? {
            0 => Ok(String::new()),
            length => self.string(length as usize - 1),
        }
    }

    /// Passes over tags, none of which is needed.
    fn tags(&mut self) -> Result<()> {
        for _ in 0..self.varint()? {
            let _tag = self.varint()?;
            let length = self.varint()? as usize;
            self.bytes(length)?;
        }
        Ok(())
    }

    /// What was decoded, if that is all there is.
    fn end<T>(self, decoded: T) -> Result<T> {
        if self.0.is_empty() { Ok(decoded) } else { Err(Torn) }
    }
}
