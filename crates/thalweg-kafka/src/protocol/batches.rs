//! Batches of records, as brokers have them on their disks and send them: decoded where they lie, but for those that are compressed.
//! Pure.

use super::compression::{Compression, Unpacked};

/// How long what is before a batch's records is.
const HEAD: usize = 61;
/// The offset, and the length of what is behind them.
const BEFORE_LENGTH: usize = 12;
const AT_MAGIC: usize = 16;
/// Where that begins which has the checksum.
const AT_SUMMED: usize = 21;
/// The version that there is since Kafka 0.11.
const MAGIC: u8 = 2;

/// What is wrong with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It is no batch: what it has is not as long as it says, or not in order.
    Torn,
    /// It has another checksum than it says.
    Sum,
    /// It is of a version before Kafka 0.11.
    Old,
    /// It is compressed in a way that is not known.
    Compression(u8),
    /// It cannot be decompressed.
    Packed,
}

type Result<T> = std::result::Result<T, Wrong>;

/// A transaction that was aborted: its producer, and the offset of its first record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer: i64,
    pub(crate) first: i64,
}

/// How far whole batches reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// In bytes.
    pub(crate) length: usize,
    /// The offset behind the last batch, and the epoch of the leader that has appended it, if there is one.
    pub(crate) last: Option<(i64, i32)>,
}

/// Looks how far whole batches reach, whose offsets grow. The first ones may be before the offset that was asked for, and the last one may
/// be cut off.
pub(crate) fn extent(bytes: &[u8], from: i64) -> Result<Extent> {
    let mut extent = Extent { length: 0, last: None };
    let mut next = from;
    while let Some(head) = Head::at(&bytes[extent.length..])? {
        extent.length += head.length;
        if head.last >= next {
            next = head.last.checked_add(1).ok_or(Wrong::Torn)?;
            extent.last = Some((next, head.epoch));
        } else if extent.last.is_some() {
            return Err(Wrong::Torn);
        }
    }
    Ok(extent)
}

/// The first offset of the first whole batch that ends at this offset or behind it, and the epoch of the leader that has appended it.
pub(crate) fn batch_at(bytes: &[u8], offset: i64) -> Result<Option<(i64, i32)>> {
    let mut at = 0;
    while let Some(head) = Head::at(&bytes[at..])? {
        if head.last >= offset {
            return Ok(Some((head.first, head.epoch)));
        }
        at += head.length;
    }
    Ok(None)
}

/// What is before the records of a batch.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Of the whole batch, in bytes.
    length: usize,
    first: i64,
    last: i64,
    epoch: i32,
}

impl Head {
    /// That of the batch that begins here; `None` if it is not whole.
    fn at(bytes: &[u8]) -> Result<Option<Self>> {
        if bytes.len() <= AT_MAGIC {
            return Ok(None);
        }
        if bytes[AT_MAGIC] < MAGIC {
            return Err(Wrong::Old);
        }
        if bytes[AT_MAGIC] > MAGIC {
            return Err(Wrong::Torn);
        }
        let length = i32::from_be_bytes(array(bytes, 8));
        let length = usize::try_from(length).map_err(|_| Wrong::Torn)? + BEFORE_LENGTH;
        if length < HEAD {
            return Err(Wrong::Torn);
        }
        if bytes.len() < length {
            return Ok(None);
        }
        let first = i64::from_be_bytes(array(bytes, 0));
        let delta = i32::from_be_bytes(array(bytes, 23));
        let last = first.checked_add(i64::from(delta)).filter(|_| first >= 0 && delta >= 0);
        let last = last.ok_or(Wrong::Torn)?;
        Ok(Some(Self { length, first, last, epoch: i32::from_be_bytes(array(bytes, 12)) }))
    }
}

/// Bytes that are known to be there.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("it is as long")
}

/// What was fetched of a partition: whole batches.
#[derive(Debug, Default)]
pub(crate) struct Fetched {
    /// The batches, and what is left of the buffer.
    pub(crate) buffer: Vec<u8>,
    pub(crate) length: usize,
    /// In the order of their offsets.
    pub(crate) aborted: Vec<Aborted>,
}

/// A record of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawRecord<'a> {
    pub(crate) offset: i64,
    /// Negative if it is of before Kafka had timestamps.
    pub(crate) millis: i64,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) headers: RawHeaders<'a>,
}

/// The headers of a record, which are known to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RawHeaders<'a> {
    rest: &'a [u8],
    count: u32,
}

/// Reads the records of what was fetched, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    fetched: Fetched,
    /// Where the next batch begins.
    at: usize,
    batch: Batch,
    /// The offset behind the batches before it, and the epoch of the leader that has appended the last of them, if it is known.
    before: (i64, Option<i32>),
    /// The records of the open batch, if they were compressed.
    unpacked: Unpacked,
    /// How many of the aborted transactions begin before the open batch's end, and the producers of those that have not ended.
    begun: usize,
    aborted: Vec<i64>,
}

