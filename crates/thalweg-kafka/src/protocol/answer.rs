//! Requests for records, and their answers, which are decoded while they come: records go to the memory that they stay in.

use super::batches::Aborted;
use super::topics::TopicId;
use super::wire::{self, Api, Leader};
use std::io::{self, Read};
use std::sync::Arc;
use std::time::Duration;

/// What is asked of a broker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How long the broker may wait for so many bytes at least.
    pub(crate) wait: Duration,
    pub(crate) least: i32,
    /// The bytes of an answer at most, but for a first batch that is longer.
    pub(crate) most: i32,
    /// Whether records come only when they are committed.
    pub(crate) are_committed: bool,
}

/// A partition that records are asked for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) topic: Arc<str>,
    pub(crate) id: Option<TopicId>,
    pub(crate) number: i32,
    pub(crate) leader: Leader,
    pub(crate) from: i64,
    /// Of the leader that has appended the record before, negative if it is not known. With it the broker looks whether it has that
    /// record.
    pub(crate) epoch: i32,
    /// The bytes at most, but for a first batch that is longer.
    pub(crate) most: i32,
}

/// What a broker says of a partition.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// Of an error, 0 if there is none.
    pub(crate) code: i16,
    /// The offset behind the last record, of those that are committed if only those are wanted.
    pub(crate) end: i64,
    pub(crate) diverges: Option<Diverging>,
    pub(crate) aborted: Vec<Aborted>,
    /// The replica that the partition is to be read from instead, if the broker wants that: it sends no records then.
    pub(crate) replica: Option<i32>,
    /// How many bytes of the buffer are records.
    pub(crate) length: usize,
}

/// A broker's log that goes on otherwise than the one that the record before was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Diverging {
    /// The greatest epoch of a leader that the log has, up to that of the record.
    pub(crate) epoch: i32,
    /// The offset behind what leaders until then have appended to it.
    pub(crate) end: i64,
}

/// What a broker says of a whole request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Of an error, 0 if there is none.
    pub(crate) code: i16,
    /// How long the client is not to ask again, as it has used up its quota.
    pub(crate) throttled: Duration,
}

/// How topics are named to a broker: by their ids, if it takes that and all are known.
pub(super) fn api(takes_ids: bool, wanted: &[Wanted]) -> Api {
    let has_ids = takes_ids && wanted.iter().all(|wanted| wanted.id.is_some());
    if has_ids { wire::FETCH_BY_ID } else { wire::FETCH }
}

/// A request, without its header. Partitions of a topic that follow one another are together.
pub(super) fn request(api: Api, limits: &Limits, wanted: &[Wanted]) -> Vec<u8> {
    const CONSUMER: i32 = -1;
    /// Each request names all partitions.
    const NO_SESSION: (i32, i32) = (0, -1);
    let mut body = CONSUMER.to_be_bytes().to_vec();
    body.extend((limits.wait.as_millis() as i32).to_be_bytes());
    body.extend([limits.least, limits.most].map(i32::to_be_bytes).concat());
    body.push(u8::from(limits.are_committed));
    body.extend([NO_SESSION.0, NO_SESSION.1].map(i32::to_be_bytes).concat());
    let topics = || wanted.chunk_by(|one, next| one.topic == next.topic);
    // Compact lengths are one more.
    let count = |count: usize, body: &mut Vec<u8>| wire::varint(count as u32 + 1, body);
    count(topics().count(), &mut body);
    for partitions in topics() {
        let topic = &partitions[0];
        match topic.id {
            Some(id) if api == wire::FETCH_BY_ID => body.extend(id.bytes()),
            _ => {
                count(topic.topic.len(), &mut body);
                body.extend(topic.topic.as_bytes());
            }
        }
        count(partitions.len(), &mut body);
        for wanted in partitions {
            /// What followers say of themselves.
            const NO_START: i64 = -1;
            body.extend([wanted.number, wanted.leader.epoch].map(i32::to_be_bytes).concat());
            body.extend(wanted.from.to_be_bytes());
            body.extend(wanted.epoch.to_be_bytes());
            body.extend(NO_START.to_be_bytes());
            body.extend(wanted.most.to_be_bytes());
            body.push(0);
        }
        body.push(0);
    }
    // Neither forgotten topics nor a rack, and no tags.
    body.extend([1, 1, 0]);
    body
}

/// An answer that is on its way.
pub(super) struct Coming<'a> {
    bytes: io::BufReader<io::Take<&'a mut dyn Read>>,
}

impl<'a> Coming<'a> {
    /// One of so many bytes.
    pub(super) fn new(stream: &'a mut dyn Read, length: usize) -> Self {
        Self { bytes: io::BufReader::with_capacity(16 << 10, stream.take(length as u64)) }
    }

    /// How many bytes are still to come.
    fn left(&self) -> usize {
        self.bytes.buffer().len() + self.bytes.get_ref().limit() as usize
    }

