//! Takes what comes out of a pipeline, and checks that it is all there and right.

use crate::broker::{Options, failed};
use crate::generate::{Schedule, key_of};
use crate::record::{OutputRecord, PROBE, RecordSpans, TracedRecord, now};
use crate::spans::Spans;
use rdkafka::Message as _;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use thalweg::{Error, ErrorKind, Result};

/// What is to come out for the records that are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Each record by itself, from the second topic.
    Each,
    /// Each record by itself, from the first topic: there is no pipeline.
    Read,
    /// Each record, with how many there were of its key so far.
    RunningCounts,
    /// The counts of keys in windows of so many nanoseconds.
    WindowCounts(u64),
}

/// What the threads of a measurement share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Set when the records are made that count.
    pub(crate) schedule: OnceLock<Schedule>,
    /// Whether the pipeline has begun.
    pub(crate) is_up: AtomicBool,
    /// How many records have come out.
    pub(crate) out: AtomicU64,
    /// Whether nothing is expected any more.
    pub(crate) is_over: AtomicBool,
}

/// What has come out.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) all: PartSpans,
    /// The same of the records that were due in each second.
    pub(crate) seconds: Vec<PartSpans>,
    /// When the last one came that counts.
    pub(crate) last: u64,
    /// A number that follows from all results, whatever their order.
    pub(crate) answer: u64,
}

/// The spans of each part.
#[derive(Clone, Debug)]
pub(crate) struct PartSpans {
    pub(crate) whole: Spans,
    pub(crate) reading: Spans,
    pub(crate) to_log: Spans,
    pub(crate) from_log: Spans,
    pub(crate) decoding: Spans,
    pub(crate) processing: Spans,
    pub(crate) writing: Spans,
}

impl Default for PartSpans {
    fn default() -> Self {
        Self::exact_to(3)
    }
}

impl PartSpans {
    /// With so many digits.
    fn exact_to(digits: u8) -> Self {
        let spans = || Spans::exact_to(digits);
        Self {
            whole: spans(),
            reading: spans(),
            to_log: spans(),
            from_log: spans(),
            decoding: spans(),
            processing: spans(),
            writing: spans(),
        }
    }

    fn add(&mut self, spans: RecordSpans, is_window: bool) {
        self.whole.add(spans.whole);
        if !is_window {
            self.reading.add(spans.reading);
            self.decoding.add(spans.decoding);
        }
        if let Some((to, from)) = spans.log {
            self.to_log.add(to);
            self.from_log.add(from);
        }
        if let Some((processing, writing)) = spans.rest {
            self.processing.add(processing);
            self.writing.add(writing);
        }
    }
}

/// What has come out so far, of what is expected.
struct Collecting {
    expected: Expected,
    schedule: Schedule,
    keys: u64,
    /// Of each record, whether it has come.
    came: Vec<u64>,
    /// Of each key, the count that came last.
    counts: Vec<u64>,
    /// The counts of windows, by their ends and keys.
    windows: BTreeMap<(u64, u64), u64>,
    out: u64,
    collected: Collected,
}

impl Collecting {
    fn new(expected: Expected, keys: u64, schedule: Schedule) -> Self {
        let words = schedule.records.div_ceil(64) as usize;
        let (came, counts) = match expected {
            Expected::WindowCounts(_) => (Vec::new(), Vec::new()),
            Expected::RunningCounts => (vec![0; words], vec![0; keys as usize]),
            _ => (vec![0; words], Vec::new()),
        };
        let (windows, collected) = (BTreeMap::new(), Collected::default());
        Self { expected, schedule, keys, came, counts, windows, out: 0, collected }
    }

