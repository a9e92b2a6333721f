//! Which host this process is, from settings, a file of hosts, and what its launcher says. Pure.

use super::launcher::{Launched, Launcher, Variables, detect, detect_any};
use crate::config::{Compression, HostSettings, HostsFile, ListedHost, Transport, split_port};
use crate::error::{Error, ErrorKind, Result};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

/// The port of the first host, if neither a setting nor what is known of the launcher determines it.
const USUAL_PORT: u16 = 4711;
/// The ports of starts that have an identity: below those that systems hand out by themselves.
const FIRST_PORT: u16 = 20_000;
const PORTS: u64 = 12_000;

/// One of several hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Resolved {
    pub(super) id: usize,
    pub(super) count: usize,
    pub(super) transport: Transport,
    pub(super) first: String,
    pub(super) listen: Option<String>,
    pub(super) secret_file: Option<PathBuf>,
    pub(super) tls_dir: Option<PathBuf>,
    /// What is added to the secret, so that different starts of a launcher have different ones.
    pub(super) run: Option<String>,
    pub(super) connect_timeout: Option<Duration>,
    pub(super) lost_after: Option<Duration>,
    pub(super) compression: Option<Compression>,
    pub(super) launcher: Option<Launcher>,
    /// How many of the hosts are on this machine, as far as is known.
    pub(super) local: usize,
    /// The cores that were requested for this process.
    pub(super) cores: Option<NonZeroUsize>,
}

/// The host that this process is, or `None` if it is the only one. Settings go over the file, and that over what the
/// launcher says. `run_of` returns the identity of a start whose launcher does not say one, and which is on one machine.
pub(super) fn resolve(
    set: &HostSettings,
    file: Option<&HostsFile>,
    variables: Variables<'_>,
    run_of: impl FnOnce(Launcher) -> Option<String>,
) -> Result<Option<Resolved>> {
    let listed = file.map(|file| file.hosts.len());
    if let (Some(count), Some(listed)) = (set.count, listed)
        && count != listed
    {
        return wrong(format!("`host-count` is {count}, and the file of hosts lists {listed}"));
    }
    let stated = set.count.or(listed);
    if stated == Some(1) && set.id.unwrap_or(0) == 0 {
        return Ok(None);
    }
    if set.transport == Transport::Mpi {
        return rank(set, file.is_some(), variables);
    }
    let launched = match (set.id, stated) {
        (Some(_), Some(_)) => None,
        _ => detect(variables)?,
    };
    let started = launched.as_ref().and_then(|launched| Some((launched.by, launched.count?)));
    let count = match (stated, started) {
        (Some(stated), Some((by, started))) if stated != started => {
            return wrong(format!("{stated} hosts were stated, and {by} has started {started}"));
        }
        (Some(count), _) | (None, Some((_, count))) => count,
        (None, None) if set.id.is_some() || set.first.is_some() => {
            return wrong(String::from(
                "the number of hosts is not known: set `--host-count` or `--hosts` \
                 (`THALWEG_HOST_COUNT` or `THALWEG_HOSTS`)",
            ));
        }
        (None, None) => return Ok(None),
    };
    let Some(id) = set.id.or(launched.as_ref().map(|launched| launched.id)) else {
        return wrong(format!(
            "there are {count} hosts, and which one this is is not known: set {}, from 0 to {}",
            name("host-id"),
            count - 1
        ));
    };
    let run = launched.as_ref().and_then(|launched| match &launched.run {
        None if Some(launched.local) == launched.count => run_of(launched.by),
        run => run.clone(),
    });
    let (first, port) = first(set, file, launched.as_ref(), run.as_deref())?;
    let this = file.and_then(|file| file.hosts.get(id));
    let limits = file.map(|file| (file.connect_timeout, file.lost_after));
    let (connect_timeout, lost_after) = limits.unwrap_or_default();
    let local = match &launched {
        Some(launched) => Some(launched.local),
        None => variables.local_hosts()?,
    };
    Ok(Some(Resolved {
        listen: listen(id, set.listen.as_deref(), this, &first, &port),
        id,
        count,
        transport: Transport::Tcp,
        first: format!("{first}:{port}"),
        secret_file: set.secret_file.clone().or(file.and_then(|file| file.secret_file.clone())),
        tls_dir: set.tls_dir.clone().or(file.and_then(|file| file.tls_dir.clone())),
        run,
        connect_timeout: set.connect_timeout.or(connect_timeout),
        lost_after: set.lost_after.or(lost_after),
        compression: set.compression.or(file.and_then(|file| file.compression)),
        launcher: launched.as_ref().map(|launched| launched.by),
        local: local.unwrap_or(1).max(1),
        cores: this
            .and_then(|host| host.cores)
            .or(launched.as_ref().and_then(|launched| launched.cores)),
    }))
}

