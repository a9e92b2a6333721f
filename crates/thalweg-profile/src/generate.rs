//! Makes records on a schedule.

use crate::broker::{Options, PATIENCE, failed};
use crate::interrupt;
use crate::record::{InputRecord, LEAST, PROBE, now};
use crate::spans::{Spans, Summary};
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{
    BaseRecord, DeliveryResult, Producer as _, ProducerContext, ThreadedProducer,
};
use rdkafka::statistics::{Statistics, Window};
use serde::Serialize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use thalweg::{Error, ErrorKind, Result};

/// What is made.
#[derive(Clone)]
pub(crate) struct Load {
    pub(crate) brokers: String,
    pub(crate) topic: String,
    pub(crate) partitions: i32,
    pub(crate) rate: f64,
    pub(crate) size: usize,
    pub(crate) keys: u64,
    pub(crate) options: Vec<(String, String)>,
    /// How long the windows are, if there are any.
    pub(crate) window: Duration,
    /// What counts comes after it.
    pub(crate) warm_up: Duration,
    pub(crate) time: Duration,
}

/// When records are due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// When the first is.
    pub(crate) begin: u64,
    /// When the first is that counts.
    pub(crate) counts_from: u64,
    pub(crate) end: u64,
    /// How many there are.
    pub(crate) records: u64,
    /// Nanoseconds from one to the next.
    step: f64,
}

/// How records were made.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Generation {
    /// From when a record is due until it is handed to its client.
    pub(crate) behind: Summary,
    /// From there until the broker has acknowledged it.
    pub(crate) acknowledged: Option<Summary>,
    /// How long records wait in the client for others to be sent with, as it says itself.
    pub(crate) linger: Option<ClientSpans>,
    /// From a request to its answer, likewise.
    pub(crate) answer: Option<ClientSpans>,
}

/// What a client of librdkafka says of spans, in milliseconds: it does so each second, and these are means over all of them, but for
/// the greatest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(crate) struct ClientSpans {
    pub(crate) mean: f64,
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p95: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
}

/// The same while it is added up: sums of microseconds, each for as many spans as there were in its second.
#[derive(Clone, Copy, Default)]
struct ClientSums {
    count: f64,
    sums: [f64; 5],
    max: i64,
}

impl ClientSums {
    fn add(&mut self, window: &Window) {
        let count = window.cnt as f64;
        self.count += count;
        let numbers = [window.avg, window.p50, window.p90, window.p95, window.p99];
        for (sum, number) in self.sums.iter_mut().zip(numbers) {
            *sum += number as f64 * count;
        }
        self.max = self.max.max(window.max);
    }

    fn spans(&self) -> Option<ClientSpans> {
        let [mean, p50, p90, p95, p99] = self.sums.map(|sum| sum / self.count / 1e3);
        let max = self.max as f64 / 1e3;
        (self.count > 0.0).then_some(ClientSpans { mean, p50, p90, p95, p99, max })
    }
}

/// While nothing is due, it is looked again after so long.
const PAUSE: Duration = Duration::from_micros(100);
/// So many records are made at most before it is looked whether all is well.
const AT_ONCE: u64 = 4096;
/// How long records wait in the client for others, in milliseconds: not at all, as was the default of Kafka's own clients when the study
/// was made. What is due meanwhile is sent together all the same, since only so many requests are on their way at once.
const LINGER: &str = "0";
/// How far apart probes are.
const APART: Duration = Duration::from_millis(20);
/// Records cannot be made at this rate where one is so much later than it is due.
const HOPELESS: Duration = Duration::from_secs(10);

impl Load {
    /// The schedule of records whose first is due then.
    pub(crate) fn schedule(&self, begin: u64) -> Schedule {
        let nanos = |span: Duration| span.as_nanos() as u64;
        let counts_from = begin + nanos(self.warm_up);
        let end = counts_from + nanos(self.time);
        let step = 1e9 / self.rate;
        let records = ((end - begin) as f64 / step).ceil() as u64;
        Schedule { begin, counts_from, end, records, step }
    }
}

