//! Logins with tokens, which a closure gives. The broker takes tokens without a signature, as Kafka has them for tests: whoever they
//! name is believed, until the time that they have.

use crate::broker::{Broker, PATIENCE};
use crate::encrypted::{Encode, environment, ports};
use crate::{Test, logs, open};
use std::convert::Infallible;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use thalweg::config::{CheckpointConfig, Config};
use thalweg::{Environment, Error, ErrorKind, JobHandle};
use thalweg_kafka::{KafkaSink, KafkaSource, Outgoing, Token};

pub const TESTS: &[Test] = &[
    ("jobs_read_and_write_with_tokens", all),
    ("open_transactions_are_committed_with_tokens", open_transactions),
    ("the_settings_of_a_topic_are_asked_for_with_tokens", topic_settings),
    ("tokens_that_are_refused_and_closures_that_fail_are_said", refused),
    ("connections_log_in_again_while_a_job_runs", renewed),
    ("a_job_waits_while_there_is_no_token", waits),
    ("a_job_whose_token_is_refused_later_ends", refused_later),
];

/// The time after which brokers want another login on the listener `RENEWED`.
const LOGIN: Duration = Duration::from_secs(4);

/// Of the listeners `TOKENS` and `RENEWED`.
pub fn properties() -> String {
    let module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
    let of = |name: &str| {
        format!(
            "listener.name.{name}.sasl.enabled.mechanisms=OAUTHBEARER\n\
             listener.name.{name}.oauthbearer.sasl.jaas.config={module} required unsecuredLoginStringClaim_sub=\"admin\";\n"
        )
    };
    let login = LOGIN.as_millis();
    let renewed = format!("listener.name.renewed.oauthbearer.connections.max.reauth.ms={login}\n");
    [of("tokens"), of("renewed"), renewed].concat()
}

/// Base64 as it is in tokens.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = |chunk: &[u8]| {
        let mut all = [0; 3];
        all[..chunk.len()].copy_from_slice(chunk);
        let number = u32::from_be_bytes([0, all[0], all[1], all[2]]);
        let digit = |at: usize| DIGITS[(number >> (18 - 6 * at)) as usize & 63];
        (0..=chunk.len()).map(|at| char::from(digit(at))).collect::<String>()
    };
    bytes.chunks(3).map(digits).collect()
}

/// A token that is valid so long for the broker.
fn value(lifetime: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let end = (now + lifetime).as_secs_f64();
    let claims = format!("{{\"sub\":\"job\",\"iat\":{},\"exp\":{end:.3}}}", now.as_secs() - 60);
    format!("{}.{}.", base64(b"{\"alg\":\"none\"}"), base64(claims.as_bytes()))
}

fn token(lifetime: Duration) -> Token {
    Token::expiring_in(value(lifetime), lifetime).principal("job")
}

const LONG: Duration = Duration::from_secs(600);

fn long() -> Result<Token, Infallible> {
    Ok(token(LONG))
}

/// The options of a listener, and its address.
fn listener(broker: &Broker, name: &str) -> (String, Vec<(&'static str, String)>) {
    let [.., tokens, renewed] = ports();
    // The broker listens there alone.
    let mut options = vec![("broker.address.family", "v4".to_owned())];
    if name == "TOKENS" {
        let authority = broker.folder().join("ca.pem").display().to_string();
        options
            .extend([("security.protocol", "sasl_ssl".to_owned()), ("ssl.ca.location", authority)]);
        return (format!("localhost:{tokens}"), options);
    }
    options.push(("security.protocol", "sasl_plaintext".to_owned()));
    (format!("localhost:{renewed}"), options)
}

/// Without the option by which librdkafka fetches, unless it is to.
fn source(broker: &Broker, name: &str, topic: &str, by_librdkafka: bool) -> KafkaSource {
    let (brokers, options) = listener(broker, name);
    let options = options.into_iter().filter(|(name, _)| !name.starts_with("broker."));
    let source = KafkaSource::new(brokers, topic);
    let source = options.fold(source, |source, (name, value)| source.option(name, value));
    if by_librdkafka { source.fetch_by_librdkafka() } else { source }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    AtLeastOnce,
    Kept,
    Open,
}

fn sink(broker: &Broker, name: &str, topic: &str, way: Way) -> KafkaSink<String, Encode> {
    let (brokers, options) = listener(broker, name);
    let encode: Encode = |text: String, out: &mut Outgoing| {
        out.key(text.as_str()).payload(text);
        Ok(())
    };
    let sink = match way {
        Way::AtLeastOnce => KafkaSink::at_least_once(brokers, topic, encode),
        Way::Kept => KafkaSink::exactly_once(brokers, topic, encode),
        Way::Open => KafkaSink::exactly_once(brokers, topic, encode).open_transactions(LONG),
    };
    options.into_iter().fold(sink, |sink, (name, value)| sink.option(name, value))
}

fn texts(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|n| format!("{n:06}")).collect()
}

