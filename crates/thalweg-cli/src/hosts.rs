//! Processes on the hosts of a file, by ssh.

use crate::launch::{Arguments, secret};
use crate::lines::say;
use crate::script::{self, Prepared, Run};
use crate::ssh::{Machine, spawn};
use crate::supervise::{Control, Started};
use anyhow::{Context as _, Result, bail};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Duration;
use thalweg::config::{HostsFile, ListedHost};

/// The first of the ports that a launch chooses from, and their number: below those that systems hand out by themselves.
const PORTS: (u16, u16) = (20_000, 12_000);

/// Starts the program on each of the hosts, after it was copied to those that do not have it.
pub(crate) fn start(
    file: &Path,
    arguments: &Arguments,
    program: &Path,
    rest: &[OsString],
) -> Result<Vec<Started>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let listed = HostsFile::parse(file, &text)?;
    let directory = match &arguments.directory {
        Some(directory) => directory.clone(),
        None => env::current_dir().context("the working directory is not known")?,
    };
    let directory = utf8("the working directory", directory.as_os_str())?;
    let rest = rest.iter().map(|word| utf8("an argument", word)).collect::<Result<Vec<_>>>()?;
    let name = program.file_name().context("the program has no name")?;
    let copy = Copy {
        file: program,
        name: utf8("the name of the program", name)?,
        digest: digest(program).with_context(|| format!("cannot read {}", program.display()))?,
    };
    let machines: Vec<_> = listed
        .hosts
        .iter()
        .map(|host| Machine {
            destination: host.ssh_destination(),
            config: arguments.ssh_config.as_deref(),
        })
        .collect();
    let names: Vec<_> = machines
        .iter()
        .enumerate()
        .map(|(id, of)| format!("host {id} ({})", of.destination))
        .collect();
    prepare_all(&machines, &names, &copy)?;

    let secret = secret()?;
    let passed_on = variables_passed_on(env::vars_os(), &arguments.variables)?;
    let first = first_address(&listed, arguments.port)?;
    let place = script::place(&copy.digest, copy.name);
    let mut started: Vec<Started> = Vec::new();
    for (id, ((machine, name), host)) in machines.iter().zip(&names).zip(&listed.hosts).enumerate()
    {
        let variables = variables_of(id, host, &listed, &first, &passed_on, arguments);
        let script = script::run(&Run {
            program: &place,
            arguments: &rest,
            variables: &variables,
            directory,
            secret: &secret,
        });
        let mut command = machine.ssh(&script);
        command.process_group(0);
        if id > 0 {
            command.stdout(Stdio::null());
        }
        let child = spawn(&mut command, &script).with_context(|| name.clone());
        let with_input = child.and_then(|mut child| {
            let input = child.stdin.take().context("standard input is not piped")?;
            Ok((child, input))
        });
        match with_input {
            Ok((child, input)) => {
                started.push(Started::new(id, name.clone(), child, Control::Lines(input)));
            }
            Err(error) => {
                started.iter_mut().for_each(Started::kill);
                return Err(error);
            }
        }
    }
    Ok(started)
}

/// The program that is copied.
struct Copy<'a> {
    file: &'a Path,
    name: &'a str,
    digest: String,
}

/// Prepares all machines at once; the error is that of the first that cannot run the program.
fn prepare_all(machines: &[Machine<'_>], names: &[String], copy: &Copy<'_>) -> Result<()> {
    let system = {
        let uname = rustix::system::uname();
        format!("{} {}", uname.sysname().to_string_lossy(), uname.machine().to_string_lossy())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = machines
            .iter()
            .zip(names)
            .map(|(machine, name)| {
                let system = &system;
                let prepare =
                    move || prepare(machine, name, copy, system).with_context(|| name.clone());
                thread::Builder::new().spawn_scoped(scope, prepare)
            })
            .collect();
        let mut all = Ok(());
        for thread in threads {
            let prepared = match thread.context("cannot start a thread")?.join() {
                Ok(prepared) => prepared,
                Err(_) => Err(anyhow::anyhow!("the preparation of a host has panicked")),
            };
            all = all.and(prepared);
        }
        all
    })
}

/// Sees to it that a machine can run the program.
fn prepare(machine: &Machine<'_>, name: &str, copy: &Copy<'_>, system: &str) -> Result<()> {
    let ask = |part: Option<&str>| -> Result<Prepared> {
        let prepared =
            Prepared::read(&machine.output(&script::prepare(&copy.digest, copy.name, part))?);
        if !prepared.done {
            bail!("its shell does not do what is asked of it");
        }
        if prepared.system != system {
            bail!("it is {}, and the program was built for {system}", prepared.system);
        }
        Ok(prepared)
    };
    let mut prepared = ask(None)?;
    if !prepared.present {
        say(&format!("copying {} to {name}", copy.name));
        let part = script::place(&copy.digest, &format!("part-{}", &secret()?[..16]));
        machine.copy(copy.file, &part)?;
        prepared = ask(Some(&part))?;
        if prepared.damaged || !prepared.present {
            bail!("the copy of {} was damaged on the way", copy.name);
        }
    }
    if !prepared.missing.is_empty() {
        bail!("{} cannot run there: {}", copy.name, prepared.missing.join("; "));
    }
    Ok(())
}

