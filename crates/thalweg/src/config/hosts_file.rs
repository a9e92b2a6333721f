//! A file in TOML that lists the hosts of a cluster.

use super::Compression;
use super::file::{Source, in_order};
use super::settings::{Given, most_like};
use super::text::{NotAllowed, span, whole};
use super::{TaskCount, TaskCounts};
use crate::error::Result;
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// The hosts of a cluster as a file lists them: the argument of `--hosts`, and of `thalweg launch --hosts`.
///
/// The hosts are numbered in the order of the file, from 0. The first one listens at its address, at port 4711 if there
/// is none. Another one listens at its address if that has a port.
///
/// ```
/// use std::path::Path;
/// use thalweg::config::HostsFile;
///
/// let file = HostsFile::parse(
///     Path::new("hosts.toml"),
///     r#"
///     secret-file = "/etc/thalweg/secret"
///     connect-timeout = "120s"
///
///     [[hosts]]
///     address = "node1:4711"
///     cores = 8
///
///     [[hosts]]
///     address = "node2"
///     ssh = "me@node2.example.org"
///     "#,
/// )?;
/// assert_eq!(file.hosts.len(), 2);
/// assert_eq!(file.hosts[1].ssh_destination(), "me@node2.example.org");
/// # Ok::<(), thalweg::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HostsFile {
    /// The hosts by their numbers.
    pub hosts: Vec<ListedHost>,
    /// The file that contains the secret of the hosts, on each of them. By default `~/.thalweg/secret`. `thalweg launch`
    /// needs none: it makes a secret for each launch.
    pub secret_file: Option<PathBuf>,
    /// The folder of the certificates with which connections are encrypted, on each host: see
    /// [`Tls::read`](super::Tls::read).
    pub tls_dir: Option<PathBuf>,
    /// How long hosts wait for each other at the start: see
    /// [`HostConfig::connect_timeout`](super::HostConfig::connect_timeout).
    pub connect_timeout: Option<Duration>,
    /// After how long without a sign of life a host is lost: see [`HostConfig::lost_after`](super::HostConfig::lost_after).
    pub lost_after: Option<Duration>,
    /// How batches are compressed between hosts: see [`HostConfig::compression`](super::HostConfig::compression).
    pub compression: Option<Compression>,
}

/// A host in a [`HostsFile`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedHost {
    /// A name or an IP address, with or without a port. Of the first host: how the others reach it. Of another one: for
    /// ssh, and with a port, where it listens; without a port, its system chooses one.
    pub address: String,
    /// The cores that the job may use there. By default all that the process may use.
    pub cores: Option<NonZeroUsize>,
    /// The destination for ssh, if it is not the name in the address.
    pub ssh: Option<String>,
    /// The numbers of tasks of single stages on this host, by the name of the stage: see [`TaskCounts`].
    pub tasks: BTreeMap<String, usize>,
}

impl ListedHost {
    /// What `ssh` connects to: [`ssh`](Self::ssh), or the name in the address.
    pub fn ssh_destination(&self) -> &str {
        let (name, _) = self.name_and_port();
        self.ssh.as_deref().unwrap_or_else(|| name.trim_start_matches('[').trim_end_matches(']'))
    }

    /// The name in the [`address`](Self::address), and its port if it has one.
    pub fn name_and_port(&self) -> (&str, Option<&str>) {
        split_port(&self.address)
    }
}

/// An address without its port, and the port if it has one. The colons of an IPv6 address count as part of the name
/// unless it is in brackets.
pub(crate) fn split_port(address: &str) -> (&str, Option<&str>) {
    match address.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => (name, Some(port)),
        _ => (address, None),
    }
}

impl HostsFile {
    /// The numbers of tasks that the hosts are to have, as a setting of the job. A host without a number for a stage has as
    /// many tasks of it as without the setting.
    ///
    /// ```
    /// use std::path::Path;
    /// use thalweg::config::HostsFile;
    ///
    /// let text = "hosts = [{ address = 'a', tasks = { count = 6 } }, { address = 'b' }]";
    /// let file = HostsFile::parse(Path::new("hosts.toml"), text)?;
    /// assert_eq!(file.task_counts().to_string(), "count=6+_");
    /// # Ok::<(), thalweg::Error>(())
    /// ```
    pub fn task_counts(&self) -> TaskCounts {
        let mut counts = TaskCounts::default();
        for name in self.hosts.iter().flat_map(|host| host.tasks.keys()) {
            let of_host = |host: &ListedHost| host.tasks.get(name).copied();
            counts.insert(name, TaskCount::OnHosts(self.hosts.iter().map(of_host).collect()));
        }
        counts
    }

