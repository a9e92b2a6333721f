//! A registry by https.

use crate::SchemaRegistry;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use thalweg::ErrorKind;

/// A registry whose certificate is in the text.
fn serve() -> (String, String) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for connection in listener.incoming() {
            let server = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(server, connection.unwrap());
            // A client that does not trust it goes away.
            if stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                let body = r#"{"schema": "\"long\""}"#;
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
                write!(stream, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
                stream.conn.send_close_notify();
                stream.flush().unwrap();
            }
        }
    });
    (format!("https://localhost:{port}"), made.cert.pem())
}

#[test]
fn a_registry_is_trusted_by_its_authority_alone() {
    let (url, authority) = serve();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, authority).unwrap();
    // Of its own each, as they share what has been answered.
    let registry = || SchemaRegistry::new([&url]).retries(0, Duration::ZERO);
    let value = [0, 0, 0, 0, 1, 8];
    let decoder = registry().ca_file(&file).decoder().unwrap();
    assert_eq!(decoder.decode::<i64>(&value).unwrap(), 4);
    let error = registry().decoder().unwrap().decode::<i64>(&value).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.to_lowercase().contains("certificate"), "{cause}");
}

#[test]
fn files_without_certificates_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let decoder = || SchemaRegistry::new(["https://a"]).ca_file(&file).decoder().unwrap_err();
    assert!(decoder().message().ends_with("cannot be read"));
    std::fs::write(&file, "no").unwrap();
    assert!(decoder().message().ends_with("has no certificates in PEM"));
}
