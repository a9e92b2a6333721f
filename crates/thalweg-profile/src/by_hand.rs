//! The pipelines without an engine: a consumer and a producer of librdkafka, written by hand on one thread. So much does a pipeline
//! cost at least, with the same work for the broker.

use crate::args::{Common, Workload};
use crate::broker::{Options, PATIENCE, Topics, failed};
use crate::collect::{consumer, is_passing};
use crate::record::{RESULT, TracedRecord, now};
use rdkafka::Message as _;
use rdkafka::client::ClientContext;
use rdkafka::consumer::BaseConsumer;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::Duration;
use thalweg::{Error, ErrorKind, Result};

/// As the engine's own sink has it.
const AS_THE_SINK: [(&str, &str); 3] = [
    ("linger.ms", "1"),
    ("enable.idempotence", "true"),
    ("queue.buffering.max.messages", "500000"),
];
/// After so many records the producer is looked at.
const TURN: usize = 64;

/// A pipeline that runs.
pub(crate) struct ByHand {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Result<()>>,
}

impl ByHand {
    /// Starts the pipeline of a workload from one topic to the other.
    pub(crate) fn start(
        workload: Workload,
        common: &Common,
        brokers: &str,
        topics: &Topics,
    ) -> Result<Self> {
        let options = common.options_with(&common.source_options);
        let consumer = consumer(brokers, &topics.from, common.partitions, &options)?;
        let mut config = Options::config(brokers, &common.options_with(&common.sink_options));
        for (name, value) in AS_THE_SINK {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        let made = config.create_with_context(Deliveries::default());
        let producer = made.map_err(|cause| failed("make a producer", cause))?;
        let copies = Copies {
            consumer,
            producer,
            to: topics.to.clone(),
            counts: (workload == Workload::Wordcount).then(HashMap::new),
            record: Vec::new(),
        };
        let is_over = Arc::<AtomicBool>::default();
        let until = Arc::clone(&is_over);
        let started = thread::Builder::new().name("by-hand".to_owned());
        let thread = started
            .spawn(move || copies.run(&until))
            .map_err(|cause| Error::new(ErrorKind::Io, "cannot start a thread").caused_by(cause))?;
        Ok(Self { is_over, thread })
    }

    /// Whether it has ended by itself, with an error.
    pub(crate) fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends it, when all that it has read is written.
    pub(crate) fn end(self) -> Result<()> {
        self.is_over.store(true, Ordering::Release);
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Takes note of a record that was not written.
#[derive(Default)]
struct Deliveries {
    fault: OnceLock<KafkaError>,
}

impl ClientContext for Deliveries {
    fn error(&self, _: KafkaError, _: &str) {
        // A record that cannot be sent says so by itself.
    }
}

impl ProducerContext for Deliveries {
    type DeliveryOpaque = ();

    fn delivery(&self, delivered: &DeliveryResult<'_>, (): ()) {
        if let Err((cause, _)) = delivered {
            _ = self.fault.set(cause.clone());
        }
    }
}

struct Copies {
    consumer: BaseConsumer,
    producer: BaseProducer<Deliveries>,
    to: String,
    /// Of keys, if they are counted.
    counts: Option<HashMap<u64, u64>>,
    record: Vec<u8>,
}

impl Copies {
    fn run(mut self, is_over: &AtomicBool) -> Result<()> {
        while !is_over.load(Ordering::Acquire) {
            self.look()?;
            for _ in 0..TURN {
                match self.consumer.poll(Duration::from_millis(1)) {
                    None => break,
                    Some(Err(cause)) if is_passing(&cause) => break,
                    Some(Err(cause)) => return Err(failed("read a topic", cause)),
                    Some(Ok(message)) => {
                        let key = encode(&message, self.counts.as_mut(), &mut self.record)?;
                        send(&self.producer, &self.to, key.as_ref(), &self.record)?;
                    }
                }
            }
        }
        let flushed = self.producer.flush(PATIENCE);
        flushed.map_err(|cause| failed("write a topic", cause))?;
        self.look()
    }

    /// Has the producer say what became of records.
    fn look(&self) -> Result<()> {
        self.producer.poll(Duration::ZERO);
        match self.producer.context().fault.get() {
            Some(cause) => Err(failed("write a topic", cause.clone())),
            None => Ok(()),
        }
    }
}

/// Makes a record of what was read; returns its key.
fn encode(
    message: &BorrowedMessage<'_>,
    counts: Option<&mut HashMap<u64, u64>>,
    record: &mut Vec<u8>,
) -> Result<Option<[u8; 8]>> {
    let (fetched, payload) = (now(), message.payload().unwrap_or_default());
    let traced = TracedRecord::arriving(payload, fetched, message.timestamp().to_millis());
    let traced = traced.ok_or_else(|| {
        let what = "a record is shorter than what the profile makes: is the topic used by others?";
        Error::new(ErrorKind::Input, what)
    })?;
    record.clear();
    let Some(counts) = counts else {
        record.extend_from_slice(payload);
        traced.leave(record);
        return Ok(None);
    };
    let count = counts.entry(traced.key).or_insert(0);
    *count += 1;
    record.resize(RESULT, 0);
    TracedRecord { count: *count, ..traced }.leave(record);
    Ok(Some(traced.key.to_le_bytes()))
}

/// Hands a record over, when the producer has room for it.
fn send(
    producer: &BaseProducer<Deliveries>,
    to: &str,
    key: Option<&[u8; 8]>,
    payload: &[u8],
) -> Result<()> {
    let mut record = BaseRecord::to(to).payload(payload);
    record.key = key.map(|key| &key[..]);
    while let Err((cause, back)) = producer.send(record) {
        if cause.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
            return Err(failed("write a topic", cause));
        }
        producer.poll(Duration::from_millis(1));
        record = back;
    }
    Ok(())
}