    /// The hosts in this text; `path` is for messages alone.
    ///
    /// # Errors
    ///
    /// Of kind [`Config`](crate::ErrorKind::Config), with the file and the line: text that is not TOML, an unknown key, a
    /// value that is not allowed, no host at all.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let source = Source { path, text };
        let table = source.parse()?;
        let mut file = Self {
            hosts: Vec::new(),
            secret_file: None,
            tls_dir: None,
            connect_timeout: None,
            lost_after: None,
            compression: None,
        };
        for (key, value) in in_order(table.get_ref()) {
            let at = source.given(key.span());
            match key.get_ref().as_ref() {
                "hosts" => file.hosts = source.hosts(value, at)?,
                "secret-file" => file.secret_file = Some(source.text_of(value, at)?.into()),
                "tls-dir" => file.tls_dir = Some(source.text_of(value, at)?.into()),
                "connect-timeout" => file.connect_timeout = Some(source.span(value, at)?),
                "lost-after" => file.lost_after = Some(source.span(value, at)?),
                "compression" => {
                    let how = source.text_of(value, at)?;
                    let wrong =
                        |error| at.error(format!("`compression` cannot be `{how}`: {error}"));
                    file.compression = Some(how.parse().map_err(|error: NotAllowed| wrong(error))?);
                }
                other => {
                    let known = [
                        "hosts",
                        "secret-file",
                        "tls-dir",
                        "connect-timeout",
                        "lost-after",
                        "compression",
                    ];
                    return Err(at.error(unknown(other, &known)));
                }
            }
        }
        if file.hosts.is_empty() {
            let what = "no host is listed: each has a table `[[hosts]]` with its `address`";
            return Err(source.given(0..0).error(what.to_owned()));
        }
        Ok(file)
    }
}

fn unknown(key: &str, known: &[&str]) -> String {
    match most_like(&key.replace('_', "-"), known.iter().copied()) {
        Some(meant) => format!("unknown key `{key}`; did you mean `{meant}`?"),
        None => format!("unknown key `{key}`; allowed are {}", known.join(", ")),
    }
}

