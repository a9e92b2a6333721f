//! Decodes records, each by the schema whose id it has.

use super::de;
use super::http::Failure;
use super::plan::Plan;
use super::registry::Connection;
use super::schema::Schema;
use crate::threads::start;
use crate::waits::Waits;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg::connector::SplitWaker;
use thalweg::{Error, ErrorKind, Result};

/// Decodes records in the wire form of schema registries: a zero byte, the id of the writer's schema, and Avro.
///
/// It is made by [`SchemaRegistry::decoder`](super::SchemaRegistry::decoder) or
/// [`decoder_as`](super::SchemaRegistry::decoder_as), for [`MessageRef::avro`](crate::MessageRef::avro). Clones share what
/// they have learnt.
///
/// Values are decoded straight into the Rust type, without a tree of values in between, and text and bytes may be borrowed
/// from the record.
///
/// | Avro | serde |
/// |---|---|
/// | int, long, and dates and times, which are numbers | integers that they fit |
/// | decimal | text (`"12.50"`, which `rust_decimal` and `bigdecimal` read), floating-point numbers, bytes; integers, if its scale is 0 |
/// | bytes, fixed | bytes, `Vec<u8>`, `[u8; N]` |
/// | uuid | text; bytes, if it is a fixed |
/// | enum | text, or a Rust enum |
/// | union with null | `Option` |
/// | other unions | a Rust enum with a variant for each branch, called like it (`Int`, `String`, or the name of the record); an untagged enum; the type itself |
///
/// A variant without content may be written as text or as a symbol. Where the text in a union's branch is called like one
/// variant and the branch like another, it is the text that counts, unless the union has several branches besides null and a
/// variant for each of them.
///
/// A decimal whose precision or scale is ill-formed, above 1000, or too large for its fixed, is plain bytes.
///
/// # When it waits
///
/// The first record with an id requests its schema, and waits until the registry has answered, or its
/// [retries](super::SchemaRegistry::retries) are over; those of the same id wait for the one request. What has failed is requested
/// again after five seconds, so that a registry that does not answer costs no request for each record.
///
/// In [`KafkaSource::avro`](crate::KafkaSource::avro) and in closures of [`KafkaSource::decode`](crate::KafkaSource::decode) no thread
/// waits: all other tasks go on, and the record is decoded once more when the schema is there. Anywhere else, as in
/// [`try_map`](thalweg::Stream::try_map), the task's thread is blocked. [`prefetch`](Self::prefetch) requests schemas before the job.
#[derive(Clone)]
pub struct AvroDecoder(Arc<Inner>);

struct Inner {
    registry: Connection,
    reader: Option<Arc<Schema>>,
    /// The schemas that are known, by the last bits of their ids.
    ids: [Link; BUCKETS],
    /// Those that were requested and are not known. There may be any number of ids in bad records.
    asked: Mutex<BTreeMap<u32, Arc<Asked>>>,
}

const BUCKETS: usize = 64;
/// How many of the latter are remembered, besides those that are being requested.
pub(super) const REMEMBERED: usize = 1024;

/// How long a failure stands.
pub(super) const FAILED_FOR: Duration = Duration::from_secs(5);

/// What registries answer of an id that they do not know.
const UNKNOWN_SCHEMA: i64 = 40403;

/// The end of a list, to which entries may be appended while others read it: nothing is locked where a schema is known.
type Link = OnceLock<Box<Entry>>;

struct Entry {
    id: u32,
    plan: Plan,
    next: Link,
}

/// A schema that was requested.
#[derive(Default)]
struct Asked {
    /// When and why it could not be used. Held while it is requested.
    failed: Mutex<Option<(Instant, Reason)>>,
    /// The readers that wait for a thread that requests it, while there is one.
    waiting: Mutex<Option<Vec<SplitWaker>>>,
}