/// The batch that is open.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    first: i64,
    /// The offset behind it.
    next: i64,
    /// Of the leader that has appended it, if it is known.
    epoch: Option<i32>,
    first_millis: i64,
    /// When the batch was appended, where that is what the timestamps of records are.
    appended: Option<i64>,
    /// Where its next record begins, and its first one does; where its last one ends.
    at: usize,
    begin: usize,
    end: usize,
    /// Records that were not read, and all.
    left: u32,
    count: u32,
    is_unpacked: bool,
}

impl Batches {
    /// Begins at an offset. A leader of this epoch has appended what is before it, if that is known.
    pub(crate) fn begin_at(offset: i64, epoch: Option<i32>) -> Self {
        Self { before: (offset, epoch), ..Self::default() }
    }

    /// The epoch of the leader that has appended what is before the next offset to read, if it is known.
    pub(crate) fn epoch_before(&self, next: i64) -> Option<i32> {
        let is_in_batch = self.batch.first < next && next <= self.batch.next;
        if is_in_batch { self.batch.epoch } else { self.before.1 }
    }

    /// Puts another batch in the place of the open one.
    fn go_on_with(&mut self, batch: Batch) {
        // One that ends before the offset that was begun at does not count.
        if self.batch.next >= self.before.0 {
            self.before = (self.batch.next, self.batch.epoch);
        }
        self.batch = batch;
    }

    /// Goes on with what was fetched next; returns what was read.
    pub(crate) fn replace(&mut self, fetched: Fetched) -> Fetched {
        if fetched.length == 0 {
            self.unpacked.shrink();
        }
        self.go_on_with(Batch::default());
        (self.at, self.begun) = (0, 0);
        self.aborted.clear();
        std::mem::replace(&mut self.fetched, fetched)
    }

    /// Opens the next batch that has records for readers, unless one is open. Returns whether there is one, and sets `next` behind
    /// those that were passed over.
    pub(crate) fn open(&mut self, next: &mut i64) -> Result<bool> {
        while self.batch.left == 0 {
            *next = self.batch.next.max(*next);
            if self.at == self.fetched.length {
                return Ok(false);
            }
            self.begin()?;
        }
        Ok(true)
    }

    fn begin(&mut self) -> Result<()> {
        let bytes = &self.fetched.buffer[self.at..self.fetched.length];
        let head = Head::at(bytes)?.ok_or(Wrong::Torn)?;
        let bytes = &bytes[..head.length];
        if crc32c::crc32c(&bytes[AT_SUMMED..]) != u32::from_be_bytes(array(bytes, 17)) {
            return Err(Wrong::Sum);
        }
        let attributes = i16::from_be_bytes(array(bytes, 21));
        let is = |bit: i16| attributes & bit != 0;
        let (has_append_time, is_transactional, is_control) = (is(8), is(16), is(32));
        let greatest_millis = i64::from_be_bytes(array(bytes, 35));
        let producer = i64::from_be_bytes(array(bytes, 43));
        let left = u32::try_from(i32::from_be_bytes(array(bytes, 57))).map_err(|_| Wrong::Torn)?;
        let begins = self.at + HEAD;
        self.at += head.length;
        let batch = Batch {
            first: head.first,
            next: head.last + 1,
            epoch: Some(head.epoch).filter(|epoch| *epoch >= 0),
            first_millis: i64::from_be_bytes(array(bytes, 27)),
            appended: has_append_time.then_some(greatest_millis),
            at: begins,
            begin: begins,
            end: self.at,
            left,
            count: left,
            is_unpacked: false,
        };
        self.go_on_with(batch);
        // Each answer names the aborted transactions that it has records of. Those of a producer are passed over from the first one on
        // until a control batch says that its transaction was aborted.
        while let Some(aborted) = self.fetched.aborted.get(self.begun)
            && aborted.first <= head.last
        {
            self.begun += 1;
            self.aborted.push(aborted.producer);
        }
        if is_control {
            // Compaction leaves control batches without a record.
            if left > 0 && is_abort(&self.fetched.buffer[begins..self.at])? {
                self.aborted.retain(|aborted| *aborted != producer);
            }
            self.batch.left = 0;
        } else if is_transactional && self.aborted.contains(&producer) {
            self.batch.left = 0;
        }
        let compression = (attributes & 7) as u8;
        if compression != 0 && self.batch.left > 0 {
            let compression =
                Compression::of(compression).ok_or(Wrong::Compression(compression))?;
            let packed = &self.fetched.buffer[begins..self.at];
            let unpacked = self.unpacked.fill(compression, packed).map_err(|_| Wrong::Packed)?;
            (self.batch.at, self.batch.begin) = (0, 0);
            (self.batch.end, self.batch.is_unpacked) = (unpacked, true);
        }
        Ok(())
    }

