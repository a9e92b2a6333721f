//! Hosts on threads of this process that connect over loopback, and strangers between them.

#[cfg(all(feature = "tls", unix))]
mod encrypted;

use super::thread::MUCH;
use super::*;
use crate::config::Secret;
use crate::data::splitmix64;
use crate::flow::Signals;
use crate::net::{Part, Receive};
use crate::sync::{Mutex, lock};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream as StdStream};
use std::time::Instant;

const SECRET: &str = "the secret of these tests";
const MINUTE: Duration = Duration::from_secs(60);

fn port() -> u16 {
    free_port().unwrap()
}

fn config(id: usize, count: usize, port: u16) -> HostConfig {
    let mut config = HostConfig::new(id, count, format!("127.0.0.1:{port}"), Secret::new(SECRET));
    config.connect_timeout = Duration::from_secs(30);
    config
}

fn identity(config: &HostConfig) -> Identity {
    Identity {
        host: config.id as u32,
        hosts: config.count as u32,
        cores: 1 + config.id as u32,
        executable: 7,
        credit: 100,
        compression: config.compression.to_string(),
        lost_after: config.lost_after.as_millis() as u64,
        address: String::new(),
    }
}

fn connect_as(config: &HostConfig, identity: Identity) -> Result<(TcpNetwork, Vec<usize>)> {
    TcpNetwork::connect_as(config, identity, Clock::system())
}

