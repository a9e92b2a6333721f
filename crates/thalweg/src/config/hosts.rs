//! The hosts of a job, as one of them is started: which it is, how it reaches the others, and the secret they share.

use super::Tls;
use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::time::Duration;

/// What carries the data between hosts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Transport {
    /// TCP connections, which the engine makes itself.
    #[default]
    Tcp,
    /// Messages of MPI, between processes that its launcher has started (`mpirun`, or `srun` with support of MPI). The ranks
    /// of MPI are the hosts: so no address and no secret is needed. Needs the feature `mpi`, and an MPI library to compile
    /// with.
    ///
    /// MPI says nothing when a message arrives, so a thread looks for them: at once while messages come, and after a while
    /// without any, once a millisecond. The engine protects nothing that MPI carries.
    Mpi,
}

impl Transport {
    /// # Errors
    ///
    /// Of kind [`Config`](ErrorKind::Config), if the program was compiled without it.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::Mpi if !cfg!(feature = "mpi") => {
                let what = "this program was compiled without MPI: add the feature `mpi` of thalweg, or use TCP";
                Err(Error::new(ErrorKind::Config, what))
            }
            Self::Mpi | Self::Tcp => Ok(()),
        }
    }
}

/// Which host this process is, and how it reaches the others: for [`Environment::on_hosts`](crate::Environment::on_hosts).
///
/// Every host runs the same program with a `HostConfig` that differs in [`id`](Self::id), and in [`listen`](Self::listen)
/// where that is needed. All hosts connect to the first one, which passes on the addresses of the others; then every
/// two hosts have one connection.
///
/// ```
/// use thalweg::config::{HostConfig, Secret};
///
/// let secret = Secret::new("a long secret of this cluster");
/// let mut host = HostConfig::new(1, 3, "10.0.0.1:4711", secret);
/// host.listen = Some("10.0.0.2:0".to_owned());
/// host.validate()?;
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HostConfig {
    /// The number of this host, from 0.
    pub id: usize,
    /// The number of hosts.
    pub count: usize,
    /// What carries data between hosts. With MPI, [`first`](Self::first), [`listen`](Self::listen) and
    /// [`secret`](Self::secret) are not used, and [`id`](Self::id) and [`count`](Self::count) are MPI's rank and size.
    pub transport: Transport,
    /// The address of the first host, number 0, as `name:port`. The name is looked up again at each attempt to connect.
    pub first: String,
    /// The address at which this host accepts connections, as `name:port`; port 0 lets the system choose one. By default
    /// the first host uses [`first`](Self::first), and any other one the address from which it reaches the first, and a
    /// port that the system chooses: so hosts whose first is on loopback can be reached on loopback alone. With an
    /// unspecified address, such as `0.0.0.0:0`, the others connect to the address that the first host sees.
    pub listen: Option<String>,
    /// The secret that the hosts share.
    pub secret: Secret,
    /// What connections are encrypted with: on all hosts, or on none, which is the default. It needs the feature `tls`.
    pub tls: Option<Tls>,
    /// How long this host waits until all hosts are connected. By default one minute.
    pub connect_timeout: Duration,
    /// After how long without a sign of life another host is considered lost. It may be different on each host. By
    /// default ten seconds; at least 100 ms.
    pub lost_after: Duration,
    /// How batches are compressed between hosts, the same on all of them. By default they are not: on a fast network,
    /// compression costs more than it saves.
    pub compression: Compression,
}

/// How batches are compressed on their way between hosts.
///
/// The task that sends a batch compresses it, and the one that receives it decompresses it. Batches that are short, or do
/// not shrink, are sent as they are, and so are those that loops feed back. It changes no result.
///
/// ```
/// use thalweg::config::Compression;
///
/// assert_eq!("lz4".parse(), Ok(Compression::Lz4));
/// assert_eq!(Compression::default(), Compression::None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Compression {
    /// Not at all.
    #[default]
    None,
    /// By LZ4, which is fast; text becomes about half as large.
    Lz4,
}

impl HostConfig {
    /// Host `id` of `count`, of which host 0 listens at `first`.
    pub fn new(id: usize, count: usize, first: impl Into<String>, secret: Secret) -> Self {
        Self {
            id,
            count,
            transport: Transport::Tcp,
            first: first.into(),
            listen: None,
            secret,
            tls: None,
            connect_timeout: Duration::from_secs(60),
            lost_after: Duration::from_secs(10),
            compression: Compression::default(),
        }
    }

    /// The process with rank `id` of `count` that MPI's launcher has started: see [`Transport::Mpi`].
    pub fn mpi(id: usize, count: usize) -> Self {
        Self { transport: Transport::Mpi, ..Self::new(id, count, "", Secret::new("")) }
    }

