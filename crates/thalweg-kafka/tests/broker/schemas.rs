//! A schema registry that answers late.

use crate::Test;
use crate::avro::{append, with_id};
use crate::broker::Broker;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use thalweg::config::Config;
use thalweg::{Environment, ErrorKind};
use thalweg_kafka::{KafkaSource, SchemaRegistry};

pub const TESTS: &[Test] = &[
    ("a_job_goes_on_while_schemas_are_requested", goes_on),
    ("a_job_goes_on_while_schemas_of_librdkafkas_records_are_requested", goes_on_by_librdkafka),
    ("a_registry_that_fails_late_ends_the_job", fails),
];

/// A registry in which every schema is a long, and that answers when it may.
struct Late {
    url: String,
    requests: Arc<AtomicUsize>,
    may_answer: Arc<AtomicBool>,
}

impl Late {
    fn start(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let late = Self { url, requests: Arc::default(), may_answer: Arc::default() };
        let (requests, may_answer) = (Arc::clone(&late.requests), Arc::clone(&late.may_answer));
        let answer = move |stream: TcpStream| {
            let mut lines = BufReader::new(&stream).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            requests.fetch_add(1, Ordering::Release);
            while !may_answer.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
            }
            let body = r#"{"schema": "\"long\""}"#;
            let length = body.len();
            let _ = write!(
                &stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
        };
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = answer.clone();
                thread::spawn(move || answer(stream));
            }
        });
        late
    }

    /// What a job on one thread makes of records, in whose other source the thread has the registry answer once it was requested.
    fn decoded(&self, source: KafkaSource) -> thalweg::Result<Vec<Option<i64>>> {
        let registry = SchemaRegistry::new([self.url.as_str()]).retries(0, Duration::ZERO);
        let decoder = registry.decoder()?;
        let mut config = Config::default();
        config.cores = NonZero::<usize>::MIN;
        let env = Environment::with_config(config);
        // What the closure makes of a record that waits does not count.
        let source =
            source.until_now().decode(move |message| match message.avro::<i64>(&decoder) {
                Err(error)
                    if error.kind() == ErrorKind::Io && !error.to_string().contains("500") =>
                {
                    Ok(None)
                }
                decoded => decoded.map(Some),
            });
        let found = env.read(source).collect::<Vec<_>>();
        let (requests, may_answer) = (Arc::clone(&self.requests), Arc::clone(&self.may_answer));
        let turns = std::iter::from_fn(move || {
            let was_requested = requests.load(Ordering::Acquire) > 0;
            may_answer.store(was_requested, Ordering::Release);
            (!was_requested).then(thread::yield_now)
        });
        env.iter(turns).for_each(drop);
        env.run()?;
        found.take()
    }
}

/// A partition in which a batch has numbers of two schemas.
fn numbers(broker: &Broker, name: &str) -> KafkaSource {
    let topic = broker.topic(name, 1);
    // Zigzag, in one byte.
    let value = |n: usize| with_id(if n % 64 < 40 { 7 } else { 8 }, &[(n % 64) as u8 * 2]);
    append(broker, &topic, (0..COUNT).map(|n| (Vec::new(), value(n))));
    KafkaSource::new(broker.address(), topic)
}

const COUNT: usize = 3000;

fn expected() -> Vec<Option<i64>> {
    (0..COUNT).map(|n| Some((n % 64) as i64)).collect()
}

fn goes_on(broker: &mut Broker) {
    let late = Late::start("200 OK");
    assert_eq!(late.decoded(numbers(broker, "late")).unwrap(), expected());
    assert_eq!(late.requests.load(Ordering::Acquire), 2);
}

fn goes_on_by_librdkafka(broker: &mut Broker) {
    let late = Late::start("200 OK");
    let source = numbers(broker, "late-by-librdkafka").fetch_by_librdkafka();
    assert_eq!(late.decoded(source).unwrap(), expected());
    assert_eq!(late.requests.load(Ordering::Acquire), 2);
}

fn fails(broker: &mut Broker) {
    let late = Late::start("500 Internal Server Error");
    let error = late.decoded(numbers(broker, "late-failure")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let text = error.to_string();
    assert!(
        text.contains("late-failure/0 at 0: the schema 7 of the record is not to be had"),
        "{text}"
    );
    assert_eq!(late.requests.load(Ordering::Acquire), 1);
}
