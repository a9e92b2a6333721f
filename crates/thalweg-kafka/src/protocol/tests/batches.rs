//! Batches, written by hand from the schemas of Kafka's protocol.

use crate::protocol::batches::{
    Aborted, Batches, Extent, Fetched, RawRecord, Wrong, batch_at, extent,
};
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write as _;

const TRANSACTIONAL: i16 = 16;
const CONTROL: i16 = 32;
const APPEND_TIME: i16 = 8;

/// A batch with records at these offsets from its first.
#[derive(Clone)]
struct Made {
    first: i64,
    last_delta: i32,
    attributes: i16,
    producer: i64,
    records: Vec<Vec<u8>>,
}

fn varint(number: i64, out: &mut Vec<u8>) {
    let mut zigzag = ((number << 1) ^ (number >> 63)) as u64;
    while zigzag >= 0x80 {
        out.push(zigzag as u8 | 0x80);
        zigzag >>= 7;
    }
    out.push(zigzag as u8);
}

fn bytes(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    varint(bytes.map_or(-1, |bytes| bytes.len() as i64), out);
    out.extend(bytes.unwrap_or_default());
}

type Header<'a> = (&'a [u8], Option<&'a [u8]>);

fn record(
    offset: i64,
    millis: i64,
    key: Option<&[u8]>,
    payload: Option<&[u8]>,
    headers: &[Header<'_>],
) -> Vec<u8> {
    let mut body = vec![0];
    varint(millis, &mut body);
    varint(offset, &mut body);
    bytes(key, &mut body);
    bytes(payload, &mut body);
    varint(headers.len() as i64, &mut body);
    for (name, value) in headers {
        bytes(Some(name), &mut body);
        bytes(*value, &mut body);
    }
    let mut whole = Vec::new();
    varint(body.len() as i64, &mut whole);
    [whole, body].concat()
}

fn texts(first: i64, texts: &[&str]) -> Made {
    let of = |(at, text): (usize, &&str)| record(at as i64, 0, None, Some(text.as_bytes()), &[]);
    let records: Vec<_> = texts.iter().enumerate().map(of).collect();
    let last_delta = records.len() as i32 - 1;
    Made { first, last_delta, attributes: 0, producer: -1, records }
}

/// The only record of a control batch.
fn marker(offset: i64, producer: i64, commits: bool) -> Made {
    let key = [0, 0, 0, u8::from(commits)];
    let records = vec![record(0, 0, Some(&key), Some(b"\0\0\0\0\0\0"), &[])];
    let attributes = TRANSACTIONAL | CONTROL;
    Made { first: offset, last_delta: 0, attributes, producer, records }
}

impl Made {
    fn with(mut self, attributes: i16, producer: i64) -> Self {
        (self.attributes, self.producer) = (attributes, producer);
        self
    }

    fn encoded(&self) -> Vec<u8> {
        self.packed(|records| records)
    }

    fn packed(&self, pack: impl FnOnce(Vec<u8>) -> Vec<u8>) -> Vec<u8> {
        let mut summed = self.attributes.to_be_bytes().to_vec();
        summed.extend(self.last_delta.to_be_bytes());
        summed.extend(1_000i64.to_be_bytes());
        summed.extend(2_000i64.to_be_bytes());
        summed.extend(self.producer.to_be_bytes());
        summed.extend([0xff; 6]);
        summed.extend((self.records.len() as i32).to_be_bytes());
        summed.extend(pack(self.records.concat()));
        let mut batch = self.first.to_be_bytes().to_vec();
        batch.extend((summed.len() as i32 + 9).to_be_bytes());
        batch.extend(7i32.to_be_bytes());
        batch.push(2);
        batch.extend(crc32c::crc32c(&summed).to_be_bytes());
        [batch, summed].concat()
    }
}

fn fetched(buffer: Vec<u8>, aborted: &[(i64, i64)]) -> Batches {
    let mut batches = Batches::default();
    let length = buffer.len();
    let of = |&(producer, first): &(i64, i64)| Aborted { producer, first };
    let aborted = aborted.iter().map(of).collect();
    batches.replace(Fetched { buffer, length, aborted });
    batches
}

/// The offsets and texts of all records, and the offset behind them.
fn read(mut batches: Batches) -> Result<(Vec<(i64, String)>, i64), Wrong> {
    let (mut all, mut next) = (Vec::new(), 0);
    while batches.open(&mut next)? {
        while let Some(RawRecord { offset, payload, .. }) = batches.record()? {
            let text = String::from_utf8_lossy(payload.unwrap_or_default()).into_owned();
            all.push((offset, text));
        }
    }
    Ok((all, next))
}

fn numbered(all: &[(i64, &str)]) -> Vec<(i64, String)> {
    all.iter().map(|(offset, text)| (*offset, (*text).to_owned())).collect()
}

#[test]
fn records_have_all_that_was_written() {
    let headers: [Header<'_>; 3] = [(b"a", Some(b"1")), (b"", None), (b"a", Some(b""))];
    let long = vec![b'x'; 70_000];
    let records = vec![
        record(0, 5, Some(b"key"), Some(b"value"), &headers),
        // What is behind the headers is passed over, as by other clients.
        record(3, -1, None, None, &[]),
        record(9, 70_000, Some(b""), Some(&long), &[]),
    ];
    let made = Made { first: 100, last_delta: 9, attributes: 0, producer: -1, records };
    let mut batches = fetched(made.encoded(), &[]);
    let mut next = 0;
    assert_eq!(batches.open(&mut next), Ok(true));
    let first = batches.record().unwrap().unwrap();
    assert_eq!((first.offset, first.millis), (100, 1_005));
    assert_eq!((first.key, first.payload), (Some(&b"key"[..]), Some(&b"value"[..])));
    assert_eq!(first.headers.collect::<Vec<_>>(), headers);
    let second = batches.record().unwrap().unwrap();
    assert_eq!((second.offset, second.millis, second.key, second.payload), (103, 999, None, None));
    assert_eq!(second.headers.count(), 0);
    let third = batches.record().unwrap().unwrap();
    assert_eq!((third.offset, third.key), (109, Some(&b""[..])));
    assert_eq!(third.payload, Some(&*long));
    assert_eq!(batches.record(), Ok(None));
    assert_eq!((batches.open(&mut next), next), (Ok(false), 110));
    // The time of the broker is that of all records of a batch.
    let mut appended = fetched(texts(0, &["a"]).with(APPEND_TIME, -1).encoded(), &[]);
    assert_eq!(appended.open(&mut next), Ok(true));
    assert_eq!(appended.record().unwrap().unwrap().millis, 2_000);
}

#[test]
fn compressed_batches_are_the_same() {
    let made = texts(7, &["one", "two", "two", "two"]);
    let snappy = |bytes: &[u8]| snap::raw::Encoder::new().compress_vec(bytes).unwrap();
    let blocks = |records: Vec<u8>| {
        // As Java's does it: each block has its length before it.
        let block = |part: &[u8]| {
            let packed = snappy(part);
            [&(packed.len() as i32).to_be_bytes()[..], &packed].concat()
        };
        let (first, second) = records.split_at(5);
        [b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01", &*block(first), &block(second)].concat()
    };
    let gzip = |records: Vec<u8>| {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(&records).unwrap();
        encoder.finish().unwrap()
    };
    let lz4 = |records: Vec<u8>| {
        let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
        encoder.write_all(&records).unwrap();
        encoder.finish().unwrap()
    };
    let zstandard = |records: Vec<u8>| {
        let level = ruzstd::encoding::CompressionLevel::Fastest;
        ruzstd::encoding::compress_to_vec(&*records, level)
    };
    let of = |number: i16| made.clone().with(number, -1);
    let all = [
        made.encoded(),
        of(1).packed(gzip),
        of(2).packed(|records| snappy(&records)),
        of(2).packed(blocks),
        of(3).packed(lz4),
        of(4).packed(zstandard),
    ];
    let expected = (numbered(&[(7, "one"), (8, "two"), (9, "two"), (10, "two")]), 11);
    for batch in &all {
        assert_eq!(read(fetched(batch.clone(), &[])), Ok(expected.clone()));
    }
    // One after the other, too, in memory that was used.
    let next = |at: usize, batch: &Vec<u8>| {
        let mut batch = batch.clone();
        batch[..8].copy_from_slice(&(7 + 4 * at as i64).to_be_bytes());
        batch
    };
    let joined: Vec<_> = all.iter().enumerate().flat_map(|(at, batch)| next(at, batch)).collect();
    assert_eq!(read(fetched(joined, &[])).unwrap().0.len(), 24);
    // Torn ones.
    for number in 1..=4 {
        assert_eq!(read(fetched(of(number).packed(|_| vec![9; 30]), &[])), Err(Wrong::Packed));
    }
    let unknown = read(fetched(of(5).encoded(), &[]));
    assert_eq!(unknown, Err(Wrong::Compression(5)));
    // A block that says that it is very long takes no memory.
    let most = of(2).packed(|_| b"\xff\xff\xff\xff\x0f\x00a".to_vec());
    assert_eq!(read(fetched(most, &[])), Err(Wrong::Packed));
}

#[test]
fn an_open_batch_can_be_begun_again() {
    let made = [texts(0, &["a", "b"]), texts(2, &["c", "d", "e"])];
    for packed in [0, 2] {
        let snappy = |bytes: Vec<u8>| snap::raw::Encoder::new().compress_vec(&bytes).unwrap();
        let pack = |made: &Made| {
            let made = made.clone().with(packed, -1);
            if packed == 0 { made.encoded() } else { made.packed(snappy) }
        };
        let mut batches = fetched(made.iter().flat_map(pack).collect(), &[]);
        let (mut all, mut next) = (Vec::new(), 0);
        for again in [true, false, true] {
            if !batches.open(&mut next).unwrap() {
                break;
            }
            while let Some(RawRecord { offset, .. }) = batches.record().unwrap() {
                all.push(offset);
            }
            if again {
                batches.begin_again();
            }
        }
        assert_eq!(all, [0, 1, 0, 1, 2, 3, 4], "{packed}");
        assert_eq!(batches.record().unwrap().map(|record| record.offset), Some(2), "{packed}");
    }
}

#[test]
fn records_of_aborted_transactions_are_passed_over() {
    let made = [
        texts(0, &["a", "b"]).with(TRANSACTIONAL, 1),
        texts(2, &["c"]).with(TRANSACTIONAL, 2),
        texts(3, &["d"]),
        marker(4, 1, false),
        texts(5, &["e"]).with(TRANSACTIONAL, 1),
        marker(6, 2, true),
        marker(7, 1, true),
        texts(8, &["f"]).with(TRANSACTIONAL, 2),
        marker(9, 2, false),
    ];
    let all: Vec<_> = made.iter().flat_map(Made::encoded).collect();
    let aborted = [(1, 0), (2, 8)];
    let expected = (numbered(&[(2, "c"), (3, "d"), (5, "e")]), 10);
    assert_eq!(read(fetched(all.clone(), &aborted)), Ok(expected));
    // Where all are wanted, brokers name no aborted ones.
    assert_eq!(read(fetched(all, &[])).unwrap().0.len(), 6);
}

#[test]
fn whole_batches_are_told_from_what_is_cut_off() {
    let all = [texts(5, &["a", "b"]).encoded(), texts(7, &["c"]).encoded()];
    let (joined, first) = (all.concat(), all[0].len());
    for length in 0..=joined.len() {
        let whole = if length < first {
            0
        } else {
            [first, joined.len()][usize::from(length == joined.len())]
        };
        let last = [None, Some((7, 7)), Some((8, 7))]
            [usize::from(whole > 0) + usize::from(whole == joined.len())];
        assert_eq!(extent(&joined[..length], 6), Ok(Extent { length: whole, last }), "{length}");
    }
    // Those before what was asked for are passed over, and all are behind one another.
    assert_eq!(extent(&joined, 7).unwrap().last, Some((8, 7)));
    assert_eq!(extent(&joined, 8), Ok(Extent { length: joined.len(), last: None }));
    assert_eq!(extent(&[&*all[1], &*all[0]].concat(), 0), Err(Wrong::Torn));
    // Compaction leaves batches without records, also of the ends of transactions, which have offsets all the same.
    for is_control in [false, true] {
        let attributes = if is_control { TRANSACTIONAL | CONTROL } else { 0 };
        let empty = Made { attributes, last_delta: 9, records: vec![], ..texts(8, &[]) };
        assert_eq!(read(fetched(empty.encoded(), &[])), Ok((vec![], 18)), "{is_control}");
    }
    let empty = Made { last_delta: 9, records: vec![], ..texts(8, &[]) };
    assert_eq!(extent(&empty.encoded(), 8).unwrap().last, Some((18, 7)));
    assert_eq!(read(fetched(empty.encoded(), &[])), Ok((vec![], 18)));
    let mut old = all[0].clone();
    old[16] = 1;
    assert_eq!(extent(&old, 0), Err(Wrong::Old));
    old[16] = 3;
    assert_eq!(extent(&old, 0), Err(Wrong::Torn));
}

/// Appended by another leader.
fn of_epoch(made: &Made, epoch: i32) -> Vec<u8> {
    let mut batch = made.encoded();
    batch[12..16].copy_from_slice(&epoch.to_be_bytes());
    batch
}

#[test]
fn the_epoch_of_what_is_before_an_offset_is_known() {
    let all = [
        of_epoch(&texts(3, &["a", "b"]), 4),
        of_epoch(&texts(5, &["c", "d"]), 6),
        of_epoch(&marker(7, 1, false), 8),
    ];
    let all = all.concat();
    let filled = |mut batches: Batches| {
        let (buffer, length) = (all.clone(), all.len());
        batches.replace(Fetched { buffer, length, aborted: Vec::new() });
        batches
    };
    // Until where it was read.
    let mut batches = filled(Batches::begin_at(5, Some(3)));
    let mut next = 5;
    assert_eq!(batches.epoch_before(next), Some(3));
    let mut epochs = Vec::new();
    while batches.open(&mut next).unwrap() {
        epochs.push(batches.epoch_before(next));
        while let Some(record) = batches.record().unwrap() {
            next = next.max(record.offset + 1);
            epochs.push(batches.epoch_before(next));
        }
    }
    // Of the batch of `a` and `b`, which has the record before; then `c` and `d`, and the end of a transaction.
    assert_eq!(epochs, [Some(4), Some(4), Some(4), Some(4), Some(6), Some(6)]);
    assert_eq!((next, batches.epoch_before(next)), (8, Some(8)));
    batches.replace(Fetched::default());
    assert_eq!(batches.epoch_before(next), Some(8));
    // Batches before where it begins do not count.
    let mut batches = filled(Batches::begin_at(9, Some(8)));
    let mut next = 9;
    while batches.open(&mut next).unwrap() {
        assert_eq!(batches.epoch_before(next), Some(8));
        while batches.record().unwrap().is_some() {}
    }
    assert_eq!((next, batches.epoch_before(next)), (9, Some(8)));
    // Old leaders have none.
    let mut batches = fetched(of_epoch(&texts(0, &["a"]), -1), &[]);
    let mut next = 0;
    assert_eq!(batches.open(&mut next), Ok(true));
    assert_eq!(batches.epoch_before(1), None);
    // One batch, by an offset.
    for (offset, expected) in [(0, (3, 4)), (4, (3, 4)), (5, (5, 6)), (7, (7, 8))] {
        assert_eq!(batch_at(&all, offset), Ok(Some(expected)));
    }
    assert_eq!(batch_at(&all, 8), Ok(None));
    assert_eq!(batch_at(&all[..all.len() - 1], 7), Ok(None));
}

#[test]
fn a_batch_that_was_changed_on_its_way_is_found() {
    let batch = texts(0, &["value"]).encoded();
    for at in 21..batch.len() {
        let mut changed = batch.clone();
        changed[at] ^= 1;
        assert!(matches!(read(fetched(changed, &[])), Err(Wrong::Sum | Wrong::Torn)), "{at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Whatever a broker sends with the right sum is decoded, or refused: without a panic, and within the batch's offsets.
    #[test]
    fn changed_bytes_do_no_harm(
        changes in prop::collection::vec((21..400usize, any::<u8>()), 1..6),
        compression in 0..6i16,
        producer in 0..2i64,
    ) {
        let made = texts(0, &["some", "texts", "with", "more", "records", "than", "one"]);
        let made = made.with(compression | TRANSACTIONAL, producer);
        let mut batch = match compression {
            2 => made.packed(|records| snap::raw::Encoder::new().compress_vec(&records).unwrap()),
            _ => made.encoded(),
        };
        for (at, byte) in changes {
            let at = 21 + at % (batch.len() - 21);
            batch[at] = byte;
        }
        let sum = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&sum.to_be_bytes());
        if extent(&batch, 0).is_ok_and(|extent| extent.length == batch.len())
            && let Ok((records, next)) = read(fetched(batch, &[(0, 0)])) {
            prop_assert!(records.iter().all(|(offset, _)| (0..next).contains(offset)));
        }
    }
}