impl Asked {
    fn waiting(&self) -> MutexGuard<'_, Option<Vec<SplitWaker>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a schema cannot be used.
#[derive(Clone)]
enum Reason {
    Registry(Failure),
    /// It is being requested.
    Waits,
    /// It does not fit the reader's.
    Misfit(String),
}

impl AvroDecoder {
    pub(super) fn new(registry: Connection, reader: Option<Schema>) -> Self {
        let reader = reader.map(Arc::new);
        let (ids, asked) = ([const { OnceLock::new() }; BUCKETS], Mutex::default());
        Self(Arc::new(Inner { registry, reader, ids, asked }))
    }

    /// Decodes a value in the wire form. [`MessageRef::avro`](crate::MessageRef::avro) does the same with a record's payload, and
    /// names its place in errors.
    ///
    /// # Errors
    ///
    /// Of kind [`Input`](ErrorKind::Input) if the bytes are no such value, the registry says that it does not know the
    /// schema's id, or the schema is not one of Avro; of kind [`Io`](ErrorKind::Io) if it does not answer; of kind
    /// [`Config`](ErrorKind::Config) if it refuses to, as without credentials or where the address is wrong.
    pub fn decode<'de, T: Deserialize<'de>>(&self, bytes: &'de [u8]) -> Result<T> {
        self.decode_of("value", bytes, None)
    }

    /// Decodes what is called so in errors. If it may wait, it is an error that does not count where it does.
    pub(crate) fn decode_of<'de, T: Deserialize<'de>>(
        &self,
        what: &str,
        bytes: &'de [u8],
        waits: Option<&Waits>,
    ) -> Result<T> {
        let refuse = |is: String| Error::new(ErrorKind::Input, format!("the {what} is {is}"));
        let (id, body) = split(bytes).map_err(refuse)?;
        let plan = match (self.0.known(id), waits) {
            (Some(plan), _) => Ok(plan),
            (None, None) => self.0.request(id),
            (None, Some(waits)) => self.request_aside(id, waits),
        };
        let plan = plan.map_err(|reason| reason.error(what, id))?;
        de::decode(plan, body).map_err(|fault| {
            refuse(format!("not the expected Avro (schema {id})")).caused_by(fault)
        })
    }

    /// Has another thread request the schema, and wake the readers that wait for it.
    #[cold]
    fn request_aside(&self, id: u32, waits: &Waits) -> std::result::Result<&Plan, Reason> {
        let asked = self.0.asked(id);
        let mut waiting = asked.waiting();
        // It may have come meanwhile.
        if let Some(plan) = self.0.known(id) {
            return Ok(plan);
        }
        if let Some(waiting) = &mut *waiting {
            waiting.push(waits.begin());
            return Err(Reason::Waits);
        }
        if let Some(reason) = asked.failed.try_lock().ok().and_then(|failed| stands(&failed)) {
            return Err(reason);
        }
        let (decoder, of_thread) = (self.clone(), Arc::clone(&asked));
        let request = move || {
            if catch_unwind(AssertUnwindSafe(|| drop(decoder.0.request(id)))).is_err() {
                let reason = Reason::Registry(Failure::Unusable(
                    "this program panics by its answer".to_owned(),
                ));
                of_thread.failed.clear_poison();
                *of_thread.failed.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some((Instant::now(), reason));
            }
            let waiting = of_thread.waiting().take();
            waiting.iter().flatten().for_each(SplitWaker::wake);
        };
        match start("kafka-schemas", request) {
            Ok(()) => {
                *waiting = Some(vec![waits.begin()]);
                Err(Reason::Waits)
            }
            Err(_) => {
                drop(waiting);
                // Here, if it cannot be elsewhere.
                self.0.request(id)
            }
        }
    }

    /// How many failures it remembers.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.0.asked.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Requests all versions of a subject, such as `orders-value`: before a job, so that its threads need not wait for those.
    /// It says how many there are. One that does not fit the reader's schema is an error only for records that have it.
    ///
    /// # Errors
    ///
    /// Of kind [`Config`](ErrorKind::Config) if the registry refuses, as where there is no such subject; of kind
    /// [`Io`](ErrorKind::Io) if it does not answer.
    pub fn prefetch(&self, subject: &str) -> Result<usize> {
        let ids = self.0.registry.versions(subject).map_err(|failure| {
            let what = format!("the schemas of the subject `{subject}` are not to be had");
            Error::new(failure.kind(), what).caused_by(failure)
        })?;
        for id in &ids {
            // What is wrong with it is said for each of its records.
            if self.0.known(*id).is_none() {
                let _ = self.0.request(*id);
            }
        }
        Ok(ids.len())
    }
}

impl Inner {
    #[inline]
    fn known(&self, id: u32) -> Option<&Plan> {
        let mut link = &self.ids[id as usize % BUCKETS];
        loop {
            let entry = link.get()?;
            if entry.id == id {
                return Some(&entry.plan);
            }
            link = &entry.next;
        }
    }