impl Schedule {
    /// When a record is due.
    pub(crate) fn due(&self, number: u64) -> u64 {
        self.begin + (number as f64 * self.step) as u64
    }

    /// Whether a record that is due then counts.
    pub(crate) fn counts(&self, due: u64) -> bool {
        (self.counts_from..self.end).contains(&due)
    }
}

/// Makes the records of a load.
pub(crate) struct Generator {
    load: Load,
    producer: ThreadedProducer<Watcher>,
    record: Vec<u8>,
}

#[derive(Default)]
struct Watcher(Arc<Watched>);

#[derive(Default)]
struct Watched {
    acknowledged: Mutex<Spans>,
    /// What the client says of lingering and of answers.
    client: Mutex<[ClientSums; 2]>,
    fault: Mutex<Option<KafkaError>>,
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ClientContext for Watcher {
    fn stats(&self, statistics: Statistics) {
        let mut client = locked(&self.0.client);
        for broker in statistics.brokers.values() {
            for (at, window) in [&broker.int_latency, &broker.rtt].into_iter().enumerate() {
                if let Some(window) = window.as_ref().filter(|window| window.cnt > 0) {
                    client[at].add(window);
                }
            }
        }
    }

    fn error(&self, _: KafkaError, _: &str) {
        // A record that cannot be sent says so by itself.
    }
}

impl ProducerContext for Watcher {
    /// When it was handed over; 0 if it does not count.
    type DeliveryOpaque = usize;

    fn delivery(&self, delivered: &DeliveryResult<'_>, sent: usize) {
        match delivered {
            Ok(_) if sent > 0 => {
                locked(&self.0.acknowledged).add(now().saturating_sub(sent as u64))
            }
            Ok(_) => {}
            Err((cause, _)) => _ = locked(&self.0.fault).get_or_insert_with(|| cause.clone()),
        }
    }
}

impl Generator {
    pub(crate) fn new(load: Load) -> Result<Self> {
        let mut config = Options::config(&load.brokers, &load.options);
        config.set("statistics.interval.ms", "1000");
        // No record twice, and none before another, when one is sent again.
        config.set("enable.idempotence", "true");
        if config.get("linger.ms").is_none() {
            config.set("linger.ms", LINGER);
        }
        let made = config.create_with_context(Watcher::default());
        let producer = made.map_err(|cause| failed("make a producer", cause))?;
        let record = vec![b'x'; load.size];
        Ok(Self { load, producer, record })
    }

    /// Makes records that belong to no measurement, until `is_up`: the pipeline has begun then. `goes_on` says from time to time
    /// whether there is anything to wait for.
    pub(crate) fn probe(
        &mut self,
        patience: Duration,
        is_up: &AtomicBool,
        mut goes_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        let mut number = 0;
        while !is_up.load(Ordering::Acquire) {
            goes_on()?;
            self.check()?;
            if begun.elapsed() > patience {
                let what =
                    format!("nothing has come out of the pipeline within {} s", patience.as_secs());
                return Err(Error::new(ErrorKind::Io, what));
            }
            for partition in 0..self.load.partitions {
                let probe = InputRecord { due: now(), number, key: PROBE };
                self.send(partition, probe, 0, &mut goes_on)?;
                number += 1;
            }
            thread::sleep(APART);
        }
        Ok(())
    }

