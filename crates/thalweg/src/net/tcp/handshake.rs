//! The handshake of two hosts: each proves that it knows the secret, and says what has to fit.
//!
//! | message | from | content |
//! |---|---|---|
//! | greeting | the connecting side, then the accepting side | a magic value, the version of the protocol, a random nonce |
//! | credentials | the connecting side | what the host is, authenticated |
//! | answer | the accepting side | one byte: whether the credentials are authentic; if so, credentials of its own |
//!
//! Credentials are an [`Identity`], preceded by its length and followed by its HMAC-SHA-256 under the secret, over the role
//! of the host, both nonces and the identity. So credentials cannot be sent again in another handshake, nor back to the
//! host that made them, and nothing is decoded of hosts that do not know the secret. A greeting has a fixed length, and the
//! identity in credentials at most [`LONGEST`] bytes. On an encrypted connection the HMAC covers what identifies that
//! connection too.
//!
//! Here are only states and bytes: no socket, no clock.

#[cfg(feature = "tls")]
use super::tls::Failure;
use crate::config::{HostConfig, Secret};
use crate::data::{Data, decode_whole};
use crate::error::Error;
use crate::net::executable;
use hmac_sha256::HMAC;
use std::fmt;
use std::time::Duration;

/// The version of all that hosts send each other.
pub(super) const VERSION: u32 = 2;

/// What a host that does not encrypt sends first.
pub(super) const MAGIC: [u8; 8] = *b"thalweg\n";
const NONCE: usize = 32;
const GREETING: usize = MAGIC.len() + 4 + NONCE;
const MAC: usize = 32;
/// The most bytes of an identity.
const LONGEST: usize = 512;

/// The first bytes that TLS sends: those of an alert, and of a message of its handshake.
const ENCRYPTED: [u8; 2] = [0x15, 0x16];

const REFUSED: u8 = 0;
const ACCEPTED: u8 = 1;

/// What a host says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Data)]
pub(in crate::net) struct Identity {
    /// Its number.
    pub(in crate::net) host: u32,
    /// The number of hosts.
    pub(in crate::net) hosts: u32,
    pub(in crate::net) cores: u32,
    /// The digest of its executable.
    pub(in crate::net) executable: u64,
    /// The bytes that a sender may have in flight on a lane: a receiver returns them in parts of its own credit.
    pub(in crate::net) credit: u64,
    /// How it compresses batches.
    pub(in crate::net) compression: String,
    /// After how many milliseconds of silence it considers another host lost.
    pub(in crate::net) lost_after: u64,
    /// Where others reach it, such as `10.0.0.2:4711`.
    pub(in crate::net) address: String,
}

impl Identity {
    /// This process, as one of the hosts; its address is set later.
    pub(in crate::net) fn of_this_process(
        config: &HostConfig,
        cores: usize,
        credit: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            host: config.id as u32,
            hosts: config.count as u32,
            cores: u32::try_from(cores).unwrap_or(u32::MAX),
            executable: executable::digest()?,
            credit: credit as u64,
            compression: config.compression.to_string(),
            lost_after: config.lost_after.as_millis().try_into().unwrap_or(u64::MAX),
            address: String::new(),
        })
    }

    /// Why two hosts cannot run jobs together, if they cannot: the same on both.
    pub(in crate::net) fn mismatch(&self, other: &Self) -> Option<String> {
        let (a, b) = if self.host <= other.host { (self, other) } else { (other, self) };
        let (first, second) = (a.host, b.host);
        let at = |host: &Self| host.address.clone();
        if a.hosts != b.hosts {
            let (one, two) = (a.hosts, b.hosts);
            return Some(format!(
                "host {first} was started as one of {one} hosts, and host {second} as one of {two}"
            ));
        }
        if first == second {
            return Some(format!(
                "two hosts have the number {first}, at {} and {}",
                at(self).min(at(other)),
                at(self).max(at(other))
            ));
        }
        if a.executable != b.executable {
            let (one, two) = (a.executable, b.executable);
            return Some(format!(
                "hosts {first} ({}) and {second} ({}) run different executables, with the digests {one:016x} and \
                 {two:016x}",
                at(a),
                at(b)
            ));
        }
        if a.credit != b.credit {
            let (one, two) = (a.credit, b.credit);
            return Some(format!(
                "hosts have to be configured with the same credit: host {first} has {one} bytes, and host {second} has \
                 {two}"
            ));
        }
        if a.compression != b.compression {
            let (one, two) = (&a.compression, &b.compression);
            return Some(format!(
                "hosts have to be configured with the same compression: host {first} has {one}, and host {second} has {two}"
            ));
        }
        None
    }

    pub(in crate::net) fn lost_after(&self) -> Duration {
        Duration::from_millis(self.lost_after)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Connects,
    Accepts,
}

