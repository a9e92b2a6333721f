//! Tests of packed entries.

use super::*;
use crate::check::cases;
use crate::data::splitmix64;
use proptest::collection::vec;
use proptest::prelude::*;

/// The bytes of an entry.
fn entry(group: u16, encoding: &[u8]) -> Vec<u8> {
    let mut entry = group.to_le_bytes().to_vec();
    match encoding.len() {
        length @ 0..255 => entry.push(length as u8),
        length => {
            entry.push(255);
            entry.extend_from_slice(&(length as u64).to_le_bytes());
        }
    }
    entry.extend_from_slice(encoding);
    entry
}

fn all(entries: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    entries.flatten().collect()
}

/// Counts of integers: of 19 bytes of an entry, five differ where there are hundreds.
fn counts(keys: u64) -> Vec<u8> {
    all((0..keys).map(|key| {
        let encoding = [key.to_le_bytes(), (5 + key % 2).to_le_bytes()];
        entry((7 * key) as u16, encoding.as_flattened())
    }))
}

/// Texts, of which no two that follow each other have the same length.
fn texts(count: usize) -> Vec<u8> {
    all((0..count).map(|n| entry(9, &vec![b'a'; 7 * n % 23])))
}

/// Entries of one length, in which the bytes differ whose bits are set.
fn alike(length: usize, count: usize, differ: u64, mut seed: u64) -> Vec<u8> {
    let first: Vec<u8> = (0..length).map(|_| splitmix64(&mut seed) as u8).collect();
    let mut next = || {
        let mut encoding = first.clone();
        for (at, byte) in encoding.iter_mut().enumerate() {
            if (differ >> (at % 64)) & 1 != 0 {
                *byte = splitmix64(&mut seed) as u8;
            }
        }
        entry(splitmix64(&mut seed) as u16, &encoding)
    };
    all((0..count).map(|_| next()))
}

fn joined<'a>(pieces: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    pieces.flatten().copied().collect()
}

fn pack(entries: &[u8]) -> Vec<u8> {
    let mut packed = Packed::default();
    packed.add(entries);
    joined(packed.pieces())
}

/// The length of entries that are packed, and come back.
fn packed_length(entries: &[u8]) -> usize {
    let packed = pack(entries);
    assert!(unpack(&packed).unwrap() == entries, "{} bytes are others", entries.len());
    packed.len()
}

#[test]
fn what_is_the_same_in_all_entries_of_a_block_is_there_once() {
    // The headers and masks of two blocks, their first entries, and five bytes of each other one.
    assert_eq!(packed_length(&counts(1000)), 2 * (5 + 3 + 19) + 5 * 998);
    for length in [0, 1, 3, 4, 5, 6, 13, 252, 254] {
        let same = all((0..1000).map(|_| entry(3, &vec![8; length])));
        let frame = length + 3;
        assert_eq!(packed_length(&same), 2 * (5 + frame.div_ceil(8) + frame), "{length}");
    }
}

#[test]
fn what_does_not_shrink_stays_as_it_is() {
    let plain = |entries: &[u8]| assert_eq!(packed_length(entries), entries.len() + 9);
    plain(&texts(20_000));
    plain(&counts(15));
    // Of so few, the high bytes of the groups and keys are the same too.
    assert_eq!(packed_length(&counts(16)), 5 + 3 + 19 + 3 * 15);
    // All but their lengths differ.
    plain(&alike(16, 1000, u64::MAX, 1));
    // Of the long form.
    plain(&all((0..100).map(|_| entry(3, &[0; 255]))));
    assert_eq!(packed_length(&[]), 0);
}

#[test]
fn large_plain_blocks_are_not_copied() {
    let (few, many) = (texts(100), texts(20_000));
    let mut packed = Packed::default();
    packed.add(&many);
    assert_eq!(packed.bytes.len(), PLAIN_HEADER);
    let mark = packed.end();
    packed.add(&few);
    let between = [counts(600), many.clone(), counts(100), few.clone()].concat();
    packed.add(&between);
    assert_eq!(packed.borrowed.len(), 2);
    assert!(joined(packed.pieces_from(mark)) == [pack(&few), pack(&between)].concat());
    assert!(unpack(&joined(packed.pieces())).unwrap() == [many, few, between].concat());
}

