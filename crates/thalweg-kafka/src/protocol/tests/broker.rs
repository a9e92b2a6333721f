//! What becomes of a broker's answers, by one that gives those that a test wants.

use crate::protocol::answer::Limits;
use crate::protocol::coordinator::Described;
use crate::protocol::{Cluster, Connection, Coordinator, ProducerId, Refusal, Settings, Topics};
use rdkafka::config::ClientConfig;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use thalweg::ErrorKind;

const PRODUCER: ProducerId = ProducerId { id: 1000, epoch: 7 };

/// What brokers take: keys with the first and the last version.
pub(super) const VERSIONS: [(i16, i16, i16); 7] =
    [(10, 0, 6), (17, 0, 1), (18, 0, 4), (22, 0, 5), (26, 0, 5), (36, 0, 2), (65, 0, 0)];

/// Starts a broker that answers to a request's key and body with a body, or closes the connection.
pub(super) fn broker(answers: impl Fn(i16, &[u8]) -> Option<Vec<u8>> + Send + 'static) -> u16 {
    frames(move |key, number, body| {
        let tags: &[u8] = if matches!(key, 3 | 65) { &[0] } else { &[] };
        let body = [number, tags, &answers(key, body)?].concat();
        Some([&(body.len() as i32).to_be_bytes()[..], &body].concat())
    })
}

#[test]
fn a_request_for_records_that_is_not_answered_in_time_is_said_to_be_late() {
    // How much of an answer comes at once; the rest is late.
    let at_once = Arc::new(AtomicUsize::new(usize::MAX));
    let first = Arc::clone(&at_once);
    let port = parts(move |key, number, _| {
        let body = match key {
            18 => [number, &versions(&[(1, 0, 13), (18, 0, 4)])].concat(),
            // No error, no session and no topics.
            _ => [number, &[0; 1], &[0; 4], &[0; 2], &[0; 4], &[1, 0]].concat(),
        };
        let mut answer = [&(body.len() as i32).to_be_bytes()[..], &body].concat();
        let rest = answer.split_off(first.load(Ordering::SeqCst).min(answer.len()));
        Some([answer, rest])
    });
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", format!("127.0.0.1:{port}"));
    let settings = Settings::new(&config, None).unwrap();
    let mut connection = Connection::new(&settings, "127.0.0.1", port).unwrap();
    let wait = Duration::from_millis(10);
    let limits = Limits { wait, least: 1, most: 512, are_committed: true };
    let mut fetch = |now| {
        at_once.store(now, Ordering::SeqCst);
        let mut said = 0;
        let late = || said += 1;
        let fetched = connection.fetch(&limits, &[], late, |_| Vec::new(), |_, _, _| {});
        assert_eq!(fetched, Ok(Duration::ZERO));
        said
    };
    // Once of a few times, as the machine may be slow.
    assert!((0..5).any(|_| fetch(usize::MAX) == 0));
    assert_eq!([0, 2, 7].map(&mut fetch), [1; 3]);
    assert!((0..5).any(|_| fetch(usize::MAX) == 0));
}

/// Starts a broker that answers with whole frames to a request's key, number and body.
fn frames(answers: impl Fn(i16, &[u8], &[u8]) -> Option<Vec<u8>> + Send + 'static) -> u16 {
    parts(move |key, number, body| Some([answers(key, number, body)?, Vec::new()]))
}

/// The same, by a broker that pauses before the second part of an answer, if there is any.
fn parts(answers: impl Fn(i16, &[u8], &[u8]) -> Option<[Vec<u8>; 2]> + Send + 'static) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            while let Some(request) = request(&mut stream) {
                let key = i16::from_be_bytes(request[..2].try_into().unwrap());
                // Behind what the client calls itself.
                let all = answers(key, &request[4..8], &request[17..]);
                let Some([first, rest]) = all else { break };
                stream.write_all(&first).unwrap();
                if !rest.is_empty() {
                    thread::sleep(Duration::from_millis(1_500));
                    stream.write_all(&rest).unwrap();
                }
            }
        }
    });
    port
}

fn request(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut request = vec![0; i32::from_be_bytes(length) as usize];
    stream.read_exact(&mut request).ok()?;
    Some(request)
}

pub(super) fn versions(all: &[(i16, i16, i16)]) -> Vec<u8> {
    let mut body = [&[0, 0][..], &(all.len() as i32).to_be_bytes()].concat();
    for (key, first, last) in all {
        body.extend([key.to_be_bytes(), first.to_be_bytes(), last.to_be_bytes()].concat());
    }
    body
}