    /// Makes all records of a schedule; `at` is called with how many there were, from time to time.
    pub(crate) fn make(
        &mut self,
        schedule: &Schedule,
        mut at: impl FnMut(u64) -> Result<()>,
    ) -> Result<Generation> {
        let mut behind = Spans::default();
        let mut number = 0;
        let mut has_counted = false;
        while number < schedule.records {
            let (time, most) = (now(), (number + AT_ONCE).min(schedule.records));
            while number < most && schedule.due(number) <= time {
                let (due, sent) = (schedule.due(number), now());
                let counts = schedule.counts(due);
                let late = sent.saturating_sub(due);
                if counts {
                    behind.add(late);
                    if !std::mem::replace(&mut has_counted, true) {
                        *locked(&self.producer.context().0.client) = Default::default();
                    }
                }
                if late > HOPELESS.as_nanos() as u64 {
                    let what = format!(
                        "records cannot be made at this rate here: after {number} of {}, one is {} s late",
                        schedule.records,
                        HOPELESS.as_secs()
                    );
                    return Err(Error::new(ErrorKind::Config, what));
                }
                let partition = (number % self.load.partitions as u64) as i32;
                let record = InputRecord { due, number, key: key_of(number, self.load.keys) };
                let sent = if counts { sent as usize } else { 0 };
                self.send(partition, record, sent, || at(number))?;
                number += 1;
            }
            at(number)?;
            self.check()?;
            if number < schedule.records && schedule.due(number) > now() {
                thread::sleep(PAUSE);
            }
        }
        // What is far later ends the windows that are open.
        let due = schedule.end + 2 * self.load.window.as_nanos() as u64;
        for partition in 0..self.load.partitions {
            self.send(partition, InputRecord { due, number: 0, key: PROBE }, 0, || at(number))?;
        }
        self.flush()?;
        let watched = &self.producer.context().0;
        let acknowledged = locked(&watched.acknowledged).summary();
        let [linger, answer] = locked(&watched.client).map(|sums| sums.spans());
        let behind = behind.summary().unwrap_or_default();
        Ok(Generation { behind, acknowledged, linger, answer })
    }

    /// Waits until all records are delivered.
    fn flush(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            interrupt::check()?;
            self.check()?;
            match self.producer.flush(Duration::from_millis(200)) {
                Ok(()) => return self.check(),
                Err(_) if begun.elapsed() < PATIENCE => {}
                Err(cause) => return Err(failed("send all records", cause)),
            }
        }
    }

    fn check(&self) -> Result<()> {
        match locked(&self.producer.context().0.fault).take() {
            Some(cause) => Err(failed("send a record", cause)),
            None => Ok(()),
        }
    }

    fn send(
        &mut self,
        partition: i32,
        record: InputRecord,
        sent: usize,
        mut goes_on: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        record.write(&mut self.record);
        // Large probes would fill a narrow network before anything is measured.
        let bytes = if record.key == PROBE { LEAST } else { self.record.len() };
        let mut record = BaseRecord::<(), [u8], usize>::with_opaque_to(&self.load.topic, sent)
            .partition(partition)
            .payload(&self.record[..bytes]);
        while let Err((cause, back)) = self.producer.send(record) {
            if cause.rdkafka_error_code() != Some(RDKafkaErrorCode::QueueFull) {
                return Err(failed("send a record", cause));
            }
            self.check()?;
            goes_on()?;
            thread::sleep(PAUSE);
            record = back;
        }
        Ok(())
    }
}

/// The key of a record: all keys are as frequent as each other, in no order.
pub(crate) fn key_of(number: u64, keys: u64) -> u64 {
    (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % keys
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn load(rate: f64, warm_up: u64, time: u64) -> Load {
        Load {
            brokers: String::new(),
            topic: String::new(),
            partitions: 1,
            rate,
            size: 200,
            keys: 1,
            options: Vec::new(),
            window: Duration::ZERO,
            warm_up: Duration::from_millis(warm_up),
            time: Duration::from_millis(time),
        }
    }

    #[test]
    fn records_are_due_at_an_even_rate() {
        let schedule = load(10_000.0, 500, 1_500).schedule(7);
        assert_eq!(schedule.records, 20_000);
        assert_eq!((schedule.due(0), schedule.due(10_000)), (7, 7 + 1_000_000_000));
        let counting = (0..schedule.records).filter(|n| schedule.counts(schedule.due(*n)));
        assert_eq!(counting.count(), 15_000);
        assert!(schedule.due(schedule.records - 1) < schedule.end);
    }

    #[test]
    fn keys_are_about_as_frequent_as_each_other() {
        let mut counts = [0; 10];
        (0..10_000).for_each(|number| counts[key_of(number, 10) as usize] += 1);
        assert!(counts.iter().all(|count| (900..1_100).contains(count)), "{counts:?}");
    }
}
