//! Whether topics are still those that a job has begun to read. One that was deleted and made anew has the same name and another
//! id; librdkafka reads it on at the offset in the one before, if it has as many records.

use crate::client::Client;
use crate::protocol::{TopicId, Topics};
use crate::threads::start;
use crate::tokens::Tokens;
use rdkafka::config::ClientConfig;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::time::Duration;
use thalweg::{Error, ErrorKind, Place, Result};

/// How often to look, at least.
const INTERVAL: Duration = Duration::from_secs(5);

/// The topics that a source reads, as this host knows them.
#[derive(Debug)]
pub(crate) struct SameTopics {
    asks: Mutex<Topics>,
    /// Without an id where brokers have not said it.
    known: Mutex<BTreeMap<String, Option<TopicId>>>,
    /// Whether it was logged that brokers do not say ids.
    is_said: AtomicBool,
}

impl SameTopics {
    /// `None` if the settings are such that only librdkafka can connect.
    pub(crate) fn new(config: &ClientConfig, tokens: Option<&Arc<Tokens>>) -> Option<Self> {
        match Topics::new(config, tokens) {
            Ok(topics) => Some(Self {
                asks: Mutex::new(topics),
                known: Mutex::default(),
                is_said: AtomicBool::default(),
            }),
            Err(error) => {
                log::info!("topics that are made anew are not found out: {error}");
                None
            }
        }
    }

    /// Asks for topics, and compares those that were known with what they were.
    ///
    /// # Errors
    ///
    /// If one of them is another one. That no broker answers is none.
    pub(crate) fn look(&self, names: &[&str]) -> Result<(), Another> {
        let found = self.asks.lock().unwrap_or_else(PoisonError::into_inner).ids(names);
        let found = found.unwrap_or_else(|why| {
            if !self.is_said.swap(true, Ordering::AcqRel) {
                log::info!("topics that are made anew are not found out for now: {why}");
            }
            Vec::new()
        });
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for name in names {
            known.entry((*name).to_owned()).or_default();
        }
        for (name, now) in found {
            match known.get_mut(&name) {
                Some(Some(before)) if *before != now => {
                    return Err(Another { name, before: *before, now });
                }
                Some(before) => *before = Some(now),
                None => {}
            }
        }
        Ok(())
    }

    /// The id of a topic, of which a checkpoint may have one.
    ///
    /// # Errors
    ///
    /// If it is another one.
    pub(crate) fn go_on(
        &self,
        name: &str,
        before: Option<TopicId>,
    ) -> Result<Option<TopicId>, Another> {
        if !self.known.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name) {
            self.look(&[name])?;
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.entry(name.to_owned()).or_default();
        match (*known, before) {
            (Some(now), Some(before)) if now != before => {
                Err(Another { name: name.to_owned(), before, now })
            }
            (now, before) => {
                *known = now.or(before);
                Ok(*known)
            }
        }
    }

    /// Looks at all topics now and then, on a thread that ends when what is returned is dropped. Another topic ends the job.
    pub(crate) fn watch(
        self: &Arc<Self>,
        every: Duration,
        client: Weak<Client>,
    ) -> Result<mpsc::Sender<()>> {
        let (held, gone) = mpsc::channel();
        let (same, every) = (Arc::clone(self), every.min(INTERVAL));
        let watch = move || {
            while gone.recv_timeout(every) == Err(mpsc::RecvTimeoutError::Timeout) {
                let known = same.known.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let names: Vec<_> = known.keys().map(String::as_str).collect();
                let Err(another) = same.look(&names) else { continue };
                let Some(client) = client.upgrade() else { return };
                return client.fail(Box::new(move || another.error()));
            }
        };
        start("kafka-topics", watch)?;
        Ok(held)
    }
}

/// A topic that is not the one that it was.
#[derive(Clone, Debug)]
pub(crate) struct Another {
    pub(crate) name: String,
    pub(crate) before: TopicId,
    pub(crate) now: TopicId,
}

impl Another {
    #[cold]
    pub(crate) fn error(&self) -> Error {
        let Self { name, before, now } = self;
        let what = format!(
            "the topic `{name}` is another one than the job has read, of the same name: its id was {before}, and is {now}. It was deleted and \
             made anew, or the brokers are of another cluster, so offsets in it mean other records. Begin anew (`thalweg checkpoint rm \
             --all DIR`), or set `KafkaSource::read_recreated_topics` if each record has the offset that it had"
        );
        Error::new(ErrorKind::Input, what).at(Place::Split(name.clone(), None))
    }
}