    /// Begins with the open batch, of which a record was read, anew.
    pub(crate) fn begin_again(&mut self) {
        (self.batch.at, self.batch.left) = (self.batch.begin, self.batch.count);
    }

    /// The next record of the open batch.
    #[inline(always)]
    pub(crate) fn record(&mut self) -> Result<Option<RawRecord<'_>>> {
        let batch = &mut self.batch;
        if batch.left == 0 {
            return Ok(None);
        }
        let bytes = if batch.is_unpacked { self.unpacked.bytes() } else { &*self.fetched.buffer };
        let mut rest = bytes.get(batch.at..batch.end).ok_or(Wrong::Torn)?;
        let whole = rest.len();
        let length = length(&mut rest)?;
        // The record ends where its length says, whatever it has behind its headers.
        batch.at += whole - rest.len() + length;
        rest = rest.get(..length).ok_or(Wrong::Torn)?;
        batch.left -= 1;
        let [_attributes, ..] = rest else { return Err(Wrong::Torn) };
        rest = &rest[1..];
        let (millis, offset) = (varint(&mut rest)?, varint(&mut rest)?);
        if offset < 0 {
            return Err(Wrong::Torn);
        }
        let record = RawRecord {
            offset: batch.first.checked_add(offset).ok_or(Wrong::Torn)?,
            millis: batch.appended.unwrap_or(batch.first_millis.wrapping_add(millis)),
            key: bytes_or_none(&mut rest)?,
            payload: bytes_or_none(&mut rest)?,
            headers: RawHeaders::of(rest)?,
        };
        if record.offset >= batch.next {
            return Err(Wrong::Torn);
        }
        Ok(Some(record))
    }
}

/// Whether the only record of a control batch says that a transaction was aborted.
fn is_abort(mut rest: &[u8]) -> Result<bool> {
    const ABORT: [u8; 2] = [0, 0];
    let _length = length(&mut rest)?;
    rest = rest.get(1..).ok_or(Wrong::Torn)?;
    let (_millis, _offset) = (varint(&mut rest)?, varint(&mut rest)?);
    let key = bytes_or_none(&mut rest)?.ok_or(Wrong::Torn)?;
    Ok(key.get(2..4).ok_or(Wrong::Torn)? == ABORT)
}

impl<'a> RawHeaders<'a> {
    #[inline(always)]
    fn of(mut rest: &'a [u8]) -> Result<Self> {
        let count = length(&mut rest)? as u32;
        let headers = Self { rest, count };
        // Most have none.
        if count > 0 { headers.checked() } else { Ok(headers) }
    }

    fn checked(self) -> Result<Self> {
        let mut left = self;
        while left.count > 0 {
            left.header()?;
        }
        Ok(self)
    }

    fn header(&mut self) -> Result<(&'a [u8], Option<&'a [u8]>)> {
        self.count -= 1;
        let name = length(&mut self.rest)?;
        let name = split_off(&mut self.rest, name)?;
        Ok((name, bytes_or_none(&mut self.rest)?))
    }
}

impl<'a> Iterator for RawHeaders<'a> {
    type Item = (&'a [u8], Option<&'a [u8]>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.count == 0 {
            return None;
        }
        self.header().ok()
    }
}

#[inline(always)]
fn split_off<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length).ok_or(Wrong::Torn)?;
    *rest = left;
    Ok(taken)
}

#[inline(always)]
fn bytes_or_none<'a>(rest: &mut &'a [u8]) -> Result<Option<&'a [u8]>> {
    match varint(rest)? {
        -1 => Ok(None),
        length => {
            let length = usize::try_from(length).map_err(|_| Wrong::Torn)?;
            split_off(rest, length).map(Some)
        }
    }
}

#[inline(always)]
fn length(rest: &mut &[u8]) -> Result<usize> {
    let length = i32::try_from(varint(rest)?).map_err(|_| Wrong::Torn)?;
    usize::try_from(length).map_err(|_| Wrong::Torn)
}

/// A number whose small ones of both signs are short.
#[inline(always)]
fn varint(rest: &mut &[u8]) -> Result<i64> {
    // One or two bytes are most.
    let zigzag = match **rest {
        [first, ref left @ ..] if first < 0x80 => {
            *rest = left;
            u64::from(first)
        }
        [first, second, ref left @ ..] if second < 0x80 => {
            *rest = left;
            u64::from(first & 0x7f) | u64::from(second) << 7
        }
        _ => long_varint(rest)?,
    };
    Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
}

fn long_varint(rest: &mut &[u8]) -> Result<u64> {
    let mut number = 0u64;
    for shift in (0..70).step_by(7) {
        let (first, left) = rest.split_first().ok_or(Wrong::Torn)?;
        *rest = left;
        let bits = u64::from(first & 0x7f);
        if shift == 63 && bits > 1 {
            return Err(Wrong::Torn);
        }
        number |= bits << shift;
        if *first < 0x80 {
            return Ok(number);
        }
    }
    Err(Wrong::Torn)
}
