//! Requests for records and their answers, written by hand from the schemas of Kafka's protocol.

use crate::protocol::answer::{Answered, Coming, Diverging, Limits, Wanted, Whole, api, request};
use crate::protocol::batches::Aborted;
use crate::protocol::topics::TopicId;
use crate::protocol::wire::{Api, FETCH, FETCH_BY_ID, Leader};
use proptest::prelude::*;
use std::io;
use std::time::Duration;

const ID: &[u8; 16] = b"0123456789abcdef";

fn wanted(topic: &str, number: i32, from: i64) -> Wanted {
    Wanted {
        topic: topic.into(),
        id: TopicId::of(*ID),
        number,
        leader: Leader { node: 1, epoch: 5 },
        from,
        epoch: 4,
        most: 1_000,
    }
}

const LIMITS: Limits =
    Limits { wait: Duration::from_millis(258), least: 1, most: 512, are_committed: true };

/// Of two partitions of a topic, and one of another.
fn all() -> [Wanted; 3] {
    [wanted("ab", 1, 7), wanted("ab", 0, 9), wanted("c", 0, 2)]
}

#[test]
fn requests_are_those_of_the_schemas() {
    let head = b"\xff\xff\xff\xff\0\0\x01\x02\0\0\0\x01\0\0\x02\0\x01\0\0\0\0\xff\xff\xff\xff";
    let rest = b"\0\0\0\x04\xff\xff\xff\xff\xff\xff\xff\xff\0\0\x03\xe8\0";
    let partition = |number: u8, from: u8| {
        [&[0, 0, 0, number, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, from][..], rest].concat()
    };
    let of = |first: &[u8], second: &[u8]| {
        let ab = [&[3][..], &partition(1, 7), &partition(0, 9), &[0]].concat();
        let c = [&[2][..], &partition(0, 2), &[0]].concat();
        [head, &[3][..], first, &ab, second, &c, b"\x01\x01\0"].concat()
    };
    assert_eq!(request(FETCH, &LIMITS, &all()), of(b"\x03ab", b"\x02c"));
    assert_eq!(request(FETCH_BY_ID, &LIMITS, &all()), of(ID, ID));
    // By their ids only where all are known.
    assert_eq!(api(true, &all()), FETCH_BY_ID);
    assert_eq!(api(false, &all()), FETCH);
    let mut unknown = all();
    unknown[1].id = None;
    assert_eq!(api(true, &unknown), FETCH);
}

/// To the request of [`all`] by names: records, an error with another replica, and a log that diverges.
const ANSWER: &[u8] = b"\0\0\0\x09\0\
    \0\0\x01\x02\0\0\0\0\0\0\
    \x03\x03ab\x03\
    \0\0\0\x01\0\0\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0\x1f\0\0\0\0\0\0\0\0\
    \x03\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x08\0\
    \xff\xff\xff\xff\x06hello\0\
    \0\0\0\0\0\x06\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\
    \0\0\0\0\x02\0\x01\x01\x09\0\0\0\x02\0\0\0\x05\0\
    \0\x02c\x02\
    \0\0\0\0\0\0\0\0\0\0\0\0\0\x03\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\0\0\0\0\0\
    \0\xff\xff\xff\xff\x01\x01\0\x0d\0\0\0\x03\0\0\0\0\0\0\0\x01\0\
    \0\0";

type Taken = Vec<(usize, Answered, Vec<u8>)>;

fn decoded(api: Api, answer: &[u8], are_committed: bool) -> io::Result<(Whole, Taken)> {
    let (mut bytes, mut taken) = (Trickle(answer), Vec::new());
    let coming = Coming::new(&mut bytes, answer.len());
    let take = |at, answered, buffer| taken.push((at, answered, buffer));
    let limits = Limits { are_committed, ..LIMITS };
    // The memory was used before.
    let whole = coming.decode(api, 9, (&limits, &all()), |_| vec![1; 7], take)?;
    Ok((whole, taken))
}

/// Bytes that come one at a time.
struct Trickle<'a>(&'a [u8]);

impl io::Read for Trickle<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let most = bytes.len().min(1);
        self.0.read(&mut bytes[..most])
    }
}

#[test]
fn answers_are_decoded_as_they_come() {
    let (whole, taken) = decoded(FETCH, ANSWER, true).unwrap();
    let throttled = Duration::from_millis(258);
    assert_eq!((whole, taken.len()), (Whole { code: 0, throttled }, 3));
    let (at, first, buffer) = &taken[0];
    assert_eq!((*at, first.code, first.end, first.diverges), (0, 0, 31, None));
    let aborted = |producer, first| Aborted { producer, first };
    assert_eq!(first.aborted, [aborted(6, 8), aborted(5, 9)], "in the order of their offsets");
    assert_eq!(&buffer[..first.length], b"hello");
    let (at, second, _) = &taken[1];
    assert_eq!((*at, second.code, second.length), (1, 6, 0));
    let (at, third, _) = &taken[2];
    let diverges = Some(Diverging { epoch: 3, end: 1 });
    assert_eq!((*at, third.code, third.end, third.diverges), (2, 0, 3, diverges));
    assert_eq!((first.replica, second.replica), (None, Some(2)));
    // Where all records are wanted, those of open transactions are before the end.
    assert_eq!(decoded(FETCH, ANSWER, false).unwrap().1[0].1.end, 32);
    // By their ids.
    let by_id = ANSWER.windows(3).position(|bytes| bytes == b"\x03ab").unwrap();
    let by_id = [&ANSWER[..by_id], ID, &ANSWER[by_id + 3..]].concat();
    let other = by_id.windows(2).position(|bytes| bytes == b"\x02c").unwrap();
    let by_id = [&by_id[..other], ID, &by_id[other + 2..]].concat();
    let places: Vec<_> =
        decoded(FETCH_BY_ID, &by_id, true).unwrap().1.iter().map(|(at, ..)| *at).collect();
    assert_eq!(places, [0, 1, 2], "in the order of the request");
    for length in 0..ANSWER.len() {
        assert!(decoded(FETCH, &ANSWER[..length], true).is_err(), "{length}");
    }
    assert!(decoded(FETCH, &[ANSWER, &[0]].concat(), true).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    /// Whatever comes is decoded or refused, and takes no more memory than it is long.
    #[test]
    fn changed_bytes_do_no_harm(
        changes in prop::collection::vec((0..1_000usize, any::<u8>()), 1..6),
        most in any::<bool>(),
    ) {
        let mut answer = ANSWER.to_vec();
        for (at, byte) in changes {
            let at = at % answer.len();
            answer[at] = if most { 0xff } else { byte };
        }
        if let Ok((_, taken)) = decoded(FETCH, &answer, true) {
            for (at, answered, buffer) in taken {
                prop_assert!(at < 3 && answered.length <= answer.len() && buffer.len() <= answer.len());
            }
        }
    }
}