/// SHA-256 of a file, as `sha256sum` prints it.
fn digest(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = hmac_sha256::Hash::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => hash.update(&buffer[..read]),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn utf8<'a>(what: &str, text: &'a OsStr) -> Result<&'a str> {
    text.to_str().with_context(|| format!("{what} is not UTF-8: {}", text.display()))
}

/// The address of the first host, with a port.
fn first_address(listed: &HostsFile, port: Option<u16>) -> Result<String> {
    let first = listed.hosts.first().context("no host is listed")?;
    let (name, listed_port) = first.name_and_port();
    let port = match (port, listed_port) {
        (Some(port), _) => port.to_string(),
        (None, Some(port)) => port.to_owned(),
        (None, None) => {
            let mut random = [0; 2];
            getrandom::fill(&mut random)
                .map_err(|cause| anyhow::anyhow!("cannot get random numbers: {cause}"))?;
            (PORTS.0 + u16::from_ne_bytes(random) % PORTS.1).to_string()
        }
    };
    if name.contains(':') && !name.starts_with('[') {
        return Ok(format!("[{name}]:{port}"));
    }
    Ok(format!("{name}:{port}"))
}

/// The variables that this command sets by itself.
const OURS: [&str; 7] = [
    "THALWEG_HOSTS",
    "THALWEG_HOST_ID",
    "THALWEG_HOST_COUNT",
    "THALWEG_FIRST_HOST",
    "THALWEG_LISTEN",
    "THALWEG_LOCAL_HOSTS",
    "THALWEG_SECRET_FILE",
];

