//! The cluster that is measured: one that is there, or a broker of our own.

use crate::link::Link;
use futures_executor::block_on;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use thalweg::{Error, ErrorKind, Place, Result};

/// How long a broker may take for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How long the first answer may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How often a broker is started with other ports, since another program took one before it did.
const STARTS: usize = 3;

/// A broker on this machine, which ends with this value.
pub(crate) struct Broker {
    /// What it has on disk.
    folder: TempDir,
    child: Child,
    host: &'static str,
    port: u16,
}

/// An error of a client.
pub(crate) fn failed(what: &str, cause: KafkaError) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what}")).caused_by(cause)
}

fn io(what: &str) -> impl FnOnce(std::io::Error) -> Error {
    let what = format!("cannot {what}");
    move |cause| Error::new(ErrorKind::Io, what).caused_by(cause)
}

impl Broker {
    /// Starts a broker from the jars in a folder, behind a link if there is one.
    pub(crate) fn start(jars: &Path, link: Option<&Link>) -> Result<Self> {
        if !jars.is_dir() {
            let what = "this is no folder with Kafka's jars";
            return Err(Error::new(ErrorKind::Config, what).at(Place::File(jars.to_owned())));
        }
        for _ in 1..STARTS {
            match Self::start_once(jars, link) {
                Err(error) if error.to_string().contains("Address already in use") => {}
                started => return started,
            }
        }
        Self::start_once(jars, link)
    }

    fn start_once(jars: &Path, link: Option<&Link>) -> Result<Self> {
        let folder = tempfile::tempdir().map_err(io("make a folder for the broker"))?;
        let host = if link.is_some() { Link::FAR } else { "127.0.0.1" };
        let [port, controller] = free_ports()?;
        let properties = folder.path().join("properties");
        let text = format!(
            "process.roles=broker,controller\n\
             node.id=1\n\
             controller.quorum.bootstrap.servers=127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://{host}:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://{host}:{port}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             log.dirs={}\n\
             offsets.topic.num.partitions=4\n\
             offsets.topic.replication.factor=1\n\
             log.segment.delete.delay.ms=1000\n",
            folder.path().join("data").display()
        );
        fs::write(&properties, text).map_err(io("write the broker's settings"))?;
        let classes = jars.join("*").into_os_string();
        let log = folder.path().join("log");
        let output = || File::create(&log).map_err(io("write the broker's log"));
        let mut format = java("1g", &classes, None);
        format.arg("kafka.tools.StorageTool").args(["format", "--standalone", "--cluster-id"]);
        format.arg("MkU3OEVBNTcwNTJENDM2Qg").arg("--config").arg(&properties);
        let formatted = format.stdout(output()?).stderr(output()?).status();
        if !formatted.map_err(io("start java"))?.success() {
            let what = format!("Kafka cannot be set up from these jars:\n{}", telling_lines(&log));
            return Err(Error::new(ErrorKind::Io, what).at(Place::File(jars.to_owned())));
        }
        let mut serve = java("1g", &classes, link);
        serve.arg("kafka.Kafka").arg(&properties);
        serve.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
        let child = serve.spawn().map_err(io("start java"))?;
        let mut broker = Self { folder, child, host, port };
        let begun = Instant::now();
        while !broker.is_ready()? {
            let has_ended = broker.child.try_wait().map_err(io("wait for the broker"))?.is_some();
            if has_ended || begun.elapsed() > PATIENCE {
                let log = telling_lines(&broker.folder.path().join("log"));
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("the broker does not start:\n{log}"),
                ));
            }
            thread::sleep(Duration::from_millis(50));
        }
        Ok(broker)
    }

    /// Whether it can be used: it answers some time before it is part of its own cluster, without which no topic can be made.
    fn is_ready(&self) -> Result<bool> {
        if TcpStream::connect((self.host, self.port)).is_err() {
            return Ok(false);
        }
        let config = Options::config(&self.address(), &[]);
        let client: BaseConsumer =
            config.create().map_err(|cause| failed("make a client", cause))?;
        let asked = client.fetch_metadata(None, Duration::from_secs(1));
        Ok(asked.is_ok_and(|metadata| !metadata.brokers().is_empty()))
    }

    pub(crate) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that are free, and differ.