/// Connects hosts, each on a thread, after `edit` has changed what it is.
fn meet(
    count: usize,
    port: u16,
    edit: impl Fn(usize, &mut HostConfig, &mut Identity) + Sync,
) -> Vec<Result<(TcpNetwork, Vec<usize>)>> {
    let edit = &edit;
    std::thread::scope(|scope| {
        let start = |id| {
            scope.spawn(move || {
                let mut config = config(id, count, port);
                let mut identity = identity(&config);
                edit(id, &mut config, &mut identity);
                connect_as(&config, identity)
            })
        };
        let threads: Vec<_> = (0..count).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn networks(count: usize) -> Vec<TcpNetwork> {
    let met = meet(count, port(), |_, _, _| ());
    met.into_iter().map(|met| met.unwrap().0).collect()
}

/// Keeps what arrives.
#[derive(Default)]
struct Keep {
    frames: Mutex<Vec<(usize, Vec<u8>)>>,
    lost: Mutex<Vec<(usize, String)>>,
}

impl Receive for Keep {
    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        lock(&self.frames).push((from.0, frame.to_vec()));
        Ok(())
    }

    fn lost(&self, host: HostId, how: &str) {
        lock(&self.lost).push((host.0, how.to_owned()));
    }
}

fn edge(job: u64, edge: usize) -> Channel {
    Channel { job, part: Part::Edge(edge) }
}

fn open(network: &TcpNetwork, channel: Channel) -> Arc<Keep> {
    let keep = Arc::new(Keep::default());
    network.shared.open(channel, Receiver::new(Arc::clone(&keep) as _, Arc::default()));
    keep
}

/// Waits until something holds; at most a minute.
fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < MINUTE, "it does not happen");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn loss(keep: &Keep) -> (usize, String) {
    until(|| !lock(&keep.lost).is_empty());
    lock(&keep.lost)[0].clone()
}

fn message<T>(result: Result<T>) -> String {
    result.err().expect("the hosts do not fit").to_string()
}

#[test]
fn every_host_knows_the_cores_of_all() {
    for count in [2, 3, 7] {
        for met in meet(count, port(), |_, _, _| ()) {
            assert_eq!(met.unwrap().1, (1..=count).collect::<Vec<_>>());
        }
    }
}

/// The numbers of the frames that have arrived, which are in their first bytes.
fn numbers(keep: &Keep) -> Vec<u32> {
    let number = |frame: &[u8]| u32::from_le_bytes(frame[..4].try_into().unwrap());
    lock(&keep.frames).iter().map(|(_, frame)| number(frame)).collect()
}

#[test]
fn threads_that_attend_read_in_order_while_much_arrives() {
    let networks = networks(2);
    let channel = edge(0, 0);
    let keep = open(&networks[1], channel);
    let (from, to) = (&networks[0].shared, &networks[1].shared);
    to.set_attended(true);
    let send = |number: u32, bytes: usize| {
        let mut frame = number.to_le_bytes().to_vec();
        frame.resize(bytes, 0);
        from.send(HostId(1), channel, frame);
    };
    let (mut sent, mut attended) = (0, 0);
    let began = Instant::now();
    while attended < 20 {
        assert!(began.elapsed() < MINUTE, "the network's thread never naps");
        for _ in 0..8 {
            send(sent, MUCH / 4);
            sent += 1;
        }
        attended += usize::from(to.attend());
    }
    // Nobody attends any more, and little arrives.
    until(|| numbers(&keep).len() == sent as usize);
    to.set_attended(false);
    for _ in 0..20 {
        send(sent, 4);
        sent += 1;
        until(|| numbers(&keep).len() == sent as usize);
    }
    assert!(numbers(&keep).into_iter().eq(0..sent));
}

#[test]
fn a_mismatch_has_the_same_message_on_every_host() {
    type Edit = fn(usize, &mut HostConfig, &mut Identity);
    let mismatches: [(Edit, &str); 4] = [
        (|id, _, identity| identity.executable += (id == 1) as u64, "hosts 0 ("),
        (|id, _, identity| identity.credit += (id == 2) as u64, "host 2 has 101"),
        (
            |id, config, identity| {
                config.count += usize::from(id == 1);
                identity.hosts += u32::from(id == 1);
            },
            "host 0 was started as one of 3 hosts, and host 1 as one of 4",
        ),
        (
            |id, config, identity| {
                config.id = config.id.min(1);
                identity.host = config.id as u32;
                // The other one has come by then.
                std::thread::sleep(Duration::from_millis(300 * u64::from(id == 2)));
            },
            "two hosts have the number 1, at 127.0.0.1:",
        ),
    ];
    for (edit, expected) in mismatches {
        let messages: Vec<_> = meet(3, port(), edit).into_iter().map(message).collect();
        assert!(messages[0].contains(expected), "{messages:?}");
        assert!(messages.iter().all(|message| *message == messages[0]), "{messages:?}");
        assert!(!messages[0].contains(SECRET));
    }
}

#[test]
fn a_host_with_another_secret_is_refused_and_named_to_all() {
    let messages: Vec<_> = meet(3, port(), |id, config, _| {
        config.connect_timeout = Duration::from_secs(2);
        if id == 1 {
            config.secret = Secret::new("the secret of other tests");
        }
    })
    .into_iter()
    .map(message)
    .collect();
    assert!(
        messages[1].contains("has refused this host, which has another secret"),
        "{messages:?}"
    );
    for other in [&messages[0], &messages[2]] {
        assert!(other.contains("host 1 has not connected within 2s"), "{other}");
        assert!(other.contains("it does not know the secret"), "{other}");
    }
    assert!(messages.iter().all(|message| !message.contains("of other tests")));
}

#[test]
fn hosts_that_do_not_come_are_named() {
    let mut alone = config(0, 4, port());
    alone.connect_timeout = Duration::from_millis(300);
    let error = connect_as(&alone, identity(&alone)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::TimedOut);
    assert_eq!(
        error.to_string(),
        "hosts 1, 2 and 3 have not connected within 300ms (`--connect-timeout`): were they started, \
         and do they know the address of this first host?"
    );

    let mut alone = config(2, 4, port());
    alone.connect_timeout = Duration::from_millis(300);
    let error = message(connect_as(&alone, identity(&alone)));
    let expected = format!(
        "host 0 could not be reached at {} within 300ms (`--connect-timeout`): ",
        alone.first
    );
    assert!(error.starts_with(&expected) && error.contains("refused"), "{error}");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let first = config(0, 2, address.port());
    let error = connect_as(&first, identity(&first)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(error.to_string().starts_with(&format!("this host cannot listen at {address}: ")));
}

#[test]
fn an_address_of_another_machine_is_explained() {
    // An address for documentation, which no machine has.
    let mut first = config(0, 2, 4711);
    first.first = "192.0.2.1:4711".to_owned();
    let failed = |first: &HostConfig| message(connect_as(first, identity(first)));
    let explained = "host 0 has to run on the machine of that address";
    assert!(failed(&first).contains(explained));
    first.listen = Some("192.0.2.1:4711".to_owned());
    assert!(!failed(&first).contains(explained), "the program has said where to listen");
}

#[test]
fn another_program_at_the_port_of_the_first_host_is_recognised() {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let second = config(1, 2, other.local_addr().unwrap().port());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = other.accept().unwrap();
            // It is read first, so that closing it does not reset the connection.
            let _ = stream.read(&mut [0; 100]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        });
        let said = message(connect_as(&second, identity(&second)));
        assert!(said.ends_with("is no host of a job: another program has this port"), "{said}");
    });
}

