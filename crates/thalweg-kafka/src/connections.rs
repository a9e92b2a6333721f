//! What clients last said of their connections, for the errors that follow from it.
//!
//! A request that no broker answers fails with a time-out alone. Why is in an event of the client: a certificate that is not
//! trusted, say.

use crate::client::{error, is_hopeless};
use crate::ends::Ends;
use crate::rights::{Needs, code_of, is_denial};
use crate::tokens::{NO_TOKEN, PANICKED, Tokens};
use rdkafka::client::{ClientContext, OAuthToken};
use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::consumer::ConsumerContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::producer::{DeliveryResult, ProducerContext};
use std::collections::BTreeMap;
use std::error::Error as StdError;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use thalweg::connector::CancellationToken;
use thalweg::{Error, ErrorKind};

/// The connections of the clients of a source or sink, which all have the same settings.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    /// What they have said of the ends of partitions.
    pub(crate) ends: Ends,
    /// What gives tokens, if the mechanism is OAUTHBEARER.
    tokens: Option<Arc<Tokens>>,
    state: Mutex<State>,
    /// Whether a broker that had answered refuses what it had accepted: looked at often.
    are_refused: AtomicBool,
    /// What clients have said, so that they do not say it again and again.
    saying: Mutex<Saying>,
    /// The operator that uses them, and its group, for what is logged.
    user: OnceLock<(String, String)>,
    /// Of the job, once its tasks are made.
    cancellation: OnceLock<CancellationToken>,
}

#[derive(Debug, Default)]
struct State {
    /// Why the last one failed, if none has worked since.
    failed: Option<Failed>,
    /// Whether a broker has ever answered.
    worked: bool,
    /// Why the first one was refused after that. It stays, as trying again cannot help.
    refused: Option<Failed>,
    /// Whether the coordinator of a group may not be known. Requests to it wait in vain then.
    no_group: bool,
    /// Whether a transaction may not have the topic: what fails then is that the transaction has.
    no_topic: bool,
}

/// When what was said last, and how often it has not been said since.
#[derive(Debug, Default)]
struct Saying(BTreeMap<String, (Instant, usize)>);

/// How long nothing like it is said again.
const SAID: Duration = Duration::from_secs(30);

impl Saying {
    /// Whether to say it, and how often it was not said before; `None` if it is not to be said now.
    fn again(&mut self, like: &str, now: Instant) -> Option<usize> {
        match self.0.get_mut(like) {
            Some((said, unsaid)) if now.duration_since(*said) < SAID => {
                *unsaid += 1;
                None
            }
            Some(before) => Some(std::mem::replace(before, (now, 0)).1),
            None => {
                self.0.insert(like.to_owned(), (now, 0));
                Some(0)
            }
        }
    }
}

/// The code of a failure, and what the client says of it.
pub(crate) type Failed = (Option<Code>, String);

impl Connections {
    /// Those that log in by tokens.
    pub(crate) fn with(tokens: Tokens) -> Self {
        Self { tokens: Some(Arc::new(tokens)), ..Self::default() }
    }

    pub(crate) fn tokens(&self) -> Option<&Arc<Tokens>> {
        self.tokens.as_ref()
    }

    /// A token for a client of librdkafka. Blocks while the closure runs for the first one.
    pub(crate) fn token(&self) -> Result<OAuthToken, Box<dyn StdError>> {
        let tokens = self.tokens().ok_or("no closure gives tokens")?;
        Ok(tokens.get()?.for_librdkafka())
    }

    /// Takes note of the operator, and of its group.
    pub(crate) fn used_by(&self, operator: &str, group: &str) {
        _ = self.user.set((operator.to_owned(), group.to_owned()));
    }

    /// Takes note of the job.
    pub(crate) fn are_of(&self, job: CancellationToken) {
        _ = self.cancellation.set(job);
    }