/// The rank that this process is of those that MPI's launcher has started, or `None` if it is the only one.
fn rank(set: &HostSettings, has_file: bool, variables: Variables<'_>) -> Result<Option<Resolved>> {
    let given = [
        (set.id.is_some(), "host-id"),
        (set.first.is_some(), "first-host"),
        (set.listen.is_some(), "listen"),
        (has_file, "hosts"),
    ];
    if let Some((_, setting)) = given.into_iter().find(|(is_given, _)| *is_given) {
        let name = name(setting);
        return wrong(format!(
            "{name} is set, and with the transport `mpi` the hosts are the processes that MPI has started"
        ));
    }
    for (is_given, setting) in
        [(set.secret_file.is_some(), "secret-file"), (set.tls_dir.is_some(), "tls-dir")]
    {
        if is_given {
            let name = name(setting);
            return wrong(format!(
                "{name} is set, but the transport `mpi` does not use it: the engine protects nothing that MPI carries"
            ));
        }
    }
    let launched = detect_any(variables)?.filter(|launched| launched.by != Launcher::Kubernetes);
    let Some(Launched { by, id, count: Some(count), local, cores, .. }) = launched else {
        return wrong(String::from(
            "the transport `mpi` is for processes that MPI's launcher has started: run `mpirun -n N` before the program",
        ));
    };
    match set.count {
        _ if count == 1 => return Ok(None),
        Some(stated) if stated != count => {
            return wrong(format!("{stated} hosts were stated, and {by} has started {count}"));
        }
        _ => {}
    }
    Ok(Some(Resolved {
        id,
        count,
        transport: Transport::Mpi,
        first: String::new(),
        listen: None,
        secret_file: None,
        tls_dir: None,
        run: None,
        connect_timeout: set.connect_timeout,
        lost_after: set.lost_after,
        compression: set.compression,
        launcher: Some(by),
        local: local.max(1),
        cores,
    }))
}

/// The name and the port of the first host.
fn first(
    set: &HostSettings,
    file: Option<&HostsFile>,
    launched: Option<&Launched>,
    run: Option<&str>,
) -> Result<(String, String)> {
    let set = set.first.as_deref();
    let listed = file.and_then(|file| file.hosts.first()).map(|host| host.address.as_str());
    let found = launched.and_then(|launched| launched.first.as_deref());
    let Some(address) = set.or(listed).or(found) else {
        let why = match launched.map(|launched| launched.by) {
            Some(by @ (Launcher::OpenMpi | Launcher::Mpich)) => {
                format!(
                    "{by} has started processes on several machines, and does not say where the first is: "
                )
            }
            _ => "the address of the first host is not known: ".to_owned(),
        };
        return wrong(format!(
            "{why}set {} to the name of its machine, on all hosts alike",
            name("first-host")
        ));
    };
    let (name, port) = split_port(address);
    let port = match port {
        Some(port) => port.to_owned(),
        None => run.map_or(USUAL_PORT, port_of).to_string(),
    };
    let name = if name.contains(':') && !name.starts_with('[') {
        format!("[{name}]")
    } else {
        name.to_owned()
    };
    Ok((name, port))
}

/// The port of a start, the same on all of its hosts.
fn port_of(run: &str) -> u16 {
    // FNV-1a: what matters is that all hosts, of any version, agree.
    let hash = run.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    FIRST_PORT + (hash % PORTS) as u16
}

