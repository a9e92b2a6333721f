//! Decodes records, each by the schema whose id it has.

use super::de;
use super::http::Failure;
use super::plan::Plan;
use super::registry::Connection;
use super::schema::Schema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
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
/// # When it blocks
///
/// The first record with an id requests its schema, and blocks its task's thread until the registry has answered, or its
/// [retries](super::SchemaRegistry::retries) are over. Records of other ids are decoded meanwhile by other tasks, and those
/// of the same id wait for the one request. What has failed is requested again after five seconds, so that a registry
/// that does not answer costs no request for each record. [`prefetch`](Self::prefetch) requests schemas before the job.
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

/// When and why a schema could not be used. Held while it is requested.
#[derive(Default)]
struct Asked(Mutex<Option<(Instant, Reason)>>);

/// Why a schema cannot be used.
#[derive(Clone)]
enum Reason {
    Registry(Failure),
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
        self.decode_of("value", bytes)
    }

    /// Decodes what is called so in errors.
    pub(crate) fn decode_of<'de, T: Deserialize<'de>>(
        &self,
        what: &str,
        bytes: &'de [u8],
    ) -> Result<T> {
        let refuse = |is: String| Error::new(ErrorKind::Input, format!("the {what} is {is}"));
        let (id, body) = split(bytes).map_err(refuse)?;
        let plan = self.0.plan(id).map_err(|reason| reason.error(what, id))?;
        de::decode(plan, body).map_err(|fault| {
            refuse(format!("not the expected Avro (schema {id})")).caused_by(fault)
        })
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
            let _ = self.0.plan(*id);
        }
        Ok(ids.len())
    }
}

impl Inner {
    #[inline]
    fn plan(&self, id: u32) -> std::result::Result<&Plan, Reason> {
        match self.known(id) {
            Some(plan) => Ok(plan),
            None => self.request(id),
        }
    }

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
        let mut failed = asked.0.lock().unwrap_or_else(PoisonError::into_inner);
        // It may have come while this one waited.
        if let Some(plan) = self.known(id) {
            return Ok(plan);
        }
        if let Some((at, reason)) = &*failed
            && at.elapsed() < FAILED_FOR
        {
            return Err(reason.clone());
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
            Self::Misfit(cause) => {
                let message =
                    format!("the schema {id} of the {what} does not fit the reader's schema");
                Error::new(ErrorKind::Input, message).caused_by(cause)
            }
        }
    }
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
