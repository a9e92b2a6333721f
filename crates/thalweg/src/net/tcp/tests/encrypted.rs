//! Hosts that encrypt their connections, those that cannot do so with each other, and strangers.

#[path = "../../../../tests/tls/certificates.rs"]
mod certificates;

use super::*;
use crate::config::Tls;
use certificates::{Authority, Certificate, expired};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use std::net::Shutdown;
use std::os::fd::AsFd;

/// Connects hosts of which each has what is given here; returns what each of them says.
fn messages(tls: [Option<Tls>; 2]) -> [String; 2] {
    let met = meet(2, port(), |id, config, _| {
        config.tls.clone_from(&tls[id]);
        config.connect_timeout = Duration::from_secs(1);
    });
    let mut messages = met.into_iter().map(message);
    [(); 2].map(|()| messages.next().unwrap())
}

/// Hosts with certificates of this CA.
fn encrypted(authority: &Authority, count: usize) -> Vec<TcpNetwork> {
    let met = meet(count, port(), |_, config, _| config.tls = Some(authority.host()));
    met.into_iter().map(|met| met.unwrap().0).collect()
}

fn tls(stream: &Stream) -> &tls::TlsStream {
    match stream {
        Stream::Tls(stream) => stream,
        Stream::Plain(_) => panic!("it is not encrypted"),
    }
}

#[test]
fn frames_arrive_whole_however_the_system_tears_them_and_when_keys_change() {
    const FRAMES: u64 = 600;
    let size = |number: u64| if number % 100 == 7 { 400_000 } else { 16 + number as usize % 3000 };
    for narrow in [false, true] {
        let hosts = encrypted(&Authority::new("tests"), 3);
        for peer in hosts.iter().flat_map(|host| host.shared.peers.values()) {
            if narrow {
                // The least that the system allows: less than a record of TLS.
                let socket = peer.stream.socket().as_fd();
                rustix::net::sockopt::set_socket_send_buffer_size(socket, 1).unwrap();
            }
        }
        let keeps: Vec<_> = hosts.iter().map(|host| open(host, edge(1, 0))).collect();
        std::thread::scope(|scope| {
            for (me, host) in hosts.iter().enumerate() {
                // Two senders, which meet at the lock of each connection.
                for sender in 0..2u64 {
                    let others = (0..3).filter(move |other| *other != me).map(HostId);
                    scope.spawn(move || {
                        for number in 0..FRAMES {
                            for to in others.clone() {
                                let mut frame = (2 * number + sender).to_le_bytes().to_vec();
                                frame.resize(size(number), number as u8);
                                host.shared.send(to, edge(1, 0), frame);
                                if number % 200 == 50 {
                                    tls(&host.shared.peers[&to].stream).change_keys();
                                }
                            }
                        }
                    });
                }
            }
        });
        for keep in &keeps {
            until(|| {
                assert!(lock(&keep.lost).is_empty(), "{:?}", lock(&keep.lost));
                lock(&keep.frames).len() as u64 == 4 * FRAMES
            });
            let frames = lock(&keep.frames);
            for (from, sender) in (0..3).flat_map(|from| [(from, 0), (from, 1)]) {
                let number = |frame: &[u8]| u64::from_le_bytes(*frame.first_chunk().unwrap());
                let of_sender = frames
                    .iter()
                    .filter(|(host, frame)| *host == from && number(frame) % 2 == sender);
                for ((_, frame), expected) in of_sender.zip(0..) {
                    assert_eq!((number(frame) / 2, frame.len()), (expected, size(expected)));
                    assert!(frame[8..].iter().all(|byte| *byte == expected as u8));
                }
            }
        }
    }
}