    /// Whether the job was cancelled, so that nothing is waited for.
    pub(crate) fn are_cancelled(&self) -> bool {
        self.cancellation.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// The error with which what waits is given up then.
    #[cold]
    pub(crate) fn cancelled(doing: &str) -> Error {
        let what = format!(
            "cannot {doing}: the job ends before the brokers have answered; in a job with checkpoints, its next run does it"
        );
        Error::new(ErrorKind::Cancelled, what)
    }

    /// The operator, as it is named in errors.
    pub(crate) fn operator(&self) -> &str {
        self.user.get().map_or("a source of Kafka", |(operator, _)| operator)
    }

    /// Logs that offsets are not those of the group.
    pub(crate) fn not_committed(&self, why: &dyn fmt::Display) {
        let group = self.user.get().map_or("", |(_, group)| group);
        let operator = self.operator();
        log::warn!("{operator}: offsets of the group `{group}` could not be committed: {why}");
    }

    /// Takes an event of a client.
    pub(crate) fn failed(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        let what = format_args!("{error}: {reason}");
        self.say("librdkafka", log::Level::Warn, &format!("{code:?}"), &what);
        match code {
            // That all brokers are down follows from what was said of each, and the end of a partition is none of a connection.
            Some(Code::AllBrokersDown | Code::PartitionEOF) => {}
            Some(Code::GroupAuthorizationFailed) => self.state().no_group = true,
            _ => {
                // Without a new token, librdkafka shows the last one again, which brokers refuse when it has expired.
                let without = self.tokens().filter(|_| is_refusal(code));
                let without = without.and_then(|tokens| tokens.gap());
                self.state().failed = Some((code, without.unwrap_or_else(|| reason.to_owned())));
                self.look();
            }
        }
    }

    /// Takes a line of a client's log. That a broker has closed a connection is there alone.
    pub(crate) fn logged(&self, level: RDKafkaLogLevel, subject: &str, line: &str) {
        // It has the topics, and what failed in each.
        if subject == "COMMITFAIL" {
            return self.not_committed(&line);
        }
        if subject == "ADDPARTS" && line.contains("opic authorization failed") {
            self.state().no_topic = true;
        }
        match level {
            RDKafkaLogLevel::Debug => log::debug!(target: "librdkafka", "{subject} {line}"),
            RDKafkaLogLevel::Info | RDKafkaLogLevel::Notice => {
                log::info!(target: "librdkafka", "{subject} {line}");
            }
            RDKafkaLogLevel::Warning => {
                self.say(
                    "librdkafka",
                    log::Level::Warn,
                    subject,
                    &format_args!("{subject} {line}"),
                );
            }
            _ => self.say(
                "librdkafka",
                log::Level::Error,
                subject,
                &format_args!("{subject} {line}"),
            ),
        }
        if matches!(level, RDKafkaLogLevel::Info) && subject == "FAIL" {
            let mut state = self.state();
            let failed = &mut state.failed;
            if !failed.as_ref().is_some_and(is_refused) {
                // Behind the name of the client.
                let line = line.split_once("]: ").map_or(line, |(_, line)| line);
                *failed = Some((Some(Code::BrokerTransportFailure), line.to_owned()));
            }
            drop(state);
            self.look();
        }
    }

    /// Logs what a client says, unless it has said the like a short time ago: clients of all tasks do, and try again each second.
    pub(crate) fn say(&self, target: &str, level: log::Level, like: &str, what: &dyn fmt::Display) {
        let mut saying = self.saying.lock().unwrap_or_else(PoisonError::into_inner);
        let unsaid = saying.again(&format!("{level} {like}"), Instant::now());
        drop(saying);
        let Some(unsaid) = unsaid else {
            return log::debug!(target: target, "{what}");
        };
        let operator = self.user.get().map_or("", |(operator, _)| operator);
        let colon = if operator.is_empty() { "" } else { ": " };
        let more = match unsaid {
            0 => String::new(),
            _ => format!(" ({unsaid} more like it in between)"),
        };
        log::log!(target: target, level, "{operator}{colon}{what}{more}");
    }

    /// Takes note of a refusal by brokers that have worked before.
    fn look(&self) {
        let mut state = self.state();
        if state.worked && state.refused.is_none() && state.failed.as_ref().is_some_and(is_final) {
            state.refused = state.failed.clone();
            self.are_refused.store(true, Ordering::Release);
        }
    }

    /// Whether the job has to end: a broker refuses what it, or another one, had accepted, such as a password that was changed.
    #[inline(always)]
    pub(crate) fn are_refused(&self) -> bool {
        self.are_refused.load(Ordering::Acquire)
    }

    /// The error with which the job ends then.
    pub(crate) fn refused(&self) -> Error {
        let cause = KafkaError::Global(Code::Authentication);
        self.error("go on with Kafka", &Needs::default(), cause)
    }

    /// A broker has answered.
    pub(crate) fn work(&self) {
        let mut state = self.state();
        (state.failed, state.worked) = (None, true);
    }

    /// Whether trying again cannot help: a request that failed so, or settings that no broker has accepted yet.
    pub(crate) fn are_hopeless(&self, needs: &Needs<'_>, cause: &KafkaError) -> bool {
        let state = self.state();
        state.refused.is_some()
            || is_hopeless(cause)
            || state.code(needs, cause).is_some_and(is_denial)
            || (!state.worked && state.failed.as_ref().is_some_and(is_refused))
    }

    /// The error of a request, with what is known of the connections.
    pub(crate) fn error(&self, doing: &str, needs: &Needs<'_>, cause: KafkaError) -> Error {
        let state = self.state();
        if let Some(denied) = needs.denied(doing, state.code(needs, &cause)) {
            return denied.caused_by(cause);
        }
        let failed = state.failed.as_ref().filter(|_| is_without_answer(&cause));
        let Some(failed) = state.refused.as_ref().or(failed) else {
            if is_without_answer(&cause) && !state.worked {
                let what = format!(
                    "cannot {doing}: no broker has answered; one whose listener has TLS or SASL answers only clients with its \
                     `security.protocol`"
                );
                return Error::new(ErrorKind::Io, what).caused_by(cause);
            }
            return error(doing, cause);
        };
        let kind = match is_refused(failed) {
            true if failed.1.contains(PANICKED) => ErrorKind::Panic,
            true => ErrorKind::Config,
            false => ErrorKind::Io,
        };
        let what = format!("cannot {doing}: {}{}", failed.1, advice(failed, self.tokens.is_some()));
        Error::new(kind, what).caused_by(cause)
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The code of a request that failed so, or of what it has waited for.
    fn code(&self, needs: &Needs<'_>, cause: &KafkaError) -> Option<Code> {
        let code = code_of(cause);
        if self.no_group && !needs.group.is_empty() && is_without_answer(cause) {
            return Some(Code::GroupAuthorizationFailed);
        }
        if self.no_topic && !needs.topic.1.is_empty() && code == Some(Code::State) {
            return Some(Code::TopicAuthorizationFailed);
        }
        code
    }
}

/// Whether one side does not accept what the other shows. Some of what brokers refuse is the end of a connection to the client.
fn is_refused((code, reason): &Failed) -> bool {
    (is_refusal(*code) && !is_without_token(reason)) || reason.contains("SSL alert")
}

/// Whether the user's closure gave no token, and may give one later.
fn is_without_token(reason: &str) -> bool {
    reason.contains(NO_TOKEN) && !reason.contains(PANICKED)
}

fn is_refusal(code: Option<Code>) -> bool {
    matches!(code, Some(Code::SSL | Code::Authentication | Code::SaslAuthenticationFailed))
}

/// What clients say, too, of a connection that was lost while both sides were about to accept each other.
const LOST: [&str; 7] = [
    "isconnected",
    "Broker transport failure",
    "imed out",
    "hung up",
    "SaslAuthenticateRequest failed",
    "Connection reset",
    // The answer to a second login on a connection that comes too soon.
    "current SASL state",
];

/// Of TLS, those of a side that ends, or is in trouble of its own: close_notify, internal_error, user_canceled.
const ALERTS: [&str; 3] = ["SSL alert number 0", "SSL alert number 80", "SSL alert number 90"];

/// Whether it is certain that one side refuses the other, and has not been lost meanwhile, as where a broker ends.
pub(crate) fn is_final((code, reason): &Failed) -> bool {
    let has = |part: &&str| reason.contains(*part);
    match code {
        _ if reason.contains("SSL alert") => !ALERTS.iter().any(has),
        Some(Code::SSL) => {
            ["certificate verify failed", "verify broker certificate", "not provide a certificate"]
                .iter()
                .any(has)
        }
        _ => is_refusal(*code) && !is_without_token(reason) && !LOST.iter().any(has),
    }
}

/// Whether a request may have failed because there is no connection.
pub(crate) fn is_without_answer(cause: &KafkaError) -> bool {
    let code = code_of(cause);
    is_refusal(code)
        || matches!(
            code,
            Some(
                Code::BrokerTransportFailure
                    | Code::AllBrokersDown
                    | Code::Resolve
                    | Code::OperationTimedOut
                    | Code::MessageTimedOut
                    | Code::RequestTimedOut
                    | Code::WaitingForCoordinator
                    | Code::TimedOutQueue
            )
        )
}

/// What a user is to do, where the client does not say it.
pub(crate) fn advice((code, reason): &Failed, by_token: bool) -> &'static str {
    let has = |part| reason.contains(part);
    if has("certificate verify failed") {
        "; the brokers' certificate has to be of an authority in `ssl.ca.location`, and for the host by which they are reached"
    } else if has("certificate required")
        || has("bad certificate")
        || has("certificate unknown")
        || has("unknown ca")
    {
        "; the brokers want a certificate that they trust: `ssl.certificate.location` and `ssl.key.location`"
    } else if has("PLAINTEXT broker")
        || has("wrong version number")
        // Which of the two is heard first is a matter of time.
        || (has("closed by peer") && has("SSL_HANDSHAKE"))
    {
        "; without TLS, `security.protocol` is `plaintext` or `sasl_plaintext`"
    } else if has("APIVERSION_QUERY") && !reason.starts_with("ssl://") {
        // What a broker with TLS does with the first request of a client without.
        "; with TLS, `security.protocol` is `ssl` or `sasl_ssl`"
    } else if has(NO_TOKEN) {
        ""
    } else if matches!(code, Some(Code::Authentication | Code::SaslAuthenticationFailed))
        && by_token
    {
        "; the brokers do not accept the token that the closure of `tokens` gave"
    } else if matches!(code, Some(Code::Authentication | Code::SaslAuthenticationFailed)) {
        "; see `sasl.mechanism`, `sasl.username` and `sasl.password`"
    } else {
        ""
    }
}

/// The feature of this crate without which librdkafka refuses a setting.
pub(crate) fn missing_feature(cause: &KafkaError) -> Option<&'static str> {
    let text = cause.to_string();
    let mechanisms = ["SASL mechanism SCRAM-", "SASL mechanism OAUTHBEARER"];
    let of_ssl = text.contains("OpenSSL") || mechanisms.iter().any(|name| text.contains(name));
    if of_ssl && (text.contains("not available at build time") || text.contains("No provider")) {
        Some("tls")
    } else if text.contains("libsasl2 not available") || text.contains("SASL mechanism GSSAPI") {
        Some("gssapi")
    } else if text.contains("libzstd not available") {
        Some("zstd")
    } else if text.contains("zlib not available") {
        Some("gzip")
    } else {
        None
    }
}

