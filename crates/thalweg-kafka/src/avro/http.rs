//! Requests to a schema registry: its addresses in turn, with time-outs and retries. The only place that opens connections of
//! this module.

use serde_json::Value;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;
use thalweg::{Error, ErrorKind, Result};
use ureq::Agent;
use ureq::http::{HeaderValue, Response, Uri};
use ureq::{Body, RequestExt as _};

/// What requests are made with.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) urls: Vec<String>,
    /// The header `Authorization`.
    pub(super) authorization: Option<String>,
    pub(super) timeout: Duration,
    pub(super) retries: u32,
    pub(super) backoff: Duration,
    #[cfg(feature = "avro-tls")]
    pub(super) authorities: Option<std::path::PathBuf>,
}

/// More than any schema has.
const MAX_ANSWER: u64 = 16 << 20;
/// How many characters of an answer go into an error.
const MAX_MESSAGE: usize = 300;
const MEDIA_TYPE: &str = "application/vnd.schemaregistry.v1+json";
/// The longest pause between two rounds of attempts.
const MAX_PAUSE: Duration = Duration::from_secs(2);

pub(super) struct Client {
    agent: Agent,
    settings: Settings,
    /// The address that has answered last.
    preferred: AtomicUsize,
}

/// Why there is no answer that can be used.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The registry has answered that it will not, with a code of its own unless the answer is another program's.
    Refused { url: String, status: u16, code: Option<i64>, message: String },
    /// No address has answered in time, or each with an error of its own.
    Unreachable(String),
    /// The answer is not what it should be.
    Unusable(String),
    /// The schema is not one that can be used, whoever asks for it.
    Unfit(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { url, status, message, .. } => {
                write!(f, "{url} answers {status}: {message}")
            }
            Self::Unreachable(what) => write!(f, "the schema registry does not answer: {what}"),
            Self::Unusable(what) => write!(f, "the schema registry's answer is of no use: {what}"),
            Self::Unfit(what) => write!(f, "the registry's schema {what}"),
        }
    }
}

impl std::error::Error for Failure {}

impl Failure {
    /// The kind of a failure about what was requested.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Refused { .. } => ErrorKind::Config,
            Self::Unreachable(_) | Self::Unusable(_) => ErrorKind::Io,
            Self::Unfit(_) => ErrorKind::Input,
        }
    }

    pub(super) fn status(&self) -> Option<u16> {
        match self {
            Self::Refused { status, .. } => Some(*status),
            Self::Unreachable(_) | Self::Unusable(_) | Self::Unfit(_) => None,
        }
    }
}

impl Client {
    pub(super) fn new(settings: Settings) -> Result<Self> {
        let config = |what: String| Error::new(ErrorKind::Config, what);
        if settings.urls.is_empty() {
            return Err(config("a schema registry needs an address".to_owned()));
        }
        for url in &settings.urls {
            // Before anything that would print it.
            if has_credentials(url) {
                let what = "an address of a schema registry has an `@`: credentials are given by `basic_auth`";
                return Err(config(what.to_owned()));
            }
            let is_tls = url.starts_with("https://");
            if !is_tls && !url.starts_with("http://") {
                let what =
                    format!("`{url}` is no address of a schema registry: `http://host:port`");
                return Err(config(what));
            }
            if is_tls && !cfg!(feature = "avro-tls") {
                let what = format!("`{url}` needs the feature `avro-tls` of thalweg-kafka");
                return Err(config(what));
            }
            if let Err(cause) = url.parse::<Uri>() {
                let what = format!("`{url}` is no address of a schema registry");
                return Err(config(what).caused_by(cause));
            }
        }
        let header = settings.authorization.as_deref().map(HeaderValue::from_str);
        if header.is_some_and(|header| header.is_err()) {
            let what = "the credentials for the schema registry have characters that no header may have, such as an end of line";
            return Err(config(what.to_owned()));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(settings.timeout))
            .http_status_as_error(false)
            // Credentials are for the addresses that were given. A redirect is refused with its status.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent("thalweg");
        #[cfg(feature = "avro-tls")]
        let agent = agent.tls_config(super::tls::config(settings.authorities.as_deref())?);
        Ok(Self { agent: agent.build().into(), settings, preferred: AtomicUsize::new(0) })
    }