#[test]
fn hosts_that_do_not_all_encrypt_say_so() {
    let host = Authority::new("tests").host();
    let all_or_none = ": all hosts need certificates (`--tls-dir`), or none";
    let [first, second] = messages([Some(host.clone()), None]);
    assert!(second.starts_with("host 0 (127.0.0.1:"), "{second}");
    assert!(second.contains(") encrypts connections, and this host does not"), "{second}");
    assert!(second.ends_with(all_or_none), "{second}");
    let late =
        "host 1 has not connected within 1s (`--connect-timeout`) (a connection from 127.0.0.1:";
    assert!(first.starts_with(late), "{first}");
    let refused = "was refused: it does not encrypt connections, and this host does (`--tls-dir`))";
    assert!(first.contains(refused), "{first}");

    let [first, second] = messages([None, Some(host)]);
    assert!(second.starts_with("host 0 (127.0.0.1:"), "{second}");
    assert!(second.contains(") does not encrypt connections, and this host does"), "{second}");
    assert!(second.ends_with(all_or_none), "{second}");
    assert!(first.starts_with(late), "{first}");
    let refused = "was refused: it encrypts connections (`--tls-dir`), and this host does not)";
    assert!(first.contains(refused), "{first}");
}

#[test]
fn certificates_of_another_ca_are_refused_on_both_sides() {
    // With the same name, as when the CA was made again.
    let (ours, other) = (Authority::new("tests"), Authority::new("tests"));
    let [first, second] = messages([Some(ours.host()), Some(other.host())]);
    assert!(second.starts_with("the certificate of host 0 (127.0.0.1:"), "{second}");
    let ends = ") is refused: it was not issued by the CA of this host (ca.crt)";
    assert!(second.ends_with(ends), "{second}");
    let refuses = "was refused: it refuses the certificate of this host: its CA is not that of the other host)";
    assert!(first.contains(refuses), "{first}");

    // The second host accepts both, the first one does not.
    let own = other.issue(|_| ());
    let both = Tls::from_pem(ours.pem() + &other.pem(), own.pem, own.key);
    let [first, second] = messages([Some(ours.host()), Some(both)]);
    let refused = "was refused: its certificate was not issued by the CA of this host (ca.crt))";
    assert!(first.contains(refused), "{first}");
    assert!(second.contains(") has refused the certificate of this host: "), "{second}");
}

#[test]
fn a_host_with_another_secret_is_refused_although_it_has_a_certificate() {
    let authority = Authority::new("tests");
    let met = meet(2, port(), |id, config, _| {
        config.tls = Some(authority.host());
        config.connect_timeout = Duration::from_secs(1);
        if id == 1 {
            config.secret = Secret::new("the secret of other tests");
        }
    });
    let messages: Vec<_> = met.into_iter().map(message).collect();
    assert!(messages[0].contains("it does not know the secret"), "{messages:?}");
    assert!(messages[1].contains("which has another secret"), "{messages:?}");
}