fn found(code: i16, host: &str, port: i32) -> Vec<u8> {
    let host = [&(host.len() as i16).to_be_bytes()[..], host.as_bytes()].concat();
    let head = [&[0; 4][..], &code.to_be_bytes(), &[0xff, 0xff], &1i32.to_be_bytes()].concat();
    [&head[..], &host, &port.to_be_bytes()].concat()
}

fn ended(code: i16) -> Vec<u8> {
    [&[0; 4][..], &code.to_be_bytes()].concat()
}

/// Of the producer, without topics.
fn described(code: i16, state: &str) -> Vec<u8> {
    let state = [&[state.len() as u8 + 1], state.as_bytes()].concat();
    let head = [&[0, 0, 0, 0, 2][..], &code.to_be_bytes(), b"\x05name", &state, &[0; 12]].concat();
    let producer = [&PRODUCER.id.to_be_bytes()[..], &PRODUCER.epoch.to_be_bytes()].concat();
    [&head[..], &producer, &[1, 0, 0]].concat()
}

fn coordinator(servers: &str) -> Coordinator {
    let mut config = ClientConfig::new();
    Coordinator::new(config.set("bootstrap.servers", servers), None).unwrap()
}

/// With two brokers, of which the other is the coordinator.
fn cluster(last: impl Fn(i16, &[u8]) -> Option<Vec<u8>> + Send + 'static) -> Coordinator {
    let port = broker(move |key, body| match key {
        18 => Some(versions(&VERSIONS)),
        _ => last(key, body),
    });
    let first = broker(move |key, body| match key {
        18 => Some(versions(&VERSIONS)),
        10 => {
            assert_eq!(body, b"\0\x04name\x01");
            Some(found(0, "127.0.0.1", i32::from(port)))
        }
        _ => None,
    });
    coordinator(&format!("127.0.0.1:{first}"))
}

/// What becomes of the code that the coordinator answers a commit with.
fn committed(code: i16) -> Result<(), Refusal> {
    let at = cluster(move |key, body| {
        assert_eq!(key, 26);
        assert_eq!(body, b"\0\x04name\0\0\0\0\0\0\x03\xe8\0\x07\x01");
        Some(ended(code))
    });
    at.commit("name", PRODUCER)
}

fn later(refusal: Refusal, says: &str) {
    match refusal {
        Refusal::Later(what) => assert!(what.contains(says), "{what}"),
        other => panic!("{other:?}"),
    }
}

fn hopeless(refusal: Refusal, says: &str) {
    match refusal {
        Refusal::Final(error) => {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(says), "{error}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_coordinator_commits() {
    committed(0).unwrap();
    for (code, name) in
        [(47, "INVALID_PRODUCER_EPOCH"), (48, "INVALID_TXN_STATE"), (90, "PRODUCER_FENCED")]
    {
        match committed(code).unwrap_err() {
            Refusal::Gone(gone) => assert_eq!(gone, name),
            other => panic!("{other:?}"),
        }
    }
    for (code, name) in [(49, "INVALID_PRODUCER_ID_MAPPING"), (105, "TRANSACTIONAL_ID_NOT_FOUND")] {
        match committed(code).unwrap_err() {
            Refusal::Forgotten(forgotten) => assert_eq!(forgotten, name),
            other => panic!("{other:?}"),
        }
    }
    for (code, says) in
        [(14, "LOAD"), (16, "NOT_COORDINATOR"), (51, "CONCURRENT"), (-1, "error -1")]
    {
        later(committed(code).unwrap_err(), says);
    }
    let denied = "cannot commit the transaction of name: the brokers do not authorize `Write` on the transactional id `name`";
    hopeless(committed(53).unwrap_err(), denied);
    hopeless(committed(35).unwrap_err(), "UNSUPPORTED_VERSION");
}

#[test]
fn the_coordinator_describes() {
    let describe = |code, state: &'static str| {
        let at = cluster(move |key, body| {
            assert_eq!((key, body), (65, &b"\0\x02\x05name\0"[..]));
            Some(described(code, state))
        });
        at.describe("name")
    };
    for (state, is_open) in [
        ("Ongoing", true),
        ("PrepareCommit", true),
        ("PrepareAbort", true),
        ("Empty", false),
        ("CompleteCommit", false),
        ("CompleteAbort", false),
    ] {
        let expected = Described { producer: PRODUCER, is_open };
        assert_eq!(describe(0, state).unwrap(), Some(expected));
    }
    assert_eq!(describe(105, "").unwrap(), None);
    later(describe(14, "").unwrap_err(), "COORDINATOR_LOAD_IN_PROGRESS");
    hopeless(describe(53, "").unwrap_err(), "cannot look for the transaction of name: the brokers");
}

#[test]
fn the_coordinator_fences() {
    let fence = |code: i16| {
        let at = cluster(move |key, body| {
            assert_eq!((key, body), (22, &b"\0\x04name\0\0\x03\xe8"[..]));
            Some([&[0; 4][..], &code.to_be_bytes(), &[0; 10]].concat())
        });
        at.fence("name")
    };
    fence(0).unwrap();
    // It aborts what is open.
    later(fence(51).unwrap_err(), "CONCURRENT_TRANSACTIONS");
    let denied =
        "cannot begin with the transactional id name: the brokers do not authorize `Write`";
    hopeless(fence(53).unwrap_err(), denied);
}

#[test]
fn coordinators_may_not_be_known_yet() {
    let port = broker(|key, _| match key {
        18 => Some(versions(&VERSIONS)),
        _ => Some(found(15, "", -1)),
    });
    let at = coordinator(&format!("127.0.0.1:{port}"));
    later(at.commit("name", PRODUCER).unwrap_err(), "COORDINATOR_NOT_AVAILABLE");
}

#[test]
fn old_brokers_are_named() {
    let port = broker(move |key, _| match key {
        18 => Some(versions(&VERSIONS[..6])),
        10 => None,
        _ => panic!("a request that is not known"),
    });
    let other = broker(move |key, _| match key {
        18 => Some(versions(&VERSIONS[..6])),
        10 => Some(found(0, "127.0.0.1", i32::from(port))),
        _ => panic!("a request that is not known"),
    });
    let refusal = coordinator(&format!("127.0.0.1:{other}")).describe("name").unwrap_err();
    hopeless(
        refusal,
        "does not know the request DescribeTransactions of version 0: brokers of version 3.0 or later",
    );
}

/// The first two are not there, and do not answer.
#[test]
fn all_brokers_are_tried() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let closes = broker(|_, _| None);
    let one = format!("127.0.0.1:{free}");
    later(coordinator(&one).commit("name", PRODUCER).unwrap_err(), "refused");
    let two = format!("{one},127.0.0.1:{closes}");
    later(coordinator(&two).commit("name", PRODUCER).unwrap_err(), "closed the connection");
    let port = cluster(|_, _| Some(ended(0))).settings.brokers[0].1;
    coordinator(&format!("{two},127.0.0.1:{port}")).commit("name", PRODUCER).unwrap();
    hopeless(coordinator("").commit("name", PRODUCER).unwrap_err(), "names no broker");
}