fn free_ports() -> Result<[u16; 2]> {
    let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let bound = bind().and_then(|one| Ok([one, bind()?]));
    let ports =
        bound.and_then(|[one, other]| Ok([one.local_addr()?.port(), other.local_addr()?.port()]));
    ports.map_err(io("find ports for the broker"))
}

/// A program in Java that ends with this process, and gets none of its signals from the terminal. It runs behind a link if there
/// is one.
pub(crate) fn java(memory: &str, classes: &OsStr, link: Option<&Link>) -> Command {
    let mut java = match cfg!(target_os = "linux") {
        true => {
            let mut apart = Command::new("setpriv");
            apart.args(["--pdeathsig", "KILL"]);
            apart.args(link.iter().flat_map(|link| link.behind())).arg("java");
            apart
        }
        false => Command::new("java"),
    };
    java.process_group(0);
    java.arg(format!("-Xmx{memory}")).args(["-XX:+UseG1GC", "-cp"]).arg(classes);
    java
}

/// The lines of a log of Java that say most: those of errors, or else the last.
pub(crate) fn telling_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let is_trace = |line: &&str| line.trim_start().starts_with("at ");
    let lines: Vec<_> = text.lines().filter(|line| !is_trace(line)).collect();
    let tells = |line: &&&str| ["rror", "xception", "ERROR"].iter().any(|word| line.contains(word));
    let telling: Vec<_> = lines.iter().filter(tells).copied().collect();
    let shown = if telling.is_empty() { lines } else { telling };
    shown[shown.len().saturating_sub(10)..].join("\n")
}

/// Options of librdkafka, by its names.
pub(crate) struct Options;

impl Options {
    /// The settings of a client of these brokers, with options.
    pub(crate) fn config(brokers: &str, options: &[(String, String)]) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", brokers).set("client.id", "thalweg-profile");
        options.iter().for_each(|(name, value)| _ = config.set(name, value));
        config
    }
}

/// Two topics, which are removed with this value.
pub(crate) struct Topics {
    pub(crate) from: String,
    pub(crate) to: String,
    admin: AdminClient<DefaultClientContext>,
}

impl Topics {
    /// Makes topics whose names begin so. The records of the first have the broker's time.
    pub(crate) fn make(
        brokers: &str,
        options_of_clients: &[(String, String)],
        name: &str,
        partitions: i32,
    ) -> Result<Self> {
        let config = Options::config(brokers, options_of_clients);
        let admin: AdminClient<DefaultClientContext> =
            config.create().map_err(|cause| failed("make a client", cause))?;
        let asked = admin.inner().fetch_metadata(None, ANSWER);
        asked.map_err(|cause| failed(&format!("reach a broker at {brokers}"), cause))?;
        let topics = Self { from: format!("{name}-from"), to: format!("{name}-to"), admin };
        // As many as the brokers' own setting says.
        let replicas = || TopicReplication::Fixed(-1);
        let from = NewTopic::new(&topics.from, partitions, replicas())
            .set("message.timestamp.type", "LogAppendTime");
        let to = NewTopic::new(&topics.to, partitions, replicas());
        let made = block_on(topics.admin.create_topics([&from, &to], &options(PATIENCE)));
        for topic in made.map_err(|cause| failed("make topics", cause))? {
            topic.map_err(|(name, code): (String, RDKafkaErrorCode)| {
                Error::new(ErrorKind::Io, format!("cannot make the topic {name}: {code}"))
            })?;
        }
        Ok(topics)
    }
}

impl Drop for Topics {
    fn drop(&mut self) {
        let topics = [&*self.from, &*self.to];
        let gone = block_on(self.admin.delete_topics(&topics, &options(ANSWER)));
        if !gone.is_ok_and(|gone| gone.iter().all(std::result::Result::is_ok)) {
            eprintln!("warning: the topics {} may still be there", topics.join(" and "));
        }
    }
}

fn options(patience: Duration) -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(patience)).request_timeout(Some(patience))
}