#[test]
fn what_cannot_be_used_is_named() {
    let (authority, other) = (Authority::new("tests"), Authority::new("others"));
    let refused = |ca: &str, certificate: &str, key: &str| {
        let mut config = config(0, 2, port());
        config.tls = Some(Tls::from_pem(ca, certificate, key));
        let error = connect_as(&config, identity(&config)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    };
    let (ca, Certificate { pem, key }) = (authority.pem(), authority.issue(|_| ()));
    let none = "is not there: expected `-----BEGIN CERTIFICATE-----`";
    assert_eq!(refused("", &pem, &key), format!("the certificate of the CA {none}"));
    assert_eq!(refused(&ca, "text", &key), format!("the certificate of this host {none}"));
    // The files were taken for each other.
    assert_eq!(refused(&ca, &key, &pem), format!("the certificate of this host {none}"));
    assert_eq!(
        refused(&ca, &pem, &pem),
        "the private key of this host is not there: expected one in PEM, without a passphrase"
    );
    let locked = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    assert!(refused(&ca, &pem, &locked).ends_with("without a passphrase"));
    let old_form = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,00\n\nMAA=\n\
                    -----END EC PRIVATE KEY-----\n";
    assert!(refused(&ca, &pem, old_form).ends_with("no base64, as where it has a passphrase"));
    // As a shell or a template may write it. Nothing of the key may be in a message, which ends in some log.
    for one_line in
        [key.replace('\n', " "), key.replace('\n', "\\n"), key.replace("-----END", "END")]
    {
        for message in [
            refused(&ca, &pem, &one_line),
            refused(&ca, &one_line, &key),
            refused(&one_line, &pem, &key),
        ] {
            let ends = " is no text in PEM: `-----BEGIN ...-----` and `-----END ...-----` have to be there, each on a line of its own";
            assert!(message.ends_with(ends), "{message}");
            assert!(message.len() < 200, "{message}");
        }
    }
    let torn = &pem[..pem.len() / 2];
    assert!(refused(torn, &pem, &key).starts_with("the certificate of the CA is no text in PEM: "));
    let damaged = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    assert!(refused(damaged, &pem, &key).starts_with("the certificate of the CA cannot be used: "));
    let damaged = damaged.replace("CERTIFICATE", "PRIVATE KEY");
    assert!(
        refused(&ca, &pem, &damaged).starts_with("the private key of this host cannot be used")
    );
    assert_eq!(
        refused(&ca, &pem, &authority.issue(|_| ()).key),
        "the private key of this host does not belong to the certificate of this host"
    );
    assert_eq!(
        refused(&other.pem(), &pem, &key),
        "the certificate of this host was not issued by the CA of this host (ca.crt)"
    );
    let old = authority.issue(expired);
    assert_eq!(
        refused(&ca, &old.pem, &old.key),
        "the certificate of this host has expired at 2020-01-01T00:00:00Z"
    );
    let early = authority.issue(|params| params.not_before = rcgen::date_time_ymd(4000, 1, 1));
    assert_eq!(
        refused(&ca, &early.pem, &early.key),
        "the certificate of this host is not valid before 4000-01-01T00:00:00Z"
    );
    for purpose in
        [rcgen::ExtendedKeyUsagePurpose::ServerAuth, rcgen::ExtendedKeyUsagePurpose::ClientAuth]
    {
        let one = authority.issue(|params| params.extended_key_usages = vec![purpose]);
        assert!(refused(&ca, &one.pem, &one.key).ends_with("serverAuth and clientAuth"));
    }

    // With the name of the file.
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("ca.crt", &ca), ("tls.crt", &old.pem), ("tls.key", &old.key)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .unwrap();
    }
    let mut config = config(1, 2, port());
    config.tls = Some(Tls::read(folder.path()).unwrap());
    let error = message(connect_as(&config, identity(&config)));
    let path = folder.path().join("tls.crt");
    let expected = format!("{}: the certificate of this host has expired", path.display());
    assert!(error.starts_with(&expected), "{error}");
}

/// The client of a stranger, who may have a certificate.
fn client(certificate: Option<Certificate>) -> Arc<ClientConfig> {
    /// Accepts everyone, and presents a certificate to everyone.
    #[derive(Debug)]
    struct Anyone;

    impl rustls::client::danger::ServerCertVerifier for Anyone {
        fn verify_server_cert(
            &self,
            _: &CertificateDer<'_>,
            _: &[CertificateDer<'_>],
            _: &ServerName<'_>,
            _: &[u8],
            _: rustls::pki_types::UnixTime,
        ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
            Ok(rustls::client::danger::ServerCertVerified::assertion())
        }

        fn verify_tls12_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }

        fn verify_tls13_signature(
            &self,
            _: &[u8],
            _: &CertificateDer<'_>,
            _: &rustls::DigitallySignedStruct,
        ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
            Ok(rustls::client::danger::HandshakeSignatureValid::assertion())
        }

        fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
            rustls::crypto::ring::default_provider()
                .signature_verification_algorithms
                .supported_schemes()
        }
    }

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone));
    Arc::new(match certificate {
        Some(own) => builder.with_client_auth_cert(chain(&own), key(&own)).unwrap(),
        None => builder.with_no_client_auth(),
    })
}

