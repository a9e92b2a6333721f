//! Encrypted connections, and clients that say who they are: the broker has listeners for both beside its plain one.

use crate::broker::{Broker, More, PATIENCE, free_port};
use crate::{Test, open};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{OnceLock, mpsc};
use std::thread;
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, Error, ErrorKind};
use thalweg_kafka::{KafkaSink, KafkaSource, Outgoing};

pub const TESTS: &[Test] = &[
    ("jobs_read_and_write_through_tls", tls),
    ("jobs_read_and_write_with_a_certificate_of_their_own", mutual),
    ("jobs_read_and_write_with_scram_of_sha_256", scram_256),
    ("jobs_read_and_write_with_scram_of_sha_512", scram_512),
    ("jobs_read_and_write_with_plain_passwords", plain),
    ("open_transactions_are_committed_through_tls_and_with_passwords", open_transactions),
    ("all_is_written_at_least_once_through_tls", at_least_once),
    ("the_settings_of_a_topic_are_asked_for_through_tls", topic_settings),
    ("connections_that_are_refused_are_said_with_what_to_do", refused),
];

/// The ports of the listeners `TLS`, `MUTUAL`, `SASL`, `TOKENS` and `RENEWED`.
static PORTS: OnceLock<[u16; 5]> = OnceLock::new();

/// A broker with all listeners, whose certificate is for `localhost`.
pub fn broker(jars: &Path) -> Broker {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let [tls, mutual, sasl, tokens, renewed] = *PORTS.get_or_init(|| [(); 5].map(|()| free_port()));
    let (authority, other) = (authority("an authority"), authority("another authority"));
    write(folder.path(), "ca.pem", &authority.pem());
    write(folder.path(), "other-ca.pem", &other.pem());
    for (name, authority) in [("broker", &authority), ("job", &authority), ("stranger", &other)] {
        let key = KeyPair::generate().expect("a key");
        let params = CertificateParams::new(["localhost".to_owned()]).expect("a name");
        let certificate = params.signed_by(&key, authority).expect("it is signed").pem();
        let key = key.serialize_pem();
        write(folder.path(), &format!("{name}.pem"), &format!("{key}{certificate}"));
    }
    let at = folder.path().display();
    let users = [("256", "secret-256"), ("512", "secret-512")];
    let users = users.map(|(bits, password)| {
        format!("SCRAM-SHA-{bits}=[name=job,iterations=4096,password={password}]")
    });
    let modules = "org.apache.kafka.common.security";
    let properties = format!(
        "ssl.keystore.type=PEM\n\
         ssl.keystore.location={at}/broker.pem\n\
         ssl.truststore.type=PEM\n\
         ssl.truststore.location={at}/ca.pem\n\
         listener.name.mutual.ssl.client.auth=required\n\
         listener.name.sasl.sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN\n\
         listener.name.sasl.scram-sha-256.sasl.jaas.config={modules}.scram.ScramLoginModule required;\n\
         listener.name.sasl.scram-sha-512.sasl.jaas.config={modules}.scram.ScramLoginModule required;\n\
         listener.name.sasl.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required user_job=\"secret-plain\";\n\
         {}",
        crate::tokens::properties()
    );
    let listeners = vec![
        ("TLS", "SSL", tls),
        ("MUTUAL", "SSL", mutual),
        ("SASL", "SASL_SSL", sasl),
        ("TOKENS", "SASL_SSL", tokens),
        ("RENEWED", "SASL_PLAINTEXT", renewed),
    ];
    let more = More { listeners, properties, users: users.to_vec() };
    Broker::start_with(jars, folder, &more)
}

fn authority(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("it is signed")
}

fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("the folder is ours");
}

/// How a job connects.
#[derive(Clone)]
struct Connection {
    brokers: String,
    options: Vec<(&'static str, String)>,
}

impl Connection {
    fn new(port: u16) -> Self {
        // The broker listens there alone.
        let options = vec![("broker.address.family", "v4".to_owned())];
        Self { brokers: format!("localhost:{port}"), options }
    }

    fn option(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.options.push((name, value.into()));
        self
    }

    fn file(self, name: &'static str, broker: &Broker, file: &str) -> Self {
        self.option(name, broker.folder().join(file).display().to_string())
    }

    fn tls(broker: &Broker) -> Self {
        let [port, ..] = ports();
        Self::new(port).option("security.protocol", "ssl").file("ssl.ca.location", broker, "ca.pem")
    }