/// The calls back of clients other than the producer of records that are sent at once.
#[derive(Clone, Default)]
pub(crate) struct Watch(pub(crate) Arc<Connections>);

impl Watch {
    /// Of clients that log in by tokens.
    pub(crate) fn with(tokens: Tokens) -> Self {
        Self(Arc::new(Connections::with(tokens)))
    }

    /// Makes a client.
    pub(crate) fn client<C: rdkafka::config::FromClientConfigAndContext<Self>>(
        &self,
        config: &ClientConfig,
    ) -> KafkaResult<C> {
        config.create_with_context(self.clone())
    }
}

impl ClientContext for Watch {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(&self, _: Option<&str>) -> Result<OAuthToken, Box<dyn StdError>> {
        self.0.token()
    }

    fn log(&self, level: RDKafkaLogLevel, subject: &str, line: &str) {
        self.0.logged(level, subject, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        self.0.failed(&error, reason);
    }

    fn stats_raw(&self, statistics: &[u8]) {
        log::debug!(target: "librdkafka", "statistics: {}", String::from_utf8_lossy(statistics));
        self.0.ends.take(statistics);
    }
}

impl ConsumerContext for Watch {}

impl ProducerContext for Watch {
    type DeliveryOpaque = ();

    /// Transactions fail where a record was not delivered.
    fn delivery(&self, _: &DeliveryResult<'_>, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::types::RDKafkaConfRes;

    const TIMED_OUT: KafkaError = KafkaError::MetadataFetch(Code::BrokerTransportFailure);

    #[test]
    fn what_is_said_again_and_again_is_counted() {
        let (mut saying, begun) = (Saying::default(), Instant::now());
        let mut at = |like, seconds| saying.again(like, begun + Duration::from_secs(seconds));
        assert_eq!(
            [at("FAIL", 0), at("GETPID", 1), at("FAIL", 2), at("FAIL", 29)],
            [Some(0), Some(0), None, None]
        );
        assert_eq!([at("FAIL", 30), at("FAIL", 31), at("GETPID", 90)], [Some(2), None, Some(0)]);
    }

    #[test]
    fn a_transaction_that_may_not_have_its_topic_has_failed_for_that() {
        let connections = Connections::default();
        let needs = Needs::topic("`Write`", "orders");
        let failed = KafkaError::MessageProduction(Code::State);
        assert!(!connections.are_hopeless(&needs, &failed));
        let line = "[thrd:main]: failed to add partition \"orders\" [0] to transaction: Broker: Topic authorization failed";
        connections.logged(RDKafkaLogLevel::Error, "ADDPARTS", line);
        assert!(connections.are_hopeless(&needs, &failed));
        let error = connections.error("commit", &needs, failed);
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(
            error.message().ends_with("do not authorize `Write` on the topic `orders`"),
            "{error}"
        );
    }

    #[test]
    fn an_error_has_what_was_said_of_the_connection() {
        let connections = Connections::default();
        let error = connections.error("ask", &Needs::default(), TIMED_OUT);
        assert!(error.message().starts_with("cannot ask: no broker has answered;"), "{error}");
        connections.failed(&KafkaError::Global(Code::Authentication), "no such user");
        connections.failed(&KafkaError::Global(Code::AllBrokersDown), "1/1 brokers are down");
        let error = connections.error("ask", &Needs::default(), TIMED_OUT);
        assert_eq!(error.kind(), ErrorKind::Config);
        let expected =
            "cannot ask: no such user; see `sasl.mechanism`, `sasl.username` and `sasl.password`";
        assert_eq!(error.message(), expected);
        // What brokers have answered has nothing to do with connections.
        let answered = KafkaError::MetadataFetch(Code::InvalidTopic);
        assert_eq!(connections.error("ask", &Needs::default(), answered).message(), "cannot ask");
        assert!(connections.are_hopeless(&Needs::default(), &TIMED_OUT));
        connections.work();
        assert_eq!(connections.error("ask", &Needs::default(), TIMED_OUT).message(), "cannot ask");
    }

    #[test]
    fn what_has_worked_is_given_up_when_it_is_refused_and_not_when_it_is_lost() {
        let is_given_up = |code, reason: &str| {
            let connections = Connections::default();
            connections.work();
            connections.failed(&KafkaError::Global(code), reason);
            connections.failed(&KafkaError::Global(Code::BrokerTransportFailure), "refused");
            let given_up = connections.are_refused();
            assert_eq!(connections.are_hopeless(&Needs::default(), &TIMED_OUT), given_up);
            if given_up {
                let error = connections.refused();
                assert_eq!(error.kind(), ErrorKind::Config);
                assert!(error.message().contains(reason), "{error}");
            }
            given_up
        };
        assert!(is_given_up(Code::Authentication, "SASL authentication error: no such user"));
        assert!(is_given_up(Code::SSL, "SSL handshake failed: certificate verify failed"));
        assert!(is_given_up(Code::BrokerTransportFailure, "tlsv13 alert: SSL alert number 116"));
        assert!(!is_given_up(Code::Authentication, "handshake failed: Local: Timed out"));
        assert!(!is_given_up(Code::Authentication, "handshake failed: Broker transport failure"));
        assert!(!is_given_up(Code::SSL, "SSL handshake failed: Disconnected: certificate?"));
        let too_soon = "handshake failed: Broker: Request not valid in current SASL state";
        assert!(!is_given_up(Code::Authentication, too_soon));
        assert!(!is_given_up(Code::BrokerTransportFailure, "Connect failed"));
    }

    #[test]
    fn what_follows_from_a_missing_token_is_tried_again_and_a_panic_is_not() {
        let failed = |tokens: Tokens| {
            let connections = Connections::with(tokens);
            assert!(connections.token().is_err());
            connections.work();
            // The last token has expired meanwhile.
            connections.failed(&KafkaError::Global(Code::Authentication), "invalid_token");
            (connections.are_refused(), connections.error("ask", &Needs::default(), TIMED_OUT))
        };
        let (is_refused, error) = failed(Tokens::new("a:1", || Err("no answer")));
        assert!(!is_refused);
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.message(), "cannot ask: there is no token for a:1: no answer");
        let (is_refused, error) =
            failed(Tokens::new("a:1", || -> Result<_, &str> { panic!("no") }));
        assert!(is_refused);
        assert_eq!(error.kind(), ErrorKind::Panic);
        assert!(error.message().ends_with("the closure of `tokens` panicked: no"), "{error}");
    }

