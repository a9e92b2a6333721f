//! The client's side of SCRAM (RFC 5802), by which both sides prove that they know a password. Pure but for the nonce.

use openssl::base64::{decode_block, encode_block};
use openssl::error::ErrorStack;
use openssl::hash::{MessageDigest, hash};
use openssl::pkcs5::pbkdf2_hmac;
use openssl::pkey::PKey;
use openssl::sign::Signer;

/// How often the password may be hashed. Few rounds, which a broker of another's could demand, make it easy to guess; many take the
/// processor's time. Kafka allows 4096 to 16,384.
const ROUNDS: std::ops::RangeInclusive<usize> = 4096..=1_000_000;

const TORN: &str = "the broker's message is not one of SCRAM";
const FAILED: &str = "OpenSSL cannot compute a message of SCRAM";

type Result<T> = std::result::Result<T, &'static str>;

/// The first message of a login.
pub(super) struct Scram {
    digest: MessageDigest,
    nonce: String,
    /// The message without what says that no channel is bound.
    bare: String,
}

/// The last message, and what the broker has to answer.
pub(super) struct Last {
    message: String,
    signature: Vec<u8>,
}

impl Scram {
    pub(super) fn new(digest: MessageDigest, user: &str) -> Result<Self> {
        let mut random = [0; 24];
        openssl::rand::rand_bytes(&mut random).map_err(|_| FAILED)?;
        Ok(Self::with_nonce(digest, user, encode_block(&random)))
    }

    pub(super) fn with_nonce(digest: MessageDigest, user: &str, nonce: String) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        let bare = format!("n={user},r={nonce}");
        Self { digest, nonce, bare }
    }

    pub(super) fn message(&self) -> String {
        format!("n,,{}", self.bare)
    }

    /// The message that follows the broker's first one.
    pub(super) fn answered(&self, password: &str, answer: &[u8]) -> Result<Last> {
        let answer = str::from_utf8(answer).map_err(|_| TORN)?;
        let mut parts = answer.split(',');
        let mut part = |name| parts.next().and_then(|part| part.strip_prefix(name)).ok_or(TORN);
        let (nonce, salt, rounds) = (part("r=")?, part("s=")?, part("i=")?);
        if nonce.len() <= self.nonce.len() || !nonce.starts_with(&self.nonce) {
            return Err("the broker answers another login than this");
        }
        let salt = decode_block(salt).map_err(|_| TORN)?;
        let rounds = rounds.parse().map_err(|_| TORN)?;
        if !ROUNDS.contains(&rounds) {
            return Err(
                "the broker wants a password hashed in less than 4096 or more than a million rounds",
            );
        }
        self.proven(password, nonce, answer, &salt, rounds).map_err(|_| FAILED)
    }

    fn proven(
        &self,
        password: &str,
        nonce: &str,
        answer: &str,
        salt: &[u8],
        rounds: usize,
    ) -> std::result::Result<Last, ErrorStack> {
        let digest = self.digest;
        let mut salted = vec![0; digest.size()];
        pbkdf2_hmac(password.as_bytes(), salt, rounds, digest, &mut salted)?;
        // The code of "n,,".
        let last = format!("c=biws,r={nonce}");
        let all = format!("{},{answer},{last}", self.bare);
        let key = hmac(digest, &salted, b"Client Key")?;
        let stored = hash(digest, &key)?;
        let signed = hmac(digest, &stored, all.as_bytes())?;
        let proof: Vec<_> = key.iter().zip(&signed).map(|(key, signed)| key ^ signed).collect();
        let of_broker = hmac(digest, &salted, b"Server Key")?;
        let signature = hmac(digest, &of_broker, all.as_bytes())?;
        Ok(Last { message: format!("{last},p={}", encode_block(&proof)), signature })
    }
}

impl Last {
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Whether the broker knows the password, too, by its last message.
    pub(super) fn check(&self, answer: &[u8]) -> Result<()> {
        let proof = str::from_utf8(answer).ok().and_then(|answer| answer.strip_prefix("v="));
        let proof = proof.and_then(|proof| decode_block(proof.split(',').next()?).ok());
        match proof {
            Some(proof) if proof == self.signature => Ok(()),
            _ => Err("the broker does not prove that it knows the password"),
        }
    }
}

fn hmac(
    digest: MessageDigest,
    key: &[u8],
    bytes: &[u8],
) -> std::result::Result<Vec<u8>, ErrorStack> {
    let key = PKey::hmac(key)?;
    Signer::new(digest, &key)?.sign_oneshot_to_vec(bytes)
}