#[test]
fn answers_that_make_no_sense_are_errors() {
    let torn = "not one of Kafka's protocol; with TLS, `security.protocol` is `ssl`";
    let check = |says: &str, answer: fn(&[u8]) -> Vec<u8>| {
        let port = frames(move |_, number, _| Some(answer(number)));
        let at = coordinator(&format!("127.0.0.1:{port}"));
        later(at.commit("name", PRODUCER).unwrap_err(), says);
    };
    // Longer than what is taken, of less than no bytes, an alert of TLS, of another number, without a body.
    check(torn, |_| b"\x01\0\0\x01".to_vec());
    check(torn, |_| b"\xff\xff\xff\xff".to_vec());
    check(torn, |_| b"\x15\x03\x03\0\x02\x02\x28".to_vec());
    check(torn, |_| b"\0\0\0\x0a\0\0\x01\0\0\0\0\0\0\0".to_vec());
    check(torn, |number| [b"\0\0\0\x04", number].concat());
    check(torn, |_| b"\0\0\0\0".to_vec());
}

/// The first broker sends half an answer and closes; the last one describes another transaction.
#[test]
fn answers_to_something_else_are_errors() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let half = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        request(&mut stream).unwrap();
        stream.write_all(b"\0\0\0\x0a\0\0").unwrap();
    });
    let at = coordinator(&format!("127.0.0.1:{half}"));
    later(at.commit("name", PRODUCER).unwrap_err(), "closed the connection");
    let at = cluster(|_, _| Some(described(0, "Empty")));
    at.describe("name").unwrap();
    let at = cluster(|_, _| {
        let mut body = described(0, "Empty");
        body[8] = b'x';
        Some(body)
    });
    later(at.describe("name").unwrap_err(), "not one of Kafka's protocol");
}

