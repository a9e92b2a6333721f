//! Encodes records with a schema that is registered.

use super::decoder::FAILED_FOR;
use super::http::Failure;
use super::registry::Connection;
use super::schema::Schema;
use super::ser;
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;
use thalweg::{Error, ErrorKind, Result};

/// Under which subject a schema is registered, as the strategies of Confluent's serialisers have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum SubjectName {
    /// `orders-value` or `orders-key`: one schema a topic.
    #[default]
    Topic,
    /// The full name of the record: several schemas a topic, each the same in all topics.
    Record,
    /// The topic, a hyphen, and the full name of the record.
    TopicRecord,
}

/// Encodes values in the wire form of schema registries: a zero byte, the id of the schema, and Avro.
///
/// It is made by [`SchemaRegistry::encoder`](super::SchemaRegistry::encoder), for [`Outgoing::avro`](crate::Outgoing::avro). The
/// schema's id is requested once, by [`register`](Self::register) or for the first record, which blocks its task's thread until
/// then. What has failed is requested again after five seconds at the earliest. Clones share the id.
///
/// The types are those of [`AvroDecoder`](super::AvroDecoder); fields that a value does not have (`skip_serializing_if`) get the
/// schema's defaults, and fields that the schema does not have are an error unless they are skipped. A type whose fields have
/// the schema's order is fastest.
#[derive(Clone)]
pub struct AvroEncoder {
    topic: String,
    text: String,
    of_keys: bool,
    registers: bool,
    subject_name: SubjectName,
    subject: Option<String>,
    shared: Arc<Shared>,
}

struct Shared {
    registry: Arc<Connection>,
    schema: Arc<Schema>,
    /// Set once the registry has answered.
    id: OnceLock<u32>,
    /// Held while it is requested. What has failed last, and when: all tasks would wait for the registry in turn otherwise.
    failed: Mutex<Option<(Instant, Failure)>>,
}

impl Shared {
    fn new(registry: Arc<Connection>, schema: Arc<Schema>) -> Arc<Self> {
        Arc::new(Self { registry, schema, id: OnceLock::new(), failed: Mutex::default() })
    }
}

impl AvroEncoder {
    pub(super) fn new(registry: Connection, topic: String, text: String, schema: Schema) -> Self {
        let shared = Shared::new(Arc::new(registry), Arc::new(schema));
        Self {
            topic,
            text,
            of_keys: false,
            registers: true,
            subject_name: SubjectName::default(),
            subject: None,
            shared,
        }
    }

    /// Registers under the subject of the topic's keys, `orders-key`, in place of that of its values.
    #[must_use]
    pub fn for_keys(mut self) -> Self {
        self.of_keys = true;
        self.anew()
    }

    /// Under which subject the schema is registered; by default that of the topic.
    #[must_use]
    pub fn subject_name(mut self, name: SubjectName) -> Self {
        self.subject_name = name;
        self.anew()
    }

    /// Registers under this subject.
    #[must_use]
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self.anew()
    }

    /// Whether the schema is registered where it is not yet, as by default. Else it must be there.
    #[must_use]
    pub fn auto_register(mut self, registers: bool) -> Self {
        self.registers = registers;
        self.anew()
    }

    /// Forgets the id, which is of another subject.
    fn anew(mut self) -> Self {
        let Shared { registry, schema, .. } = &*self.shared;
        self.shared = Shared::new(Arc::clone(registry), Arc::clone(schema));
        self
    }

    /// Requests the schema's id, unless it is known: before a job, so that what is wrong is said before it starts, and its threads
    /// need not wait.
    ///
    /// # Errors
    ///
    /// Of kind [`Config`](ErrorKind::Config) if the registry refuses: the schema is incompatible with those of the subject (409), or not
    /// there (404), or the credentials do not suffice; of kind [`Io`](ErrorKind::Io) if it does not answer.
    pub fn register(&self) -> Result<u32> {
        match self.shared.id.get() {
            Some(id) => Ok(*id),
            None => self.request(),
        }
    }

    #[cold]
    fn request(&self) -> Result<u32> {
        let Shared { registry, id, failed, .. } = &*self.shared;
        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(id) = id.get() {
            return Ok(*id);
        }
        let subject = self.subject_of()?;
        let answer = match &*failed {
            Some((at, failure)) if at.elapsed() < FAILED_FOR => Err(failure.clone()),
            _ => registry.id(&subject, &self.text, self.registers).inspect_err(|failure| {
                *failed = Some((Instant::now(), failure.clone()));
            }),
        };
        let found = answer.map_err(|failure| {
            let what = match failure.status() {
                Some(409) => {
                    format!("the schema is not compatible with the subject `{subject}`")
                }
                Some(404) => format!("the schema is not registered under the subject `{subject}`"),
                _ => format!("the schema has no id under the subject `{subject}`"),
            };
            Error::new(failure.kind(), what).caused_by(failure)
        })?;
        Ok(*id.get_or_init(|| found))
    }

    fn subject_of(&self) -> Result<String> {
        if let Some(subject) = &self.subject {
            return Ok(subject.clone());
        }
        let record = || {
            self.shared.schema.name().ok_or_else(|| {
                let what = "a subject that is called like its record needs a record, enum or fixed";
                Error::new(ErrorKind::Config, what)
            })
        };
        Ok(match self.subject_name {
            SubjectName::Topic if self.of_keys => format!("{}-key", self.topic),
            SubjectName::Topic => format!("{}-value", self.topic),
            SubjectName::Record => record()?.to_owned(),
            SubjectName::TopicRecord => format!("{}-{}", self.topic, record()?),
        })
    }

    /// Appends a value in the wire form. [`Outgoing::avro`](crate::Outgoing::avro) does the same with a record's payload.
    ///
    /// # Errors
    ///
    /// Those of [`register`](Self::register), and of kind [`Input`](ErrorKind::Input) if the value does not fit the schema; nothing is
    /// appended then.
    pub fn encode<T: Serialize + ?Sized>(&self, value: &T, out: &mut Vec<u8>) -> Result<()> {
        let id = self.register()?;
        let begin = out.len();
        out.push(0);
        out.extend_from_slice(&id.to_be_bytes());
        ser::encode(&self.shared.schema, value, out).map_err(|fault| {
            out.truncate(begin);
            let what = format!("the record cannot be written as Avro (schema {id})");
            Error::new(ErrorKind::Input, what).caused_by(fault)
        })
    }
}

impl fmt::Debug for AvroEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AvroEncoder")
            .field("topic", &self.topic)
            .field("schema", &self.shared.schema.name())
            .finish_non_exhaustive()
    }
}
