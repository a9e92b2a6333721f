//! The certificates with which the hosts of a job encrypt their connections.

use super::small_file;
use crate::error::Result;
#[cfg(feature = "tls")]
use crate::error::{Error, ErrorKind};
use std::fmt;
use std::path::{Path, PathBuf};

/// The most bytes of a file of certificates: some hundred of them.
const LONGEST: u64 = 1 << 20;

/// What a host encrypts its connections with: its certificate, the key of it, and the CA that has issued the certificates
/// of all hosts. For [`HostConfig::tls`](super::HostConfig::tls).
///
/// Connections use TLS 1.3, and each side checks the other's certificate: that the CA has issued it, and that it has not
/// expired. The names in it are not compared with anything, since hosts have addresses that change: whoever has a certificate
/// of this CA, and knows the [`Secret`](super::Secret), is a host. So use a CA that issues certificates for these hosts
/// alone. Several hosts may use the same certificate. Certificates are checked when hosts connect: one that expires later ends
/// nothing.
///
/// The feature `tls` of this crate is needed to connect with it.
///
/// ```
/// use thalweg::config::{HostConfig, Secret, Tls};
///
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
/// // Nothing is there yet.
/// let error = Tls::read(folder).unwrap_err();
/// assert!(error.to_string().contains("ca.crt: cannot read the certificate of the CA"));
///
/// # for name in ["ca.crt", "tls.crt", "tls.key"] {
/// #     std::fs::write(folder.join(name), "").unwrap();
/// #     #[cfg(unix)]
/// #     std::fs::set_permissions(folder.join(name), std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
/// # }
/// let mut host = HostConfig::new(1, 3, "10.0.0.1:4711", Secret::new("a long secret of this cluster"));
/// host.tls = Some(Tls::read(folder)?);
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "nothing is encrypted without the feature")
)]
pub struct Tls {
    pub(crate) authorities: Pem,
    pub(crate) certificate: Pem,
    pub(crate) key: Pem,
}

impl Tls {
    /// Reads the files `ca.crt`, `tls.crt` and `tls.key` of a folder, in PEM: the names that Secrets of Kubernetes have,
    /// such as those of cert-manager. `tls.crt` begins with the certificate of this host; intermediate certificates may
    /// follow. `ca.crt` may have several CAs, of which each is accepted.
    ///
    /// # Errors
    ///
    /// Of kind [`Config`](crate::ErrorKind::Config), with the file: one that cannot be read, or a key that every user of the
    /// machine may read. What is in the files is checked when the host connects.
    pub fn read(folder: impl AsRef<Path>) -> Result<Self> {
        let pem = |name: &str, read: fn(&Path, &str, u64) -> Result<Vec<u8>>, what| {
            let path = folder.as_ref().join(name);
            let text = read(&path, what, LONGEST)?;
            Ok(Pem { what, text, path: Some(path) })
        };
        Ok(Self {
            authorities: pem("ca.crt", small_file::read, AUTHORITIES)?,
            certificate: pem("tls.crt", small_file::read, CERTIFICATE)?,
            key: pem("tls.key", small_file::read_secret, KEY)?,
        })
    }

    /// From texts in PEM, as for [`read`](Self::read): the CA, the certificate, and its key.
    pub fn from_pem(
        authorities: impl Into<Vec<u8>>,
        certificate: impl Into<Vec<u8>>,
        key: impl Into<Vec<u8>>,
    ) -> Self {
        let pem = |what, text| Pem { what, text, path: None };
        Self {
            authorities: pem(AUTHORITIES, authorities.into()),
            certificate: pem(CERTIFICATE, certificate.into()),
            key: pem(KEY, key.into()),
        }
    }
}

const AUTHORITIES: &str = "the certificate of the CA";
const CERTIFICATE: &str = "the certificate of this host";
const KEY: &str = "the private key of this host";

/// A text in PEM, and where it is from.
#[derive(Clone)]
#[cfg_attr(
    not(feature = "tls"),
    expect(dead_code, reason = "nothing is encrypted without the feature")
)]
pub(crate) struct Pem {
    what: &'static str,
    pub(crate) text: Vec<u8>,
    path: Option<PathBuf>,
}

#[cfg(feature = "tls")]
impl Pem {
    /// An error about this text: what is wrong with it.
    pub(crate) fn refused(&self, why: &str) -> Error {
        let what = format!("{} {why}", self.what);
        match &self.path {
            Some(path) => small_file::refused(path, what),
            None => Error::new(ErrorKind::Config, what),
        }
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn files_are_named_that_cannot_be_used() {
        let folder = tempfile::tempdir().unwrap();
        let refused = || Tls::read(folder.path()).unwrap_err().to_string();
        for (name, what) in [("ca.crt", AUTHORITIES), ("tls.crt", CERTIFICATE), ("tls.key", KEY)] {
            let path = folder.path().join(name);
            let expected = format!("{}: cannot read {what}", path.display());
            assert!(refused().starts_with(&expected), "{}", refused());
            std::fs::write(&path, vec![b'x'; 1 + LONGEST as usize]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            if name == "tls.key" {
                assert!(refused().contains("the mode 644, and should have 600"), "{}", refused());
                std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
            }
            assert!(refused().contains("has at most 1048576 bytes"), "{}", refused());
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, "the text").unwrap();
        }
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", Tls::from_pem("a", "b", "the key")), "Tls(..)");
    }
}