    /// With the certificate of this name, if there is one.
    fn mutual(broker: &Broker, certificate: Option<&str>) -> Self {
        let [_, port, ..] = ports();
        let mut connection = Self::tls(broker);
        connection.brokers = format!("localhost:{port}");
        let Some(name) = certificate else { return connection };
        let file = format!("{name}.pem");
        let connection = connection.file("ssl.certificate.location", broker, &file);
        connection.file("ssl.key.location", broker, &file)
    }

    fn sasl(broker: &Broker, mechanism: &str, password: &str) -> Self {
        let [_, _, port, ..] = ports();
        Self::new(port)
            .option("security.protocol", "sasl_ssl")
            .file("ssl.ca.location", broker, "ca.pem")
            .option("sasl.mechanism", mechanism)
            .option("sasl.username", "job")
            .option("sasl.password", password)
    }

    fn source(&self, topic: &str) -> KafkaSource {
        let source = KafkaSource::new(&self.brokers, topic).until_now();
        self.options.iter().fold(source, |source, (name, value)| source.option(*name, value))
    }

    fn sink(&self, topic: &str, exactly: bool) -> KafkaSink<String, Encode> {
        let encode: Encode = |text, out| {
            out.key(text.as_str()).payload(text);
            Ok(())
        };
        let sink = match exactly {
            true => KafkaSink::exactly_once(&self.brokers, topic, encode),
            false => KafkaSink::at_least_once(&self.brokers, topic, encode),
        };
        self.options.iter().fold(sink, |sink, (name, value)| sink.option(*name, value))
    }
}

pub type Encode = fn(String, &mut Outgoing) -> thalweg::Result<()>;

pub fn ports() -> [u16; 5] {
    *PORTS.get().expect("the broker was started")
}

pub fn environment(checkpoints: Option<&Path>) -> Environment {
    let mut config = Config::default();
    config.cores = NonZeroUsize::new(2).unwrap();
    config.checkpoints = checkpoints.map(CheckpointConfig::new);
    Environment::with_config(config)
}

/// Copies a topic to another in a job, and compares all records.
fn copied(broker: &Broker, name: &str, connection: &Connection, exactly: bool) {
    let (from, to) = (broker.topic(&format!("{name}-from"), 2), format!("{name}-to"));
    let to = broker.topic(&to, 2);
    let texts: Vec<_> = (0..20_000).map(|n| format!("{n:06}")).collect();
    broker.append(&from, None, texts.iter().map(|text| (text.as_str(), text.as_str())));
    let folder = tempfile::tempdir().unwrap();
    let env = environment(Some(folder.path()));
    let group = format!("{name}-group");
    env.read(connection.source(&from).group(&group))
        .try_map(|message| message.text().map(str::to_owned))
        .write(connection.sink(&to, exactly));
    // A client without the settings would wait for brokers without an end.
    let (job, (ended, end)) = (env.start().unwrap(), mpsc::channel());
    thread::spawn(move || drop(ended.send(job.wait())));
    end.recv_timeout(PATIENCE).expect("the job ends in time").unwrap();
    assert_eq!(broker.texts(&to), texts);
    for partition in 0..2 {
        let end = broker.end_of(&from, partition);
        assert_eq!(broker.committed(&group, &from, partition), Some(end));
    }
}

fn tls(broker: &mut Broker) {
    copied(broker, "tls", &Connection::tls(broker), true);
}

fn mutual(broker: &mut Broker) {
    copied(broker, "mutual", &Connection::mutual(broker, Some("job")), true);
}

fn scram_256(broker: &mut Broker) {
    copied(broker, "scram-256", &Connection::sasl(broker, "SCRAM-SHA-256", "secret-256"), true);
}

fn scram_512(broker: &mut Broker) {
    copied(broker, "scram-512", &Connection::sasl(broker, "SCRAM-SHA-512", "secret-512"), true);
}

fn plain(broker: &mut Broker) {
    copied(broker, "plain", &Connection::sasl(broker, "PLAIN", "secret-plain"), true);
}

fn at_least_once(broker: &mut Broker) {
    copied(broker, "tls-at-least-once", &Connection::tls(broker), false);
}

/// By requests that are not librdkafka's.
fn open_transactions(broker: &mut Broker) {
    for (name, connection) in [
        ("mutual", Connection::mutual(broker, Some("job"))),
        ("scram-512", Connection::sasl(broker, "SCRAM-SHA-512", "secret-512")),
        ("plain", Connection::sasl(broker, "PLAIN", "secret-plain")),
    ] {
        let topic = broker.topic(&format!("open-{name}"), 2);
        let sink = |brokers: &str, topic: &str| {
            let options = connection.options.iter();
            let sink = open::sink(brokers, topic);
            options.fold(sink, |sink, (name, value)| sink.option(*name, value))
        };
        open::committed_elsewhere(&connection.brokers, &topic, sink);
        let texts: Vec<_> = (0..2_000).map(|n| format!("{n:06}")).collect();
        assert_eq!(broker.texts(&topic), texts, "{name}");
    }
}

/// That records of this topic need keys is in its settings, which a client of their own asks for.
fn topic_settings(broker: &mut Broker) {
    let topic = broker.compacted_topic("tls-compacted");
    let connection = Connection::tls(broker);
    let encode: Encode = |text, out| {
        out.payload(text);
        Ok(())
    };
    let sink = KafkaSink::at_least_once(&connection.brokers, &topic, encode);
    let options = connection.options.iter();
    let sink = options.fold(sink, |sink, (name, value)| sink.option(*name, value));
    let env = environment(None);
    env.iter(["a".to_owned()]).write(sink);
    let error = env.run().unwrap_err();
    assert!(error.message().contains(" has no key"), "{error}");
}

/// Connections that cannot work, and what errors have to say of them, after the reason that librdkafka gives.
fn refused(broker: &mut Broker) {
    let topic = broker.topic("refused-connections", 1);
    let [tls, ..] = ports();
    let untrusted = || Connection::tls(broker).file("ssl.ca.location", broker, "other-ca.pem");
    let mut wrong_host = Connection::tls(broker);
    wrong_host.brokers = format!("127.0.0.1:{tls}");
    let plain_port = broker.address();
    let mut to_plain = Connection::tls(broker);
    to_plain.brokers = plain_port;
    let certificate = "`ssl.certificate.location` and `ssl.key.location`";
    let password = "see `sasl.mechanism`, `sasl.username` and `sasl.password`";
    let authority = "has to be of an authority in `ssl.ca.location`, and for the host";
    let (config, io) = (ErrorKind::Config, ErrorKind::Io);
    let cases = [
        ("an untrusted certificate", untrusted(), config, authority),
        ("a wrong host", wrong_host, config, authority),
        ("no certificate", Connection::mutual(broker, None), config, certificate),
        (
            "a strange certificate",
            Connection::mutual(broker, Some("stranger")),
            config,
            certificate,
        ),
        ("SCRAM 256", Connection::sasl(broker, "SCRAM-SHA-256", "wrong"), config, password),
        ("SCRAM 512", Connection::sasl(broker, "SCRAM-SHA-512", "secret-256"), config, password),
        ("PLAIN", Connection::sasl(broker, "PLAIN", "wrong"), config, password),
        ("plain to TLS", Connection::new(tls), io, "`security.protocol` is `ssl` or `sasl_ssl`"),
        ("TLS to plain", to_plain, io, "`security.protocol` is `plaintext` or `sasl_plaintext`"),
    ];
    let check = |what: &str, operator: &str, error: &Error, kind: ErrorKind, says: &str| {
        assert_eq!(error.kind(), kind, "{what}: {error}");
        let name = error.operator().unwrap_or_default();
        assert!(name.starts_with(operator), "{what}: {error}");
        assert!(error.to_string().contains("refused-connections"), "{what}: {error}");
        assert!(error.message().contains(says), "{what}: {error}");
    };
    // All at once, as each takes its time.
    thread::scope(|scope| {
        for (what, connection, kind, says) in cases {
            let (other, check, topic) = (connection.clone(), &check, &topic);
            scope.spawn(move || {
                let env = environment(None);
                env.read(connection.source(topic)).map(|message| message.offset()).for_each(drop);
                check(what, "read", &env.run().unwrap_err(), kind, says);
            });
            scope.spawn(move || {
                let env = environment(None);
                env.iter(["a".to_owned()]).write(other.sink(topic, true));
                check(what, "write", &env.run().unwrap_err(), kind, says);
            });
        }
    });
}