    /// Decodes an answer to the request with this number. `buffer` has the memory for the records of a wanted partition, by its
    /// index, and `take` gets it back with what was said of the partition.
    pub(super) fn decode(
        mut self,
        api: Api,
        number: i32,
        (limits, wanted): (&Limits, &[Wanted]),
        mut buffer: impl FnMut(usize) -> Vec<u8>,
        mut take: impl FnMut(usize, Answered, Vec<u8>),
    ) -> io::Result<Whole> {
        if self.i32()? != number {
            return Err(torn());
        }
        self.tags()?;
        let throttled = Duration::from_millis(u64::try_from(self.i32()?).unwrap_or(0));
        let (code, _session) = (self.i16()?, self.i32()?);
        let mut index = 0;
        for _ in 0..self.compact_count()? {
            let topic = self.topic(api)?;
            for _ in 0..self.compact_count()? {
                let partition = self.i32()?;
                // They come in the order of the request.
                let is_it = |wanted: &Wanted| topic.is_of(wanted) && wanted.number == partition;
                let all = (index..wanted.len()).chain(0..index);
                let found = all.into_iter().find(|index| is_it(&wanted[*index]));
                let at = found.ok_or_else(torn)?;
                index = (at + 1) % wanted.len();
                let mut memory = buffer(at);
                let answered = self.partition(limits, &mut memory)?;
                take(at, answered, memory);
            }
            self.tags()?;
        }
        self.tags()?;
        if self.left() == 0 { Ok(Whole { code, throttled }) } else { Err(torn()) }
    }

    fn topic(&mut self, api: Api) -> io::Result<Named> {
        if api == wire::FETCH_BY_ID {
            return Ok(Named::Id(self.array()?));
        }
        let length = self.compact_count()?;
        Ok(Named::Name(self.vec(length)?))
    }

    fn partition(&mut self, limits: &Limits, memory: &mut Vec<u8>) -> io::Result<Answered> {
        let mut answered = Answered { code: self.i16()?, ..Answered::default() };
        let (end, committed_end, _start) = (self.i64()?, self.i64()?, self.i64()?);
        // Brokers that do not know the one say -1.
        let is_known = limits.are_committed && committed_end >= 0;
        answered.end = if is_known { committed_end } else { end };
        // A length of 0 is no list, and one of 1 an empty one.
        for _ in 0..self.varint()?.saturating_sub(1) {
            answered.aborted.push(Aborted { producer: self.i64()?, first: self.i64()? });
            self.tags()?;
        }
        answered.aborted.sort_by_key(|aborted| aborted.first);
        answered.replica = Some(self.i32()?).filter(|replica| *replica >= 0);
        answered.length = self.varint()?.saturating_sub(1) as usize;
        if answered.length > self.left() {
            return Err(torn());
        }
        if memory.len() < answered.length {
            // Not more, so that it can be kept: see `Queue`.
            memory.reserve_exact(answered.length - memory.len());
            memory.resize(answered.length, 0);
        }
        self.bytes.read_exact(&mut memory[..answered.length])?;
        for _ in 0..self.varint()? {
            const DIVERGES: u32 = 0;
            let (tag, length) = (self.varint()?, self.varint()? as usize);
            let content = self.vec(length)?;
            // An epoch, and its end.
            if tag == DIVERGES && length >= 12 {
                let epoch = content[..4].try_into().expect("it is as long");
                let end = content[4..12].try_into().expect("it is as long");
                let (epoch, end) = (i32::from_be_bytes(epoch), i64::from_be_bytes(end));
                answered.diverges = Some(Diverging { epoch, end });
            }
        }
        Ok(answered)
    }

    fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.bytes.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn i16(&mut self) -> io::Result<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> io::Result<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> io::Result<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn varint(&mut self) -> io::Result<u32> {
        let mut number = 0u64;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| torn());
            }
        }
        Err(torn())
    }

    fn compact_count(&mut self) -> io::Result<usize> {
        Ok(self.varint()?.checked_sub(1).ok_or_else(torn)? as usize)
    }

    fn vec(&mut self, length: usize) -> io::Result<Vec<u8>> {
        if length > self.left() {
            return Err(torn());
        }
        let mut bytes = vec![0; length];
        self.bytes.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn tags(&mut self) -> io::Result<()> {
        for _ in 0..self.varint()? {
            let (_tag, length) = (self.varint()?, self.varint()? as usize);
            self.vec(length)?;
        }
        Ok(())
    }
}

/// What an answer calls a topic.
enum Named {
    Name(Vec<u8>),
    Id([u8; 16]),
}

impl Named {
    fn is_of(&self, wanted: &Wanted) -> bool {
        match self {
            Self::Name(name) => wanted.topic.as_bytes() == name,
            Self::Id(id) => wanted.id.is_some_and(|wanted| wanted.bytes() == *id),
        }
    }
}

fn torn() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