fn chain(of: &Certificate) -> Vec<CertificateDer<'static>> {
    vec![CertificateDer::from_pem_slice(of.pem.as_bytes()).unwrap()]
}

fn key(of: &Certificate) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(of.key.as_bytes()).unwrap()
}

/// A stranger who connects with TLS, and what he does then.
fn strange_client(
    port: u16,
    certificate: Option<Certificate>,
    done: &AtomicBool,
    mut act: impl FnMut(&mut rustls::StreamOwned<ClientConnection, StdStream>),
) {
    let config = client(certificate);
    strange(port, done, |stream| {
        let name = ServerName::try_from("localhost").unwrap();
        let connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
        let _ = stream.set_read_timeout(Some(Duration::from_millis(200)));
        act(&mut rustls::StreamOwned::new(connection, stream));
    });
}

#[test]
fn strangers_keep_no_host_from_connecting_that_encrypts() {
    let (port, done, authority) = (port(), AtomicBool::new(false), Authority::new("tests"));
    let (done, authority) = (&done, &authority);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut seed = 1;
            strange(port, done, |mut stream| {
                // Garbage, also behind the beginning of a message of TLS, and that of a host that does not encrypt.
                let begins = [&b""[..], &[0x16, 3, 1, 0, 200, 1], b"thalweg\n"];
                let begin = begins[splitmix64(&mut seed) as usize % 3];
                let garbage: Vec<u8> = (0..200).map(|_| splitmix64(&mut seed) as u8).collect();
                let _ = stream.write_all(begin).and_then(|()| stream.write_all(&garbage));
                let _ = stream.set_read_timeout(Some(Duration::from_millis(5)));
                let _ = stream.read(&mut [0; 100]);
            });
        });
        scope.spawn(move || {
            // Many that are silent for ever.
            let mut silent = Vec::new();
            strange(port, done, |mut stream| {
                let _ = stream.write_all(&[0x16, 3, 1, 0][..silent.len() % 5]);
                silent.push(stream);
                if silent.len() > 300 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        });
        scope.spawn(move || strange_client(port, None, done, |stream| drop(stream.write(b"x"))));
        scope.spawn(move || {
            let certificate = authority.issue(|_| ());
            strange_client(port, Some(certificate), done, |stream| {
                let _ = stream.write_all(b"GET / HTTP/1.1\r\n\r\n");
            });
        });
        // The last host comes when the strangers are there.
        let met = meet(3, port, |id, config, _| {
            config.tls = Some(authority.host());
            std::thread::sleep(Duration::from_millis(500 * u64::from(id == 2)));
        });
        done.store(true, Ordering::Release);
        let networks: Vec<_> = met.into_iter().map(|met| met.unwrap().0).collect();
        drop(networks);
    });
}

/// Runs a first host that encrypts, for as long as a stranger acts; returns the error of the host.
fn visited(authority: &Authority, visit: impl FnOnce(u16)) -> String {
    let port = port();
    let mut config = config(0, 2, port);
    config.tls = Some(authority.host());
    config.connect_timeout = Duration::from_secs(2);
    std::thread::scope(|scope| {
        let first = scope.spawn(|| connect_as(&config, identity(&config)));
        visit(port);
        message(first.join().unwrap())
    })
}