    #[test]
    fn a_closed_connection_is_said_unless_more_is_known() {
        let connections = Connections::default();
        let line = "[thrd:a:9092/1]: a:9092/1: Disconnected";
        connections.logged(RDKafkaLogLevel::Info, "FAIL", line);
        assert!(!connections.are_hopeless(&Needs::default(), &TIMED_OUT));
        let error = connections.error("ask", &Needs::default(), TIMED_OUT);
        assert_eq!(
            (error.kind(), error.message()),
            (ErrorKind::Io, "cannot ask: a:9092/1: Disconnected")
        );
        connections.failed(&KafkaError::Global(Code::SSL), "an alert");
        connections.logged(RDKafkaLogLevel::Info, "FAIL", line);
        assert_eq!(
            connections.error("ask", &Needs::default(), TIMED_OUT).message(),
            "cannot ask: an alert"
        );
    }

    #[test]
    fn settings_that_need_a_feature_name_it() {
        let refused = |what: &str| {
            let what = what.to_owned();
            let result = RDKafkaConfRes::RD_KAFKA_CONF_INVALID;
            error("make", KafkaError::ClientConfig(result, what, String::new(), String::new()))
        };
        let text = "Unsupported value \"ssl\" for configuration property \"security.protocol\": \
                    OpenSSL not available at build time";
        let error = refused(text);
        assert_eq!(error.kind(), ErrorKind::Config);
        assert!(error.message().contains("feature `tls`"), "{error}");
        assert!(!refused("No such configuration property").message().contains("feature"));
    }