/// The engine's settings in these variables, and the variables that are named on the command line.
fn variables_passed_on(
    here: impl IntoIterator<Item = (OsString, OsString)>,
    named: &[String],
) -> Result<Vec<(String, String)>> {
    let mut variables = Vec::new();
    for (name, value) in here {
        let Some(name) = name.to_str().filter(|name| name.starts_with("THALWEG_")) else {
            continue;
        };
        if name == "THALWEG_TLS_DIR" && value.is_empty() {
            bail!(
                "`{name}` is empty, so nothing would be encrypted: unset it, or set it to a folder"
            );
        }
        // Any other that is empty counts as not set, and must not hide what the file of hosts says.
        if !OURS.contains(&name) && !value.is_empty() {
            variables.push((name.to_owned(), utf8(name, &value)?.to_owned()));
        }
    }
    for named in named {
        let (name, value) = match named.split_once('=') {
            Some((name, value)) => (name, value.to_owned()),
            None => {
                let value = env::var_os(named)
                    .with_context(|| format!("--env {named}: it is not set here"))?;
                (named.as_str(), utf8(named, &value)?.to_owned())
            }
        };
        let mut bytes = name.bytes();
        let begins = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
        if !begins || !bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
            bail!("--env {named}: `{name}` is no name of a variable");
        }
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

/// What the file says of one host and the program may override.
fn settings_of(host: &ListedHost, listed: &HostsFile) -> Vec<(String, String)> {
    // It comes from a text.
    let tls_dir = listed.tls_dir.as_ref().map(|dir| dir.to_string_lossy().into_owned());
    let span = |span: Option<Duration>| span.map(|span| format!("{}ms", span.as_millis().max(1)));
    let settings = [
        ("THALWEG_CORES", host.cores.map(|cores| cores.to_string())),
        ("THALWEG_TLS_DIR", tls_dir),
        ("THALWEG_CONNECT_TIMEOUT", span(listed.connect_timeout)),
        ("THALWEG_LOST_AFTER", span(listed.lost_after)),
        ("THALWEG_COMPRESSION", listed.compression.map(|how| how.to_string())),
    ];
    settings.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect()
}

/// The variable that sets numbers of tasks of stages.
const TASKS: &str = "THALWEG_TASKS";

/// The variables of one host. Of those that are set twice, the later counts.
fn variables_of(
    id: usize,
    host: &ListedHost,
    listed: &HostsFile,
    first: &str,
    passed_on: &[(String, String)],
    arguments: &Arguments,
) -> Vec<(String, String)> {
    let mut variables = settings_of(host, listed);
    variables.extend_from_slice(passed_on);
    // Of the numbers of tasks, each name counts by itself, and what is passed on goes over the file.
    let listed_counts = listed.task_counts();
    if !listed_counts.is_empty() {
        let set =
            variables.iter().rfind(|(name, _)| name == TASKS).filter(|(_, set)| !set.is_empty());
        let set = set.map_or(String::new(), |(_, set)| format!(",{set}"));
        variables.push((TASKS.to_owned(), format!("{listed_counts}{set}")));
    }
    let mut set = |name: &str, value: String| variables.push((format!("THALWEG_{name}"), value));
    set("HOST_ID", id.to_string());
    set("HOST_COUNT", listed.hosts.len().to_string());
    set("FIRST_HOST", first.to_owned());
    if id > 0 && host.name_and_port().1.is_some() {
        set("LISTEN", host.address.clone());
    }
    if let Some(cores) = arguments.cores {
        set("CORES", cores.to_string());
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> HostsFile {
        HostsFile::parse(Path::new("hosts.toml"), text).unwrap()
    }

    #[test]
    fn the_first_address_has_a_port() {
        let of = |address: &str, port| {
            first_address(&listed(&format!("[[hosts]]\naddress = '{address}'")), port).unwrap()
        };
        assert_eq!(of("a:7", None), "a:7");
        assert_eq!(of("a:7", Some(9)), "a:9");
        assert_eq!(of("::1", Some(9)), "[::1]:9");
        assert_eq!(of("[::1]:7", None), "[::1]:7");
        let chosen = of("a", None);
        let port: u16 = chosen.strip_prefix("a:").unwrap().parse().unwrap();
        assert!((PORTS.0..PORTS.0 + PORTS.1).contains(&port), "{port}");
    }

    #[test]
    fn variables_have_names() {
        let of = |named: &str| variables_passed_on([], &[named.to_owned()]);
        let set = of("X=a=b").unwrap();
        assert!(set.contains(&("X".to_owned(), "a=b".to_owned())));
        assert!(of("PATH").unwrap().iter().any(|(name, _)| name == "PATH"));
        for wrong in ["1X=a", "=a", "a;b=c", "NO_SUCH_VARIABLE_HERE"] {
            assert!(of(wrong).is_err(), "{wrong}");
        }
    }

    /// The values that a host sees, where these variables are set and these flags are given.
    fn seen(here: &[(&str, &str)], flags: &[&str], name: &str) -> Option<String> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            arguments: Arguments,
        }
        let line = [&["launch", "--hosts=hosts.toml"], flags, &["--", "job"]].concat();
        let arguments = <Line as clap::Parser>::parse_from(line).arguments;
        let here = here.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let passed_on = variables_passed_on(here, &arguments.variables).unwrap();
        let listed = listed(
            "tls-dir = '~/tls'\nlost-after = '5s'\ncompression = 'lz4'\n[[hosts]]\naddress = 'a'\ncores = 3\n\
             tasks = { count = 6, sum = 2 }\n",
        );
        let all = variables_of(0, &listed.hosts[0], &listed, "a:7", &passed_on, &arguments);
        all.into_iter().rfind(|(known, _)| known == name).map(|(_, value)| value)
    }

    #[test]
    fn flags_go_over_variables_over_the_file_of_hosts() {
        let (cores, lost) = ("THALWEG_CORES", "THALWEG_LOST_AFTER");
        assert_eq!(seen(&[], &[], cores).as_deref(), Some("3"));
        assert_eq!(seen(&[], &[], lost).as_deref(), Some("5000ms"));
        assert_eq!(seen(&[], &[], "THALWEG_COMPRESSION").as_deref(), Some("lz4"));
        let here = [(cores, "4"), (lost, "9s"), ("THALWEG_HOST_ID", "7")];
        assert_eq!(seen(&here, &[], cores).as_deref(), Some("4"));
        assert_eq!(seen(&here, &[], lost).as_deref(), Some("9s"));
        assert_eq!(seen(&here, &["--env", "THALWEG_CORES=6"], cores).as_deref(), Some("6"));
        assert_eq!(seen(&here, &["--cores", "5"], cores).as_deref(), Some("5"));
        assert_eq!(seen(&here, &[], "THALWEG_HOST_ID").as_deref(), Some("0"));
        assert_eq!(seen(&[(cores, "")], &[], cores).as_deref(), Some("3"), "empty is not set");
        let tasks = "THALWEG_TASKS";
        assert_eq!(seen(&[], &[], tasks).as_deref(), Some("count=6,sum=2"));
        let here = [(tasks, "sum=5")];
        assert_eq!(
            seen(&here, &[], tasks).as_deref(),
            Some("count=6,sum=2,sum=5"),
            "the last counts"
        );
        assert_eq!(
            seen(&here, &["--env", "THALWEG_TASKS="], tasks).as_deref(),
            Some("count=6,sum=2"),
            "empty is not set"
        );
        let tls = "THALWEG_TLS_DIR";
        assert_eq!(seen(&[], &[], tls).as_deref(), Some("~/tls"));
        assert_eq!(seen(&[(tls, "/tls")], &[], tls).as_deref(), Some("/tls"));
    }

    #[test]
    fn digests_are_those_of_sha256sum() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest(file.path()).unwrap(), expected);
    }
}