/// Why the other side is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It sends something else.
    NoHost,
    /// Its version of the protocol.
    Version(u32),
    /// It does not know the secret.
    Secret,
    /// It says that this host does not know the secret.
    Refused,
    /// It encrypts, and this host does not.
    Encrypted,
    /// This host encrypts, and cannot do so with the other side.
    #[cfg(feature = "tls")]
    Tls(Failure),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoHost => f.write_str("it is no host of a job"),
            Self::Version(version) => {
                write!(f, "its version of the protocol between hosts is {version}, not {VERSION}")
            }
            Self::Secret | Self::Refused => f.write_str("it does not know the secret"),
            Self::Encrypted => {
                f.write_str("it encrypts connections (`--tls-dir`), and this host does not")
            }
            #[cfg(feature = "tls")]
            Self::Tls(failure) => failure.fmt(f),
        }
    }
}

impl std::error::Error for Refusal {}

/// What happens next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Read so many bytes more.
    Read(usize),
    /// The other host is authenticated.
    Done(Identity),
}

/// One side of a handshake.
pub(super) struct Handshake {
    role: Role,
    secret: Secret,
    mine: Identity,
    nonce: [u8; NONCE],
    /// What identifies the connection, if it is encrypted.
    binding: Option<[u8; 32]>,
    /// The nonce of the other side, once it has sent its greeting.
    theirs: Option<[u8; NONCE]>,
    /// Whether the answer has said that this host is accepted.
    accepted: bool,
    /// Bytes of a message that is not complete.
    input: Vec<u8>,
    /// What is to be written.
    output: Vec<u8>,
}

impl Handshake {
    /// Begins a handshake with a nonce that was never used before.
    pub(super) fn new(role: Role, mine: Identity, secret: Secret, nonce: [u8; NONCE]) -> Self {
        let mut handshake = Self {
            role,
            secret,
            mine,
            nonce,
            binding: None,
            theirs: None,
            accepted: false,
            input: Vec::new(),
            output: Vec::new(),
        };
        if role == Role::Connects {
            handshake.greet();
        }
        handshake
    }

    /// Sets what identifies the connection, if it is encrypted: before the first byte is sent or taken.
    pub(super) fn bind(&mut self, binding: Option<[u8; 32]>) {
        self.binding = binding;
    }