    pub(super) fn get(&self, path: &str) -> std::result::Result<Value, Failure> {
        self.request(path, None)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> std::result::Result<Value, Failure> {
        self.request(path, Some(&body.to_string()))
    }

    fn request(&self, path: &str, body: Option<&str>) -> std::result::Result<Value, Failure> {
        let Settings { urls, retries, backoff, .. } = &self.settings;
        let mut last = String::new();
        for attempt in 0..=*retries {
            if attempt > 0 {
                let pause = backoff.saturating_mul(1 << (attempt - 1).min(10));
                thread::sleep(pause.min(MAX_PAUSE));
            }
            let first = self.preferred.load(Ordering::Relaxed);
            for at in (0..urls.len()).map(|at| (first + at) % urls.len()) {
                match self.attempt(&urls[at], path, body) {
                    Ok(value) => {
                        self.preferred.store(at, Ordering::Relaxed);
                        return Ok(value);
                    }
                    Err(Failure::Unreachable(what)) => last = what,
                    Err(refused) => return Err(refused),
                }
            }
        }
        Err(Failure::Unreachable(last))
    }

    /// One request to one address.
    fn attempt(
        &self,
        url: &str,
        path: &str,
        body: Option<&str>,
    ) -> std::result::Result<Value, Failure> {
        let url = url.trim_end_matches('/');
        let unreachable = |what: &dyn fmt::Display| Failure::Unreachable(format!("{url}: {what}"));
        let mut response = self.send(&format!("{url}{path}"), body).map_err(|e| unreachable(&e))?;
        let status = response.status().as_u16();
        let text = response.body_mut().with_config().limit(MAX_ANSWER).read_to_string();
        let text = text.map_err(|error| unreachable(&error))?;
        match status {
            200..300 => serde_json::from_str(&text)
                .map_err(|error| unreachable(&format!("its answer is not JSON: {error}"))),
            // It may be another one's turn, or pass.
            408 | 429 | 500.. => Err(unreachable(&format!("{status}: {}", message(&text)))),
            _ => {
                let (url, message, code) = (url.to_owned(), message(&text), code(&text));
                Err(Failure::Refused { url, status, code, message })
            }
        }
    }

    fn send(
        &self,
        url: &str,
        body: Option<&str>,
    ) -> std::result::Result<Response<Body>, ureq::Error> {
        let request = ureq::http::Request::builder().uri(url).header("Accept", MEDIA_TYPE);
        let request = match &self.settings.authorization {
            Some(value) => request.header("Authorization", value),
            None => request,
        };
        match body {
            None => request.method("GET").body(())?.with_agent(&self.agent).run(),
            Some(body) => {
                let request = request.method("POST").header("Content-Type", MEDIA_TYPE);
                request.body(body.to_owned())?.with_agent(&self.agent).run()
            }
        }
    }
}

/// What an answer says of an error: its `message`, or its beginning.
fn message(text: &str) -> String {
    let json = serde_json::from_str::<Value>(text).ok();
    match json.as_ref().and_then(|json| json.get("message")?.as_str()) {
        Some(message) => excerpt(message),
        None if text.trim().is_empty() => "no reason".to_owned(),
        None => excerpt(text),
    }
}

/// The code of an error: the status, or one that begins with it.
fn code(text: &str) -> Option<i64> {
    serde_json::from_str::<Value>(text).ok()?.get("error_code")?.as_i64()
}

/// The beginning of a text of the registry, which may be as long as it likes.
pub(super) fn excerpt(text: &str) -> String {
    match text.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Whether an address may have a user and a password, which nothing may print.
pub(super) fn has_credentials(url: &str) -> bool {
    url.contains('@')
}

/// A part of a path.
pub(super) fn escaped(text: &str) -> String {
    let mut path = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                path.push(char::from(byte));
            }
            _ => path.push_str(&format!("%{byte:02X}")),
        }
    }
    path
}

/// The header of basic authentication.
pub(super) fn basic(user: &str, password: &str) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = "Basic ".to_owned();
    for chunk in format!("{user}:{password}").as_bytes().chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..4 {
            match digit <= chunk.len() {
                true => text.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_written_in_base_64() {
        assert_eq!(basic("Aladdin", "open sesame"), "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==");
        assert_eq!(basic("a", "b"), "Basic YTpi");
        assert_eq!(basic("ab", "c?"), "Basic YWI6Yz8=");
    }

    #[test]
    fn parts_of_paths_are_escaped() {
        assert_eq!(escaped("orders-value"), "orders-value");
        assert_eq!(escaped("a/b c?ü"), "a%2Fb%20c%3F%C3%BC");
    }
}