#[test]
fn memory_is_used_again() {
    let entries = counts(100_000);
    let mut packed = Packed::begin(Vec::new());
    packed.add(&entries);
    let (whole, memory) = (joined(packed.pieces()), packed.into_memory());
    let before = (memory.as_ptr(), memory.capacity());
    let mut again = Packed::begin(memory);
    again.add(&entries);
    assert!(joined(again.pieces()) == whole && unpack(&whole).unwrap() == entries);
    let memory = again.into_memory();
    assert_eq!((memory.as_ptr(), memory.capacity()), before);
}

#[test]
fn torn_blocks_are_refused() {
    let packed = pack(&[counts(600), texts(20), counts(100)].concat());
    let (mut ends, mut rest) = (vec![0], &*packed);
    while Block::next(&mut rest).unwrap().is_some() {
        ends.push(packed.len() - rest.len());
    }
    assert_eq!(ends.len(), 5, "{ends:?}");
    for length in 0..packed.len() {
        assert_eq!(unpack(&packed[..length]).is_ok(), ends.contains(&length), "{length}");
    }
}

#[test]
fn what_is_no_block_is_refused() {
    let is_block = |count: u16, length: u16, mask: u8| {
        let numbers = [count.to_le_bytes(), length.to_le_bytes()];
        let mask = vec![mask; usize::from(length).div_ceil(8)];
        let bytes = [&[ALIKE][..], numbers.as_flattened(), &mask, &[0; 1000]].concat();
        Block::read(&mut &*bytes).is_some()
    };
    for (count, length, mask) in [(1, 3, 0), (512, 257, 0), (2, 3, 0b101), (2, 8, 0xff)] {
        assert!(is_block(count, length, mask), "{count} {length} {mask}");
    }
    for (count, length, mask) in [(0, 3, 0), (513, 3, 0), (2, 2, 0), (2, 258, 0), (2, 3, 0b1000)] {
        assert!(!is_block(count, length, mask), "{count} {length} {mask}");
    }
    let largest = [&[ALIKE, 0, 2, 1, 1][..], &[0; 33], &[7; 257]].concat();
    assert!(unpack(&largest).unwrap() == [7; 512 * 257]);
    // A bit of which there is no byte.
    let mut stray = largest;
    stray[5 + 32] = 0b10;
    stray.extend_from_slice(&[0; 511]);
    assert!(unpack(&stray).is_err());
    assert!(unpack(&[2]).is_err());
    assert!(unpack(&[&[PLAIN][..], &[u8::MAX; 8], &[0; 100]].concat()).is_err());
}

/// Entries of mixed lengths, with more or less that is the same in a row of them.
fn mixed() -> impl Strategy<Value = Vec<u8>> {
    let length = prop_oneof![3 => 0..24_usize, 1 => 250..260_usize];
    let count = prop_oneof![3 => 0..40_usize, 1 => 500..600_usize];
    let row = (length, count, any::<u64>(), any::<u64>(), any::<u64>());
    vec(row, 0..5).prop_map(|rows| {
        let row = |(length, count, some, others, seed): (usize, usize, u64, u64, u64)| {
            alike(length, count, some & others, seed)
        };
        all(rows.into_iter().map(row))
    })
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn entries_come_back_and_take_hardly_more_also_if_they_are_torn(
        entries in mixed(), cut in any::<prop::sample::Index>(),
    ) {
        for entries in [&*entries, &entries[..cut.index(entries.len() + 1)]] {
            let packed = pack(entries);
            prop_assert!(unpack(&packed).unwrap() == entries);
            prop_assert!(packed.len() <= entries.len() + PLAIN_HEADER);
        }
    }

    #[test]
    fn altered_blocks_make_no_more_than_they_may(
        entries in mixed(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut packed = pack(&entries);
        if !packed.is_empty() {
            let at = at.index(packed.len());
            packed[at] = byte;
        }
        if let Ok(entries) = unpack(&packed) {
            prop_assert!(entries.len() <= MOST * packed.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    // Small values, so that blocks are often plausible.
    fn any_bytes_are_unpacked_or_refused(
        bytes in prop_oneof![vec(any::<u8>(), 0..60), vec(0..6_u8, 0..80)],
    ) {
        if let Ok(entries) = unpack(&bytes) {
            prop_assert!(entries.len() <= MOST * bytes.len());
        }
    }
}