    fn take(&mut self, traced: TracedRecord, spans: RecordSpans, end: u64) -> Result<()> {
        let wrong =
            |what: &str| Err(Error::new(ErrorKind::Internal, format!("{what}: {traced:?}")));
        let is_window = matches!(self.expected, Expected::WindowCounts(_));
        if is_window {
            if self.windows.insert((traced.number, traced.key), traced.count).is_some() {
                return wrong("the count of a window has come out twice");
            }
            self.out += traced.count;
        } else {
            let (word, bit) = ((traced.number / 64) as usize, 1 << (traced.number % 64));
            match self.came.get_mut(word) {
                Some(came) if traced.number < self.schedule.records => {
                    if *came & bit > 0 {
                        return wrong("a record has come out twice");
                    }
                    *came |= bit;
                }
                _ => return wrong("a record has come out that was not made"),
            }
            self.out += 1;
        }
        // Which record has which count is a matter of their order.
        let number = if self.expected == Expected::RunningCounts { 0 } else { traced.number };
        let result = [number, traced.key, traced.count].into_iter().fold(0, mixed);
        self.collected.answer = self.collected.answer.wrapping_add(result);
        if self.expected == Expected::RunningCounts {
            let Some(last) = self.counts.get_mut(traced.key as usize) else {
                return wrong("a key has come out that no record has");
            };
            // The counts of a key are written in their order, to one partition.
            if traced.count != *last + 1 {
                return wrong("a count has come out that does not follow from the one before");
            }
            *last = traced.count;
        }
        // Windows of the last records end early, when there are no more.
        if !self.schedule.counts(traced.due) {
            return Ok(());
        }
        self.collected.last = self.collected.last.max(end);
        self.collected.all.add(spans, is_window);
        let second = ((traced.due - self.schedule.counts_from) / 1_000_000_000) as usize;
        let seconds = &mut self.collected.seconds;
        if seconds.len() <= second {
            seconds.resize_with(second + 1, || PartSpans::exact_to(2));
        }
        seconds[second].add(spans, is_window);
        Ok(())
    }

    /// How many records have not come out.
    fn missing(&self) -> u64 {
        self.schedule.records.saturating_sub(self.out)
    }

    /// What was collected, if it is all, and right.
    fn end(self) -> Result<Collected> {
        let wrong = |what: String| Err(Error::new(ErrorKind::Internal, what));
        if self.missing() > 0 {
            let (missing, all) = (self.missing(), self.schedule.records);
            return wrong(format!("{missing} of {all} records have not come out of the pipeline"));
        }
        if let Expected::WindowCounts(window) = self.expected {
            let mut expected = BTreeMap::new();
            for number in 0..self.schedule.records {
                let end = (self.schedule.due(number) / window + 1) * window;
                *expected.entry((end, key_of(number, self.keys))).or_insert(0) += 1;
            }
            let all = expected.keys().chain(self.windows.keys());
            let is_other = |at: &&(u64, u64)| expected.get(at) != self.windows.get(at);
            if let Some((end, key)) = all.into_iter().find(is_other) {
                let count = |counts: &BTreeMap<_, u64>| counts.get(&(*end, *key)).copied();
                let (found, right) = (count(&self.windows), count(&expected));
                return wrong(format!(
                    "the count of key {key} in the window that ends at {end} ns is {found:?}, and should be {right:?}"
                ));
            }
        }
        if self.collected.last == 0 {
            let what = "nothing has come out of the time that counts: it is too short for this rate, or for these windows";
            return Err(Error::new(ErrorKind::Config, what));
        }
        Ok(self.collected)
    }
}

/// A number that follows from these two.
fn mixed(before: u64, number: u64) -> u64 {
    let mixed = (before.rotate_left(23) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 29)
}

/// Where results come out.
pub(crate) struct ResultConsumer {
    pub(crate) brokers: String,
    pub(crate) topic: String,
    pub(crate) partitions: i32,
    pub(crate) keys: u64,
    pub(crate) expected: Expected,
    pub(crate) options: Vec<(String, String)>,
}

/// As the engine's own source has it: the defaults of librdkafka are long where a queue was full for a moment.
const AS_THE_SOURCE: [(&str, &str); 2] =
    [("fetch.queue.backoff.ms", "10"), ("fetch.error.backoff.ms", "100")];
/// How long to look for results that should not be, once all have come.
const AFTERWARDS: Duration = Duration::from_millis(200);

/// A consumer of all partitions of a topic, from their beginnings on.
pub(crate) fn consumer(
    brokers: &str,
    topic: &str,
    partitions: i32,
    options: &[(String, String)],
) -> Result<BaseConsumer> {
    let mut config = Options::config(brokers, options);
    config.set("group.id", "thalweg-profile").set("enable.auto.commit", "false");
    for (name, value) in AS_THE_SOURCE {
        if config.get(name).is_none() {
            config.set(name, value);
        }
    }
    let made = config.create();
    let consumer: BaseConsumer = made.map_err(|cause| failed("make a consumer", cause))?;
    let mut all = TopicPartitionList::new();
    for partition in 0..partitions {
        let added = all.add_partition_offset(topic, partition, Offset::Beginning);
        added.map_err(|cause| failed("read a topic", cause))?;
    }
    consumer.assign(&all).map_err(|cause| failed("read a topic", cause))?;
    Ok(consumer)
}