/// Does it once.
fn once<T>(port: u16, mut act: impl FnMut(StdStream) -> T) -> T {
    loop {
        if let Ok(stream) = StdStream::connect(("127.0.0.1", port)) {
            return act(stream);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn strangers_with_certificates_that_are_not_accepted_are_named() {
    let authority = Authority::new("tests");
    let others = Authority::new("others").issue(|_| ());
    let old = authority.issue(expired);
    let refused = |certificate: Option<Certificate>, why: &str| {
        let config = client(certificate);
        let error = visited(&authority, |port| {
            let alert = once(port, |mut stream| {
                let name = ServerName::try_from("localhost").unwrap();
                let mut connection = ClientConnection::new(Arc::clone(&config), name).unwrap();
                stream.set_read_timeout(Some(MINUTE)).unwrap();
                let mut stream = rustls::Stream::new(&mut connection, &mut stream);
                stream.write_all(b"thalweg\n").and_then(|()| stream.read(&mut [0; 100]))
            });
            assert!(alert.unwrap_err().to_string().contains("received fatal alert"));
        });
        assert!(error.contains(&format!("was refused: its certificate {why})")), "{error}");
    };
    // Each host waits until it gives up.
    std::thread::scope(|scope| {
        scope.spawn(|| refused(None, "is missing"));
        scope.spawn(|| refused(Some(others), "was not issued by the CA of this host (ca.crt)"));
        scope.spawn(|| refused(Some(old), "has expired at 2020-01-01T00:00:00Z"));
    });
}

#[test]
fn bytes_of_a_stranger_are_bounded() {
    let authority = Authority::new("tests");
    visited(&authority, |port| {
        let written = once(port, |mut stream| {
            // Records of a message that never ends, which claims to be as long as it may.
            let mut record = vec![0; 5 + 16_000];
            record[..9].copy_from_slice(&[0x16, 3, 1, 62, 128, 1, 0, 255, 255]);
            let mut written = 0;
            while written < 1 << 20 && stream.write_all(&record).is_ok() {
                written += record.len();
                record[5..].fill(0);
                std::thread::sleep(Duration::from_millis(10));
            }
            written
        });
        assert!(written <= 300_000, "{written}");
    });
}

#[test]
fn a_certificate_is_not_enough_to_stand_between_two_hosts() {
    let authority = Authority::new("tests");
    // The second host reaches the first by a third party, who has a certificate, and passes on what he reads.
    let (first, third) = (port(), TcpListener::bind("127.0.0.1:0").unwrap());
    let between = third.local_addr().unwrap().port();
    let own = authority.issue(|_| ());
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.pem().as_bytes()).unwrap()).unwrap();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain(&own), key(&own));
    let (server, client) = (Arc::new(server.unwrap()), client(Some(own)));
    std::thread::spawn(move || {
        for host in third.incoming().map_while(Result::ok) {
            let Ok(to) = StdStream::connect(("127.0.0.1", first)) else { continue };
            let name = ServerName::try_from("localhost").unwrap();
            let mut to = rustls::StreamOwned::new(
                ClientConnection::new(Arc::clone(&client), name).unwrap(),
                to,
            );
            let mut from =
                rustls::StreamOwned::new(ServerConnection::new(Arc::clone(&server)).unwrap(), host);
            // They take turns: the second host has sent its greeting, the first answers, and so on.
            for turn in 0..4 {
                let mut bytes = [0; 2000];
                let passed = match turn % 2 {
                    0 => from.read(&mut bytes).and_then(|read| to.write_all(&bytes[..read])),
                    _ => to.read(&mut bytes).and_then(|read| from.write_all(&bytes[..read])),
                };
                if passed.is_err() {
                    break;
                }
            }
            let _ = from.sock.shutdown(Shutdown::Both);
        }
    });
    let met = meet(2, first, |id, config, _| {
        config.tls = Some(authority.host());
        config.connect_timeout = Duration::from_secs(2);
        if id == 1 {
            config.first = format!("127.0.0.1:{between}");
        }
    });
    let messages: Vec<_> = met.into_iter().map(message).collect();
    assert!(messages[0].contains("it does not know the secret"), "{messages:?}");
    assert!(
        messages[1].contains("has refused this host, which has another secret"),
        "{messages:?}"
    );
}