#[test]
fn hosts_wait_for_each_other() {
    for late in 0..3 {
        let met = meet(3, port(), |id, _, _| {
            std::thread::sleep(Duration::from_millis(700 * u64::from(id == late)));
        });
        met.into_iter().for_each(|met| drop(met.unwrap()));
    }
}

#[test]
fn a_host_listens_at_the_address_that_it_is_given() {
    let met = meet(3, port(), |id, config, _| {
        if id > 0 {
            config.listen = Some("0.0.0.0:0".to_owned());
        }
    });
    met.into_iter().for_each(|met| drop(met.unwrap()));
}

/// Connects again and again, and does this with the connection, until the hosts are connected.
fn strange(port: u16, done: &AtomicBool, mut act: impl FnMut(StdStream)) {
    while !done.load(Ordering::Acquire) {
        match StdStream::connect(("127.0.0.1", port)) {
            Ok(stream) => act(stream),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

#[test]
fn strangers_keep_no_host_from_connecting() {
    let (port, done) = (port(), AtomicBool::new(false));
    let done = &done;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut seed = 1;
            strange(port, done, |mut stream| {
                // Garbage, also behind a right beginning.
                let begins: &[u8] =
                    if splitmix64(&mut seed) > u64::MAX / 2 { b"thalweg\n" } else { b"" };
                let garbage: Vec<u8> = (0..200).map(|_| splitmix64(&mut seed) as u8).collect();
                let _ = stream.write_all(begins).and_then(|()| stream.write_all(&garbage));
                let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
                let _ = stream.read(&mut [0; 100]);
            });
        });
        scope.spawn(move || {
            // Many that are silent for ever.
            let mut silent = Vec::new();
            strange(port, done, |mut stream| {
                let _ = stream.write_all(&b"thalweg\n"[..silent.len() % 9]);
                silent.push(stream);
                if silent.len() > 300 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        });
        // The last host comes when the strangers are there.
        let met = meet(3, port, |id, _, _| {
            std::thread::sleep(Duration::from_millis(500 * u64::from(id == 2)));
        });
        done.store(true, Ordering::Release);
        let networks: Vec<_> = met.into_iter().map(|met| met.unwrap().0).collect();
        // The listening socket is closed when all are connected.
        assert!(StdStream::connect(("127.0.0.1", port)).is_err());
        drop(networks);
    });
}

#[test]
fn a_host_half_way_outlasts_strangers() {
    let port = port();
    std::thread::scope(|scope| {
        let first =
            scope.spawn(move || connect_as(&config(0, 2, port), identity(&config(0, 2, port))));
        let connect = || loop {
            match StdStream::connect(("127.0.0.1", port)) {
                Ok(stream) => return stream,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        };
        let other = config(1, 2, port);
        let mut handshake =
            Handshake::new(Role::Connects, identity(&other), other.secret.clone(), [3; 32]);
        let mut half_way = connect();
        half_way.write_all(&handshake.output()).unwrap();
        // The first host has answered, so it knows the greeting.
        let mut greeting = [0; 44];
        half_way.read_exact(&mut greeting[..1]).unwrap();
        let silent: Vec<_> = (0..300).map(|_| connect()).collect();
        // The last is served after the others.
        let mut last = connect();
        last.write_all(b"GET /").unwrap();
        assert_eq!(last.read(&mut [0; 1]).unwrap_or_default(), 0, "it is refused");
        // The one that is half way goes on, and is accepted.
        half_way.set_read_timeout(Some(MINUTE)).unwrap();
        half_way.read_exact(&mut greeting[1..]).unwrap();
        assert!(matches!(handshake.take(&greeting), Ok(Step::Read(1))));
        half_way.write_all(&handshake.output()).unwrap();
        let mut answer = [0; 1];
        half_way.read_exact(&mut answer).expect("the connection is there");
        assert!(matches!(handshake.take(&answer), Ok(Step::Read(_))), "{answer:?}");
        drop((silent, half_way));
        // Where the connection breaks before the last byte was written, the host may still connect again in time.
        let kind = first.join().unwrap().err().unwrap().kind();
        assert!([ErrorKind::Lost, ErrorKind::TimedOut].contains(&kind), "{kind:?}");
    });
}

#[test]
fn frames_of_many_senders_arrive_whole_and_in_order() {
    let hosts = networks(3);
    let channels: Vec<_> = (0..4).map(|number| edge(1, number)).collect();
    const FRAMES: u64 = 3000;
    let size = |number: u64| if number % 500 == 7 { 700_000 } else { 16 + number as usize % 3000 };
    let mut keeps = Vec::new();
    std::thread::scope(|scope| {
        for (me, host) in hosts.iter().enumerate() {
            for channel in &channels {
                let others = (0..3).filter(move |other| *other != me).map(HostId);
                scope.spawn(move || {
                    for number in 0..FRAMES {
                        for to in others.clone() {
                            let mut frame = number.to_le_bytes().to_vec();
                            frame.resize(size(number), number as u8);
                            host.shared.send(to, *channel, frame);
                        }
                    }
                });
            }
        }
        // Channels are opened while frames arrive.
        std::thread::sleep(Duration::from_millis(20));
        for channel in &channels {
            keeps.extend(hosts.iter().map(|host| open(host, *channel)));
        }
    });
    for keep in &keeps {
        until(|| lock(&keep.frames).len() as u64 == 2 * FRAMES);
        let mut next = [0u64; 3];
        for (from, frame) in lock(&keep.frames).iter() {
            let number = next[*from];
            next[*from] += 1;
            assert_eq!(frame[..8], number.to_le_bytes());
            assert_eq!(frame.len(), size(number));
            assert!(frame[8..].iter().all(|byte| *byte == number as u8));
        }
    }
    assert!(keeps.iter().all(|keep| lock(&keep.lost).is_empty()));
}

#[test]
fn a_host_that_leaves_has_sent_everything_and_is_lost_to_later_jobs_only() {
    let mut hosts = networks(2);
    let second = hosts.pop().unwrap();
    let first = &hosts[0];
    let channel = edge(0, 0);
    (0..200).for_each(|_| second.shared.send(HostId(0), channel, vec![1; 100_000]));
    second.shared.close(0);
    drop(second);
    let keep = open(first, channel);
    until(|| lock(&keep.frames).len() == 200);
    assert!(lock(&keep.lost).is_empty());
    let (host, how) = loss(&open(first, edge(1, 0)));
    assert!(host == 1 && how.starts_with("it has left (it was at 127.0.0.1:"), "{how}");
}

/// Drops a network when a frame of it arrives: on the network's own thread, or on one that attends to it.
struct Drops {
    network: Mutex<Option<TcpNetwork>>,
    attended: bool,
    dropped: AtomicBool,
}

impl Receive for Drops {
    fn receive(&self, _: HostId, _: &[u8]) -> Result<()> {
        let is_own = std::thread::current().name() == Some("thalweg-net");
        if is_own != self.attended {
            let network = lock(&self.network).take();
            drop(network);
            self.dropped.store(true, Ordering::Release);
        }
        Ok(())
    }
}

#[test]
fn a_network_may_be_dropped_by_a_thread_that_reads_from_it() {
    for (attended, bytes) in [(false, 1), (true, MUCH)] {
        let mut hosts = networks(2);
        let (second, first) = (hosts.pop().unwrap(), hosts.pop().unwrap());
        let (shared, channel) = (Arc::clone(&second.shared), edge(0, 0));
        let left = open(&first, edge(1, 0));
        let (network, dropped) = (Mutex::new(Some(second)), AtomicBool::new(false));
        let drops = Arc::new(Drops { network, attended, dropped });
        shared.open(channel, Receiver::new(Arc::clone(&drops) as _, Arc::default()));
        shared.set_attended(attended);
        let attending = Arc::clone(&drops);
        let attends = std::thread::spawn(move || {
            while attended && !attending.dropped.load(Ordering::Acquire) {
                shared.attend();
            }
        });
        let began = Instant::now();
        while !drops.dropped.load(Ordering::Acquire) {
            assert!(began.elapsed() < MINUTE, "it waits for itself");
            if !first.shared.is_behind(HostId(1)) {
                first.shared.send(HostId(1), channel, vec![0; bytes]);
            }
        }
        attends.join().unwrap();
        let (host, how) = loss(&left);
        assert!(host == 1 && how.starts_with("it has left"), "{how}");
    }
}

/// A host whose network is not started, so that it says what the test writes, and another one.
fn with_puppet(lost_after: Duration) -> (TcpNetwork, rendezvous::Met) {
    with_puppet_at(lost_after, Clock::system())
}

/// The same, where the other one has this clock.
fn with_puppet_at(lost_after: Duration, clock: Clock) -> (TcpNetwork, rendezvous::Met) {
    let port = port();
    let lasting = |id| {
        let mut config = config(id, 2, port);
        config.lost_after = lost_after;
        config
    };
    std::thread::scope(|scope| {
        let puppet = scope.spawn(move || rendezvous::meet(&lasting(1), identity(&lasting(1))));
        let first = TcpNetwork::connect_as(&lasting(0), identity(&lasting(0)), clock);
        (first.unwrap().0, puppet.join().unwrap().unwrap())
    })
}

#[test]
fn a_host_is_lost_when_it_is_silent_gone_or_sends_nonsense() {
    let long = Duration::from_secs(600);
    let (host, met) = with_puppet(Duration::from_millis(300));
    let keep = open(&host, edge(0, 0));
    let mut stream = &met.streams[&0];
    let frame = Frame::new(edge(0, 0), vec![1, 2, 3]);
    stream.write_all(&[&frame.header[..], &frame.content].concat()).unwrap();
    let (_, how) = loss(&keep);
    assert!(how.starts_with("nothing arrived from it for "), "{how}");
    assert!(
        how.contains(" s; the last frame was of edge 0 of job 0 (it was at 127.0.0.1:"),
        "{how}"
    );
    assert_eq!(lock(&keep.frames).len(), 1);

    let (host, met) = with_puppet(long);
    let keep = open(&host, edge(0, 0));
    drop(met);
    let (_, how) = loss(&keep);
    assert!(how.starts_with("its connection "), "{how}");

    let (host, met) = with_puppet(long);
    let keep = open(&host, edge(0, 0));
    (&met.streams[&0]).write_all(&[0xff; 16]).unwrap();
    let (_, how) = loss(&keep);
    assert!(how.starts_with("it has sent the header of a frame of 4294967295 bytes"), "{how}");
    // What is sent to a host that is lost goes nowhere.
    host.shared.send(HostId(1), edge(0, 0), vec![0; 1000]);
}

#[test]
fn a_connection_that_breaks_is_not_made_again_and_its_frames_arrive_once() {
    let (host, met) = with_puppet(Duration::from_secs(600));
    let keep = open(&host, edge(0, 0));
    let frame = |number: u32| {
        let frame = Frame::new(edge(0, 0), number.to_le_bytes().to_vec());
        [&frame.header[..], &frame.content].concat()
    };
    let mut sent: Vec<_> = (0..10).flat_map(frame).collect();
    sent.extend_from_slice(&frame(10)[..18]);
    (&met.streams[&0]).write_all(&sent).unwrap();
    drop(met);
    let (lost, how) = loss(&keep);
    assert!(lost == 1 && how.starts_with("its connection "), "{how}");
    // Of the last one, a part has arrived.
    assert_eq!(numbers(&keep), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_frame_that_is_too_long_fails_its_job() {
    let hosts = networks(2);
    let signals = Arc::new(Signals::default());
    let receiver = Receiver::new(Arc::new(Keep::default()), Arc::clone(&signals));
    hosts[0].shared.open(edge(0, 0), receiver);
    // Zeros are not in memory before they are read.
    hosts[0].shared.send(HostId(1), edge(0, 0), vec![0; LARGEST + 1]);
    let error = signals.take_failure().unwrap().to_string();
    assert!(
        error.starts_with("1073741825 bytes are to be sent to another host at once"),
        "{error}"
    );
}

/// Waits for a message to the test before it takes a frame, and keeps it.
struct Slow {
    keep: Keep,
    go: Mutex<std::sync::mpsc::Receiver<()>>,
    may_block: bool,
}

impl Receive for Slow {
    fn may_block(&self) -> bool {
        self.may_block
    }

    fn receive(&self, from: HostId, frame: &[u8]) -> Result<()> {
        let _ = lock(&self.go).recv_timeout(MINUTE);
        self.keep.receive(from, frame)
    }

    fn lost(&self, host: HostId, how: &str) {
        self.keep.lost(host, how);
    }
}

/// Opens a channel with such a receiver. It takes frames as soon as the sender is dropped.
fn open_slow(
    network: &TcpNetwork,
    channel: Channel,
    may_block: bool,
) -> (Arc<Slow>, std::sync::mpsc::Sender<()>) {
    let (going, go) = std::sync::mpsc::channel();
    let slow = Arc::new(Slow { keep: Keep::default(), go: Mutex::new(go), may_block });
    network.shared.open(channel, Receiver::new(Arc::clone(&slow) as _, Arc::default()));
    (slow, going)
}

#[test]
fn a_receiver_that_works_for_long_loses_no_host() {
    let lost_after = Duration::from_secs(1);
    let met = meet(3, port(), |_, config, identity| {
        config.lost_after = lost_after;
        identity.lost_after = lost_after.as_millis() as u64;
    });
    let hosts: Vec<_> = met.into_iter().map(|met| met.unwrap().0).collect();
    let keeps: Vec<_> = hosts.iter().map(|host| open(host, edge(0, 0))).collect();
    // It keeps the thread of its host busy that reads, for longer than a host may be silent.
    let (slow, going) = open_slow(&hosts[0], edge(0, 1), false);
    hosts[1].shared.send(HostId(0), edge(0, 1), vec![1]);
    std::thread::sleep(3 * lost_after);
    drop(going);
    until(|| lock(&slow.keep.frames).len() == 1);
    // And for long enough to find a host that has been silent.
    std::thread::sleep(lost_after);
    for keep in keeps {
        assert!(lock(&keep.lost).is_empty(), "{:?}", lock(&keep.lost));
    }
}

#[test]
fn what_is_held_keeps_no_heartbeat_back() {
    let lost_after = Duration::from_secs(1);
    let met = meet(2, port(), |_, config, identity| {
        config.lost_after = lost_after;
        identity.lost_after = lost_after.as_millis() as u64;
    });
    let hosts: Vec<_> = met.into_iter().map(|met| met.unwrap().0).collect();
    let keeps: Vec<_> = hosts.iter().map(|host| open(host, edge(0, 0))).collect();
    // As a task does that works for long after it has sent a watermark.
    let shared = &hosts[0].shared;
    for number in 0..6 {
        shared.hold(HostId(1), edge(0, 0), vec![number]);
        std::thread::sleep(lost_after / 2);
    }
    shared.hold(HostId(1), edge(0, 0), vec![6]);
    shared.flush();
    until(|| lock(&keeps[1].frames).len() == 7);
    for keep in keeps {
        assert!(lock(&keep.lost).is_empty(), "{:?}", lock(&keep.lost));
    }
}

#[test]
fn what_is_held_does_not_wait_for_its_sender() {
    // Heartbeats would take it along after minutes.
    let lost_after = Duration::from_secs(3600);
    let met = meet(2, port(), |_, config, identity| {
        config.lost_after = lost_after;
        identity.lost_after = lost_after.as_millis() as u64;
    });
    let hosts: Vec<_> = met.into_iter().map(|met| met.unwrap().0).collect();
    let keep = open(&hosts[1], edge(0, 0));
    hosts[0].shared.hold(HostId(1), edge(0, 0), vec![1]);
    until(|| lock(&keep.frames).len() == 1);
}

#[test]
fn a_receiver_that_may_block_holds_up_no_other_channel() {
    let mut hosts = networks(2);
    let (slow, going) = open_slow(&hosts[0], edge(0, 0), true);
    let other = open(&hosts[0], edge(0, 1));
    for number in 0..100 {
        hosts[1].shared.send(HostId(0), edge(0, 0), vec![number]);
        hosts[1].shared.send(HostId(0), edge(0, 1), vec![number]);
    }
    until(|| lock(&other.frames).len() == 100);
    assert!(lock(&slow.keep.frames).is_empty());
    // Its own frames stay in order, and a loss comes after them.
    drop(hosts.pop());
    loss(&other);
    assert!(lock(&slow.keep.lost).is_empty());
    drop(going);
    loss(&slow.keep);
    let expected: Vec<_> = (0..100).map(|number| (1, vec![number])).collect();
    assert_eq!(*lock(&slow.keep.frames), expected);
    // The thread ends with the channel.
    hosts[0].shared.close(0);
    until(|| Arc::strong_count(&slow) == 1);
}

#[test]
fn a_host_flushes_what_it_has_sent_before_its_process_ends() {
    let (host, met) = with_puppet(Duration::from_secs(600));
    // More than the system takes before the other side reads.
    for _ in 0..64 {
        host.shared.send(HostId(1), edge(0, 0), vec![0; 1 << 20]);
    }
    let peer = &host.shared.peers[&HostId(1)];
    assert!(!peer.outgoing.is_idle());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, mut buffer) = (&met.streams[&0], vec![0; 1 << 20]);
            let began = Instant::now();
            // It does not block.
            while !peer.outgoing.is_idle() && began.elapsed() < MINUTE {
                let _ = stream.read(&mut buffer);
            }
        });
        host.network().flush();
        assert!(peer.outgoing.is_idle());
    });
}