/// Where a host listens. The name of the first host may mean a loopback address on its own machine, as in Debian's
/// `/etc/hosts`; so hosts that are found by a name listen on all of their addresses.
fn listen(
    id: usize,
    set: Option<&str>,
    this: Option<&ListedHost>,
    first: &str,
    port_of_first: &str,
) -> Option<String> {
    let any = if id == 0 { port_of_first } else { "0" };
    if let Some(set) = set {
        let (name, port) = split_port(set);
        let port = port.filter(|port| id != 0 || *port != "0");
        return Some(format!("{name}:{}", port.unwrap_or(any)));
    }
    match this {
        Some(host) if id != 0 && host.name_and_port().1.is_some() => Some(host.address.clone()),
        _ if is_name(first) => Some(format!("0.0.0.0:{any}")),
        _ => None,
    }
}

/// Whether this is a name that may mean different addresses on different machines, and not an IP address.
fn is_name(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.parse::<IpAddr>().is_err() && bare != "localhost"
}

/// A setting in messages: by its flag and its variable.
fn name(setting: &str) -> String {
    format!("`--{setting}` or `THALWEG_{}`", setting.replace('-', "_").to_uppercase())
}

fn wrong<T>(what: String) -> Result<T> {
    Err(Error::new(ErrorKind::Config, what))
}

#[cfg(test)]
mod tests {
    use super::super::launcher::tests::{MPICH, OPEN_MPI, SLURM, variables};
    use super::*;
    use std::path::Path;

    fn resolved(set: &HostSettings, file: Option<&str>, text: &str) -> Result<Option<Resolved>> {
        let file = file.map(|file| HostsFile::parse(Path::new("hosts.toml"), file).unwrap());
        let run = |launcher| {
            assert_eq!(launcher, Launcher::Mpich);
            Some("4678".to_owned())
        };
        resolve(set, file.as_ref(), Variables(&variables(text)), run)
    }

    fn one(set: &HostSettings, file: Option<&str>, text: &str) -> Resolved {
        resolved(set, file, text).unwrap().unwrap()
    }

