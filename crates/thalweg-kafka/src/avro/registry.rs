//! The schema registry: its settings, and the schemas that it has answered with.

use super::decoder::AvroDecoder;
use super::encoder::AvroEncoder;
use super::http::{Client, Failure, Settings, basic, escaped, excerpt, has_credentials};
use super::schema::Schema;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use thalweg::Result;

/// A schema registry with Confluent's interface, which Karapace, Apicurio (under `/apis/ccompat/v7`) and others have too.
///
/// Decoders and encoders are made of it, and share the schemas that it has answered with. Making it connects to nothing.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use thalweg_kafka::SchemaRegistry;
///
/// let registry = SchemaRegistry::new(["http://registry-1:8081", "http://registry-2:8081"])
///     .basic_auth("job", "secret")
///     .timeout(Duration::from_secs(5));
/// let orders = registry.decoder()?;
/// # let _ = orders;
/// # Ok::<(), thalweg::Error>(())
/// ```
///
/// # Where it does not answer
///
/// A request goes to each address in turn, and after a pause to all of them [again](Self::retries), where there is no connection,
/// no answer in [time](Self::timeout), or an answer of 408, 429 or 500 and above. Any other answer is final: 401, 403, 404, 409 and
/// 422 are errors with what the registry says, and so is a redirect. Proxies that the environment names (`HTTP_PROXY`, `NO_PROXY`) are used.
#[derive(Clone)]
pub struct SchemaRegistry {
    settings: Settings,
    known: Arc<Mutex<HashMap<u32, Arc<Schema>>>>,
}

impl SchemaRegistry {
    /// A registry at these addresses, such as `http://localhost:8081`: of which the first that answers is asked.
    /// `https://` takes the feature `avro-tls`. Addresses with a user and a password are refused, as errors name addresses:
    /// see [`basic_auth`](Self::basic_auth).
    pub fn new(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let settings = Settings {
            urls: urls.into_iter().map(Into::into).collect(),
            authorization: None,
            timeout: Duration::from_secs(10),
            retries: 3,
            backoff: Duration::from_millis(100),
            #[cfg(feature = "avro-tls")]
            authorities: None,
        };
        Self { settings, known: Arc::default() }
    }

    /// Authenticates by a user and a password, or an API key and its secret.
    #[must_use]
    pub fn basic_auth(mut self, user: &str, password: &str) -> Self {
        self.settings.authorization = Some(basic(user, password));
        self
    }

    /// Authenticates by a bearer token.
    #[must_use]
    pub fn bearer_token(mut self, token: &str) -> Self {
        self.settings.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// How long one request to one address may take; by default 10 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// How often all addresses are tried again, by default 3 times, and the pause before the first time, by default 100 ms. It
    /// doubles each time, to 2 s at most.
    #[must_use]
    pub fn retries(mut self, times: u32, pause: Duration) -> Self {
        (self.settings.retries, self.settings.backoff) = (times, pause);
        self
    }

    /// Trusts the authorities whose certificates are in this file, in PEM, in place of those of the system.
    #[cfg(feature = "avro-tls")]
    #[must_use]
    pub fn ca_file(mut self, path: impl Into<std::path::PathBuf>) -> Self {
        self.settings.authorities = Some(path.into());
        self
    }

    /// Decodes values as they were written: by the writer's schema alone. Fields are matched by name to those of the Rust type.
    ///
    /// # Errors
    ///
    /// If the settings are wrong. Nothing is requested yet.
    pub fn decoder(&self) -> Result<AvroDecoder> {
        Ok(AvroDecoder::new(self.open()?, None))
    }

    /// Decodes values as if they had been written with this schema, whichever they were written with: fields that the writer did
    /// not have get their defaults, aliases and promotions apply, and what the reader does not know is skipped.
    ///
    /// # Errors
    ///
    /// If the settings are wrong, or the schema is no schema of Avro. Nothing is requested yet.
    pub fn decoder_as(&self, schema: &str) -> Result<AvroDecoder> {
        let schema = super::parse(schema, "the reader's schema")?;
        Ok(AvroDecoder::new(self.open()?, Some(schema)))
    }

    /// Encodes values of a topic with this schema. See [`AvroEncoder`].
    ///
    /// # Errors
    ///
    /// If the settings are wrong, or the schema is no schema of Avro. Nothing is requested yet.
    pub fn encoder(&self, topic: impl Into<String>, schema: &str) -> Result<AvroEncoder> {
        let parsed = super::parse(schema, "the schema")?;
        Ok(AvroEncoder::new(self.open()?, topic.into(), schema.to_owned(), parsed))
    }

    fn open(&self) -> Result<Connection> {
        let client = Client::new(self.settings.clone())?;
        Ok(Connection { client, known: Arc::clone(&self.known) })
    }
}

impl fmt::Debug for SchemaRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the credentials.
        let shown = |url: &'_ String| match has_credentials(url) {
            true => "an address with an `@`".to_owned(),
            false => url.clone(),
        };
        let urls: Vec<_> = self.settings.urls.iter().map(shown).collect();
        f.debug_struct("SchemaRegistry").field("urls", &urls).finish_non_exhaustive()
    }
}