fn append(broker: &Broker, topic: &str, range: std::ops::Range<u64>) {
    let texts = texts(range);
    broker.append(topic, None, texts.iter().map(|text| (text.as_str(), text.as_str())));
}

/// What a job has ended with, in time.
fn end(job: JobHandle) -> thalweg::Result<()> {
    let (ended, end) = mpsc::channel();
    thread::spawn(move || drop(ended.send(job.wait().map(drop))));
    end.recv_timeout(PATIENCE).expect("the job ends in time")
}

fn all(broker: &mut Broker) {
    for (at, (way, by_librdkafka)) in
        [(Way::AtLeastOnce, false), (Way::Kept, true), (Way::Open, false)].into_iter().enumerate()
    {
        let name = |name: &str| broker.topic(&format!("tokens-{at}-{name}"), 2);
        let (from, to, folder) = (name("from"), name("to"), tempfile::tempdir().unwrap());
        append(broker, &from, 0..20_000);
        let env = environment(Some(folder.path()));
        let group = format!("tokens-{at}");
        let source = source(broker, "TOKENS", &from, by_librdkafka).until_now().group(&group);
        env.read(source.tokens(long))
            .try_map(|message| message.text().map(str::to_owned))
            .write(sink(broker, "TOKENS", &to, way).tokens(long));
        end(env.start().unwrap()).unwrap();
        assert_eq!(broker.texts(&to), texts(0..20_000), "{way:?}");
        for partition in 0..2 {
            let end = broker.end_of(&from, partition);
            assert_eq!(broker.committed(&group, &from, partition), Some(end));
        }
    }
}

/// By requests that are not librdkafka's.
fn open_transactions(broker: &mut Broker) {
    let topic = broker.topic("tokens-open", 2);
    let (brokers, options) = listener(broker, "TOKENS");
    let sink = |brokers: &str, topic: &str| {
        let sink = open::sink(brokers, topic).tokens(long);
        options.iter().fold(sink, |sink, (name, value)| sink.option(*name, value))
    };
    open::committed_elsewhere(&brokers, &topic, sink);
    assert_eq!(broker.texts(&topic), texts(0..2_000));
}

/// That records of this topic need keys is in its settings.
fn topic_settings(broker: &mut Broker) {
    let topic = broker.compacted_topic("tokens-compacted");
    let (brokers, options) = listener(broker, "TOKENS");
    let encode: Encode = |text, out| {
        out.payload(text);
        Ok(())
    };
    let sink = KafkaSink::at_least_once(brokers, &topic, encode).tokens(long);
    let sink = options.into_iter().fold(sink, |sink, (name, value)| sink.option(name, value));
    let env = environment(None);
    env.iter(["a".to_owned()]).write(sink);
    let error = env.run().unwrap_err();
    assert!(error.message().contains(" has no key"), "{error}");
}

type Give = fn() -> Result<Token, &'static str>;

