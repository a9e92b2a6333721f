//! Encrypted connections: TLS 1.3, in which each side checks the other's certificate.
//!
//! Beneath the handshake of hosts, which goes on inside: it also proves that both know the secret, and is bound to the keys of
//! the connection, so that nobody who has a certificate but not the secret can stand between two hosts.
//!
//! Reading and writing share the state of a connection, under one lock, which is held while at most [`PLAIN_AT_ONCE`]
//! bytes are encrypted and written, or [`CIPHER_AT_ONCE`] are decrypted; never while a frame is taken, or while this host waits.
//!
//! * **Writing**: plaintext is encrypted once, and counts as written when the system has taken all of its ciphertext. If it
//!   takes only a part, the rest is kept, and the next call, whose bytes begin with the same, goes on with it. So those above
//!   see a socket that is full, and no ciphertext waits that they know nothing of.
//! * **Reading** needs no writing: the answer to new keys of the other side goes before what is written next, which may be a
//!   heartbeat. Keys change by themselves before they have encrypted too much.
//! * **The end**: hosts say goodbye by a frame, and a connection that ends without it is lost. So the notice that TLS has for
//!   this is not needed.

use super::handshake::{MAGIC, Refusal, Role};
use crate::config::{Pem, Tls};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{Mutex, lock};
use mio::net::TcpStream;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls13_signature};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::TLS13;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection,
    DigitallySignedStruct, PeerIncompatible, RootCertStore, ServerConfig, ServerConnection,
    SignatureScheme,
};
use std::fmt;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

/// The bytes of plaintext that are encrypted at once.
const PLAIN_AT_ONCE: usize = 128 << 10;
/// The bytes of ciphertext that are read at once.
const CIPHER_AT_ONCE: usize = 64 << 10;
/// The most bytes that are read of a stranger, beyond those that are read at once.
const STRANGE: usize = 64 << 10;
/// The most bytes without any content: hosts send none, but for a part of a record.
const EMPTY: usize = 128 << 10;
/// What a host that encrypts sends one that does not: that there is no version of TLS that both know.
const ALERT: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 0x46];
/// For which purpose keys of the connection are exported.
const BINDING: &[u8] = b"EXPORTER-thalweg-hosts";

/// The certificates of this host, as settings of connections.
pub(super) struct Certificates {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl Certificates {
    /// Checks that the certificate, its key and the CA fit each other.
    pub(super) fn new(tls: &Tls) -> Result<Self> {
        let provider = Arc::new(ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let roots = Arc::new(roots(&tls.authorities)?);
        let own = Arc::new(own(tls, &provider)?);
        let of_clients =
            WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider))
                // Hosts have one certificate, and present it to everyone.
                .clear_root_hint_subjects()
                .build()
                .map_err(|error| tls.authorities.refused(&format!("cannot be used: {error}")))?;
        let of_servers = OfAuthority { roots, algorithms };
        check(&own.cert, &of_servers, &*of_clients).map_err(|why| tls.certificate.refused(&why))?;

        let resolver = Arc::new(SingleCertAndKey::from(own));
        let failed = |error: rustls::Error| {
            Error::new(ErrorKind::Config, "TLS cannot be used").caused_by(error)
        };
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(of_servers))
            .with_client_cert_resolver(Arc::clone(&resolver) as _);
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(failed)?
            .with_client_cert_verifier(of_clients)
            .with_cert_resolver(resolver);
        // Two hosts connect once.
        client.resumption = Resumption::disabled();
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok(Self { client: Arc::new(client), server: Arc::new(server) })
    }

    pub(super) fn stream(
        &self,
        socket: TcpStream,
        role: Role,
        address: SocketAddr,
    ) -> Result<TlsStream> {
        let connection = match role {
            Role::Connects => {
                let name = ServerName::from(address.ip());
                ClientConnection::new(Arc::clone(&self.client), name).map(Connection::from)
            }
            Role::Accepts => ServerConnection::new(Arc::clone(&self.server)).map(Connection::from),
        };
        let connection = connection.map_err(|error| {
            Error::new(ErrorKind::Io, "cannot begin to encrypt a connection").caused_by(error)
        })?;
        Ok(TlsStream::new(socket, connection))
    }
}