impl ResultConsumer {
    /// Takes all that comes, until everything has come or nothing more is expected.
    ///
    /// # Errors
    ///
    /// If something is missing then, or something has come that cannot be.
    pub(crate) fn collect(&self, shared: &Shared) -> Result<Collected> {
        let consumer = consumer(&self.brokers, &self.topic, self.partitions, &self.options)?;
        let mut collecting: Option<Collecting> = None;
        let mut probed = BTreeSet::new();
        let mut complete_since: Option<Instant> = None;
        loop {
            if shared.is_over.load(Ordering::Acquire)
                || complete_since.is_some_and(|since| since.elapsed() > AFTERWARDS)
            {
                break;
            }
            let Some(message) = consumer.poll(Duration::from_millis(20)) else { continue };
            let message = match message {
                Ok(message) => message,
                Err(cause) if is_passing(&cause) => continue,
                Err(cause) => return Err(failed("read a topic", cause)),
            };
            let end = now();
            let payload = message.payload().unwrap_or_default();
            let read = match self.expected {
                Expected::Read => {
                    TracedRecord::arriving(payload, end, message.timestamp().to_millis())
                        .map(|traced| (traced, RecordSpans::of_reading(traced)))
                }
                _ => OutputRecord::read(payload)
                    .map(|output| (output.traced, RecordSpans::of(output, end))),
            };
            let Some((traced, spans)) = read else {
                let bytes = payload.len();
                let what = format!("a record of {bytes} bytes has come out, which is too short");
                return Err(Error::new(ErrorKind::Internal, what));
            };
            if traced.key == PROBE {
                // Where each record comes out by itself, those of all partitions must have.
                probed.insert(traced.number % self.partitions as u64);
                let is_window = matches!(self.expected, Expected::WindowCounts(_));
                if is_window || probed.len() == self.partitions as usize {
                    shared.is_up.store(true, Ordering::Release);
                }
                continue;
            }
            if collecting.is_none() {
                // It was set before the first record was made.
                let schedule = shared.schedule.get();
                collecting =
                    schedule.map(|schedule| Collecting::new(self.expected, self.keys, *schedule));
            }
            if let Some(collecting) = &mut collecting {
                collecting.take(traced, spans, end)?;
                shared.out.store(collecting.out, Ordering::Relaxed);
                if collecting.missing() == 0 && complete_since.is_none() {
                    complete_since = Some(Instant::now());
                }
            }
        }
        match collecting {
            Some(collecting) => collecting.end(),
            None => {
                let what = "none of the records has come out of the pipeline";
                Err(Error::new(ErrorKind::Internal, what))
            }
        }
    }
}