fn refused(broker: &mut Broker) {
    let topic = broker.topic("tokens-refused", 1);
    let (config, io) = (ErrorKind::Config, ErrorKind::Io);
    let not_accepted = "do not accept the token that the closure of `tokens` gave";
    let cases: [(&str, Give, ErrorKind, &str); 5] = [
        ("no token at all", || Ok(Token::expiring_in("abc", LONG)), config, not_accepted),
        (
            "a token that the broker takes for expired",
            || {
                let expired = value(Duration::ZERO);
                thread::sleep(Duration::from_millis(20));
                Ok(Token::expiring_in(expired, LONG))
            },
            config,
            not_accepted,
        ),
        (
            "a token that expired",
            || Ok(Token::new("abc", SystemTime::now() - LONG)),
            io,
            "the closure gave a token that expired",
        ),
        ("an error", || Err("the server is away"), io, "the server is away"),
        (
            "a panic",
            || panic!("a panic of a test"),
            ErrorKind::Panic,
            "the closure of `tokens` panicked: a panic of a test",
        ),
    ];
    let check = |what: &str, operator: &str, error: &Error, kind: ErrorKind, says: &str| {
        assert_eq!(error.kind(), kind, "{what}: {error}");
        let name = error.operator().unwrap_or_default();
        assert!(name.starts_with(operator), "{what}: {error}");
        for part in ["tokens-refused", "localhost:", says] {
            assert!(error.message().contains(part), "{what}: {error}");
        }
        assert!(!error.to_string().contains("abc"), "{what}: {error}");
    };
    thread::scope(|scope| {
        for (what, give, kind, says) in cases {
            let (read, check) = (source(broker, "TOKENS", &topic, false).tokens(give), &check);
            scope.spawn(move || {
                let env = environment(None);
                env.read(read.until_now()).map(|message| message.offset()).for_each(drop);
                check(what, "read", &env.run().unwrap_err(), kind, says);
            });
            let write = sink(broker, "TOKENS", &topic, Way::Kept).tokens(give);
            scope.spawn(move || {
                let env = environment(None);
                env.iter(["a".to_owned()]).write(write);
                check(what, "write", &env.run().unwrap_err(), kind, says);
            });
        }
    });
    let settings = [
        (KafkaSource::new("localhost:1", "a").tokens(long), "tokens need the option"),
        (
            source(broker, "TOKENS", &topic, false).tokens(long).option("sasl.mechanism", "PLAIN"),
            "takes no tokens",
        ),
        (
            source(broker, "TOKENS", &topic, false).option("sasl.oauthbearer.method", "oidc"),
            "a closure gives tokens",
        ),
    ];
    for (source, says) in settings {
        let env = environment(None);
        env.read(source).map(|message| message.offset()).for_each(drop);
        let error = env.run().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.message().contains(says), "{error}");
    }
}

/// Copies a topic without an end, in a job with checkpoints.
fn copies(read: KafkaSource, write: KafkaSink<String, Encode>, folder: &Path) -> JobHandle {
    let mut config = Config::default();
    let mut checkpoints = CheckpointConfig::new(folder);
    checkpoints.interval = Duration::from_millis(200);
    config.checkpoints = Some(checkpoints);
    let env = Environment::with_config(config);
    env.read(read).try_map(|message| message.text().map(str::to_owned)).write(write);
    env.start().unwrap()
}