/// What is wrong with a text that should be PEM. Nothing of the text itself is in it, which may be a private key.
fn no_pem(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } | pem::Error::IllegalSectionStart { .. } => {
            "is no text in PEM: `-----BEGIN ...-----` and `-----END ...-----` have to be there, each on a line of its own"
        }
        pem::Error::Base64Decode(_) => {
            "is no text in PEM: what is between BEGIN and END is no base64, as where it has a passphrase"
        }
        _ => "is no text in PEM",
    }
}

/// The certificates in a text.
fn certificates(pem: &Pem) -> Result<Vec<CertificateDer<'static>>> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(&pem.text)
        .collect::<Result<_, _>>()
        .map_err(|error| pem.refused(no_pem(&error)))?;
    if all.is_empty() {
        return Err(pem.refused("is not there: expected `-----BEGIN CERTIFICATE-----`"));
    }
    Ok(all)
}

fn roots(authorities: &Pem) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(authorities)? {
        roots
            .add(certificate)
            .map_err(|error| authorities.refused(&format!("cannot be used: {error}")))?;
    }
    Ok(roots)
}

/// The certificate of this host, with its key.
fn own(tls: &Tls, provider: &CryptoProvider) -> Result<CertifiedKey> {
    let chain = certificates(&tls.certificate)?;
    let key = PrivateKeyDer::from_pem_slice(&tls.key.text).map_err(|error| match error {
        pem::Error::NoItemsFound => {
            tls.key.refused("is not there: expected one in PEM, without a passphrase")
        }
        error => tls.key.refused(no_pem(&error)),
    })?;
    let key = provider.key_provider.load_private_key(key).map_err(|error| {
        tls.key.refused(&format!(
            "cannot be used, which has to be of ECDSA (P-256 or P-384), Ed25519, or RSA with 2048 bits or more: {error}"
        ))
    })?;
    let own = CertifiedKey::new(chain, key);
    match own.keys_match() {
        Ok(()) => Ok(own),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(tls.key.refused("does not belong to the certificate of this host"))
        }
        Err(error) => Err(tls.certificate.refused(&format!("cannot be used: {error}"))),
    }
}