    #[cold]
    fn request(&self, id: u32) -> std::result::Result<&Plan, Reason> {
        let asked = self.asked(id);
        let mut failed = asked.failed.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have come while this one waited.
        if let Some(plan) = self.known(id) {
            return Ok(plan);
        }
        if let Some(reason) = stands(&failed) {
            return Err(reason);
        }
        match self.plan_of(id) {
            Ok(plan) => Ok(self.keep(id, plan)),
            Err(reason) => {
                *failed = Some((Instant::now(), reason.clone()));
                Err(reason)
            }
        }
    }

    /// What is shared by all that request a schema.
    fn asked(&self, id: u32) -> Arc<Asked> {
        let mut all = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= REMEMBERED {
            all.retain(|_, asked| Arc::strong_count(asked) > 1);
        }
        Arc::clone(all.entry(id).or_default())
    }

    fn plan_of(&self, id: u32) -> std::result::Result<Plan, Reason> {
        let writer = self.registry.schema(id).map_err(Reason::Registry)?;
        match &self.reader {
            None => Ok(Plan::of(&writer)),
            Some(reader) => {
                Plan::between(&writer, reader).map_err(|fault| Reason::Misfit(fault.to_string()))
            }
        }
    }

    /// Appends what is known now. Only one thread does for an id.
    fn keep(&self, id: u32, plan: Plan) -> &Plan {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.remove(&id);
        let mut link = &self.ids[id as usize % BUCKETS];
        while let Some(entry) = link.get() {
            link = &entry.next;
        }
        &link.get_or_init(|| Box::new(Entry { id, plan, next: OnceLock::new() })).plan
    }
}

impl Reason {
    fn error(self, what: &str, id: u32) -> Error {
        match self {
            Self::Registry(failure) => {
                // The id is of the record, but a wrong address answers 404 too: only the registry's own code says that it
                // knows no such schema.
                let kind = match failure {
                    Failure::Refused { code: Some(UNKNOWN_SCHEMA), .. } => ErrorKind::Input,
                    _ => failure.kind(),
                };
                let message = format!("the schema {id} of the {what} is not to be had");
                Error::new(kind, message).caused_by(failure)
            }
            Self::Waits => {
                let message = format!("the schema {id} of the {what} is being requested");
                Error::new(ErrorKind::Io, message)
            }
            Self::Misfit(cause) => {
                let message =
                    format!("the schema {id} of the {what} does not fit the reader's schema");
                Error::new(ErrorKind::Input, message).caused_by(cause)
            }
        }
    }
}

/// The reason for which a schema is not requested again yet.
fn stands(failed: &Option<(Instant, Reason)>) -> Option<Reason> {
    let (at, reason) = failed.as_ref()?;
    (at.elapsed() < FAILED_FOR).then(|| reason.clone())
}

/// The id of the schema and what was written with it, or what the bytes are instead.
fn split(bytes: &[u8]) -> std::result::Result<(u32, &[u8]), String> {
    match bytes {
        [0, a, b, c, d, body @ ..] => Ok((u32::from_be_bytes([*a, *b, *c, *d]), body)),
        [] => Err("empty: the id of a schema was expected".to_owned()),
        [0, ..] => Err("too short to have the id of a schema".to_owned()),
        [first, ..] => Err(format!(
            "not in the form of a schema registry: it begins with {first} in place of 0"
        )),
    }
}

impl fmt::Debug for AvroDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.reader.as_ref().and_then(|schema| schema.name());
        f.debug_struct("AvroDecoder").field("reader", &name).finish_non_exhaustive()
    }
}