/// Whether the client gets over it by itself.
pub(crate) fn is_passing(cause: &KafkaError) -> bool {
    use RDKafkaErrorCode::{AllBrokersDown, BrokerTransportFailure, OperationTimedOut, Resolve};
    let passing = [AllBrokersDown, BrokerTransportFailure, OperationTimedOut, Resolve];
    cause.rdkafka_error_code().is_some_and(|code| passing.contains(&code))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::load;

    fn traced(schedule: &Schedule, number: u64) -> TracedRecord {
        let due = schedule.due(number);
        TracedRecord {
            due,
            logged: 0,
            fetched: due,
            arrived: due + 1_000,
            number,
            key: 0,
            count: 1,
        }
    }

    fn take(all: &mut Collecting, traced: TracedRecord) -> Result<()> {
        let output = OutputRecord { traced, left: traced.arrived + 5_000 };
        all.take(traced, RecordSpans::of(output, output.left + 2_000), output.left + 2_000)
    }

    #[test]
    fn each_record_comes_once_and_counts_in_its_second() {
        let schedule = load(10.0, 1_000, 2_500).schedule(0);
        let mut all = Collecting::new(Expected::Each, 1, schedule);
        for number in 0..schedule.records {
            assert_eq!(all.missing(), 35 - number);
            take(&mut all, traced(&schedule, number)).unwrap();
        }
        assert_eq!(all.missing(), 0);
        let again = take(&mut all, traced(&schedule, 3)).unwrap_err();
        assert!(again.to_string().contains("twice"), "{again}");
        let unknown = take(&mut all, traced(&schedule, 35)).unwrap_err();
        assert!(unknown.to_string().contains("not made"), "{unknown}");
        let found = all.end().unwrap();
        let counts: Vec<_> =
            found.seconds.iter().map(|second| second.whole.summary().unwrap().count).collect();
        assert_eq!(counts, [10, 10, 5]);
        assert!((found.all.processing.summary().unwrap().p50 - 0.005).abs() < 1e-4);
        assert_eq!(found.all.to_log.summary(), None);
        assert_eq!(found.last, schedule.due(34) + 8_000);
    }

    #[test]
    fn answers_are_equal_in_any_order_and_only_if_all_results_are() {
        let schedule = load(10.0, 0, 1_000).schedule(0);
        let answer = |expected, results: &[(u64, u64, u64)]| {
            let mut all = Collecting::new(expected, 2, schedule);
            for (number, key, count) in results.iter().copied() {
                take(&mut all, TracedRecord { key, count, ..traced(&schedule, number) }).unwrap();
            }
            all.collected.answer
        };
        let each = answer(Expected::Each, &[(0, 0, 1), (1, 1, 1)]);
        assert_eq!(each, answer(Expected::Read, &[(1, 1, 1), (0, 0, 1)]));
        assert_ne!(each, answer(Expected::Each, &[(0, 1, 1), (1, 0, 1)]));
        let counts = answer(Expected::RunningCounts, &[(0, 0, 1), (1, 1, 1), (2, 0, 2)]);
        assert_eq!(counts, answer(Expected::RunningCounts, &[(2, 0, 1), (0, 0, 2), (1, 1, 1)]));
        assert_ne!(counts, answer(Expected::RunningCounts, &[(0, 0, 1), (1, 1, 1), (2, 1, 2)]));
    }

    #[test]
    fn what_is_missing_or_does_not_count_is_said() {
        let schedule = load(10.0, 0, 1_000).schedule(0);
        let mut all = Collecting::new(Expected::Each, 1, schedule);
        (0..9).for_each(|number| take(&mut all, traced(&schedule, number)).unwrap());
        assert!(all.end().unwrap_err().to_string().contains("1 of 10 records"));

        let schedule = load(1.0, 1_000, 1).schedule(0);
        assert_eq!(schedule.records, 2);
        let mut all = Collecting::new(Expected::WindowCounts(5_000_000_000), 1, schedule);
        take(&mut all, TracedRecord::of_window(5_000_000_000, 0, 2)).unwrap();
        assert!(all.end().unwrap_err().to_string().contains("too short"));
    }

    #[test]
    fn running_counts_follow_from_each_other() {
        let schedule = load(10.0, 0, 1_000).schedule(0);
        let mut all = Collecting::new(Expected::RunningCounts, 2, schedule);
        for (number, key, count) in [(0, 0, 1), (1, 1, 1), (2, 0, 2)] {
            take(&mut all, TracedRecord { key, count, ..traced(&schedule, number) }).unwrap();
        }
        for (key, count) in [(0, 2), (0, 4), (1, 1), (2, 1)] {
            let mut all = Collecting {
                counts: all.counts.clone(),
                ..Collecting::new(Expected::RunningCounts, 2, schedule)
            };
            let wrong = TracedRecord { key, count, ..traced(&schedule, 3) };
            assert!(take(&mut all, wrong).is_err(), "{key} {count}");
        }
    }

    #[test]
    fn counts_of_windows_are_those_of_the_schedule() {
        const WINDOW: u64 = 500_000_000;
        let schedule = load(10.0, 0, 1_000).schedule(0);
        let right = [(WINDOW, 5), (2 * WINDOW, 5)];
        for (change, said) in [(0, ""), (1, "should be Some(5)"), (2, "twice"), (3, "not come out")]
        {
            let mut all = Collecting::new(Expected::WindowCounts(WINDOW), 1, schedule);
            let results = match change {
                0 => right.to_vec(),
                1 => vec![(WINDOW, 6), (2 * WINDOW, 4)],
                2 => vec![right[0], right[0]],
                _ => vec![right[0]],
            };
            let took = results.into_iter().try_for_each(|(end, count)| {
                take(&mut all, TracedRecord::of_window(end, 0, count))
            });
            match took.and_then(|()| all.end()) {
                Ok(found) => {
                    assert_eq!(change, 0);
                    // The second window ends when the time is over that counts.
                    assert_eq!(found.all.whole.summary().unwrap().count, 1);
                    assert_eq!(found.all.reading.summary(), None);
                }
                Err(error) => assert!(change > 0 && error.to_string().contains(said), "{error}"),
            }
        }
    }
}
