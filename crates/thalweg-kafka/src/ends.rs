//! How far the partitions of a source are known to reach: as brokers have said when they were asked for it, and with each answer to a
//! fetch since then. It takes no request.

use serde::Deserialize;
use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The ends of partitions, of all clients of a source.
#[derive(Debug, Default)]
pub(crate) struct Ends(Mutex<HashMap<String, HashMap<i32, End>>>);

/// The offset behind the records of a partition that are committed, if it is known.
#[derive(Clone, Debug)]
pub(crate) struct End(Arc<AtomicI64>);

impl Default for End {
    fn default() -> Self {
        Self(Arc::new(AtomicI64::new(-1)))
    }
}

impl End {
    pub(crate) fn get(&self) -> Option<i64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|end| *end >= 0)
    }

    pub(crate) fn set(&self, end: i64) {
        if end >= 0 {
            self.0.store(end, Ordering::Relaxed);
        }
    }
}

/// How long all of a partition has been read that ends before the offset until which it is to be read.
#[derive(Debug, Default)]
pub(crate) struct Shortfall {
    /// When to warn of it next.
    warn_at: Option<Instant>,
}

impl Shortfall {
    /// A leader that was just elected may know an end of before for as long as this.
    const FIRST: Duration = Duration::from_secs(10);
    const AGAIN: Duration = Duration::from_secs(60);

    /// It is still so; returns whether to warn of it.
    pub(crate) fn is_to_be_logged(&mut self, now: Instant) -> bool {
        let is_due = *self.warn_at.get_or_insert(now + Self::FIRST) <= now;
        if is_due {
            self.warn_at = Some(now + Self::AGAIN);
        }
        is_due
    }
}

/// What is read of a client's statistics.
#[derive(Deserialize)]
struct Statistics {
    #[serde(default)]
    topics: HashMap<String, Topic>,
}

#[derive(Deserialize)]
struct Topic {
    #[serde(default)]
    partitions: HashMap<String, Partition>,
}

#[derive(Deserialize)]
struct Partition {
    partition: i32,
    /// Negative before the first answer. Where records that are not committed are read, too, it is the end of all.
    #[serde(default)]
    ls_offset: i64,
}

impl Ends {
    /// That of a partition.
    pub(crate) fn of(&self, topic: &str, partition: i32) -> End {
        let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        ends.entry(topic.to_owned()).or_default().entry(partition).or_default().clone()
    }

    /// A broker has said where a partition ends.
    pub(crate) fn set(&self, topic: &str, partition: i32, end: i64) {
        self.of(topic, partition).set(end);
    }

    /// Takes the statistics of a client, which have what the last answers to its fetches said.
    pub(crate) fn take(&self, statistics: &[u8]) {
        let Ok(statistics) = serde_json::from_slice::<Statistics>(statistics) else { return };
        let ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (topic, Topic { partitions }) in &statistics.topics {
            let Some(ends) = ends.get(topic) else { continue };
            for Partition { partition, ls_offset } in partitions.values() {
                if let Some(end) = ends.get(partition) {
                    end.set(*ls_offset);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_stays_too_early_is_logged_again_and_again() {
        let mut shortfall = Shortfall::default();
        let begin = Instant::now();
        let logged =
            (0..200u64).filter(|at| shortfall.is_to_be_logged(begin + Duration::from_secs(*at)));
        assert_eq!(logged.collect::<Vec<_>>(), [10, 70, 130, 190]);
    }

    #[test]
    fn ends_are_in_the_statistics_of_a_client() {
        let ends = Ends::default();
        let [first, second] = [0, 1].map(|partition| ends.of("orders", partition));
        assert_eq!((first.get(), second.get()), (None, None));
        ends.set("orders", 0, 7);
        let statistics = r#"{"name": "rdkafka#consumer-1", "topics": {
            "orders": {"topic": "orders", "partitions": {
                "1": {"partition": 1, "hi_offset": 12, "ls_offset": 10},
                "0": {"partition": 0, "hi_offset": -1001, "ls_offset": -1001},
                "-1": {"partition": -1}}},
            "others": {"topic": "others", "partitions": {"0": {"partition": 0, "ls_offset": 3}}}}}"#;
        ends.take(statistics.as_bytes());
        assert_eq!((first.get(), second.get()), (Some(7), Some(10)));
        ends.take(b"{}");
        ends.take(b"no JSON");
        assert_eq!(ends.of("orders", 1).get(), Some(10));
    }
}
