//! Registries that answer wrongly, late, or not at all.

use crate::{AvroDecoder, SchemaRegistry, SubjectName};
use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;
use thalweg::ErrorKind;

/// What is answered to one request.
#[derive(Clone)]
enum Answer {
    Status(u16, String),
    /// Somewhere else.
    Redirect(String),
    /// Bytes that are not HTTP.
    Garbage,
    /// Nothing, for longer than anything waits.
    Silence,
}

/// A registry that gives these answers in turn, the last one again and again, and keeps what was requested.
struct Fake {
    url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Fake {
    fn new(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let mut answers: VecDeque<_> = answers.into_iter().collect();
        let noted = Arc::clone(&requests);
        thread::spawn(move || {
            let mut silent = Vec::new();
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                noted.lock().unwrap().push(request(&connection));
                let answer = match answers.len() {
                    1 => answers[0].clone(),
                    _ => answers.pop_front().unwrap(),
                };
                // A client that has given up does not read it.
                let _ = match answer {
                    Answer::Garbage => {
                        connection.write_all(b"\x15\x03\x01\x00\x02\x02\x16\r\n\r\n")
                    }
                    Answer::Redirect(url) => write!(
                        connection,
                        "HTTP/1.1 307 Elsewhere\r\nLocation: {url}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                    ),
                    Answer::Silence => {
                        silent.push(connection);
                        Ok(())
                    }
                    Answer::Status(status, body) => write!(
                        connection,
                        "HTTP/1.1 {status} Status\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                        body.len()
                    ),
                };
            }
        });
        Self { url, requests }
    }

    fn registry(&self) -> SchemaRegistry {
        SchemaRegistry::new([&self.url]).retries(2, Duration::from_millis(1))
    }

    fn decoder(&self) -> AvroDecoder {
        self.registry().decoder().unwrap()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// The lines of a request, and its body.
fn request(connection: &TcpStream) -> String {
    let mut reader = BufReader::new(connection);
    let (mut text, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) <= 2 {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        text += &line;
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    text + &String::from_utf8(body).unwrap()
}

fn ok(body: &str) -> Answer {
    Answer::Status(200, body.to_owned())
}

fn long() -> Answer {
    ok(r#"{"schema": "\"long\""}"#)
}

fn refused(status: u16, code: u32, message: &str) -> Answer {
    Answer::Status(status, format!(r#"{{"error_code": {code}, "message": "{message}"}}"#))
}

/// The number 3, by the schema 7.
const THREE: [u8; 6] = [0, 0, 0, 0, 7, 6];

fn message(error: &thalweg::Error) -> String {
    let mut text = error.message().to_owned();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text += &format!(": {error}");
        cause = error.source();
    }
    text
}

#[test]
fn a_schema_is_requested_once() {
    let fake = Fake::new([long()]);
    let registry = fake.registry().basic_auth("user", "secret");
    let decoder = registry.decoder().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let decoder = decoder.clone();
            thread::spawn(move || {
                (0..100).for_each(|_| assert_eq!(decoder.decode::<i64>(&THREE).unwrap(), 3));
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    // Another decoder of the registry needs no request either.
    let other = registry.decoder_as("\"double\"").unwrap();
    assert_eq!(other.decode::<f64>(&THREE).unwrap(), 3.0);
    let requests = fake.requests();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].starts_with("GET /schemas/ids/7 HTTP/1.1"), "{}", requests[0]);
    let header = "authorization: basic dxnlcjpzzwnyzxq=";
    assert!(requests[0].to_lowercase().contains(header), "{}", requests[0]);
}

#[test]
fn faults_that_pass_are_tried_again() {
    let fake = Fake::new([refused(500, 50001, "busy"), Answer::Garbage, long()]);
    assert_eq!(fake.decoder().decode::<i64>(&THREE).unwrap(), 3);
    assert_eq!(fake.requests().len(), 3);
}

#[test]
fn another_address_is_tried_and_remembered() {
    let (bad, good) = (Fake::new([refused(503, 503, "gone")]), Fake::new([long()]));
    let decoder = SchemaRegistry::new([&bad.url, &good.url]).bearer_token("t").decoder().unwrap();
    assert_eq!(decoder.decode::<i64>(&THREE).unwrap(), 3);
    assert_eq!(decoder.decode::<i64>(&[0, 0, 0, 0, 8, 6]).unwrap(), 3);
    assert_eq!((bad.requests().len(), good.requests().len()), (1, 2));
    assert!(good.requests()[0].to_lowercase().contains("authorization: bearer t\r\n"));
}

#[test]
fn errors_say_what_the_registry_answers() {
    let decode = |answer| {
        let fake = Fake::new([answer]);
        let error = fake.decoder().decode::<i64>(&THREE).unwrap_err();
        let text = message(&error).replace(&fake.url, "URL");
        (error.kind(), text, fake.requests().len())
    };
    let schema = "the schema 7 of the value is not to be had";
    for (answer, kind, expected, requests) in [
        (
            refused(404, 40403, "Schema not found"),
            ErrorKind::Input,
            "URL answers 404: Schema not found",
            1,
        ),
        // Of a wrong address, not of the record.
        (refused(404, 404, "Not Found"), ErrorKind::Config, "URL answers 404: Not Found", 1),
        (
            Answer::Status(404, "<html>no such page".to_owned()),
            ErrorKind::Config,
            "URL answers 404: <html>no such page",
            1,
        ),
        (Answer::Status(302, String::new()), ErrorKind::Config, "URL answers 302: no reason", 1),
        (refused(401, 401, "Unauthorized"), ErrorKind::Config, "URL answers 401: Unauthorized", 1),
        (Answer::Status(403, String::new()), ErrorKind::Config, "URL answers 403: no reason", 1),
        (
            refused(500, 50001, "broken"),
            ErrorKind::Io,
            "the schema registry does not answer: URL: 500: broken",
            3,
        ),
        (
            ok("<html>"),
            ErrorKind::Io,
            "the schema registry does not answer: URL: its answer is not JSON",
            3,
        ),
        (
            ok("{}"),
            ErrorKind::Io,
            "the schema registry's answer is of no use: its answer has no schema",
            1,
        ),
        (
            ok(r#"{"schema": "x", "schemaType": "PROTOBUF"}"#),
            ErrorKind::Input,
            "the registry's schema is of the type PROTOBUF, and not Avro",
            1,
        ),
        (
            ok(r#"{"schema": "\"x\""}"#),
            ErrorKind::Input,
            "the registry's schema cannot be used: `x` is no type",
            1,
        ),
    ] {
        let (found, text, count) = decode(answer);
        assert!(text.starts_with(&format!("{schema}: {expected}")), "{text}");
        assert_eq!((found, count), (kind, requests), "{text}");
    }
}

#[test]
fn a_registry_that_is_not_there_or_silent_is_an_error_in_time() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let registry = SchemaRegistry::new([format!("http://127.0.0.1:{port}")]);
    let decoder = registry.retries(1, Duration::ZERO).decoder().unwrap();
    let error = decoder.decode::<i64>(&THREE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(message(&error).contains(&format!("does not answer: http://127.0.0.1:{port}")));
    let fake = Fake::new([Answer::Silence]);
    let registry = fake.registry().timeout(Duration::from_millis(50)).retries(1, Duration::ZERO);
    let error = registry.decoder().unwrap().decode::<i64>(&THREE).unwrap_err();
    assert!(message(&error).contains("timeout"), "{}", message(&error));
    assert_eq!(fake.requests().len(), 2);
}

#[test]
fn what_has_failed_is_not_requested_for_each_record() {
    let fake = Fake::new([refused(404, 40403, "no")]);
    let decoder = fake.decoder();
    for _ in 0..100 {
        assert_eq!(decoder.decode::<i64>(&THREE).unwrap_err().kind(), ErrorKind::Input);
    }
    assert_eq!(fake.requests().len(), 1);
}

#[test]
fn any_number_of_unknown_schemas_takes_little_memory() {
    let fake = Fake::new([refused(404, 40403, "no")]);
    let decoder = fake.decoder();
    let most = crate::avro::decoder::REMEMBERED;
    for id in 0..most as u32 + 500 {
        let [a, b, c, d] = id.to_be_bytes();
        assert_eq!(
            decoder.decode::<i64>(&[0, a, b, c, d, 6]).unwrap_err().kind(),
            ErrorKind::Input
        );
        assert!(decoder.remembered() <= most);
    }
    assert!(decoder.remembered() > 400);
}

#[test]
fn bytes_of_another_form_are_named_without_a_request() {
    let fake = Fake::new([long()]);
    let decoder = fake.decoder();
    let error = |bytes: &[u8]| decoder.decode::<i64>(bytes).unwrap_err();
    assert_eq!(error(b"").message(), "the value is empty: the id of a schema was expected");
    assert_eq!(error(&[0, 1]).message(), "the value is too short to have the id of a schema");
    let json =
        "the value is not in the form of a schema registry: it begins with 123 in place of 0";
    assert_eq!(error(b"{}{}{}").message(), json);
    assert_eq!(fake.requests().len(), 0);
    let text = message(&error(&THREE[..5]));
    assert_eq!(text, "the value is not the expected Avro (schema 7): its bytes end too early");
}

#[test]
fn a_schema_that_does_not_fit_the_readers_is_named() {
    let fake = Fake::new([long()]);
    let decoder = fake.registry().decoder_as("\"string\"").unwrap();
    let text = message(&decoder.decode::<String>(&THREE).unwrap_err());
    let expected = "the schema 7 of the value does not fit the reader's schema: the writer's long cannot be read as string";
    assert_eq!(text, expected);
}

#[test]
fn references_are_requested_too() {
    let fake = Fake::new([
        ok(
            r#"{"schema": "[\"a.Side\", \"long\"]", "references": [{"name": "a.Side", "subject": "a/side", "version": 3}]}"#,
        ),
        ok(
            r#"{"schema": "{\"type\": \"enum\", \"name\": \"a.Side\", \"symbols\": [\"L\", \"R\"]}"}"#,
        ),
    ]);
    assert_eq!(fake.decoder().decode::<String>(&[0, 0, 0, 0, 7, 0, 2]).unwrap(), "R");
    assert!(fake.requests()[1].starts_with("GET /subjects/a%2Fside/versions/3 "));
}

#[test]
fn a_schema_is_registered_once_under_the_subject_of_its_strategy() {
    const RECORD: &str =
        r#"{"type": "record", "name": "a.R", "fields": [{"name": "x", "type": "int"}]}"#;
    for (subject, path) in [
        ("orders-value", "POST /subjects/orders-value/versions "),
        ("orders-key", "POST /subjects/orders-key/versions "),
        ("a.R", "POST /subjects/a.R/versions "),
        ("orders-a.R", "POST /subjects/orders-a.R "),
        ("mine", "POST /subjects/mine/versions "),
    ] {
        let fake = Fake::new([ok(r#"{"id": 258}"#)]);
        let encoder = fake.registry().encoder("orders", RECORD).unwrap();
        let encoder = match subject {
            "orders-key" => encoder.for_keys(),
            "a.R" => encoder.subject_name(SubjectName::Record),
            "orders-a.R" => encoder.subject_name(SubjectName::TopicRecord).auto_register(false),
            "mine" => encoder.subject("mine"),
            _ => encoder,
        };
        let mut out = vec![9];
        for _ in 0..2 {
            encoder.encode(&serde_json::json!({ "x": -1 }), &mut out).unwrap();
        }
        assert_eq!(out, [9, 0, 0, 0, 1, 2, 1, 0, 0, 0, 1, 2, 1]);
        let requests = fake.requests();
        assert_eq!(requests.len(), 1);
        assert!(requests[0].starts_with(path), "{}", requests[0]);
        assert!(requests[0].ends_with(&serde_json::json!({ "schema": RECORD }).to_string()));
        // What does not fit leaves nothing behind.
        assert!(encoder.encode(&serde_json::json!({ "x": "a" }), &mut out).is_err());
        assert_eq!(out.len(), 13);
    }
}

#[test]
fn another_subject_is_registered_of_its_own() {
    let fake = Fake::new([ok(r#"{"id": 1}"#), ok(r#"{"id": 2}"#)]);
    let one = fake.registry().encoder("orders", "\"long\"").unwrap();
    assert_eq!(one.register().unwrap(), 1);
    assert_eq!(one.clone().subject("other").register().unwrap(), 2);
    assert_eq!(one.clone().register().unwrap(), 1);
}

#[test]
fn versions_of_a_subject_are_requested_before() {
    let fake = Fake::new([
        ok("[1, 3]"),
        ok(r#"{"id": 7, "version": 1, "schema": "\"long\""}"#),
        ok(r#"{"id": 9, "version": 3, "schema": "\"string\""}"#),
        refused(404, 40401, "Subject not found"),
    ]);
    let decoder = fake.registry().decoder_as("\"long\"").unwrap();
    assert_eq!(decoder.prefetch("a-value").unwrap(), 2);
    let requests = fake.requests();
    assert!(requests[2].starts_with("GET /subjects/a-value/versions/3 "), "{}", requests[2]);
    assert_eq!(decoder.decode::<i64>(&THREE).unwrap(), 3);
    let error = decoder.decode::<i64>(&[0, 0, 0, 0, 9, 0]).unwrap_err();
    assert!(error.message().contains("does not fit the reader's schema"), "{error}");
    assert_eq!(fake.requests().len(), 3);
    assert_eq!(decoder.prefetch("b").unwrap_err().kind(), ErrorKind::Config);
}

#[test]
fn schemas_that_the_registry_refuses_are_one_error() {
    let register = |answer| {
        let fake = Fake::new([answer]);
        let error = fake.registry().encoder("orders", "\"long\"").unwrap().register().unwrap_err();
        (error.kind(), message(&error).replace(&fake.url, "URL"))
    };
    let (kind, text) = register(refused(409, 409, "reader type is missing"));
    assert_eq!(kind, ErrorKind::Config);
    let expected = "the schema is not compatible with the subject `orders-value`: URL answers 409: reader type is missing";
    assert_eq!(text, expected);
    let (kind, text) = register(refused(404, 40403, "no"));
    assert_eq!(kind, ErrorKind::Config);
    assert!(text.starts_with("the schema is not registered under the subject `orders-value`: "));
    assert_eq!(register(refused(500, 1, "x")).0, ErrorKind::Io);
}

#[test]
fn settings_that_cannot_be_are_refused() {
    let none: [&str; 0] = [];
    assert!(SchemaRegistry::new(none).decoder().is_err());
    let error = SchemaRegistry::new(["localhost:8081"]).decoder().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let error = SchemaRegistry::new(["http://a"]).encoder("t", "{").unwrap_err();
    assert!(message(&error).starts_with("the schema is no schema of Avro: it is not JSON"));
    let registry = SchemaRegistry::new(["http://a"]).basic_auth("user", "secret");
    assert!(!format!("{registry:?}").contains("secret"));
    let error = SchemaRegistry::new(["http://a b"]).decoder().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    let error = SchemaRegistry::new(["http://a"]).bearer_token("secret\n").decoder().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(!message(&error).contains("secret"), "{}", message(&error));
}

#[test]
fn addresses_with_credentials_are_refused_and_not_printed() {
    for url in ["http://user:secret@a:8081", "user:secret@a", "http://user:secret/x@a"] {
        let registry = SchemaRegistry::new([url]);
        let error = registry.decoder().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(message(&error).contains("basic_auth"));
        assert!(!message(&error).contains("secret") && !format!("{registry:?}").contains("secret"));
    }
}

#[test]
fn redirects_are_refused() {
    let other = Fake::new([long()]);
    let fake = Fake::new([Answer::Redirect(format!("{}/schemas/ids/7", other.url))]);
    let error = fake.decoder().decode::<i64>(&THREE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(message(&error).contains("answers 307"), "{}", message(&error));
    assert_eq!((fake.requests().len(), other.requests().len()), (1, 0));
}

#[test]
fn long_answers_are_cut_in_errors() {
    let long = "ü".repeat(100_000);
    for answer in [
        refused(422, 42201, &long),
        Answer::Status(403, long.clone()),
        refused(503, 503, &long),
        ok(&format!(r#"{{"schema": "\"{long}\""}}"#)),
        ok(&format!(r#"{{"schema": "", "schemaType": "{long}"}}"#)),
    ] {
        let error = Fake::new([answer]).decoder().decode::<i64>(&THREE).unwrap_err();
        assert!(message(&error).len() < 1000, "{}", message(&error).len());
    }
}

#[test]
fn an_id_that_has_failed_is_not_requested_for_each_record() {
    let fake = Fake::new([refused(503, 503, "gone")]);
    let encoder = fake.registry().encoder("orders", "\"long\"").unwrap();
    for _ in 0..20 {
        let error = encoder.clone().encode(&1_i64, &mut Vec::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(message(&error).contains("gone"), "{}", message(&error));
    }
    // The attempts of one request.
    assert_eq!(fake.requests().len(), 3);
}

#[test]
fn references_have_an_end() {
    let of = |version: u32| {
        let next = version + 1;
        ok(&format!(
            r#"{{"schema": "\"long\"", "references": [{{"name": "a", "subject": "a", "version": {next}}}]}}"#
        ))
    };
    let fake = Fake::new((0..1000).map(of));
    let error = fake.decoder().decode::<i64>(&THREE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(message(&error).contains("refers to too many others"), "{}", message(&error));
    assert_eq!(fake.requests().len(), 33);
    let all: Vec<_> = (0..1000)
        .map(|at| format!(r#"{{"name": "a", "subject": "a", "version": {at}}}"#))
        .collect();
    let many = format!(r#"{{"schema": "\"long\"", "references": [{}]}}"#, all.join(","));
    let fake = Fake::new([ok(&many), long()]);
    let error = fake.decoder().decode::<i64>(&THREE).unwrap_err();
    assert!(message(&error).contains("refers to too many others"), "{}", message(&error));
    assert_eq!(fake.requests().len(), 257);
}

#[test]
fn schemas_of_other_kinds_are_faults_of_their_records_alone() {
    let fake = Fake::new([
        ok("[1, 2]"),
        ok(r#"{"id": 9, "version": 1, "schema": "x", "schemaType": "JSON"}"#),
        ok(r#"{"id": 7, "version": 2, "schema": "\"long\""}"#),
    ]);
    // The last answer is given for the other schema, too.
    let decoder = fake.decoder();
    assert_eq!(decoder.prefetch("a").unwrap(), 2);
    assert_eq!(decoder.decode::<i64>(&THREE).unwrap(), 3);
}