/// Sends notices by a connection that does not block, and returns the next that arrives.
fn converse(mut stream: &Stream, sent: &[Notice], reader: &mut FrameReader) -> Notice {
    for notice in sent {
        let frame = Frame::notice(*notice);
        stream.write_all(&[&frame.header[..], &frame.content].concat()).unwrap();
    }
    let (mut next, mut buffer, began) = (None, [0; 1000], Instant::now());
    loop {
        assert!(began.elapsed() < MINUTE, "nothing arrives");
        if let Ok(read @ 1..) = stream.read(&mut buffer) {
            let take = |arrived: Arrived<'_>| {
                let Arrived::Notice(notice) = arrived else { panic!("{arrived:?}") };
                assert_eq!(next.replace(notice), None, "it sends one at a time");
            };
            reader.read(&buffer[..read], take).unwrap();
        }
        if let Some(next) = next {
            return next;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_host_estimates_the_clock_of_another_by_its_answers() {
    let (host, met) = with_puppet(Duration::from_secs(600));
    let (stream, mut reader) = (&met.streams[&0], FrameReader::default());
    let mut sent = Vec::new();
    for _ in 0..8 {
        let Notice::ClockRequest(asked) = converse(stream, &sent, &mut reader) else { panic!() };
        // Its clock is a second ahead.
        let then = asked + 1_000_000_000;
        sent = vec![Notice::ClockAnswer { asked, received: then, answered: then }];
    }
    // After so many the host waits for the next heartbeat, but answers.
    sent.push(Notice::ClockRequest(5));
    let answer = converse(stream, &sent, &mut reader);
    let Notice::ClockAnswer { asked: 5, received, answered } = answer else { panic!("{answer:?}") };
    assert!(received <= answered && answered <= host.shared.clock.now(), "{answer:?}");
    let Offset { nanos, uncertainty } = host.shared.clock_offset(HostId(1)).unwrap();
    assert!(nanos.abs_diff(1_000_000_000) <= uncertainty, "{nanos} ± {uncertainty}");
}

#[test]
fn a_heartbeat_is_due_by_the_clock_and_not_after_so_many_ticks() {
    let clock = Clock::simulated();
    let (_host, met) = with_puppet_at(Duration::from_secs(3600), clock.clone());
    let (stream, mut reader) = (&met.streams[&0], FrameReader::default());
    assert_eq!(converse(stream, &[], &mut reader), Notice::ClockRequest(0));
    // As if the host's threads had not run for a quarter of that.
    clock.advance_to(nanos(Duration::from_secs(900)));
    // It has got no answer, and asks for none again.
    assert_eq!(converse(stream, &[], &mut reader), Notice::Alive);
}

#[test]
fn notices_about_clocks_are_read_the_same_wherever_they_are_torn() {
    let times = [0, 7, 1 << 63, u64::MAX];
    let mut bytes = Vec::new();
    for (now, asked) in times.into_iter().zip(times.into_iter().rev()) {
        let [received, answered] = [now, asked];
        let answer = Notice::ClockAnswer { asked, received, answered };
        for notice in [Notice::ClockRequest(now), answer, Notice::Alive] {
            let frame = Frame::notice(notice);
            bytes.extend([&frame.header[..], &frame.content].concat());
        }
    }
    // One that makes sense.
    let sane = Notice::ClockAnswer { asked: 7, received: 20, answered: 30 };
    for notice in [Notice::ClockRequest(7), sane] {
        let frame = Frame::notice(notice);
        bytes.extend([&frame.header[..], &frame.content].concat());
    }
    for torn_at in 0..bytes.len() {
        read_from_host(&bytes, torn_at);
    }
}

#[test]
fn answers_that_make_no_sense_are_not_believed() {
    for [received, answered] in [[u64::MAX, 0], [0, u64::MAX], [u64::MAX, u64::MAX], [1, 0]] {
        let (host, met) = with_puppet(Duration::from_secs(600));
        let (stream, mut reader) = (&met.streams[&0], FrameReader::default());
        let Notice::ClockRequest(asked) = converse(stream, &[], &mut reader) else { panic!() };
        // What was not asked, and what was.
        let [wrong, right] =
            [asked ^ 1, asked].map(|asked| Notice::ClockAnswer { asked, received, answered });
        let sent = [wrong, right, right, Notice::ClockRequest(u64::MAX)];
        let answer = converse(stream, &sent, &mut reader);
        assert!(matches!(answer, Notice::ClockAnswer { asked: u64::MAX, .. }), "{answer:?}");
        assert_eq!(host.shared.clock_offset(HostId(1)), None);
    }
}

/// Ends its job when a host is lost, as where the first host is.
struct Ends(Arc<Shared>);

impl Receive for Ends {
    fn receive(&self, _: HostId, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn lost(&self, _: HostId, _: &str) {
        self.0.close(0);
    }
}

#[test]
fn a_host_that_is_taken_for_lost_does_not_learn_that_a_job_is_over() {
    let (host, met) = with_puppet(Duration::from_millis(300));
    let ends = Ends(Arc::clone(&host.shared));
    host.shared.open(edge(0, 0), Receiver::new(Arc::new(ends), Arc::default()));
    loss(&open(&host, edge(1, 0)));
    let (mut reader, mut buffer, mut stream) =
        (FrameReader::default(), [0; 1000], &met.streams[&0]);
    loop {
        match stream.read(&mut buffer) {
            Ok(read @ 1..) => {
                let take = |arrived: Arrived<'_>| {
                    let Arrived::Notice(notice) = arrived else { panic!("{arrived:?}") };
                    assert!(
                        matches!(notice, Notice::Alive | Notice::ClockRequest(_)),
                        "{notice:?}"
                    );
                };
                reader.read(&buffer[..read], take).unwrap();
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            // The connection is closed.
            _ => return,
        }
    }
}
