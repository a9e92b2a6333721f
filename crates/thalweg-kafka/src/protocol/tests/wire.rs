//! Frames, written by hand from the schemas of Kafka's protocol.

use crate::protocol::wire::{
    API_VERSIONS, Answer, Api, Authenticated, DESCRIBE_CONFIGS, DESCRIBE_TRANSACTIONS, END_TXN,
    FIND_COORDINATOR, Found, INIT_PRODUCER_ID, Leader, METADATA, Metadata, SASL_AUTHENTICATE,
    SASL_HANDSHAKE, Topic, Torn, Transaction, commit, describe_configs, describe_transactions,
    find_coordinator, init_producer_id, metadata, request, sasl_authenticate, sasl_handshake,
};
use std::fmt::Debug;

#[test]
fn requests_are_those_of_the_schemas() {
    let client = b"\0\x07thalweg";
    let check = |api: Api, body: Vec<u8>, key_and_version: [u8; 4], rest: &[u8]| {
        let length = 4 + 4 + client.len() + rest.len();
        let expected =
            [&[0, 0, 0, length as u8][..], &key_and_version, &[0, 0, 1, 2], client, rest];
        assert_eq!(request(api, 258, "thalweg", &body), expected.concat(), "{}", api.name);
    };
    check(API_VERSIONS, vec![], [0, 18, 0, 0], b"");
    check(SASL_HANDSHAKE, sasl_handshake("PLAIN"), [0, 17, 0, 1], b"\0\x05PLAIN");
    let body = b"\0\0\0\x01\x02\0\x01t\0\0\0\x02\0\x01a\0\x02bc\0";
    check(DESCRIBE_CONFIGS, describe_configs("t", &["a", "bc"]), [0, 32, 0, 1], body);
    check(SASL_AUTHENTICATE, sasl_authenticate(b"abc"), [0, 36, 0, 1], b"\0\0\0\x03abc");
    check(FIND_COORDINATOR, find_coordinator("ab"), [0, 10, 0, 2], b"\0\x02ab\x01");
    let end = b"\0\x02ab\0\0\0\0\0\0\x03\xe8\x01\x02\x01";
    check(END_TXN, commit("ab", 1000, 258), [0, 26, 0, 2], end);
    let begin = b"\0\x02ab\0\0\x03\xe8";
    check(INIT_PRODUCER_ID, init_producer_id("ab"), [0, 22, 0, 1], begin);
    // A header with tags, an array of one, a text, and tags.
    let describe = b"\0\x02\x03ab\0";
    check(DESCRIBE_TRANSACTIONS, describe_transactions("ab"), [0, 65, 0, 0], describe);
    // An array of two topics without ids, each with tags; three flags, and tags.
    let none = [0; 16];
    let topics = [&b"\0\x03"[..], &none, b"\x03ab\0", &none, b"\x02c\0", &[0; 4]].concat();
    check(METADATA, metadata(["ab", "c"].into_iter()), [0, 3, 0, 10], &topics);
}

#[test]
fn long_names_have_lengths_of_several_bytes() {
    let body = describe_transactions(&"a".repeat(200));
    assert_eq!(body[..3], [2, 0xc9, 1]);
    assert_eq!(body.len(), 204);
}