/// Waits until all texts have arrived, once each, by a job that goes on.
fn arrive(broker: &Broker, job: JobHandle, topic: &str, count: u64) -> JobHandle {
    let begun = Instant::now();
    loop {
        let is_over = job.is_over();
        let found = broker.texts(topic);
        if found.len() as u64 >= count {
            assert_eq!(found, texts(0..count));
            return job;
        }
        let found = found.len();
        if is_over {
            panic!("{topic} has {found} of {count}, and the job has ended with {:?}", end(job));
        }
        assert!(begun.elapsed() < PATIENCE, "{topic} has {found} of {count}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A closure that counts its calls.
fn counted(
    lifetime: Duration,
) -> (Arc<AtomicUsize>, impl FnMut() -> Result<Token, Infallible> + Send + Clone + 'static) {
    let calls = Arc::<AtomicUsize>::default();
    let counts = Arc::clone(&calls);
    let give = move || {
        counts.fetch_add(1, Ordering::SeqCst);
        Ok(token(lifetime))
    };
    (calls, give)
}

/// Tokens and logins end many times while jobs run, of which some have nothing to do for longer than a token lasts.
fn renewed(broker: &mut Broker) {
    let lifetime = Duration::from_secs(10);
    let mut warnings = None;
    let mut jobs = Vec::new();
    for (at, (listener, way, by_librdkafka)) in [
        ("RENEWED", Way::Kept, false),
        ("RENEWED", Way::Open, true),
        ("TOKENS", Way::Open, false),
        ("TOKENS", Way::Kept, true),
    ]
    .into_iter()
    .enumerate()
    {
        let name = |name: &str| broker.topic(&format!("renewed-{at}-{name}"), 2);
        let (from, to, folder) = (name("from"), name("to"), tempfile::tempdir().unwrap());
        let (calls, give) = counted(lifetime);
        let read = source(broker, listener, &from, by_librdkafka).tokens(give.clone());
        let write = sink(broker, listener, &to, way).tokens(give);
        let job = copies(read, write, folder.path());
        jobs.push((from, to, folder, calls, job));
    }
    let mut count = 0;
    // The last pause is longer than a token lasts.
    for (turn, pause) in [1, 1, 1, 1, 1, 1, 1, 1, 16].into_iter().enumerate() {
        for (from, ..) in &jobs {
            append(broker, from, count..count + 500);
        }
        count += 500;
        if turn == 4 {
            broker.kill();
            broker.restart();
        }
        if turn == 6 {
            warnings = Some(logs::warnings());
        }
        jobs = jobs
            .into_iter()
            .map(|(from, to, folder, calls, job)| {
                let job = arrive(broker, job, &to, count);
                (from, to, folder, calls, job)
            })
            .collect();
        thread::sleep(Duration::from_secs(pause));
    }
    for (from, ..) in &jobs {
        append(broker, from, count..count + 500);
    }
    for (_, to, _folder, calls, job) in jobs {
        let job = arrive(broker, job, &to, count + 500);
        assert!(calls.load(Ordering::SeqCst) >= 6, "of {to}: {calls:?}");
        job.drain();
        end(job).unwrap();
        assert_eq!(broker.texts(&to), texts(0..count + 500));
    }
    // Its connections were not closed: they log in again before.
    let fetched = warnings.map(|heard| heard.find(&["records cannot be fetched"]));
    assert_eq!(fetched, Some(None));
}

/// Later tokens are not given for a while, in which the broker ends all logins.
fn waits(broker: &mut Broker) {
    let is_away = Arc::<AtomicBool>::default();
    let give = || {
        let is_away = Arc::clone(&is_away);
        move || match is_away.load(Ordering::SeqCst) {
            false => Ok(token(Duration::from_secs(5))),
            true => Err("the server is away"),
        }
    };
    let [from, to] = ["from", "to"].map(|name| broker.topic(&format!("waits-{name}"), 1));
    let folder = tempfile::tempdir().unwrap();
    let read = source(broker, "RENEWED", &from, false).tokens(give());
    let job = copies(read, sink(broker, "RENEWED", &to, Way::Kept).tokens(give()), folder.path());
    append(broker, &from, 0..500);
    let job = arrive(broker, job, &to, 500);
    is_away.store(true, Ordering::SeqCst);
    // So long that clients ask for a token only some seconds after there is a new one.
    thread::sleep(Duration::from_secs(17));
    append(broker, &from, 500..1_000);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(broker.texts(&to).len(), 500);
    is_away.store(false, Ordering::SeqCst);
    let job = arrive(broker, job, &to, 1_000);
    job.drain();
    end(job).unwrap();
}

/// As where a user was removed: trying again is no use.
fn refused_later(broker: &mut Broker) {
    let is_wrong = Arc::<AtomicBool>::default();
    let give = || {
        let is_wrong = Arc::clone(&is_wrong);
        move || {
            let lifetime = Duration::from_secs(5);
            Ok::<_, Infallible>(match is_wrong.load(Ordering::SeqCst) {
                false => token(lifetime),
                true => Token::expiring_in("abc", lifetime),
            })
        }
    };
    let topics =
        ["from", "copied", "kept", "least"].map(|name| broker.topic(&format!("later-{name}"), 1));
    let [from, copied, kept, least] = &topics;
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let plain = || KafkaSource::new(broker.address(), from.as_str());
    let [first, second, third] = folders.each_ref().map(|folder| folder.path());
    let encode: Encode = |text, out| {
        out.payload(text);
        Ok(())
    };
    let to_plain = KafkaSink::at_least_once(broker.address(), copied, encode);
    let reads = copies(source(broker, "RENEWED", from, false).tokens(give()), to_plain, first);
    let write = |to: &str, way| sink(broker, "RENEWED", to, way).tokens(give());
    let keeps = copies(plain(), write(kept, Way::Kept), second);
    let sends = copies(plain(), write(least, Way::AtLeastOnce), third);
    append(broker, from, 0..500);
    let [reads, keeps, sends] = [(reads, copied), (keeps, kept), (sends, least)]
        .map(|(job, topic)| arrive(broker, job, topic, 500));
    is_wrong.store(true, Ordering::SeqCst);
    for (what, job) in [("reads", reads), ("sends", sends)] {
        let error = end(job).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{what}: {error}");
        assert!(error.message().contains("do not accept the token"), "{what}: {error}");
    }
    append(broker, from, 500..501);
    let error = end(keeps).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(error.message().contains("do not accept the token"), "{error}");
}