    /// As librdkafka itself says it, of what this build does not have.
    #[test]
    fn what_the_build_does_not_have_is_refused_with_its_feature() {
        let refused = |settings: &[(&str, &str)], feature: &str| {
            let mut config = ClientConfig::new();
            settings.iter().for_each(|(name, value)| _ = config.set(*name, *value));
            let made: KafkaResult<rdkafka::producer::BaseProducer<Watch>> =
                Watch::default().client(&config);
            let error = error("make a client of Kafka", made.err().unwrap());
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.message().contains(&format!("feature `{feature}`")), "{error}");
        };
        if cfg!(not(feature = "zstd")) {
            refused(&[("compression.codec", "zstd")], "zstd");
        }
        if cfg!(not(feature = "gssapi")) {
            refused(&[("security.protocol", "sasl_plaintext")], "gssapi");
        }
        if cfg!(not(any(feature = "tls", feature = "gssapi"))) {
            refused(&[("security.protocol", "ssl")], "tls");
            refused(&[("security.protocol", "SASL_SSL")], "tls");
            refused(&[("ssl.ca.location", "ca.pem")], "tls");
            let scram =
                [("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "SCRAM-SHA-256")];
            refused(&scram, "tls");
            let tokens =
                [("security.protocol", "sasl_plaintext"), ("sasl.mechanism", "OAUTHBEARER")];
            refused(&tokens, "tls");
        }
    }
}