/// Decodes an answer, all that is left of it when its end is missing, and what is more than it.
fn check<T: Debug + PartialEq>(
    api: Api,
    bytes: &[u8],
    expected: &T,
    decode: fn(Answer<'_>) -> Result<T, Torn>,
) {
    let decoded = |bytes: &[u8]| Answer::open(api, 258, bytes).and_then(decode);
    let bytes = [b"\0\0\x01\x02", bytes].concat();
    assert_eq!(decoded(&bytes).as_ref(), Ok(expected), "{}", api.name);
    for length in 0..bytes.len() {
        assert_eq!(decoded(&bytes[..length]), Err(Torn), "{} of {length} bytes", api.name);
    }
    assert_eq!(decoded(&[&bytes[..], b"\x01"].concat()), Err(Torn), "{} and more", api.name);
    let other = [b"\0\0\x01\x03", &bytes[4..]].concat();
    assert_eq!(decoded(&other), Err(Torn), "{} to another request", api.name);
    // Whatever byte is another one: an answer or an error, and no panic.
    for at in 0..bytes.len() {
        for byte in [0, 1, 0x7f, 0x80, 0xff] {
            let mut bytes = bytes.clone();
            bytes[at] = byte;
            let _ = decoded(&bytes);
        }
    }
}

#[test]
fn answers_are_those_of_the_schemas() {
    let versions = b"\0\x23\0\0\0\x02\0\x0a\0\0\0\x06\0\x1a\0\x01\0\x05";
    let expected = (35, vec![(10, 0, 6), (26, 1, 5)]);
    check(API_VERSIONS, versions, &expected, |answer| answer.api_versions());

    let mechanisms = b"\0\x21\0\0\0\x02\0\x05PLAIN\0\x06GSSAPI";
    let expected = (33, vec!["PLAIN".to_owned(), "GSSAPI".to_owned()]);
    check(SASL_HANDSHAKE, mechanisms, &expected, |answer| answer.sasl_handshake());

    let authenticated = |code, message: &str, lifetime| Authenticated {
        code,
        message: message.to_owned(),
        bytes: b"abc".to_vec(),
        lifetime,
    };
    let expected = authenticated(58, "no", 0);
    let bytes = b"\0\x3a\0\x02no\0\0\0\x03abc\0\0\0\0\0\0\0\0";
    check(SASL_AUTHENTICATE, bytes, &expected, |answer| answer.sasl_authenticate());
    let expected = authenticated(0, "", 60_000);
    let bytes = b"\0\0\xff\xff\0\0\0\x03abc\0\0\0\0\0\0\xea\x60";
    check(SASL_AUTHENTICATE, bytes, &expected, |answer| answer.sasl_authenticate());

    // Of a topic: one setting with a synonym, one without a value.
    let described = b"\0\0\0\0\0\0\0\x01\0\0\xff\xff\x02\0\x01t\0\0\0\x02\
        \0\x01a\0\x02xy\0\x05\0\0\0\0\x01\0\x01b\0\x01z\x04\
        \0\x01c\xff\xff\0\x05\x01\0\0\0\0";
    let settings =
        [("a", "xy"), ("c", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
    let expected = (0, String::new(), settings.to_vec());
    check(DESCRIBE_CONFIGS, described, &expected, |answer| answer.describe_configs());

    let expected = Found { code: 0, host: "kafka".to_owned(), port: 9092 };
    let found = b"\0\0\0\0\0\0\0\x04NONE\0\0\0\x01\0\x05kafka\0\0\x23\x84";
    check(FIND_COORDINATOR, found, &expected, |answer| answer.find_coordinator());

    check(END_TXN, b"\0\0\0\x05\0\x5a", &90, |answer| answer.end_txn());

    let begun = b"\0\0\0\x05\0\x33\0\0\0\0\0\0\x03\xe8\0\x07";
    check(INIT_PRODUCER_ID, begun, &51, |answer| answer.init_producer_id());

    // A tag in the header; one transaction with two topics, of which one has two partitions and the other a tag.
    let described = b"\x01\x05\x02zz\
        \0\0\0\0\x02\
        \0\0\x03ab\x08Ongoing\0\0\xea\x60\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\x03\xe8\0\x07\
        \x03\x02t\x03\0\0\0\0\0\0\0\x01\0\x02u\x01\x01\x09\x01z\
        \0\
        \0";
    let expected = Transaction {
        code: 0,
        name: "ab".to_owned(),
        state: "Ongoing".to_owned(),
        id: 1000,
        epoch: 7,
    };
    check(DESCRIBE_TRANSACTIONS, described, &expected, |answer| answer.describe_transactions());

    // Two brokers, of which one has a rack; a topic of two partitions with replicas, and one that is not there.
    let metadata = b"\0\0\0\0\0\
        \x03\0\0\0\x01\x02a\0\0\x23\x84\0\0\0\0\0\x02\x02b\0\0\x23\x84\x02r\0\
        \x03id\0\0\0\x01\
        \x03\0\0\x03ab0123456789abcdef\0\
        \x03\0\0\0\0\0\0\0\0\0\x01\0\0\0\x05\x03\0\0\0\x01\0\0\0\x02\x02\0\0\0\x01\x02\0\0\0\x02\0\
        \0\0\0\0\0\x01\0\0\0\x02\0\0\0\x05\x01\x01\x01\0\
        \x80\0\0\0\0\
        \0\x03\x02c0000000000000000\0\x01\x80\0\0\0\0\
        \x80\0\0\0\0";
    let leader = |node, epoch| Leader { node, epoch };
    let topic = |code, name: &str, id: &[u8; 16], leaders| Topic {
        code,
        name: name.to_owned(),
        id: *id,
        leaders,
    };
    let expected = Metadata {
        brokers: vec![(1, "a".to_owned(), 9092), (2, "b".to_owned(), 9092)],
        topics: vec![
            topic(0, "ab", b"0123456789abcdef", vec![(0, leader(1, 5)), (1, leader(2, 5))]),
            topic(3, "c", b"0000000000000000", vec![]),
        ],
    };
    check(METADATA, metadata, &expected, |answer| answer.metadata());
}

/// Lengths far beyond what was received take no memory: the program would end.
#[test]
fn lengths_are_not_believed() {
    let opened = |api, bytes: &'static [u8]| Answer::open(api, 0, bytes).unwrap();
    let most = b"\0\0\0\0\0\0\x7f\xff\xff\xff";
    assert_eq!(opened(API_VERSIONS, most).api_versions(), Err(Torn));
    assert_eq!(opened(SASL_HANDSHAKE, most).sasl_handshake(), Err(Torn));
    let negative = b"\0\0\0\0\0\0\xff\xff\xff\xff";
    assert_eq!(opened(API_VERSIONS, negative).api_versions(), Err(Torn));
    let bytes = b"\0\0\0\0\0\0\xff\xff\x7f\xff\xff\xff";
    assert_eq!(opened(SASL_AUTHENTICATE, bytes).sasl_authenticate(), Err(Torn));
    let text = b"\0\0\0\0\0\0\xff\xfe\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(opened(SASL_AUTHENTICATE, text).sasl_authenticate(), Err(Torn));
    // Compact ones: of a transaction's name, of its topics, of a number that is too long, and none.
    let name = b"\0\0\0\0\0\0\0\0\0\x02\0\0\xff\xff\xff\xff\x0f";
    assert_eq!(opened(DESCRIBE_TRANSACTIONS, name).describe_transactions(), Err(Torn));
    let head = b"\0\0\0\0\0\0\0\0\0\x02\0\0\x02a\x02b";
    for topics in
        [&b"\xff\xff\xff\xff\x0f"[..], b"\xff\xff\xff\xff\x1f", b"\x80\x80\x80\x80\x80\0", b"\0"]
    {
        let bytes = [&head[..], &[0; 22], topics].concat();
        let answer = Answer::open(DESCRIBE_TRANSACTIONS, 0, &bytes).unwrap();
        assert_eq!(answer.describe_transactions(), Err(Torn), "{topics:?}");
    }
    // As many tags as there can be.
    let tags = b"\0\0\0\0\xff\xff\xff\xff\x0f";
    assert!(Answer::open(DESCRIBE_TRANSACTIONS, 0, tags).is_err());
}