impl<'a> Source<'a> {
    fn hosts(&self, value: &Spanned<DeValue<'a>>, at: Given<'a>) -> Result<Vec<ListedHost>> {
        let wrong = |at: Given<'_>| {
            at.error("`hosts` is a list of tables, each written as `[[hosts]]`".to_owned())
        };
        let DeValue::Array(list) = value.get_ref() else { return Err(wrong(at)) };
        list.iter()
            .map(|host| match host.get_ref() {
                DeValue::Table(table) => self.host(table, self.given(host.span())),
                _ => Err(wrong(self.given(host.span()))),
            })
            .collect()
    }

    fn host(&self, table: &DeTable<'a>, at: Given<'a>) -> Result<ListedHost> {
        let (mut address, mut cores, mut ssh) = (None, None, None);
        let mut tasks = BTreeMap::new();
        for (key, value) in in_order(table) {
            let at = self.given(key.span());
            match key.get_ref().as_ref() {
                "address" => address = Some(self.text_of(value, at)?),
                "ssh" => ssh = Some(self.text_of(value, at)?),
                "cores" => {
                    let written = self.text.get(value.span()).unwrap_or_default();
                    let number = whole(written).ok_or_else(|| {
                        at.error(format!(
                            "`cores` cannot be `{written}`: allowed is a whole number of at least 1"
                        ))
                    })?;
                    cores = Some(number);
                }
                "tasks" => tasks = self.tasks(value, at)?,
                other => {
                    return Err(at.error(unknown(other, &["address", "cores", "ssh", "tasks"])));
                }
            }
        }
        match address {
            Some(address) => Ok(ListedHost { address, cores, ssh, tasks }),
            None => Err(at.error("a host needs an `address`".to_owned())),
        }
    }

    fn tasks(
        &self,
        value: &Spanned<DeValue<'a>>,
        at: Given<'a>,
    ) -> Result<BTreeMap<String, usize>> {
        let DeValue::Table(counts) = value.get_ref() else {
            let what = "`tasks` is a table of stages and numbers, such as { count = 6 }";
            return Err(at.error(what.to_owned()));
        };
        let number = |(stage, count): (&Spanned<DeString<'a>>, &Spanned<DeValue<'a>>)| {
            let (name, at) = (stage.get_ref().as_ref(), self.given(stage.span()));
            let written = self.text.get(count.span()).unwrap_or_default();
            match written.parse() {
                Ok(number) if !name.is_empty() => Ok((name.to_owned(), number)),
                _ => {
                    let what = "allowed is a whole number from 0";
                    Err(at.error(format!("`tasks` of `{name}` cannot be `{written}`: {what}")))
                }
            }
        };
        in_order(counts).into_iter().map(number).collect()
    }

    fn text_of(&self, value: &Spanned<DeValue<'a>>, at: Given<'a>) -> Result<String> {
        match value.get_ref() {
            DeValue::String(text) if !text.is_empty() => Ok(text.clone().into_owned()),
            _ => {
                let written = self.text.get(value.span()).unwrap_or_default();
                Err(at.error(format!("expected a text in quotes, found `{written}`")))
            }
        }
    }

    fn span(&self, value: &Spanned<DeValue<'a>>, at: Given<'a>) -> Result<Duration> {
        let text = self.text_of(value, at)?;
        span(&text).filter(|span| !span.is_zero()).ok_or_else(|| {
            at.error(format!("`{text}` is no span of time above 0, such as 10s or 500ms"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    fn parse(text: &str) -> Result<HostsFile> {
        HostsFile::parse(Path::new("hosts.toml"), text)
    }

    #[test]
    fn hosts_are_listed_in_order() {
        let file = parse(
            "lost-after = '2s'\ntls-dir = '/t'\ncompression = 'lz4'\n[[hosts]]\naddress = 'a:1'\ncores = 1_0\n[[hosts]]\nssh = 'me@c'\n\
             address = 'b'\n",
        )
        .unwrap();
        assert_eq!(file.lost_after, Some(Duration::from_secs(2)));
        assert_eq!(file.tls_dir.as_deref(), Some(Path::new("/t")));
        assert_eq!(file.compression, Some(Compression::Lz4));
        let [a, b] = &file.hosts[..] else { panic!("{file:?}") };
        assert_eq!((&*a.address, a.cores.unwrap().get(), a.ssh_destination()), ("a:1", 10, "a"));
        assert_eq!((&*b.address, b.cores, b.ssh_destination()), ("b", None, "me@c"));
    }

    #[test]
    fn hosts_have_tasks_of_stages() {
        let file = parse(
            "[[hosts]]\naddress = 'a'\ntasks = { count = 3, 1 = 2 }\n[[hosts]]\naddress = 'b'\ntasks.count = 0\n",
        );
        assert_eq!(file.unwrap().task_counts().to_string(), "1=2+_,count=3+0");
        assert!(parse("[[hosts]]\naddress = 'a'\n").unwrap().task_counts().is_empty());
    }

    #[test]
    fn addresses_have_ports_or_not() {
        assert_eq!(split_port("node1:4711"), ("node1", Some("4711")));
        assert_eq!(split_port("node1"), ("node1", None));
        assert_eq!(split_port("[::1]:7"), ("[::1]", Some("7")));
        assert_eq!(split_port("::1"), ("::1", None));
        let six = ListedHost {
            address: "[::1]:7".into(),
            cores: None,
            ssh: None,
            tasks: BTreeMap::new(),
        };
        assert_eq!(six.ssh_destination(), "::1");
    }

    #[test]
    fn mistakes_are_told_with_their_line() {
        let message = |text: &str| {
            let error = parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            error.to_string()
        };
        let starts = |text: &str, start: &str| {
            let message = message(text);
            assert!(message.starts_with(start), "{message}");
        };
        starts("", "hosts.toml:1: no host is listed");
        starts("\nhosts = 3", "hosts.toml:2: `hosts` is a list of tables");
        starts("hosts = ['a']", "hosts.toml:1: `hosts` is a list of tables");
        starts("[[hosts]]\ncores = 1", "hosts.toml:1: a host needs an `address`");
        starts("[[hosts]]\naddress = 'a'\ncores = 0", "hosts.toml:3: `cores` cannot be `0`");
        starts("[[hosts]]\naddress = 'a'\ntasks = 3", "hosts.toml:3: `tasks` is a table of stages");
        starts(
            "[[hosts]]\naddress = 'a'\n[hosts.tasks]\ncount = -1",
            "hosts.toml:4: `tasks` of `count` cannot be `-1`: allowed is a whole number from 0",
        );
        starts("[[hosts]]\naddress = 7", "hosts.toml:2: expected a text in quotes, found `7`");
        starts("[[hosts]]\nadress = 'a'", "hosts.toml:2: unknown key `adress`; did you mean `ad");
        starts("secret_file = 'a'", "hosts.toml:1: unknown key `secret_file`; did you mean `sec");
        starts("secret = 'a'", "hosts.toml:1: unknown key `secret`; allowed are hosts, ");
        starts("lost-after = '0s'", "hosts.toml:1: `0s` is no span of time above 0");
        starts(
            "compression = 'zip'",
            "hosts.toml:1: `compression` cannot be `zip`: allowed is none or ",
        );
        starts("hosts = ", "hosts.toml:1: not TOML: ");
    }
}