/// How many schemas one may refer to, and how deep these may refer to each other: each takes a request.
const MAX_REFERENCES: usize = 256;
const MAX_REFERENCE_DEPTH: usize = 32;

/// Requests, and what they have answered.
pub(super) struct Connection {
    client: Client,
    known: Arc<Mutex<HashMap<u32, Arc<Schema>>>>,
}

impl Connection {
    /// The schema with an id. It never changes, so it is requested once.
    pub(super) fn schema(&self, id: u32) -> Result<Arc<Schema>, Failure> {
        if let Some(schema) = self.known().get(&id) {
            return Ok(Arc::clone(schema));
        }
        let answer = self.client.get(&format!("/schemas/ids/{id}"))?;
        let schema = Arc::new(self.parse(&answer)?);
        self.known().insert(id, Arc::clone(&schema));
        Ok(schema)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<u32, Arc<Schema>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The ids of all versions of a subject, whose schemas are known then.
    pub(super) fn versions(&self, subject: &str) -> Result<Vec<u32>, Failure> {
        let path = format!("/subjects/{}/versions", escaped(subject));
        let numbers = self.client.get(&path)?;
        let numbers = numbers.as_array().ok_or_else(|| unusable("its answer is no list"))?;
        let mut ids = Vec::new();
        for number in numbers.iter().filter_map(Value::as_i64) {
            let answer = self.client.get(&format!("{path}/{number}"))?;
            let id = id_in(&answer)?;
            match self.parse(&answer) {
                Ok(schema) => drop(self.known().insert(id, Arc::new(schema))),
                // What is wrong with it is said for each of its records.
                Err(Failure::Unfit(_)) => {}
                Err(failure) => return Err(failure),
            }
            ids.push(id);
        }
        Ok(ids)
    }

    fn parse(&self, answer: &Value) -> Result<Schema, Failure> {
        let mut others = Vec::new();
        self.references(answer, &mut Vec::new(), &mut others, 0)?;
        Schema::parse(text_of(answer)?, &others)
            .map_err(|fault| unfit(&format!("cannot be used: {fault}")))
    }

    /// The schemas that a schema refers to, each behind those that it refers to.
    fn references(
        &self,
        answer: &Value,
        seen: &mut Vec<(String, i64)>,
        others: &mut Vec<String>,
        depth: usize,
    ) -> Result<(), Failure> {
        let references = answer.get("references").and_then(Value::as_array);
        for reference in references.into_iter().flatten() {
            let subject = reference.get("subject").and_then(Value::as_str);
            let version = reference.get("version").and_then(Value::as_i64);
            let (Some(subject), Some(version)) = (subject, version) else {
                return Err(unusable("it refers to a schema without subject and version"));
            };
            let named = (subject.to_owned(), version);
            if seen.contains(&named) {
                continue;
            }
            if depth >= MAX_REFERENCE_DEPTH || seen.len() >= MAX_REFERENCES {
                let what = format!(
                    "refers to too many others: to {MAX_REFERENCES} at most, {MAX_REFERENCE_DEPTH} deep"
                );
                return Err(unfit(&what));
            }
            seen.push(named);
            let path = format!("/subjects/{}/versions/{version}", escaped(subject));
            let other = self.client.get(&path)?;
            self.references(&other, seen, others, depth + 1)?;
            others.push(text_of(&other)?.to_owned());
        }
        Ok(())
    }

    /// The id of a schema, which is registered under the subject unless it is there, or only looked up.
    pub(super) fn id(&self, subject: &str, schema: &str, register: bool) -> Result<u32, Failure> {
        let path = match register {
            true => format!("/subjects/{}/versions", escaped(subject)),
            false => format!("/subjects/{}", escaped(subject)),
        };
        let answer = self.client.post(&path, &serde_json::json!({ "schema": schema }))?;
        id_in(&answer)
    }
}

fn id_in(answer: &Value) -> Result<u32, Failure> {
    let id = answer.get("id").and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    id.ok_or_else(|| unusable("its answer has no id"))
}

fn text_of(answer: &Value) -> Result<&str, Failure> {
    match answer.get("schemaType").and_then(Value::as_str) {
        None | Some("AVRO") => {}
        Some(other) => return Err(unfit(&format!("is of the type {other}, and not Avro"))),
    }
    let text = answer.get("schema").and_then(Value::as_str);
    text.ok_or_else(|| unusable("its answer has no schema"))
}

fn unfit(what: &str) -> Failure {
    Failure::Unfit(excerpt(what))
}

fn unusable(what: &str) -> Failure {
    Failure::Unusable(what.to_owned())
}
