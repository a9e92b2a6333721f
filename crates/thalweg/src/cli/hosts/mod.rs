//! The hosts of a program that is started from outside: which one this process is, and how it reaches the others.
//!
//! Settings say it, as flags, variables or a file of hosts; what they leave open is taken from the variables of the
//! launcher that has started the process: `resolve` puts both together, `launcher` understands the variables. The
//! secret comes from a file (`secret`). Processes of one machine share its cores (`machine`) and its memory.

mod launcher;
mod machine;
mod output;
mod resolve;
mod secret;

pub(super) use output::{Lines, announce_waiting, silence_output};

use crate::config::{HostConfig, HostsFile, Settings, Tls, Transport};
use crate::error::Result;
use launcher::Variables;
use resolve::{Resolved, resolve};
use std::path::Path;

/// The host that these settings and variables describe; `None` if it is the only one. Changes the settings that
/// depend on it and were not set: cores and memory.
pub(super) fn find(
    settings: &mut Settings,
    file: Option<&HostsFile>,
    variables: &[(String, String)],
) -> Result<Option<HostConfig>> {
    let variables = Variables(variables);
    let run_of = |launcher: launcher::Launcher| {
        machine::launcher(launcher.rank_variable()).map(|process| process.to_string())
    };
    settings.hosts.transport.check()?;
    let Some(host) = resolve(&settings.hosts, file, variables, run_of)? else { return Ok(None) };
    share_machine(settings, &host);
    let home = variables.get("HOME").map(Path::new);
    let mut config = match host.transport {
        Transport::Tcp => {
            let secret = secret::secret(host.secret_file.as_deref(), home, host.run.as_deref())?;
            HostConfig::new(host.id, host.count, host.first, secret)
        }
        Transport::Mpi => HostConfig::mpi(host.id, host.count),
    };
    config.listen = host.listen;
    let tls_dir = host.tls_dir.map(|dir| secret::below_home(&dir, home));
    config.tls = tls_dir.map(Tls::read).transpose()?;
    config.connect_timeout = host.connect_timeout.unwrap_or(config.connect_timeout);
    config.lost_after = host.lost_after.unwrap_or(config.lost_after);
    config.compression = host.compression.unwrap_or(config.compression);
    config.validate()?;
    Ok(Some(config))
}

/// Sets cores and memory to what this process should use beside the others on its machine.
fn share_machine(settings: &mut Settings, host: &Resolved) {
    let config = &mut settings.config;
    if !settings.cores_are_set {
        config.cores = match host.cores {
            // More threads than the process may use cores would only wait for each other.
            Some(requested) if host.launcher.is_some() => requested.min(config.cores),
            Some(listed) => listed,
            None if host.local > 1 => {
                let launcher = host.launcher.map(launcher::Launcher::rank_variable);
                // Which of the processes of one machine this is, is known if there is no other machine.
                let this = (host.local == host.count).then_some(host.id);
                machine::share(host.local, this, launcher.and_then(machine::launcher))
            }
            None => config.cores,
        };
    }
    if !settings.memory_is_set {
        config.memory = (config.memory / host.local).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::launcher::tests::{MPICH, SLURM, variables};
    use super::*;
    use crate::error::ErrorKind;

    fn found(settings: &mut Settings, text: &str) -> Option<HostConfig> {
        let home = tempfile::tempdir().unwrap();
        let text = format!("{text}\nHOME={}", home.path().display());
        find(settings, None, &variables(&text)).unwrap()
    }

    #[test]
    fn a_launcher_makes_a_host() {
        let mut settings = Settings::default();
        settings.hosts.first = Some("10.0.0.1:77".to_owned());
        let host = found(&mut settings, SLURM).unwrap();
        assert_eq!((host.id, host.count, &*host.first), (2, 3, "10.0.0.1:77"));
        assert!(settings.config.cores.get() <= 2);
        assert!(found(&mut Settings::default(), "").is_none());
    }

    #[test]
    fn processes_of_a_machine_share_its_memory_unless_it_was_set() {
        let mut settings = Settings::default();
        settings.config.memory = 900;
        found(&mut settings, MPICH).unwrap();
        assert_eq!(settings.config.memory, 300);
        settings.config.memory = 900;
        settings.config.cores = 7.try_into().unwrap();
        (settings.memory_is_set, settings.cores_are_set) = (true, true);
        found(&mut settings, MPICH).unwrap();
        assert_eq!((settings.config.memory, settings.config.cores.get()), (900, 7));
        let local = "THALWEG_LOCAL_HOSTS=3";
        (settings.hosts.id, settings.hosts.count) = (Some(0), Some(3));
        settings.hosts.first = Some("127.0.0.1:77".to_owned());
        found(&mut settings, local).unwrap();
        assert_eq!((settings.config.memory, settings.config.cores.get()), (900, 7));
        (settings.memory_is_set, settings.cores_are_set) = (false, false);
        found(&mut settings, local).unwrap();
        assert_eq!(settings.config.memory, 300);
    }

    #[test]
    fn values_are_checked_before_anything_is_connected() {
        let mut settings = Settings::default();
        settings.hosts.first = Some("10.0.0.1:port".to_owned());
        let home = tempfile::tempdir().unwrap();
        let refused = |settings: &mut Settings, home: &Path| {
            let variables = variables(&format!("{SLURM}\nHOME={}", home.display()));
            let error = find(settings, None, &variables).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        assert!(refused(&mut settings, home.path()).contains("is no address of a host"));
        settings.hosts.first = Some("10.0.0.1:77".to_owned());
        settings.hosts.tls_dir = Some("~/tls".into());
        let missing = home.path().join("tls/ca.crt");
        let expected = format!("{}: cannot read", missing.display());
        assert!(refused(&mut settings, home.path()).starts_with(&expected));
        // A home that is no folder.
        let message = refused(&mut settings, Path::new("/dev/null"));
        assert!(message.starts_with("/dev/null/.thalweg/secret: cannot read"), "{message}");
    }
}
