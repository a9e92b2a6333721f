//! A host that meets others, one step after the other: the test makes their connections.

use super::*;
use crate::config::Secret;
use crate::net::tcp::handshake::Step;
use std::io::{Read, Write};
use std::net::TcpStream as StdStream;

fn config(id: usize, first: &str) -> HostConfig {
    HostConfig::new(id, 3, first, Secret::new("the secret of this test"))
}

fn identity(host: u32, address: &str) -> Identity {
    Identity {
        host,
        hosts: 3,
        cores: 1,
        executable: 0,
        credit: 0,
        compression: String::new(),
        lost_after: 1000,
        address: address.to_owned(),
    }
}

fn free_address() -> String {
    format!("127.0.0.1:{}", crate::net::free_port().unwrap())
}

/// Connects a host to this one, which listens there, until each has authenticated the other. Returns the connection, and its
/// token here.
fn join(meeting: &mut Meeting<'_>, at: &str, identity: Identity) -> Result<(StdStream, usize)> {
    let mut stream = StdStream::connect(at).unwrap();
    stream.set_nonblocking(true).unwrap();
    let token = meeting.next_token;
    while meeting.next_token == token {
        meeting.accept()?;
    }
    let secret = meeting.config.secret.clone();
    let mut handshake = Handshake::new(Role::Connects, identity, secret, [token as u8; 32]);
    loop {
        stream.write_all(&handshake.output()).unwrap();
        meeting.advance(token)?;
        let mut bytes = vec![0; handshake.wanted()];
        match stream.read(&mut bytes) {
            Ok(read) => {
                assert!(read > 0, "the connection is closed");
                if let Step::Done(_) = handshake.take(&bytes[..read]).unwrap() {
                    return Ok((stream, token));
                }
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn a_few_connections_are_accepted_at_a_time() {
    let address = free_address();
    let config = config(0, &address);
    let mut meeting = Meeting::new(&config, identity(0, ""), Clock::system()).unwrap();
    let connect = |_| StdStream::connect(&address).unwrap();
    let strangers: Vec<_> = (0..AT_ONCE + 8).map(connect).collect();
    meeting.accept().unwrap();
    assert_eq!(meeting.connections.len(), AT_ONCE);
    // There is no other event for the rest.
    assert_eq!(meeting.until_next(), Duration::ZERO);
    meeting.accept().unwrap();
    assert_eq!(meeting.connections.len(), strangers.len());
    assert!(meeting.until_next() > Duration::ZERO);
}

#[test]
fn a_process_that_connects_again_is_no_second_host() {
    let address = free_address();
    let config = config(0, &address);
    let mut meeting = Meeting::new(&config, identity(0, ""), Clock::system()).unwrap();
    let mut come = |host: u32| {
        let joined = join(&mut meeting, &address, identity(host, &format!("10.0.0.{host}:4711")));
        (joined, meeting.verdict.clone(), meeting.connections.len(), meeting.roster.is_some())
    };
    // Nothing says that the first connection is closed.
    let (first, _, 1, false) = come(1) else { panic!("it is the only one") };
    let (second, verdict, connections, _) = come(1);
    assert_eq!((verdict, connections), (None, 1), "the second has taken its place");
    let (third, None, 2, true) = come(2) else { panic!("not all are there") };
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    // After all have come, it may have missed where they are.
    let error = come(1).0.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Lost);
    assert!(error.to_string().starts_with("host 1 (10.0.0.1:4711) is lost"), "{error}");
    assert!(meeting.joined.contains_key(&1), "it gets the reason, too");
}

#[test]
fn a_process_takes_the_place_of_one_that_is_gone_and_of_no_other() {
    let address = free_address();
    let config = config(0, &address);
    let mut meeting = Meeting::new(&config, identity(0, ""), Clock::system()).unwrap();
    let (gone, before) = join(&mut meeting, &address, identity(1, "10.0.0.1:4711")).unwrap();
    drop(gone);
    // The end of its connection has arrived, and nothing has read it.
    let before = meeting.connections.get_mut(&before).unwrap().socket();
    while !matches!(before.peek(&mut [0]), Ok(0)) {
        std::thread::yield_now();
    }
    let (_there, token) = join(&mut meeting, &address, identity(1, "10.0.0.2:4711")).unwrap();
    assert_eq!((&meeting.verdict, meeting.joined.get(&1)), (&None, Some(&token)));
    let _other = join(&mut meeting, &address, identity(1, "10.0.0.3:4711")).unwrap();
    let verdict = meeting.verdict.unwrap();
    assert_eq!(verdict, "two hosts have the number 1, at 10.0.0.2:4711 and 10.0.0.3:4711");
}

#[test]
fn a_process_may_connect_again_to_another_host_than_the_first() {
    let mut config = config(1, "127.0.0.1:1");
    config.listen = Some("127.0.0.1:0".to_owned());
    let mut meeting = Meeting::new(&config, identity(1, ""), Clock::system()).unwrap();
    let address = meeting.listen().unwrap().to_string();
    let mut come = |host: &str| join(&mut meeting, &address, identity(2, host));
    // This host reads no more from it, as frames may follow, and so does not learn that it is closed.
    let _first = come("0.0.0.0:4711").unwrap();
    let (_second, token) = come("0.0.0.0:4711").unwrap();
    let other = come("0.0.0.0:4712").err().unwrap().to_string();
    assert_eq!(other, "two hosts have the number 2, at 127.0.0.1:4711 and 127.0.0.1:4712");
    assert_eq!(meeting.joined.get(&2), Some(&token));
}

fn minutes(minutes: u32) -> Duration {
    Duration::from_secs(60) * minutes
}

#[test]
fn hosts_may_come_minutes_apart_within_the_limit() {
    let address = free_address();
    let mut config = config(0, &address);
    config.connect_timeout = minutes(10);
    let (clock, identity) = (Clock::simulated(), |host| identity(host, "10.0.0.1:4711"));
    let mut meeting = Meeting::new(&config, identity(0), clock.clone()).unwrap();
    clock.advance_to(nanos(minutes(4)));
    meeting.expire().unwrap();
    let _one = join(&mut meeting, &address, identity(2)).unwrap();
    clock.advance_to(nanos(minutes(9)));
    meeting.expire().unwrap();
    // Nothing else is to be done before the limit.
    assert_eq!(meeting.until_next(), minutes(1) + Duration::from_millis(1));
    let _last = join(&mut meeting, &address, identity(1)).unwrap();
    assert!(meeting.roster.is_some());
    // They have as long again to connect to each other.
    clock.advance_to(nanos(minutes(19)));
    meeting.expire().unwrap();
    meeting.message(1, Message::Connected).unwrap();
    clock.advance_to(nanos(minutes(20)));
    let error = meeting.expire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(
        error.to_string(),
        "host 2 has not connected to all others within 600s (`--connect-timeout`)"
    );
}

#[test]
fn a_host_that_has_not_come_within_minutes_is_named() {
    let address = free_address();
    let mut config = config(0, &address);
    config.connect_timeout = minutes(10);
    let clock = Clock::simulated();
    let mut meeting = Meeting::new(&config, identity(0, ""), clock.clone()).unwrap();
    let _one = join(&mut meeting, &address, identity(2, "10.0.0.1:4711")).unwrap();
    clock.advance_to(nanos(minutes(10)));
    let error = meeting.expire().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(
        error.to_string(),
        "host 1 has not connected within 600s (`--connect-timeout`): was it started, and does it \
         know the address of this first host?"
    );
}

#[test]
fn a_host_calls_the_first_one_for_minutes() {
    let address = free_address();
    let mut config = config(1, &address);
    config.connect_timeout = minutes(10);
    let clock = Clock::simulated();
    let mut meeting = Meeting::new(&config, identity(1, ""), clock.clone()).unwrap();
    // Calls it, and goes on until that has failed or the connection is there.
    let mut call = |minute: u32| {
        clock.advance_to(nanos(minutes(minute)));
        meeting.call().unwrap();
        while let Some(token) = meeting.calls.get(&FIRST).and_then(|call| call.token) {
            if meeting.connections[&token].is_established() {
                return Ok(true);
            }
            meeting.advance(token).unwrap();
            std::thread::yield_now();
        }
        assert!(meeting.until_next() <= LONGEST_PAUSE + Duration::from_millis(1));
        meeting.expire().map(|()| false)
    };
    (0..9).for_each(|minute| assert!(!call(minute).unwrap()));
    let first = std::net::TcpListener::bind(&address).unwrap();
    assert!(call(9).unwrap());
    drop(first);

    let mut other = Meeting::new(&config, identity(1, ""), Clock::simulated()).unwrap();
    other.clock.advance_to(nanos(minutes(10)));
    let error = other.expire().unwrap_err();
    let expected =
        format!("host 0 could not be reached at {address} within 600s (`--connect-timeout`): ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[test]
fn a_neighbour_of_the_first_host_is_reached_where_the_first_is() {
    let first = |text: &str| Some(text.parse().unwrap());
    let away = first("10.0.0.1:4711");
    assert_eq!(seen_from_here("127.0.0.1:77", away), "10.0.0.1:77");
    assert_eq!(seen_from_here("10.0.0.2:77", away), "10.0.0.2:77");
    assert_eq!(seen_from_here("127.0.0.1:77", first("127.0.0.1:4711")), "127.0.0.1:77");
    assert_eq!(seen_from_here("node:77", away), "node:77");
    assert_eq!(seen_from_here("127.0.0.1:77", None), "127.0.0.1:77");
}
