//! SCRAM, against the examples of its standards.

use crate::protocol::scram::Scram;
use openssl::hash::MessageDigest;

/// The messages of a login with the password `pencil`.
fn check(digest: MessageDigest, nonce: &str, messages: [&str; 4]) {
    let [first, answer, last, signature] = messages;
    let scram = Scram::with_nonce(digest, "user", nonce.to_owned());
    assert_eq!(scram.message(), first);
    let answered = scram.answered("pencil", answer.as_bytes()).unwrap();
    assert_eq!(answered.message(), last);
    answered.check(signature.as_bytes()).unwrap();
    for wrong in ["", "v=", "v=AAAA", "e=other-error", "v=*", &signature[..signature.len() - 4]] {
        answered.check(wrong.as_bytes()).unwrap_err();
    }
    // The signature is of the whole login.
    let other = scram.answered("pen", answer.as_bytes()).unwrap();
    assert_ne!(other.message(), last);
    other.check(signature.as_bytes()).unwrap_err();
}

#[test]
fn the_example_of_rfc_5802() {
    let messages = [
        "n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL",
        "r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096",
        "c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "v=rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ];
    check(MessageDigest::sha1(), "fyko+d2lbbFgONRv9qkxdawL", messages);
}

#[test]
fn the_example_of_rfc_7677() {
    let messages = [
        "n,,n=user,r=rOprNGfwEbeRWgbNEkqO",
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ];
    check(MessageDigest::sha256(), "rOprNGfwEbeRWgbNEkqO", messages);
}

#[test]
fn names_are_escaped() {
    let scram = Scram::with_nonce(MessageDigest::sha512(), "a=b,c", "n".to_owned());
    assert_eq!(scram.message(), "n,,n=a=3Db=2Cc,r=n");
}

#[test]
fn nonces_differ() {
    let message = || Scram::new(MessageDigest::sha512(), "a").unwrap().message();
    assert_ne!(message(), message());
}

#[test]
fn messages_that_break_the_rules_are_refused() {
    let scram = Scram::with_nonce(MessageDigest::sha256(), "user", "abc".to_owned());
    scram.answered("pencil", b"r=abcd,s=AAAA,i=4096").map(drop).unwrap();
    for (answer, says) in [
        (&b"r=abc,s=AAAA,i=4096"[..], "another login"),
        (b"r=abx,s=AAAA,i=4096", "another login"),
        (b"r=abcd,s=AAAA,i=4095", "rounds"),
        (b"r=abcd,s=AAAA,i=1000001", "rounds"),
        (b"r=abcd,s=AAAA,i=99999999999999999999", "not one of SCRAM"),
        (b"r=abcd,s=AAAA,i=-1", "not one of SCRAM"),
        (b"r=abcd,s=AAAA", "not one of SCRAM"),
        (b"r=abcd,s=*,i=4096", "not one of SCRAM"),
        (b"m=ext,r=abcd,s=AAAA,i=4096", "not one of SCRAM"),
        (b"\xff", "not one of SCRAM"),
        (b"", "not one of SCRAM"),
    ] {
        let what = scram.answered("pencil", answer).err().unwrap();
        assert!(what.contains(says), "{answer:?}: {what}");
    }
}