    /// Checks the values, without looking names up.
    ///
    /// # Errors
    ///
    /// Of kind [`Config`](ErrorKind::Config), for the first value that is wrong.
    pub fn validate(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Config, what));
        let Self { id, count, .. } = self;
        match self {
            _ if *count == 0 => wrong("a job needs at least one host".to_owned()),
            _ if *count > MOST => wrong(format!("{count} hosts are more than {MOST}")),
            _ if id >= count => {
                wrong(format!("there is no host {id} of {count}: they are numbered from 0"))
            }
            _ if self.lost_after < LEAST_LOST_AFTER => wrong(format!(
                "hosts would be lost after {:?}, and need at least {LEAST_LOST_AFTER:?}",
                self.lost_after
            )),
            _ if self.transport == Transport::Mpi && self.tls.is_some() => wrong(
                "certificates are set, but the transport `mpi` does not use them: the engine encrypts nothing that MPI carries"
                    .to_owned(),
            ),
            _ if self.transport == Transport::Mpi => self.transport.check(),
            _ if self.secret.0.len() < Secret::LEAST => wrong(format!(
                "the secret of the hosts has {} bytes, and needs at least {}",
                self.secret.0.len(),
                Secret::LEAST
            )),
            _ => {
                address(&self.first, false)?;
                self.listen.as_ref().map_or(Ok(()), |listen| address(listen, true))
            }
        }
    }
}

/// The most hosts that a job may have: their numbers have 16 bits in messages.
const MOST: usize = 1 << 16;
/// A busy host may be silent for less than this.
const LEAST_LOST_AFTER: Duration = Duration::from_millis(100);

/// Checks the form of an address.
fn address(text: &str, any_port: bool) -> Result<()> {
    let port = text.rsplit_once(':').filter(|(name, _)| !name.is_empty());
    match port.and_then(|(_, port)| port.parse::<u16>().ok()) {
        Some(0) if !any_port => {
            let what = format!("the address of the first host, {text}, needs a port other than 0");
            Err(Error::new(ErrorKind::Config, what))
        }
        Some(_) => Ok(()),
        None => {
            let what = format!(
                "{text:?} is no address of a host: expected a name or an IP address, a colon, and a port"
            );
            Err(Error::new(ErrorKind::Config, what))
        }
    }
}

/// What only the hosts of a job know: a process that does not know it is refused. It is not sent to other hosts, and
/// not shown.
///
/// It authenticates connections. It does not encrypt what hosts send each other afterwards: [`Tls`] does.
#[derive(Clone)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// The least length of a secret, in bytes.
    pub const LEAST: usize = 16;

    /// A secret of these bytes: at least [`LEAST`](Self::LEAST), and hard to guess.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host() -> HostConfig {
        HostConfig::new(1, 3, "10.0.0.1:4711", Secret::new("a secret that is long enough"))
    }

    fn refused(edit: impl FnOnce(&mut HostConfig)) -> String {
        let mut host = host();
        edit(&mut host);
        let error = host.validate().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    #[test]
    fn wrong_values_are_refused_by_name() {
        host().validate().unwrap();
        assert_eq!(refused(|host| host.count = 0), "a job needs at least one host");
        assert_eq!(refused(|host| host.count = 70_000), "70000 hosts are more than 65536");
        assert_eq!(
            refused(|host| host.id = 3),
            "there is no host 3 of 3: they are numbered from 0"
        );
        let short = refused(|host| host.secret = Secret::new("short"));
        assert_eq!(short, "the secret of the hosts has 5 bytes, and needs at least 16");
        let soon = refused(|host| host.lost_after = Duration::from_millis(99));
        assert_eq!(soon, "hosts would be lost after 99ms, and need at least 100ms");
        for wrong in ["", "10.0.0.1", "10.0.0.1:", ":4711", "host:70000", "host:port"] {
            assert!(
                refused(|host| host.first = wrong.to_owned()).contains("is no address of a host")
            );
            assert!(refused(|host| host.listen = Some(wrong.to_owned())).contains("is no address"));
        }
        assert!(refused(|host| host.first = "host:0".to_owned()).contains("other than 0"));
        let free = HostConfig { listen: Some("[::1]:0".to_owned()), ..host() };
        free.validate().unwrap();
    }

    #[test]
    fn ranks_of_mpi_need_no_address_and_no_secret() {
        let mut rank = HostConfig::mpi(1, 3);
        let validated = rank.validate();
        assert_eq!(validated.is_ok(), cfg!(feature = "mpi"));
        if let Err(error) = validated {
            assert_eq!(error.kind(), ErrorKind::Config);
            assert_eq!(
                error.to_string(),
                "this program was compiled without MPI: add the feature `mpi` of thalweg, or use TCP"
            );
        }
        rank.tls = Some(Tls::from_pem("", "", ""));
        assert!(rank.validate().unwrap_err().to_string().starts_with("certificates are set"));
        rank.id = 3;
        assert!(rank.validate().unwrap_err().to_string().starts_with("there is no host 3 of 3"));
    }

    #[test]
    fn a_secret_is_not_shown() {
        assert!(!format!("{:?}", host()).contains("long enough"));
    }
}