    fn refused(set: &HostSettings, file: Option<&str>, text: &str) -> String {
        let error = resolved(set, file, text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        error.to_string()
    }

    const FILE: &str = "secret-file = '/s'\ntls-dir = '/c'\nlost-after = '5s'\ncompression = 'lz4'\n[[hosts]]\naddress = 'a'\n\
                        [[hosts]]\naddress = 'b:99'\ncores = 3\n[[hosts]]\naddress = 'c'\n";

    #[test]
    fn nothing_set_and_no_launcher_is_one_host() {
        assert_eq!(resolved(&HostSettings::default(), None, "PATH=/bin").unwrap(), None);
        let secret = HostSettings { secret_file: Some("/s".into()), ..Default::default() };
        assert_eq!(resolved(&secret, None, "").unwrap(), None);
        // A single one can be stated within a launcher too.
        let alone = HostSettings { count: Some(1), ..Default::default() };
        assert_eq!(resolved(&alone, None, SLURM).unwrap(), None);
    }

    #[test]
    fn settings_alone() {
        let mut set = HostSettings {
            id: Some(1),
            count: Some(3),
            first: Some("10.0.0.1".into()),
            ..Default::default()
        };
        let host = one(&set, None, "");
        assert_eq!((host.id, host.count, &*host.first), (1, 3, "10.0.0.1:4711"));
        assert_eq!((host.listen, host.local, host.run), (None, 1, None));
        // Complete settings count more than any launcher: `thalweg launch` makes them so.
        assert_eq!(one(&set, None, OPEN_MPI).count, 3);
        assert_eq!(one(&set, None, "THALWEG_LOCAL_HOSTS=3").local, 3);
        let wrong = refused(&set, None, "THALWEG_LOCAL_HOSTS=all");
        assert_eq!(wrong, "`THALWEG_LOCAL_HOSTS` cannot be `all`: expected a whole number");
        set.first = Some("a:5".into());
        assert_eq!(one(&set, None, "").listen.as_deref(), Some("0.0.0.0:0"));
        set.id = Some(0);
        assert_eq!(one(&set, None, "").listen.as_deref(), Some("0.0.0.0:5"));
        // The same flag serves all hosts.
        set.listen = Some("10.1.1.1:0".into());
        assert_eq!(one(&set, None, "").listen.as_deref(), Some("10.1.1.1:5"));
        set.id = Some(2);
        assert_eq!(one(&set, None, "").listen.as_deref(), Some("10.1.1.1:0"));
        set.first = Some("fe80::1".into());
        assert_eq!(one(&set, None, "").first, "[fe80::1]:4711");
    }

    #[test]
    fn a_file_of_hosts() {
        let mut set = HostSettings { id: Some(1), ..Default::default() };
        let host = one(&set, Some(FILE), "");
        assert_eq!((host.id, host.count, &*host.first), (1, 3, "a:4711"));
        assert_eq!(host.listen.as_deref(), Some("b:99"));
        assert_eq!(host.cores, NonZeroUsize::new(3));
        assert_eq!(host.secret_file.as_deref(), Some(Path::new("/s")));
        assert_eq!(host.tls_dir.as_deref(), Some(Path::new("/c")));
        assert_eq!(host.lost_after, Some(Duration::from_secs(5)));
        assert_eq!(host.compression, Some(Compression::Lz4));
        set.id = Some(2);
        set.lost_after = Some(Duration::from_secs(7));
        set.compression = Some(Compression::None);
        set.secret_file = Some("/t".into());
        set.tls_dir = Some("/d".into());
        let host = one(&set, Some(FILE), "");
        assert_eq!((host.listen.as_deref(), host.cores), (Some("0.0.0.0:0"), None));
        assert_eq!(host.secret_file.as_deref(), Some(Path::new("/t")));
        assert_eq!(host.tls_dir.as_deref(), Some(Path::new("/d")));
        assert_eq!(host.lost_after, Some(Duration::from_secs(7)));
        assert_eq!(host.compression, Some(Compression::None));
    }

    #[test]
    fn a_launcher_says_what_settings_do_not() {
        let none = HostSettings::default();
        let slurm = one(&none, None, SLURM);
        assert_eq!((slurm.id, slurm.count, slurm.run.as_deref()), (2, 3, Some("1.0")));
        let port = port_of("1.0");
        assert_eq!(slurm.first, format!("n08:{port}"));
        assert!((FIRST_PORT..32_000).contains(&port), "{port}");
        assert_ne!(port, port_of("1.1"));
        let file = one(&none, Some(FILE), SLURM);
        assert_eq!((file.id, &*file.first), (2, format!("a:{port}").as_str()));
        let mpich = one(&none, None, MPICH);
        assert_eq!((mpich.run.as_deref(), mpich.local), (Some("4678"), 3));
        assert_eq!(mpich.first, format!("127.0.0.1:{}", port_of("4678")));
        assert_eq!(mpich.listen, None);
        let first = HostSettings { first: Some("x:1".into()), ..none };
        assert_eq!(one(&first, None, OPEN_MPI).first, "x:1");
        let several = OPEN_MPI.replace("LOCAL_SIZE=2", "LOCAL_SIZE=1");
        assert_eq!(one(&first, None, &several).first, "x:1");
    }

    #[test]
    fn pods_are_told_the_rest() {
        let set = HostSettings {
            count: Some(4),
            first: Some("words-0.words:4711".into()),
            ..Default::default()
        };
        let pod = "KUBERNETES_SERVICE_HOST=10.96.0.1\nJOB_COMPLETION_INDEX=3";
        let host = one(&set, None, pod);
        assert_eq!((host.id, host.count, &*host.first), (3, 4, "words-0.words:4711"));
        assert_eq!(host.listen.as_deref(), Some("0.0.0.0:0"));
        // The pods of another job work alone.
        assert_eq!(resolved(&HostSettings::default(), None, pod).unwrap(), None);
    }

    #[test]
    fn ranks_of_mpi_are_hosts() {
        let mpi = HostSettings { transport: Transport::Mpi, ..Default::default() };
        let rank = one(&mpi, None, OPEN_MPI);
        assert_eq!((rank.count, rank.transport, &*rank.first), (2, Transport::Mpi, ""));
        assert_eq!((rank.listen, rank.run), (None, None));
        // Several machines are nothing special.
        let several = OPEN_MPI.replace("LOCAL_SIZE=2", "LOCAL_SIZE=1");
        assert_eq!(one(&mpi, None, &several).local, 1);
        assert_eq!((one(&mpi, None, MPICH).count, one(&mpi, None, SLURM).count), (3, 3));
        let alone = OPEN_MPI.replace("WORLD_SIZE=2", "WORLD_SIZE=1").replace("RANK=1", "RANK=0");
        assert_eq!(resolved(&mpi, None, &alone).unwrap(), None);
        assert_eq!(
            refused(&mpi, None, ""),
            "the transport `mpi` is for processes that MPI's launcher has started: run `mpirun -n N` before the program"
        );
        let pod = "KUBERNETES_SERVICE_HOST=10.96.0.1\nJOB_COMPLETION_INDEX=3";
        assert!(refused(&mpi, None, pod).starts_with("the transport `mpi` is for processes"));
        let more = HostSettings { count: Some(3), ..mpi.clone() };
        assert_eq!(
            refused(&more, None, OPEN_MPI),
            "3 hosts were stated, and Open MPI has started 2"
        );
        let first = HostSettings { first: Some("node1".into()), ..mpi.clone() };
        assert_eq!(
            refused(&first, None, OPEN_MPI),
            "`--first-host` or `THALWEG_FIRST_HOST` is set, and with the transport `mpi` the hosts are the processes that \
             MPI has started"
        );
        let id = HostSettings { id: Some(1), ..mpi.clone() };
        assert!(refused(&id, None, OPEN_MPI).starts_with("`--host-id`"));
        let listen = HostSettings { listen: Some("x".into()), ..mpi.clone() };
        assert!(refused(&listen, None, OPEN_MPI).starts_with("`--listen`"));
        assert!(refused(&mpi, Some(FILE), OPEN_MPI).starts_with("`--hosts`"));
        // What would be thought to protect the data is not left out.
        let encrypted = HostSettings { tls_dir: Some("tls".into()), ..mpi.clone() };
        assert_eq!(
            refused(&encrypted, None, OPEN_MPI),
            "`--tls-dir` or `THALWEG_TLS_DIR` is set, but the transport `mpi` does not use it: the engine protects nothing that \
             MPI carries"
        );
        let secret = HostSettings { secret_file: Some("secret".into()), ..mpi.clone() };
        assert!(refused(&secret, None, OPEN_MPI).starts_with("`--secret-file`"));
    }

    #[test]
    fn what_is_missing_is_named() {
        let none = HostSettings::default();
        let several = OPEN_MPI.replace("LOCAL_SIZE=2", "LOCAL_SIZE=1");
        assert_eq!(
            refused(&none, None, &several),
            "Open MPI has started processes on several machines, and does not say where the first \
             is: set `--first-host` or `THALWEG_FIRST_HOST` to the name of its machine, on all \
             hosts alike"
        );
        let id = HostSettings { id: Some(1), ..none.clone() };
        assert_eq!(
            refused(&id, None, ""),
            "the number of hosts is not known: set `--host-count` or `--hosts` \
             (`THALWEG_HOST_COUNT` or `THALWEG_HOSTS`)"
        );
        let count = HostSettings { count: Some(3), ..none.clone() };
        assert_eq!(
            refused(&count, None, ""),
            "there are 3 hosts, and which one this is is not known: set `--host-id` or \
             `THALWEG_HOST_ID`, from 0 to 2"
        );
        let both = HostSettings { id: Some(1), ..count.clone() };
        assert!(refused(&both, None, "").starts_with("the address of the first host is not known"));
        assert_eq!(
            refused(&count, None, OPEN_MPI),
            "3 hosts were stated, and Open MPI has started 2"
        );
        let more = HostSettings { count: Some(4), ..none };
        assert_eq!(
            refused(&more, Some(FILE), ""),
            "`host-count` is 4, and the file of hosts lists 3"
        );
    }
}