/// Checks the certificate of this host as the others will, so that it is named here.
fn check(
    chain: &[CertificateDer<'_>],
    of_servers: &OfAuthority,
    of_clients: &dyn ClientCertVerifier,
) -> Result<(), String> {
    let Some((own, intermediates)) = chain.split_first() else { return Ok(()) };
    let now = UnixTime::now();
    let as_client = of_clients.verify_client_cert(own, intermediates, now).map(drop);
    let checked = of_servers.check(own, intermediates, now).and(as_client);
    checked.map_err(|error| match error {
        rustls::Error::InvalidCertificate(why) => in_words(&why),
        other => format!("cannot be used: {other}"),
    })
}

/// Accepts servers whose certificate has been issued by a CA, whatever its name.
#[derive(Debug)]
struct OfAuthority {
    roots: Arc<RootCertStore>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl OfAuthority {
    fn check(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), rustls::Error> {
        let certificate = ParsedCertificate::try_from(certificate)?;
        let Self { roots, algorithms } = self;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            roots,
            intermediates,
            now,
            algorithms.all,
        )
    }
}

impl ServerCertVerifier for OfAuthority {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(certificate, intermediates, now).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// An encrypted connection.
pub(super) struct TlsStream {
    socket: TcpStream,
    secured: Mutex<Secured>,
    /// Locked before `secured`, by the thread that reads.
    arrived: Mutex<Arrived>,
    /// Identifies the connection, once both sides have agreed on keys.
    binding: Option<[u8; 32]>,
}

struct Secured {
    connection: Connection,
    /// The bytes that are encrypted, and do not count as written yet.
    accepted: usize,
}

/// Ciphertext that has arrived.
struct Arrived {
    bytes: Vec<u8>,
    /// Where that begins which is not decrypted, and where it ends.
    from: usize,
    to: usize,
    /// How many bytes have arrived altogether.
    all: usize,
    /// How many have arrived since there was any content.
    empty: usize,
    /// Whether the other side has sent that it sends nothing more, which no host does.
    closed: bool,
}

impl TlsStream {
    fn new(socket: TcpStream, mut connection: Connection) -> Self {
        connection.set_buffer_limit(Some(PLAIN_AT_ONCE));
        let bytes = vec![0; CIPHER_AT_ONCE];
        Self {
            socket,
            secured: Mutex::new(Secured { connection, accepted: 0 }),
            arrived: Mutex::new(Arrived { bytes, from: 0, to: 0, all: 0, empty: 0, closed: false }),
            binding: None,
        }
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub(super) fn socket_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }

    /// See [`Stream::is_greeted`](super::stream::Stream::is_greeted).
    pub(super) fn is_greeted(&self) -> bool {
        lock(&self.secured).connection.negotiated_cipher_suite().is_some()
    }

    /// See [`Stream::is_certified`](super::stream::Stream::is_certified).
    pub(super) fn is_certified(&self) -> bool {
        self.binding.is_some()
    }

    /// See [`Stream::secure`](super::stream::Stream::secure).
    pub(super) fn secure(&mut self) -> io::Result<[u8; 32]> {
        if let Some(binding) = self.binding {
            return Ok(binding);
        }
        let (mut arrived, mut secured) = (lock(&self.arrived), lock(&self.secured));
        let connection = &mut secured.connection;
        loop {
            while connection.is_handshaking() {
                match arrived.feed(connection) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        // With an alert that says why, which the other side may not take any more.
                        let _ = write_all(connection, &self.socket);
                        return Err(error);
                    }
                }
            }
            let written = write_all(connection, &self.socket);
            if !connection.is_handshaking() {
                written?;
                let exported = connection.export_keying_material([0; 32], BINDING, None);
                let binding = exported.map_err(io::Error::other)?;
                self.binding = Some(binding);
                return Ok(binding);
            }
            if arrived.all > STRANGE {
                return Err(io::Error::other(Refusal::NoHost));
            }
            // Also where nothing can be written: the other side may have said why before it has closed the connection.
            let is_first = arrived.all == 0;
            match arrived.fill(&self.socket) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) if is_first && arrived.is_plain() => {
                    let _ = (&self.socket).write(&ALERT);
                    return Err(io::Error::other(Refusal::Tls(Failure::NotEncrypted)));
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// See [`Stream`](super::stream::Stream).
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut arrived = lock(&self.arrived);
        let (mut read, mut drained) = (0, false);
        loop {
            read += arrived.decrypt(&mut lock(&self.secured).connection, &mut buffer[read..])?;
            if read > 0 {
                arrived.empty = 0;
            }
            if read == buffer.len() || arrived.closed {
                return Ok(read);
            }
            // Where only a part of a record has come, the system has to say whether it is the last: then no event does.
            if drained && read > 0 {
                break;
            }
            match arrived.fill(&self.socket) {
                Ok(0) => return Ok(read),
                Ok(bytes) => {
                    arrived.empty += bytes;
                    if arrived.empty > EMPTY {
                        return Err(io::Error::other(Refusal::NoHost));
                    }
                    // There is an event when there is more.
                    drained = cfg!(unix) && bytes < CIPHER_AT_ONCE;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The next read fails too, as the system says by an event.
                Err(_) if read > 0 => break,
                Err(error) => return Err(error),
            }
        }
        if read > 0 { Ok(read) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    /// See [`Stream`](super::stream::Stream).
    pub(super) fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut secured = lock(&self.secured);
        let Secured { connection, accepted } = &mut *secured;
        if *accepted == 0 {
            *accepted = connection.writer().write_vectored(slices)?;
        }
        write_all(connection, &self.socket)?;
        Ok(std::mem::take(accepted))
    }
}

#[cfg(test)]
impl TlsStream {
    /// Changes the keys of both sides, from the next byte that each of them writes.
    pub(super) fn change_keys(&self) {
        lock(&self.secured).connection.refresh_traffic_keys().expect("the handshake is over");
    }
}

/// Writes the ciphertext that is there.
fn write_all(connection: &mut Connection, mut socket: &TcpStream) -> io::Result<()> {
    while connection.wants_write() {
        match connection.write_tls(&mut socket) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            written => _ = written?,
        }
    }
    Ok(())
}

impl Arrived {
    /// Reads once, when all that was read before is decrypted.
    fn fill(&mut self, mut socket: &TcpStream) -> io::Result<usize> {
        let read = socket.read(&mut self.bytes)?;
        (self.from, self.to) = (0, read);
        self.all += read;
        Ok(read)
    }

    /// Whether it is a host that does not encrypt, as its first bytes say. TLS begins with another byte.
    fn is_plain(&self) -> bool {
        let first = &self.bytes[..self.to.min(MAGIC.len())];
        first == &MAGIC[..first.len()]
    }

    /// Decrypts until the buffer is full, or all that has arrived is decrypted.
    fn decrypt(&mut self, connection: &mut Connection, buffer: &mut [u8]) -> io::Result<usize> {
        let mut read = 0;
        while read < buffer.len() {
            match connection.reader().read(&mut buffer[read..]) {
                Ok(0) => {
                    self.closed = true;
                    break;
                }
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !self.feed(connection)? {
                        break;
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(read)
    }

    /// Hands over a part of the ciphertext, a few kilobytes; `false` if there is none.
    fn feed(&mut self, connection: &mut Connection) -> io::Result<bool> {
        let mut rest = &self.bytes[self.from..self.to];
        if rest.is_empty() {
            return Ok(false);
        }
        let is_handshaking = connection.is_handshaking();
        self.from += connection.read_tls(&mut rest)?;
        match connection.process_new_packets() {
            Ok(_) => Ok(true),
            Err(error) => Err(io::Error::other(refusal(error, is_handshaking))),
        }
    }
}

/// Why an encrypted connection cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The other side is a host that does not encrypt.
    NotEncrypted,
    /// What is wrong with the certificate of the other side.
    Certificate(String),
    /// What the other side does not accept about the certificate of this host.
    OwnCertificate(String),
    Other(String),
}

impl Failure {
    /// What is wrong with a host that this one has called.
    pub(super) fn of_host(&self, host: u32, address: &str) -> String {
        match self {
            Self::NotEncrypted => format!(
                "host {host} ({address}) does not encrypt connections, and this host does: all hosts need certificates \
                 (`--tls-dir`), or none"
            ),
            Self::Certificate(why) => {
                format!("the certificate of host {host} ({address}) is refused: it {why}")
            }
            Self::OwnCertificate(why) => {
                format!("host {host} ({address}) has refused the certificate of this host: {why}")
            }
            Self::Other(why) => {
                format!("no encrypted connection to host {host} ({address}) can be made: {why}")
            }
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotEncrypted => {
                f.write_str("it does not encrypt connections, and this host does (`--tls-dir`)")
            }
            Self::Certificate(why) => write!(f, "its certificate {why}"),
            Self::OwnCertificate(why) => {
                write!(f, "it refuses the certificate of this host: {why}")
            }
            Self::Other(why) => write!(f, "TLS failed: {why}"),
        }
    }
}

fn refusal(error: rustls::Error, is_handshaking: bool) -> Refusal {
    use rustls::Error as E;
    Refusal::Tls(match error {
        E::InvalidMessage(_) if is_handshaking => return Refusal::NoHost,
        E::NoCertificatesPresented => Failure::Certificate("is missing".to_owned()),
        E::InvalidCertificate(why) => Failure::Certificate(in_words(&why)),
        E::AlertReceived(alert) => match alert {
            // A signature that is not that of a CA with the same name.
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                Failure::OwnCertificate("its CA is not that of the other host".to_owned())
            }
            AlertDescription::CertificateExpired => {
                let why = "by the clock of the other host it has expired, or is not valid yet";
                Failure::OwnCertificate(why.to_owned())
            }
            AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::AccessDenied => {
                Failure::OwnCertificate(format!("it is not accepted ({alert:?})"))
            }
            _ => Failure::Other(format!("the other side has sent the alert {alert:?}")),
        },
        error => Failure::Other(error.to_string()),
    })
}

/// What is wrong with a certificate, as the end of a sentence about it.
fn in_words(error: &CertificateError) -> String {
    let date = |time: &UnixTime| {
        let time = jiff::Timestamp::from_second(time.as_secs().try_into().unwrap_or(i64::MAX));
        time.map_or_else(|_| "an unknown time".to_owned(), |time| time.to_string())
    };
    match error {
        CertificateError::ExpiredContext { not_after, .. } => {
            format!("has expired at {}", date(not_after))
        }
        CertificateError::Expired => "has expired".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("is not valid before {}", date(not_before))
        }
        CertificateError::NotValidYet => "is not valid yet".to_owned(),
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "was not issued by the CA of this host (ca.crt)".to_owned()
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "may not be used by both sides of a connection: if its extended key usage is limited, that has to name \
             serverAuth and clientAuth"
                .to_owned()
        }
        other => format!("cannot be used: {other}"),
    }
}