    /// Takes what is to be written.
    pub(super) fn output(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.output)
    }

    /// Whether the greeting of the other side has arrived.
    pub(super) fn is_greeted(&self) -> bool {
        self.theirs.is_some()
    }

    /// How many bytes to read before [`take`](Self::take), at most. A message that comes after the handshake is not read.
    pub(super) fn wanted(&self) -> usize {
        self.length() - self.input.len()
    }

    /// Takes bytes, at most as many as are [wanted](Self::wanted).
    ///
    /// # Errors
    ///
    /// If the other side is refused. Its [output](Self::output) is to be written nevertheless: it may say why.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Step, Refusal> {
        self.input.extend_from_slice(bytes);
        // What cannot become a greeting is refused at once.
        let seen = self.input.len().min(MAGIC.len());
        if self.theirs.is_none() && self.input[..seen] != MAGIC[..seen] {
            if !ENCRYPTED.contains(&self.input[0]) || self.binding.is_some() {
                return Err(Refusal::NoHost);
            }
            if self.role == Role::Accepts {
                // So that the other host knows that this one does not encrypt.
                self.greet();
            }
            return Err(Refusal::Encrypted);
        }
        while self.input.len() >= self.length() {
            if let Some(done) = self.message()? {
                return Ok(Step::Done(done));
            }
        }
        Ok(Step::Read(self.wanted()))
    }

    /// The length of the message that begins the input, as far as it is known.
    fn length(&self) -> usize {
        if self.theirs.is_none() {
            return GREETING;
        }
        if self.awaits_answer() {
            return 1;
        }
        match self.input.first_chunk() {
            Some(length) => 2 + usize::from(u16::from_le_bytes(*length)).min(LONGEST) + MAC,
            None => 2,
        }
    }

    fn awaits_answer(&self) -> bool {
        self.role == Role::Connects && !self.accepted
    }

    /// Takes the message that begins the input, which is complete, or the length of credentials.
    fn message(&mut self) -> Result<Option<Identity>, Refusal> {
        let Some(theirs) = self.theirs else {
            self.greeting()?;
            return Ok(None);
        };
        if self.awaits_answer() {
            match std::mem::take(&mut self.input)[..] {
                [ACCEPTED] => self.accepted = true,
                [REFUSED] => return Err(Refusal::Refused),
                _ => return Err(Refusal::NoHost),
            }
            return Ok(None);
        }
        let Some((length, credentials)) = self.input.split_first_chunk() else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes(*length));
        if length > LONGEST {
            return Err(Refusal::NoHost);
        }
        let Some((identity, mac)) = credentials.split_at_checked(length) else { return Ok(None) };
        // More than was wanted.
        let Ok(mac) = mac.try_into() else { return Err(Refusal::NoHost) };
        let other = match self.role {
            Role::Connects => Role::Accepts,
            Role::Accepts => Role::Connects,
        };
        if !self.authenticate(other, theirs, identity).finalize_verify(mac) {
            if self.role == Role::Accepts {
                self.output.push(REFUSED);
            }
            return Err(Refusal::Secret);
        }
        let decoded = decode_whole(identity, Identity::decode).map_err(|_| Refusal::NoHost)?;
        self.input.clear();
        if self.role == Role::Accepts {
            self.output.push(ACCEPTED);
            self.send_credentials(theirs);
        }
        Ok(Some(decoded))
    }

    fn greeting(&mut self) -> Result<(), Refusal> {
        let greeting = std::mem::take(&mut self.input);
        if self.role == Role::Accepts {
            self.greet();
        }
        let after = greeting.split_at_checked(MAGIC.len()).map_or(&[][..], |(_, after)| after);
        let (Some(version), Some(nonce)) = (after.first_chunk(), after.last_chunk()) else {
            return Err(Refusal::NoHost);
        };
        let version = u32::from_le_bytes(*version);
        if version != VERSION {
            return Err(Refusal::Version(version));
        }
        // A peer that mirrors everything would learn nothing, but it is no host.
        if *nonce == self.nonce {
            return Err(Refusal::NoHost);
        }
        self.theirs = Some(*nonce);
        if self.role == Role::Connects {
            self.send_credentials(*nonce);
        }
        Ok(())
    }

    fn greet(&mut self) {
        self.output.extend_from_slice(&MAGIC);
        self.output.extend_from_slice(&VERSION.to_le_bytes());
        self.output.extend_from_slice(&self.nonce);
    }

    /// Writes what this host is, authenticated.
    fn send_credentials(&mut self, theirs: [u8; NONCE]) {
        let mut identity = Vec::new();
        self.mine.encode(&mut identity);
        let mac = self.authenticate(self.role, theirs, &identity).finalize();
        self.output.extend_from_slice(&(identity.len() as u16).to_le_bytes());
        self.output.extend_from_slice(&identity);
        self.output.extend_from_slice(&mac);
    }

    /// The HMAC of the identity of a side.
    fn authenticate(&self, role: Role, theirs: [u8; NONCE], identity: &[u8]) -> HMAC {
        let [connects, accepts] = match self.role {
            Role::Connects => [self.nonce, theirs],
            Role::Accepts => [theirs, self.nonce],
        };
        let mut mac = HMAC::new(self.secret.bytes());
        mac.update([role as u8 + 2 * u8::from(self.binding.is_some())]);
        mac.update(VERSION.to_le_bytes());
        mac.update(connects);
        mac.update(accepts);
        mac.update(self.binding.as_ref().map_or(&[][..], |binding| binding));
        mac.update(identity);
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(host: u32) -> Identity {
        Identity {
            host,
            hosts: 3,
            cores: 2,
            executable: 0xe1e,
            credit: 1000,
            compression: "none".to_owned(),
            lost_after: 10_000,
            address: format!("10.0.0.{host}:4711"),
        }
    }

    fn side(role: Role, host: u32, secret: &str) -> Handshake {
        Handshake::new(role, identity(host), Secret::new(secret), [host as u8; NONCE])
    }

    /// Hands the output of each side to the other, in pieces of this size at most; returns how each side ended, if it did.
    fn meet(
        connects: &mut Handshake,
        accepts: &mut Handshake,
        piece: usize,
    ) -> [Option<Result<Identity, Refusal>>; 2] {
        let mut ended = [None, None];
        loop {
            let sent = [connects.output(), accepts.output()];
            if sent.iter().all(Vec::is_empty) {
                return ended;
            }
            for ((to, bytes), ended) in
                [(&mut *accepts, &sent[0]), (&mut *connects, &sent[1])].into_iter().zip(&mut ended)
            {
                let mut bytes = &bytes[..];
                while !bytes.is_empty() && ended.is_none() {
                    let (now, later) = bytes.split_at(bytes.len().min(piece).min(to.wanted()));
                    bytes = later;
                    match to.take(now) {
                        Ok(Step::Read(more)) => assert_eq!(more, to.wanted()),
                        Ok(Step::Done(identity)) => *ended = Some(Ok(identity)),
                        Err(refusal) => *ended = Some(Err(refusal)),
                    }
                }
            }
        }
    }

    const SECRET: &str = "a secret that is long enough";

    #[test]
    fn hosts_with_one_secret_believe_each_other_however_messages_are_torn() {
        for piece in [1, 2, 7, 43, 44, 45, 1000] {
            let mut connects = side(Role::Connects, 2, SECRET);
            let mut accepts = side(Role::Accepts, 0, SECRET);
            let [at_accepting, at_connecting] = meet(&mut connects, &mut accepts, piece);
            assert_eq!(at_accepting, Some(Ok(identity(2))), "pieces of {piece}");
            assert_eq!(at_connecting, Some(Ok(identity(0))), "pieces of {piece}");
        }
    }

    #[test]
    fn another_secret_is_refused_on_both_sides() {
        let mut connects = side(Role::Connects, 2, "some other secret of hosts");
        let mut accepts = side(Role::Accepts, 0, SECRET);
        let ended = meet(&mut connects, &mut accepts, 50);
        assert_eq!(ended, [Some(Err(Refusal::Secret)), Some(Err(Refusal::Refused))]);
    }

    #[test]
    fn on_an_encrypted_connection_credentials_are_good_for_that_one() {
        for (at_connecting, at_accepting) in
            [(Some([1; 32]), Some([2; 32])), (Some([1; 32]), None), (None, Some([1; 32]))]
        {
            let mut connects = side(Role::Connects, 2, SECRET);
            let mut accepts = side(Role::Accepts, 0, SECRET);
            connects.bind(at_connecting);
            accepts.bind(at_accepting);
            let ended = meet(&mut connects, &mut accepts, 50);
            assert_eq!(ended, [Some(Err(Refusal::Secret)), Some(Err(Refusal::Refused))]);
        }
        let mut connects = side(Role::Connects, 2, SECRET);
        let mut accepts = side(Role::Accepts, 0, SECRET);
        connects.bind(Some([1; 32]));
        accepts.bind(Some([1; 32]));
        let ended = meet(&mut connects, &mut accepts, 50);
        assert_eq!(ended, [Some(Ok(identity(2))), Some(Ok(identity(0)))]);
    }

    #[test]
    fn a_host_that_encrypts_is_recognised_by_its_first_byte() {
        for first in ENCRYPTED {
            let mut accepts = side(Role::Accepts, 0, SECRET);
            assert_eq!(accepts.take(&[first]), Err(Refusal::Encrypted));
            assert_eq!(
                accepts.output().len(),
                GREETING,
                "it sends what no host that encrypts does"
            );
            let mut connects = side(Role::Connects, 2, SECRET);
            connects.output();
            assert_eq!(connects.take(&[first]), Err(Refusal::Encrypted));
            assert!(connects.output().is_empty());
            // Within an encrypted connection, it means nothing.
            let mut accepts = side(Role::Accepts, 0, SECRET);
            accepts.bind(Some([1; 32]));
            assert_eq!(accepts.take(&[first]), Err(Refusal::NoHost));
        }
    }

    #[test]
    fn another_version_is_named_on_both_sides() {
        let mut accepts = side(Role::Accepts, 0, SECRET);
        let mut connects = side(Role::Connects, 2, SECRET);
        let mut greeting = connects.output();
        greeting[MAGIC.len()] = 9;
        assert_eq!(accepts.take(&greeting), Err(Refusal::Version(9)));
        let mut greeting = accepts.output();
        assert_eq!(greeting.len(), GREETING, "it says its own version");
        greeting[MAGIC.len()] = 9;
        assert_eq!(connects.take(&greeting), Err(Refusal::Version(9)));
    }

    #[test]
    fn what_is_no_host_is_refused_at_its_first_wrong_byte() {
        for role in [Role::Accepts, Role::Connects] {
            assert_eq!(side(role, 0, SECRET).take(b"G"), Err(Refusal::NoHost));
            assert_eq!(side(role, 0, SECRET).take(b"thalweG"), Err(Refusal::NoHost));
        }
        let mut accepts = side(Role::Accepts, 0, SECRET);
        assert_eq!(accepts.take(b"GET / HTTP/1.1"), Err(Refusal::NoHost));
        assert!(accepts.output().is_empty(), "and hears nothing");
        // A greeting that comes back.
        let mut connects = side(Role::Connects, 2, SECRET);
        let greeting = connects.output();
        assert_eq!(connects.take(&greeting), Err(Refusal::NoHost));
    }

    /// The greeting and the credentials of a host, for this one that accepts.
    fn credentials(accepts: &mut Handshake) -> Vec<u8> {
        let mut connects = side(Role::Connects, 2, SECRET);
        accepts.take(&connects.output()).unwrap();
        connects.take(&accepts.output()).unwrap();
        connects.output()
    }

    #[test]
    fn credentials_with_any_other_bit_are_refused() {
        let mut accepts = side(Role::Accepts, 0, SECRET);
        let length = credentials(&mut accepts).len();
        for at in 0..length {
            let mut accepts = side(Role::Accepts, 0, SECRET);
            let mut credentials = credentials(&mut accepts);
            credentials[at] ^= 1 << (at % 8);
            match accepts.take(&credentials) {
                Err(Refusal::Secret | Refusal::NoHost) => {}
                // A length that is not complete.
                Ok(Step::Read(more)) => assert!(at < 2 && more <= LONGEST),
                other => panic!("byte {at}: {other:?}"),
            }
        }
    }

    #[test]
    fn credentials_of_any_length_are_bounded_before_they_are_authentic() {
        let mut accepts = side(Role::Accepts, 0, SECRET);
        credentials(&mut accepts);
        assert_eq!(accepts.take(&u16::MAX.to_le_bytes()), Ok(Step::Read(LONGEST + MAC)));
        assert_eq!(accepts.take(&[0; LONGEST + MAC]), Err(Refusal::NoHost));
    }

    #[test]
    fn credentials_are_good_for_one_handshake_and_one_role() {
        let mut accepts = side(Role::Accepts, 0, SECRET);
        let credentials = credentials(&mut accepts);
        // The same greeting again, to a host with another nonce.
        let mut other = Handshake::new(Role::Accepts, identity(0), Secret::new(SECRET), [9; NONCE]);
        other.take(&side(Role::Connects, 2, SECRET).output()).unwrap();
        assert_eq!(other.take(&credentials), Err(Refusal::Secret));
        // Sent back to the host that made them.
        let mut connects = side(Role::Connects, 2, SECRET);
        let mut accepts = side(Role::Accepts, 0, SECRET);
        accepts.take(&connects.output()).unwrap();
        connects.take(&accepts.output()).unwrap();
        let own = connects.output();
        connects.take(&[ACCEPTED]).unwrap();
        assert_eq!(connects.take(&own), Err(Refusal::Secret));
    }

    #[test]
    fn a_mismatch_is_said_in_the_same_words_on_both_sides() {
        let said = |edit: fn(&mut Identity)| {
            let (one, mut two) = (identity(0), identity(2));
            edit(&mut two);
            let mismatch = one.mismatch(&two);
            assert_eq!(mismatch, two.mismatch(&one));
            mismatch.unwrap_or_default()
        };
        assert_eq!(said(|_| ()), "");
        assert_eq!(said(|host| host.cores = 64), "");
        assert_eq!(
            said(|host| host.hosts = 4),
            "host 0 was started as one of 3 hosts, and host 2 as one of 4"
        );
        assert_eq!(
            said(|host| host.host = 0),
            "two hosts have the number 0, at 10.0.0.0:4711 and 10.0.0.2:4711"
        );
        assert_eq!(
            said(|host| host.executable = 1),
            "hosts 0 (10.0.0.0:4711) and 2 (10.0.0.2:4711) run different executables, with the digests \
             0000000000000e1e and 0000000000000001"
        );
        assert_eq!(
            said(|host| host.credit = 1),
            "hosts have to be configured with the same credit: host 0 has 1000 bytes, and host 2 has 1"
        );
        assert_eq!(
            said(|host| host.compression = "lz4".to_owned()),
            "hosts have to be configured with the same compression: host 0 has none, and host 2 has lz4"
        );
    }
}