#[test]
fn passwords_are_said_or_refused() {
    let refusal = |handshake: Vec<u8>, code: i16| {
        let port = broker(move |key, body| match key {
            18 => Some(versions(&VERSIONS)),
            17 => {
                assert_eq!(body, b"\0\x05PLAIN");
                Some(handshake.clone())
            }
            36 => {
                assert_eq!(body, b"\0\0\0\x09\0user\0pas");
                Some([&code.to_be_bytes()[..], b"\0\x02no\0\0\0\0", &[0; 8]].concat())
            }
            _ => None,
        });
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", format!("127.0.0.1:{port}"));
        config.set("security.protocol", "sasl_plaintext").set("sasl.mechanism", "PLAIN");
        config.set("sasl.username", "user").set("sasl.password", "pas");
        Coordinator::new(&config, None).unwrap().commit("name", PRODUCER).unwrap_err()
    };
    let known = || b"\0\0\0\0\0\x01\0\x05PLAIN".to_vec();
    // Accepted: then the broker closes.
    later(refusal(known(), 0), "closed the connection");
    let advice = "no; see `sasl.mechanism`, `sasl.username` and `sasl.password`";
    hopeless(refusal(known(), 58), advice);
    hopeless(
        refusal(b"\0\x21\0\0\0\x01\0\x05OTHER".to_vec(), 0),
        "the broker takes OTHER, and not PLAIN",
    );
    hopeless(refusal(b"\0\x22\0\0\0\0".to_vec(), 0), "the broker takes no logins there");
}

#[test]
fn names_have_a_longest_length() {
    let name = "a".repeat(32_768);
    hopeless(
        coordinator("localhost:1").commit(&name, PRODUCER).unwrap_err(),
        "at most 32767 bytes",
    );
}

fn topics(port: u16) -> Topics {
    let mut config = ClientConfig::new();
    Topics::new(config.set("bootstrap.servers", format!("127.0.0.1:{port}")), None).unwrap()
}

#[test]
fn topics_have_ids_also_when_the_connection_was_closed_meanwhile() {
    let asked = AtomicUsize::new(0);
    let port = broker(move |key, body| match key {
        18 => Some(versions(&[(3, 0, 13), (18, 0, 4)])),
        _ => {
            assert_eq!((key, body.len()), (3, 1 + 1 + 16 + 2 + 1 + 4));
            // Of two topics, of which the other is not known.
            let head = b"\0\0\0\0\x01\0\0\0\0\x01\x03";
            let first = b"\0\0\x02t0123456789abcdef\0\x01\0\0\0\0\0";
            let second = b"\0\x03\x02u0123456789abcdef\0\x01\0\0\0\0\0";
            let answer = [&head[..], first, second, b"\0\0\0\0\0"].concat();
            (asked.fetch_add(1, Ordering::SeqCst) != 1).then_some(answer)
        }
    });
    let mut topics = topics(port);
    for _ in 0..2 {
        let found = topics.ids(&["t"]).unwrap();
        let [(name, id)] = &found[..] else { panic!("{found:?}") };
        assert_eq!((name.as_str(), id.to_string()), ("t", "MDEyMzQ1Njc4OWFiY2RlZg".to_owned()));
    }
}

/// As while a partition has no leader, which another broker may know.
#[test]
fn connections_to_brokers_that_are_asked_in_turn_stay_open() {
    let opened = Arc::<[AtomicUsize; 2]>::default();
    let asked = Arc::<[AtomicUsize; 2]>::default();
    let ports = [0, 1].map(|at| {
        let (opened, asked) = (Arc::clone(&opened), Arc::clone(&asked));
        broker(move |key, _| {
            let count = if key == 18 { &opened } else { &asked };
            count[at].fetch_add(1, Ordering::SeqCst);
            // Neither brokers nor topics.
            let nothing = b"\0\0\0\0\x01\0\0\0\0\x01\x01\0\0\0\0\0".to_vec();
            Some(if key == 18 { versions(&[(3, 0, 13), (18, 0, 4)]) } else { nothing })
        })
    });
    let mut config = ClientConfig::new();
    let [one, other] = ports;
    config.set("bootstrap.servers", format!("127.0.0.1:{one},127.0.0.1:{other}"));
    let mut cluster = Cluster::new(Arc::new(Settings::new(&config, None).unwrap()));
    let counts = |all: &[AtomicUsize; 2]| [0, 1].map(|at| all[at].load(Ordering::SeqCst));
    for _ in 0..3 {
        assert!(cluster.topics(["t"].into_iter()).unwrap().is_empty());
    }
    assert_eq!((counts(&opened), counts(&asked)), ([1, 0], [3, 0]));
    for _ in 0..4 {
        cluster.ask_another();
        cluster.topics(["t"].into_iter()).unwrap();
    }
    assert_eq!((counts(&opened), counts(&asked)), ([1, 1], [5, 2]));
}

#[test]
fn topics_of_old_brokers_have_no_ids() {
    let port = broker(|key, _| (key == 18).then(|| versions(&[(3, 0, 9), (18, 0, 4)])));
    let why = topics(port).ids(&["t"]).unwrap_err();
    assert!(why.contains("does not know the request Metadata of version 10"), "{why}");
}
